"""Audit files with several attacks, per-run games, endpoints and canaries: one level, valid verdicts, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import DataError, RunFileError, UsageError
from affidavit.accountant.plan import Exponential, Gaussian, Repeat
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.attacks.canary import CANARY_DOMAIN
from affidavit.audits.attacks.endpoint import PromptedEndpoint
from affidavit.audits.attacks.extraction import ExtractionPrompt
from affidavit.audits.attacks.reference import Reference
from affidavit.audits.auditfile import AuditFile, parse_audit
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.extraction import BLANK
from affidavit.audits.experiments.membership import Demonstrated
from affidavit.audits.experiments.per_run import per_run_finding, play, thresholded
from affidavit.audits.findings import Findings
from affidavit.audits.given import Material
from affidavit.audits.run import run_audit
from affidavit.audits.statistics.auc import ScoredRun
from affidavit.audits.textmodel import Record
from affidavit.generation.models.toy import ToyModel
from tests.support.under_test import under_test

LABELS = ("north", "south")


@dataclass
class CopyModel:
    """Finds a text likely exactly when its prompt holds it; answers with the end of its prompt's first text."""

    name: str = "copy"
    digest: str = "00" * 32
    asked: list[str] = field(default_factory=list)

    def generate(self, prompts: Sequence[str], **_: object) -> list[str]:
        return [prompt.split("Text: ")[-1] for prompt in prompts]

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        return [float(scores[:, 0].sum()) for scores in self.token_scores(prompts, continuations)]

    def token_scores(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[np.ndarray]:
        self.asked.extend(prompts)
        return [
            np.tile([-0.1 if text.strip() in prompt else -2.0, -3.0, 1.0], (len(text.split()), 1))
            for prompt, text in zip(prompts, continuations, strict=True)
        ]


def _records(count: int = 60) -> list[Record]:
    words = np.random.default_rng(0).choice(["amber", "birch", "cedar", "delta", "ember", "fjord"], size=(count, 20))
    return [Record(f"record-{i}", f"note {i * 37}: {' '.join(words[i])}", LABELS[i % 2]) for i in range(count)]


def _certified(epsilon: float = 1.0, relation: str = "zero-out") -> Certified:
    return Certified(
        relation=relation,  # type: ignore[arg-type]
        epsilon=epsilon,
        delta=1e-5,
        plan=Repeat(4, Exponential(0.5)),
        curve=PrivacyCurve(((epsilon, 1e-5),)),
    )


def _audit(**changes: object) -> AuditFile:
    return parse_audit({"attack": "reference", "members": 10, "non_members": 10, "seed": 5, **changes})


def _made(*_: object, **__: object) -> list[Record]:
    return [Record("made", "a made text", "north")]


def _run(audit: AuditFile, certified: Certified | None = None, **given: Any) -> Findings:
    material = {name: given.pop(name) for name in ("records", "model") if name in given}
    abilities = {"demonstrate": _made, **given}
    everything = Material(**({"records": _records(), "model": CopyModel()} | material))
    return run_audit(audit, certified or _certified(), everything, under_test(**abilities))


def test_several_attacks_share_one_level_and_what_they_are_shown() -> None:
    made: list[int] = []

    def demonstrate(records: Sequence[Record], *, epsilon: float, seed: int) -> list[Record]:
        made.append(seed)
        return _made()

    audit = _audit(attack=["loss", "reference", "zlib", "one-step"], epsilons=[0.5, 1.0], runs=30, alpha=0.07)
    findings = _run(audit, demonstrate=demonstrate, noise=SeededNoise(3))
    # 3 attacks at 2 ε and one one-step audit: 7 tests
    assert [(item.attack, item.alpha) for item in findings.audited] == [
        *((name, pytest.approx(0.01)) for name in ("loss", "loss", "reference", "reference", "zlib", "zlib")),
        ("one-step", pytest.approx(0.01)),
    ]
    assert findings.total_alpha == pytest.approx(0.07)
    assert all("0.07 for the report, shared by 7 tests" in item.correction for item in findings.audited)
    assert len(made) == 2 * 30  # once a run and ε, for all three
    assert {test.attack for test in findings.self_tests} == {"loss", "reference", "zlib", "one-step"}


def test_one_attack_keeps_the_whole_level() -> None:
    findings = _run(_audit(runs=3))
    assert findings.audited[0].alpha == findings.total_alpha == 0.05
    assert "shared" not in findings.audited[0].correction


def test_the_level_is_the_files_and_a_probability() -> None:
    findings = _run(_audit(runs=20, attack=["loss", "reference"], alpha=1e-3))
    assert findings.total_alpha == pytest.approx(1e-3)
    with pytest.raises(UsageError, match="alpha"):
        _run(_audit().model_copy(update={"alpha": 1.0}))


def test_more_tests_widen_every_interval() -> None:
    """The same scores: a report of three attacks needs more runs for the verdict that one reaches alone."""
    alone = _run(_audit(target="unprotected", runs=12), _certified(0.5, "substitution"))
    among = _run(
        _audit(attack=["reference", "loss", "zlib"], target="unprotected", runs=12), _certified(0.5, "substitution")
    )
    assert alone.items[0].ceiling > among.items[0].ceiling  # type: ignore[operator]


def test_precision_and_a_low_fpr_stand_beside_the_auc() -> None:
    for non_members in (10, 40):
        audit = _audit(target="unprotected", members=10, non_members=non_members, runs=10)
        (item,) = _run(audit, records=_records(60)).items
        low, precision = item.measures
        assert low.value == precision.value == 1.0
        assert "approximate" in low.method
        assert item.access == ("log-probabilities",)
    null = _run(_audit(target="null", members=10, non_members=40, runs=40), records=_records(60)).items[0]
    share = null.measures[1].value
    assert share is not None
    assert share == pytest.approx(0.2, abs=0.08)  # the odds, whatever the threshold


def test_failing_self_tests_make_an_attack_inconclusive_with_its_reason() -> None:
    """Brainwash on a model that answers nothing; the attack beside it that works is not enough."""
    findings = _run(_audit(attack=["brainwash", "reference"], runs=20))
    assert findings.outcome == "inconclusive"
    assert any("brainwash" in reason and "noise off" in reason for _, reason in findings.outcomes())
    few = _run(_audit(runs=3))
    noise_off = few.self_tests[0]
    assert "3 runs are too few for a perfect attack" in noise_off.detail
    needed = int(noise_off.detail.partition("runs = ")[2].split()[0])
    assert "too few" in _run(_audit(runs=needed - 1)).self_tests[0].detail
    assert "too few" not in _run(_audit(runs=needed)).self_tests[0].detail


@pytest.mark.parametrize("through", ["text", "endpoint"])
def test_lira_and_rmia_through_text_and_endpoints(through: str) -> None:
    audit = _audit(
        attack=["lira", "rmia", "reference"], target="unprotected", through=through, runs=12, shadow_prompts=4,
        population=6, members=8, non_members=8,
    )  # fmt: skip
    findings = _run(audit, model=ToyModel())
    assert [item.attack for item in findings.items] == ["lira", "rmia", "reference"]
    assert findings.items[2].auc > 0.9


def test_a_protected_endpoint_is_queried_and_needed() -> None:
    hidden: list[int] = []

    def endpoint(records: Sequence[Record], *, epsilon: float, seed: int) -> PromptedEndpoint:
        hidden.append(len(records))
        return PromptedEndpoint(CopyModel(), ("Text: nothing private\nCategory: north",))

    audit = _audit(through="endpoint", runs=20)
    findings = _run(audit, serve=endpoint)
    assert hidden == [10] * 20
    assert findings.audited[0].auc == 0.5
    assert findings.items[1].auc == 1.0  # the control: the real record behind an endpoint
    model = CopyModel()
    with pytest.raises(UsageError, match="serves no endpoint"):
        _run(audit, model=model)
    assert model.asked == []  # refused before anything is computed


def test_a_config_of_more_shadow_prompts_than_there_are_is_an_error() -> None:
    audit = _audit(attack="lira", shadow_prompts=254)
    with pytest.raises(RunFileError, match="254 are asked for") as caught:
        _run(audit, records=_records(28))  # 20 on the two sides leave 8
    assert caught.value.key == "shadow_prompts"
    assert "`shadow_prompts = 8`" in caught.value.hint


# -- one record, one score a run -----------------------------------------------------------------------------------


def _leaky(chance_in: float, chance_out: float, seed: int = 0) -> Callable[..., list[Record]]:
    """Shows the target's own text with a probability that depends on whether it is in: randomised response."""
    generator = np.random.default_rng(seed)
    target: list[Record] = []

    def demonstrate(records: Sequence[Record], *, epsilon: float, seed: int) -> list[Record]:
        inside = len(records) == 6
        if inside:
            target[:] = records[:1]
        shown = generator.random() < (chance_in if inside else chance_out)
        return target[:1] if shown and target else _made()

    return demonstrate


def _per_run(**changes: object) -> AuditFile:
    return _audit(game="per-run", background=5, members=300, non_members=300, **changes)


def test_a_leak_beyond_the_claim_is_refuted_run_by_run() -> None:
    """P(shown) .75 with the record and .25 without it is ε = ln 3: more than a claim of .3."""
    findings = _run(_per_run(), _certified(0.3), demonstrate=_leaky(0.75, 0.25))
    item = findings.audited[0]
    assert item.verdict == "VIOLATION"
    assert item.epsilon_lower is not None
    assert 0.3 < item.epsilon_lower < math.log(3)
    assert "other half" in item.correction
    assert (item.n_members, item.n_non_members) == (150, 150)
    assert all(test.passed for test in findings.self_tests)
    assert findings.exit_code == 1


def test_the_claim_that_is_attained_is_consistent_and_small_audits_say_so() -> None:
    findings = _run(_per_run(), _certified(math.log(3)), demonstrate=_leaky(0.75, 0.25))
    assert findings.audited[0].verdict == "CONSISTENT"
    few = _run(_per_run().model_copy(update={"members": 20, "non_members": 20}), _certified(4.0))
    assert few.audited[0].verdict == "UNDERPOWERED"
    assert "runs a side to be counted" in few.audited[0].note


@pytest.mark.parametrize(
    ("thresholds", "level", "counted"), [([], 0.05, 150), ([0.0], 0.05, 300), ([-1.0, 0.0, 0.5, 1.0], 0.0125, 300)]
)
def test_threshold_strategies_in_an_audit_file(thresholds: list[float], level: float, counted: int) -> None:
    generator = np.random.default_rng(0)
    scores = ScoredRun(tuple(generator.normal(size=300)), tuple(generator.normal(size=300)))
    at = thresholded(scores, thresholds, delta=0.0, alpha=0.05, seed=1)
    assert (at.alpha, at.counts.members) == (level, counted)
    finding = per_run_finding(
        scores, Reference(), _certified(), target="null", thresholds=thresholds, alpha=0.05, seed=1
    )
    assert finding.verdict == "CONSISTENT"
    assert at.correction in finding.correction


def test_out_means_absent_or_blank_as_the_relation_says() -> None:
    target, *others = _records(4)
    for relation, sizes in (("zero-out", {3, 4}), ("substitution", {4})):
        seen: list[Sequence[Record]] = []

        def show(records: Sequence[Record], seed: int, seen: list[Sequence[Record]] = seen) -> Demonstrated:
            seen.append(records)
            return Demonstrated(("a text",), tuple(records))

        found = play(
            target, others, show, Reference(), CopyModel(),
            relation=relation, members=5, non_members=7, seed=3,  # type: ignore[arg-type]
        )  # fmt: skip
        assert (len(found.members), len(found.non_members)) == (5, 7)
        assert {len(records) for records in seen} == sizes
        assert sum(target in records for records in seen) == 5
        assert all(list(records[-3:]) == others for records in seen)
        assert sum(records[0].text == BLANK for records in seen) == (7 if relation == "substitution" else 0)


def test_the_background_must_fit_the_data() -> None:
    with pytest.raises(DataError, match="59 others") as caught:
        _run(_audit(game="per-run", background=59), records=_records(40))
    assert "`background = 39`" in caught.value.hint


# -- canaries --------------------------------------------------------------------------------------------------------


def test_canaries_are_found_in_a_generator_that_echoes_and_in_no_other() -> None:
    seen: list[Sequence[Record]] = []

    def echo(
        records: Sequence[Record], prompt: ExtractionPrompt, *, max_tokens: int, epsilon: float, seed: int
    ) -> list[str]:
        seen.append(records)
        return [record.text for record in records]

    audit = _audit(attack="canary", members=20, non_members=20, background=15)
    findings = _run(audit, generate=echo)
    protected, control = findings.items
    assert protected.attack == control.attack == "canary"
    assert protected.leakage.share == 1.0
    assert (protected.leakage.guessable, protected.leakage.held_out_leaked) == (0, 0)
    assert protected.verdict == "VIOLATION"
    assert len(seen) == 1
    assert sum(CANARY_DOMAIN not in record.text for record in seen[0]) == 15
    assert all(test.passed for test in findings.self_tests)
    quiet = _run(audit, generate=lambda *_, **__: ["nothing"])
    assert quiet.audited[0].verdict == "CONSISTENT"
    with pytest.raises(DataError, match="always in"):
        _run(audit, records=_records(10), generate=echo)


def test_a_mechanism_other_than_the_leafs_own_can_be_named() -> None:
    certified = Certified.of_plan(Gaussian(1.5), relation="substitution", delta=1e-5)
    audit = _audit(attack="one-step", mechanism="projected-mean", members=300, non_members=300)
    findings = run_audit(audit, certified, run=under_test(noise=SeededNoise(1)))
    assert findings.items[0].verdict == "CONSISTENT"
    assert all(test.passed for test in findings.self_tests)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"attack": []}, "attack"),
        ({"attack": ["loss", "loss"]}, "attack"),
        ({"attack": ["loss", "guess"]}, "attack"),
        ({"attack": ["loss", 3]}, "attack"),
        ({"attack": "loss", "shadow_prompts": 8}, "shadow_prompts"),
        ({"attack": "lira", "population": 8}, "population"),
        ({"attack": "extraction", "game": "per-run"}, "game"),
        ({"attack": "extraction", "through": "endpoint"}, "through"),
        ({"attack": "extraction", "background": 4}, "background"),
        ({"attack": "loss", "mechanism": "laplace"}, "mechanism"),
        ({"attack": "one-step", "mechanism": "dice"}, "mechanism"),
        ({"attack": "loss", "prompt": "chat"}, "prompt"),
        ({"attack": "loss", "thresholds": [0.5]}, "thresholds"),
        ({"attack": "loss", "game": "per-run", "runs": 5}, "runs"),
        ({"attack": "loss", "game": "per-run", "thresholds": ["a"]}, "thresholds"),
        ({"attack": ["one-step", "loss"], "members": 10, "non_members": 20}, "non_members"),
        ({"attack": ["released-text", "loss"]}, "attack"),
    ],
)
def test_what_does_not_fit_together_is_named(change: dict[str, object], key: str) -> None:
    with pytest.raises(RunFileError) as caught:
        _audit(**change)
    assert caught.value.key.startswith(key)
