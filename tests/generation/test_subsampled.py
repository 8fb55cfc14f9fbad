"""Sampling schemes: plans as derived, and samples of neighbours that differ by what the plan says and no more."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from affidavit.accountant.errors import DataError, RunFileError
from affidavit.accountant.plan import Gaussian, Parallel, Plan, Poisson, Repeat, WithoutReplacement
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.validate import RELATIONS, Relation
from affidavit.generation import few_shot
from affidavit.generation.dataset import Record
from affidavit.generation.few_shot import FewShotConfig
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.probabilities import GRID, Grid, on_simplex
from affidavit.generation.recorder import Recorder
from affidavit.generation.subsampled import change_on_sample, check, steps_plan
from affidavit.generation.subsets import draw_subsets, fixed_groups, shown
from affidavit.generation.token_steps import write_texts

SIZE = 40
SCHEMES = ("poisson", "without-replacement", "fixed-groups")
JOINS, REPLACED = Gaussian(10.0), Gaussian(5.0)  # what a step costs, told apart by its noise
Open = Callable[..., Any]


def _config(**changes: Any) -> FewShotConfig:
    base: dict[str, Any] = {
        "labels": ["World", "Sports"],
        "max_tokens": 4,
        "max_record_tokens": 30,
        "subsets": 5,
        "top_k": 30,
        "noise_multiplier": 1.0,
        "minibatch_rows": 3,
    }
    return FewShotConfig(**(base | changes))


def _records(count: int = SIZE) -> list[Record]:
    return [Record(f"id-{i}", f"Message {i} about team {i % 5}.", ("World", "Sports")[i % 2]) for i in range(count)]


def _plan(config: FewShotConfig, relation: Relation, size: int = SIZE) -> Plan:
    return steps_plan(config, {"joins": JOINS, "replaced": REPLACED}.__getitem__, relation=relation, size=size)


def _use(sampling: str, shots: int, relation: Relation) -> Plan:
    """The table of ``subsampled``, written out; samples of 5 · shots · 2 labels of 40."""
    if sampling == "without-replacement":
        return WithoutReplacement(SIZE, 10 * shots, REPLACED)
    coming = JOINS if shots == 1 else REPLACED
    if relation != "substitution":
        return Poisson(10 * shots / SIZE, coming)
    absent = JOINS if shots == 1 or sampling == "fixed-groups" else REPLACED
    return Poisson(10 * shots / SIZE, REPLACED, absent=absent)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("sampling", SCHEMES)
def test_plans_are_those_of_the_table(sampling: str, shots: int, relation: Relation) -> None:
    config = _config(sampling=sampling, shots_per_subset=shots, samples_per_label=3)
    if sampling == "fixed-groups" and shots == 2 and relation != "substitution":
        with pytest.raises(RunFileError, match="substitution"):
            _plan(config, relation)
        return
    found = _plan(config, relation)
    assert isinstance(found, Parallel)
    assert found.parts == (Repeat(12, _use(sampling, shots, relation)),) * 2
    assert (found.moves is not None) == (relation == "substitution")
    unmatched = _config(sampling=sampling, shots_per_subset=shots, match_label=False)
    if sampling == "without-replacement" and relation == "add-remove":
        with pytest.raises(RunFileError, match="declared number of places"):
            _plan(unmatched, relation)
        return
    assert _plan(unmatched, relation) == Repeat(8, _halved(_use(sampling, shots, relation)))


def _halved(use: Plan) -> Plan:
    """Where every record counts, half as many are sampled."""
    if isinstance(use, WithoutReplacement):
        return dataclasses.replace(use, sample=use.sample // 2)
    assert isinstance(use, Poisson)
    return dataclasses.replace(use, rate=use.rate / 2)


def test_a_record_that_changes_its_label_costs_a_coming_and_a_going() -> None:
    one = _plan(_config(), "substitution")
    assert isinstance(one, Parallel)
    assert one.membership == "moving"
    assert one.moves == (Repeat(4, Poisson(0.25, JOINS, absent=JOINS)),) * 2
    several = _plan(_config(sampling="fixed-groups", shots_per_subset=2), "substitution")
    assert isinstance(several, Parallel)
    assert several.moves == (Repeat(4, Poisson(0.5, REPLACED, absent=JOINS)),) * 2
    assumed = _plan(_config(keeps_label=True), "substitution")
    assert isinstance(assumed, Parallel)
    assert assumed.membership == "fixed"
    assert assumed.moves is None
    with pytest.raises(RunFileError, match="keeps_label"):
        _plan(_config(keeps_label=True), "zero-out")


def test_samples_above_the_declared_size_are_refused_with_what_fits() -> None:
    _plan(_config(subsets=20), "zero-out")
    with pytest.raises(
        RunFileError, match=r"(?s)21 subsets x 1 shots x 2 labels need 42 .*At most `generator.subsets = 20`"
    ):
        _plan(_config(subsets=21), "zero-out")
    with pytest.raises(RunFileError, match=r"`generator\.shots_per_subset = 1`"):
        _plan(_config(shots_per_subset=40), "zero-out")


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling": "with-replacement"},
        {"shots_per_subset": 0},
        {"top_k": -1},
        {"subsets": 2.0},
        {"task": "poetry"},
        {"labels": []},
        {"match_label": 1},
        {"surprise": 1},
    ],
)
def test_a_wrong_setting_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _config(**changes)


def test_a_model_that_cannot_serve_the_settings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    check(_config(), ToyModel(), public=())
    with pytest.raises(RunFileError, match=r"generator\.top_k.*\d+ tokens of a vocabulary"):
        check(_config(top_k=10_000), ToyModel(), public=())

    class TextOnly:
        name = "somewhere"

    with pytest.raises(RunFileError, match="text only"):
        check(_config(), TextOnly(), public=())  # type: ignore[arg-type]
    monkeypatch.setattr(ToyModel, "context_length", 60)
    with pytest.raises(RunFileError, match=r"generator\.max_record_tokens"):
        check(_config(), ToyModel(), public=())


@pytest.mark.parametrize("shots", [1, 2])
def test_subsets_partition_the_sample(shots: int) -> None:
    for sampling in SCHEMES[:2]:
        config = _config(sampling=sampling, shots_per_subset=shots)
        drawn = draw_subsets(config, size=SIZE, held=SIZE, noise=SeededNoise(3))
        assert sorted(place for subset in drawn.subsets for place in subset) == sorted(drawn.members)
        if sampling == "without-replacement":
            assert len(drawn.members) == 10 * shots
        if shots == 2:
            assert len(drawn.subsets) == 5
    groups = fixed_groups(
        _config(sampling="fixed-groups", shots_per_subset=shots), size=SIZE, held=SIZE, noise=SeededNoise(3)
    )
    assert sorted(place for group in groups.places for place in group) == list(range(SIZE))
    assert {len(group) for group in groups.places} == {1 if shots == 1 else 4}


def test_missing_records_leave_their_places_empty_and_too_many_are_refused() -> None:
    assert shown((3, 50, 1, 2), [True, False, True, True], shots=2) == (3, 2)
    for sampling, shots in (("without-replacement", 1), ("fixed-groups", 2)):
        config = _config(sampling=sampling, shots_per_subset=shots)
        draw = fixed_groups if sampling == "fixed-groups" else draw_subsets
        draw(config, size=SIZE, held=SIZE - 5, noise=SeededNoise(1))
        with pytest.raises(DataError, match="41 records, declared are 40"):
            draw(config, size=SIZE, held=SIZE + 1, noise=SeededNoise(1))


class _Spy:
    """A step that keeps every sample's vectors and always releases the same tokens."""

    def __init__(self) -> None:
        self.rows: list[list[Grid]] = []

    def weigh(self, logits: np.ndarray) -> Grid | None:
        return on_simplex(logits)

    def choose(self, recorder: Recorder, path: str, rows: list[Grid], *, width: int) -> int:
        recorder.use(path)
        self.rows.append(rows)
        return min(7, width - 1)


