"""Private prediction: its plan, its distances, and that free tokens are free and the rest is paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.errors import PermitViolation, RunFileError
from affidavit.accountant.plan import Compose, Exponential, Parallel, Pure, Repeat, core
from affidavit.accountant.validate import RELATIONS, Relation
from affidavit.generation import private_prediction
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.private_prediction import PrivatePredictionConfig, distance
from affidavit.generation.probabilities import GRID, on_simplex
from affidavit.mechanisms import load
from affidavit.mechanisms.above_threshold import AboveThreshold

load()
SIZE = 48
Open = Callable[..., Any]


def _config(**changes: Any) -> PrivatePredictionConfig:
    base: dict[str, Any] = {
        "labels": ["World", "Sports"],
        "samples_per_label": 2,
        "max_tokens": 10,
        "private_tokens": 3,
        "max_record_tokens": 40,
        "batch_size": 8,
        "minibatch_rows": 3,
        "temperature": 0.5,
        "top_k": 60,
    }
    return PrivatePredictionConfig(**(base | changes))


def _records(count: int = SIZE) -> list[Record]:
    return [Record(f"id-{i}", f"Message {i} about team {i % 5}.", ("World", "Sports")[i % 2]) for i in range(count)]


def _run(open_plain: Open, config: PrivatePredictionConfig, *, relation: Relation = "zero-out", seed: int = 1) -> Any:
    permit = open_plain(private_prediction.plan(config, relation=relation, size=SIZE), relation=relation, seed=seed)
    return private_prediction.run(permit, config, _records(), ToyModel(), size=SIZE), permit


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_plan_states_the_derived_costs_without_halving(relation: Relation) -> None:
    """Tokens 2c/(s·τ), or 4c/(s·τ); a sparse-vector run 2/(s·σ), or twice that (ℓ1 distances move by 1/s, 2/s)."""
    config = _config(clip=10.0, temperature=0.8, batch_size=8, distance_noise=0.25)
    plan = private_prediction.plan(config, relation=relation, size=SIZE)
    assert isinstance(plan, Parallel)
    assert len(plan.parts) == 4
    factor = 2 if relation == "substitution" else 1
    for part in plan.parts:
        assert isinstance(part, Repeat)
        assert part.count == 3
        assert isinstance(part.of, Compose)
        scan, token = part.of.parts
        assert isinstance(token, Exponential)
        exact = factor * Fraction(20) / (8 * Fraction(0.8))
        assert exact <= Fraction(token.range) <= exact + Fraction(1, 2**35)
        assert isinstance(scan, AboveThreshold)
        assert core(scan) == Pure(factor * 2 / (8 * 0.25))
    assert (plan.moves is None) == (relation != "substitution")
    if plan.moves is not None:
        assert plan.moves == private_prediction.plan(config, relation="zero-out", size=SIZE).parts  # type: ignore[attr-defined]


def test_without_public_tokens_every_token_is_private_and_nothing_is_scanned() -> None:
    plan = private_prediction.plan(_config(use_public_tokens=False), relation="zero-out", size=SIZE)
    assert isinstance(plan, Parallel)
    (part,) = set(plan.parts)
    assert isinstance(part, Repeat)
    assert part.count == 10
    assert isinstance(part.of, Exponential)


_LOGITS = st.lists(st.floats(-30, 30, width=32), min_size=12, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(_LOGITS, min_size=1, max_size=5), _LOGITS, _LOGITS, st.integers(1, 8))
def test_one_row_moves_the_distance_by_a_unit_and_a_replaced_one_by_two(
    rows: list[list[float]], other: list[float], public: list[float], batch_size: int
) -> None:
    tokens = np.array([0, 2, 3, 5, 7, 11])

    def measured(values: Sequence[Sequence[float]]) -> int:
        parts = [np.array([row], dtype=np.float32)[:, tokens] for row in values]
        return distance(parts, np.array(public, dtype=np.float32)[tokens], batch_size=batch_size)

    whole = measured(rows)
    assert abs(whole - measured(rows[1:])) <= GRID
    assert abs(whole - measured([other, *rows[1:]])) <= 2 * GRID


def test_the_distance_is_between_mean_probabilities_not_softmaxes_of_means() -> None:
    """Two rows sure of different tokens: their mean logits look undecided, their mean probabilities do too; but one
    very confident row would move the softmax of the mean all the way, and may move the distance by 1/s only."""
    public = np.zeros(3, dtype=np.float32)
    flat = [np.zeros((1, 3), dtype=np.float32)] * 9
    sure = np.array([[900.0, 0.0, 0.0]], dtype=np.float32)
    moved = abs(distance([*flat, sure], public, batch_size=10) - distance([*flat, flat[0]], public, batch_size=10))
    assert moved <= 2 * GRID
    mean = (sum(part[0] for part in flat) + sure[0]) / 10
    naive = np.abs(on_simplex(mean) - on_simplex(public)).sum()  # type: ignore[operator]
    assert naive * 10 > 10 * GRID


def test_the_distance_agrees_with_a_direct_computation() -> None:
    generator = np.random.default_rng(2)
    rows, public = generator.normal(size=(7, 20)).astype(np.float32), generator.normal(size=20).astype(np.float32)

    def softmax(values: np.ndarray) -> np.ndarray:
        weights = np.exp(values.astype(np.float64))
        return weights / weights.sum()

    expected = np.abs(sum(softmax(row) for row in rows) / 9 - softmax(public)).sum()
    assert distance([rows[:4], rows[4:]], public, batch_size=9) / (9 * GRID) == pytest.approx(expected)


def test_unsound_rows_contribute_nothing() -> None:
    rows, public = np.zeros((2, 4), dtype=np.float32), np.zeros(4, dtype=np.float32)
    broken = rows.copy()
    broken[1, 2] = np.nan
    assert distance([broken], public, batch_size=2) == distance([rows[:1]], public, batch_size=2)


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_run_pays_for_every_scan_and_every_private_token(open_plain: Open, relation: Relation) -> None:
    generated, permit = _run(open_plain, _config(distance_threshold=0.8), relation=relation)
    assert generated.draws_per_node == permit.uses
    for index, sample in enumerate(generated.samples):
        scans, private = (permit.uses.get(f"plan.parts[{index}].of.parts[{part}]", 0) for part in (0, 1))
        assert 0 <= scans - private <= 1
        assert private <= 3
        written = len(sample.tokens) + sample.stopped
        lines = [line for line in generated.trace if line["path"].startswith(f"plan.parts[{index}].of.parts[0]")]
        assert written == sum(line["queries"] for line in lines)
        assert private == sum(line["above"] for line in lines)


def test_the_last_scan_that_finds_nothing_is_charged(open_plain: Open) -> None:
    """Fault 4: here no token is private, and every text has still used one sparse-vector run."""
    generated, permit = _run(open_plain, _config(distance_threshold=1.99, distance_noise=0.01, temperature=1.0))
    assert permit.uses == {f"plan.parts[{index}].of.parts[0]": 1 for index in range(4)}
    assert all(len(sample.tokens) == 10 or sample.stopped for sample in generated.samples)


def test_a_text_ends_where_its_private_tokens_are_spent(open_plain: Open) -> None:
    generated, permit = _run(open_plain, _config(distance_threshold=1e-6, distance_noise=1e-6))
    assert set(permit.uses.values()) == {3}
    assert all(len(sample.tokens) == 3 and not sample.stopped for sample in generated.samples)


def test_public_tokens_do_not_depend_on_private_records(open_plain: Open) -> None:
    """With the threshold out of reach, the texts are those of the public prompt: no record changes one."""
    config = _config(distance_threshold=1.99, distance_noise=0.001)
    texts = []
    for records in (_records(), _records()[:20], []):
        permit = open_plain(private_prediction.plan(config, relation="zero-out", size=SIZE))
        texts.append(private_prediction.run(permit, config, records, ToyModel(), size=SIZE).samples)
    assert texts[0] == texts[1] == texts[2]


def test_tokens_come_from_the_public_best(open_plain: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    from affidavit.generation import probabilities

    real = probabilities.support
    monkeypatch.setattr(
        probabilities,
        "support",
        lambda logits, *, top_k: seen.append(set(real(logits, top_k=top_k))) or real(logits, top_k=top_k),
    )
    generated, _ = _run(open_plain, _config(top_k=5, samples_per_label=1))
    tokens = [token for sample in generated.samples for token in sample.tokens]
    allowed = iter(seen)
    assert all(token in next(allowed) for token in tokens[:3])


def test_a_permit_for_less_noise_is_refused(open_plain: Open) -> None:
    certified = open_plain(private_prediction.plan(_config(distance_noise=0.2), relation="zero-out", size=SIZE))
    with pytest.raises(PermitViolation, match="does not cover"):
        private_prediction.run(certified, _config(distance_noise=0.1), _records(), ToyModel(), size=SIZE)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"private_tokens": 11}, "generator.private_tokens"),
        ({"temperature": 0.001}, "generator.temperature"),
        ({"public_temperature": 0.001}, "generator.public_temperature"),
    ],
)
def test_settings_that_cannot_run_are_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(RunFileError, match=named.replace(".", r"\.")):
        _config(**changes)


def test_more_tokens_than_the_vocabulary_holds_are_refused_before_any_charge() -> None:
    with pytest.raises(RunFileError, match=r"generator\.top_k"):
        private_prediction.check(_config(top_k=100_000), ToyModel(), public=())
    private_prediction.check(_config(top_k=0), ToyModel(), public=())


@pytest.mark.parametrize("preset", ["paper", "local"])
def test_presets_are_settings(preset: str) -> None:
    config = PrivatePredictionConfig(labels=("a", "b"), **private_prediction.PRESETS[preset])
    private_prediction.plan(config, relation="zero-out", size=10_000)
