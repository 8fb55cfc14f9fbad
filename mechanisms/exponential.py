r"""The exponential mechanism: one output, drawn with probability ∝ exp(score / temperature).

*Cost.* Let the scores of neighbours differ by d = q(D′) − q(D), and let ``width`` bound the spread
max_v d_v − min_v d_v over all neighbours. For two outputs a, b the log-likelihood ratios satisfy

    ln [P′(a)/P(a)] − ln [P′(b)/P(b)] = (d_a − d_b) / temperature ≤ width / temperature = η,

because the normalisers cancel. That is the bounded-range property with range η (Durfee and Rogers
2019, "Practical differentially private top-k selection with pay-what-you-get composition"; Dong,
Durfee and Rogers 2020, "Optimal differential privacy composition for exponential mechanisms"), the
leaf ``exponential``. It is stronger than the (η, 0)-DP of McSherry and Talwar (2007): one use is
also η²/8-zCDP (Cesar and Rogers 2021). ``width`` is *for* a relation: the caller states it.

*Sampling.* Inverse CDF over integers, by one uniform integer: nothing is lost in the tails and ties
are as uniform as the weights are equal. Each weight is exp((score − max)/temperature) in float64, a
dyadic rational that is cut to 42·L binary places, with L chosen so that even the least likely
output keeps 48 significant bits. The outcome is then *exactly* distributed by those integer weights.
What separates them from real arithmetic is, per weight, the rounding of (score − max)/temperature
(at most 2^-42 at the largest spread allowed), of exp (2^-44 assumed; float64 exp is within a few ulp
of 2^-53) and the cut (2^-46): under 2^-40 in log space. A log-likelihood ratio between two outputs of
two neighbours holds four weights, so the range grows by less than 2^-38: ``SoftmaxSampling.leaf``
adds 2^-36. So no "ideal real arithmetic" has to be assumed, only an accurate ``exp``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.decimals import float_at_least
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Exponential
from affidavit.mechanisms.base import (
    Mechanism,
    Noise,
    Permit,
    Rational,
    Statistic,
    charge,
    positive,
    uniform_below,
    watched,
)

__all__ = ["ARITHMETIC_SLACK", "ASSUMPTIONS", "MAX_SPREAD", "MECHANISM", "SoftmaxSampling", "sample"]

Scores: TypeAlias = NDArray[np.float64 | np.int64]

MAX_SPREAD = 600.0
"""The largest (max score − min score)/temperature that is sampled; exp(−745) is 0 in float64."""

ARITHMETIC_SLACK = Fraction(1, 2**36)
"""Added to the range of a spec for float64: see the module's derivation."""

ASSUMPTIONS = (
    "exponential: float64 exp is accurate to 2^-44 relative; everything after it is exact integer arithmetic, "
    "and the certified range of a generator's plan includes 2^-36 for the rounding before it",
    "exponential: the noise source yields independent uniform bits",
)

_LIMB = 42  # 2^20 outputs x 2^42 stay below 2^63
_MAX_OUTPUTS = 1 << 20
_BLOCK = 256
"""Outputs that are passed over together: only in the block that holds the outcome is every one looked at."""


@dataclass(frozen=True, slots=True)
class SoftmaxSampling:
    """``width``: the largest spread, over outputs, of the change in score; ``temperature`` in the same units."""

    width: Rational
    temperature: Rational

    def leaf(self) -> Exponential:
        """The ``exponential`` leaf of one use: width/temperature, plus the slack, rounded up."""
        ratio = positive(self.width, name="width") / positive(self.temperature, name="temperature")
        return Exponential(float_at_least(ratio + ARITHMETIC_SLACK))

    def release(self, permit: Permit, path: str, values: Scores) -> int:
        """One output index ∝ exp(score/temperature); ``values`` are finite scores, one for each output.

        Whoever computes them guarantees that neighbouring data change them by a spread of at most ``width``. Raises
        ``PermitViolation`` if ``width``/``temperature`` exceeds the certified range (compared exactly, without slack).
        """
        asked, ratio = self.leaf(), Fraction(self.width) / Fraction(self.temperature)
        charge(permit, path, asked, lambda certified: ratio <= certified.range)
        statistic = Statistic("spread", (np.asarray(values),), (Fraction(self.temperature),))
        return watched(
            permit, path, statistic, lambda: sample(values, temperature=self.temperature, noise=permit.noise)
        )


