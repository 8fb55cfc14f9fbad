r"""The joint exponential mechanism: k of d things in order, drawn as a whole by one exponential mechanism.

Gillenwater, Joseph, Muñoz Medina and Ribero Diaz 2022, "A joint exponential mechanism for differentially private
top-k". Counts c over a public domain, c_(1) >= c_(2) >= …; a sequence s of k distinct things has the utility

    u(s) = − max_i (c_(i) − c_{s_i}),        drawn with probability ∝ exp(u(s) / temperature).

*Sensitivity*, per relation, of counts where a record adds 0 or 1 to each entry:

- add-remove, zero-out: c_(i) and c_{s_i} move the same way by 0 or 1, so their difference, and the maximum, moves
  by −1, 0 or 1. u changes by d(s) in [−1, 1], whose spread over sequences is at most 2 (and reaches 2: where a
  record holds the top thing and an unpopular one). ``width`` 2.
- substitution (or a record that changes an answer rather than adding one): both counts move by −1, 0 or 1, so
  d(s) is in [−2, 2]: ``width`` 4.

*Cost*: bounded range width/temperature, the leaf ``exponential`` (see that module). The paper states the same
draw as (ε, 0)-DP with temperature 2Δ/ε; a ``pure`` leaf of that ε covers it too, for plans in which bounded range
is of no use.

*Sampling*, exact. Utilities are whole numbers −m. With things in order of count, those that may stand at place i
in a sequence of utility >= −m are the first n_i(m) = #{j : c_j >= c_(i) − m}. These sets grow with i, so whatever
stands before, n_i(m) − (i − 1) choices are left, and N(m) = ∏_i (n_i(m) − i + 1) sequences have utility >= −m.
Those of utility exactly −m are counted by the first place i that costs m: N(m) − N(m−1) telescopes into

    Σ_i  ∏_{j<i} (n_j(m−1) − j + 1) · (n_i(m) − n_i(m−1)) · ∏_{j>i} (n_j(m) − j + 1).

So: draw m with weight (N(m) − N(m−1))·exp(−m/temperature), then i by these products, then each place uniformly
among what is left for it. All of it is whole-number arithmetic on uniform integers of any size; only
exp(−1/temperature) is rounded, to so many bits that every weight is right to 2^-100 relative. A log-likelihood
ratio of two outputs of two neighbours holds four weights: ``JointTopK.leaf`` adds 2^-96 to the range.
(The paper breaks ties by perturbing counts and works with logarithms of the numbers of sequences; this needs neither.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.decimals import float_at_least
from affidavit.accountant.digits import alone
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Exponential, Pure
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

__all__ = ["ARITHMETIC_SLACK", "ASSUMPTIONS", "MECHANISM", "JointTopK", "sample"]

Counts: TypeAlias = NDArray[np.int64]

ARITHMETIC_SLACK = Fraction(1, 2**96)
"""Added to the range of a spec for the rounding of exp(−1/temperature)."""

ASSUMPTIONS = ("exponential: the noise source yields independent uniform bits",)
"""No more than any draw certified as ``exponential`` assumes, in the same words: a certificate lists them by leaf."""

_GUARD_BITS = 160
_MOST_BITS = 1 << 18


@dataclass(frozen=True, slots=True)
class JointTopK:
    """``size`` things; counts are public to lie in [0, ``most``]; ``width`` and ``temperature`` in counts.

    ``pure``: certified as ``pure``, where its bounded range says nothing more.
    """

    size: int
    most: int
    width: Rational
    temperature: Rational
    pure: bool = False

    def leaf(self) -> Exponential | Pure:
        """The leaf of one use: width/temperature and the slack, rounded up. Raises ``UsageError``."""
        if self.size < 1 or self.most < 1:
            raise UsageError("size and most are whole numbers >= 1", hint="At least `size = 1` and `most = 1`.")
        temperature = positive(self.temperature, name="temperature")
        if self.most / temperature > _MOST_BITS:
            raise UsageError(
                f"counts up to {self.most} at temperature {float(temperature):.3g} are too far apart to weigh",
                hint=f"At least `temperature = {float(Fraction(self.most, _MOST_BITS))}`.",
            )
        cost = float_at_least(self._ratio + ARITHMETIC_SLACK)
        return Pure(cost) if self.pure else Exponential(cost)

    def release(self, permit: Permit, path: str, values: Counts) -> tuple[int, ...]:
        """``size`` indices of counts, in order.

        Whoever counts guarantees the width. Raises ``PermitViolation`` if width/temperature exceeds what is
        certified (compared exactly), ``UsageError`` where counts are no whole numbers in [0, most] or too few.
        """
        ratio, statistic = self._ratio, Statistic("two-spreads", (np.asarray(values),), (Fraction(self.temperature),))

        def covers(certified: Exponential | Pure) -> bool:
            return ratio <= (certified.range if isinstance(certified, Exponential) else certified.epsilon)

        charge(permit, path, self.leaf(), covers)
        return watched(permit, path, statistic, lambda: sample(values, spec=self, noise=permit.noise))

    @property
    def _ratio(self) -> Fraction:
        return positive(self.width, name="width") / positive(self.temperature, name="temperature")


def sample(counts: Counts, *, spec: JointTopK, noise: Noise) -> tuple[int, ...]:
    """The sampler alone, for tests: no permit, no charge."""
    values = np.asarray(counts)
    inside = values.ndim == 1 and values.dtype.kind in "iu" and values.size >= spec.size
    if not inside or values.min() < 0 or values.max() > spec.most:
        raise UsageError(
            f"counts are not at least {spec.size} whole numbers in [0, {spec.most}]",
            hint="Count every thing of the public domain, zeros too.",
        )
    order = np.argsort(-values.astype(np.int64), kind="stable")
    eligible = _eligible(values[order].astype(np.int64), spec.size)
    cells = [_cells(before, here) for before, here in pairwise(eligible)]
    factors = _factors(spec, len(cells))
    level = _pick([sum(row) * factor for row, factor in zip(cells, factors, strict=True)], noise)
    place = _pick(cells[level], noise)
    places = _fill(eligible[level], eligible[level + 1], place, noise)
    return tuple(int(order[index]) for index in places)


def _eligible(ordered: Counts, size: int) -> list[list[int]]:
    """n_i(m) for m = −1, 0, 1, …, up to where every thing may stand everywhere; row 0 is m = −1: none."""
    top, bottom = int(ordered[0]), int(ordered[-1])
    at_least = np.searchsorted(-ordered, -np.arange(bottom, top + 1), side="right")
    rows = [[0] * size]
    for missing in range(top - bottom + 1):
        reach = np.maximum(ordered[:size] - missing, bottom) - bottom
        rows.append([int(number) for number in at_least[reach]])
    return rows


def _cells(before: list[int], here: list[int]) -> list[int]:
    """How many sequences of utility exactly −m pay it first at place i, for every i."""
    size = len(here)
    after = [1] * (size + 1)
    for i in range(size - 1, -1, -1):
        after[i] = after[i + 1] * (here[i] - i)
    cells = []
    head = 1
    for i in range(size):
        cells.append(head * (here[i] - before[i]) * after[i + 1])
        head *= max(0, before[i] - i)
    return cells


def _factors(spec: JointTopK, count: int) -> list[int]:
    """exp(−m/temperature) for m = 0, …, count − 1, in units so small that the least is right to 2^-100."""
    import mpmath

    temperature = Fraction(spec.temperature)
    bits = math.ceil(count / float(temperature) * math.log2(math.e)) + _GUARD_BITS
    with alone, mpmath.workprec(bits + 32):
        step = int(
            mpmath.floor(mpmath.ldexp(mpmath.exp(-mpmath.mpf(temperature.denominator) / temperature.numerator), bits))
        )
    factors = [1 << bits]
    for _ in range(count - 1):
        factors.append((factors[-1] * step) >> bits)
    return factors


def _pick(weights: list[int], noise: Noise) -> int:
    """An index with probability exactly proportional to its whole-number weight."""
    rest = uniform_below(noise, sum(weights))
    for index, weight in enumerate(weights):
        if rest < weight:
            return index
        rest -= weight
    raise AssertionError("a number below the sum of the weights lies within one of them")


def _fill(before: list[int], here: list[int], place: int, noise: Noise) -> list[int]:
    """A uniform sequence among those that pay first at ``place``; positions in the order of counts."""
    taken: list[int] = []
    for i in range(len(here)):
        if i == place:
            taken.append(before[i] + uniform_below(noise, here[i] - before[i]))
            continue
        position = uniform_below(noise, (before[i] if i < place else here[i]) - i)
        for used in sorted(taken):
            position += used <= position
        taken.append(position)
    return taken


MECHANISM = Mechanism(
    Exponential.kind, JointTopK, "inverse CDF over integer weights", ASSUMPTIONS, name="joint-exponential"
)
