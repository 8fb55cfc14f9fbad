"""Findings: format, schema, outcome and exit code; and that no private text is in anything written."""

from __future__ import annotations

import copy
import json
import stat
from collections.abc import Iterator
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from affidavit.accountant.errors import UsageError
from affidavit.audits.finding import Claim, ExtractionFinding, Finding, SearchFinding
from affidavit.audits.findings import (
    Findings,
    Policy,
    SelfTest,
    json_schema,
    merge,
    parse,
    read,
    write,
)
from affidavit.audits.leaks import Leak, Leakage, Overlap

CLAIM = Claim(epsilon=1.0, delta=1e-5, relation="zero-out")


def _item(*, leaked: int = 0, guessable: int = 0, leaks: tuple[Leak, ...] = (), **changes: object) -> Finding:
    item = ExtractionFinding(
        attack="extraction",
        target="protected",
        verdict="CONSISTENT",
        n_members=30,
        n_non_members=30,
        runs=1,
        claim=CLAIM,
        epsilon_lower=0.0,
        ceiling=3.67,
        alpha=0.05,
        correction="none",
        leakage=Leakage(
            at_risk=30, leaked=leaked, guessable=guessable, held_out_leaked=0, interval=(0.0, 0.1), leaks=leaks
        ),
    )
    return replace(item, **changes)  # type: ignore[arg-type]


def _searched(**changes: object) -> Finding:
    overlap = Overlap(
        words=20, texts=4, members=9, held_out=9, verbatim=0, held_out_verbatim=0, verbatim_interval=None, longest=0,
        held_out_longest=0, compared=9, rouge_l=None, held_out_rouge_l=None, highest_rouge_l=None, margin=None,
        margin_interval=None,
    )  # fmt: skip
    item = SearchFinding(
        attack="released-text", verdict="COUNTED", members=9, held_out=9, texts=4, alpha=0.05, overlap=overlap,
        leakage=Leakage(at_risk=9, leaked=0, guessable=0, held_out_leaked=0),
    )  # fmt: skip
    return replace(item, **changes)  # type: ignore[arg-type]


def _test(**changes: object) -> SelfTest:
    test = SelfTest(name="noise off", attack="extraction", expected="caught", observed="caught")
    return replace(test, **changes)  # type: ignore[arg-type]


def _findings(*items: Finding, tests: tuple[SelfTest, ...] = (), policy: Policy = Policy()) -> Findings:  # noqa: B008
    return Findings(certificate_sha256="ab" * 32, items=items, self_tests=tests, policy=policy)


def test_what_is_written_is_read_back_and_fits_the_packaged_schema(tmp_path: Path) -> None:
    leak = Leak(identifier_hmac="0" * 32, kind="email", guessable=False, output=0, start=3, end=9)
    findings = _findings(_item(leaked=1, leaks=(leak,)), tests=(_test(),))
    path = tmp_path / "deep" / "findings.json"
    write(findings, path)
    assert read(path) == findings
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["findings.json"]
    schema = json.loads(resources.files("affidavit.audits").joinpath("schemas/findings.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(path.read_text()), schema)


def test_the_packaged_schema_is_the_classes_schema() -> None:
    packaged = resources.files("affidavit.audits").joinpath("schemas/findings.schema.json").read_text()
    assert json.loads(packaged) == json_schema()


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"surprise": 1}, "surprise"),
        ({"items": [{}]}, "items.0"),
        ({"policy": {"max_leaked": "many"}}, "policy.max_leaked"),
        ({"schema": "something/else"}, "schema"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, change: dict[str, object], where: str) -> None:
    path = tmp_path / "findings.json"
    path.write_text(json.dumps({**_findings(_item()).to_dict(), **change}))
    with pytest.raises(UsageError, match=where) as caught:
        read(path)
    assert caught.value.hint


