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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.recompute.atoms import AtomicLaw

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Strategy", "find_strategy"]

_UNIT = 2.0**-53


@dataclass(frozen=True, slots=True)
class Strategy:
    """Choices of t (in cells) by use and node, and the δ they reach: ``ratio`` at ε = −``x``."""

    x: Array
    spacing: float
    ratio: Array
    uses: tuple[int, ...]
    choices: tuple[NDArray[np.int32], ...]

    def played(self, epsilon: float) -> AtomicLaw:
        """The loss of the strategy started at the node nearest to ``epsilon``.

        Mass that leaves the nodes plays on with t = η/2.
        """
        first = round(float(self.x[0]) / self.spacing)
        return _play(self.uses, self.choices, self.spacing, round(-epsilon / self.spacing), first)


def find_strategy(
    ranges: Sequence[tuple[float, int]], *, spacing: float, x: Array, terminal: Array | None = None
) -> Strategy:
    """Backward search on the nodes ``x`` for ``ranges`` = (η, uses) in the order of execution.

    ``terminal``: a lower bound of V_0/m at the nodes if other mechanisms run afterwards. ``ratio`` is
    then a lower bound of the adversary's value, too: 0 is used left of the nodes, 1 − 1/m right of them.
    """
    uses = tuple(
        cells for eta, count in ranges if (cells := math.floor(eta / spacing + 1e-9)) > 0 for _ in range(count)
    )
    ratio = np.maximum(0.0, -np.expm1(-x)) if terminal is None else terminal
    choices: list[NDArray[np.int32]] = []
    for cells in reversed(uses):
        ratio, choice = _best_choice(ratio, x, cells, spacing)
        choices.append(choice)
    choices.reverse()
    return Strategy(x, spacing, ratio * (1.0 - 16.0 * _UNIT * (len(uses) + 1)), uses, tuple(choices))


def _best_choice(ratio: Array, x: Array, cells: int, spacing: float) -> tuple[Array, NDArray[np.int32]]:
    nodes = len(x)
    up = _weights(cells, spacing)
    beyond = np.maximum(0.0, -np.expm1(-(x[-1] + spacing * np.arange(1, cells + 1))))
    padded = np.concatenate((np.zeros(cells), ratio, beyond))
    best = np.full(nodes, -1.0)
    choice = np.zeros(nodes, dtype=np.int32)
    for t in range(cells + 1):
        value = up[t] * padded[cells + t : cells + t + nodes] + (1.0 - up[t]) * padded[t : t + nodes]
        better = value > best
        np.copyto(best, value, where=better)
        choice[better] = t
    return best, choice


def _weights(cells: int, spacing: float) -> Array:
    """P(loss = t) for t = 0, h, …, η."""
    eta = cells * spacing
    t = spacing * np.arange(cells + 1, dtype=np.float64)
    result: Array = np.expm1(eta - t) * np.exp(t) / math.expm1(eta)
    return result


def _play(
    uses: Sequence[int], choices: Sequence[NDArray[np.int32]], spacing: float, start: int, first: int
) -> AtomicLaw:
    """Push the P-mass forward from log m = ``start`` · h; the loss is what it gained."""
    total = sum(uses)
    mass: Array = np.zeros(2 * total + 1)  # index: steps gained + total
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
        mass = gained.astype(np.float64, copy=False)
        low, high = max(0, low - cells), min(2 * total, high + cells)
    kept = np.nonzero(mass)[0]
    return AtomicLaw(spacing * (kept - total).astype(np.float64), mass[kept], 0.0, 16.0 * _UNIT * (len(uses) + 1))
