"""Audits: attacks that try to prove a certificate false, and statistics that say what they could have noticed.

    statistics/      valid lower bounds, ceilings, intervals (no model, no text)
    attacks/         one attack a file, behind one protocol that names what it needs
    verdict          VIOLATION, CONSISTENT or UNDERPOWERED
    pii, guessing    identifiers in text, and which of them anyone could have guessed
    deduplicate      near-copies between members and held-out records
    self_tests       an audit that cannot see a planted fault gives no verdict
    findings         what is written down: digests and numbers, never private text
    run              an AUDIT file, a certificate and callables in; findings out

Nothing here imports the generators: an audit is handed a ``TextModel`` and callables.
"""

if __name__ != "affidavit.audits":
    raise ImportError("import affidavit.audits, not the bare folder: a second copy would be a second registry")
