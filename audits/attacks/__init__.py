"""Attacks, one a file, behind one protocol that names what each needs.

extraction         identifiers of private records in released text
label_probability  Duan et al.: the true label's probability under the prompted model
reference          loss with the private context minus the same model's loss without it
one_step           a mechanism's own release, on inputs chosen to tell two neighbours apart
"""

if __name__ != "affidavit.audits.attacks":
    raise ImportError("import affidavit.audits.attacks, not the bare folder")
