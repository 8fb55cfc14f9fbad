"""Whole audits on small models: verdicts, self-tests, refusals, and nothing private in what is written."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import DataError, RunFileError, UsageError
from affidavit.accountant.plan import Exponential, Repeat
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.attacks.caching import Remembering
from affidavit.audits.attacks.extraction import PROMPTS, Extraction, ExtractionPrompt, prompt_named
from affidavit.audits.attacks.label_probability import LabelProbability
from affidavit.audits.attacks.protocol import View
from affidavit.audits.attacks.reference import Reference
from affidavit.audits.auditfile import AuditFile, load_audit, parse_audit
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.extraction import BLANK, candidates, tally
from affidavit.audits.findings import Findings, read, write
from affidavit.audits.given import Material
from affidavit.audits.run import run_audit
from affidavit.audits.textmodel import Record, TextModel
from tests.support.under_test import under_test

CANARY = "zephyrquillcanary"


@dataclass
class EchoModel:
    """Repeats the record it is shown; finds a text likely exactly when its prompt holds it."""

    name: str = "echo"
    digest: str = "00" * 32
    asked: list[str] = field(default_factory=list)

    def generate(self, prompts: Sequence[str], **_: object) -> list[str]:
        return [prompt.split("Text: ")[-1] for prompt in prompts]

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        self.asked.extend(prompts)
        return [
            -0.01 * len(continuation) if prompt.count(continuation.strip()) else -1.0 * len(continuation)
            for prompt, continuation in zip(prompts, continuations, strict=True)
        ]


def _records(count: int = 40) -> list[Record]:
    words = np.random.default_rng(0).choice(["amber", "birch", "cedar", "delta", "ember", "fjord"], size=(count, 30))
    return [
        Record(
            f"record-{i}",
            f"{CANARY} note {i}: {' '.join(words[i])} please answer {CANARY}.{i}@corp{i}.example soon",
            ("north", "south")[i % 2],
        )
        for i in range(count)
    ]


def _certified(epsilon: float = 1.0, relation: str = "zero-out") -> Certified:
    return Certified(
        relation=relation,  # type: ignore[arg-type]
        epsilon=epsilon,
        delta=1e-5,
        plan=Repeat(4, Exponential(0.5)),
        curve=PrivacyCurve(((epsilon, 1e-5),)),
        sha256="ab" * 32,
    )


def _audit(**changes: object) -> AuditFile:
    return parse_audit({"attack": "extraction", "members": 20, "non_members": 20, "seed": 5, **changes})


def _nothing(
    records: Sequence[Record], prompt: ExtractionPrompt, *, max_tokens: int, epsilon: float, seed: int
) -> list[str]:
    return ["nothing of note"]


def _everything(
    records: Sequence[Record], prompt: ExtractionPrompt, *, max_tokens: int, epsilon: float, seed: int
) -> list[str]:
    return [record.text for record in records]


def _material(**changes: Any) -> Material:
    return Material(**({"records": _records(), "model": EchoModel()} | changes))


def _extraction(audit: AuditFile, generate: Callable[..., Any] | None = None) -> Findings:
    return run_audit(audit, _certified(), _material(), under_test(generate=generate))


def test_the_stand_in_is_a_text_model() -> None:
    assert isinstance(EchoModel(), TextModel)


def test_an_echo_generator_leaks_everything() -> None:
    findings = _extraction(_audit(), _everything)
    item = findings.items[0]
    assert item.leakage.share == 1.0
    assert item.leakage.leaked == len(item.leakage.leaks) == item.n_members > 10
    assert item.leakage.held_out_leaked == 0
    assert item.verdict == "VIOLATION"
    assert item.epsilon_lower == pytest.approx(_all_right(item.n_members + item.n_non_members), abs=0.01)
    assert findings.exit_code == 1


def _all_right(coins: int) -> float:
    """ε of all coins told right: q^m is half of α, the other half being for those that were named (δ left aside)."""
    q = 0.025 ** (1 / coins)
    return math.log(q / (1 - q))


def test_a_silent_generator_leaks_nothing_and_the_attack_is_shown_to_work() -> None:
    findings = _extraction(_audit(), _nothing)
    protected, control = findings.items
    assert (protected.leakage.leaked, protected.epsilon_lower, protected.verdict) == (0, 0.0, "CONSISTENT")
    assert (control.target, control.control, control.verdict) == ("unprotected", True, "LEAKED")
    assert (control.claim, control.badge) == (None, "LEAKED, AS IT MUST")
    assert [test.passed for test in findings.self_tests] == [True, True]
    assert findings.exit_code == 0


def test_every_epsilon_is_an_item_with_its_own_power() -> None:
    findings = _extraction(_audit(epsilons=[1.0, 4.0, 8.0]), _nothing)
    assert [item.verdict for item in findings.audited] == ["CONSISTENT", "UNDERPOWERED", "UNDERPOWERED"]
    assert [item.claim.epsilon for item in findings.audited if item.claim] == [1.0, 4.0, 8.0]
    assert findings.exit_code == 5


@pytest.mark.parametrize(("target", "code"), [("unprotected", 1), ("null", 0)])
def test_other_targets(target: str, code: int) -> None:
    findings = _extraction(_audit(target=target))
    assert [item.target for item in findings.audited] == [target]
    assert findings.exit_code == code


def test_an_attack_that_never_succeeds_makes_the_audit_inconclusive() -> None:
    class Mute(EchoModel):
        def generate(self, prompts: Sequence[str], **_: object) -> list[str]:
            return ["" for _ in prompts]

    findings = run_audit(_audit(), _certified(), _material(model=Mute()), under_test(generate=_nothing))
    assert findings.outcome == "inconclusive"
    assert findings.exit_code == 5


def test_addresses_that_anyone_could_guess_are_no_leak() -> None:
    people = ["Ada Lark", "Ben Moor", "Cleo Nash", "Dov Pine", "Eva Reed", "Finn Sole", "Gail Tarn", "Hugo Umber"]
    records = [
        Record(str(i), f"Dear {name}, item {i * 37} of {i}; write {name.lower().replace(' ', '.')}@corp{i}.example")
        for i, name in enumerate(people)
    ]
    findings = run_audit(
        _audit(members=4, non_members=4, target="unprotected"), _certified(), _material(records=records)
    )
    item = findings.items[0]
    assert item.leakage.leaked
    assert item.leakage.leaked == item.leakage.guessable
    assert item.leakage.beyond_guessable == 0
    assert all(leak.guessable for leak in item.leakage.leaks)


def test_a_generator_that_invents_held_out_addresses_is_no_evidence() -> None:
    """Every candidate's address, in or out: right guesses are a coin's, and ε stays 0."""
    addresses = [record.text for record in _records()]
    findings = _extraction(_audit(), lambda *_, **__: addresses)
    item = findings.items[0]
    assert item.epsilon_lower == 0.0
    assert item.leakage.held_out_leaked == item.n_non_members


def test_shared_addresses_and_near_copies_are_no_candidates() -> None:
    records = _records(10)
    twin = Record("twin", records[0].text.replace("soon", "now"))
    sharing = [Record(f"s{i}", f"quite another text number {i * 91} about {i}: shared@corp.example") for i in (1, 2)]
    pool = candidates([*records, twin, *sharing], Extraction(), PROMPTS[0], count=10)
    assert {record.id for record in pool.records} == {record.id for record in records}
    assert pool.dropped == 1
    with pytest.raises(DataError, match="10 records hold") as caught:
        candidates([*records, twin, *sharing], Extraction(), PROMPTS[0], count=11)
    assert "`members = 5`" in caught.value.hint


def test_out_means_absent_or_blank_as_the_relation_says() -> None:
    seen: dict[str, list[Sequence[Record]]] = {"zero-out": [], "substitution": []}
    pool = candidates(_records(), Extraction(), PROMPTS[0], count=40)
    for relation, calls in seen.items():

        def keep(records: Sequence[Record], seed: int, calls: list[Sequence[Record]] = calls) -> list[str]:
            calls.append(records)
            return []

        tally(pool, keep, Extraction(), relation=relation, runs=3, seed=1)  # type: ignore[arg-type]
    for absent, blank in zip(*seen.values(), strict=True):
        assert len(blank) == 40
        assert [r for r in blank if r.text != BLANK] == list(absent)
        assert 0 < len(absent) < 40


def test_coins_are_fair_fresh_and_move_with_the_seed() -> None:
    pool = candidates(_records(), Extraction(), PROMPTS[0], count=40)

    def members(seed: int) -> list[frozenset[str]]:
        runs: list[frozenset[str]] = []
        tally(
            pool,
            lambda records, _: runs.append(frozenset(r.id for r in records)) or [],  # type: ignore[func-returns-value]
            Extraction(),
            relation="zero-out",
            runs=50,
            seed=seed,
        )
        return runs

    one = members(1)
    assert one == members(1) != members(2)
    assert len(set(one)) == 50
    assert abs(sum(map(len, one)) / (50 * 40) - 0.5) < 4 * 0.5 / math.sqrt(50 * 40)


@pytest.mark.parametrize("attack", ["label-probability", "reference"])
def test_membership_audit(attack: str) -> None:
    audit = _audit(attack=attack, members=10, non_members=10, runs=30)
    model = EchoModel()
    findings = run_audit(
        audit,
        _certified(),
        _material(model=model),
        under_test(demonstrate=lambda *_, **__: [Record("made", "a made text", "north")]),
    )
    protected, control = findings.items
    assert protected.epsilon_lower is control.epsilon_lower is None  # no ε from scores that share a demonstration
    assert protected.runs == 30
    assert protected.interval[0] <= 0.5 <= protected.interval[1]
    # One swap is two steps of ε = 1: A = g(g(1 − A)), by hand 1 − e^{−1}/2 up to δ.
    assert protected.limit == pytest.approx(1 - math.exp(-1) / 2, abs=3e-5)
    if attack == "reference":
        assert control.auc == 1.0
        assert all(test.passed for test in findings.self_tests)
    assert "approximate" in protected.interval_method


def test_membership_of_the_shown_record_violates_a_small_epsilon_when_runs_suffice() -> None:
    """60 runs at AUC 1 refute ε = .5 under substitution; 5 runs could not, and say so."""
    for runs, verdict in ((60, "VIOLATION"), (5, "UNDERPOWERED")):
        audit = _audit(attack="reference", target="unprotected", members=10, non_members=10, runs=runs)
        findings = run_audit(audit, _certified(0.5, "substitution"), _material())
        assert findings.items[0].verdict == verdict


def test_the_swap_limit_of_pure_dp_is_the_logistic() -> None:
    assert _certified(1.0, "substitution").swap_auc_limit() == pytest.approx(1 - (1 - 1e-5) / (1 + math.e), abs=1e-8)
    assert _certified(1.0, "zero-out").swap_auc_limit() > _certified(1.0, "substitution").swap_auc_limit()


def test_scoring_twice_gives_equal_scores_and_asks_once() -> None:
    model, records = EchoModel(), _records(6)
    for attack in (LabelProbability(), Reference()):
        view = View((LabelProbability().prompt.demonstration(records[0]),), model)
        remembering = Remembering(attack)
        first = remembering.scores(view, records)
        asked = len(model.asked)
        assert remembering.scores(view, records) == first == attack.scores(view, records)
        assert len(model.asked) - asked == len(records)  # the attack itself asked again, the memory did not
    assert Reference().scores(view, records[:1])[0] > Reference().scores(view, records[1:2])[0]


def test_one_step_audit_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "AUDIT.toml"
    path.write_text('attack = "one-step"\nmembers = 400\nnon_members = 400\n')
    certified = _certified()
    findings = run_audit(load_audit(path), certified, run=under_test(noise=SeededNoise(1)))
    assert findings.items[0].verdict == "CONSISTENT"
    assert {test.name for test in findings.self_tests} == {"noise off", "half noise", "null pair"}
    audit = _audit(attack="one-step", target="unprotected", members=100, non_members=100)
    off = run_audit(audit, certified, run=under_test(noise=SeededNoise(1)))
    assert off.items[0].verdict == "VIOLATION"
    assert off.exit_code == 1


def test_no_private_text_is_in_anything_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []
    for audit in (
        _audit(target="unprotected"),
        _audit(attack="reference", target="unprotected", members=10, non_members=10, runs=3),
    ):
        findings = run_audit(audit, _certified(), _material(), progress=told.append)
        path = tmp_path / f"{audit.attack}.json"
        write(findings, path)
        assert read(path) == findings
        written = path.read_text()
        assert json.loads(written)["items"]
        assert CANARY not in written
        assert "corp" not in written
    out, err = capsys.readouterr()
    assert CANARY not in out + err + caplog.text + " ".join(told)


def test_no_text_is_scored_twice_and_each_release_is_told() -> None:
    model, told = EchoModel(), []
    audit = _audit(runs=3, epsilons=[1.0, 4.0])
    material = _material(model=model)
    run_audit(audit, _certified(), material, under_test(generate=_nothing), progress=told.append)
    assert 1 < len(model.asked) <= audit.members + audit.non_members + 1, "records' own answers, and what is released"
    assert "extraction: protected, epsilon 1, release 1 of 6" in told
    assert any(line.startswith("extraction: protected, epsilon 4, release 4 of 6, about ") for line in told)


def test_errors_hold_no_private_text() -> None:
    with pytest.raises(DataError) as caught:
        _extraction(_audit(members=100), _nothing)
    assert CANARY not in str(caught.value)
    unlabelled = [Record(record.id, record.text) for record in _records()]
    with pytest.raises(DataError, match="no label") as caught:
        run_audit(_audit(attack="reference"), _certified(), _material(records=unlabelled))
    assert CANARY not in str(caught.value)


def test_what_an_attack_needs_and_is_not_given_is_said() -> None:
    with pytest.raises(UsageError, match="language model"):
        run_audit(_audit(), _certified(), _material(model=None))
    with pytest.raises(UsageError, match="writes no answer to a prompt") as caught:
        _extraction(_audit())
    assert "Define `generate`" in caught.value.hint
    with pytest.raises(UsageError, match="needs a model"):
        LabelProbability().scores(View(("x",)), _records(1))


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"atack": "extraction"}, "atack"),
        ({"attack": "guessing"}, "attack"),
        ({"members": 0}, "members"),
        ({"members": 2.5}, "members"),
        ({"members": True}, "members"),
        ({"runs": "many"}, "runs"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": float("nan")}, "alpha"),
        ({"seed": -1}, "seed"),
        ({"epsilons": [0.0]}, "epsilons"),
        ({"epsilons": [float("inf")]}, "epsilons"),
        ({"target": "none"}, "target"),
        ({"prompt": "rude"}, "prompt"),
        ({"policy": {"max_leaks": 1}}, "policy.max_leaks"),
        ({"policy": {"allow_underpowered": 1}}, "policy.allow_underpowered"),
        ({"attack": "one-step", "members": 10, "non_members": 20}, "non_members"),
        ({"attack": "one-step", "epsilons": [1.0]}, "epsilons"),
        ({"folder": "/"}, "folder"),
    ],
)
def test_a_wrong_key_of_an_audit_file_is_named(change: dict[str, object], key: str) -> None:
    with pytest.raises(RunFileError) as caught:
        _audit(**change)
    assert caught.value.key.startswith(key)


def test_a_near_miss_is_suggested_and_missing_keys_are_named() -> None:
    with pytest.raises(RunFileError) as caught:
        parse_audit({"atack": "extraction", "members": 3, "non_members": 3})
    assert caught.value.hint == "Did you mean `attack`?"
    with pytest.raises(RunFileError, match="members"):
        parse_audit({"attack": "extraction", "non_members": 3})


def test_files_that_are_no_audit_files(tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match="cannot be read: No such file"):
        load_audit(tmp_path / "AUDIT.toml")
    (tmp_path / "AUDIT.toml").write_text("attack = ")
    with pytest.raises(RunFileError, match="not TOML"):
        load_audit(tmp_path / "AUDIT.toml")


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    path = tmp_path / "AUDIT.toml"
    path.write_text('attack = "extraction"\nmembers = 3\nnon_members = 3\ndata = "held.jsonl"\nepsilons = [1, 4.0]\n')
    audit = load_audit(path)
    assert audit.data_path == tmp_path / "held.jsonl"
    assert audit.epsilons == (1.0, 4.0)


def test_prompts_hold_no_real_domain_and_surround_the_record() -> None:
    for prompt in PROMPTS:
        assert prompt_named(prompt.name) is prompt
        assert prompt.private("x  y\nz").startswith(prompt.before + "x y z")
        for identifier in Extraction().identifiers([prompt.public()]):
            assert identifier.value.endswith(".example")


def test_a_certificates_own_curve_is_what_counts() -> None:
    """Decimals become floats that are no smaller; points of negative ε say nothing to a test here."""
    from decimal import Decimal
    from types import SimpleNamespace

    def point(epsilon: str, delta: str) -> SimpleNamespace:
        return SimpleNamespace(epsilon=Decimal(epsilon), delta=Decimal(delta))

    certificate = SimpleNamespace(
        claims=(point("0.1", "1e-5"),),
        curve=(point("-1", "0.7"), point("0", "0.05"), point("0.3", "1e-9")),
        relation="zero-out",
        plan=Exponential(0.1),
        sha256="cd" * 32,
    )
    certified = Certified.of_certificate(certificate)  # type: ignore[arg-type]
    assert [epsilon for epsilon, _ in certified.curve.points] == pytest.approx([0.0, 0.1, 0.3])
    assert Decimal(certified.epsilon) >= Decimal("0.1")
    assert Decimal(certified.delta) >= Decimal("1e-5")
    assert certified.claim().epsilon == certified.epsilon
