"""InvisibleInk: what is clipped, which tokens may come, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.errors import AffidavitError, PermitViolation, RunFileError
from affidavit.accountant.plan import Exponential, Parallel, Repeat
from affidavit.accountant.validate import RELATIONS, Relation
from affidavit.generation import invisible_ink
from affidavit.generation.aggregate import GRID
from affidavit.generation.batched import label_rows
from affidavit.generation.batches import PrivateRows
from affidavit.generation.dataset import Record
from affidavit.generation.invisible_ink import DEPTH, InvisibleInkConfig, clip_difference, public_grid, support
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.recorder import Recorder
from affidavit.mechanisms import load

load()
SIZE = 48
Open = Callable[..., Any]


def _config(**changes: Any) -> InvisibleInkConfig:
    base: dict[str, Any] = {
        "labels": ["World", "Sports"],
        "samples_per_label": 2,
        "max_tokens": 6,
        "max_record_tokens": 40,
        "batch_size": 8,
        "minibatch_rows": 3,
        "clip": 1.5,
        "temperature": 0.6,
        "top_k": 30,
    }
    return InvisibleInkConfig(**(base | changes))


def _records(count: int = SIZE) -> list[Record]:
    return [Record(f"id-{i}", f"Message {i} about team {i % 5}.", ("World", "Sports")[i % 2]) for i in range(count)]


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_plan_states_two_clips_a_row_and_four_under_substitution(relation: Relation) -> None:
    plan = invisible_ink.plan(_config(), relation=relation, size=SIZE)
    assert isinstance(plan, Parallel)
    exact = (4 if relation == "substitution" else 2) * Fraction(1.5) / (8 * Fraction(0.6))
    for part in plan.parts:
        assert isinstance(part, Repeat)
        assert part.count == 6
        assert isinstance(part.of, Exponential)
        assert exact <= Fraction(part.of.range) <= exact + Fraction(1, 2**35)
    assert (plan.moves is None) == (relation != "substitution")


def test_the_papers_clip_is_its_epsilon() -> None:
    """ε = 10 at δ = 1e-6 by zCDP with 2C/(s·τ)-range draws: C = 0.604; the exact composition is below."""
    from affidavit.accountant.bound import bound

    config = InvisibleInkConfig(labels=("a",), **invisible_ink.PRESETS["paper"])
    found = bound(invisible_ink.plan(config, relation="zero-out", size=700), relation="zero-out", delta=1e-6)
    zcdp = next(row for row in found.methods if row.name == "zcdp")
    assert zcdp.epsilon_upper == pytest.approx(10.0 * 0.6 / 0.604, abs=0.03)
    assert found.epsilon_upper == pytest.approx(9.315, abs=0.01)


_ROW = st.lists(st.floats(-200, 200, width=32), min_size=9, max_size=9)


@settings(max_examples=100, deadline=None)
@given(_ROW, _ROW, st.sampled_from([0.5, 2.0, 33.0]))
def test_differences_are_clipped_coordinatewise_and_do_not_depend_on_a_constant(
    row: list[float], public: list[float], clip: float
) -> None:
    rows, base = np.array([row], dtype=np.float32), np.array(public, dtype=np.float32)
    grid, sound = clip_difference(rows, base, clip=clip)
    assert sound.all()
    assert np.abs(grid).max() <= clip * GRID
    exact = (rows[0].astype(np.float64) - rows.max()) - (base.astype(np.float64) - base.max())
    assert np.abs(grid[0] / GRID - np.clip(exact, -clip, clip)).max() < 1e-4


def test_an_unsound_row_contributes_nothing_and_no_other_row_reacts() -> None:
    rows = np.random.default_rng(0).normal(size=(4, 10)).astype(np.float32)
    public = rows[0]
    before, _ = clip_difference(rows, public, clip=2.0)
    rows[2, 5] = np.nan
    after, sound = clip_difference(rows, public, clip=2.0)
    assert sound.tolist() == [True, True, False, True]
    assert not after[2].any()
    assert np.array_equal(before[[0, 1, 3]], after[[0, 1, 3]])
    alone, _ = clip_difference(rows[3:4], public, clip=2.0)
    assert np.array_equal(alone[0], after[3])


def test_the_support_is_the_public_best_and_the_margin() -> None:
    public = public_grid(np.array([0.0, -1.0, -1.4, -1.6, -9.0, -300.0], dtype=np.float32))
    assert public[-1] == -DEPTH * GRID
    assert support(public, top_k=2, clip=2.0, batch_size=8).tolist() == [0, 1, 2]  # within 2·2/8 = 0.5 of −1
    assert support(public, top_k=2, clip=4.0, batch_size=8).tolist() == [0, 1, 2, 3]
    assert support(public, top_k=1, clip=0.1, batch_size=100).tolist() == [0]
    assert support(public, top_k=0, clip=2.0, batch_size=8).tolist() == [0, 1, 2, 3, 4, 5]


def test_the_support_never_depends_on_private_rows(open_plain: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 3: the same tokens so far and the public prompt give the same support, whatever the records."""
    config = _config(samples_per_label=1, max_tokens=1)
    seen: list[list[int]] = []
    real = invisible_ink.support

    def recorded(*args: Any, **kwargs: Any) -> Any:
        found = real(*args, **kwargs)
        seen.append(found.tolist())
        return found

    monkeypatch.setattr(invisible_ink, "support", recorded)
    for records in (_records(), [Record("x", "zzz " * 40, "World")], []):
        permit = open_plain(invisible_ink.plan(config, relation="zero-out", size=SIZE))
        invisible_ink.run(permit, config, records, ToyModel(), size=SIZE)
    assert seen[:2] == seen[2:4] == seen[4:]


