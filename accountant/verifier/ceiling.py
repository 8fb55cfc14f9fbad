"""What a case costs at most, at a glance: its largest loss, and splits into pure and concentrated mechanisms."""

from __future__ import annotations

import math
from fractions import Fraction

from affidavit.accountant.plan import Approximate, Exponential, Laplace, Pure
from affidavit.accountant.verifier.balls import Ball, ball, down, precision, up
from affidavit.accountant.verifier.cases import Case, Either, Fixed, Sampled, rho_of
from affidavit.accountant.verifier.replaced import PureCost, largest_loss
from affidavit.accountant.verifier.zcdp import zcdp_delta

__all__ = ["costs_at_most", "likely_cost", "most_taken", "pure_epsilon", "stated"]


def _largest_loss(case: Case, *, forward: bool) -> Ball | None:
    """The largest loss of any outcome in one direction; None when there is none."""
    fixed = case.fixed
    if case.blatant or fixed.mu_squared or fixed.rho:
        return None
    total = ball(sum((count * spread for spread, count in case.steps), Fraction(0)))
    for use, count in fixed.uses:
        match use:
            case Pure() | Approximate(delta=0.0) | Laplace() | Exponential():
                total += count * ball(stated(use)[0])
            case Either(of=kinds):
                each = [_largest_loss(Case(first=kind), forward=forward) for kind in kinds]
                known = [one for one in each if one is not None]
                if len(known) < len(each):
                    return None
                total += count * max(known, key=up)
            case Sampled(of=of) if (inner := _largest_loss(of, forward=True)) is not None:
                total += count * _amplified(use, inner, forward=forward != use.mirrored)
            case _:
                return None
    return total


def _amplified(use: Sampled, inner: Ball, *, forward: bool) -> Ball:
    """The largest loss of a sampled use, from that on the sample."""
    rate = ball(use.rate)
    if use.absent is not None and (replaced := PureCost.of(use.of)) and (absent := PureCost.of(use.absent)):
        return largest_loss(replaced, absent, use.rate)
    if use.scheme == "poisson" and use.relation == "substitution":
        return inner
    if forward or (use.scheme == "without-replacement" and use.relation != "add-remove"):
        return (1 + rate * inner.expm1()).log()
    return -(1 + rate * (-inner).expm1()).log()


def pure_epsilon(case: Case) -> tuple[float, float]:
    """(lower, upper) of the largest loss of both directions: the least ε with δ(ε) = 0."""
    with precision():
        both = [_largest_loss(case, forward=forward) for forward in (True, False)]
        if both[0] is None or both[1] is None:
            return 0.0 if _has_coarse(case) else math.inf, math.inf
        return max(map(down, both)), max(map(up, both))


def _has_coarse(case: Case) -> bool:
    """Whether a grid is so wide that the pair below has no loss."""
    uses = (use for use, _ in case.fixed.uses)
    return any(_has_coarse(use.of) if isinstance(use, Sampled) else getattr(use, "is_coarse", False) for use in uses)


def most_taken(case: Case) -> float:
    """At least the probability that a sample takes the changed record; 1 where not all of it is on samples."""
    with precision():
        return min(1.0, up(1 - _left_out(case)))


def _left_out(case: Case) -> Ball:
    """At most the probability that no sample takes the record."""
    fixed, result = case.fixed, ball(1)
    if case.blatant or case.steps or fixed.mu_squared or fixed.rho:
        return ball(0)
    for use, count in fixed.uses:
        result *= (1 - ball(use.rate) * (1 - _left_out(use.of))) ** count if isinstance(use, Sampled) else 0
    return result


