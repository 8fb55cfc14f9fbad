"""What each primitive mechanism really gives away on a worst-case pair, held against its certified curve.

An event is fixed for each pair, its probability under either input is estimated, and

    ln((P − δ)/Q)       is at most the certified ε at δ    (with confidence: never above)
                        and at least 60 % of it            (so that the curve is not idle)

A lower bound at confidence 1 − 1e-4 that exceeds the certified ε would be a violation.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import beta

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Leaf, Plan
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms import (
    discrete_gaussian,
    exponential,
    gaussian,
    laplace,
    noisy_max,
    projected_mean,
)
from affidavit.mechanisms.coverage import CoverageCount
from affidavit.mechanisms.discrete_gaussian import DiscreteGaussianNoise
from affidavit.mechanisms.exponential import SoftmaxSampling
from affidavit.mechanisms.gaussian import GaussianNoise
from affidavit.mechanisms.good_radius import GoodRadius
from affidavit.mechanisms.laplace import LaplaceNoise
from affidavit.mechanisms.noisy_max import ExponentialNoisyMax
from affidavit.mechanisms.projected_mean import ProjectedMean

ERROR = 1e-4


class Uses:
    """A permit for any number of uses of one leaf."""

    def __init__(self, leaf: Leaf, seed: int) -> None:
        self.noise = SeededNoise(seed)
        self._leaf = leaf

    def use(self, path: str) -> Leaf:
        assert path == "plan"
        return self._leaf


@dataclass(frozen=True)
class Pair:
    """``happens(permit, neighbour)``: whether the event occurs in one release on either input."""

    plan: Plan
    leaf: Leaf
    happens: Callable[[Uses, bool], bool]
    delta: float = 0.0
    trials: int = 4000


def _frequencies(pair: Pair) -> tuple[int, int]:
    counts = []
    for seed, neighbour in ((1, True), (2, False)):
        permit = Uses(pair.leaf, seed)
        counts.append(sum(pair.happens(permit, neighbour) for _ in range(pair.trials)))
    return counts[0], counts[1]


def _epsilon_lower(hits: int, misses: int, pair: Pair) -> float:
    """Clopper and Pearson 1934, one-sided at ERROR/2 each."""
    least = beta.ppf(ERROR / 2, hits, pair.trials - hits + 1) if hits else 0.0
    most = beta.ppf(1 - ERROR / 2, misses + 1, pair.trials - misses)
    return math.log(max(least - pair.delta, 1e-300) / most)


def _gaussian() -> Pair:
    spec = GaussianNoise(standard_deviation=2.0, l2_sensitivity=2.0)

    def happens(permit: Uses, neighbour: bool) -> bool:
        values = np.array([1.2, 1.6]) * neighbour
        noisy = gaussian.GaussianNoise(2.0, 2.0).release(permit, "plan", values)
        return bool(noisy @ np.array([0.6, 0.8]) > 2.6)

    return Pair(spec.leaf(), spec.leaf(), happens, delta=0.1, trials=20_000)


def _discrete_gaussian() -> Pair:
    spec = DiscreteGaussianNoise(standard_deviation=2.0, sensitivity=2)

    def happens(permit: Uses, neighbour: bool) -> bool:
        noisy = discrete_gaussian.DiscreteGaussianNoise(2.0, 2).release(permit, "plan", 2 * neighbour)
        return noisy > 2

    return Pair(spec.leaf(), spec.leaf(), happens, delta=0.1)


def _laplace() -> Pair:
    spec = LaplaceNoise(scale=3.0, l1_sensitivity=3)

    def happens(permit: Uses, neighbour: bool) -> bool:
        values = np.array([0, 3 * neighbour])
        return bool(laplace.LaplaceNoise(3.0, 3).release(permit, "plan", values)[1] >= 3)

    return Pair(spec.leaf(), spec.leaf(), happens)


def _exponential() -> Pair:
    spec = SoftmaxSampling(width=2, temperature=1)

    def happens(permit: Uses, neighbour: bool) -> bool:
        scores = np.full(21, 1.0 - neighbour)
        scores[0] = neighbour
        return exponential.SoftmaxSampling(width=2, temperature=1).release(permit, "plan", scores) == 0

    return Pair(spec.leaf(), spec.leaf(), happens)


def _noisy_max(*, monotone: bool) -> Pair:
    """Twenty-one outputs in whole numbers of 1/1000; the first one's score rises, the others' fall or stay."""
    width = 1000 if monotone else 2000
    spec = ExponentialNoisyMax(rate=Fraction(1, 1000), width=width)

    def happens(permit: Uses, neighbour: bool) -> bool:
        scores = np.full(21, 0 if neighbour and not monotone else 1000)
        scores[0] = 1000 if neighbour else 0
        return noisy_max.ExponentialNoisyMax(rate=spec.rate, width=width).release(permit, "plan", scores) == 0

    return Pair(spec.leaf(), spec.leaf(), happens, trials=6000)


def _projected_mean(change: projected_mean.Change) -> Pair:
    """One point at the ball's rim, against none, or against the opposite one; the others at the centre."""
    spec = ProjectedMean(1.0 if change == "replaced" else 0.5, change)
    centre, far = np.full(3, 1 / 3), np.array([1.0, 0.0, 0.0])
    direction = (far - centre) / np.linalg.norm(far - centre)

    def happens(permit: Uses, neighbour: bool) -> bool:
        other = [centre - 0.25 * direction] if change == "replaced" else []
        points = np.array([centre, centre, *([far] if neighbour else other)])
        mean = spec.about(centre, radius=0.25, count=3).release(permit, "plan", points)
        along = float((mean - centre) @ direction) * 3 / 0.25
        return along > (1.6 if change == "replaced" else 1.3)

    return Pair(spec.leaf(), spec.leaf(), happens, delta=0.1, trials=12_000)


