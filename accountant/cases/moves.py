"""What a part costs when a record leaves, enters or is replaced there, as far as mechanisms reach it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from affidavit.accountant.cases.dominance import at_least_as_costly, covers
from affidavit.accountant.cases.nodes import NOTHING
from affidavit.accountant.nodes import (
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
    walk,
)

__all__ = ["Move", "pairs_of_parts", "reached_moves", "reached_parts"]

NEARLY = 1.0 - 1e-12
"""Parameters that are twice each other but for rounding are taken to be so."""

Move = tuple[Plan, Plan]
"""What a part costs that the record leaves or enters: above, and reached."""


def pairs_of_parts(moves: Sequence[Move]) -> Iterator[tuple[Move, Move]]:
    """Two different parts, in declared order; parts that two others cover need no look."""
    counts = Counter(moves)

    def above(move: Move, other: Move) -> bool:
        return covers(other[0], move[0]) and not covers(move[0], other[0])

    kept = [move for move in counts if sum(n for other, n in counts.items() if above(move, other)) < 2]
    yield from ((move, move) for move in kept if counts[move] > 1)
    yield from combinations(kept, 2)


def reached_parts(node: Parallel) -> tuple[Plan, ...]:
    """The parts as far as they are reached: their mechanisms satisfy what ``moves`` state, too."""
    if node.moves is None:
        return node.parts
    return tuple(_informed(part, move) for part, move in zip(node.parts, node.moves, strict=True))


def _informed(part: Plan, move: Plan) -> Plan:
    """A part, told what a record costs that comes or goes; without what cannot be told."""
    match part, move:
        case Leaf(), Leaf():
            return _within(part, move)
        case Poisson(rate=rate, of=of, absent=absent), Poisson(of=gone):
            return Poisson(rate, _informed(of, gone), gone if absent is None else _cheaper(absent, gone))
        case WithoutReplacement(), WithoutReplacement():
            return _cheaper(part, move)
        case Repeat(count=count, of=of), Repeat(of=other):
            return Repeat(count, _informed(of, other))
        case Compose(parts=parts), Compose(parts=others) if len(parts) == len(others):
            return Compose(tuple(map(_informed, parts, others)))
        case Parallel(parts=parts, membership=membership, moves=moves), Parallel(parts=others) if len(parts) == len(
            others
        ):
            both = others if moves is None else tuple(map(_cheaper, moves, others))
            return Parallel(tuple(map(_informed, parts, others)), membership, both)
    return NOTHING


def _within(replaced: Leaf, gone: Leaf) -> Plan:
    """A leaf whose pair is reached by some mechanism that costs ``replaced`` to replace a record, ``gone`` to miss it.

    X is the law without the record. Where taking it away costs no less, X may be one of the two. Else they are no
    further apart than by way of X: for Gaussian and Laplace noise X is half way; for two tokens its log-odds are.
    For randomised response X has even chances, within (1 + e^ε)/2 of both. Nothing, where none of this is known.
    """
    if at_least_as_costly(gone, replaced):
        return replaced
    match replaced, gone:
        case Gaussian(noise_multiplier=one), Gaussian(noise_multiplier=other):
            return replaced if one >= 0.5 * other * NEARLY else Gaussian(0.5 * other)
        case Laplace(noise_multiplier=one), Laplace(noise_multiplier=other):
            return replaced if one >= 0.5 * other * NEARLY else Laplace(0.5 * other)
        case Exponential(range=one), Exponential(range=other):
            return replaced if one * NEARLY <= 2.0 * other else Exponential(2.0 * other)
        case ZeroConcentrated(rho=one), ZeroConcentrated(rho=other):
            return replaced if one * NEARLY <= 4.0 * other else ZeroConcentrated(4.0 * other)
        case Pure(epsilon=one), Pure(epsilon=other):
            # ln(2 e^ε − 1), rounded down.
            return Pure(min(one, (other + math.log(2.0 - math.exp(-other))) * NEARLY))
        case Approximate(epsilon=one, delta=d), Approximate(epsilon=other, delta=e):
            return Approximate(min(one, other), min(d, e))
    return NOTHING


def _cheaper(one: Plan, other: Plan) -> Plan:
    """The one that the other covers; nothing, if neither does."""
    return one if covers(other, one) else other if covers(one, other) else NOTHING


def reached_moves(node: Parallel, trees: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """What leaving a part can really cost: no more than its substitution cost, which includes becoming null.

    Of a Poisson sample that says nothing: there ``moves`` is the only statement.
    """
    if trees is node.parts:
        return trees
    return tuple(map(_left, node.parts, trees))


def _left(part: Plan, move: Plan) -> Plan:
    """``move`` as far as it is reached; beside a Poisson sample, mechanism by mechanism."""
    if not any(isinstance(below, Poisson) for below in walk(part)):
        return _cheaper(move, part)
    match part, move:
        case Compose(parts=parts), Compose(parts=others) if len(parts) == len(others):
            return Compose(tuple(map(_left, parts, others)))
        case Repeat(count=count, of=of), Repeat(count=uses, of=other) if count == uses:
            return Repeat(count, _left(of, other))
        case Poisson(rate=1.0, of=of), Poisson(rate=1.0, of=other):
            return _left(of, other)
    return move
