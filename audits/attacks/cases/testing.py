"""Mechanisms that test the data before they answer: propose-test-release, and the sparse vector.

* ``propose-test-release``: two counts, the set of the larger one. Its gap is where the test passes half
  the time, or Δ less: the same set on both sides, so the test alone tells them apart, by e^ε.
* ``above-threshold``: a few queries that must stay below, then as many that must come out above as the
  run may give. With the record the first are low and the last high; without it all move by the
  sensitivity the other way (in a monotone stream the last stay where they are). That the first stay
  below says that the threshold's noise is large, and the last come out above in spite of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.plan import Leaf
from affidavit.audits.attacks.cases.base import Case, EventCase, Inputs, Release, without_noise

if TYPE_CHECKING:
    from affidavit.mechanisms.above_threshold import AboveThreshold, SparseVector
    from affidavit.mechanisms.base import Permit
    from affidavit.mechanisms.propose_test_release import ProposeTestRelease, TestedTopK

__all__ = ["AboveThresholdCase", "ProposeTestReleaseCase", "above_threshold", "propose_test_release"]

_GAP = 64
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.5, 0.7)
_STEPS = 4
_MOST_POSITIVES = 16


@dataclass(frozen=True, slots=True)
class ProposeTestReleaseCase(EventCase):
    """``affidavit.mechanisms.propose_test_release``: with the record the gap exceeds the threshold by ``beyond``."""

    leaf: ProposeTestRelease
    beyond: int

    @property
    def _spec(self) -> TestedTopK:
        from affidavit.mechanisms.propose_test_release import TestedTopK

        return TestedTopK(self.leaf.epsilon, self.leaf.delta, _GAP)

    def _excess(self, *, member: bool) -> int:
        return self.beyond if member else self.beyond - _GAP

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """P(gap + Z ≥ threshold), Z discrete Laplace: the gap's distance counts 1/noise times."""
        needed = -self._excess(member=member) / noise
        return float(_reaches(np.asarray([needed], dtype=np.float64), scale=_GAP / self.leaf.epsilon)[0])

    def inputs(self, *, member: bool) -> Inputs:
        """Two counts that far apart."""
        return np.asarray([self._spec.threshold + self._excess(member=member), 0], dtype=np.int64)

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """1 when the test passed."""
        return float(self._spec.of_size(1).release(permit, path, inputs) is not None)

    def doubled(self, inputs: Inputs) -> Inputs:
        """Twice as far from the threshold."""
        return np.asarray(np.maximum(2 * inputs - self._spec.threshold * np.asarray([1, 0]), 0))

    def noise_off(self) -> Release:
        """Whether the gap reaches the threshold."""
        threshold = self._spec.threshold
        return without_noise(lambda inputs: float(inputs[0] - inputs[1] >= threshold))


@dataclass(frozen=True, slots=True)
class AboveThresholdCase(EventCase):
    """``affidavit.mechanisms.above_threshold``: ``first`` queries at ``low``, then all positives at ``high``.

    In steps, of which the sensitivity is four; the threshold is 0. The event is that every answer is
    as the record makes it.
    """

    leaf: AboveThreshold
    first: int
    low: int
    high: int

    @property
    def _spec(self) -> SparseVector:
        from affidavit.mechanisms.above_threshold import SparseVector

        leaf = self.leaf
        return SparseVector(
            Fraction(leaf.threshold_noise_multiplier) * _STEPS,
            Fraction(leaf.query_noise_multiplier) * _STEPS,
            _STEPS,
            leaf.positives,
            leaf.monotone,
        )

    def levels(self, *, member: bool) -> tuple[int, int]:
        """The two levels of the queries."""
        if member:
            return self.low, self.high
        return self.low + _STEPS, self.high - (0 if self.leaf.monotone else _STEPS)

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """Summed over the threshold's noise: P(below)^first · P(above)^positives."""
        low, high = (level / noise for level in self.levels(member=member))
        width = self.leaf.threshold_noise_multiplier * _STEPS
        reach = int(40.0 * width) + 1
        shift = np.arange(-reach, reach + 1, dtype=np.float64)
        ratio = np.exp(-1.0 / width)
        weights = (1.0 - ratio) / (1.0 + ratio) * np.exp(-np.abs(shift) / width)
        scale = self.leaf.query_noise_multiplier * _STEPS
        below = 1.0 - _reaches(shift - low, scale=scale)
        above = _reaches(shift - high, scale=scale)
        return float((weights * below**self.first * above**self.leaf.positives).sum())

    def inputs(self, *, member: bool) -> Inputs:
        """The whole stream."""
        low, high = self.levels(member=member)
        return np.asarray([low] * self.first + [high] * self.leaf.positives, dtype=np.int64)

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """1 when every answer is as the record makes it."""
        scan = self._spec.against(0).release(permit, path, ())
        return float(self._expected([scan.above(int(query)) for query in inputs if not scan.finished]))

    def noise_off(self) -> Release:
        """The exact answers, up to the last "above" that a run may give."""

        def answers(inputs: Inputs) -> float:
            given: list[bool] = []
            for query in inputs:
                given.append(bool(query >= 0))
                if sum(given) == self.leaf.positives:
                    break
            return float(self._expected(given))

        return without_noise(answers)

    def _expected(self, answers: list[bool]) -> bool:
        return answers == [False] * self.first + [True] * self.leaf.positives


def _reaches(needed: NDArray[np.floating[Any]], *, scale: float) -> NDArray[np.float64]:
    """P(Z ≥ needed) of a discrete Laplace number Z."""
    least = np.ceil(needed)
    ratio = np.exp(-1.0 / scale)
    upper = np.exp(-np.maximum(least, 1.0) / scale) / (1.0 + ratio)
    lower = 1.0 - np.exp(-np.maximum(1.0 - least, 1.0) / scale) / (1.0 + ratio)
    return np.asarray(np.where(least >= 1.0, upper, lower), dtype=np.float64)


def propose_test_release(leaf: Leaf) -> tuple[Case, ...]:
    """Six gaps for a ``propose-test-release`` leaf."""
    from affidavit.mechanisms.propose_test_release import ProposeTestRelease

    if not isinstance(leaf, ProposeTestRelease):
        return ()
    return tuple(ProposeTestReleaseCase(leaf, round(share * _GAP)) for share in _SHARES)


def above_threshold(leaf: Leaf) -> tuple[Case, ...]:
    """Streams of 2, 4 or 8 low queries for an ``above-threshold`` leaf, those that noise-off can tell apart.

    A run of more than 16 positives is not covered: the event that all come out right is too rare to count.
    """
    from affidavit.mechanisms.above_threshold import AboveThreshold

    if not isinstance(leaf, AboveThreshold) or leaf.positives > _MOST_POSITIVES:
        return ()
    scale = leaf.query_noise_multiplier * _STEPS
    lows = sorted({-max(1, round(share * scale)) for share in (0.0, 0.125, 0.25, 0.5, 0.75)})
    highs = sorted({round(share * scale) for share in (0.0, 0.125, 0.25, 0.5)})
    rivals = (AboveThresholdCase(leaf, *chosen) for chosen in product((2, 4, 8), lows, highs))
    return tuple(case for case in rivals if _told_apart(case))


def _told_apart(case: AboveThresholdCase) -> bool:
    low, high = case.levels(member=False)
    return low >= 0 or high < 0
