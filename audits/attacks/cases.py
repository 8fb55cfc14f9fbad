"""Chosen inputs: for each kind of leaf, the pair of neighbours that its certificate fears most.

A case knows its two inputs, how the mechanism is asked to draw on them, and the exact
distribution of a trial's statistic when the noise is a given fraction of what was certified;
and it can break a release in the two ways an audit must notice.

* ``exponential {range η}``: outputs A and B, with log-weights that make the loss t on A and
  t − η on B: P_out(A) = (1 − e^{t−η})/(e^t − e^{t−η}), P_in(A) = e^t P_out(A), the worst case of
  bounded range (Dong, Durfee and Rogers 2020, "Optimal differential privacy composition for
  exponential mechanisms"). t is kept where A is the likelier output with the record and B
  without it; otherwise a release without any noise would give B on both sides and look perfect.
* ``gaussian {noise_multiplier σ}``: the values 1 and 0 at sensitivity 1 (Balle and Wang 2018).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Exponential, Gaussian, Leaf

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Permit

__all__ = ["Case", "ExponentialCase", "GaussianCase", "Release", "cases_of"]

Release: TypeAlias = "Callable[[Permit, str, NDArray[np.float64]], float]"
"""One use at a path of a plan, on a chosen input → a number; more of it says "record in"."""

_PAIRS = 9
_THRESHOLDS = 65


class Case(Protocol):
    """A worst pair for one leaf."""

    @property
    def leaf(self) -> Leaf:
        """The certified leaf."""
        ...

    def inputs(self, *, member: bool) -> NDArray[np.float64]:
        """What the mechanism is given with the record, or without it."""
        ...

    def release(self, permit: Permit, path: str, inputs: NDArray[np.float64]) -> float:
        """One use of the package's own mechanism."""
        ...

    def thresholds(self, uses: int) -> Sequence[float]:
        """Thresholds of the statistic that are worth considering."""
        ...

    def tail(self, threshold: float, *, uses: int, member: bool, noise: float) -> float:
        """P(statistic ≥ threshold) when the noise is ``noise`` times the certified one."""
        ...

    def half_noise(self, release: Release) -> Release:
        """The same release with half the noise, undetectable by a permit."""
        ...

    def noise_off(self) -> Release:
        """What comes out without any noise."""
        ...


@dataclass(frozen=True, slots=True)
class ExponentialCase:
    """Two outputs; ``loss`` is t."""

    leaf: Exponential
    loss: float

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """P(A); a temperature of ``noise`` times the certified one raises both weights to 1/noise."""
        eta, t = self.leaf.range, self.loss
        without = math.expm1(t - eta) / (math.exp(t - eta) - math.exp(t))
        probability = math.exp(t) * without if member else without
        odds = math.log(probability) - math.log1p(-probability)
        return 1.0 / (1.0 + math.exp(-odds / noise))

    def inputs(self, *, member: bool) -> NDArray[np.float64]:
        """Log-weights of A and B at temperature 1."""
        probability = self.probability(member=member)
        return np.asarray([math.log(probability), math.log1p(-probability)])

    def release(self, permit: Permit, path: str, inputs: NDArray[np.float64]) -> float:
        """1 when A came out of ``affidavit.mechanisms.exponential``."""
        from affidavit.mechanisms import exponential

        drawn = exponential.release(permit, path, inputs, temperature=1.0, width=self.leaf.range)
        return float(drawn == 0)

    def thresholds(self, uses: int) -> Sequence[float]:
        """Counts of A, at most 65 of them about the middle."""
        middle = uses * 0.5 * (self.probability(member=True) + self.probability(member=False))
        reach = min(_THRESHOLDS // 2, uses)
        first = max(1, round(middle) - reach)
        return [float(count) for count in range(first, min(uses, round(middle) + reach) + 1)]

    def tail(self, threshold: float, *, uses: int, member: bool, noise: float) -> float:
        """Binomial."""
        from scipy.stats import binom

        return float(binom.sf(math.ceil(threshold) - 1, uses, self.probability(member=member, noise=noise)))

    def half_noise(self, release: Release) -> Release:
        """Half the temperature: the same as twice the log-weights."""
        return lambda permit, path, inputs: release(permit, path, 2.0 * inputs)

    def noise_off(self) -> Release:
        """The likelier output, always."""

        def likelier(permit: Permit, path: str, inputs: NDArray[np.float64]) -> float:
            permit.use(path)
            return float(inputs[0] > inputs[1])

        return likelier


@dataclass(frozen=True, slots=True)
class GaussianCase:
    """One coordinate, sensitivity 1."""

    leaf: Gaussian

    def inputs(self, *, member: bool) -> NDArray[np.float64]:
        """1 with the record, 0 without."""
        return np.asarray([1.0 if member else 0.0])

    def release(self, permit: Permit, path: str, inputs: NDArray[np.float64]) -> float:
        """The coordinate that came out of ``affidavit.mechanisms.gaussian``."""
        from affidavit.mechanisms import gaussian

        scale = self.leaf.noise_multiplier
        return float(gaussian.release(permit, path, inputs, standard_deviation=scale, l2_sensitivity=1.0)[0])

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
        """(2x + N)/2."""
        return lambda permit, path, inputs: release(permit, path, 2.0 * inputs) / 2.0

    def noise_off(self) -> Release:
        """The value itself."""

        def exact(permit: Permit, path: str, inputs: NDArray[np.float64]) -> float:
            permit.use(path)
            return float(inputs[0])

        return exact


def cases_of(leaf: Leaf) -> tuple[Case, ...]:
    """The worst pairs of a leaf. Raises ``NotSupported`` for a kind without a release of its own here."""
    match leaf:
        case Exponential(range=eta) if eta > 0.0:
            shares = np.linspace(0.3, 0.7, _PAIRS)
            rivals = (ExponentialCase(leaf, float(share * eta)) for share in shares)
            return tuple(
                rival for rival in rivals if rival.probability(member=False) < 0.5 < rival.probability(member=True)
            )
        case Gaussian(noise_multiplier=sigma) if sigma > 0.0:
            return (GaussianCase(leaf),)
        case _:
            raise NotSupported(
                f"no chosen inputs for a leaf {leaf.kind!r} with these parameters",
                hint="the one-step audit covers exponential (range > 0) and gaussian (noise multiplier > 0) leaves",
            )
