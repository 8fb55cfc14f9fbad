r"""Rényi divergences of sampled mechanisms: exact for the Gaussian, bounds for anything.

The Poisson-sampled Gaussian's moment of order α is E_Q[(1 + q u)^α], u = e^{(2x−1)/(2σ²)} − 1, E_Q u = 0, so its
excess over 1 is the mean of (1 + qu)^α − 1 − αqu >= 0 (Bernoulli): a sum of positive terms at every real α, where
the alternating series of fractional orders cancels. The integrand is analytic for |Im x| < πσ², and
the trapezoid rule with step h errs by about e^{−2π²σ²/h}; h <= σ²/2 makes that e^{−39}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from affidavit.accountant.rounding import POWER, QUADRATURE, STATED

__all__ = ["MAX_ORDER", "between_whole_orders", "fixed_size_any", "jointly_convex", "poisson_any", "poisson_gaussian"]

MAX_ORDER = 1024
"""Largest whole order for which the sums over whole orders are taken."""
MAX_NODES = 400_000


def poisson_gaussian(order: float, *, sigma: float, rate: float) -> float:
    """ρ(α) of one use; +inf where the order is too large to integrate (ρ on the sample is then the bound).

    The larger of the two directions is (mixture, Q): Mironov, Talwar, Zhang 2019, theorem 5.
    """
    step = min(sigma / 8.0, 0.5 * sigma * sigma)
    bottom, top = -14.0 * sigma, order + 14.0 * sigma
    if not (top - bottom) / step < MAX_NODES:
        return math.inf
    x = np.arange(bottom, top + step, step)
    y = (2.0 * x - 1.0) / (2.0 * sigma * sigma)
    with np.errstate(over="ignore"):
        scaled = rate * np.expm1(np.minimum(y, 700.0))
    # ln(1 + qu), and y + ln q where e^y leaves float64.
    log_ratio = np.where(y < 700.0, np.log1p(np.minimum(scaled, 1e300)), y + math.log(rate))
    small = np.abs(scaled) < 1e-2 / max(order, 1.0)
    series = np.zeros_like(x)
    coefficient, power = order, np.ones_like(x)
    for k in range(2, 10):
        coefficient *= (order - k + 1.0) / k
        power = power * np.where(small, scaled, 0.0)
        series += coefficient * power
    series *= np.where(small, scaled, 0.0)
    exponent = order * log_ratio
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        direct = np.expm1(np.minimum(exponent, 600.0)) - order * np.minimum(scaled, 1e280)
        excess = np.where(small, series, direct)
        log_excess = np.where(exponent > 500.0, exponent, np.log(np.maximum(excess, 0.0)))
    log_density = -0.5 * (x / sigma) ** 2 - math.log(sigma * math.sqrt(2.0 * math.pi))
    terms = log_density + log_excess
    peak = float(terms.max())
    if peak == -math.inf:
        return 0.0
    log_total = peak + math.log(float(np.exp(terms - peak).sum()) * step) + QUADRATURE
    return float(np.logaddexp(0.0, log_total)) / (order - 1.0)


def _log_binomial(n: int, k: int) -> float:
    return math.lgamma(n + 1.0) - math.lgamma(k + 1.0) - math.lgamma(n - k + 1.0)


def poisson_any(inner: Callable[[float], float], *, rate: float) -> Callable[[int], float]:
    """(α−1) ρ(α) at whole α >= 2 of Poisson sampling, both directions: Zhu, Wang 2019, theorem 5.

    ln [(1−γ)^{α−1}(αγ − γ + 1) + C(α,2) γ²(1−γ)^{α−2} e^{ρ(2)} + 3 Σ_{l>=3} C(α,l) (1−γ)^{α−l} γ^l e^{(l−1)ρ(l)}]
    """
    kept, rest = math.log(rate), math.log1p(-rate)
    at = cache(inner)

    @cache
    def whole(order: int) -> float:
        terms = [(order - 1) * rest + math.log1p((order - 1) * rate)]
        terms.append(_log_binomial(order, 2) + 2 * kept + (order - 2) * rest + at(2.0))
        terms.extend(
            math.log(3.0) + _log_binomial(order, k) + (order - k) * rest + k * kept + (k - 1) * at(float(k))
            for k in range(3, order + 1)
        )
        return float(np.logaddexp.reduce(terms)) * (1.0 + POWER) + STATED * order

    return whole


def fixed_size_any(inner: Callable[[float], float], *, rate: float) -> Callable[[int], float]:
    """(α−1) ρ(α) at whole α >= 2 without replacement, substitution: Wang, Balle, Kasiviswanathan 2019, theorem 9.

    ln [1 + γ² C(α,2) min(4(e^{ρ(2)} − 1), e^{ρ(2)} min(2, (e^{ρ(∞)} − 1)²))
          + Σ_{j>=3} γ^j C(α,j) e^{(j−1)ρ(j)} min(2, (e^{ρ(∞)} − 1)^j)]
    """
    kept = math.log(rate)
    at = cache(inner)
    limit = inner(1e300)
    # ln(e^{ρ(∞)} − 1), +inf without a pure guarantee.
    log_limit = math.log(math.expm1(limit)) if 0.0 < limit < 700.0 else (limit if limit >= 700.0 else -math.inf)

    def capped(power: int) -> float:
        return min(math.log(2.0), power * log_limit)

    @cache
    def whole(order: int) -> float:
        second = at(2.0)
        if second <= 0.0:
            return 0.0
        first = math.log(4.0) + (math.log(math.expm1(second)) if second < 30.0 else second)
        terms = [2 * kept + _log_binomial(order, 2) + min(first, second + capped(2))]
        terms.extend(
            k * kept + _log_binomial(order, k) + (k - 1) * at(float(k)) + capped(k) for k in range(3, order + 1)
        )
        return float(np.logaddexp.reduce([0.0, *terms])) * (1.0 + POWER)

    return whole


def jointly_convex(inner: Callable[[float], float], *, rate: float) -> Callable[[float], float]:
    """ρ(α) of any sample, no sharper than (α−1) ρ(α) <= ln(1 − γ + γ e^{(α−1)ρ}), which ``inner`` is at least."""

    def curve(order: float) -> float:
        whole, over = inner(order), order - 1.0
        if over * whole < 30.0:
            return min(whole, math.log1p(rate * math.expm1(over * whole)) / over * (1.0 + POWER))
        return min(whole, (over * whole + math.log(rate + (1.0 - rate) * math.exp(-30.0))) / over + POWER * whole)

    return curve


def between_whole_orders(whole: Callable[[int], float], order: float) -> float:
    """ρ at a real order from (α−1) ρ at whole ones, by its convexity; +inf beyond ``MAX_ORDER``.

    (α−1) ρ(α) = ln E_Q e^{αL} is convex in α and 0 at α = 1.
    """
    if order > MAX_ORDER:
        return math.inf
    below = math.floor(order)
    if below == order:
        return whole(below) / (order - 1.0) if below >= 2 else math.inf
    low = whole(below) if below >= 2 else 0.0
    high = whole(below + 1)
    return (low + (order - below) * (high - low)) / (order - 1.0)
