"""Plans, certificates, verifications, findings and reports in notebooks: numbers and names, nothing of the records."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from affidavit import certify, generate, load_run, plan_run, verify
from affidavit.audits.finding import ExtractionFinding
from affidavit.audits.findings import Findings, SelfTest
from affidavit.audits.leaks import Leak, Leakage
from affidavit.audits.report.inputs import Chapter, ReportInput
from affidavit.generation.outputs import Generated

CANARY = "jane.roe@example.org"


def finding(*, leaked=2, **changes):
    leaks = (Leak(identifier_hmac="f" * 64, kind="email", guessable=False, output=0, start=0, end=3),)
    return ExtractionFinding(
        **{
            "attack": "extraction",
            "target": "protected",
            "verdict": "CONSISTENT",
            "n_members": 30,
            "n_non_members": 30,
            "runs": 2,
            "alpha": 0.05,
            "correction": "none",
            "epsilon_lower": 0.123456789,
            "ceiling": 3.25,
            "leakage": Leakage(at_risk=30, leaked=leaked, guessable=1, held_out_leaked=0, leaks=leaks),
            "note": CANARY,
            **changes,
        }
    )


def shown(value) -> str:
    """Both forms."""
    return f"{value!r}\n{value._repr_html_()}"


@pytest.fixture
def certified(workplace):
    return certify(load_run(workplace.run_file), keyring=workplace.keyring)


def test_a_planned_run_says_whether_it_fits(workplace):
    planned = plan_run(load_run(workplace.run_file))
    assert repr(planned).startswith("PlannedRun(prism costs ε <= ")
    assert repr(planned).endswith("zero-out; fits the budget of 4)")
    workplace.edit("epsilon = 4.0", "epsilon = 0.5")
    assert "does not fit the budget of 0.5" in repr(plan_run(load_run(workplace.run_file)))
    assert "letters, 24 records" in planned._repr_html_()


def test_certificates_and_verifications_show_the_claim_and_no_function_of_the_data(workplace, certified):
    certificate = certified.certificate
    checked = verify(certified.envelope, recompute=True, trusted=workplace.keyring.trusted())
    claim = f"ε <= {certificate.claim.epsilon} at δ = 0.001, zero-out, 24 records"
    assert repr(certificate) == f"Certificate({claim})"
    assert repr(certified) == f"CertifiedRun({claim})"
    assert repr(checked) == f"Verification(holds: {claim})"
    for value in (certificate, certified, checked):
        text = shown(value)
        assert certificate.data_commitment not in text
        assert certificate.data_salt not in text
        assert "<table>" in text
    assert "wind number" not in shown(certified) + shown(checked)


def test_a_certificate_of_seeded_noise_says_first_that_it_protects_nobody(workplace):
    workplace.edit("[model]", "[randomness]\nnoise = {seed = 7}\n[model]")
    seeded = certify(load_run(workplace.run_file), keyring=workplace.keyring)
    assert repr(seeded).startswith("CertifiedRun(NO GUARANTEE: ε <= ")
    assert repr(verify(seeded.envelope, trusted=workplace.keyring.trusted())).startswith(
        "Verification(no guarantee: NO"
    )


def test_generated_text_is_shown_where_it_is_covered_and_a_trace_never(workplace, certified):
    made = generate(
        load_run(workplace.run_file), certificate=workplace.certificate, out=workplace.out, keyring=workplace.keyring
    )
    assert repr(made).startswith("Synthesis(2 texts in ")
    assert repr(made).endswith(", covered by a certificate)")
    assert all(sample.label in made._repr_html_() for sample in made.generated.samples)
    traced = replace(made.generated, trace=({"event": CANARY},))
    assert isinstance(traced, Generated)
    assert CANARY not in repr(traced)
    unprotected = replace(made, guarantee=False)
    assert "NO GUARANTEE" in repr(unprotected)
    assert "<table>" not in unprotected._repr_html_()


def test_findings_show_verdicts_and_counts_and_no_notes(certified):
    found = Findings(
        certificate_sha256=certified.certificate.sha256,
        items=(finding(), finding(target="unprotected", verdict="VIOLATION", control=True, leaked=20)),
        self_tests=(SelfTest(name="noise off", attack="extraction", expected="caught", observed="caught"),),
    )
    assert repr(found) == "Findings(policy-failed: 2 findings, 1 self-tests, 0 failed)"
    assert (
        repr(finding()) == "ExtractionFinding(extraction on protected: CONSISTENT, ε >= 0.123456, "
        "at most 3.25 could be shown, 2 leaked)"
    )
    report = ReportInput(
        title="<i>letters</i>",
        made=datetime(2026, 1, 1, tzinfo=UTC),
        chapters=(Chapter(certificate=certified.certificate, findings=found),),
    )
    assert repr(report) == "ReportInput(<i>letters</i>: 1 certificate)"
    for value in (found, found.items[0], report):
        assert CANARY not in shown(value)
        assert "f" * 64 not in shown(value)
    assert "<i>" not in report._repr_html_()
    assert "unprotected, control" in found._repr_html_()
