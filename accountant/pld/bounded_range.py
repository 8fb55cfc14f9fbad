r"""The envelope of all mechanisms of bounded range (exponential mechanism, softmax sampling).

The worst single uses of range η have two losses, t and t − η, 0 <= t <= η. Their profile on
[t − η, t] is (1 − e^{t−η})(1 − e^{ε−t})/(1 − e^{−η}); its maximum over t, at t = (ε + η)/2, is

    δ(ε) = (1 − s)²/(1 − e^{−η}),   s = e^{(ε−η)/2},   −η <= ε <= η.

This is a profile of its own (convex in e^ε, δ(−∞) = 1), hence of a pair, with
P(L > l) = (1 − s)/(1 − e^{−η}) and Q(L > l) = e^{−η}(1 − s)/(s (1 − e^{−η})). It dominates one use
by the mechanism (Dong, Durfee, Rogers 2020), so its composition is valid; it is attained at each
ε by another t, so its composition is *loose* and has no lower side. The exact adaptive
composition is a recursion, not a PLD (docs/theory/exponential.md). The family is closed under swapping.

One t at every use is a strategy (``one_choice``). With E = e^η and u = e^t its moment of order θ > 0 is

    E_P e^{θL} = (u^θ (1 − E^{−θ−1}) − u^{θ+1} (1 − E^{−θ})/E) / (1 − 1/E),

the largest at u = E θ (1 − E^{−θ−1})/((θ + 1)(1 − E^{−θ})) (``best_share``).
"""

from __future__ import annotations

import math

import numpy as np

from affidavit.accountant.pld.atomic import Atomic, pure
from affidavit.accountant.pld.curve import Array, Curve, Logs

__all__ = ["BoundedRange", "best_share", "one_choice"]

EDGE, SMALL = 1e-9, 1e-10
"""Nearest that t comes to 0 or η, in units of η; a range."""


class BoundedRange(Curve):
    """The pointwise largest profile at bounded range ``eta`` > 0."""

    symmetric = True

    def __init__(self, eta: float) -> None:
        self.eta = eta
        self.low, self.high = -eta, eta

    def logs(self, loss: Array) -> Logs:
        inside = np.clip(loss, self.low, self.high)
        log_s = 0.5 * (inside - self.eta)
        scale = math.log(-math.expm1(-self.eta))
        with np.errstate(divide="ignore"):
            rest = np.log(-np.expm1(log_s)) - scale
            q_tail = rest - self.eta - log_s
            # P(L <= l) = (s − e^{−η})/(1 − e^{−η}), Q(L <= l) = (s − e^{−η})/(s (1 − e^{−η}))
            q_head = np.log(-np.expm1(-0.5 * (inside + self.eta))) - scale
            p_head = q_head + log_s
        return Logs(np.minimum(rest, 0.0), np.minimum(q_tail, 0.0), np.minimum(p_head, 0.0), np.minimum(q_head, 0.0))


def one_choice(eta: float, share: float) -> Curve:
    """The mechanism of range ``eta`` with the losses t = ``share`` η and t − η."""
    if share == 0.5:
        return pure(0.5 * eta)
    t, whole = share * eta, math.log(-math.expm1(-eta))
    chances = math.log(-math.expm1(-t)) + t - eta - whole, math.log(-math.expm1(t - eta)) - whole
    return Atomic(np.array([t - eta, t]), np.array(chances))


def best_share(eta: float, tilt: float) -> float:
    """t/η of the largest moment of order ``tilt`` > 0; a half of ranges so small that float64 does not tell."""
    if eta < SMALL:
        return 0.5
    below, above = (-math.expm1(-eta * order) / order for order in (tilt, tilt + 1.0))
    return min(max(1.0 + math.log(above / below) / eta, EDGE), 1.0 - EDGE)
