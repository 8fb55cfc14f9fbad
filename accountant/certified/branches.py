"""From a plan to the things that can happen to one record.

A plan without ``parallel`` is one *branch*: a time-ordered sequence of exponential mechanisms, and
before, between and after them multisets of mechanisms with a dominating pair (``Fixed``). ``parallel``
makes alternatives: the record is in this part or in that one. The cost of the plan is the largest
cost of a branch; branches that another one dominates are dropped.

Which part a record is in is a function of its intrinsic key and of the node (``plan.Parallel``),
so it is fixed before anything is drawn; parts of different nodes, and of the uses of a repeated
node, are combined in every way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from typing import TypeAlias

from affidavit.accountant import plan as nodes
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Plan
from affidavit.accountant.validate import Relation

__all__ = ["Branch", "Fixed", "Sampled", "Steps", "Use", "expand"]

MAX_BRANCHES = 256
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
    ``between`` the rest. ``blatant``: something in it has no noise at all. ``interleaved``: it is made
    of parallel parts that run side by side, so nothing is known about the order across them.
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

    def beside(self, other: Branch) -> Branch:
        """This branch and the other side by side, in any interleaving."""
        return replace(self.then(other), interleaved=True)

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
    if len(kept) > MAX_BRANCHES:
        raise NotSupported(
            f"parallel parts that differ combine in more than {MAX_BRANCHES} ways",
            hint="give the parts of each parallel node the same parameters (the largest cost of each)",
        )
    return tuple(kept)


def _one(use: Use) -> tuple[Branch, ...]:
    return (Branch(first=Fixed(uses=((use, 1),))),)


def _leaf(leaf: nodes.Leaf) -> tuple[Branch, ...]:
    match leaf:
        case nodes.Gaussian(noise_multiplier=sigma) if sigma > 0:
            return (Branch(first=Fixed(mu_squared=1 / Fraction(sigma) ** 2)),)
        case nodes.Laplace(noise_multiplier=scale) if scale > 0:
            return _one(leaf)
        case nodes.DiscreteGaussian(noise_multiplier=sigma) if sigma > 0:
            return _one(leaf)
        case nodes.Gaussian() | nodes.Laplace() | nodes.DiscreteGaussian():
            return (Branch(blatant=True),)
        case nodes.Pure(epsilon=epsilon):
            return _one(leaf) if epsilon > 0 else (Branch(),)
        case nodes.Approximate(epsilon=epsilon, delta=delta):
            return _one(leaf) if epsilon > 0 or delta > 0 else (Branch(),)
        case nodes.Exponential(range=spread):
            return (Branch(steps=((Fraction(spread), 1),)),) if spread > 0 else (Branch(),)
        case nodes.ZeroConcentrated(rho=rho):
            return (Branch(first=Fixed(rho=Fraction(rho))),)
    raise NotSupported(
        f"no certified arithmetic for the leaf kind {leaf.kind!r}",
        hint="Covered are gaussian, laplace, pure, approximate, exponential and zcdp.",
    )


def _sampled(scheme: str, rate: Fraction, relation: Relation, inner: tuple[Branch, ...]) -> tuple[Branch, ...]:
    if rate == 0:
        return (Branch(),)
    if rate == 1:
        return inner
    result: list[Branch] = []
    for branch in inner:
        result.extend(_one(Sampled(scheme, rate, relation, branch)) if branch != Branch() else (branch,))
    return _pruned(result)


def _present_or_absent(rate: Fraction, replaced: tuple[Branch, ...], absent: tuple[Branch, ...]) -> tuple[Branch, ...]:
    """Poisson sampling under substitution with both costs on the sample stated."""
    if any(options == (Branch(),) for options in (replaced, absent)):
        return _sampled("poisson", rate, "substitution", replaced)
    match replaced, absent:
        case (one,), (other,):
            return _one(Sampled("poisson", rate, "substitution", one, absent=other))
    raise NotSupported(
        "Poisson sampling under substitution of parallel parts that differ, with `absent`, in certified arithmetic",
        hint="put the subsample node inside each part, or give the parts the same parameters",
    )


def _without_replacement(rate: Fraction, relation: Relation, of: Plan) -> tuple[Branch, ...]:
    """Whatever the relation, two samples differ by a *substitution* (docs/theory/sampling.md), also of a record that is
    in another part than the changed one: unlike parts would have to be amplified together.
    """
    inner = expand(of, "substitution")
    if len(inner) > 1 and rate < 1:
        raise NotSupported(
            "sampling without replacement over parallel parts that differ, in certified arithmetic",
            hint="put the subsample node inside each part, or give the parts the same parameters",
        )
    return _sampled("without-replacement", rate, relation, inner)


def _mirrored(branch: Branch) -> Branch:
    def turned(part: Fixed) -> Fixed:
        uses = tuple(
            (replace(use, mirrored=not use.mirrored) if isinstance(use, Sampled) else use, n) for use, n in part.uses
        )
        return replace(part, uses=tuple(sorted(uses, key=repr)))

    return replace(branch, first=turned(branch.first), between=turned(branch.between), last=turned(branch.last))


def _repeated(inner: tuple[Branch, ...], count: int) -> tuple[Branch, ...]:
    if count == 0:
        return (Branch(),)
    if len(inner) == 1:
        return (inner[0].times(count),)
    if count > MAX_BRANCHES:
        raise NotSupported(
            f"a parallel node whose parts differ in kind, repeated {count} times",
            hint="put the repeat inside each part, or give the parts the same parameters",
        )
    result = inner
    for _ in range(count - 1):
        result = _pruned(a.then(b) for a in result for b in inner)
    return result


def _parallel(node: nodes.Parallel, relation: Relation) -> tuple[Branch, ...]:
    stay = [branch for part in node.parts for branch in expand(part, relation)]
    if relation != "substitution" or node.membership == "fixed" or len(node.parts) < 2:
        return _pruned(stay or [Branch()])
    if node.moves is None:
        moves = [expand(part, relation) for part in node.parts]
    else:
        moves = [expand(part, "substitution" if _states_absence(part) else "zero-out") for part in node.moves]
    first: dict[tuple[Branch, ...], int] = {}
    last: dict[tuple[Branch, ...], int] = {}
    for i, options in enumerate(moves):
        first.setdefault(options, i)
        last[options] = i
    for before, i in first.items():
        for after, j in last.items():
            if i < j:
                stay.extend(a.beside(_mirrored(b)) for a in before for b in after)
    return _pruned(stay)


def _states_absence(plan: Plan) -> bool:
    """Whether a move's Poisson sample may hold the record's place without it, or miss it: not zero-out's two cases."""
    match plan:
        case nodes.Poisson(of=of, absent=absent):
            return absent is not None or _states_absence(of)
        case nodes.Repeat(of=of) | nodes.WithoutReplacement(of=of):
            return _states_absence(of)
        case nodes.Compose(parts=parts) | nodes.Parallel(parts=parts):
            return any(map(_states_absence, parts))
    return False


