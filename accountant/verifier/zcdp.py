"""The privacy profile of what only moments are known of: ρ-zCDP, and exponential mechanisms. An upper side.

Theorem. Let E_P e^{tL} <= e^{B(t)} for some t > 0, L the privacy loss. Then
    δ(ε) <= e^{B(t) - tε} t^t / (1 + t)^{1+t}
(Canonne, Kamath, Steinke 2020, Proposition 12, with α = 1 + t). Any t is safe; the best one has
B'(t) - log(1 + 1/t) = ε, which is solved in floats. Moments of one use, whatever came before, multiply: the B add up.

- ρ-zCDP (Bun, Steinke 2016): B = t(1 + t)ρ.
- Exponential mechanisms of range η, E = e^η: the worst use has a likelihood ratio u with Q-mass (E/u - 1)/(E - 1), or
  u/E (``adaptive``), so e^B is the largest value of u^t (A - C u)/(E - 1) over u, A = E - E^{-t}, C = 1 - E^{-t}. It is
  at u = tA/((1 + t)C), which is in [1, E] (x^{1+t} >= 1 + (1 + t)(x - 1) for x = E and 1/E), and
      e^B = (tA/((1 + t)C))^t A / ((1 + t)(E - 1)).
  It is at most t(1 + t)η²/8 (Cesar, Rogers 2021, Lemma 3.4), which is taken where rounding is more.

All are sums of terms, each good to a few units of 2^-53 of itself and of its factors, as NumPy's log1p and expm1 are.
2^-40 of the sum of their sizes is added, and of 1 for the exponential. The lower side of a zCDP leaf is the Gaussian
mechanism of mu² = 2ρ, which is ρ-zCDP (Bun, Steinke 2016, Proposition 1.6).

Relation: the one ρ or η is stated for.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from affidavit.accountant.verifier.adaptive import AdaptiveCurve
from affidavit.accountant.verifier.balls import Array
from affidavit.accountant.verifier.cases import Steps
from affidavit.accountant.verifier.exponential_use import Lines
from affidavit.accountant.verifier.rounding import FLOOR, LIBM

__all__ = ["LOG_T", "best_at", "zcdp_curve", "zcdp_delta", "zcdp_top"]

FEWEST, MOST, WIDEST = 2_999, 15_000, 0.1
"""Points of a curve, and how far they are apart at most, if that is no more."""
LOG_T = np.linspace(-45.0, 60.0, 4_201)
"""Where the best log t is looked for; between two of them by a straight line and one of Newton's steps."""

FARTHEST = 1e30
"""Exponents need be no larger."""


def zcdp_top(rho: float, delta: float) -> float:
    """An ε at which a ρ-zCDP mechanism has at most δ (Bun, Steinke 2016, Proposition 1.3), rounded up a little."""
    return (rho + 2 * math.sqrt(rho * -math.log(delta))) * (1 + 1e-12)


def best_at(rho: float, t: Array, steps: Steps = ()) -> Array:
    """The ε for which t is best."""
    found: Array = (1.0 + 2.0 * t) * rho - np.log1p(1.0 / t)
    for spread, count in steps:
        eta = float(spread)
        whole, part, _ = _logs(eta, t)
        rest = np.exp(-t * eta) * (t * np.exp(-part) - (1.0 + t) * np.exp(-eta - whole))
        found = found + count * (eta - np.log1p(1.0 / t) + whole - part - eta * rest)
    return found


def _logs(eta: float, t: Array) -> tuple[Array, Array, float]:
    """log of A/E, of C, and of 1 - 1/E."""
    whole, part, one = (np.log(-np.expm1(-power * eta)) for power in (1.0 + t, t, 1.0))
    return whole, part, float(one)


def _moment(eta: float, t: Array) -> Array:
    """At least B of one exponential mechanism."""
    whole, part, one = _logs(eta, t)
    terms = [-t * np.log1p(1.0 / t), t * eta, t * whole, -t * part, whole, -np.log1p(t), np.full_like(t, -one)]
    sizes = 1.0 + t + np.abs(terms).sum(axis=0)
    found: Array = np.fmin(np.sum(terms, axis=0) + LIBM * sizes, t * (1.0 + t) * eta**2 / 8.0 * (1.0 + LIBM))
    return found


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _converted(rho: Fraction, epsilon: Array, steps: Steps = ()) -> Array:
    """An upper side of δ at each ε >= 0."""
    size, grid = float(rho), np.exp(LOG_T)
    best = best_at(size, grid, steps)
    if steps:  # rounding may have put two in the wrong order
        best = np.maximum.accumulate(np.nan_to_num(best, nan=-math.inf))
    log_t = np.interp(epsilon, best, LOG_T)
    t = np.exp(log_t)
    rise = (2.0 * t * size + 1.0 / (1.0 + t)) if not steps else np.interp(log_t, LOG_T, np.gradient(best, LOG_T))
    t = t * np.exp(np.clip(np.nan_to_num((epsilon - best_at(size, t, steps)) / rise), -0.1, 0.1))
    t = np.minimum(t, FARTHEST / np.maximum(epsilon, 1.0))
    terms = [t * (1.0 + t) * size, -t * epsilon, -t * np.log1p(1.0 / t), -np.log1p(t)]
    terms += [count * _moment(float(spread), t) for spread, count in steps]
    sizes = 1.0 + np.abs(terms).sum(axis=0)
    bounds: Array = np.exp(np.fmin(np.sum(terms, axis=0) + LIBM * sizes, 0.0)) + FLOOR
    return bounds


def zcdp_delta(rho: Fraction, epsilon: float) -> float:
    """An upper side of δ at ``epsilon`` >= 0."""
    return float(min(1.0, _converted(rho, np.array([epsilon]))[0])) if rho else 0.0


def zcdp_curve(rho: Fraction, top: float, steps: Steps = ()) -> AdaptiveCurve:
    """The curve of ρ-zCDP and exponential mechanisms together on ε = 0 .. top; its lower side is empty."""
    points = math.ceil(min(max(top / WIDEST, FEWEST), MOST))
    step = top / points
    values = np.minimum(_converted(rho, np.arange(points + 1, dtype=np.float64) * step, steps), 1.0)
    zeros = np.zeros(points + 1)
    return AdaptiveCurve(step, np.minimum.accumulate(values), Lines(zeros, zeros))
