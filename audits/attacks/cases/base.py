"""What a case is: two inputs, how the mechanism draws on them, and the law of what comes out.

A case knows the exact distribution of a trial's statistic when the noise is a given fraction of what
was certified, and it can break a release in the two ways an audit must notice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.plan import Leaf

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Permit

__all__ = ["Case", "EventCase", "Inputs", "Release", "without_noise"]

Inputs: TypeAlias = NDArray[Any]

Release: TypeAlias = "Callable[[Permit, str, Inputs], float]"
"""One release at a path of a plan, on a chosen input → a number (what came out)."""

_THRESHOLDS = 65


class Case(Protocol):
    """A worst pair for one leaf, as one mechanism draws it."""

    @property
    def leaf(self) -> Leaf:
        """The certified leaf."""
        ...

    @property
    def leaf_uses(self) -> int:
        """How many uses of the leaf one release makes; nearly always 1."""
        ...

    def inputs(self, *, member: bool) -> Inputs:
        """What the mechanism is given with the record, or without it."""
        ...

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """One release by the package's own mechanism."""
        ...

    def statistic(self, released: float) -> float:
        """What a trial adds up over its releases; more of it says "record in"."""
        ...

    def thresholds(self, uses: int) -> Sequence[float]:
        """Thresholds of the sum over ``uses`` releases that are worth considering."""
        ...

    def tail(self, threshold: float, *, uses: int, member: bool, noise: float) -> float:
        """P(sum ≥ threshold) when the noise is ``noise`` times the certified one."""
        ...

    def half_noise(self, release: Release) -> Release:
        """The same release with half the noise, undetectable by a permit."""
        ...

    def noise_off(self) -> Release:
        """What comes out without any noise."""
        ...


class EventCase(ABC):
    """A case that counts how often one event came out: the sum over releases is binomial."""

    __slots__ = ()

    @property
    def leaf_uses(self) -> int:
        """One."""
        return 1

    @abstractmethod
    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """Of the event, when the noise is ``noise`` times the certified one."""

    def statistic(self, released: float) -> float:
        """1 if the event came out, else 0: as the release gave it."""
        return released

    def thresholds(self, uses: int) -> Sequence[float]:
        """Counts of the event, at most 65 of them about the middle."""
        middle = uses * 0.5 * (self.probability(member=True) + self.probability(member=False))
        reach = min(_THRESHOLDS // 2, uses)
        first = max(1, round(middle) - reach)
        return [float(count) for count in range(first, min(uses, round(middle) + reach) + 1)]

    def tail(self, threshold: float, *, uses: int, member: bool, noise: float) -> float:
        """Binomial."""
        from scipy.stats import binom

        return float(binom.sf(math.ceil(threshold) - 1, uses, self.probability(member=member, noise=noise)))

    def half_noise(self, release: Release) -> Release:
        """Inputs of twice the size: the same noise is half as large beside them."""
        return lambda permit, path, inputs: release(permit, path, self.doubled(inputs))

    def doubled(self, inputs: Inputs) -> Inputs:
        """Inputs for which the certified noise is half as large as it should be."""
        return np.asarray(2 * inputs)


def without_noise(value: Callable[[Inputs], float], *, uses: int = 1) -> Release:
    """A release that draws nothing, charged like one that does."""

    def exact(permit: Permit, path: str, inputs: Inputs) -> float:
        for _ in range(uses):
            permit.use(path)
        return value(inputs)

    return exact
