"""Cases: a plan with every choice of the neighbour made (``changes``), flattened for the methods.

Each choice is one case: a plain adaptive composition. The ε of a plan is at most the largest over its
upper cases_of, and at least what the methods' lower sides say of its lower ones; mostly they are the same.

Within a case, mechanisms that have one dominating pair may be taken in any order (their
composition is a product measure). Exponential mechanisms have no single dominating pair
(Dong, Durfee and Rogers 2020), so their order is kept, and whether the others run before or
after all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from affidavit.accountant.cases.changes import choices
from affidavit.accountant.cases.nodes import AnyOrder, Moved, OneOf, exponential_uses, only
from affidavit.accountant.plan import Compose, Exponential, Leaf, Plan, Poisson, Repeat, WithoutReplacement
from affidavit.accountant.validate import Relation

__all__ = ["Case", "Cases", "Order", "cases_of"]

Order = Literal["fixed-first", "fixed-last", "mixed", "any"]
"""Where the mechanisms with a dominating pair run, relative to the exponential ones; ``any``: nothing has an order."""

MAX_RUNS = 4096
"""Changes of range that are kept in their order."""


@dataclass(frozen=True, slots=True)
class Case:
    """One adaptive composition.

    ``fixed``: (leaf or subsample node, uses), order immaterial, equal nodes merged.
    ``exponentials``: (range, uses) in the order of execution, neighbouring equal ranges merged.
    """

    fixed: tuple[tuple[Plan, int], ...] = ()
    exponentials: tuple[tuple[float, int], ...] = ()
    order: Order = "fixed-first"

    @property
    def uses(self) -> int:
        """Total number of uses of all mechanisms."""
        return sum(n for _, n in self.fixed) + sum(n for _, n in self.exponentials)

    def nodes(self) -> Iterable[tuple[Plan, int]]:
        """Everything as (node, uses)."""
        yield from self.fixed
        for eta, count in self.exponentials:
            yield Exponential(eta), count


@dataclass(slots=True)
class _Flat:
    """What ``_flatten`` gathers."""

    fixed: dict[Plan, int]
    runs: list[tuple[float, int]]
    fixed_first: bool = True
    fixed_last: bool = True
    any_order: bool = False
    too_many: bool = False

    def case(self) -> Case:
        order: Order = "fixed-first" if self.fixed_first else "fixed-last" if self.fixed_last else "mixed"
        if not self.any_order:
            return Case(tuple(self.fixed.items()), tuple(self.runs), order)
        uses = Counter[float]()
        for eta, count in self.runs:
            uses[eta] += count
        return Case(tuple(self.fixed.items()), tuple(sorted(uses.items())), "any")


def _flatten(plan: Plan, uses: int, flat: _Flat) -> None:
    runs = flat.runs
    match plan:
        case _ if uses == 0:
            return
        case Compose(parts=parts):
            # Only then do repeated rounds differ from repeating each part in turn.
            rounds = uses if not flat.any_order and len(exponential_uses(plan)) > 1 else 1
            flat.too_many |= rounds > 1 and rounds * len(parts) > MAX_RUNS
            for _ in range(1 if flat.too_many else rounds):
                for part in parts:
                    _flatten(part, uses // rounds, flat)
            if uses > 1 and flat.fixed and runs:
                flat.fixed_first = flat.fixed_last = False
        case Repeat(count=count, of=of):
            _flatten(of, uses * count, flat)
        case AnyOrder(of=of):
            flat.any_order = True
            _flatten(of, uses, flat)
        case Exponential(range=eta):
            if eta > 0.0:
                flat.fixed_last &= not flat.fixed
                if runs and runs[-1][0] == eta:
                    runs[-1] = (eta, runs[-1][1] + uses)
                else:
                    runs.append((eta, uses))
                flat.too_many |= len(runs) > MAX_RUNS
        case Leaf() | Poisson() | WithoutReplacement() | Moved() | OneOf():
            flat.fixed_first &= not runs
            flat.fixed[plan] = flat.fixed.get(plan, 0) + uses
        case _:
            raise TypeError(type(plan).__name__)


@dataclass(frozen=True, slots=True)
class Cases:
    """None of the plan's choices costs more than one of ``upper``; those of ``lower`` are reached. Never empty."""

    upper: tuple[Case, ...]
    lower: tuple[Case, ...]

    @property
    def all(self) -> tuple[Case, ...]:
        """Each once."""
        return tuple(dict.fromkeys((*self.upper, *self.lower)))


def cases_of(plan: Plan, relation: Relation) -> Cases:
    """Every case that may be the costliest, and those that neighbouring data sets reach, as far as mechanisms do.

    Raises ``NotSupported`` where no theorem applies.
    """
    found = choices(plan, relation)
    return Cases(_flattened(found.upper, AnyOrder), _flattened(found.lower, _of_one_range))


def _flattened(plans: Iterable[Plan], simpler: Callable[[Plan], Plan]) -> tuple[Case, ...]:
    """``simpler``: what a case of too many changes of range is taken for."""
    result: dict[Case, None] = {}
    for plan in plans:
        flat = _Flat({}, [])
        _flatten(plan, 1, flat)
        if flat.too_many:
            flat = _Flat({}, [])
            _flatten(simpler(plan), 1, flat)
        result.setdefault(flat.case())
    return tuple(result)


def _of_one_range(plan: Plan) -> Plan:
    """The exponential mechanisms of other ranges than that of most cost tell nothing: a choice that is reached."""
    uses = exponential_uses(plan)
    kept = max(uses, key=lambda eta: uses[eta] * eta * eta)

    return only(plan, lambda one: not isinstance(one, Exponential) or one.range == kept)
