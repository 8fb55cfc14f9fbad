"""The privacy profile of a mechanism of which only ρ-zCDP is known: an upper side.

Theorem. ρ-zCDP (Bun, Steinke 2016) gives, for every α > 1,
    δ(ε) <= e^{(α-1)(αρ-ε)} (1 - 1/α)^α / (α - 1)
(Canonne, Kamath, Steinke 2020, Proposition 12, with Rényi divergence αρ). Any α is safe; a float search finds
a good one and the bound is then evaluated at it in balls. The lower side of a zCDP leaf is the
Gaussian mechanism of mu² = 2ρ, which is ρ-zCDP (Bun, Steinke 2016, Proposition 1.6).

Relation: the one ρ is stated for. The exponential mechanism of range η is η²/8-zCDP (Cesar, Rogers 2021, Lemma 3.4).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from affidavit.accountant.verifier.adaptive import AdaptiveCurve
from affidavit.accountant.verifier.balls import ball, precision, up
from affidavit.accountant.verifier.exponential_use import Lines

__all__ = ["log_excess", "zcdp_curve", "zcdp_delta", "zcdp_top"]

POINTS, TINY = 1_500, 1e-300


def log_excess(rho: float, loss: float) -> float:
    """log t of about the best order 1 + t, where (1 + 2t)ρ - log(1 + 1/t) is ε (``concentrated``).

    By Newton's steps in a bracket, in floats (search only).
    """
    rho = max(rho, TINY)
    low, high = min(loss - 3.0 * rho, 0.0) - 1.0, 1.0 - 0.5 * math.log(rho)
    high = max(high, 1.0 + math.log(max(abs(loss), rho)) - math.log(rho))
    u = high
    for _ in range(80):
        t = math.exp(min(u, 700.0))
        value = rho + 2.0 * rho * t - (math.log1p(1.0 / t) if t > 0.0 else -u) - loss
        low, high = (u, high) if value < 0.0 else (low, u)
        moved = u - value / (2.0 * rho * t + 1.0 / (1.0 + t))
        moved = moved if low < moved < high else (low + high) / 2
        if abs(moved - u) <= 1e-14 * (1.0 + abs(u)):
            return moved
        u = moved
    return u


def zcdp_top(rho: float, delta: float) -> float:
    """An ε at which a ρ-zCDP mechanism has at most δ (Bun, Steinke 2016, Proposition 1.3), rounded up a little."""
    return (rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + 1e-12)


def zcdp_delta(rho: Fraction, epsilon: Fraction | float) -> float:
    """An upper side of δ at ``epsilon`` >= 0: the conversion at one order, rounded up."""
    if not rho:
        return 0.0
    excess = math.exp(min(log_excess(float(rho), float(epsilon)), 700.0))
    with precision():
        t = ball(excess)
        if not t > 0:
            return 1.0
        order = 1 + t
        return min(1.0, up((t * (order * ball(rho) - ball(epsilon)) - order * (1 / t).log1p()).exp() / t))


def zcdp_curve(rho: Fraction, top: float) -> AdaptiveCurve:
    """The curve on ε = 0 .. top; its lower side is empty."""
    step = Fraction(top) / POINTS
    values = np.array([zcdp_delta(rho, i * step) for i in range(POINTS + 1)])
    zeros = np.zeros(POINTS + 1)
    return AdaptiveCurve(float(step), np.minimum.accumulate(values), Lines(zeros, zeros))
