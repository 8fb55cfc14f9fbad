"""Softmax sampling: two outputs A and B, and the worst pair of bounded range.

Log-weights make the loss t on A and t − η on B: P_out(A) = (1 − e^{t−η})/(e^t − e^{t−η}),
P_in(A) = e^t P_out(A) (Dong, Durfee and Rogers 2020, "Optimal differential privacy composition for
exponential mechanisms"). t is kept where A is the likelier output with the record and B without it;
otherwise a release without any noise would give B on both sides and look perfect.

Three mechanisms draw so: ``exponential`` by log-weights, ``bounded-range`` by one list of them, and
``joint-exponential`` a sequence of one out of two things, by their counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from affidavit.accountant.plan import Exponential, Leaf
from affidavit.audits.attacks.cases.base import Case, EventCase, Inputs, Release, without_noise

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Permit
    from affidavit.mechanisms.bounded_range import BoundedRange

__all__ = ["BoundedRangeCase", "ExponentialCase", "JointExponentialCase", "bounded_range", "exponential", "joint"]

_PAIRS = 9
_COUNTS = 16
"""The joint exponential's width in counts: its probabilities are set to a 16th of η in log-odds."""


class _TwoOutputs(EventCase):
    """``range`` η and ``loss`` t; the event is A."""

    __slots__ = ()

    loss: float

    @property
    def range(self) -> float:
        """η."""
        raise NotImplementedError

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """P(A); a temperature of ``noise`` times the certified one raises both weights to 1/noise."""
        eta, t = self.range, self.loss
        without = math.expm1(t - eta) / (math.exp(t - eta) - math.exp(t))
        probability = math.exp(t) * without if member else without
        odds = math.log(probability) - math.log1p(-probability)
        return 1.0 / (1.0 + math.exp(-odds / noise))

    def inputs(self, *, member: bool) -> Inputs:
        """Log-weights of A and B at temperature 1."""
        probability = self.probability(member=member)
        return np.asarray([math.log(probability), math.log1p(-probability)])

    def noise_off(self) -> Release:
        """The likelier output, always."""
        return without_noise(lambda inputs: float(inputs[0] > inputs[1]))


_Pair = TypeVar("_Pair", bound=_TwoOutputs)


@dataclass(frozen=True, slots=True)
class ExponentialCase(_TwoOutputs):
    """``affidavit.mechanisms.exponential``."""

    leaf: Exponential
    loss: float

    @property
    def range(self) -> float:
        """The leaf's."""
        return self.leaf.range

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """1 when A came out."""
        from affidavit.mechanisms import exponential

        return float(exponential.SoftmaxSampling(width=self.range, temperature=1.0).release(permit, path, inputs) == 0)


@dataclass(frozen=True, slots=True)
class BoundedRangeCase(_TwoOutputs):
    """``affidavit.mechanisms.bounded_range``: certified as the Gaussian that touches this very pair."""

    leaf: BoundedRange
    loss: float

    @property
    def range(self) -> float:
        """The leaf's."""
        return self.leaf.range

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """1 when A came out."""
        from affidavit.mechanisms import bounded_range

        (drawn,) = bounded_range.JointSelection(width=self.range, temperature=1.0).release(permit, path, [inputs])
        return float(drawn == 0)


@dataclass(frozen=True, slots=True)
class JointExponentialCase(_TwoOutputs):
    """``affidavit.mechanisms.joint_exponential``: which of two things has the larger count.

    With counts (k, 0) the utilities are (0, −k), with (0, k′) they are (−k′, 0): the changes spread
    over k + k′, the width. ``loss`` is rounded to whole counts.
    """

    leaf: Exponential
    loss: float

    @property
    def range(self) -> float:
        """The leaf's."""
        return self.leaf.range

    def _counts(self, *, member: bool) -> int:
        """k or k′: the log-odds of A with the record, or of B without it, in units of temperature."""
        probability = _TwoOutputs.probability(self, member=True)
        share = (math.log(probability) - math.log1p(-probability)) / self.range
        with_record = round(share * _COUNTS)
        return with_record if member else _COUNTS - with_record

    def probability(self, *, member: bool, noise: float = 1.0) -> float:
        """P(A), of the rounded counts."""
        odds = self._counts(member=member) * self.range / _COUNTS / noise
        return 1.0 / (1.0 + math.exp(-odds if member else odds))

    def inputs(self, *, member: bool) -> Inputs:
        """Counts of A and B."""
        count = self._counts(member=member)
        return np.asarray([count, 0] if member else [0, count], dtype=np.int64)

    def release(self, permit: Permit, path: str, inputs: Inputs) -> float:
        """1 when A came out."""
        from affidavit.mechanisms import joint_exponential

        temperature = _COUNTS / Fraction(self.range)
        spec = joint_exponential.JointTopK(size=1, most=2 * _COUNTS, width=_COUNTS, temperature=temperature)
        return float(spec.release(permit, path, inputs) == (0,))


def _losses(eta: float) -> list[float]:
    return [float(share * eta) for share in np.linspace(0.3, 0.7, _PAIRS)]


def exponential(leaf: Leaf) -> tuple[Case, ...]:
    """Nine pairs of an ``exponential`` leaf, those that noise-off can tell apart."""
    if not isinstance(leaf, Exponential) or leaf.range <= 0.0:
        return ()
    return _separating(tuple(ExponentialCase(leaf, loss) for loss in _losses(leaf.range)))


def bounded_range(leaf: Leaf) -> tuple[Case, ...]:
    """The same of a ``bounded-range`` leaf."""
    from affidavit.mechanisms.bounded_range import BoundedRange

    if not isinstance(leaf, BoundedRange) or leaf.range <= 0.0:
        return ()
    return _separating(tuple(BoundedRangeCase(leaf, loss) for loss in _losses(leaf.range)))


def joint(leaf: Leaf) -> tuple[Case, ...]:
    """The same as ``joint-exponential`` draws them."""
    if not isinstance(leaf, Exponential) or leaf.range <= 0.0:
        return ()
    return _separating(tuple(JointExponentialCase(leaf, loss) for loss in _losses(leaf.range)))


def _separating(cases: tuple[_Pair, ...]) -> tuple[_Pair, ...]:
    return tuple(case for case in cases if case.probability(member=False) < 0.5 < case.probability(member=True))