def test_a_wrong_field_of_a_finding_is_named_in_its_own_kind(tmp_path: Path) -> None:
    content = _findings(_searched(), _item()).to_dict()
    content["items"][1]["leakage"]["leaked"] = "many"
    path = tmp_path / "findings.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=r"items\.1\.leakage\.leaked: Input should be a valid integer"):
        read(path)


def test_what_an_earlier_version_wrote_is_refused_with_the_command_that_makes_it_again(tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    old = {"schema": "https://affidavit.dev/schemas/findings/v1", "items": [{"attack": "loss", "check": False}]}
    path.write_text(json.dumps(old))
    with pytest.raises(UsageError, match="findings/v1' is not known") as caught:
        read(path)
    assert "`affidavit audit AUDIT.toml --certificate CERT.json" in caught.value.hint


def _values(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value of a document that is no container, with its path."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inside is None:
        yield path, value
    for key, each in inside or ():
        yield from _values(each, (*path, key))


def _others(value: Any) -> list[Any]:
    if isinstance(value, bool):
        return [not value, None, 0]
    if isinstance(value, (int, float)):
        return [-value - 1, value + 1, 1e300, None, str(value)]
    return [None, "", f"{value}x", "CONSISTENT", 0]


def test_no_value_of_findings_can_change_unseen() -> None:
    """A verdict, a policy, a count, a note: whatever is changed or left out is refused, unless it says the same."""
    items = (_item(leaked=1, epsilon_lower=0.5), _searched())
    content = json.loads(_findings(*items, tests=(_test(),)).to_json())
    whole = parse(json.dumps(content))
    answers = {"refused": 0, "the same": 0}

    def read_changed(changed: Any) -> None:
        try:
            found = parse(json.dumps(changed))
        except UsageError:
            answers["refused"] += 1
        else:
            assert found == whole
            answers["the same"] += 1

    for path, value in _values(content):
        changed = copy.deepcopy(content)
        here: Any = changed
        for key in path[:-1]:
            here = here[key]
        for other in _others(value):
            here[path[-1]] = other
            read_changed(changed)
        del here[path[-1]]
        read_changed(changed)
    for part in ("items", "self_tests"):
        read_changed({**content, part: content[part][:-1]})
    assert answers["refused"] > 200
    assert answers["the same"] < 0.3 * answers["refused"], "a number as a text, a default left out"


@pytest.mark.parametrize("content", ["[" * 100_000, '{"schema": ' + "[" * 100_000])
def test_a_file_nested_too_deeply_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "findings.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=r"Make them again|Invalid JSON"):
        read(path)


def test_a_missing_file_says_which_command_makes_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "findings.json")
    assert "affidavit audit" in caught.value.hint


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "findings.json"
    write(_findings(_item()), path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write(_findings(_item(leaked=3)), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["findings.json"]


@pytest.mark.parametrize(
    ("items", "tests", "policy", "outcome", "code"),
    [
        ([_item()], [_test()], Policy(), "holds", 0),
        ([_item(verdict="VIOLATION")], [_test()], Policy(), "refuted", 1),
        ([_item(leaked=2, guessable=1)], [_test()], Policy(), "policy-failed", 1),
        ([_item(leaked=2, guessable=2)], [_test()], Policy(), "holds", 0),
        ([_item(leaked=2, guessable=0)], [_test()], Policy(max_leaked=2), "holds", 0),
        ([_item(verdict="UNDERPOWERED")], [_test()], Policy(), "inconclusive", 5),
        ([_item(verdict="UNDERPOWERED")], [_test()], Policy(allow_underpowered=True), "holds", 0),
        ([_item()], [_test(observed="not caught")], Policy(), "inconclusive", 5),
        ([_item()], [_test(name="null pair", expected="not caught")], Policy(), "inconclusive", 5),
        # a violation stands when only power is lacking, not when the audit raises false alarms
        ([_item(verdict="VIOLATION")], [_test(observed="not caught")], Policy(), "refuted", 1),
        ([_item(verdict="VIOLATION")], [_test(name="null pair", expected="not caught")], Policy(), "inconclusive", 5),
        # several outcomes: 1 before 5 before 0
        ([_item(), _item(verdict="UNDERPOWERED"), _item(verdict="VIOLATION")], [], Policy(), "refuted", 1),
        ([_item(verdict="UNDERPOWERED"), _item(leaked=1)], [], Policy(), "policy-failed", 1),
        # controls are shown and not counted
        ([_item(), _item(verdict="VIOLATION", leaked=9, control=True)], [], Policy(), "holds", 0),
        ([_item(control=True)], [], Policy(), "inconclusive", 5),
        ([], [], Policy(), "inconclusive", 5),
    ],
)
def test_outcomes_and_exit_codes(
    items: list[Finding], tests: list[SelfTest], policy: Policy, outcome: str, code: int
) -> None:
    findings = _findings(*items, tests=tuple(tests), policy=policy)
    assert findings.outcome == outcome
    assert findings.exit_code == code
    assert all(reason for _, reason in findings.outcomes())


def test_merging_keeps_everything_under_the_strictest_policy() -> None:
    one = _findings(_item(), policy=Policy(max_leaked=3, allow_underpowered=True))
    two = _findings(_item(attack="one-step"), tests=(_test(),), policy=Policy(max_leaked=1))
    both = merge([one, two])
    assert [item.attack for item in both.items] == ["extraction", "one-step"]
    assert both.policy == Policy(max_leaked=1, allow_underpowered=False)
    assert both.self_tests == two.self_tests


def test_an_audit_that_failed_its_self_test_casts_no_doubt_on_another() -> None:
    """The other refuted the claim, by the same attack: exit 1 alone, and it was 5 beside the first."""
    sound = _findings(_item(verdict="VIOLATION", epsilon_lower=9.0), tests=(_test(),))
    alarmed = _findings(
        _item(verdict="VIOLATION", epsilon_lower=9.0), tests=(_test(name="null pair", expected="not caught"),)
    )
    assert (sound.exit_code, alarmed.exit_code) == (1, 5)
    for parts in ([sound, alarmed], [alarmed, sound]):
        both = merge(parts)
        assert both.exit_code == 1
        assert len({item.attack for item in both.items}) == 2
        assert [outcome for outcome, _ in both.outcomes()] == ["refuted", "inconclusive"]
    assert merge([alarmed, alarmed]).exit_code == 5
    assert merge([alarmed, _findings(_item(attack="one-step"))]).items[0].attack == "extraction"


def test_merging_needs_one_certificate() -> None:
    with pytest.raises(UsageError, match="different certificates"):
        merge([_findings(_item()), replace(_findings(_item()), certificate_sha256="cd" * 32)])
    with pytest.raises(UsageError, match="no findings"):
        merge([])


def test_infinities_are_not_written() -> None:
    with pytest.raises(ValueError, match="Out of range"):
        _findings(_item(epsilon_lower=float("inf"))).to_json()


def test_a_failed_self_test_says_why() -> None:
    blind = _findings(_item(), tests=(_test(observed="not caught", detail="mean AUC 0.501"),))
    assert blind.outcomes() == (("inconclusive", "self-test: extraction did not catch 'noise off' (mean AUC 0.501)"),)
    alarmed = _findings(_item(), tests=(_test(name="null pair", expected="not caught"),))
    assert alarmed.outcomes() == (("inconclusive", "self-test: extraction found something in a null pair"),)


def test_the_level_of_a_report_is_the_sum_of_its_tests() -> None:
    counted = _searched(alpha=0.9)  # a count tests no claim
    findings = _findings(_item(alpha=0.02), _item(alpha=0.03), _item(alpha=0.5, control=True), counted)
    assert findings.total_alpha == pytest.approx(0.05)
    assert merge([findings, _findings(_item(alpha=0.01))]).total_alpha == pytest.approx(0.06)