def _observed(open_plain: Open, config: FewShotConfig, records: Sequence[Record], relation: Relation) -> _Spy:
    spy = _Spy()
    permit = open_plain(_plan(config, relation), relation=relation, seed=5)
    spy.trace = write_texts(permit, config, spy, records, ToyModel(), kind="spy", size=SIZE).trace  # type: ignore[attr-defined]
    return spy


def _differences(one: list[Grid], other: list[Grid]) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The vectors that are in one sample and not in the other, as a multiset difference."""
    left, right = [row.tobytes() for row in one], [row.tobytes() for row in other]
    for row in list(left):
        if row in right:
            left.remove(row)
            right.remove(row)
    yield from zip(left + [None] * (len(right) - len(left)), right + [None] * (len(left) - len(right)), strict=True)


@pytest.mark.parametrize("change", ["text", "label", "longer"])
@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("sampling", SCHEMES)
def test_a_changed_record_changes_one_vector_as_far_as_stated(
    open_plain: Open, sampling: str, shots: int, change: str
) -> None:
    """Same noise, neighbouring data: at most one subset's vector differs, by at most √2, or 1 where it joins."""
    config = _config(sampling=sampling, shots_per_subset=shots, samples_per_label=4, top_k=0)
    records = _records()
    changes = {"text": {"text": "Something else."}, "label": {"label": "Sports"}, "longer": {"text": "word " * 99}}
    place = 8
    changed = [*records]
    changed[place] = dataclasses.replace(records[place], **changes[change])
    before, after = (_observed(open_plain, config, which, "substitution") for which in (records, changed))
    assert [line for line in before.trace if line["event"] == "sample"] == [  # type: ignore[attr-defined]
        line
        for line in after.trace
        if line["event"] == "sample"  # type: ignore[attr-defined]
    ]
    moved = 0
    for one, other in zip(before.rows, after.rows, strict=True):
        differing = list(_differences(one, other))
        assert len(differing) <= 1
        for left, right in differing:
            absent = np.zeros(ToyModel().vocabulary_size, dtype=np.int64)
            vectors = [np.frombuffer(row, dtype=np.int64) if row else absent for row in (left, right)]
            squared = sum((int(a) - int(b)) ** 2 for a, b in zip(*vectors, strict=True))
            assert 0 < squared <= (2 if left and right else 1) * GRID**2
            moved += 1
    assert moved


