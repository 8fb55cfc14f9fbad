"""AdaDPSyn: its plan, its releases on one sample, and what its rounds do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.plan import Compose, Gaussian, Parallel, Plan, Poisson, Repeat, WithoutReplacement, leaves
from affidavit.accountant.validate import RELATIONS, Relation
from affidavit.generation import adadpsyn
from affidavit.generation.adadpsyn import AdaDPSynConfig, adaptive_mean
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.probabilities import GRID
from affidavit.generation.recorder import Recorder
from affidavit.generation.registry import generator

SIZE = 40
Open = Callable[..., Any]


def _config(**changes: Any) -> AdaDPSynConfig:
    base: dict[str, Any] = {
        "labels": ["World", "Sports"],
        "max_tokens": 5,
        "max_record_tokens": 30,
        "subsets": 10,
        "top_k": 30,
        "minibatch_rows": 4,
        "radius_noise_multiplier": 6.0,
        "mean_noise_multiplier": 0.9,
        "count_noise_multiplier": 2.0,
        "iterations": 2,
    }
    return AdaDPSynConfig(**(base | changes))


def _records(count: int = SIZE) -> list[Record]:
    return [Record(f"id-{i}", f"Message {i} about team {i % 5}.", ("World", "Sports")[i % 2]) for i in range(count)]


def _step(plan: Plan) -> Plan:
    assert isinstance(plan, Parallel)
    (part, *_) = plan.parts
    assert isinstance(part, Repeat)
    assert isinstance(part.of, (Poisson, WithoutReplacement))
    return part.of.of


def _mu_squared(step: Plan) -> float:
    return sum(uses / leaf.noise_multiplier**2 for _, leaf, uses in leaves(step) if isinstance(leaf, Gaussian))


@pytest.mark.parametrize("relation", RELATIONS)
def test_without_replacement_the_step_is_the_sum_of_the_derivation(relation: Relation) -> None:
    """μ² = 2⌈log2(√2/(2θ))⌉/σ0² + T̂/σ2² + (T̂ + 1)/σ1²: composed first, amplified once."""
    step = _step(adadpsyn.plan(_config(sampling="without-replacement"), relation=relation, size=SIZE))
    expected = 2 * math.ceil(math.log2(math.sqrt(2) / 0.2)) / 36 + 2 / 4 + 3 / 0.81
    assert _mu_squared(step) == pytest.approx(expected, rel=1e-12)
    assert isinstance(step, Compose)
    assert [type(part) for part in step.parts] == [Repeat, Gaussian, Repeat]


def test_a_record_that_joins_moves_means_half_as_far() -> None:
    step = _step(adadpsyn.plan(_config(sampling="poisson"), relation="zero-out", size=SIZE))
    expected = 6 / 36 + 2 / 4 + 1 / (2 * 0.81) + 2 / (4 * 0.81)
    assert _mu_squared(step) == pytest.approx(expected, rel=1e-12)
    several = _step(adadpsyn.plan(_config(shots_per_subset=2), relation="zero-out", size=SIZE))
    assert _mu_squared(several) == pytest.approx(6 / 36 + 2 / 4 + 3 / 0.81, rel=1e-12)


def test_under_substitution_a_poisson_sample_states_both() -> None:
    plan = adadpsyn.plan(_config(sampling="poisson"), relation="substitution", size=SIZE)
    assert isinstance(plan, Parallel)
    (part, *_) = plan.parts
    assert isinstance(part, Repeat)
    assert isinstance(part.of, Poisson)
    assert part.of.absent is not None
    assert _mu_squared(part.of.of) > _mu_squared(part.of.absent)


def _run(open_plain: Open, config: AdaDPSynConfig, relation: Relation = "zero-out", seed: int = 3) -> tuple[Any, Any]:
    permit = open_plain(adadpsyn.plan(config, relation=relation, size=SIZE), relation=relation, seed=seed)
    return adadpsyn.run(permit, config, _records(), ToyModel(), size=SIZE), permit


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement", "fixed-groups"])
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_run_uses_what_was_certified(open_plain: Open, relation: Relation, sampling: str) -> None:
    config = _config(sampling=sampling, samples_per_label=2)
    generated, permit = _run(open_plain, config, relation)
    allowed = {path: uses for path, _, uses in leaves(permit.plan)}
    assert generated.draws_per_node == permit.uses
    assert all(0 < uses <= allowed[path] for path, uses in permit.uses.items())
    steps = sum(len(text.tokens) + text.stopped for text in generated.samples)
    assert sum(uses for path, uses in permit.uses.items() if path.endswith(".of.of.parts[1]")) == steps
    assert sum(uses for path, uses in permit.uses.items() if path.endswith(".parts[0].of")) == 6 * steps


def test_every_release_of_a_token_is_on_its_one_sample(open_plain: Open) -> None:
    generated, _ = _run(open_plain, _config())
    events = [line["event"] for line in generated.trace]
    samples = events.count("sample")
    assert samples == sum(len(text.tokens) + text.stopped for text in generated.samples)
    assert events[0] == "sample"
    digests = [line["noise_sha256"] for line in generated.trace if line["event"] == "draw"]
    assert len(set(digests)) == len(digests)


def _chosen(open_plain: Open, points: np.ndarray, **changes: Any) -> tuple[int, list[dict[str, Any]]]:
    """One step on given vectors, nearly without noise."""
    tiny = dict.fromkeys(("radius_noise_multiplier", "mean_noise_multiplier", "count_noise_multiplier"), 1e-6)
    config = _config(**(tiny | {"subsets": len(points)} | changes))
    step = adaptive_mean(config, "joins")
    recorder = Recorder(open_plain(step.plan(), seed=6))
    rows = list(np.floor(points * GRID).astype(np.int64))
    return step.choose(recorder, "plan", rows, width=points.shape[1]), recorder.trace


def test_a_consensus_is_found_and_an_outlier_loses_its_weight(open_plain: Open) -> None:
    """Nine vectors favour token 1 a little, one is certain of token 0: the mean says 0, the ball about the nine 1."""
    points = np.array([[0.46, 0.54, 0.0]] * 9 + [[1.0, 0.0, 0.0]])
    assert points.mean(axis=0).argmax() == 0
    token, trace = _chosen(open_plain, points, iterations=3, coverage=0.55)
    radii = [line["radius"] for line in trace if "radius" in line]
    assert token == 1
    assert radii
    assert radii == sorted(radii, reverse=True)
    assert radii[0] < 0.5


def test_without_consensus_the_first_mean_decides(open_plain: Open) -> None:
    token, trace = _chosen(open_plain, np.eye(4)[[0, 0, 1, 2, 3]], iterations=2, coverage=0.9)
    assert token == 0
    assert not any("radius" in line for line in trace)


def test_an_empty_sample_still_releases_a_token(open_plain: Open) -> None:
    config = _config()
    strangers = [Record(f"s-{i}", "Something else.", "Weather") for i in range(SIZE)]
    permit = open_plain(adadpsyn.plan(config, relation="zero-out", size=SIZE))
    generated = adadpsyn.run(permit, config, strangers, ToyModel(), size=SIZE)
    assert all(text.tokens or text.stopped for text in generated.samples)


def test_a_run_under_a_permit_for_less_is_stopped(open_plain: Open) -> None:
    for key in ("radius_noise_multiplier", "mean_noise_multiplier", "count_noise_multiplier"):
        louder = _config(**{key: getattr(_config(), key) * 1.01})
        permit = open_plain(adadpsyn.plan(louder, relation="zero-out", size=SIZE))
        with pytest.raises(PermitViolation, match="does not cover"):
            adadpsyn.run(permit, _config(), _records(), ToyModel(), size=SIZE)


@pytest.mark.parametrize(
    "changes",
    [
        {"iterations": 0},
        {"coverage": 0.0},
        {"fraction": 1.1},
        {"tolerance": 0.0},
        {"margin": -0.1},
        {"mean_noise_multiplier": 0.0},
        {"mechanism": "gaussian"},
    ],
)
def test_a_wrong_setting_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _config(**changes)


def test_presets_are_whole_configurations() -> None:
    found = generator("adadpsyn")
    for preset in found.presets.values():
        config = found.config(labels=["World", "Sports", "Business", "Technology"], **preset)
        assert isinstance(adadpsyn.plan(config, relation="substitution", size=120_000), Plan)
