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
from scipy.special import logsumexp

from affidavit.accountant.pld.curve import Array
from affidavit.accountant.pld.gaussian_pair import Pair
from affidavit.accountant.pld.mixture import UNIT, cells

__all__ = ["Common", "Split", "windows"]

Split = tuple[tuple[Pair, Pair], ...]
"""(common, rare) of every pair."""

LN_ODDS = (-16.0, 3.0)
"""Of p's moved part where a window may stand."""
CLOSE = 0.2
TILTS: Array = np.geomspace(0.3, 1e5, 60)


class Common(NamedTuple):
    """δ of the common parts is at most e^{``log_constant`` − ``tilt`` ε} + ``outside``."""

    tilt: float
    log_constant: float
    outside: float

    def delta(self, epsilon: float) -> float:
        """That, at ``epsilon``."""
        return (math.exp(min(self.log_constant - self.tilt * epsilon, 700.0)) + self.outside) * (1.0 + 1e-9)


def windows(
    pairs: tuple[tuple[Pair, int], ...], precision: float, epsilon: float, log_goal: float
) -> tuple[Split, Common] | None:
    """Windows as far out as keeps δ of the common parts at ``epsilon`` below e^``log_goal``, and that δ.

    None where a pair has no rare part, or none stands far enough out. Gaussians whose μ² add up to ``precision`` count.
    """
    found, (low, high) = None, LN_ODDS
    while high - low > CLOSE:
        middle = 0.5 * (low + high)
        split = tuple(cut for pair, _ in pairs if (cut := pair.cut(middle)) is not None)
        if len(split) < len(pairs):
            return None
        parts = tuple((one, count) for (one, _), (_, count) in zip(split, pairs, strict=True))
        common = _common(parts, precision, epsilon, log_goal)
        if common.delta(epsilon) <= math.exp(log_goal):
            low, found = middle, (split, common)
        else:
            high = middle
    return found


def _common(pairs: tuple[tuple[Pair, int], ...], precision: float, epsilon: float, log_goal: float) -> Common:
    """The charge, with the best θ at ``epsilon``."""
    outside = 0.0
    logs = 0.5 * precision * (TILTS**2 + TILTS) + TILTS * np.log(TILTS) - (1.0 + TILTS) * np.log1p(TILTS)
    for pair, count in pairs:
        if pair.window is None:
            return Common(0.0, math.inf, 0.0)
        _, high, log_mass, log_beyond = cells(pair.p, pair.window)
        last = int(np.argmax(log_beyond <= log_goal - math.log(4.0 * len(pairs) * count))) or len(high) - 1
        outside += count * math.exp(float(log_beyond[last]))
        high, log_mass = high[: last + 1], log_mass[: last + 1]
        loss = pair.p.log_ratio(high) - pair.q.log_ratio(high)
        size = float((pair.p.size(high) + pair.q.size(high)).max())
        rounding = 16.0 * UNIT * (len(high) + 64.0 + TILTS * size)
        logs += count * (logsumexp(log_mass[:, None] + np.outer(loss, TILTS), axis=0) + rounding)
    logs += 1e-14 * np.abs(logs)
    best = int(np.argmin(logs - TILTS * epsilon))
    return Common(float(TILTS[best]), float(logs[best]), outside)
