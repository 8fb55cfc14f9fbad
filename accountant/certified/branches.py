"""From a plan to the things that can happen to one record.

Which those are, ``changes`` says for both arithmetics: one *case* for every choice of where the record is. A case
becomes a *branch*: a time-ordered sequence of exponential mechanisms, and before, between and after them multisets of
mechanisms with a dominating pair (``Fixed``). The cost of the plan is at most the largest cost of a branch;
branches that another one dominates are dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import TypeAlias

from affidavit.accountant import plan as nodes
from affidavit.accountant.cases import AnyOrder, Moved
from affidavit.accountant.changes import cases
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Plan
from affidavit.accountant.validate import Relation

__all__ = ["Branch", "Fixed", "Sampled", "Steps", "Use", "expand", "reached"]

MAX_RUNS = 20_000


@dataclass(frozen=True, slots=True)
class Sampled:
    """One use of a branch on a fresh random sample of the records.

    ``rate`` is the Poisson rate or sample/population; ``mirrored`` marks the use in which the
    record is added where the plan's pair removes it (a record that changes part: docs/theory/parallel-and-order.md).
    ``absent``: of a Poisson sample under substitution, what taking the record away from the sample costs,
    where the plan states it.
    """

    scheme: str
    rate: Fraction
    relation: Relation
    of: Branch
    mirrored: bool = False
    absent: Branch | None = None


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

    def plus(self, other: Fixed) -> Fixed:
        """Both, composed."""
        total = Counter(dict(self.uses))
        total.update(dict(other.uses))
        uses = tuple(sorted(total.items(), key=repr))
        return Fixed(self.mu_squared + other.mu_squared, self.rho + other.rho, uses)

    def times(self, count: int) -> Fixed:
        """``count`` uses of all of it."""
        if count == 0:
            return Fixed()
        return Fixed(self.mu_squared * count, self.rho * count, tuple((use, n * count) for use, n in self.uses))

    def covers(self, other: Fixed) -> bool:
        """Whether this provably costs at least what the other does (a sufficient test)."""
        return other.mu_squared <= self.mu_squared and other.rho <= self.rho and _uses_cover(self.uses, other.uses)

    @property
    def empty(self) -> bool:
        """Nothing in it."""
        return self == Fixed()


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
        """Everything with a dominating pair."""
        return self.first.plus(self.between).plus(self.last)

    def then(self, other: Branch) -> Branch:
        """This branch followed by the other."""
        blatant = self.blatant or other.blatant
        interleaved = self.interleaved or other.interleaved
        if not self.steps:
            return Branch(self.first.plus(other.first), other.steps, other.between, other.last, blatant, interleaved)
        if not other.steps:
            last = self.last.plus(other.first)
            return Branch(self.first, self.steps, self.between, last, blatant, interleaved)
        between = self.between.plus(self.last).plus(other.first).plus(other.between)
        steps = _joined(self.steps, other.steps)
        return Branch(self.first, steps, between, other.last, blatant, interleaved)

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
        if not _steps_cover(self.steps, other.steps):
            return False
        if not other.steps:
            return self.fixed.covers(other.fixed)
        return self.first.covers(other.first) and self.between.covers(other.between) and self.last.covers(other.last)


def _joined(left: Steps, right: Steps) -> Steps:
    if left and right and left[-1][0] == right[0][0]:
        return (*left[:-1], (left[-1][0], left[-1][1] + right[0][1]), *right[1:])
    return (*left, *right)


def _steps_cover(larger: Steps, smaller: Steps) -> bool:
    if not smaller:
        return True
    return len(larger) == len(smaller) and all(
        a[0] >= b[0] and a[1] >= b[1] for a, b in zip(larger, smaller, strict=True)
    )


def _uses_cover(larger: tuple[tuple[Use, int], ...], smaller: tuple[tuple[Use, int], ...]) -> bool:
    counts = dict(larger)
    if all(counts.get(use, 0) >= n for use, n in smaller):
        return True
    if len(larger) != len(smaller):
        return False
    return all(m >= n and _use_covers(a, b) for (a, m), (b, n) in zip(larger, smaller, strict=True))


def _use_covers(larger: Use, smaller: Use) -> bool:
    match larger, smaller:
        case nodes.Pure(epsilon=a), nodes.Pure(epsilon=b):
            return a >= b
        case nodes.Approximate(epsilon=a, delta=d), nodes.Approximate(epsilon=b, delta=e):
            return a >= b and d >= e
        case nodes.Laplace(noise_multiplier=a), nodes.Laplace(noise_multiplier=b):
            return a <= b
    return larger == smaller


def _pruned(branches: Iterable[Branch]) -> tuple[Branch, ...]:
    kept: list[Branch] = []
    for branch in dict.fromkeys(branches):
        if any(other.covers(branch) for other in kept):
            continue
        kept = [other for other in kept if not branch.covers(other)]
        kept.append(branch)
    return tuple(kept)


def _one(use: Use) -> Branch:
    return Branch(first=Fixed(uses=((use, 1),)))


def _leaf(leaf: nodes.Leaf) -> Branch:
    match leaf:
        case nodes.Gaussian(noise_multiplier=sigma) if sigma > 0:
            return Branch(first=Fixed(mu_squared=1 / Fraction(sigma) ** 2))
        case nodes.Laplace(noise_multiplier=scale) if scale > 0:
            return _one(leaf)
        case nodes.DiscreteGaussian(noise_multiplier=sigma) if sigma > 0:
            return _one(leaf)
        case nodes.Gaussian() | nodes.Laplace() | nodes.DiscreteGaussian():
            return Branch(blatant=True)
        case nodes.Pure(epsilon=epsilon):
            return _one(leaf) if epsilon > 0 else Branch()
        case nodes.Approximate(epsilon=epsilon, delta=delta):
            return _one(leaf) if epsilon > 0 or delta > 0 else Branch()
        case nodes.Exponential(range=spread):
            return Branch(steps=((Fraction(spread), 1),)) if spread > 0 else Branch()
        case nodes.ZeroConcentrated(rho=rho):
            return Branch(first=Fixed(rho=Fraction(rho)))
    raise TypeError(type(leaf).__name__)


def _sampled(node: nodes.Poisson | nodes.WithoutReplacement, relation: Relation, *, enters: bool = False) -> Branch:
    """One use on a fresh sample, read under ``relation``; ``enters``: in the other order."""
    if isinstance(node, nodes.WithoutReplacement):
        # Two samples differ by a substitution, whatever the relation.
        inner, absent = _branch(node.of, "substitution"), None
        rate = Fraction(node.sample, node.population)
    else:
        inner, rate = _branch(node.of, relation), Fraction(node.rate)
        stated = relation == "substitution" and node.absent is not None
        absent = _branch(node.absent, "zero-out") if stated and node.absent is not None else None
    if inner == Branch():
        return inner
    if absent == Branch():
        absent = None
    return _one(Sampled(node.scheme, rate, relation, inner, enters, absent))


def _branch(case: Plan, relation: Relation) -> Branch:
    """One case of ``changes``, in time order."""
    match case:
        case nodes.Leaf():
            return _leaf(case)
        case nodes.Compose(parts=parts):
            return reduce(Branch.then, (_branch(part, relation) for part in parts), Branch())
        case nodes.Repeat(count=count, of=of):
            return _branch(of, relation).times(count)
        case AnyOrder(of=of):
            return replace(_branch(of, relation), interleaved=True)
        case Moved(node=node, leaves=leaves):
            both = isinstance(node, nodes.Poisson) and node.absent is not None
            return _sampled(node, "substitution" if both else "zero-out", enters=not leaves)
        case nodes.Poisson() | nodes.WithoutReplacement():
            return _sampled(case, relation)
    raise TypeError(type(case).__name__)


def expand(plan: Plan, relation: Relation) -> tuple[Branch, ...]:
    """The undominated branches of a plan under a relation, which bound it from above; never empty.

    Raises ``NotSupported`` when differing parallel parts combine in too many ways.
    """
    return _pruned(_branch(case, relation) for case in cases(plan, relation).upper)


def reached(plan: Plan, relation: Relation) -> tuple[Branch, ...]:
    """Branches that neighbouring data sets reach, each as far as its mechanisms do; never empty."""
    return _pruned(_branch(case, relation) for case in cases(plan, relation).lower)
