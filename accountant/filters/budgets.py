"""What an account of (ε, δ) holds in its filter's own unit, from below; and which filters there are.

Conversions, each at one order or curve that is fixed when the account opens:

- Rényi divergence ρ of order α gives (ε, δ) for ε = ρ + ln(1 − 1/α) − (ln δ + ln α)/(α − 1) (Canonne, Kamath,
  Steinke 2020, proposition 12), so an account holds ρ = ε − ln(1 − 1/α) + (ln δ + ln α)/(α − 1);
- ρ-zCDP is divergence αρ at every α: the α that holds most;
- μ-GDP gives δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2) (Dong, Roth, Su 2022, corollary 2.13).

One order, not "some order that still fits": which order fits at the end depends on what was released, and the
conversion is a theorem for an order fixed beforehand. Smaller orders are bounded with it (Rényi divergence does not
fall as the order rises); larger ones are not needed for (ε, δ).
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from affidavit.accountant import decimals
from affidavit.accountant.errors import NotSupported, PlanError
from affidavit.accountant.filters.costs import ORDERS

__all__ = ["FILTERS", "INVALID", "Holding", "checked_filter", "holding", "holding_at"]

FILTERS = ("basic", "renyi", "zcdp", "gdp")

INVALID = ("pld", "fdp", "f-dp", "tradeoff", "prv", "plrv")
"""Filters that are asked for, and do not hold."""

Holding = tuple[Decimal | None, Decimal]
"""The order of a Rényi filter, and the budget in the filter's unit (ρ, ρ, μ²)."""


def checked_filter(name: str) -> str:
    """The name as it is. Raises ``NotSupported`` with the reason for one that does not hold, or is not known."""
    if name in FILTERS:
        return name
    if str(name).casefold() in INVALID:
        raise NotSupported(
            f"there is no valid filter {name!r}: stopping when the composed curve of mechanisms that were chosen "
            "adaptively reaches a limit does not keep that limit (arXiv 2602.06756)",
            hint="Use `--filter renyi`, or `--filter gdp` for Gaussian mechanisms only.",
        )
    raise NotSupported(f"the filter {str(name)[:20]!r} is not known", hint="Use `--filter basic`, or renyi, zcdp, gdp.")


def holding(name: str, *, epsilon: Decimal, delta: Decimal, order: Decimal | None = None) -> Holding | None:
    """What an account holds; None for basic, which holds ε and δ themselves.

    ``order``: of a Rényi filter, one of ``ORDERS``; by default the one that holds most Gaussian runs.
    Raises ``NotSupported`` for a budget that the filter cannot keep, ``PlanError`` for an order that is not stored.
    """
    if order is not None and name != "renyi":
        raise PlanError(
            "order", f"a {name} filter has none", allowed="an order for the renyi filter", hint="Use `--filter renyi`."
        )
    if order is not None and order not in ORDERS:
        raise PlanError("--order", f"{order} is not a stored order", allowed="8", hint="For example `--order 8`.")
    if name == "basic":
        return None
    if delta <= 0 or delta >= 1 or epsilon <= 0:
        raise NotSupported(
            f"a {name} filter keeps (ε, δ) only with ε > 0 and δ between 0 and 1", hint="Use `--filter basic`."
        )
    if name == "gdp":
        return None, _gaussian(epsilon, delta)
    if name == "zcdp":
        best = _best_order(epsilon, delta)
        rho = holding_at(best, epsilon=epsilon, delta=delta) / best
        return None, _positive(decimals.round_down(Fraction(rho)), name)
    chosen = order or max(
        ORDERS, key=lambda one: holding_at(Fraction(one), epsilon=epsilon, delta=delta) / Fraction(one)
    )
    found = holding_at(Fraction(chosen), epsilon=epsilon, delta=delta)
    return chosen, _positive(decimals.round_down(found), f"{name} filter of order {chosen}")


def holding_at(order: Fraction, *, epsilon: Decimal, delta: Decimal) -> Fraction:
    """The Rényi divergence of this order that (ε, δ) holds, from below; negative where it holds none."""
    from affidavit.accountant.verifier.balls import ball, down, precision

    with precision():
        a = ball(order)
        rho = ball(Fraction(epsilon)) - (1 - 1 / a).log() + (ball(Fraction(delta)).log() + a.log()) / (a - 1)
        return Fraction(down(rho))


def _positive(budget: Decimal, name: str) -> Decimal:
    if budget <= 0:
        raise NotSupported(
            f"a {name} holds nothing for this (ε, δ)", hint="Use `--filter basic`; a larger ε would do, too."
        )
    return budget


def _best_order(epsilon: Decimal, delta: Decimal) -> Fraction:
    """Where ρ(α)/α is largest: found in floats, any α is safe."""
    e, log_delta = float(epsilon), float(delta.ln())

    def held(log_over: float) -> float:
        order = 1.0 + math.exp(log_over)
        return (e - math.log1p(-1.0 / order) + (log_delta + math.log(order)) / (order - 1.0)) / order

    grid = [-6.0 + 0.01 * i for i in range(2200)]
    return 1 + Fraction(math.exp(max(grid, key=held)))


def _gaussian(epsilon: Decimal, delta: Decimal) -> Decimal:
    """The largest μ² found for which δ(ε) is provably at most ``delta``."""
    from affidavit.accountant.verifier.balls import ball, normal_tail, precision

    with precision():
        e, limit = ball(Fraction(epsilon)), ball(Fraction(delta))

        def kept(mu: float) -> bool:
            m = ball(mu)
            found = normal_tail(e / m - m / 2) - e.exp() * normal_tail(e / m + m / 2)
            return bool(found <= limit)

        low, high = 0.0, 1.0
        while kept(high) and high < 1e6:
            low, high = high, 2.0 * high
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if middle > 0.0 and kept(middle) else (low, middle)
    return _positive(decimals.round_down(Fraction(low) ** 2), "gdp filter")