def _coverage() -> Pair:
    spec = CoverageCount(1.0)
    centre = np.array([1.0, 0.0])

    def happens(permit: Uses, neighbour: bool) -> bool:
        points = np.array([[0.9, 0.1], [1.0, 0.0] if neighbour else [0.0, 1.0]])
        return spec.inside(centre, radius=0.3).release(permit, "plan", points) > 2.3

    return Pair(spec.leaf(), spec.leaf(), happens, delta=0.1, trials=12_000)


PAIRS = {
    "gaussian": _gaussian,
    "discrete-gaussian": _discrete_gaussian,
    "laplace": _laplace,
    "exponential": _exponential,
    "noisy-max, monotone": lambda: _noisy_max(monotone=True),
    "noisy-max": lambda: _noisy_max(monotone=False),
    "projected-mean, replaced": lambda: _projected_mean("replaced"),
    "projected-mean, joins": lambda: _projected_mean("joins"),
    "coverage": _coverage,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_the_certified_curve_holds_and_is_not_idle(name: str) -> None:
    pair = PAIRS[name]()
    certified = bound(pair.plan, relation="zero-out", delta=pair.delta).epsilon_upper
    hits, misses = _frequencies(pair)
    assert _epsilon_lower(hits, misses, pair) <= certified
    assert math.log((hits / pair.trials - pair.delta) / (misses / pair.trials)) >= 0.6 * certified


@pytest.mark.slow
def test_good_radius_stays_below_its_composition() -> None:
    """A hub that joins a star moves L by 2 − 2/t, nearly its bound; the search itself tells less than its releases."""
    spec, volume = GoodRadius(1.0, 0.5), 12
    rim = np.full((volume, volume), 0.55 / volume) + 0.45 * np.eye(volume)
    joined = np.vstack([rim, np.full((1, volume), 1 / volume)])

    def happens(permit: Uses, neighbour: bool) -> bool:
        found = spec.holding(2).release(permit, "plan", joined if neighbour else rim)
        return found < math.sqrt(2) / 4

    pair = Pair(spec.plan(), spec.leaf(), happens, delta=0.05, trials=4000)
    hits, misses = _frequencies(pair)
    assert hits > misses
    assert _epsilon_lower(hits, misses, pair) <= bound(pair.plan, relation="zero-out", delta=0.05).epsilon_upper
