"""Adaptive exponential mechanisms, lower side: an explicit strategy, played forward.

A strategy says, for every number of uses left and every likelihood ratio so far, which two-point
factor {e^t, e^{t−η}} comes next. It is found by backward search over t on a grid of multiples of
the spacing, and then *played*: the P-mass of the log-likelihood ratio is pushed forward step by step.
The result is the privacy loss of a real mechanism (two tokens and suitable logits at each step), so
its δ(ε) is below the plan's whatever the search did; the search only makes it close.

P gives loss t the probability p = (E − e^t)/(E − 1), E = e^η, and loss t − η the rest (mean 1 of the
factor under Q). A range that is not a multiple of the spacing is rounded down: still a strategy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.recompute.atoms import AtomicLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["strategy_law"]

_UNIT = 2.0**-53


def strategy_law(
    ranges: Sequence[tuple[float, int]], *, epsilon: float, spacing: float, left: float, right: float
) -> AtomicLaw:
    """The loss of a strategy that aims at ``epsilon``, for ``ranges`` = (η, uses) in execution order.

    Mass that leaves the search window [``left``, ``right``] of log m plays on with t = η/2.
    """
    first = math.floor(left / spacing)
    nodes = math.ceil(right / spacing) + 1 - first
    uses = [
        cells
        for eta, count in ranges
        if (cells := math.floor(eta / spacing + 1e-9)) > 0
        for _ in range(count)
    ]
    choices = _search(uses, spacing, first, nodes)
    return _play(uses, choices, spacing, round(-epsilon / spacing), first)


def _weights(cells: int, spacing: float) -> Array:
    """P(loss = t) for t = 0, h, …, η."""
    eta = cells * spacing
    return np.expm1(eta - spacing * np.arange(cells + 1)) * np.exp(spacing * np.arange(cells + 1)) / math.expm1(eta)


def _search(uses: list[int], spacing: float, first: int, nodes: int) -> list[NDArray[np.int32]]:
    x = spacing * (first + np.arange(nodes))
    ratio = np.maximum(0.0, -np.expm1(-x))
    result: list[NDArray[np.int32]] = []
    for cells in reversed(uses):
        up = _weights(cells, spacing)
        # The ratio V/m is bounded by 0 on the left and continued by 1 − 1/m on the right.
        beyond = np.maximum(0.0, -np.expm1(-(x[-1] + spacing * np.arange(1, cells + 1))))
        padded = np.concatenate((np.zeros(cells), ratio, beyond))
        best = np.full(nodes, -1.0)
        choice = np.zeros(nodes, dtype=np.int32)
        for t in range(cells + 1):
            high = padded[cells + t : cells + t + nodes]
            low = padded[t : t + nodes]
            value = up[t] * high + (1.0 - up[t]) * low
            better = value > best
            best = np.where(better, value, best)
            choice[better] = t
        ratio = best
        result.append(choice)
    result.reverse()
    return result


def _play(
    uses: list[int], choices: list[NDArray[np.int32]], spacing: float, start: int, first: int
) -> AtomicLaw:
    """Push the P-mass forward from log m = ``start`` · h; the loss is what it gained."""
    total = sum(uses)
    mass = np.zeros(2 * total + 1)  # index: steps gained + total
    mass[total] = 1.0
    low = high = total
    for cells, choice in zip(uses, choices, strict=True):
        position = np.arange(low, high + 1)
        where = position - total + start - first
        inside = (where >= 0) & (where < len(choice))
        t = np.where(inside, choice[np.clip(where, 0, len(choice) - 1)], cells // 2)
        up = _weights(cells, spacing)[t]
        current = mass[low : high + 1]
        gained = np.bincount(t + position, current * up, minlength=len(mass))
        gained += np.bincount(t + position - cells, current * (1.0 - up), minlength=len(mass))
        mass = gained
        low, high = max(0, low - cells), min(2 * total, high + cells)
    kept = np.nonzero(mass)[0]
    return AtomicLaw(spacing * (kept - total), mass[kept], 0.0, 16.0 * _UNIT * (len(uses) + 1))
