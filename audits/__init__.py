"""Audits: attacks that try to prove a certificate false, and statistics that say what they could have noticed.

    run              an AUDIT file, a claim and the run under test in; findings out
    under_test       what an attack may ask the run under test for
    auditfile        what AUDIT.toml may say
    table_remedies   what a wrong key of such a table could be (of a run file's tables, too)
    attacks/         one attack a file, behind one protocol that names what it needs
    experiments/     an attack, run as often as its statistics ask, against a claim; registry: which there are
    statistics/      valid lower bounds, ceilings, intervals (no model, no text)
    certified        the claim under test: a certificate's, or a part of its plan's
    self_tests       an audit that cannot see a planted fault gives no verdict
    verdict          VIOLATION, CONSISTENT or UNDERPOWERED
    finding          one finding: a header, and what its kind of audit has to say
    findings         what is written down: digests and numbers, never private text
    sentences        what a finding measured, in words
    pii, guessing    identifiers in text, and which of them anyone could have guessed
    exposure         leaks counted per identifier, record and user
    leaks            what leaked, as findings write it down
    overlap, words   passages that released text shares with private records
    deduplicate      near-copies between members and held-out records
    usefulness       how good the released text is: noise leaks nothing
    trace/           what a generator says that it drew, held against its plan
    neighbour        with equal noise on neighbouring data, what else moved
    sensitivity      with equal outcomes, whether what is hidden moves by no more than the plan states
    checks           what those three say, as findings
    faults           the published faults that they look for
    formats/         findings as JUnit, SARIF and Markdown
    report/          the findings as one page

Nothing here imports the generators: an audit is handed a ``TextModel`` and a ``RunUnderTest``.
"""

if __name__ != "affidavit.audits":
    raise ImportError("import affidavit.audits, not the bare folder: a second copy would be a second registry")
