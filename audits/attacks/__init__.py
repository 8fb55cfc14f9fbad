"""Attacks, one a file, behind one protocol that names what each needs and what its score means.

On what a prompted model answers:
gap                whether it gives the record's label
inquiry            whether it says that it has seen the record
repeat             whether it finishes the record's text
brainwash          how often it must be told a wrong label

On its probabilities:
label_probability  Duan et al.: of the true label
loss               of the record's text
reference          of the text, against the same model without the private context
zlib_ratio         of the text, against its compressed length
min_k              of the text's least likely tokens
min_k_plus_plus    the same, against the whole next-token distributions
rmia, lira         of the label, against prompts of the attacker's own (shadow)

extraction         identifiers of private records in released text; ``canary``: of records made for it
one_step           a mechanism's own release, on inputs chosen to tell two neighbours apart (cases)
"""

if __name__ != "affidavit.audits.attacks":
    raise ImportError("import affidavit.audits.attacks, not the bare folder")
