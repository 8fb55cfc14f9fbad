r"""Where a window may stand that cuts each use into a common and a rare part (``contour``), and what is charged for it.

Let A be the product of the common parts w p, a measure below P. Its δ is at most A(L > ε), and for any ends e_i

    A(L > ε) <= c(θ) e^{−θε} Π_i ∫_{x <= e_i} e^{θL} w p dx + Σ_i n_i w(e_i) P(x > e_i),   c(θ) = θ^θ/(1+θ)^{1+θ}:

Chernoff's bound (with the constant that 1 − e^{ε−l} allows, as it is δ that counts) of what stays before the ends, and
a union of what does not. Each integral is at most a sum over cells, of P's mass in the cell with w at its low and L at
its high end: w falls and L rises towards the moved part of p. Nothing here needs to be sharp: both terms are kept below
what the contour integral may miss.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from affidavit.accountant.pld.curve import Array
from affidavit.accountant.pld.gaussian_pair import WIDTH, Pair
from affidavit.accountant.pld.mixture import Cells, Window, cells
from affidavit.accountant.rounding import UNIT

__all__ = ["Common", "Pairs", "common_part", "log_beyond"]

Pairs = tuple[tuple[Pair, int], ...]
"""With counts."""

LN_ODDS = (-18.0, 3.0)
"""Of p's moved part where a window may stand."""
CLOSE = 0.2
FURTHEST = 40.0
"""How far beyond a window cells go, in widths."""
TILTS: Array = np.geomspace(0.3, 1e6, 60)


class Common(NamedTuple):
    """δ of the common parts is at most e^{``log_constant`` − ``tilt`` ε} + ``outside``."""

    tilt: float
    log_constant: float
    outside: float

    def delta(self, epsilon: float) -> float:
        """That, at ``epsilon``."""
        return (math.exp(min(self.log_constant - self.tilt * epsilon, 700.0)) + self.outside) * (1.0 + 1e-9)


def common_part(pairs: Pairs, precision: float, epsilon: float, log_goal: float) -> tuple[float, Common] | None:
    """The window (ln odds) as far out as keeps δ of the common parts at ``epsilon`` below e^``log_goal``; that δ.

    None where none stands far enough out. Gaussians whose μ² add up to ``precision`` count.
    """
    found, (low, high) = None, LN_ODDS
    while high - low > CLOSE:
        middle = 0.5 * (low + high)
        windows = [(pair, pair.between(None, middle), count) for pair, count in pairs]
        here = _charge(windows, precision, epsilon, log_goal)
        if here.delta(epsilon) <= math.exp(log_goal):
            low, found = middle, (middle, here)
        else:
            high = middle
    return found


def log_beyond(pairs: Pairs, odds: float) -> float:
    """ln of a bound of P's mass, of all uses, on rare parts beyond a window."""
    logs = []
    for pair, count in pairs:
        window = pair.between(odds, None)
        found = _cells(pair, window.low or 0.0)
        logs += [math.log(count) + float(np.logaddexp.reduce(found.log_mass + window.log_share(found.high)))]
        logs += [math.log(count) + float(found.log_beyond[-1])]
    return float(np.logaddexp.reduce(logs))


def _cells(pair: Pair, at: float) -> Cells:
    """As far as they matter to a window that ends at ``at``."""
    return cells(pair.p, max(math.copysign(1.0, pair.p.mean) * at, 0.0) + FURTHEST * abs(WIDTH / pair.p.mean))


def _charge(pairs: list[tuple[Pair, Window, int]], precision: float, epsilon: float, log_goal: float) -> Common:
    """With the best θ at ``epsilon``."""
    outside = 0.0
    logs = 0.5 * precision * (TILTS**2 + TILTS) + TILTS * np.log(TILTS) - (1.0 + TILTS) * np.log1p(TILTS)
    for pair, window, count in pairs:
        low, high, log_mass, log_tail = _cells(pair, window.high or 0.0)
        allowed = log_goal - math.log(4.0 * len(pairs) * count)
        log_left = window.log_share(high) + log_tail
        last = int(np.argmax(log_left <= allowed)) or len(high) - 1
        outside += count * math.exp(float(log_left[last]))
        high = high[: last + 1]
        log_mass = log_mass[: last + 1] + np.concatenate(([0.0], window.log_share(low[1 : last + 1])))
        loss = pair.p.log_ratio(high) - pair.q.log_ratio(high)
        size = float((pair.p.size(high) + pair.q.size(high)).max())
        rounding = 16.0 * UNIT * (len(high) + 64.0 + TILTS * size)
        logs += count * (np.logaddexp.reduce(log_mass[:, None] + np.outer(loss, TILTS)) + rounding)
    logs += 1e-14 * np.abs(logs)
    best = int(np.argmin(logs - TILTS * epsilon))
    return Common(float(TILTS[best]), float(logs[best]), outside)
