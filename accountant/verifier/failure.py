"""How much mass is certain to lie on an infinite loss, and whether all else is bounded."""

from __future__ import annotations

from affidavit.accountant.plan import Approximate, Leaf
from affidavit.accountant.verifier.balls import Ball, ball, down, precision
from affidavit.accountant.verifier.cases import Fixed, Sampled, Use
from affidavit.accountant.verifier.noises import NOISES

__all__ = ["failure", "is_unbounded"]

BITS = 256


def failure(fixed: Fixed) -> float:
    """A lower side of the mass on loss +inf that approximate mechanisms have in all, in the direction from the record.

    On a sample they fail where the record is sampled; what the other record does there is only known if ``absent`` is.
    """
    with precision(BITS):
        return down(1 - _intact(fixed))


def is_unbounded(fixed: Fixed) -> bool:
    """Whether the others lose more than any ε, in the direction from the record; then δ(ε) exceeds the failure's mass.

    Where all of δ is on loss +inf, f, and the rest has δ_rest(ε) > 0 at every ε, δ(ε) = f + (1-f) δ_rest(ε) > f.
    """
    return fixed.mu_squared > 0 or fixed.rho > 0 or any(map(_has_gaussian, (use for use, _ in fixed.uses)))


def _has_gaussian(use: Use) -> bool:
    match use:
        case Sampled(of=of, rate=rate, mirrored=False, absent=None):
            return rate > 0 and (of.gaussian or 0) > 0
    noise = NOISES.get(type(use)) if isinstance(use, Leaf) else None
    return noise is not None and noise.endless and not noise.hides(use)


def _intact(fixed: Fixed) -> Ball:
    """At least the probability that none of them fails."""
    result = ball(1)
    for use, count in fixed.uses:
        match use:
            case Approximate(delta=failure):
                result *= (1 - ball(failure)) ** count
            case Sampled(of=of, rate=rate, mirrored=False, absent=None):
                result *= (1 - ball(rate) * (1 if of.blatant else 1 - _intact(of.fixed))) ** count
    return result
