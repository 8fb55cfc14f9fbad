"""A plan, read by the verifier in its own way: every case that the neighbours may choose.

A case is one adaptive composition: the mechanisms that have a dominating pair (``fixed``, in which
order is immaterial) and the exponential ones (``ranges``, in the order of execution).

``parallel`` (docs/theory/parallel-and-order.md; disjoint parts, intrinsic key): under add-remove and
zero-out the changed record sits in one part. Under substitution with moving membership it may also leave part i and
enter part j, so the costs of both compose; ``moves`` states those costs, else the substitution costs serve.
A composition of exponentials of unlike ranges is then taken in both orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Repeat,
    WithoutReplacement,
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
class Case:
    """One composition that the changed record may see.

    The fixed mechanisms are kept apart by when they run: ``before`` the first exponential use,
    ``between``, and ``after`` the last; without exponential uses all are ``before``.
    """

    before: tuple[Step, ...]
    between: tuple[Step, ...]
    after: tuple[Step, ...]
    ranges: tuple[tuple[float, int], ...]

    @property
    def fixed(self) -> tuple[Step, ...]:
        """All mechanisms with a dominating pair."""
        return self.before + self.between + self.after


def cases(plan: Plan, relation: Relation) -> tuple[Case, ...]:
    """All cases of ``plan``, equal ones once. Raises ``NotSupported`` where they are too many."""
    found: dict[Case, None] = {}
    for sequence in _sequences(plan, relation):
        found.setdefault(_case(sequence))
    return tuple(found)


def steps(plan: Plan) -> tuple[Step, ...]:
    """The uses of a plan without ``parallel`` nodes (the inside of a subsample), in order."""
    (sequence,) = _sequences(plan, None)
    return sequence


def _case(sequence: tuple[Step, ...]) -> Case:
    steps = [(node, uses) for node, uses in sequence if not (isinstance(node, Exponential) and node.range == 0.0)]
    places = [i for i, (node, _) in enumerate(steps) if isinstance(node, Exponential)]
    first, last = (places[0], places[-1]) if places else (len(steps), len(steps))
    ranges: list[tuple[float, int]] = []
    for node, uses in steps:
        if isinstance(node, Exponential):
            before = ranges.pop()[1] if ranges and ranges[-1][0] == node.range else 0
            ranges.append((node.range, before + uses))
    return Case(_summed(steps[:first]), _summed(steps[first:last]), _summed(steps[last:]), tuple(ranges))


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
            hint="make the parts alike, or verify without --recompute",
        )
    return kept


def _sequences(plan: Plan, relation: Relation | None) -> list[tuple[Step, ...]]:
    match plan:
        case Compose(parts=parts):
            options = [_sequences(part, relation) for part in parts]
            return _limited(_joined(choice) for choice in _bounded_product(options))
        case Repeat(count=0) | Poisson(rate=0.0) | WithoutReplacement(sample=0):
            return [()]
        case Repeat(count=count, of=of):
            inner = _sequences(of, relation)
            if len(inner) > 1 and count > 1:
                return _limited(_joined(c) for c in _bounded_product([inner] * count))
            return [_repeated(sequence, count) for sequence in inner]
        case Parallel():
            return _limited(_parallel(plan, relation))
        case Poisson(rate=1.0, of=of):
            return _sequences(of, relation)
        case WithoutReplacement(population=population, sample=sample, of=of) if population == sample:
            return _sequences(of, relation)
        case Leaf() | Poisson() | WithoutReplacement():
            return [((plan, 1),)]
        case _:
            raise NotSupported(f"the verifier cannot read a {plan.kind!r} node", hint="verify without --recompute")


def _bounded_product(options: list[list[tuple[Step, ...]]]) -> Iterator[tuple[tuple[Step, ...], ...]]:
    total = 1
    for option in options:
        total *= len(option)
        if total > 16 * _MAX_CASES:
            raise NotSupported(
                "the parallel nodes leave too many unlike cases to recompute",
                hint="make the parts alike, or verify without --recompute",
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
            hint="group equal neighbouring leaves in a repeat, or verify without --recompute",
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
            hint="group equal neighbouring leaves in a repeat, or verify without --recompute",
        )
    return _joined([sequence] * count)


def _parallel(node: Parallel, relation: Relation | None) -> Iterator[tuple[Step, ...]]:
    if relation is None:
        raise NotSupported(
            "no theorem amplifies a parallel node by sampling", hint="put the subsample inside each part"
        )
    if not node.parts:
        yield ()
    for part in dict.fromkeys(node.parts):
        yield from _sequences(part, relation)
    if relation != "substitution" or node.membership == "fixed" or len(node.parts) < 2:
        return
    costs = node.parts if node.moves is None else node.moves
    # Inside a part that the record leaves or enters, one inner part sees it: no second crossing.
    inside: Relation = "zero-out"
    kinds = list(dict.fromkeys(costs))
    for left, entered in product(kinds, kinds):
        if left != entered or costs.count(left) > 1:
            for one, other in product(_sequences(left, inside), _sequences(entered, inside)):
                stated = node.moves is not None
                yield _joined([_moved(one, leaves=True), _moved(other, leaves=False)] if stated else [one, other])


def _moved(sequence: tuple[Step, ...], *, leaves: bool) -> tuple[Step, ...]:
    """Samples marked as seen by a record on its way: they are of two parts, not of one pair of data sets."""
    return tuple(
        (Moved(node, leaves), uses) if isinstance(node, (Poisson, WithoutReplacement)) else (node, uses)
        for node, uses in sequence
    )


def _has(plan: Plan, wanted: Callable[[Plan], bool]) -> bool:
    if wanted(plan):
        return True
    match plan:
        case Compose(parts=parts) | Parallel(parts=parts):
            return any(_has(part, wanted) for part in parts)
        case Repeat(of=of) | Poisson(of=of) | WithoutReplacement(of=of):
            return _has(of, wanted)
        case _:
            return False