def expand(plan: Plan, relation: Relation) -> tuple[Branch, ...]:
    """The undominated branches of a plan under a relation; never empty.

    ``parallel`` (docs/theory/parallel-and-order.md): under add-remove and zero-out the record is in one part, so its
    parts are alternatives. Under substitution with ``membership="moving"`` it may also leave
    part i and enter part j: the composition of their ``moves`` is one more alternative for every
    pair. A move is stated for zero-out, which costs no less than add-remove (a part that samples without
    replacement fills the place of a record that is not its own); leaving removes and entering adds, so the
    second one is mirrored (the reversed pair (j, i) is the same product seen from the other side).

    Raises ``NotSupported`` for a leaf kind without certified arithmetic, and when differing
    parallel parts combine in too many ways.
    """
    match plan:
        case nodes.Leaf():
            return _leaf(plan)
        case nodes.Compose(parts=parts):
            return reduce(
                lambda done, part: _pruned(a.then(b) for a in done for b in expand(part, relation)),
                parts,
                (Branch(),),
            )
        case nodes.Repeat(count=count, of=of):
            return _repeated(expand(of, relation), count) if count else (Branch(),)
        case nodes.Parallel():
            return _parallel(plan, relation)
        case nodes.Poisson(rate=rate, of=of):
            inner = expand(of, relation)
            if relation == "substitution" and plan.absent is not None and 0.0 < rate < 1.0:
                return _present_or_absent(Fraction(rate), inner, expand(plan.absent, "zero-out"))
            return _sampled("poisson", Fraction(rate), relation, inner) if rate else (Branch(),)
        case nodes.WithoutReplacement(population=population, sample=sample, of=of):
            return _without_replacement(Fraction(sample, population), relation, of) if sample else (Branch(),)
    raise NotSupported(f"no certified arithmetic for the node kind {plan.kind!r}", hint="compose, repeat, parallel")
