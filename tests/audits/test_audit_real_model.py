"""The attacks on SmolLM2 and real records: an attack that never succeeds proves nothing.

Figures are asserted, addresses never shown. Measured on larger samples: the few-shot prompt finds 77 of
200 addresses; over 50 runs with a real DBpedia record in the prompt, AUC .911 (label probability) and
1.000 (reference).
"""

from __future__ import annotations

import json

import pytest

from affidavit.accountant.plan import Exponential
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.auditfile import parse_audit
from affidavit.audits.certified import Certified
from affidavit.audits.given import Material
from affidavit.audits.run import run_audit
from affidavit.audits.textmodel import Record, TextModel
from support.models import smollm2
from support.real_data import real_data

ENRON, DBPEDIA = "enron/aeslc_train_pii.jsonl", "dbpedia14/train.jsonl"

pytestmark = [pytest.mark.model, pytest.mark.slow]

CERTIFIED = Certified(
    relation="zero-out", epsilon=1.0, delta=1e-5, plan=Exponential(1.0), curve=PrivacyCurve(((1.0, 1e-5),))
)


@pytest.fixture(scope="module")
def model() -> TextModel:
    return smollm2()


@pytest.mark.data(ENRON)
def test_unprotected_extraction_leaks_real_addresses(model: TextModel) -> None:
    rows = map(json.loads, real_data(ENRON).read_text(encoding="utf-8").splitlines())
    records = [Record(row["id"], row["body"]) for row in rows if len(row["body"]) < 500]
    audit = parse_audit({"attack": "extraction", "target": "unprotected", "members": 15, "non_members": 15, "runs": 2})
    findings = run_audit(audit, CERTIFIED, Material(records=records, model=model))
    item = findings.items[0]
    assert item.leakage.beyond_guessable >= 3
    assert item.leakage.held_out_leaked == 0
    assert all(test.passed for test in findings.self_tests)
    assert findings.exit_code == 1
    assert "@" not in findings.to_json()


@pytest.mark.data(DBPEDIA)
@pytest.mark.parametrize(("attack", "at_least"), [("label-probability", 0.7), ("reference", 0.95)])
def test_a_real_record_in_the_prompt_is_recognised(model: TextModel, attack: str, at_least: float) -> None:
    rows = map(json.loads, real_data(DBPEDIA).read_text(encoding="utf-8").splitlines())
    records = [Record(row["id"], row["text"], row["label"]) for row in rows][::30]
    audit = parse_audit(
        {"attack": attack, "target": "unprotected", "members": 10, "non_members": 10, "runs": 10, "seed": 1}
    )
    findings = run_audit(audit, CERTIFIED, Material(records=records, model=model))
    assert findings.items[0].auc >= at_least
    assert {test.name: test.observed for test in findings.self_tests}["null pair"] == "not caught"
