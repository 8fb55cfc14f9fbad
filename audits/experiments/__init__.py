"""Experiments: an attack, run as often as its statistics ask, against what a certificate claims.

extraction   are identifiers of records in the text that was generated from them?
membership   does a prompted model betray which records its demonstration was made from?
per_run      does it betray one record, over many independent releases with it and without it?
echo         does the released text alone tell which canaries were in?
one_step     does a mechanism's own release keep to its certified trade-off curve?
released     what of private records stands in text that was released?

``run_*`` runs each as an audit file asks for it, with control and self-tests; ``registry`` says which there are.
"""

if __name__ != "affidavit.audits.experiments":
    raise ImportError("import affidavit.audits.experiments, not the bare folder")
