"""Propose-test-release: its whole output law over all small data sets and all their neighbours."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import pytest
from scipy.stats import binomtest

from affidavit.accountant.errors import PermitViolation, PlanError, UsageError
from affidavit.accountant.plan import Approximate, Pure, Repeat, core, parse_plan, to_dict
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms import load

load()

from affidavit.mechanisms.propose_test_release import ProposeTestRelease, TestedTopK, gaps  # noqa: E402

Counts: TypeAlias = tuple[int, ...]
Law: TypeAlias = dict[tuple[int, ...] | None, float]


class Certified:
    def __init__(self, leaf: ProposeTestRelease | Pure, seed: int = 1) -> None:
        self.noise = SeededNoise(seed)
        self.leaf = leaf
        self.uses = 0

    def use(self, path: str) -> ProposeTestRelease | Pure:  # noqa: ARG002
        self.uses += 1
        return self.leaf


def _at_least(number: int, spec: TestedTopK) -> float:
    """P(Z >= number), in closed form."""
    q = math.exp(-1.0 / float(spec.scale))
    return q**number / (1.0 + q) if number >= 1 else 1.0 - q ** (1 - number) / (1.0 + q)


def _top(counts: Counts, size: int) -> tuple[int, ...]:
    return tuple(sorted(sorted(range(len(counts)), key=lambda i: (-counts[i], i))[:size]))


def _law(counts: Counts, size: int, spec: TestedTopK, *, tested: int = 0) -> Law:
    """``tested``: how far the tested gap is from the one that guards the released set."""
    ordered = sorted(counts, reverse=True)
    gap = ordered[size - 1 + tested] - ordered[size + tested]
    passing = _at_least(spec.threshold - gap, spec)
    return {_top(counts, size): passing, None: 1.0 - passing}


def _hockey_stick(first: Law, second: Law, epsilon: float) -> float:
    return sum(max(0.0, first[key] - math.exp(epsilon) * second.get(key, 0.0)) for key in first)


_RECORDS = list(itertools.product((0, 1), repeat=4))


def _neighbours(relation: str) -> Iterator[tuple[Counts, Counts]]:
    """Counts of all multisets of up to two records over four things, and of one record more or another."""
    for size in range(3):
        for others in itertools.combinations_with_replacement(_RECORDS, size):
            base = tuple(map(sum, zip((0, 0, 0, 0), *others, strict=True)))
            if relation == "substitution":
                pairs = itertools.combinations(_RECORDS, 2)
            else:
                pairs = ((record, (0, 0, 0, 0)) for record in _RECORDS)
            for one, other in pairs:
                yield tuple(map(sum, zip(base, one, strict=True))), tuple(map(sum, zip(base, other, strict=True)))


def _worst(relation: str, spec: TestedTopK, law: Callable[[Counts], Law]) -> float:
    return max(
        max(_hockey_stick(law(one), law(other), spec.epsilon), _hockey_stick(law(other), law(one), spec.epsilon))
        for one, other in set(_neighbours(relation))
    )


@pytest.mark.parametrize(("relation", "sensitivity"), [("add-remove", 1), ("substitution", 2)])
@pytest.mark.parametrize("size", [1, 2])
def test_every_pair_of_small_data_sets_is_within_epsilon_and_delta(relation: str, sensitivity: int, size: int) -> None:
    spec = TestedTopK(epsilon=0.7, delta=0.08, gap_sensitivity=sensitivity)
    worst = _worst(relation, spec, lambda counts: _law(counts, size, spec))
    assert worst <= spec.delta
    assert worst >= 0.5 * spec.delta  # the charge is not empty: ties are released with nearly that probability


def test_the_sensitivity_of_substitution_is_needed() -> None:
    spec = TestedTopK(epsilon=0.7, delta=0.08, gap_sensitivity=1)
    assert _worst("substitution", spec, lambda counts: _law(counts, 1, spec)) > spec.delta


def test_testing_the_next_gap_breaks_the_guarantee() -> None:
    """Fault 10 of published code: gap[k] was tested, the set that gap[k−1] guards released.

    Two words are 40 ahead of the rest: the first is chosen by one record, whatever the gap behind both.
    """
    spec, pair = TestedTopK(epsilon=0.7, delta=1e-3, gap_sensitivity=1), ((40, 40, 0, 0), (40, 41, 0, 0))
    broken = [_law(counts, 1, spec, tested=1) for counts in pair]
    right = [_law(counts, 1, spec) for counts in pair]
    assert min(_hockey_stick(*broken, spec.epsilon), _hockey_stick(*broken[::-1], spec.epsilon)) > 0.99
    assert max(_hockey_stick(*right, spec.epsilon), _hockey_stick(*right[::-1], spec.epsilon)) <= spec.delta


@pytest.mark.parametrize("sensitivity", [1, 2])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-6), (3.0, 1e-12), (40.0, 0.3), (1e-3, 0.9)])
def test_the_threshold_is_the_least_safe_one(epsilon: float, delta: float, sensitivity: int) -> None:
    spec = TestedTopK(epsilon=epsilon, delta=delta, gap_sensitivity=sensitivity)
    margin = spec.threshold - sensitivity
    assert _at_least(margin, spec) <= delta * (1 + 1e-12)
    assert margin == 1 or _at_least(margin - 2, spec) > delta


def test_gaps_are_indexed_by_the_size_of_the_set_they_guard() -> None:
    assert gaps(np.array([3, 9, 1, 9])).tolist() == [0, 6, 2]


@pytest.mark.parametrize("gap", [0, 3, 5, 8])
def test_the_sampler_has_the_law(gap: int) -> None:
    spec, trials = TestedTopK(epsilon=0.8, delta=0.05, gap_sensitivity=1), 1500
    permit = Certified(spec.leaf(), seed=gap)
    counts = np.array([2, 2 + gap, 2 + gap, 1])
    drawn = Counter(spec.of_size(2).release(permit, "plan", counts) for _ in range(trials))
    assert set(drawn) <= {(1, 2) if gap else (0, 1), None}
    passing = _law((2, 2 + gap, 2 + gap, 1), 2, spec)[(1, 2) if gap else (0, 1)]
    assert binomtest(trials - drawn[None], trials, passing).pvalue > 1e-4
    assert permit.uses == trials


def test_each_use_costs_its_delta() -> None:
    leaf = TestedTopK(epsilon=0.5, delta=1e-6, gap_sensitivity=2).leaf()
    assert core(Repeat(3, leaf)) == Repeat(3, Approximate(0.5, 1e-6))
    assert parse_plan(to_dict(leaf)) == leaf


def test_where_a_record_moves_gaps_by_less_the_same_test_costs_less() -> None:
    spec = TestedTopK(epsilon=0.9, delta=0.05, gap_sensitivity=2)
    assert spec.moved(1) == ProposeTestRelease(0.45, 0.05)
    cheaper = TestedTopK(epsilon=0.9, delta=0.05, gap_sensitivity=2)

    def law(counts: Counts) -> Law:
        return _law(counts, 2, cheaper)

    worst = max(
        _hockey_stick(law(one), law(other), 0.45)
        for pair in _neighbours("add-remove")
        for one, other in (pair, pair[::-1])
    )
    assert worst <= 0.05


def test_more_than_certified_is_refused() -> None:
    certified = TestedTopK(epsilon=1.0, delta=1e-3, gap_sensitivity=1).leaf()
    counts = np.array([3, 1, 0])
    for asked in (TestedTopK(1.0000001, 1e-3, 1), TestedTopK(1.0, 1.0000001e-3, 1)):
        with pytest.raises(PermitViolation, match="does not cover"):
            asked.of_size(1).release(Certified(certified), "plan", counts)
    with pytest.raises(PermitViolation, match="the certified pure"):
        TestedTopK(1.0, 1e-3, 1).of_size(1).release(Certified(Pure(5.0)), "plan", counts)


@pytest.mark.parametrize(("size", "counts"), [(0, [1, 0]), (2, [1, 0]), (1, [1.0, 0.0]), (1, [[1, 0]])])
def test_bad_counts_are_refused_before_anything_is_charged(size: int, counts: list[object]) -> None:
    spec = TestedTopK(1.0, 1e-3, 1)
    permit = Certified(spec.leaf())
    with pytest.raises(UsageError):
        spec.of_size(size).release(permit, "plan", np.array(counts))
    assert permit.uses == 0


@pytest.mark.parametrize("changes", [{"epsilon": 0.0}, {"epsilon": float("inf")}, {"delta": 0.0}, {"delta": 1.5}])
def test_a_malformed_leaf_is_refused_by_name(changes: dict[str, float]) -> None:
    with pytest.raises(PlanError, match=rf"plan\.{next(iter(changes))}"):
        parse_plan({**to_dict(ProposeTestRelease(1.0, 1e-3)), **changes})
