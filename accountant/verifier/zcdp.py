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
from affidavit.accountant.verifier.balls import Array, Ball, ball, precision, up
from affidavit.accountant.verifier.exponential_use import Lines

__all__ = ["zcdp_curve", "zcdp_delta", "zcdp_top"]

POINTS = 1_500


def _log_bound(excess: Array, rho: float, epsilon: Array) -> Array:
    """log δ at α = 1 + excess, in floats (search only)."""
    order = 1 + excess
    return excess * (order * rho - epsilon) + order * np.log(excess / order) - np.log(excess)


def _orders(rho: float, epsilon: Array) -> Array:
    """Good orders for each ε, by golden section on log(α - 1)."""
    low, high = np.full_like(epsilon, -40.0), np.full_like(epsilon, 60.0)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(90):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        worse = _log_bound(np.exp(left), rho, epsilon) > _log_bound(np.exp(right), rho, epsilon)
        low, high = np.where(worse, left, low), np.where(worse, high, right)
    return 1 + np.exp((low + high) / 2)


def zcdp_top(rho: float, delta: float) -> float:
    """An ε at which a ρ-zCDP mechanism has at most δ (Bun, Steinke 2016, Proposition 1.3), rounded up a little."""
    return (rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + 1e-12)


def zcdp_delta(rho: Fraction, epsilon: float) -> float:
    """An upper side of δ at ``epsilon`` >= 0."""
    order = float(_orders(float(rho), np.array([epsilon]))[0])
    return min(1.0, _converted(rho, ball(epsilon), order)) if rho else 0.0


def _converted(rho: Fraction, epsilon: Ball, order: float) -> float:
    """The conversion at one order, rounded up; 1 at an order that is none."""
    with precision():
        a = ball(order)
        if not a > 1:
            return 1.0
        return up(((a - 1) * (a * ball(rho) - epsilon) + a * (1 - 1 / a).log()).exp() / (a - 1))


def zcdp_curve(rho: Fraction, top: float) -> AdaptiveCurve:
    """The curve on ε = 0 .. top; its lower side is empty."""
    step = Fraction(top) / POINTS
    epsilons = [i * step for i in range(POINTS + 1)]
    orders = _orders(float(rho), np.array([float(epsilon) for epsilon in epsilons]))
    values = [min(1.0, _converted(rho, ball(e), float(order))) for e, order in zip(epsilons, orders, strict=True)]
    zeros = np.zeros(POINTS + 1)
    return AdaptiveCurve(float(step), np.minimum.accumulate(np.array(values)), Lines(zeros, zeros))
