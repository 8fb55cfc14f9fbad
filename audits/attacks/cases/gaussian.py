"""Gaussian noise: the values 1 and 0 at sensitivity 1 (Balle and Wang 2018), and what computes them.

``gaussian`` releases a value as it is. ``projected-mean`` sums points drawn into a ball: one at either
end of a diameter. ``coverage`` counts points near a centre: one, or none. ``good-radius`` compares
noisy coverages with a volume: as many coinciding points as the volume asks for, or one less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.plan import Gaussian, Leaf
from affidavit.audits.attacks.cases.base import Case, EventCase, Inputs, Release, without_noise

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Noise, Permit

__all__ = [
    "CoverageCase",
    "GaussianCase",
    "GoodRadiusCase",
    "ProjectedMeanCase",
    "coverage",
    "gaussian",
    "good_radius",
    "projected_mean",
]

_THRESHOLDS = 65
_VOLUME = 16
_TOLERANCE = 0.4
"""Of the search for a radius: one halving, so one noisy comparison of two coverages."""


@dataclass(frozen=True, slots=True)
class _HalvedNormals:
    """A permit whose normals come out half as large: what a permit cannot see."""

    permit: Permit

    @property
    def noise(self) -> Noise:
        """This, standing in front of the permit's own."""
        return self

    def use(self, path: str) -> Leaf:
        """The permit's."""
        return self.permit.use(path)

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        """The permit's."""
        return self.permit.noise.integers(low, high, size)

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        """Half the permit's."""
        return 0.5 * self.permit.noise.standard_normal(size)


def _halved(release: Release) -> Release:
    return lambda permit, path, inputs: release(_HalvedNormals(permit), path, inputs)


@dataclass(frozen=True, slots=True)
class GaussianCase:
    """One coordinate, sensitivity 1: normal with mean 1 or 0, summed over releases."""

    leaf: Gaussian

    @property
    def leaf_uses(self) -> int:
        """One."""
        return 1

    def inputs(self, *, member: bool) -> Inputs:
        """1 with the record, 0 without."""
        return np.asarray([1.0 if member else 0.0])

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """The coordinate that came out of ``affidavit.mechanisms.gaussian``."""
        from affidavit.mechanisms import gaussian

        scale = self.leaf.noise_multiplier
        return float(gaussian.GaussianNoise(scale, 1.0).release(permit, path, inputs)[0])

    def statistic(self, released: float) -> float:
        """The value itself."""
        return released

    def thresholds(self, uses: int) -> Sequence[float]:
        """Evenly over three certified standard deviations on either side of both means."""
        reach = 3.0 * self.leaf.noise_multiplier * math.sqrt(uses)
        return [float(value) for value in np.linspace(-reach, uses + reach, _THRESHOLDS)]

    def tail(self, threshold: float, *, uses: int, member: bool, noise: float) -> float:
        """Normal."""
        from scipy.special import ndtr

        scale = noise * self.leaf.noise_multiplier * math.sqrt(uses)
        return float(ndtr(((uses if member else 0.0) - threshold) / scale))

    def half_noise(self, release: Release) -> Release:
        """Half of every normal."""
        return _halved(release)

    def noise_off(self) -> Release:
        """The value itself."""
        return without_noise(lambda inputs: float(inputs[0]))


@dataclass(frozen=True, slots=True)
class ProjectedMeanCase(GaussianCase):
    """One point at +1 or −1, ball of radius 1 about 0: the sum moves by 2 and is halved."""

    def inputs(self, *, member: bool) -> Inputs:
        """A row: the point."""
        return np.asarray([[1.0 if member else -1.0]])

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """The mean that came out of ``affidavit.mechanisms.projected_mean``."""
        from affidavit.mechanisms import projected_mean

        spec = projected_mean.ProjectedMean(self.leaf.noise_multiplier, "replaced")
        return float(spec.about(np.zeros(1), radius=1, count=1).release(permit, path, inputs)[0])

    def statistic(self, released: float) -> float:
        """From −1 and 1 to 0 and 1."""
        return 0.5 * (released + 1.0)

    def noise_off(self) -> Release:
        """The point itself."""
        return without_noise(lambda inputs: float(inputs[0, 0]))


@dataclass(frozen=True, slots=True)
class CoverageCase(GaussianCase):
    """One point at the centre, or none."""

    def inputs(self, *, member: bool) -> Inputs:
        """Rows of the simplex of two coordinates."""
        return np.asarray([[1.0, 0.0]])[: int(member)]

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """The count that came out of ``affidavit.mechanisms.coverage``."""
        from affidavit.mechanisms import coverage

        spec = coverage.CoverageCount(self.leaf.noise_multiplier)
        return spec.inside(np.asarray([1.0, 0.0]), radius=0.1).release(permit, path, inputs)

    def noise_off(self) -> Release:
        """The number of points."""
        return without_noise(lambda inputs: float(len(inputs)))


@dataclass(frozen=True, slots=True)
class GoodRadiusCase(EventCase):
    """t coinciding points or t − 1 of them: the average coverage is t, or t − 2 + 1/t, at every radius.

    The event is that one of the two noisy coverages of a halving reached t, so that the search went
    down. One search makes two uses of the leaf, each with noise of 2σ.
    """

    leaf: Gaussian

    @property
    def leaf_uses(self) -> int:
        """Two: the coverage at a radius and at half of it."""
        return 2

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """1 − Φ(gap/2σ)², the gap being 0 with the record."""
        from scipy.special import ndtr

        gap = 0.0 if member else 2.0 - 1.0 / _VOLUME
        return 1.0 - float(ndtr(gap / (2.0 * noise * self.leaf.noise_multiplier))) ** 2

    def inputs(self, *, member: bool) -> Inputs:
        """Rows of the simplex of two coordinates, all alike."""
        return np.tile([1.0, 0.0], (_VOLUME if member else _VOLUME - 1, 1))

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """1 when ``affidavit.mechanisms.good_radius`` found a radius in the lower half."""
        from affidavit.mechanisms import good_radius

        spec = good_radius.GoodRadius(self.leaf.noise_multiplier, _TOLERANCE)
        found = spec.holding(_VOLUME).release(permit, path, inputs)
        return float(found < good_radius.LARGEST / 2.0)

    def half_noise(self, release: Release) -> Release:
        """Half of every normal."""
        return _halved(release)

    def noise_off(self) -> Release:
        """Whether there are as many points as the volume asks for."""
        return without_noise(lambda inputs: float(len(inputs) >= _VOLUME), uses=self.leaf_uses)


def gaussian(leaf: Leaf) -> tuple[Case, ...]:
    """The pair of a ``gaussian`` leaf."""
    return (GaussianCase(leaf),) if _noisy(leaf) else ()


def projected_mean(leaf: Leaf) -> tuple[Case, ...]:
    """The same as ``projected-mean`` draws it."""
    return (ProjectedMeanCase(leaf),) if _noisy(leaf) else ()


def coverage(leaf: Leaf) -> tuple[Case, ...]:
    """The same as ``coverage`` draws it."""
    return (CoverageCase(leaf),) if _noisy(leaf) else ()


def good_radius(leaf: Leaf) -> tuple[Case, ...]:
    """The same as ``good-radius`` draws it."""
    return (GoodRadiusCase(leaf),) if _noisy(leaf) else ()


def _noisy(leaf: Leaf) -> TypeGuard[Gaussian]:
    return isinstance(leaf, Gaussian) and leaf.noise_multiplier > 0.0
