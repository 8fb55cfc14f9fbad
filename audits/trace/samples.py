r"""Fresh samples of the certified scheme (faults 1 and 2), by tests that are valid at their alpha.

What the plan says of a ``subsample`` node: every use draws its own sample, independently of the others; each
record is in with probability q (Poisson), or the sample is a uniform set of m of n (without replacement).

*Certain faults.* Fewer samples than uses; under sampling without replacement a sample larger than m, or a
smaller one (except under zero-out, where an absent record leaves its place empty).

*Tests, Poisson.* n is what the sample lines state as ``population``; where they do not, the number of distinct
members seen takes its place, which is at most n.
- equal sizes: two sizes are equal with probability c(n, q) = Σ_k b(k; n, q)², so the number of equal pairs among
  the T/2 disjoint ones (1st and 2nd, 3rd and 4th, ...) is Binomial(T/2, c). Fault 1 makes all equal. c falls as n
  grows: one more coin is a convolution, which by Young's inequality does not raise a sum of squares.
- differences, where n is not stated: a record is in exactly one sample of a pair with probability 2q(1−q), so the
  disjoint pairs differ in Binomial(n T/2, 2q(1−q)) members altogether. A sample that is kept makes them few.
- size, where n is stated: all sizes add up to Binomial(nT, q), both sides; n may be another one for each sample.

*Test where n is known* (always, without replacement). Given their sizes a and b, two independent samples overlap in a
hypergeometric number. The sum over disjoint pairs is held against Chernoff's bound with Hoeffding's (1963,
theorem 4) comparison: its moment generating function is at most that of Binomial(a, b/n). Many shared: a sample
kept. Few: epochs of a shuffled list, cut into pieces.

*Test, both.* Equal samples at any two uses: the union bound over all pairs, times the chance of one.

Where a test takes fewer records than there are its p-value is too large, never too small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from affidavit.accountant.plan import Plan, Poisson, WithoutReplacement, leaves, located
from affidavit.accountant.validate import Relation
from affidavit.audits.checks import Check, Status
from affidavit.audits.trace.events import Draw, Sample, Trace

__all__ = ["TESTS_PER_NODE", "equal_size_probability", "overlap_tail", "subsample_nodes", "subsamples"]

TESTS_PER_NODE = 6
"""At most so many one-sided tests a node: equal sizes, repeats, and both sides of the overlap and of the size."""

_LARGEST_TILT = 30.0
_SEARCHES = 60

Node = Poisson | WithoutReplacement


def subsample_nodes(plan: Plan) -> Iterator[tuple[str, Node, int]]:
    """Every ``subsample`` node as (path, node, how often it is used)."""
    return ((path, node, uses) for path, node, uses in located(plan) if isinstance(node, Node))


def subsamples(trace: Trace, plan: Plan, *, relation: Relation, alpha: float) -> tuple[Check, ...]:
    """Every check of every ``subsample`` node; ``alpha`` is one one-sided test's share."""
    checks: list[Check] = []
    for path, node, uses in subsample_nodes(plan):
        drawn = tuple(line for line in trace.samples if line.path == path)
        below = tuple(draw for draw in trace.draws if draw.path.startswith(f"{path}."))
        looking = _Looking(path, uses, drawn, below, alpha)
        checks.append(looking.one_a_use(node))
        if not drawn:
            continue
        if isinstance(node, Poisson):
            checks += looking.poisson(node)
        else:
            checks += looking.without_replacement(node, relation)
    return tuple(checks)


