"""A plan, read by the verifier in its own way: every case that the neighbours may choose (docs/theory/semantics.md).

A case is one adaptive composition: the mechanisms that have a dominating pair (``fixed``, in which order is
immaterial) and the exponential ones (``ranges``, in the order of execution).

``parallel`` (disjoint parts, intrinsic key): under add-remove and zero-out the changed record sits in one part. Under
substitution with moving membership it may also leave part i and enter part j, so the costs of both compose; ``moves``
states those costs, else the substitution costs serve, which include becoming null (not below a Poisson sample, where
null is absence). Inside a part that it leaves or enters it is in one part again. The two may interleave: a case for
the upper side has the fixed mechanisms first, whose outcomes then help with every choice, one for the lower side the
declared order. A part does not know how many records it has: a sample without replacement fills up with nulls there,
and leaving it is becoming null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, Literal

from affidavit.accountant.errors import NotSupported
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

__all__ = ["Case", "Moved", "cases", "steps"]

_MAX_CASES = 512
_MAX_STEPS = 8192

Step = tuple[Plan, int]
"""A leaf or a subsample node, and how many times in a row it is used."""


@dataclass(frozen=True, slots=True)
class Moved(Plan):
    """A subsample node in a part that the changed record ``leaves``, or else in the one that it enters."""

    node: Poisson | WithoutReplacement
    leaves: bool
    kind: ClassVar[str] = "moved"


@dataclass(frozen=True, slots=True)
class _Unordered(Plan):
    """A mark: exponential uses of unlike ranges, in whatever order the history suggests."""

    kind: ClassVar[str] = "unordered"


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a node is read: the relation (None inside a sample), which side of the answer it is for, where it is.

    ``way``: the record leaves or enters here. ``stated``: what that costs is what the leaves say. ``part``: inside a
    part. ``crosses``: whether a replaced record may leave one part for another. ``population``: the smallest one
    that the plan's samples without replacement are drawn from.
    """

    relation: Relation | None
    side: Literal["upper", "lower"] = "upper"
    way: Literal["leaves", "enters"] | None = None
    stated: bool = True
    part: bool = False
    crosses: bool = True
    population: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One composition that the changed record may see.

    The fixed mechanisms are kept apart by when they run: ``before`` the first exponential use,
    ``between``, and ``after`` the last; without exponential uses all are ``before``. ``unordered``: nothing is known
    of the order. No case costs more than one of the ``upper`` ones; ``lower`` ones are reached.
    """

    before: tuple[Step, ...]
    between: tuple[Step, ...]
    after: tuple[Step, ...]
    ranges: tuple[tuple[float, int], ...]
    unordered: bool = False
    upper: bool = True
    lower: bool = True

    @property
    def fixed(self) -> tuple[Step, ...]:
        """All mechanisms with a dominating pair."""
        return self.before + self.between + self.after


def cases(plan: Plan, relation: Relation) -> tuple[Case, ...]:
    """All cases of ``plan``, equal ones once. Raises ``NotSupported`` where they are too many."""
    population = min((node.population for node in _samples(plan)), default=0)
    upper, lower = (
        dict.fromkeys(_case(one) for one in _sequences(plan, _Reading(relation, side, population=population)))
        for side in ("upper", "lower")
    )
    return tuple(replace(case, upper=case in upper, lower=case in lower) for case in upper | lower)


def steps(plan: Plan) -> tuple[Step, ...]:
    """The uses of a plan without ``parallel`` nodes (the inside of a subsample), in order."""
    (sequence,) = _sequences(plan, _Reading(None))
    return sequence


def _case(sequence: tuple[Step, ...]) -> Case:
    unordered = any(isinstance(node, _Unordered) for node, _ in sequence)
    steps = [
        (node, uses)
        for node, uses in sequence
        if not (isinstance(node, _Unordered) or (isinstance(node, Exponential) and node.range == 0.0))
    ]
    places = [i for i, (node, _) in enumerate(steps) if isinstance(node, Exponential)]
    first, last = (places[0], places[-1]) if places else (len(steps), len(steps))
    ranges: list[tuple[float, int]] = []
    for node, uses in steps:
        if isinstance(node, Exponential):
            before = ranges.pop()[1] if ranges and ranges[-1][0] == node.range else 0
            ranges.append((node.range, before + uses))
    return Case(_summed(steps[:first]), _summed(steps[first:last]), _summed(steps[last:]), tuple(ranges), unordered)


def _summed(steps: Iterable[Step]) -> tuple[Step, ...]:
    counts: dict[Plan, int] = {}
    for node, uses in steps:
        if not isinstance(node, Exponential):
            counts[node] = counts.get(node, 0) + uses
    return tuple(counts.items())


def _limited(items: Iterable[tuple[Step, ...]]) -> list[tuple[Step, ...]]:
    kept = list(dict.fromkeys(items))
    if len(kept) > _MAX_CASES:
        raise NotSupported(
            f"the parallel nodes leave {len(kept)} unlike cases to recompute",
            hint="Remove `--recompute`, or make the parts alike.",
        )
    return kept


def _sequences(plan: Plan, at: _Reading) -> list[tuple[Step, ...]]:
    match plan:
        case Compose(parts=parts):
            options = [_sequences(part, at) for part in parts]
            return _limited(_joined(choice) for choice in _bounded_product(options))
        case Repeat(count=0) | Poisson(rate=0.0) | WithoutReplacement(sample=0):
            return [()]
        case Repeat(count=count, of=of):
            inner = _sequences(of, at)
            if len(inner) > 1 and count > 1:
                return _limited(_joined(c) for c in _bounded_product([inner] * count))
            return [_repeated(sequence, count) for sequence in inner]
        case Parallel():
            return _limited(_parallel(plan, at))
        case Poisson(of=of) | WithoutReplacement(of=of):
            _check_populations(plan, at)
            if isinstance(plan, WithoutReplacement) and plan.sample == plan.population:
                return _sequences(of, replace(at, stated=False))  # below, leaves state what substitution costs
            if isinstance(plan, Poisson) and plan.rate == 1.0:
                return _sequences(of, at)
            return [((_seen(plan, at), 1),)]
        case Leaf():
            return [((plan, 1),)]
        case _:
            raise TypeError(type(plan).__name__)


def _seen(node: Poisson | WithoutReplacement, at: _Reading) -> Plan:
    """The sample, marked where the relation alone does not tell what happens to it."""
    if at.way is not None:
        if isinstance(node, Poisson) and node.absent is None and not at.stated:
            raise NotSupported(
                "a record that leaves a part with a Poisson sample: what a sample costs without it is not stated",
                hint='state "moves" of the parallel node, or "absent" of the subsample node',
            )
        return Moved(node, at.way == "leaves")
    if isinstance(node, Poisson) or at.relation != "add-remove":
        return node
    return Moved(node, leaves=True) if at.part or node.population != at.population else node


def _check_populations(node: Poisson | WithoutReplacement, at: _Reading) -> None:
    inner = list(_samples(node.of))
    fits = isinstance(node, WithoutReplacement) and all(sample.population == node.sample for sample in inner)
    if inner and not fits:
        raise NotSupported(
            "a sample without replacement from another population than the sample around it, or from a random one",
            hint="Remove `--recompute`, and set the inner population to the outer sample.",
        )
    if at.relation is None and isinstance(node, WithoutReplacement):
        raise NotSupported("the verifier has no formula for a sample of a sample", hint="Remove `--recompute`.")


def _samples(plan: Plan) -> Iterator[WithoutReplacement]:
    """The outermost samples without replacement."""
    match plan:
        case WithoutReplacement():
            yield plan
        case Compose(parts=parts) | Parallel(parts=parts):
            for part in parts:
                yield from _samples(part)
        case Repeat(of=of) | Poisson(of=of):
            yield from _samples(of)


def _bounded_product(options: list[list[tuple[Step, ...]]]) -> Iterator[tuple[tuple[Step, ...], ...]]:
    total = 1
    for option in options:
        total *= len(option)
        if total > 16 * _MAX_CASES:
            raise NotSupported(
                "the parallel nodes leave too many unlike cases to recompute",
                hint="Remove `--recompute`, or make the parts alike.",
            )
    return product(*options)


def _joined(parts: Iterable[tuple[Step, ...]]) -> tuple[Step, ...]:
    result: list[Step] = []
    for part in parts:
        for node, uses in part:
            if result and result[-1][0] == node:
                result[-1] = (node, result[-1][1] + uses)
            else:
                result.append((node, uses))
    if len(result) > _MAX_STEPS:
        raise NotSupported(
            f"more than {_MAX_STEPS} changes of mechanism in one plan",
            hint="Remove `--recompute`, or group equal neighbouring leaves in a repeat.",
        )
    return tuple(result)


def _repeated(sequence: tuple[Step, ...], count: int) -> tuple[Step, ...]:
    ranges = {node.range for node, _ in sequence if isinstance(node, Exponential) and node.range > 0.0}
    many = tuple((node, uses * count) for node, uses in sequence)
    if len(ranges) <= 1:
        if len(sequence) == 1 or not ranges or count < 3:
            return many if len(sequence) == 1 or not ranges else _joined([sequence] * count)
        # Only what runs before the first and after the last exponential use is told apart.
        return _joined([sequence, tuple((node, uses * (count - 2)) for node, uses in sequence), sequence])
    if count * len(sequence) > 16 * _MAX_STEPS:
        raise NotSupported(
            f"{count} rounds of unlike exponential leaves are too many to recompute in their order",
            hint="Remove `--recompute`, or group equal neighbouring leaves in a repeat.",
        )
    return _joined([sequence] * count)


def _parallel(node: Parallel, at: _Reading) -> Iterator[tuple[Step, ...]]:
    if at.relation is None:
        raise NotSupported(
            "no theorem amplifies a parallel node by sampling", hint="put the subsample inside each part"
        )
    if not node.parts:
        yield ()
    inside, moves = replace(at, part=True), node.moves is not None
    costs = node.moves if node.moves is not None else node.parts
    if moves and at.side == "lower":
        # Replacing in a part includes becoming null: a mechanism satisfies both.
        pairs = zip(node.parts, costs, strict=True)
        costs = tuple(cost if _costs_no_more(cost, part) else Compose(()) for part, cost in pairs)
    if at.relation != "substitution" or at.way is not None:
        for part in dict.fromkeys(node.parts if at.stated else costs):
            yield from _sequences(part, replace(inside, stated=at.stated or moves))
        return
    told = node.moves if at.side == "lower" else None
    for part in dict.fromkeys(node.parts if told is None else map(_told, node.parts, told)):
        yield from _sequences(part, replace(inside, crosses=at.crosses and told is None))
    if node.membership == "fixed" or len(node.parts) < 2 or not at.crosses:
        return
    kinds = list(dict.fromkeys(costs))
    for i, left in enumerate(kinds):
        for entered in kinds[i:]:
            if left != entered or costs.count(left) > 1:
                here = _sequences(left, replace(inside, way="leaves", stated=moves))
                there = _sequences(entered, replace(inside, way="enters", stated=moves))
                for one, other in product(here, there):
                    yield from _interleaved(one, other) if at.side == "upper" else [_joined([one, other])]


def _interleaved(one: tuple[Step, ...], other: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """Upper sides of the two in any interleaving."""
    used = [(node, uses) for node, uses in (*one, *other) if not (isinstance(node, Exponential) and node.range == 0.0)]
    fixed = [step for step in used if not isinstance(step[0], (Exponential, _Unordered))]
    exponential = tuple((node, uses) for node, uses in used if isinstance(node, Exponential))
    ranges = {node for node, _ in exponential}
    if len(ranges) <= 1 and len(fixed) + len(exponential) == len(used):
        return [_joined([(*fixed, *exponential)])]
    if not fixed and sum(uses for _, uses in exponential) == 2:
        return [_joined([exponential]), _joined([exponential[::-1]])]
    return [_joined([(*fixed, *exponential, (_Unordered(), 1))])]


# What makes a leaf cost more: the larger value (+1) or the smaller one (−1) of each field.
_DEARER: dict[type[Plan], dict[str, int]] = {
    Gaussian: {"noise_multiplier": -1},
    Laplace: {"noise_multiplier": -1},
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
        case Poisson(), Poisson():
            return True
        case Repeat(count=n, of=one), Repeat(count=m, of=other):
            return n <= m and _costs_no_more(one, other)
        case Compose(parts=ones), Compose(parts=others):
            return len(ones) == len(others) and all(map(_costs_no_more, ones, others))
        case WithoutReplacement(of=one), WithoutReplacement(of=other):
            return replace(move, of=other) == part and _costs_no_more(one, other)
        case Leaf(), Leaf() if type(move) is type(part):
            signs = _DEARER.get(type(part), {})
            return bool(signs) and all(
                (getattr(part, name) - getattr(move, name)) * sign >= 0 for name, sign in signs.items()
            )
    return False


_NEARLY = 1.0 - 1e-12


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
        case Gaussian(noise_multiplier=one), Gaussian(noise_multiplier=other) if one >= 0.5 * other * _NEARLY:
            return part
        case Laplace(noise_multiplier=one), Laplace(noise_multiplier=other) if one >= 0.5 * other * _NEARLY:
            return part
        case Exponential(range=one), Exponential(range=other) if one * _NEARLY <= 2.0 * other:
            return part
        case Pure(epsilon=one), Pure(epsilon=other):
            return Pure(min(one, math.log1p(2.0 * math.expm1(other)) * _NEARLY))
    return Compose(())