def test_the_scores_are_the_papers(open_plain: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """s·φ = s·u + Σ DClip(z − u), against a direct float64 computation on every token."""
    config, model, found = _config(top_k=0, max_tokens=1, samples_per_label=1), ToyModel(), []
    real = Recorder.draw

    def recorded(self: Any, path: str, spec: Any, scores: Any) -> Any:
        found.append(np.array(scores))
        return real(self, path, spec, scores)

    monkeypatch.setattr(Recorder, "draw", recorded)
    records = [record for record in _records(14) if record.label == "World"]
    permit = open_plain(invisible_ink.plan(config, relation="zero-out", size=16))
    invisible_ink.run(permit, config, records, model, size=16)
    rows = label_rows(config, model)["World"]
    public = model.start([rows.public], width=400).logits[0].astype(np.float64)
    private = PrivateRows(model, rows, [record.text for record in records], minibatch_rows=3, max_tokens=9)
    logits = np.concatenate(list(private.logits())).astype(np.float64)
    added = np.clip((logits - logits.max(axis=1, keepdims=True)) - (public - public.max()), -1.5, 1.5).sum(axis=0)
    expected = public - public.max() + added / 8
    assert np.abs(found[0] / (8 * GRID) - expected).max() < 1e-5


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_run_draws_one_token_a_use(open_plain: Open, relation: Relation) -> None:
    config = _config()
    permit = open_plain(invisible_ink.plan(config, relation=relation, size=SIZE), relation=relation)
    generated = invisible_ink.run(permit, config, _records(), ToyModel(), size=SIZE)
    assert generated.draws_per_node == permit.uses
    for index, sample in enumerate(generated.samples):
        assert permit.uses[f"plan.parts[{index}].of"] == len(sample.tokens) + sample.stopped <= 6


def test_a_permit_for_a_smaller_range_is_refused(open_plain: Open) -> None:
    permit = open_plain(invisible_ink.plan(_config(clip=1.4), relation="zero-out", size=SIZE))
    with pytest.raises(PermitViolation, match="does not cover"):
        invisible_ink.run(permit, _config(), _records(), ToyModel(), size=SIZE)


@pytest.mark.parametrize(
    ("changes", "named"), [({"temperature": 0.1}, "temperature"), ({"clip": 100.0, "temperature": 0.3}, "temperature")]
)
def test_a_temperature_that_the_sampler_cannot_reach_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(RunFileError, match=rf"generator\.{named}"):
        _config(**changes)


def test_more_tokens_than_the_vocabulary_holds_are_refused_before_any_charge() -> None:
    with pytest.raises(RunFileError, match=r"generator\.top_k"):
        invisible_ink.check(_config(top_k=100_000), ToyModel(), public=())


def test_public_logits_that_are_not_finite_stop_the_run() -> None:
    with pytest.raises(AffidavitError, match="not finite"):
        public_grid(np.array([0.0, np.nan], dtype=np.float32))
