"""The search of released text: an echo leaks everything, held-out records are the counterfactual. All invented."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from affidavit.accountant.errors import DataError, RunFileError
from affidavit.accountant.plan import Gaussian, Repeat
from affidavit.audits.attacks.extraction import Extraction, prompt_named
from affidavit.audits.auditfile import AuditFile, parse_audit
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.extraction import candidates, extraction_finding, tally
from affidavit.audits.experiments.released import prepare_search
from affidavit.audits.finding import SearchFinding
from affidavit.audits.findings import Findings
from affidavit.audits.findings import read as read_findings
from affidavit.audits.findings import write as write_findings
from affidavit.audits.given import Material
from affidavit.audits.pii import KINDS, Pseudonyms
from affidavit.audits.run import run_audit
from affidavit.audits.textmodel import Record

SHARED = "desk@desk.example"
KINDS_HERE = ("email", "phone", "url", "account")


def _record(name: str, number: int) -> Record:
    words = random.Random(f"{name}{number}").choices([f"{name}word{i}" for i in range(99)], k=40)
    body = " ".join(words)
    return Record(
        f"{name}-{number}",
        f"{body} write to zq{name}{number}@mill.example or call (206) 555-01{number:02d}, "
        f"see https://mill.example/{name}/{number} or {SHARED}",
    )


MEMBERS = [_record("in", number) for number in range(6)]
HELD_OUT = [
    Record(record.id, record.text.replace("(206) 555-01", "(206) 555-02"))
    for record in (_record("out", number) for number in range(6))
]
USERS = {record.id: f"user-{number // 2}" for number, record in enumerate(MEMBERS)}


def _find(texts: list[str], **changes: object) -> SearchFinding:
    arguments = {"members": MEMBERS, "held_out": HELD_OUT, "detector": Extraction(KINDS_HERE), "alpha": 0.05}
    return prepare_search(**(arguments | changes)).finding(texts)  # type: ignore[arg-type]


def _claim() -> Certified:
    return Certified.of_plan(Repeat(2, Gaussian(4.0)), relation="zero-out", delta=1e-5)


def test_an_echo_leaks_everything() -> None:
    found = _find([record.text for record in MEMBERS], users=USERS)
    assert found.leakage.share == 1.0
    assert (found.leakage.leaked, found.leakage.held_out_leaked) == (18, 0)
    assert (found.overlap.verbatim, found.overlap.held_out_verbatim) == (6, 0)
    shown = {(item.kind, item.unit): (item.leaked, item.at_risk) for item in found.leakage.exposures}
    assert shown["any", "record"] == (6, 6)
    assert shown["any", "user"] == (3, 3)
    assert {kind for kind, _ in shown} == {"email", "phone", "url", "any"}


def test_an_echo_of_others_is_the_counterfactual() -> None:
    found = _find([record.text for record in HELD_OUT])
    assert (found.leakage.leaked, found.leakage.held_out_leaked) == (0, 18)
    assert (found.overlap.verbatim, found.overlap.held_out_verbatim) == (0, 6)
    assert {(item.leaked, item.held_out_leaked, item.held_out_at_risk) for item in found.leakage.exposures if
            item.unit == "record"} == {(0, 6, 6)}  # fmt: skip


def test_what_both_sides_hold_is_no_leak() -> None:
    assert _find([f"please write to {SHARED}"]).leakage.leaked == 0


def test_one_address_counts_once_however_written() -> None:
    found = _find(["ZQin1@Mill.example", "<zqin1@mill.example>", "zqin1 [at] mill [dot] example"])
    assert found.leakage.leaked == 1
    assert len(found.leakage.leaks) == 3
    assert len({leak.identifier_hmac for leak in found.leakage.leaks}) == 1
    assert [leak.output for leak in found.leakage.leaks] == [0, 1, 2]


def test_near_copies_of_held_out_records_are_dropped_and_counted() -> None:
    copied = Record("copied", HELD_OUT[0].text + " PS")
    found = _find([copied.text], members=[*MEMBERS, copied])
    assert (found.leakage.dropped_near_copies, found.members, found.leakage.leaked) == (1, 6, 0)
    with pytest.raises(DataError, match="every member nearly copies"):
        _find([], members=[copied])


def test_guessable_addresses_are_told_apart() -> None:
    member = Record("g", "Jane Roe asked, jane.roe@corp.example answered; also moonbeam7@corp.example and corp.example")
    found = _find([member.text], members=[member], detector=Extraction(("email", "url")))
    assert (found.leakage.leaked, found.leakage.guessable) == (3, 2), "the address by its rule, and the front page"
    assert found.leakage.beyond_guessable == 1


def _audit(**changes: object) -> AuditFile:
    content = {"attack": "released-text", "released": "r.jsonl", "held_out": "h.jsonl", "kinds": list(KINDS_HERE)}
    return parse_audit(content | changes)


def _material(records: list[Record], texts: list[str], users: dict[str, str] | None = None) -> Material:
    return Material(records=records, released=texts, held_out=HELD_OUT, users=users)


def _run(texts: list[str], **changes: object) -> Findings:
    return run_audit(_audit(**changes), _claim(), _material(MEMBERS, texts, USERS))


def test_phone_numbers_are_read_in_the_region_that_the_file_names() -> None:
    member = Record("de", "Bitte unter 030 901820 anrufen oder spaeter noch einmal schreiben")
    found = {}
    for region in ("DE", "US"):
        audit = _audit(kinds=["phone"], region=region)
        (item,) = run_audit(audit, _claim(), _material([member], ["+49 30 901820"])).items
        found[region] = item.leakage.leaked
    assert found == {"DE": 1, "US": 0}


def test_clean_text_holds_and_tests_no_epsilon() -> None:
    found = _run(["The harbour is open from nine to five."])
    assert found.outcome == "holds"
    assert found.exit_code == 0
    (item,) = found.items
    assert item.verdict == "COUNTED"
    assert not item.is_test
    assert [test.passed for test in found.self_tests] == [True, True]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("call (206) 555-0103", "1 leaked beyond the guessable, 0 allowed"),
        (" ".join(MEMBERS[2].text.split()[:24]), "1 texts with 20 words in a row of a private record, 0 allowed"),
    ],
)
def test_leaks_break_the_policy(text: str, reason: str) -> None:
    found = _run(["nothing here", text])
    assert [(outcome, why.partition(": ")[2]) for outcome, why in found.outcomes()] == [("policy-failed", reason)]
    assert found.exit_code == 1
    assert _run([text], policy={"max_leaked": 1, "max_verbatim": 1}).exit_code == 0


def test_a_policy_that_tolerates_an_echo_fails_the_self_test() -> None:
    found = _run(["clean"], policy={"max_leaked": 1000, "max_verbatim": 1000})
    assert found.outcome == "inconclusive"
    assert found.exit_code == 5


def test_findings_are_written_without_a_word_of_the_records(tmp_path: Path) -> None:
    found = _run([record.text for record in MEMBERS])
    write_findings(found, tmp_path / "findings.json")
    assert read_findings(tmp_path / "findings.json") == found
    written = re.sub(r"\b[0-9a-f]{32,64}\b", "", (tmp_path / "findings.json").read_text(encoding="utf-8"))
    for secret in ("zqin", "mill.example", "555-01", "5550", "inword", "in-1", "user-1"):
        assert secret not in written


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"members": 3}, "members"),
        ({"held_out": None}, "held_out"),
        ({"kinds": []}, "kinds"),
        ({"kinds": ["fax"]}, "kinds"),
        ({"region": "Atlantis"}, "region"),
        ({"attack": "extraction", "members": 2, "non_members": 2, "held_out": None}, "released"),
        ({"attack": "extraction", "released": None, "held_out": None}, "members"),
    ],
)
def test_an_audit_file_that_does_not_fit_its_attack_is_refused(changes: dict[str, object], key: str) -> None:
    content = {"attack": "released-text", "released": "r.jsonl", "held_out": "h.jsonl"} | changes
    with pytest.raises(RunFileError) as refused:
        parse_audit({name: value for name, value in content.items() if value is not None})
    assert refused.value.key.startswith(key)


def test_the_extraction_experiment_counts_every_kind_per_user() -> None:
    attack, prompt = Extraction(KINDS_HERE), prompt_named("plain")
    texts = [record.text.replace(SHARED, "") for record in MEMBERS]
    records = [Record(record.id, text) for record, text in zip(MEMBERS, texts, strict=True)]
    pool = candidates(records, attack, prompt, count=6)
    result = tally(pool, lambda inside, _: [r.text for r in inside], attack, relation="zero-out", runs=8, seed=3)
    found = extraction_finding(
        pool, result, attack, prompt, _claim(), target="unprotected", alpha=0.05, pseudonyms=Pseudonyms(), users=USERS
    )
    assert {item.kind for item in found.leakage.exposures} == {"email", "phone", "url", "any"}
    assert all(item.leaked == item.at_risk for item in found.leakage.exposures)  # echoed: all that was ever in leaks
    assert all(item.held_out_leaked == 0 < item.held_out_at_risk for item in found.leakage.exposures)
    assert max(item.at_risk for item in found.leakage.exposures if item.unit == "user") == 3
    assert {leak.kind for leak in found.leakage.leaks} == {"email", "phone", "url"}
    assert set(KINDS) >= {leak.kind for leak in found.leakage.leaks}
    json.dumps(Findings(certificate_sha256=None, items=(found,)).to_dict())


def _edited(record: Record) -> str:
    """Every eighth word another one: nowhere 20 in a row, nor an identifier."""
    words = record.text.split(" write to ")[0].split()
    return " ".join("other" if number % 8 == 7 else word for number, word in enumerate(words))


def test_who_changes_every_eighth_word_has_copied() -> None:
    findings = _run([_edited(record) for record in MEMBERS])
    (item,) = findings.items
    assert isinstance(item, SearchFinding)
    assert (item.leakage.leaked, item.overlap.verbatim) == (0, 0)
    near = item.overlap.near
    assert near is not None
    assert (near.near, near.held_out_near, near.records, near.held_out_records) == (6, 0, 6, 0)
    assert near.chance == pytest.approx(1 / 924), "the one way in which all six of twelve are members"
    assert findings.outcome == "policy-failed"
    assert "near copy" in findings.outcomes()[0][1]
    assert {(span.output, span.held_out, span.edits > 0) for span in near.spans} == {(n, False, True) for n in range(6)}
    assert _run([_edited(record) for record in MEMBERS], policy={"max_near_copies": 6}).outcome == "holds"
    assert not re.search(r"inword\d|outword\d", findings.to_json())


def test_near_copies_of_others_and_of_what_both_sides_hold_accuse_nobody() -> None:
    (others,) = _run([_edited(record) for record in HELD_OUT]).items
    assert (others.overlap.near.near, others.overlap.near.held_out_near) == (0, 6)
    footer = " ".join(f"footer{number}" for number in range(24))
    both = [[Record(record.id, f"{record.text} {footer}") for record in side] for side in (MEMBERS, HELD_OUT)]
    found = _find([footer.replace("footer9", "another")] * 9, members=both[0], held_out=both[1]).overlap.near
    assert found is not None
    assert (found.near, found.held_out_near, found.records, found.held_out_records) == (0, 0, 6, 6)
    assert found.chance == 1.0
    (few,) = (findings := _run([_edited(MEMBERS[0])])).items
    assert few.overlap.near.near == 1
    assert findings.outcome == "holds", "one near copy is as likely of a member as of another"