def costs_at_most(case: Case, *, epsilon: float, delta: float) -> bool:
    """Whether δ(ε) <= ``delta`` shows at a glance.

    Some mechanisms lose at most Σ ε_i together, whatever came before; the moments of the loss of the others are
    bounded by their zCDP, one after another. So δ(ε) is at most what the zCDP conversion says at ε − Σ ε_i, for every
    such split; those of the largest ε are pure ones first. What is (ε_i, δ_i)-DP is a post-processing of what shows all
    with probability δ_i and is ε_i-DP otherwise (Kairouz, Oh and Viswanath 2015): Σ δ_i is added.
    """
    if case.blatant:
        return False
    match case:
        case Case(first=Fixed(mu_squared=0, rho=0, uses=((Sampled() as use, 1),)), steps=()) if _amplifies(use):
            # (ε, δ)-DP there is (ln(1 + γ(e^ε − 1)), γδ)-DP here (Balle, Barthe and Gaboardi 2018, theorems 8 and 9).
            with precision():
                inside = down((ball(epsilon).expm1() / ball(use.rate)).log1p())
            lost = _below(Fraction(delta) / use.rate)
            return math.isfinite(inside) and costs_at_most(use.of, epsilon=inside, delta=lost)
    shown = sum(
        (count * Fraction(use.delta) for use, count in case.fixed.uses if isinstance(use, Approximate)), Fraction()
    )
    if shown > delta:
        return False
    delta = _below(Fraction(delta) - shown) if shown else delta
    costs = sorted(_costs(case), key=lambda cost: (cost[0] == math.inf, cost[1] < math.inf, -cost[2]))
    left = Fraction(epsilon)
    for i in range(len(costs) + 1):
        rhos = [rho for _, rho, _ in costs[i:] if isinstance(rho, Fraction)]
        if left < 0:
            return False
        if len(rhos) == len(costs) - i and zcdp_delta(sum(rhos, Fraction(0)), _below(left)) <= delta:
            return True
        if i < len(costs):
            if costs[i][0] == math.inf:
                return False
            left -= Fraction(costs[i][0])
    return False


def _amplifies(use: Sampled) -> bool:
    return use.rate > 0 and (use.scheme == "without-replacement" or use.relation != "substitution")


def _below(value: Fraction) -> float:
    return max(0.0, math.nextafter(float(value), -math.inf))


_Exact = Fraction | float
"""A fraction, or infinity."""


def _costs(case: Case) -> list[tuple[_Exact, _Exact, float]]:
    """Of each mechanism: the largest loss of all uses, their ρ (ε²/2 of pure ones: Bun and Steinke 2016), one loss.

    Without what is shown as failures.
    """
    fixed = case.fixed
    found: list[tuple[_Exact, _Exact, float]] = [(math.inf, fixed.rho + fixed.mu_squared / 2, math.inf)]
    found += [(count * spread, count * spread * spread / 8, float(spread)) for spread, count in case.steps]
    for use, count in fixed.uses:
        match use:
            case Pure() | Approximate() | Laplace():
                epsilon, _ = stated(use)
                found.append((count * epsilon, count * epsilon**2 / 2, float(epsilon)))
            case _:
                most = pure_epsilon(Case(first=Fixed(uses=((use, count),))))[1]
                found.append((most if most == math.inf else Fraction(most), math.inf, most / count))
    return found


def stated(use: Pure | Approximate | Laplace | Exponential) -> tuple[Fraction, Fraction]:
    """The ε and δ of which it is (ε, δ)-DP; Laplace noise is 1/scale-DP, a range an ε."""
    match use:
        case Pure(epsilon=epsilon):
            return Fraction(epsilon), Fraction(0)
        case Approximate(epsilon=epsilon, delta=delta):
            return Fraction(epsilon), Fraction(delta)
        case Exponential(range=spread):
            return Fraction(spread), Fraction(0)
        case Laplace(noise_multiplier=scale):
            return 1 / Fraction(scale), Fraction(0)


def likely_cost(case: Case) -> tuple[float, float]:
    """By which cases are put in order: those that fail most often first, then those of about most ρ."""
    failures = (use.delta * count for use, count in case.fixed.uses if isinstance(use, Approximate))
    try:
        return math.fsum(failures), float(_size(case))
    except OverflowError:
        return math.fsum(failures), math.inf


def _size(case: Case) -> _Exact:
    fixed = case.fixed
    found: _Exact = fixed.rho + fixed.mu_squared / 2
    found += rho_of(case.steps)
    for use, count in fixed.uses:
        match use:
            case Pure() | Approximate() | Laplace():
                found += count * stated(use)[0] ** 2 / 2
            case Exponential(range=spread):
                found += count * Fraction(spread) ** 2 / 8
            case Sampled(of=of, rate=rate):
                found += count * rate**2 * _size(of)
            case Either(of=kinds):
                found += count * max(_size(Case(first=kind)) for kind in kinds)
            case _:
                return math.inf
    return math.inf if case.blatant else found
