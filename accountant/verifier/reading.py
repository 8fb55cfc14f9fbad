"""A plan, read by the verifier in its own way: every case that the neighbours may choose (docs/theory/semantics.md).

A case is a ``Case``: one adaptive composition.

``parallel``: under add-remove and zero-out the changed record sits in one part. Under substitution with moving
membership it may also leave one part and enter another, so the costs of both compose: those of ``moves``, else the
substitution costs, which include becoming null (not below a Poisson sample, where null is absence). The two may
interleave: a case for the upper side has the fixed mechanisms first, whose outcomes then help with every choice, one
for the lower side the declared order. A part does not know how many records it has: a sample without replacement
fills up with nulls there, and leaving it is becoming null.

Samples. A Poisson sample holds the record or not: one case for each case below it. Below a sample without
replacement any other record may stand in the changed one's place, so there it is replaced, its parts its own even
where membership is fixed. If a record leaves (add-remove), each one that may take its place is a case; otherwise
advanced joint convexity mixes two replacements, and one of them has to cost as much as every other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Literal

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.nodes import outermost
from affidavit.accountant.plan import (
    Approximate,
    Compose,
    Exponential,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    ZeroConcentrated,
)
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier.cases import Case, Fixed, Sampled, Use, undominated
from affidavit.accountant.verifier.listing import Side, composed, listed, repeated
from affidavit.accountant.verifier.noises import NOISES

__all__ = ["Cases", "read"]

_NEARLY = 1.0 - 1e-12


@dataclass(frozen=True, slots=True)
class Cases:
    """No case of the plan costs more than one of ``upper``; each of ``lower`` is reached. Never empty."""

    upper: tuple[Case, ...]
    lower: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class _Place:
    """How the change reaches a node.

    ``way``: the record leaves, enters or becomes null here though the relation is substitution. ``stated``: what that
    costs is what the leaves say. ``part``: inside a part. ``crosses``: whether a replaced record may leave one part
    for another, ``free``: also where membership is fixed. ``null``: being replaced includes becoming null.
    ``population``: the smallest one that the plan's samples without replacement are drawn from.
    """

    relation: Relation
    side: Side
    way: Literal["leaves", "enters", "null"] | None = None
    stated: bool = True
    part: bool = False
    crosses: bool = True
    free: bool = False
    null: bool = True
    population: int | None = None


def read(plan: Plan, relation: Relation) -> Cases:
    """All cases of ``plan``. Raises ``NotSupported`` where they are too many, or no theorem covers them."""
    population = min((node.population for node in outermost(plan, WithoutReplacement)), default=None)
    above = _cases(plan, _Place(relation, "upper", population=population))
    below = _cases(plan, _Place(relation, "lower", population=population))
    return Cases(above, below or (Case(),))


def _cases(plan: Plan, at: _Place) -> tuple[Case, ...]:
    match plan:
        case Compose(parts=parts):
            return composed([_cases(part, at) for part in parts], at.side)
        case Repeat(count=0) | Poisson(rate=0.0) | WithoutReplacement(sample=0):
            return (Case(),)
        case Repeat(count=count, of=Repeat(count=inner, of=of)):
            return _cases(Repeat(count * inner, of), at)
        case Repeat(count=count, of=of):
            return repeated(_cases(of, at), count, at.side)
        case Parallel():
            return listed(_parallel(plan, at), at.side)
        case Poisson(rate=rate, of=of):
            _check_no_population(of)
            return _cases(of, at) if rate == 1.0 else _poisson(plan, at)
        case WithoutReplacement(population=population, sample=sample, of=of):
            _check_populations(plan)
            if sample == population:  # below, leaves state what substitution costs
                return _cases(of, replace(at, stated=False, null=True))
            return _without_replacement(plan, at)
        case Leaf():
            return (_leaf(plan, at.side),)
        case _:
            raise TypeError(type(plan).__name__)


def _leaf(leaf: Leaf, side: Side) -> Case:
    match leaf:
        case Gaussian(noise_multiplier=sigma):
            return Case(first=Fixed(mu_squared=1 / Fraction(sigma) ** 2)) if sigma > 0 else Case(blatant=True)
        case Pure(epsilon=epsilon):
            return _one(leaf) if epsilon > 0 else Case()
        case Approximate(epsilon=epsilon, delta=delta):
            return _one(leaf) if epsilon > 0 or delta > 0 else Case()
        case Exponential(range=spread):
            return Case(steps=((Fraction(spread), 1),)) if spread > 0 else Case()
        case ZeroConcentrated(rho=rho):
            return Case(first=Fixed(rho=Fraction(rho)))
    noise = NOISES[type(leaf)]
    if not noise.shows_all(leaf):
        return _one(leaf)
    return Case() if side == "lower" and noise.hides(leaf) else Case(blatant=True)


def _one(use: Use) -> Case:
    return Case(first=Fixed(uses=((use, 1),)))


def _poisson(node: Poisson, at: _Place) -> tuple[Case, ...]:
    rate = Fraction(node.rate)
    if at.relation != "substitution":
        return _sampled("poisson", rate, at.relation, _cases(node.of, at))
    enters = at.way == "enters"
    if node.absent is not None:
        absent = _covering(_cases(node.absent, _Place("zero-out", at.side)))
        below = _cases(node.of, at if at.way is not None else replace(at, null=at.null and at.free))
        if absent == Case():  # neither record shows at all
            return (absent,)
        ratios = _ratios(node.of, node.absent)
        even = len(ratios) == 1 and None not in ratios
        return _sampled("poisson", rate, "substitution", below, mirrored=enters, absent=absent, in_proportion=even)
    if at.way is None:
        return _sampled("poisson", rate, "substitution", _cases(node.of, replace(at, null=at.null and at.free)))
    if not at.stated and not at.free:
        raise NotSupported(
            "a record that leaves a part with a Poisson sample: what a sample costs without it is not stated",
            hint='state "moves" of the parallel node, or "absent" of the subsample node',
        )
    below = _cases(node.of, replace(at, relation="zero-out", way=None))
    return _sampled("poisson", rate, "zero-out", below, mirrored=enters)


def _without_replacement(node: WithoutReplacement, at: _Place) -> tuple[Case, ...]:
    rate, of = Fraction(node.sample, node.population), node.of
    free = _Place("substitution", at.side, stated=False, free=True)
    leaving = at.relation == "add-remove" and not at.part and node.population == at.population
    if leaving:
        return _sampled("without-replacement", rate, "add-remove", _cases(of, free))
    replaces = at.relation == "substitution" and at.way is None
    if at.side == "upper":
        below: tuple[Case, ...] = (_covering(_cases(of, free)),)
    else:  # explicit data: all others are alike
        below = _cases(of, replace(free, free=at.free) if replaces else replace(free, way="null"))
    relation: Relation = "substitution" if replaces else "zero-out"
    return _sampled("without-replacement", rate, relation, below, mirrored=at.way == "enters")


def _sampled(
    scheme: str,
    rate: Fraction,
    relation: Relation,
    below: Iterable[Case],
    *,
    mirrored: bool = False,
    absent: Case | None = None,
    in_proportion: bool = False,
) -> tuple[Case, ...]:
    return undominated(
        of if of == Case() else _one(_merged(Sampled(scheme, rate, relation, of, mirrored, absent, in_proportion)))
        for of in below
    )


def _merged(use: Sampled) -> Sampled:
    """A sample of nothing but a sample of the same kind is a smaller sample."""
    match use:
        case Sampled(of=Case(first=Fixed(mu_squared=0, rho=0, uses=((Sampled() as inner, 1),)), steps=())):
            alike = use.scheme == "without-replacement" or inner.relation == use.relation
            told = use.absent is not None or inner.absent is not None
            if alike and inner.scheme == use.scheme and not (told or inner.mirrored or use.of.blatant):
                return replace(use, rate=use.rate * inner.rate, of=inner.of)
    return use


def _ratios(of: Plan, absent: Plan) -> set[Fraction | None]:
    """Leaf by leaf, the noise of one tree of Gaussians over that of another of the same shape; None: there is none."""
    match of, absent:
        case Gaussian(noise_multiplier=one), Gaussian(noise_multiplier=other) if one > 0.0 and other > 0.0:
            return {Fraction(other) / Fraction(one)}
        case Repeat(count=n, of=one), Repeat(count=m, of=other) if n == m:
            return _ratios(one, other)
        case Compose(parts=ones), Compose(parts=others) if len(ones) == len(others):
            return {ratio for pair in zip(ones, others, strict=True) for ratio in _ratios(*pair)}
    return {None}


def _covering(options: Sequence[Case]) -> Case:
    """The one that costs at least what every other does."""
    found = next((option for option in options if all(map(option.covers, options))), None)
    if found is not None:
        return found
    raise NotSupported(
        "a sample over parallel parts of which none costs at least what each other does",
        hint="make the parts alike: state each part's cost by its costliest member, or put the subsample inside a part",
    )


def _check_no_population(of: Plan) -> None:
    if next(outermost(of, WithoutReplacement), None) is not None:
        raise NotSupported(
            "sampling without replacement inside a Poisson sample: the inner population is random",
            hint="swap the two, or use one scheme for both",
        )


def _check_populations(node: WithoutReplacement) -> None:
    for inner in outermost(node.of, WithoutReplacement):
        if inner.population != node.sample:
            raise NotSupported(
                f"a sample of {node.sample} cannot be the population of {inner.population} of the inner sampling",
                hint=f"set the inner population to {node.sample}",
            )


def _parallel(node: Parallel, at: _Place) -> Iterator[Case]:
    if not node.parts:
        yield Case()
    inside, moves = replace(at, part=True), node.moves is not None
    costs = node.moves if node.moves is not None else node.parts
    if moves and at.side == "lower":
        # Replacing in a part includes becoming null: a mechanism satisfies both.
        pairs = zip(node.parts, costs, strict=True)
        costs = tuple(cost if _costs_no_more(cost, part) else Compose(()) for part, cost in pairs)
    if at.relation != "substitution" or at.way is not None:
        if not at.stated and not moves:
            _check_null(at)
        for part in dict.fromkeys(node.parts if at.stated else costs):
            yield from _cases(part, replace(inside, stated=at.stated or moves))
        return
    told = node.moves if at.side == "lower" else None
    for part in dict.fromkeys(node.parts if told is None else map(_told, node.parts, told)):
        yield from _cases(part, replace(inside, crosses=at.crosses and told is None))
    if (node.membership == "fixed" and not at.free) or len(node.parts) < 2 or not at.crosses:
        return
    if not moves:
        _check_null(at)
    kinds = list(dict.fromkeys(costs))
    for i, left in enumerate(kinds):
        for entered in kinds[i:]:
            if left != entered or costs.count(left) > 1:
                here = _cases(left, replace(inside, way="leaves", stated=moves))
                there = _cases(entered, replace(inside, way="enters", stated=moves))
                for pair in product(here, there):
                    yield from _interleaved(*pair) if at.side == "upper" else [Case.joined(pair)]


def _check_null(at: _Place) -> None:
    if not at.null:
        raise NotSupported(
            "a record that leaves a part below a Poisson sample: what the part costs without it is not stated",
            hint='state "moves" of the parallel node: what each part costs when a record leaves or enters it',
        )


def _interleaved(one: Case, other: Case) -> list[Case]:
    """Upper sides of the two in any interleaving."""
    steps = (*one.steps, *other.steps)
    if one.fixed.empty and other.fixed.empty and sum(uses for _, uses in steps) == 2:
        return [Case.joined((one, other)), Case.joined((other, one))]
    return [Case.in_any_order((one, other))]


# What makes a leaf cost more: the larger value (+1) or the smaller one (−1) of each field (of noise: ``noises``).
_DEARER: dict[type[Plan], dict[str, int]] = {
    Gaussian: {"noise_multiplier": -1},
    Pure: {"epsilon": 1},
    Approximate: {"epsilon": 1, "delta": 1},
    Exponential: {"range": 1},
    ZeroConcentrated: {"rho": 1},
}


def _costs_no_more(move: Plan, part: Plan) -> bool:
    """Whether leaving a part costs at most what replacing inside it does, which includes becoming null.

    Below a Poisson sample it does not include it: there what is stated is all that is known.
    """
    if move == part:
        return True
    match move, part:
        case Poisson(rate=1.0, of=one), Poisson(rate=1.0, of=other):
            return _costs_no_more(one, other)
        case Poisson(), Poisson():
            return True
        case Repeat(count=n, of=one), Repeat(count=m, of=other):
            return n <= m and _costs_no_more(one, other)
        case Compose(parts=ones), Compose(parts=others):
            return len(ones) == len(others) and all(map(_costs_no_more, ones, others))
        case WithoutReplacement(of=one), WithoutReplacement(of=other):
            return replace(move, of=other) == part and _costs_no_more(one, other)
        case Leaf(), Leaf() if type(move) is type(part):
            signs = noise.dearer if (noise := NOISES.get(type(part))) else _DEARER.get(type(part), {})
            return bool(signs) and all(
                (getattr(part, name) - getattr(move, name)) * sign >= 0 for name, sign in signs.items()
            )
    return False


def _told(part: Plan, move: Plan) -> Plan:
    """A part for the lower side, its mechanisms as far apart as ``moves`` leave them; nothing where that is not clear.

    Two laws are no further apart than by way of a third one, the law without the record.
    """
    match part, move:
        case Repeat(count=count, of=one), Repeat(of=other):
            return Repeat(count, _told(one, other))
        case Compose(parts=ones), Compose(parts=others) if len(ones) == len(others):
            return Compose(tuple(map(_told, ones, others)))
        case Parallel(parts=ones), Parallel(parts=others) if len(ones) == len(others):
            return replace(part, parts=tuple(map(_told, ones, others)), moves=None)
        case Poisson(absent=Plan() as gone), Poisson(of=of) if _costs_no_more(gone, of):
            return part
        case WithoutReplacement(), WithoutReplacement() if part == move:
            return part
        case Leaf(), Leaf() if _costs_no_more(part, move):
            return part
        case (Gaussian() as one, Gaussian() as other) | (Laplace() as one, Laplace() as other) if (
            one.noise_multiplier >= 0.5 * other.noise_multiplier * _NEARLY
        ):
            return part
        case Exponential(range=one), Exponential(range=other) if one * _NEARLY <= 2.0 * other:
            return part
        case Pure(epsilon=one), Pure(epsilon=other):
            return Pure(min(one, math.log1p(2.0 * math.expm1(other)) * _NEARLY))
    return Compose(())
