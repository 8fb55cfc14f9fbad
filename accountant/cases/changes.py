"""What the changed record can do below every node: the one reading of a plan that float64 and balls share.

docs/theory/semantics.md defines what a plan means. Here it is turned into *cases*: trees without ``parallel``, each
an adaptive composition that the adversary can choose by where the record sits. Two lists come out, because the
largest cost above all choices is not always one that a choice reaches:

- ``upper``: every choice costs at most one of these;
- ``lower``: each of these is reached by a choice, if its mechanisms' own lower sides are.

Mostly they are the same. The rules, one a node, each with its theorem:

**Parts** (``parallel``). A record has one slot a node. One that leaves, enters or becomes null does so in one part;
the others see nothing. A replaced one stays in a part or, where its slots are free, leaves one and enters another:
the two parts' data are disjoint, so the two costs compose. Directly nested nodes are one partition: inside the part
that it leaves or enters, the record is in one part again. Whether slots are free: always at a moving node, never at a
fixed one, but for a record that a sample without replacement puts in another's place.

**Order**. Two crossed parts may interleave. A mechanism with a dominating pair is a post-processing of that pair's
two laws (Blackwell 1953), so whoever sees the draws of all of them *first* can do what any interleaving does: fixed
pairs first are an upper side (E sup >= sup E). The declared order is a lower side. Exponential mechanisms of unlike
range have no worst order: ``AnyOrder``, unless there are two uses and nothing else, where there are but two orders.
So with a repeated node whose slot is in a part of one kind at one use, in one of another kind at the next.

**Too many** choices to list are one case above (``choices``): so many uses, each any one of these.

**Poisson sample.** A record that leaves, enters or becomes null is kept with probability q, else nothing changes
(``Moved`` says in which direction, where the plan's relation does not). A replaced one gives three laws
(``pld.subsample``).

**Sample without replacement**, m < n. The others fill the changed record's place, so below the change is a
replacement by *any* other record, whose slots are its own, whatever the relation and membership outside.

- n to n − 1 records: with S the other sampled records and u the displaced one, both uniform, the outputs are mixtures
  over (S, u) of γ M(S + r) + (1 − γ) M(S + u) and M(S + u) (couple u into r's place); joint convexity. Each u is a
  choice of its own: alternatives.
- null and replacement: γ M(S + r) + (1 − γ) W and γ M(S + r') + (1 − γ) W, W = M(S + u). Advanced joint convexity
  bounds it by γ[(1 − β) h(r, u) + β h(r, r')], at most γ h for an h above *every* replacement with free slots. One
  alternative must cover all others: h is one curve, not a choice of the best of several. Reached are the replacements
  in place, with all others like the null or like r'.
- In a part, or where the plan samples from populations of other sizes: how many records there are is not public, so
  data are filled up with nulls to the stated population, and leaving is becoming null.
- A sample of a sample is a smaller sample, if nothing else runs on the outer one: W(n, m, W(m, k, x)) = W(n, k, x) in
  law.

**What a leaf states.** Its cost for the plan's relation; below a sample without replacement, for substitution, null
included. Under substitution a record that leaves a part is replaced by null there, so a part without ``moves`` pays
its substitution cost. But not below a Poisson sample: there null is absence, of which ``of`` says nothing
(``Poisson.absent``): refused.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, product
from typing import Literal

from affidavit.accountant.cases.choices import any_of, likely_size
from affidavit.accountant.cases.dominance import covers, maximal, undominated
from affidavit.accountant.cases.moves import pairs_of_parts, reached_moves, reached_parts
from affidavit.accountant.cases.nodes import NOTHING, AnyOrder, Moved, exponential_uses, fixed, only
from affidavit.accountant.cases.populations import (
    check_inner_populations,
    check_no_inner_population,
    only_sample,
)
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.nodes import (
    Approximate,
    Compose,
    Exponential,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    ZeroConcentrated,
    outermost,
    walk,
)
from affidavit.accountant.validate import Relation

__all__ = ["Choices", "choices"]

MAX_CASES = 256
"""Most cases of a plan that are listed, above."""
MOST_REACHED, FEW_REACHED = 32, 8
"""Choices below that are looked at, of more; the second where those above are not listed."""
_IDLE = (Pure(0.0), Approximate(0.0, 0.0), Exponential(0.0), ZeroConcentrated(0.0))


@dataclass(frozen=True, slots=True)
class Choices:
    """The costliest choices (none costs more than one of ``upper``), and choices that are reached; never empty."""

    upper: tuple[Plan, ...]
    lower: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """What reaches a node.

    ``free``: the slots of what a replaced record becomes are free also where membership is fixed. ``stated``: the
    leaves here state the cost of this very change, not that of substitution. ``null``: that substitution includes
    becoming null. ``displaced``: below a sample without replacement. ``padded``: how many records reach the node is
    not public. ``population``: how many do. ``relation``: what an unmarked sample is read under.
    """

    kind: Literal["leave", "enter", "null", "replace"]
    relation: Relation
    stated: bool
    free: bool = False
    null: bool = True
    displaced: bool = False
    padded: bool = False
    population: int | None = None

    @property
    def marked(self) -> bool:
        """Whether a sample must be told that the record comes or goes."""
        return self.relation == "substitution" and self.kind != "replace"


_ROOT: dict[Relation, _Change] = {
    "add-remove": _Change("leave", "add-remove", stated=True),
    "zero-out": _Change("null", "zero-out", stated=True),
    "substitution": _Change("replace", "substitution", stated=False),
}


@lru_cache(maxsize=64)
def choices(plan: Plan, relation: Relation) -> Choices:
    """Every choice of where the changed record is, as trees without ``parallel``.

    Raises ``NotSupported`` where no theorem applies.
    """
    populations = {node.population for node in outermost(plan, WithoutReplacement)}
    return _cases(plan, replace(_ROOT[relation], population=min(populations, default=None)))


def _cases(plan: Plan, change: _Change) -> Choices:
    match plan:
        case Leaf():
            return _alike([plan])
        case Compose(parts=parts):
            return _composed([_cases(part, change) for part in parts])
        case Repeat(count=count, of=Repeat(count=inner, of=of)):
            return _cases(Repeat(count * inner, of), change)
        case Repeat(count=count, of=of):
            return _repeated(count, _cases(of, change)) if count else _alike([NOTHING])
        case Parallel():
            return _parallel(plan, change)
        case Poisson(rate=rate, of=of):
            check_no_inner_population(of)
            if rate == 0.0:
                return _alike([NOTHING])
            return _cases(of, change) if rate == 1.0 else _poisson(plan, change)
        case WithoutReplacement(population=population, sample=sample, of=of):
            check_inner_populations(plan, of)
            if sample == 0:
                return _alike([NOTHING])
            if sample == population:
                return _cases(of, replace(change, stated=False, null=True, displaced=True))
            return _without_replacement(plan, change)
    raise TypeError(type(plan).__name__)


def _alike(plans: Sequence[Plan]) -> Choices:
    kept = tuple(undominated(plans))
    return Choices(kept, kept)


def _of(upper: Iterable[Plan], lower: Iterable[Plan]) -> Choices:
    upper, lower = list(upper), list(islice(lower, MOST_REACHED + MAX_CASES))
    above = tuple(undominated(upper))
    below = (above if lower == upper else tuple(undominated(lower))) or (NOTHING,)
    if len(above) > MAX_CASES:
        reached = tuple(sorted(below, key=likely_size, reverse=True)[:FEW_REACHED])
        return Choices(tuple(_any_sequence(any_of(above, 1))), reached)
    return Choices(above, below)


def _composed(parts: Sequence[Choices]) -> Choices:
    reached = map(Compose, islice(product(*(part.lower for part in parts)), MOST_REACHED))
    if math.prod(len(part.upper) for part in parts) > MAX_CASES:
        return _of(_any_sequence([one for part in parts for one in any_of(part.upper, 1)]), reached)
    upper = map(Compose, product(*(part.upper for part in parts)))
    if all(part.upper == part.lower for part in parts):
        return _of(found := list(upper), found)
    return _of(upper, reached)


def _repeated(count: int, inner: Choices) -> Choices:
    """Each copy has slots of its own, chosen before anything is released: any sequence of cases."""
    if count == 1:
        return inner
    upper: list[Plan] = []
    lower: list[Plan] = []
    if math.comb(count + len(inner.upper) - 1, len(inner.upper) - 1) > MAX_CASES:
        return _of(_any_sequence(any_of(inner.upper, count)), [Repeat(count, case) for case in inner.lower])
    for split in _splits(count, len(inner.upper)):
        chosen = [Repeat(k, case) for k, case in zip(split, inner.upper, strict=True) if k]
        upper += [chosen[0]] if len(chosen) == 1 else _any_sequence(chosen)
        if inner.lower == inner.upper:
            lower += chosen if len(chosen) == 1 else [Compose(tuple(sorted(chosen, key=_has_exponentials)))]
    return _of(upper, lower or [Repeat(count, case) for case in inner.lower])


def _splits(count: int, kinds: int) -> Iterable[tuple[int, ...]]:
    """All ways to write ``count`` as an ordered sum of ``kinds`` counts."""
    if kinds == 1:
        return [(count,)]
    return [(k, *rest) for k in range(count + 1) for rest in _splits(count - k, kinds - 1)]


def _parallel(node: Parallel, change: _Change) -> Choices:
    inside = replace(change, padded=True)
    if change.kind != "replace":
        trees = node.parts if change.stated or node.moves is None else node.moves
        if trees is node.parts and not change.stated:
            _check_null_is_stated(change)
        here = [_cases(tree, inside) for tree in dict.fromkeys(trees)]
        below = [_cases(tree, inside) for tree in dict.fromkeys(reached_moves(node, trees))]
        return _of([c for one in here for c in one.upper], [c for one in below for c in one.lower])
    upper = [case for part in maximal(node.parts) for case in _cases(part, inside).upper]
    lower = [case for part in maximal(reached_parts(node)) for case in _cases(part, inside).lower]
    if (change.free or node.membership == "moving") and len(node.parts) > 1:
        crossed = _crossed(node, inside)
        upper, lower = [*upper, *crossed.upper], [*lower, *crossed.lower]
    return _of(upper or [NOTHING], lower)


def _crossed(node: Parallel, change: _Change) -> Choices:
    """The record leaves one part and enters another."""
    trees = node.parts if node.moves is None else node.moves
    if node.moves is None:
        _check_null_is_stated(change)
    reached = reached_moves(node, trees)
    stated = node.moves is not None
    moves = list(zip(trees, reached, strict=True))
    upper: list[Plan] = []
    lower: list[Plan] = []
    for left, entered in pairs_of_parts(moves):
        leaving = [_cases(tree, replace(change, kind="leave", stated=stated, free=False)) for tree in left]
        entering = [_cases(tree, replace(change, kind="enter", stated=stated, free=False)) for tree in entered]
        for a, b in product(leaving[0].upper, entering[0].upper):
            upper += _any_sequence([a, b])
        lower += [Compose((a, b)) for a, b in product(leaving[1].lower, entering[1].lower)]
    return _of(upper, lower)


def _check_null_is_stated(change: _Change) -> None:
    if not change.null:
        raise NotSupported(
            "a record that leaves a part below a Poisson sample: what the part costs without it is not stated",
            hint='state "moves" of the parallel node: what each part costs when a record leaves or enters it',
        )


def _any_sequence(chosen: Sequence[Plan]) -> list[Plan]:
    """Upper sides of ``chosen`` in any interleaving: what has a dominating pair first (module docstring)."""
    uses = Counter[float]()
    for one in chosen:
        uses.update(exponential_uses(one))
    if not uses:
        return [Compose(tuple(chosen))]
    pairs = tuple(part for one in chosen if (part := fixed(one)) != NOTHING)
    steps = tuple(part for one in chosen if (part := only(one, _is_exponential)) != NOTHING)
    if len(uses) == 1:
        return [Compose((*pairs, *steps))]
    if not pairs and sum(uses.values()) == 2:
        return [Compose(steps), Compose(steps[::-1])]
    return [AnyOrder(Compose((*pairs, *steps)))]


def _is_exponential(one: Plan) -> bool:
    return isinstance(one, Exponential) and one.range > 0.0


def _has_exponentials(plan: Plan) -> tuple[bool, bool]:
    """First what has none, then what has others too, then what has nothing else."""
    return bool(exponential_uses(plan)), fixed(plan) == NOTHING


def _poisson(node: Poisson, change: _Change) -> Choices:
    rate = node.rate
    if change.kind != "replace":
        return _poisson_left(node, change)
    below = _cases(node.of, replace(change, null=change.displaced))
    if node.absent is None:
        return _of((Poisson(rate, of) for of in below.upper), (Poisson(rate, of) for of in below.lower))
    gone = _gone(node.absent)
    absent = _covering(gone.upper)
    if _shows_nothing(absent):  # then neither record shows at all
        return _of([NOTHING], [NOTHING])
    upper = [Poisson(rate, of, absent) for of in below.upper]
    if below.upper == below.lower and gone.upper == gone.lower == (absent,):
        return _of(upper, upper)
    reached = [Poisson(rate, of, a) for of in below.lower for a in gone.lower if covers(of, a)]
    return _of(upper, reached)


def _poisson_left(node: Poisson, change: _Change) -> Choices:
    """The record is kept with probability q, or there is nothing to see."""
    rate, leaves = node.rate, change.kind != "enter"
    if not change.marked:
        below = _cases(node.of, replace(change, null=True))
        return _of((Poisson(rate, of) for of in below.upper), (Poisson(rate, of) for of in below.lower))
    if node.absent is None:
        if not change.stated and not change.displaced:
            raise NotSupported(
                "a record that leaves a part with a Poisson sample: what a sample costs without it is not stated",
                hint='state "moves" of the parallel node, or "absent" of the subsample node',
            )
        below = _cases(node.of, replace(change, kind="leave", relation="zero-out"))
        return _of(
            (Moved(Poisson(rate, of), leaves) for of in below.upper),
            (Moved(Poisson(rate, of), leaves) for of in below.lower),
        )
    # Both costs: of samples that hold the record's place without it, and of samples that miss it.
    below = _cases(node.of, replace(change, kind="leave"))
    gone = _gone(node.absent)
    absent = _covering(gone.upper)
    if _shows_nothing(absent):
        return _of([NOTHING], [NOTHING])
    upper = [Moved(Poisson(rate, of, absent), leaves) for of in below.upper]
    return _of(upper, upper if below.upper == below.lower and gone.lower == gone.upper else [])


def _gone(absent: Plan) -> Choices:
    """What a sample with the record and one without it differ by."""
    check_no_inner_population(absent)
    return _cases(absent, _Change("leave", "zero-out", stated=True))


def _shows_nothing(plan: Plan) -> bool:
    return all(leaf in _IDLE for leaf in walk(plan) if isinstance(leaf, Leaf))


def _without_replacement(node: WithoutReplacement, change: _Change) -> Choices:
    population, sample = node.population, node.sample
    of = node.of
    while (inner := only_sample(of)) is not None and inner.population == sample:
        # A sample of a sample.
        check_inner_populations(inner, inner.of)
        sample, of = inner.sample, inner.of
        if sample == 0:
            return _alike([NOTHING])
    free = _Change("replace", "substitution", stated=False, free=True, displaced=True)
    below = _cases(of, free)
    leaving = change.relation == "add-remove" and not change.padded and population == change.population

    def marked(inside: Plan) -> Plan:
        sampled = WithoutReplacement(population, sample, inside)
        if leaving or change.relation == "zero-out" or (change.relation == "substitution" and change.kind == "replace"):
            return sampled
        return Moved(sampled, change.kind != "enter")

    if leaving:
        return _of(map(marked, below.upper), map(marked, below.lower))
    place = replace(free, free=change.free) if change.kind == "replace" else replace(free, kind="null")
    reached = below.lower if place == free else _cases(of, place).lower
    upper = [marked(_covering(below.upper))]
    return _of(upper, map(marked, reached))


def _covering(options: Sequence[Plan]) -> Plan:
    """The one that costs at least what every other does."""
    for option in options:
        if all(covers(option, other, gaussians=True) for other in options):
            return option
    raise NotSupported(
        "a sample over parallel parts of which none costs at least what each other does",
        hint="make the parts alike: state each part's cost by its costliest member, or put the subsample inside a part",
    )