@dataclass(frozen=True, slots=True)
class _Looking:
    """One node: its samples, and the draws below it."""

    path: str
    uses: int
    samples: Sequence[Sample]
    draws: Sequence[Draw]
    alpha: float

    def one_a_use(self, node: Node) -> Check:
        """At least one sample for every use that drew, and no more than the plan has uses."""
        name = "one sample a use"
        begun = self._uses_begun(node)
        found = len(self.samples)
        if not found and not begun:
            return self._check(name, 2, "not checked", "no use of this node is recorded")
        if not found:
            return self._check(name, 2, "not checked", f"{begun} uses drew, and no sample is recorded")
        if found < begun:
            return self._check(name, 2, "fault", f"{begun} uses drew, but only {found} samples were taken")
        if found > self.uses:
            return self._check(name, 2, "fault", f"{found} samples were taken, the plan has {self.uses} uses")
        if sorted(line.use for line in self.samples) != list(range(found)):
            return self._check(name, 2, "fault", "the samples are not numbered 0, 1, 2, ...: one stands twice")
        return self._check(name, 2, "consistent", f"{found} samples for {begun} uses that drew")

    def poisson(self, node: Poisson) -> Iterator[Check]:
        """Every test of a Poisson node."""

        rate, known = node.rate, self._stated_population()
        if not 0.0 < rate < 1.0:
            yield self._check("sample sizes", 1, "not checked", f"a rate of {rate:g} leaves nothing to chance")
            return
        if self.uses == 1:
            yield self._only_one()
            yield self._total_size(rate)
            return
        population = known or self._distinct()
        repeats = self._repeats((rate * rate + (1.0 - rate) ** 2) ** population)
        fresh = self._overlaps(known) if known else self._differences(population, rate)
        yield from (repeats, fresh)
        if "fault" in (repeats.status, fresh.status):
            yield self._check("sample sizes", 1, "not checked", "the samples are not fresh, so their sizes say nothing")
            return
        yield self._equal_sizes(population, rate)
        yield self._total_size(rate)

    def without_replacement(self, node: WithoutReplacement, relation: Relation) -> Iterator[Check]:
        """Every test of a node that samples without replacement."""
        yield self._fixed_sizes(node, relation)
        if not 0 < node.sample < node.population:
            yield self._check("independent samples", 2, "not checked", "nothing is left to chance")
            return
        if self.uses == 1:
            yield self._only_one()
            return
        yield self._repeats(1.0 / math.comb(node.population, node.sample))
        yield self._overlaps(node.population)

    def _only_one(self) -> Check:
        return self._check("independent samples", 2, "not checked", "the plan samples here once: nothing can repeat")

    def _fixed_sizes(self, node: WithoutReplacement, relation: Relation) -> Check:
        sizes = [len(set(line.members)) for line in self.samples]
        wrong = [size for size in sizes if size > node.sample or (size < node.sample and relation != "zero-out")]
        if wrong:
            detail = f"a sample has {wrong[0]} members; without replacement every one has {node.sample}"
            return self._check("sample sizes", 1, "fault", detail)
        fewest = node.population - (relation == "add-remove")
        for line in self.samples:
            if line.population is not None and not fewest <= line.population <= node.population:
                detail = f"a sample was taken from {line.population} records, {node.population} are certified"
                return self._check("sample sizes", 1, "fault", detail)
        return self._check("sample sizes", 1, "consistent", f"{len(sizes)} samples of {node.sample}")

    def _overlaps(self, population: int) -> Check:
        sizes = [(len(a), len(b)) for a, b in self._pairs()]
        shared = sum(len(a & b) for a, b in self._pairs())
        expected = sum(a * b for a, b in sizes) / population
        many = overlap_tail(sizes, population=population, shared=shared)
        complements = [(a, population - b) for a, b in sizes]
        few = overlap_tail(complements, population=population, shared=sum(a for a, _ in sizes) - shared)
        return self._tested(
            "independent samples",
            2,
            min(many, few),
            f"{len(sizes)} pairs of samples share {shared} members, expected about {expected:.4g}",
            best=overlap_tail(sizes, population=population, shared=sum(min(pair) for pair in sizes)),
        )

    def _differences(self, population: int, rate: float) -> Check:
        from scipy.stats import binom

        differences = [len(a ^ b) for a, b in self._pairs()]
        total, trials, chance = sum(differences), population * len(differences), 2.0 * rate * (1.0 - rate)
        return self._tested(
            "independent samples",
            2,
            float(binom.cdf(total, trials, chance)) if trials else 1.0,
            f"{len(differences)} pairs of samples differ in {total} members, expected at least {trials * chance:.4g}",
            best=(1.0 - chance) ** trials,
        )

    def _equal_sizes(self, population: int, rate: float) -> Check:
        from scipy.stats import binom

        sizes = [(len(a), len(b)) for a, b in self._pairs()]
        equal = sum(a == b for a, b in sizes)
        chance = equal_size_probability(population, rate=rate)
        return self._tested(
            "sample sizes",
            1,
            float(binom.sf(equal - 1, len(sizes), chance)) if sizes else 1.0,
            f"{equal} of {len(sizes)} pairs of samples are equally large, expected about {len(sizes) * chance:.3g}",
            best=chance ** len(sizes),
        )

    def _total_size(self, rate: float) -> Check:
        from scipy.stats import binom

        stated = [line.population for line in self.samples if line.population is not None]
        if len(stated) < len(self.samples):
            return self._check("sampling rate", 1, "not checked", "no sample line states its population")
        trials, total = sum(stated), sum(len(set(line.members)) for line in self.samples)
        return self._tested(
            "sampling rate",
            1,
            min(float(binom.cdf(total, trials, rate)), float(binom.sf(total - 1, trials, rate))),
            f"{len(self.samples)} samples have {total} members, expected {trials * rate:.4g}",
            best=min(rate, 1.0 - rate) ** trials,
        )

    def _repeats(self, chance: float) -> Check:
        """``chance``: of two independent samples being equal, at most."""
        count = len(self.samples)
        different = len({frozenset(line.members) for line in self.samples})
        bound = min(1.0, math.comb(count, 2) * chance) if count > 1 else 1.0
        detail = f"{different} distinct among {count} samples"
        return self._tested("repeated samples", 2, bound if different < count else 1.0, detail, best=bound)

    def _uses_begun(self, node: Node) -> int:
        """The fewest uses of the node that hold the draws below it."""
        drawn = Counter(draw.path for draw in self.draws)
        per_use = {f"{self.path}{path.removeprefix('plan')}": uses for path, _, uses in leaves(node)}
        return max((-(-count // per_use[path]) for path, count in drawn.items() if per_use.get(path)), default=0)

    def _pairs(self) -> list[tuple[set[str], set[str]]]:
        """Disjoint pairs of consecutive samples."""
        members = [set(line.members) for line in self.samples]
        return list(zip(members[0::2], members[1::2], strict=False))

    def _stated_population(self) -> int | None:
        stated = {line.population for line in self.samples}
        found = stated.pop() if len(stated) == 1 else None
        return found if found is not None and found >= self._distinct() else None

    def _distinct(self) -> int:
        return len({member for line in self.samples for member in line.members})

    def _tested(self, name: str, number: int, p_value: float, detail: str, *, best: float) -> Check:
        """``best``: the p-value of the plainest fault on as many samples; above alpha there is no power."""
        powerless: Status = "consistent" if best <= self.alpha else "underpowered"
        status: Status = "fault" if p_value <= self.alpha else powerless
        return Check(
            name=name,
            number=number,
            status=status,
            path=self.path,
            seen=len(self.samples),
            p_value=p_value,
            alpha=self.alpha,
            detail=detail,
        )

    def _check(self, name: str, number: int, status: Status, detail: str) -> Check:
        return Check(name=name, number=number, status=status, path=self.path, seen=len(self.samples), detail=detail)


def equal_size_probability(population: int, *, rate: float) -> float:
    """Σ_k b(k; n, q)²: the chance that two independent Poisson samples are equally large."""
    import numpy as np
    from scipy.stats import binom

    masses = binom.pmf(np.arange(population + 1), population, rate)
    return min(1.0, float(masses @ masses))


def overlap_tail(sizes: Sequence[tuple[int, int]], *, population: int, shared: int) -> float:
    """A bound on P(Σ overlaps >= ``shared``), for pairs of independent uniform samples of the given ``sizes``.

    min over θ >= 0 of exp(−θ·shared) Π (1 + (b/n)(e^θ − 1))^a, whose logarithm is convex in θ. It holds for every θ, so
    a search that stops short of the best one only makes it larger.
    """
    import numpy as np

    first = np.array([a for a, _ in sizes], dtype=float)
    share = np.array([b for _, b in sizes], dtype=float) / population

    def exponent(theta: float) -> float:
        return float(first @ np.log1p(share * np.expm1(theta)) - theta * shared)

    low, high = 0.0, _LARGEST_TILT
    for _ in range(_SEARCHES):
        third = (high - low) / 3.0
        if exponent(low + third) < exponent(high - third):
            high -= third
        else:
            low += third
    return math.exp(min(0.0, exponent(0.5 * (low + high))))
