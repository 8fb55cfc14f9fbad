"""What a case is made of: plan nodes without ``parallel``, and three that only cases have (``changes``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from affidavit.accountant.nodes import Compose, Exponential, Plan, Poisson, Repeat, WithoutReplacement

__all__ = ["NOTHING", "AnyOrder", "Moved", "OneOf", "exponential_uses", "is_nothing", "only"]

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
    def below(self) -> tuple[Plan, ...]:
        return (self.node,)


@dataclass(frozen=True, slots=True)
class AnyOrder(Plan):
    """Exponential mechanisms of unlike ranges, and others, in whatever order the history suggests. An upper side."""

    of: Plan
    kind: ClassVar[str] = "any-order"

    @property
    def below(self) -> tuple[Plan, ...]:
        return (self.of,)


@dataclass(frozen=True, slots=True)
class OneOf(Plan):
    """One use of any one of ``options``, each a single use, the choice free every time. An upper side (``choices``)."""

    options: tuple[Plan, ...]
    kind: ClassVar[str] = "one-of"

    @property
    def below(self) -> tuple[Plan, ...]:
        return self.options


def exponential_uses(plan: Plan, uses: int = 1) -> dict[float, int]:
    """Uses of exponential mechanisms by range, outside samples; ranges of 0 left out."""
    match plan:
        case Exponential(range=eta):
            return {eta: uses} if eta > 0.0 and uses else {}
        case Repeat(count=count, of=of):
            return exponential_uses(of, uses * count)
        case AnyOrder(of=of):
            return exponential_uses(of, uses)
        case Compose(parts=parts):
            total = Counter[float]()
            for part in parts:
                total.update(exponential_uses(part, uses))
            return dict(total)
    return {}


def only(plan: Plan, *, exponential: bool) -> Plan:
    """The exponential leaves of a case alone, or all but them."""
    match plan:
        case Exponential(range=eta):
            return plan if exponential and eta > 0.0 else NOTHING
        case Repeat(count=count, of=of):
            inner = only(of, exponential=exponential)
            return NOTHING if count == 0 or is_nothing(inner) else Repeat(count, inner)
        case AnyOrder(of=of):
            return only(of, exponential=exponential)
        case Compose(parts=parts):
            kept = (only(part, exponential=exponential) for part in parts)
            return Compose(tuple(part for part in kept if not is_nothing(part)))
    return NOTHING if exponential else plan


def is_nothing(plan: Plan) -> bool:
    """Whether a case has no use at all."""
    match plan:
        case Compose(parts=parts):
            return all(map(is_nothing, parts))
        case Repeat(count=count, of=of):
            return count == 0 or is_nothing(of)
    return False
