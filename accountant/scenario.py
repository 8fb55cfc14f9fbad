"""Scenarios: a plan with every choice of the neighbour made, flattened for the methods.

A ``parallel`` node lets the changed record sit in any one part, and under substitution with
moving membership leave one part and enter another (docs/theory/parallel-and-order.md). Each such choice is
one scenario: a plain adaptive composition. The ε of a plan is the largest over its scenarios.

Within a scenario, mechanisms that have one dominating pair may be taken in any order (their
composition is a product measure). Exponential mechanisms have no single dominating pair
(Dong, Durfee and Rogers 2020), so their order is kept, and whether the others run before or
after all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import combinations, product
from typing import Literal

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import (
    Approximate,
    Compose,
    DiscreteGaussian,
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

__all__ = ["Order", "Scenario", "at_least_as_costly", "scenarios"]

Order = Literal["fixed-first", "fixed-last", "mixed"]
"""Where the mechanisms with a dominating pair run, relative to the exponential ones."""

MAX_SCENARIOS = 256
MAX_RUNS = 4096


@dataclass(frozen=True, slots=True)
class Scenario:
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


# For each leaf: the fields whose growth costs more (+1) or less (-1).
_COST_SIGN: dict[type[Plan], dict[str, int]] = {
    Gaussian: {"noise_multiplier": -1},
    Laplace: {"noise_multiplier": -1},
    Pure: {"epsilon": 1},
    Approximate: {"epsilon": 1, "delta": 1},
    Exponential: {"range": 1},
    ZeroConcentrated: {"rho": 1},
    DiscreteGaussian: {},
    Poisson: {"rate": 1},
    Repeat: {"count": 1},
}


def at_least_as_costly(a: Plan, b: Plan) -> bool:
    """True if ``a`` costs at least what ``b`` costs, by comparing equal shapes field by field."""
    if a == b:
        return True
    if type(a) is not type(b):
        return False
    signs = _COST_SIGN.get(type(a), {})
    for field in fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, Plan):
            if not at_least_as_costly(x, y):
                return False
        elif isinstance(x, tuple) and x and isinstance(x[0], Plan):
            if not isinstance(y, tuple) or len(x) != len(y) or not all(map(at_least_as_costly, x, y)):
                return False
        elif field.name in signs:
            if (x - y) * signs[field.name] < 0:
                return False
        elif x != y:
            return False
    return True


def _maximal(parts: Iterable[Plan]) -> list[Plan]:
    """The parts that no other part dominates; of equals, one."""
    kept: list[Plan] = []
    for part in parts:
        if any(at_least_as_costly(other, part) for other in kept):
            continue
        kept = [other for other in kept if not at_least_as_costly(part, other)]
        kept.append(part)
    return kept


def _crossings(plans: tuple[Plan, ...]) -> list[Plan]:
    """Composition of the costs of two different parts, dominated pairs dropped."""
    if len(plans) < 2:
        return []
    if len(plans) > 2 and len(maximal := _maximal(plans)) == 1:
        rest = list(plans)
        rest.remove(maximal[0])
        return [Compose((maximal[0], other)) for other in _maximal(rest)]
    return _maximal(Compose((plans[i], plans[j])) for i, j in combinations(range(len(plans)), 2))


def _moved(plan: Plan) -> Plan:
    """A move's cost, stated for zero-out, in terms that hold under substitution.

    Only Poisson samples tell the two apart: of a record that leaves, or enters, the sample never holds another in
    its place, so that ``of`` is the cost of its absence too.
    """
    match plan:
        case Poisson(rate=rate, of=of, absent=None):
            return Poisson(rate, _moved(of), _moved(of))
        case Repeat(count=count, of=of):
            return Repeat(count, _moved(of))
        case Compose(parts=parts):
            return Compose(tuple(map(_moved, parts)))
        case _:
            return plan


def _choices(plan: Plan, relation: Relation) -> list[Plan]:
    """The plan without ``parallel`` nodes, once for each choice that may be the worst."""
    result: list[Plan]
    match plan:
        case Parallel(parts=parts, membership=membership, moves=moves):
            options = _maximal(parts)
            if relation == "substitution" and membership == "moving":
                options += _crossings(parts if moves is None else tuple(map(_moved, moves)))
            result = [choice for option in options for choice in _choices(option, relation)] or [Compose(())]
        case Compose(parts=parts):
            result = [Compose(c) for c in _product([_choices(part, relation) for part in parts])]
        case Repeat(count=count, of=of):
            inner = _choices(of, relation)
            if len(inner) == 1 or count <= 1:
                result = [Repeat(count, c) for c in inner]
            else:
                result = [
                    Compose(tuple(Repeat(k, c) for k, c in zip(split, inner, strict=True)))
                    for split in _splits(count, len(inner))
                ]
        case Poisson(of=of) | WithoutReplacement(of=of):
            inner = _choices(of, relation)
            if len(inner) > 1:
                raise NotSupported(
                    "subsample over a parallel node with unlike parts: no theorem is implemented",
                    hint="put the subsample inside each part, or make the parts alike",
                )
            result = [_with_inner(plan, inner[0])]
        case _:
            result = [plan]
    if len(result) > MAX_SCENARIOS:
        raise NotSupported(
            f"the parallel nodes leave more than {MAX_SCENARIOS} unlike cases",
            hint="make the parts alike: state each part's cost by its costliest member",
        )
    return result


def _with_inner(plan: Plan, inner: Plan) -> Plan:
    if isinstance(plan, Poisson):
        return Poisson(plan.rate, inner, plan.absent)
    if isinstance(plan, WithoutReplacement):
        return WithoutReplacement(plan.population, plan.sample, inner)
    raise TypeError(type(plan).__name__)


def _product(options: list[list[Plan]]) -> Iterable[tuple[Plan, ...]]:
    total = 1
    for option in options:
        total *= len(option)
        if total > MAX_SCENARIOS:
            raise NotSupported(
                f"the parallel nodes leave more than {MAX_SCENARIOS} unlike cases",
                hint="make the parts alike: state each part's cost by its costliest member",
            )
    return product(*options)


def _splits(count: int, kinds: int) -> Iterable[tuple[int, ...]]:
    """All ways to write ``count`` as an ordered sum of ``kinds`` counts, if they are few."""
    ways = 1
    for i in range(1, kinds):
        ways = ways * (count + i) // i
        if ways > MAX_SCENARIOS:
            raise NotSupported(
                "a repeated parallel node with unlike parts leaves too many cases",
                hint="put the repeat inside each part",
            )
    if kinds == 1:
        return [(count,)]
    return [(k, *rest) for k in range(count + 1) for rest in _splits(count - k, kinds - 1)]


@dataclass(slots=True)
class _Flat:
    """What ``_flatten`` gathers."""

    fixed: dict[Plan, int]
    runs: list[tuple[float, int]]
    fixed_first: bool = True
    fixed_last: bool = True

    def scenario(self) -> Scenario:
        order: Order = "fixed-first" if self.fixed_first else "fixed-last" if self.fixed_last else "mixed"
        return Scenario(tuple(self.fixed.items()), tuple(self.runs), order)


def _flatten(plan: Plan, uses: int, flat: _Flat) -> None:
    runs = flat.runs
    match plan:
        case _ if uses == 0:
            return
        case Compose(parts=parts):
            rounds = uses if _needs_order(plan) else 1
            for _ in range(rounds):
                for part in parts:
                    _flatten(part, uses // rounds, flat)
            if uses > 1 and flat.fixed and runs:
                flat.fixed_first = flat.fixed_last = False
        case Repeat(count=count, of=of):
            _flatten(of, uses * count, flat)
        case Poisson(rate=0.0) | WithoutReplacement(sample=0):
            return
        case Poisson(rate=1.0, of=of):
            _flatten(of, uses, flat)
        case WithoutReplacement(population=population, sample=sample, of=of) if population == sample:
            _flatten(of, uses, flat)
        case Exponential(range=eta):
            if eta > 0.0:
                flat.fixed_last &= not flat.fixed
                if runs and runs[-1][0] == eta:
                    runs[-1] = (eta, runs[-1][1] + uses)
                else:
                    runs.append((eta, uses))
                if len(runs) > MAX_RUNS:
                    raise NotSupported(
                        f"more than {MAX_RUNS} changes of range in one plan",
                        hint="use the same range for neighbouring exponential leaves",
                    )
        case Leaf() | Poisson() | WithoutReplacement():
            flat.fixed_first &= not runs
            flat.fixed[plan] = flat.fixed.get(plan, 0) + uses
        case _:
            raise TypeError(type(plan).__name__)


def _needs_order(plan: Compose) -> bool:
    """Whether repeating the parts round by round differs from repeating each part in turn."""
    ranges = {leaf.range for leaf in _exponential_leaves(plan)}
    return len(ranges) > 1


def _exponential_leaves(plan: Plan) -> Iterable[Exponential]:
    match plan:
        case Exponential():
            yield plan
        case Repeat(of=of):
            yield from _exponential_leaves(of)
        case Compose(parts=parts):
            for part in parts:
                yield from _exponential_leaves(part)
        case _:
            return


def scenarios(plan: Plan, relation: Relation) -> tuple[Scenario, ...]:
    """Every scenario that may be the costliest; never empty.

    Raises ``NotSupported`` where there are too many unlike ones, or no theorem applies.
    """
    result: list[Scenario] = []
    for choice in _choices(plan, relation):
        flat = _Flat({}, [])
        _flatten(choice, 1, flat)
        scenario = flat.scenario()
        if scenario not in result:
            result.append(scenario)
    return tuple(result)
