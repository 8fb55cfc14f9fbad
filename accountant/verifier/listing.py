"""How many cases a plan has: those of all parts and repetitions, or one that costs as much where they are too many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice, pairwise, product
from typing import Literal

from affidavit.accountant.verifier.cases import MAX_CASES, MAX_RUNS, Case, by_range, undominated
from affidavit.accountant.verifier.ceiling import likely_cost
from affidavit.accountant.verifier.choices import any_of

__all__ = ["Side", "composed", "listed", "repeated"]

_MAX_PRODUCT = 1_024
_FEW_ORDERS, _FEW_REACHED = 64, 4

Side = Literal["upper", "lower"]


def listed(cases: Iterable[Case], side: Side) -> tuple[Case, ...]:
    """All that count, or what costs as much where they are too many; below, some are enough."""
    found = undominated(cases)
    if len(found) <= MAX_CASES:
        return found
    if side == "upper":
        return (any_of(found, 1),)
    by_failure = sorted(found, key=likely_cost, reverse=True)[:_FEW_REACHED]
    by_size = sorted(found, key=lambda one: likely_cost(one)[1], reverse=True)[:_FEW_REACHED]
    return tuple(dict.fromkeys((*by_failure, *by_size)))


def composed(options: Sequence[Sequence[Case]], side: Side) -> tuple[Case, ...]:
    """One of each; where only one has several, none of which covers another, what is beside them changes nothing."""
    if sum(len(option) > 1 for option in options) < 2:
        return tuple(map(Case.joined, product(*options)))
    if math.prod(map(len, options)) <= _MAX_PRODUCT:
        return listed(map(Case.joined, product(*options)), side)
    if side == "lower":
        return listed(map(Case.joined, islice(product(*options), MAX_CASES)), side)
    return (Case.in_any_order([any_of(option, 1) if len(option) > 1 else option[0] for option in options]),)


def repeated(inner: Sequence[Case], count: int, side: Side) -> tuple[Case, ...]:
    """Every copy has slots of its own: any sequence of cases, as many of each, none of which covers another."""
    if len(inner) == 1 or count == 1:
        return undominated(_times(one, count, side) for one in inner)
    ranges = {spread for one in inner for spread, _ in one.steps}
    ordered = len(ranges) > 1 or (side == "lower" and bool(ranges))
    if ordered and len(inner) ** count <= _FEW_ORDERS:
        return listed(map(Case.joined, product(inner, repeat=count)), side)
    few = math.comb(count + len(inner) - 1, len(inner) - 1) <= MAX_CASES
    if side == "lower" and (ordered or not few):  # some sequences, in an order that is reached
        return undominated(_times(one, count, side) for one in inner)
    if not few:
        return (any_of(inner, count),)
    join = Case.in_any_order if ranges else Case.joined
    return tuple(join([*map(Case.times, inner, split)]) for split in _splits(count, len(inner)))


def _times(one: Case, count: int, side: Side) -> Case:
    """``count`` runs one after another; of too many changes of range above any order, below those of one range."""
    if len(one.steps) < 2 or len(one.steps) * count <= MAX_RUNS:
        return one.times(count)
    uses = by_range(one.steps)
    if side == "upper":
        steps = tuple(sorted((spread, n * count) for spread, n in uses.items()))
        return Case(one.fixed.times(count), steps, blatant=one.blatant, interleaved=True)
    kept = max(uses, key=lambda spread: uses[spread] * spread * spread)
    return replace(one, steps=((kept, uses[kept]),)).times(count)


def _splits(count: int, kinds: int) -> Iterator[tuple[int, ...]]:
    """How often each kind may occur among ``count``."""
    for cuts in combinations(range(count + kinds - 1), kinds - 1):
        ends = (-1, *cuts, count + kinds - 1)
        yield tuple(after - before - 1 for before, after in pairwise(ends))
