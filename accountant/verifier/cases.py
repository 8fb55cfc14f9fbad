"""What one record is exposed to, in time order.

A *case* is one choice of where the changed record sits (``reading``): a time-ordered sequence of exponential
mechanisms, and before, between and after them multisets of mechanisms with a dominating pair (``Fixed``). A plan
costs at most the largest cost of its cases; cases that another one dominates are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import lru_cache
from operator import eq
from typing import TypeAlias

from affidavit.accountant import plan as nodes
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier.balls import ball, precision

__all__ = ["Case", "Either", "Fixed", "Sampled", "Steps", "Use", "by_range", "rho_of", "undominated"]

MAX_CASES = 256
"""Cases of a plan that are listed."""
MAX_RUNS = 20_000
HALVINGS = 60
"""Of the μ that is enough, from 64 on: mechanisms that lose next to nothing take a larger one than they need."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """One use of a case on a fresh random sample of the records.

    ``rate`` is the Poisson rate or sample/population; ``mirrored`` marks the use in which the
    record is added where the plan's pair removes it (a record that changes part: docs/theory/parallel-and-order.md).
    ``absent``: of a Poisson sample under substitution, what taking the record away from the sample costs,
    where the plan states it; ``in_proportion``: both are Gaussians whose costs have one ratio, leaf by leaf.
    """

    scheme: str
    rate: Fraction
    relation: Relation
    of: Case
    mirrored: bool = False
    absent: Case | None = None
    in_proportion: bool = False

    @property
    def as_gaussian(self) -> Sampled:
        """See ``Fixed``."""
        return replace(self, of=self.of.as_gaussian, absent=self.absent and self.absent.as_gaussian)


@dataclass(frozen=True, slots=True)
class Either:
    """One use of any one of several mechanisms of one pair each, whichever the record meets. An upper side.

    An exponential mechanism among them is the pair of its largest curve (``envelope``).
    """

    of: tuple[Fixed, ...]


Use: TypeAlias = "nodes.Leaf | Sampled | Either"
Steps: TypeAlias = "tuple[tuple[Fraction, int], ...]"


@dataclass(frozen=True, slots=True)
class Fixed:
    """A multiset of mechanisms that each have one dominating pair, whatever came before.

    Gaussians are merged into ``mu_squared`` = sum of 1/noise_multiplier^2 (exact), zCDP leaves
    into ``rho``. The composition of dominating pairs is their product, so order is immaterial.
    """

    mu_squared: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    uses: tuple[tuple[Use, int], ...] = ()

    @staticmethod
    def joined(parts: Iterable[Fixed]) -> Fixed:
        kept = [part for part in parts if not part.empty]
        if len(kept) < 2:
            return kept[0] if kept else Fixed()
        total: Counter[Use] = Counter()
        for part in kept:
            total.update(dict(part.uses))
        uses = tuple(sorted(total.items(), key=repr))
        mu_squared = sum((part.mu_squared for part in kept), Fraction(0))
        return Fixed(mu_squared, sum((part.rho for part in kept), Fraction(0)), uses)

    def plus(self, other: Fixed) -> Fixed:
        return Fixed.joined((self, other))

    def times(self, count: int) -> Fixed:
        if count == 0:
            return Fixed()
        return Fixed(self.mu_squared * count, self.rho * count, tuple((use, n * count) for use, n in self.uses))

    def covers(self, other: Fixed) -> bool:
        """Whether this provably costs at least what the other does (a sufficient test).

        What is only known to be ρ-zCDP may be a Gaussian of μ² = 2ρ. A Gaussian is as many as one likes of the same
        total μ², each of which dominates a Laplace, a pure or an exponential mechanism where ``enough`` says so.
        """
        if self is other:
            return True
        left = self.mu_squared - other.mu_squared
        if self.rho or other.rho:
            if self.rho < other.rho:
                return False
            left += 2 * (self.rho - other.rho)
        if left.numerator < 0:
            return False
        for use, count in _uncovered(self.uses, other.uses):
            needed = enough(use) if left else None
            if needed is None or (left := left - count * needed) < 0:
                return False
        return True

    @property
    def empty(self) -> bool:
        return not (self.uses or self.mu_squared or self.rho)

    @property
    def concentrated(self) -> bool:
        """Whether of something only its zCDP is known, on samples too."""
        return self.rho > 0 or any(use.of.fixed.concentrated for use, _ in self.uses if isinstance(use, Sampled))

    @property
    def as_gaussian(self) -> Fixed:
        """What is only known to be concentrated replaced by the Gaussian that is: a strategy, hence a lower side."""
        if not self.concentrated:
            return self
        uses = tuple((use.as_gaussian if isinstance(use, Sampled) else use, count) for use, count in self.uses)
        return Fixed.joined((Fixed(self.mu_squared + 2 * self.rho), *(Fixed(uses=(use,)) for use in uses)))


@dataclass(frozen=True, slots=True)
class Case:
    """What one record is exposed to, in time order.

    ``steps`` are the exponential mechanisms, run-length coded as (range, count). ``first`` holds what
    has a dominating pair and comes before the first step, ``last`` what comes after the last one,
    ``between`` the rest. ``blatant``: something in it has no noise at all. ``interleaved``: nothing is
    known about the order across all of it.
    """

    first: Fixed = field(default_factory=Fixed)
    steps: Steps = ()
    between: Fixed = field(default_factory=Fixed)
    last: Fixed = field(default_factory=Fixed)
    blatant: bool = False
    interleaved: bool = False

    @property
    def fixed(self) -> Fixed:
        return Fixed.joined((self.first, self.between, self.last)) if self.steps else self.first

    @property
    def pairs(self) -> Fixed:
        """All of it in any order, exponential mechanisms as pairs (``envelope``): it costs as much."""
        if not self.steps:
            return self.first
        steps = Fixed(uses=tuple((nodes.Exponential(float(spread)), n) for spread, n in by_range(self.steps).items()))
        return Fixed.joined((self.first, self.between, self.last, steps))

    @property
    def as_gaussian(self) -> Case:
        """See ``Fixed``."""
        first, between, last = (fixed.as_gaussian for fixed in (self.first, self.between, self.last))
        return replace(self, first=first, between=between, last=last)

    @property
    def gaussian(self) -> Fraction | None:
        """Σ 1/σ² of Gaussians alone."""
        first = self.first
        return None if self.steps or self.blatant or first.rho or first.uses else first.mu_squared

    @staticmethod
    def joined(parts: Iterable[Case]) -> Case:
        """All of them, one after another."""
        first: list[Fixed] = []
        between: list[Fixed] = []
        last: list[Fixed] = []
        steps: list[tuple[Fraction, int]] = []
        blatant = interleaved = False
        for part in parts:
            blatant, interleaved = blatant or part.blatant, interleaved or part.interleaved
            if not part.steps:
                (last if steps else first).append(part.first)
                continue
            if steps:
                between += last
                between.append(part.first)
            else:
                first.append(part.first)
            between.append(part.between)
            last = [part.last]
            for spread, count in part.steps:
                known = steps.pop()[1] if steps and steps[-1][0] == spread else 0
                steps.append((spread, known + count))
        return Case(Fixed.joined(first), tuple(steps), Fixed.joined(between), Fixed.joined(last), blatant, interleaved)

    @staticmethod
    def in_any_order(parts: Sequence[Case]) -> Case:
        """All of them, in whatever order the history suggests: an upper side, with the dominating pairs in front."""
        whole = Case.joined(parts)
        uses = by_range(whole.steps)
        interleaved = whole.interleaved or len(uses) > 1
        return Case(whole.fixed, tuple(sorted(uses.items())), blatant=whole.blatant, interleaved=interleaved)

    def times(self, count: int) -> Case:
        """``count`` runs of the case one after another."""
        if count == 0:
            return Case()
        if not self.steps:
            return replace(self, first=self.first.times(count))
        if len(self.steps) == 1:
            ((spread, uses),) = self.steps
            steps: Steps = ((spread, uses * count),)
        else:
            steps = self.steps * count
        turns = self.first.plus(self.last).times(count - 1)
        return replace(self, steps=steps, between=self.between.times(count).plus(turns))

    def covers(self, other: Case) -> bool:
        """Whether this case provably costs at least what the other does (a sufficient test).

        Dominance is judged part by part, in the same place of the time order; or by pairs alone, wherever they are.
        """
        if self.blatant:
            return True
        if other.blatant:
            return False
        if self.fixed.covers(other.pairs):
            return True
        if not other.steps or (other.interleaved and not self.interleaved):
            return False
        pairs = zip(self.steps, other.steps, strict=False)
        runs = len(self.steps) == len(other.steps) and all(a[1] >= b[1] and a[0] >= b[0] for a, b in pairs)
        if not runs:
            return False
        return self.first.covers(other.first) and self.between.covers(other.between) and self.last.covers(other.last)


def by_range(steps: Steps) -> Counter[Fraction]:
    """How often each range is used."""
    uses: Counter[Fraction] = Counter()
    for spread, count in steps:
        uses[spread] += count
    return uses


def rho_of(steps: Steps) -> Fraction:
    """The zCDP of all of them, η²/8 each (``zcdp``)."""
    return sum((count * spread * spread for spread, count in steps), Fraction(0)) / 8


def _uncovered(larger: tuple[tuple[Use, int], ...], smaller: tuple[tuple[Use, int], ...]) -> list[tuple[Use, int]]:
    """Those of the smaller's uses that have none of their own among the larger's that costs as much."""
    spare, missing = [count for _, count in larger], [count for _, count in smaller]
    for covers in (eq, _use_covers):  # equal ones first; compared one by one, as a sample takes long to hash
        for i, (use, _) in enumerate(smaller):
            for j, (other, _) in enumerate(larger):
                if spare[j] and missing[i] and covers(other, use):
                    taken = min(missing[i], spare[j])
                    missing[i], spare[j] = missing[i] - taken, spare[j] - taken
    return [(use, count) for (use, _), count in zip(smaller, missing, strict=True) if count]


def _use_covers(larger: Use, smaller: Use) -> bool:
    """A pair dominates all that is as (ε, δ)-DP as it is; Laplace noise is 1/scale-DP, a range an ε.

    A symmetric pair dominates a pure one of no larger δ(0) (``enough``), that of a range η one of η/2. Laplace noise of
    scale 1/η dominates the pair of a range η: with x = e^ε <= X = e^η, 1 − √(x/X) is a line in √x, and
    (√X − √x)²/(X − 1) is convex in it, no larger at x = 1, where it is (√X − 1)/(√X + 1), and 0 as the line at X.
    """
    match larger, smaller:
        case nodes.Laplace(noise_multiplier=scale), nodes.Pure(epsilon=epsilon):
            with precision():  # 1 − e^{−1/(2b)} >= tanh(ε/2)
                return bool(-(-1 / (2 * ball(scale))).expm1() >= (ball(epsilon) / 2).tanh())
        case nodes.Laplace(noise_multiplier=a), nodes.Laplace(noise_multiplier=b):
            return a <= b
        case nodes.Laplace(noise_multiplier=scale), nodes.Exponential(range=eta):
            return Fraction(scale) * Fraction(eta) <= 1
        case nodes.Pure(epsilon=a) | nodes.Approximate(epsilon=a), nodes.Laplace(noise_multiplier=b):
            return Fraction(a) * Fraction(b) >= 1
        case nodes.Pure(epsilon=a) | nodes.Approximate(epsilon=a), nodes.Exponential(range=b):
            return a >= b
        case nodes.Exponential(range=a), nodes.Exponential(range=b):
            return a >= b
        case nodes.Exponential(range=a), nodes.Pure(epsilon=b):
            return Fraction(a) >= 2 * Fraction(b)
        case nodes.Pure(epsilon=a) | nodes.Approximate(epsilon=a), nodes.Pure(epsilon=b):
            return a >= b
        case nodes.Approximate(epsilon=a, delta=d), nodes.Approximate(epsilon=b, delta=e):
            return a >= b and d >= e
        case Sampled(of=inner), Sampled(of=other):
            alike = all(getattr(larger, name) == getattr(smaller, name) for name in _OF_A_SAMPLE)
            return alike and inner.covers(other)
    return larger == smaller


_OF_A_SAMPLE = tuple(one.name for one in fields(Sampled) if one.name != "of")


@lru_cache(maxsize=1024)
def enough(use: Use) -> Fraction | None:
    """A μ² of a Gaussian that dominates a Laplace, pure or exponential mechanism: one of no smaller δ(0), erf(μ/√8).

    Pure: a profile D that is the same in both orders has, as a function of x = e^ε, the slope −(1 − D(1))/2 at 1, and
    is above that tangent and 0, the larger of which is the profile of the pure mechanism of the same D(1).
    Laplace: 1 − D = (1 − t) e^{ε/2}, t = δ(0), down to D = 0. A Gaussian's (1 − D) e^{−ε/2} falls from 1 − t on: its
    derivative is (e^{ε/2} P(Z > u) − e^{−ε/2} P(Z < v))/2, u, v = ε/μ ± μ/2, and P(Z < v) − e^ε P(Z > u) grows from 0,
    at the rate e^ε φ(u) (2/μ − m(u)) > 0, as Mills' ratio m(u) is below 1/u <= 2/μ.
    Exponential of range η: its largest curve is (√E − √x)²/(E − 1) up to x = E = e^η, 0 beyond, and reflected below 1
    (``envelope``), with D(1) = tanh(η/4), as much as the pure mechanism of η/2. Its second derivative in x is a
    multiple of x^{−3/2}, and the Gaussian's, e^{−ε} φ(u)/μ, is one of x^{−3/2} e^{−ε²/2μ²}. So the difference of
    the two is, on [1, E], convex up to a point and concave from there on. The Gaussian's is the larger at 1, where the
    difference rises, by half of what it is, as the slope of either is −(1 − D(1))/2; hence on the convex part; and at
    E, hence on the concave part, which is above its chord.
    """
    with precision():
        match use:
            case nodes.Laplace(noise_multiplier=scale):
                kept = (-1 / (2 * ball(scale))).exp()
            case nodes.Pure(epsilon=epsilon):
                kept = 2 / (1 + ball(epsilon).exp())
            case nodes.Exponential(range=eta):
                kept = 2 / (1 + (ball(eta) / 2).exp())
            case _:
                return None
        low, high = 0.0, 64.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if (ball(middle) / ball(8).sqrt()).erfc() < kept else (middle, high)
        return Fraction(high) ** 2 if high < 64.0 else None


def undominated(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Those that no other one covers; where they are more than ``MAX_CASES``, the others as they are."""
    kept: list[Case] = []
    for case in dict.fromkeys(cases):
        if len(kept) <= MAX_CASES:
            if any(other.covers(case) for other in kept):
                continue
            kept = [other for other in kept if not case.covers(other)]
        kept.append(case)
    return tuple(kept)
