"""What a case is made of: plan nodes without ``parallel``, and three that only cases have (``changes``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from affidavit.accountant.nodes import Compose, Exponential, Plan, Poisson, Repeat, WithoutReplacement, unrolled
from affidavit.accountant.validate import Relation

__all__ = ["NOTHING", "AnyOrder", "Moved", "OneOf", "exponential_uses", "fixed", "only", "uses_of"]

NOTHING = Compose(())


@dataclass(frozen=True, slots=True)
class Moved(Plan):
    """A sample that a record ``leaves`` or else enters (or becomes null in), where the relation says otherwise.

    On a Poisson sample ``node.of`` states what that costs, on one without replacement what substitution does.
    """

    node: Poisson | WithoutReplacement
    leaves: bool
    kind: ClassVar[str] = "subsample"

    @property
    def relation(self) -> Relation:
        """What the sample's cost is stated for."""
        return "substitution" if isinstance(self.node, Poisson) and self.node.absent is not None else "zero-out"

    @property
    def below(self) -> tuple[Plan, ...]:
        return (self.node,)


@dataclass(frozen=True, slots=True)
class AnyOrder(Plan):
    """Exponential mechanisms of unlike ranges, and others, in whatever order the history suggests. An upper side."""

    of: Plan
    kind: ClassVar[str] = "any-order"


@dataclass(frozen=True, slots=True)
class OneOf(Plan):
    """One use of any one of ``options``, each a single use, the choice free every time. An upper side (``choices``)."""

    options: tuple[Plan, ...]
    kind: ClassVar[str] = "one-of"

    @property
    def below(self) -> tuple[Plan, ...]:
        return self.options


def exponential_uses(plan: Plan) -> dict[float, int]:
    """Uses of exponential mechanisms by range, outside samples; ranges of 0 left out."""
    return {one.range: n for one, n in uses_of(plan).items() if isinstance(one, Exponential) and one.range > 0.0}


def uses_of(plan: Plan, uses: int = 1) -> Counter[Plan]:
    """Every mechanism of a case with how often it is used, in whatever order."""
    total = Counter[Plan]()
    for node, count in unrolled(plan, uses):
        total.update(uses_of(node.of, count) if isinstance(node, AnyOrder) else {node: count})
    return total


def only(plan: Plan, kept: Callable[[Plan], bool]) -> Plan:
    """A case without the mechanisms that are not ``kept``; ``NOTHING`` where that leaves none."""
    match plan:
        case Repeat(count=count, of=of):
            inner = only(of, kept)
            return NOTHING if count == 0 or inner == NOTHING else Repeat(count, inner)
        case AnyOrder(of=of):
            return only(of, kept)
        case Compose(parts=parts):
            left = (only(part, kept) for part in parts)
            return Compose(tuple(part for part in left if part != NOTHING))
    return plan if kept(plan) else NOTHING


def fixed(plan: Plan) -> Plan:
    """A case without its exponential mechanisms."""
    return only(plan, lambda one: not isinstance(one, Exponential))
