"""The privacy profile of a mechanism of which only ρ-zCDP is known: an upper side.

Theorem. ρ-zCDP (Bun, Steinke 2016) gives, for every α > 1,
    δ(ε) <= e^{(α-1)(αρ-ε)} (1 - 1/α)^α / (α - 1)
(Canonne, Kamath, Steinke 2020, Proposition 12, with Rényi divergence αρ). Any α = 1 + t is safe; the best one has
ε = (1 + 2t)ρ - log(1 + 1/t) (``concentrated``), which rises with t and is solved in floats. In terms of t the bound is
    log δ <= t((1 + t)ρ - ε) - t log(1 + 1/t) - log(1 + t):
four terms, each good to a few units of 2^-53 of itself, as NumPy's log1p is. 2^-40 of the sum of their sizes
is added, and of 1 for the exponential. The lower side of a zCDP leaf is the
Gaussian mechanism of mu² = 2ρ, which is ρ-zCDP (Bun, Steinke 2016, Proposition 1.6).

Relation: the one ρ is stated for. The exponential mechanism of range η is η²/8-zCDP (Cesar, Rogers 2021, Lemma 3.4).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from affidavit.accountant.verifier.adaptive import AdaptiveCurve
from affidavit.accountant.verifier.balls import Array
from affidavit.accountant.verifier.exponential_use import FLOOR, LIBM, Lines

__all__ = ["LOG_T", "best_at", "zcdp_curve", "zcdp_delta", "zcdp_top"]

POINTS = 1_500
LOG_T = np.linspace(-45.0, 60.0, 4_201)
"""Where the best log t is looked for; between two of them by a straight line and one of Newton's steps."""

FARTHEST = 1e30
"""Exponents need be no larger."""


def zcdp_top(rho: float, delta: float) -> float:
    """An ε at which a ρ-zCDP mechanism has at most δ (Bun, Steinke 2016, Proposition 1.3), rounded up a little."""
    return (rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + 1e-12)


def best_at(rho: float, t: Array) -> Array:
    """The ε for which t is best."""
    found: Array = (1.0 + 2.0 * t) * rho - np.log1p(1.0 / t)
    return found


@np.errstate(over="ignore", invalid="ignore")
def _converted(rho: Fraction, epsilon: Array) -> Array:
    """An upper side of δ at each ε >= 0."""
    size, grid = float(rho), np.exp(LOG_T)
    t = np.exp(np.interp(epsilon, best_at(size, grid), LOG_T))
    step = (epsilon - best_at(size, t)) / (2.0 * t * size + 1.0 / (1.0 + t))
    t = np.minimum(t * np.exp(np.clip(step, -0.1, 0.1)), FARTHEST / np.maximum(epsilon, 1.0))
    terms = np.array([t * (1.0 + t) * size, -t * epsilon, -t * np.log1p(1.0 / t), -np.log1p(t)])
    sizes = 1.0 + np.abs(terms).sum(axis=0)
    bounds: Array = np.exp(np.fmin(terms.sum(axis=0) + LIBM * sizes, 0.0)) + FLOOR
    return bounds


def zcdp_delta(rho: Fraction, epsilon: float) -> float:
    """An upper side of δ at ``epsilon`` >= 0."""
    return float(min(1.0, _converted(rho, np.array([epsilon]))[0])) if rho else 0.0


def zcdp_curve(rho: Fraction, top: float) -> AdaptiveCurve:
    """The curve on ε = 0 .. top; its lower side is empty."""
    step = top / POINTS
    values = np.minimum(_converted(rho, np.arange(POINTS + 1, dtype=np.float64) * step), 1.0)
    zeros = np.zeros(POINTS + 1)
    return AdaptiveCurve(step, np.minimum.accumulate(values), Lines(zeros, zeros))