@pytest.mark.parametrize("shots", [1, 2])
@pytest.mark.parametrize("sampling", ["poisson", "without-replacement"])
def test_a_nulled_record_changes_one_vector(open_plain: Open, sampling: str, shots: int) -> None:
    """Zero-out: the record's place is there, under no label of the run."""
    config = _config(sampling=sampling, shots_per_subset=shots, samples_per_label=4, top_k=0)
    records = _records()
    nulled = [*records]
    nulled[8] = dataclasses.replace(records[8], label="none of these")
    before, after = (_observed(open_plain, config, which, "zero-out") for which in (records, nulled))
    joins = change_on_sample(config, "zero-out") == "joins"
    counts = [len(list(_differences(*pair))) for pair in zip(before.rows, after.rows, strict=True)]
    assert max(counts) == 1
    assert joins == (shots == 1 and sampling == "poisson")
    if shots == 1:
        assert all(len(one) - len(other) in (0, 1) for one, other in zip(before.rows, after.rows, strict=True))


def test_fresh_and_cached_rows_compute_the_same(open_plain: Open) -> None:
    """N = 1: every record alone, prefilled anew or decoded step by step."""
    records = _records()
    rows = []
    for sampling in ("poisson", "fixed-groups"):
        spy = _observed(open_plain, _config(sampling=sampling, subsets=20, max_tokens=3), records, "zero-out")
        assert all(len(found) == SIZE // 2 for found in spy.rows)  # rate 1: every record of the label
        rows.append([np.sort(np.array(found), axis=0) for found in spy.rows])
    assert all(np.abs(fresh - cached).max() <= 4 for fresh, cached in zip(*rows, strict=True))


def test_every_token_has_a_fresh_sample_and_fresh_noise(open_plain: Open) -> None:
    config = _config(samples_per_label=2, subsets=8)
    plan = few_shot.plan(config, relation="zero-out", size=SIZE)
    trace = few_shot.run(open_plain(plan), config, _records(), ToyModel(), size=SIZE).trace
    samples = [line for line in trace if line["event"] == "sample"]
    draws = [line for line in trace if line["event"] == "draw"]
    assert len(samples) == len(draws) == len({line["noise_sha256"] for line in draws})
    assert len({tuple(line["members"]) for line in samples}) > len(samples) // 2
    assert {line["path"] for line in samples} == {"plan.parts[0].of", "plan.parts[1].of"}
    for path in ("plan.parts[0].of", "plan.parts[1].of"):
        assert [line["use"] for line in samples if line["path"] == path] == list(range(len(samples) // 2))
    assert not any(record.id in str(trace) for record in _records())


def test_rates_are_those_of_sampling_within_a_label_where_labels_are_even() -> None:
    """AG News: M·N = 20 of 30,000 a label, among 120,000 of four labels."""
    config = _config(labels=["a", "b", "c", "d"], subsets=10, shots_per_subset=2)
    found = _plan(config, "zero-out", 120_000)
    assert isinstance(found, Parallel)
    (part, *_) = found.parts
    assert isinstance(part, Repeat)
    assert isinstance(part.of, Poisson)
    assert math.isclose(part.of.rate, 20 / 30_000, rel_tol=1e-15)


def test_a_record_that_leaves_a_label_is_replaced_in_samples_without_replacement() -> None:
    """Where it is not sampled another one is: a move replaces a vector on the sample, it is not one that joins."""
    from affidavit.generation.registry import generator

    source = generator("few-shot")
    settings = {"kind": "few-shot", "labels": ["a", "b"], "subsets": 4, "noise_multiplier": 0.8}
    for sampling in ("without-replacement", "poisson", "fixed-groups"):
        config = source.config.model_validate({**settings, "sampling": sampling})
        plan = source.plan(config, relation="substitution", size=100)
        part, moved = plan.parts[0].of, plan.moves[0].of
        if sampling == "without-replacement":
            assert moved == part
        else:
            assert (moved.of, moved.absent) == (part.absent, part.absent)
    grouped = source.config.model_validate({**settings, "sampling": "fixed-groups", "shots_per_subset": 2})
    plan = source.plan(grouped, relation="substitution", size=100)
    assert plan.moves[0] == plan.parts[0]
    assert plan.moves[0].of.absent.noise_multiplier > plan.moves[0].of.of.noise_multiplier
