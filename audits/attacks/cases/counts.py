"""Noise on whole numbers: a count of 0 or of the sensitivity, in steps so fine that rounding is no matter.

``laplace`` adds rounded Laplace noise, ``discrete-gaussian`` discrete Gaussian noise. The event is that
the value reached a bound between the two means: at the upper one the Laplace probabilities of the pair
are in the ratio e^ε exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.plan import DiscreteGaussian, Laplace, Leaf
from affidavit.audits.attacks.cases.base import Case, EventCase, Inputs, Release, without_noise

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Permit

__all__ = ["DiscreteGaussianCase", "LaplaceCase", "discrete_gaussian", "laplace"]

_STEPS = 64
"""Of the Laplace case: the sensitivity, in whole numbers."""

_BOUNDS = (0.25, 0.5, 0.75, 0.9, 1.0)
"""In sensitivities: above 0 and at most 1, so that a release without noise is told apart."""


class _Count(EventCase):
    """A count of 0 or of ``steps``; the event is that the noisy one reached ``bound``."""

    __slots__ = ()

    bound: int
    steps: int

    def inputs(self, *, member: bool) -> Inputs:
        """One count."""
        return np.asarray([self.steps if member else 0], dtype=np.int64)

    def statistic(self, released: float) -> float:
        """Whether it reached the bound."""
        return float(released >= self.bound)

    def half_noise(self, release: Release) -> Release:
        """(2x + noise)/2."""
        return lambda permit, path, inputs: release(permit, path, self.doubled(inputs)) / 2.0

    def noise_off(self) -> Release:
        """The count."""
        return without_noise(lambda inputs: float(inputs[0]))


@dataclass(frozen=True, slots=True)
class LaplaceCase(_Count):
    """``affidavit.mechanisms.laplace``; ``bound`` in steps."""

    leaf: Laplace
    bound: int
    steps: int = _STEPS

    @property
    def _scale(self) -> Fraction:
        return Fraction(self.leaf.noise_multiplier) * self.steps

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """P(x + K ≥ bound), as if everything but the noise were 1/noise times as large."""
        needed = math.ceil((self.bound - (self.steps if member else 0)) / noise)
        scale = float(self._scale)
        if needed >= 1:
            return 0.5 * math.exp(-(needed - 0.5) / scale)
        return 1.0 - 0.5 * math.exp(-(0.5 - needed) / scale)

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """The noisy count."""
        from affidavit.mechanisms import laplace

        return float(laplace.LaplaceNoise(self._scale, self.steps).release(permit, path, inputs)[0])


@dataclass(frozen=True, slots=True)
class DiscreteGaussianCase(_Count):
    """``affidavit.mechanisms.discrete_gaussian``; ``bound`` in grid steps, ``steps`` of them in the sensitivity."""

    leaf: DiscreteGaussian
    steps: int
    bound: int

    @property
    def _deviation(self) -> Fraction:
        return Fraction(self.leaf.noise_multiplier) * self.steps

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """P(x + N ≥ bound), as if everything but the noise were 1/noise times as large."""
        needed = math.ceil((self.bound - (self.steps if member else 0)) / noise)
        deviation = float(self._deviation)
        reach = math.ceil(40.0 * deviation) + abs(needed) + 1
        values = np.arange(-reach, reach + 1)
        weights = np.exp(-0.5 * (values / deviation) ** 2)
        return float(weights[values >= needed].sum() / weights.sum())

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """The noisy count."""
        from affidavit.mechanisms import discrete_gaussian

        value = int(inputs[0])
        return float(discrete_gaussian.DiscreteGaussianNoise(self._deviation, self.steps).release(permit, path, value))


def laplace(leaf: Leaf) -> tuple[Case, ...]:
    """Five bounds for a ``laplace`` leaf."""
    if not isinstance(leaf, Laplace) or leaf.noise_multiplier <= 0.0:
        return ()
    return tuple(LaplaceCase(leaf, bound) for bound in _bounds(_STEPS))


def discrete_gaussian(leaf: Leaf) -> tuple[Case, ...]:
    """The same for a ``discrete-gaussian`` leaf, on its grid."""
    if not isinstance(leaf, DiscreteGaussian) or leaf.noise_multiplier <= 0.0:
        return ()
    steps = round(1.0 / leaf.granularity)
    return tuple(DiscreteGaussianCase(leaf, steps, bound) for bound in _bounds(steps))


def _bounds(steps: int) -> Sequence[int]:
    return sorted({max(1, math.ceil(share * steps)) for share in _BOUNDS})