def sample(scores: Scores, *, temperature: Rational, noise: Noise) -> int:
    """The sampler alone, for tests: no permit, no charge."""
    limbs = _weights(np.asarray(scores), float(temperature))
    blocks = _cumulative([np.add.reduceat(limb, np.arange(0, limb.size, _BLOCK)) for limb in limbs])
    uniform = uniform_below(noise, _compose(blocks, -1))
    block = _search(blocks, uniform)
    before = _compose(blocks, block - 1) if block else 0
    first = block * _BLOCK
    inside = _cumulative([limb[first : first + _BLOCK] for limb in limbs])
    return first + _search(inside, uniform - before)


def _weights(scores: Scores, temperature: float) -> list[NDArray[np.int64]]:
    """exp((scores − max)/temperature) as base-2^42 digits after the point, most significant first."""
    listed = scores.ndim == 1 and 0 < scores.size <= _MAX_OUTPUTS and scores.dtype.kind in "iuf"
    if not listed or not np.all(np.isfinite(scores)):
        raise UsageError("scores are not a list of finite numbers", hint="Give 1 to 2^20 finite scores.")
    spread = (scores.max().item() - scores.min().item()) / temperature  # where no dtype ends
    if spread <= MAX_SPREAD:
        wide = scores.astype(np.float64 if scores.dtype.kind == "f" else np.int64, copy=False)
        rest = (wide - wide.max()) / temperature
        spread = -float(rest.min())
    if spread > MAX_SPREAD:
        raise UsageError(
            f"scores spread over more than {MAX_SPREAD:g} temperatures",
            hint=f"Raise the temperature so that the scores' bounds are within {MAX_SPREAD:g} temperatures.",
        )
    np.exp(rest, out=rest)
    count = math.ceil((spread / math.log(2.0) + 48.0) / _LIMB)
    limbs = []
    for _ in range(count):
        np.multiply(rest, 2.0**_LIMB, out=rest)
        whole = np.floor(rest)
        limbs.append(whole.astype(np.int64))
        np.subtract(rest, whole, out=rest)
    return limbs


def _cumulative(limbs: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    """Running totals in the same digits, carried; only the first digit may exceed 2^42. ``limbs`` become them."""
    sums = [np.cumsum(limb, out=limb) for limb in limbs]
    for low in range(len(sums) - 1, 0, -1):
        sums[low - 1] += sums[low] >> _LIMB
        sums[low] &= (1 << _LIMB) - 1
    return sums


def _compose(digits: list[NDArray[np.int64]], index: int) -> int:
    total = 0
    for column in digits:
        total = (total << _LIMB) + int(column[index])
    return total


def _search(sums: list[NDArray[np.int64]], uniform: int) -> int:
    """The first output whose running total exceeds ``uniform``: lexicographic bisection."""
    low, high = 0, sums[0].size
    for place, column in enumerate(sums):
        shift = _LIMB * (len(sums) - 1 - place)
        digit = uniform >> shift if place == 0 else (uniform >> shift) & ((1 << _LIMB) - 1)
        window = column[low:high]
        low, high = (
            low + int(np.searchsorted(window, digit, side="left")),
            low + int(np.searchsorted(window, digit, side="right")),
        )
    return high


MECHANISM = Mechanism(Exponential.kind, SoftmaxSampling, "inverse CDF over integer weights", ASSUMPTIONS)
