"""What one record is exposed to, in time order.

A *branch* is one choice of where the changed record sits (``reading``): a time-ordered sequence of exponential
mechanisms, and before, between and after them multisets of mechanisms with a dominating pair (``Fixed``). A plan
costs at most the largest cost of its branches; branches that another one dominates are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from operator import eq
from typing import TypeAlias

from affidavit.accountant import plan as nodes
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.validate import Relation

__all__ = ["Branch", "Fixed", "Sampled", "Steps", "Use", "by_range", "undominated"]

MAX_BRANCHES = 256
MAX_RUNS = 20_000


@dataclass(frozen=True, slots=True)
class Sampled:
    """One use of a branch on a fresh random sample of the records.

    ``rate`` is the Poisson rate or sample/population; ``mirrored`` marks the use in which the
    record is added where the plan's pair removes it (a record that changes part: docs/theory/parallel-and-order.md).
    ``absent``: of a Poisson sample under substitution, what taking the record away from the sample costs,
    where the plan states it; ``in_proportion``: both are Gaussians whose costs have one ratio, leaf by leaf.
    """

    scheme: str
    rate: Fraction
    relation: Relation
    of: Branch
    mirrored: bool = False
    absent: Branch | None = None
    in_proportion: bool = False

    @property
    def as_gaussian(self) -> Sampled:
        """See ``Fixed``."""
        return replace(self, of=self.of.as_gaussian, absent=self.absent and self.absent.as_gaussian)


Use: TypeAlias = "nodes.Pure | nodes.Approximate | nodes.Laplace | nodes.DiscreteGaussian | Sampled"
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

        What is only known to be ρ-zCDP may be a Gaussian of μ² = 2ρ.
        """
        spare = self.rho - other.rho if self.rho or other.rho else 0
        if spare < 0 or other.mu_squared > (self.mu_squared + 2 * spare if spare else self.mu_squared):
            return False
        return _uses_cover(self.uses, other.uses)

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
class Branch:
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
    def as_gaussian(self) -> Branch:
        """See ``Fixed``."""
        first, between, last = (fixed.as_gaussian for fixed in (self.first, self.between, self.last))
        return replace(self, first=first, between=between, last=last)

    @property
    def gaussian(self) -> Fraction | None:
        """Σ 1/σ² of Gaussians alone."""
        first = self.first
        return None if self.steps or self.blatant or first.rho or first.uses else first.mu_squared

    @staticmethod
    def joined(parts: Iterable[Branch]) -> Branch:
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
        return Branch(
            Fixed.joined(first), tuple(steps), Fixed.joined(between), Fixed.joined(last), blatant, interleaved
        )

    @staticmethod
    def in_any_order(parts: Sequence[Branch]) -> Branch:
        """All of them, in whatever order the history suggests: an upper side, with the dominating pairs in front."""
        whole = Branch.joined(parts)
        uses = by_range(whole.steps)
        interleaved = whole.interleaved or len(uses) > 1
        return Branch(whole.fixed, tuple(sorted(uses.items())), blatant=whole.blatant, interleaved=interleaved)

    def times(self, count: int) -> Branch:
        """``count`` runs of the branch one after another."""
        if count == 0:
            return Branch()
        if not self.steps:
            return replace(self, first=self.first.times(count))
        if len(self.steps) == 1:
            ((spread, uses),) = self.steps
            steps: Steps = ((spread, uses * count),)
        elif len(self.steps) * count > MAX_RUNS:
            raise NotSupported(
                f"a repeat of {len(self.steps)} exponential mechanisms of unequal range, {count} times",
                hint=f"at most {MAX_RUNS} changes of range in time order; give all of them the largest range",
            )
        else:
            steps = self.steps * count
        turns = self.first.plus(self.last).times(count - 1)
        return replace(self, steps=steps, between=self.between.times(count).plus(turns))

    def covers(self, other: Branch) -> bool:
        """Whether this branch provably costs at least what the other does (a sufficient test).

        Dominance is judged part by part, in the same place of the time order.
        """
        if self.blatant:
            return True
        if other.blatant or (other.interleaved and not self.interleaved):
            return False
        if not other.steps:
            return self.fixed.covers(other.fixed)
        pairs = zip(self.steps, other.steps, strict=False)
        runs = len(self.steps) == len(other.steps) and all(a[0] >= b[0] and a[1] >= b[1] for a, b in pairs)
        if not runs:
            return False
        return self.first.covers(other.first) and self.between.covers(other.between) and self.last.covers(other.last)


def by_range(steps: Steps) -> Counter[Fraction]:
    """How often each range is used."""
    uses: Counter[Fraction] = Counter()
    for spread, count in steps:
        uses[spread] += count
    return uses


def _uses_cover(larger: tuple[tuple[Use, int], ...], smaller: tuple[tuple[Use, int], ...]) -> bool:
    """Whether each of the smaller's uses has one of its own among the larger's that costs as much."""
    spare, missing = [count for _, count in larger], [count for _, count in smaller]
    for covers in (eq, _use_covers):  # equal ones first; compared one by one, as a sample takes long to hash
        for i, (use, _) in enumerate(smaller):
            for j, (other, _) in enumerate(larger):
                if (taken := min(missing[i], spare[j])) and covers(other, use):
                    missing[i], spare[j] = missing[i] - taken, spare[j] - taken
    return not any(missing)


def _use_covers(larger: Use, smaller: Use) -> bool:
    """A pair dominates all that is as (ε, δ)-DP as it is; Laplace noise is 1/scale-DP."""
    match larger, smaller:
        case nodes.Laplace(noise_multiplier=a), nodes.Laplace(noise_multiplier=b):
            return a <= b
        case nodes.Pure(epsilon=a) | nodes.Approximate(epsilon=a), nodes.Laplace(noise_multiplier=b):
            return Fraction(a) * Fraction(b) >= 1
        case nodes.Pure(epsilon=a) | nodes.Approximate(epsilon=a), nodes.Pure(epsilon=b):
            return a >= b
        case nodes.Approximate(epsilon=a, delta=d), nodes.Approximate(epsilon=b, delta=e):
            return a >= b and d >= e
        case Sampled(of=inner), Sampled(of=other):
            return replace(larger, of=other) == smaller and inner.covers(other)
    return larger == smaller


def undominated(branches: Iterable[Branch]) -> tuple[Branch, ...]:
    """Those that no other one covers. Raises ``NotSupported`` where they are too many."""
    kept: list[Branch] = []
    for branch in dict.fromkeys(branches):
        if any(other.covers(branch) for other in kept):
            continue
        kept = [other for other in kept if not branch.covers(other)]
        kept.append(branch)
        if len(kept) > MAX_BRANCHES:
            raise NotSupported(
                f"parallel parts that differ combine in more than {MAX_BRANCHES} ways",
                hint="give the parts of each parallel node the same parameters (the largest cost of each)",
            )
    return tuple(kept)
