"""Risk limits: what the guarantee means for an attacker, in rates and odds.

For one (ε, δ) point (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath 2015):

    true-positive rate at false-positive rate x   min(1, e^ε x + δ, 1 − e^{−ε} (1 − δ − x))
    membership advantage (TPR − FPR)              (e^ε − 1 + 2δ) / (e^ε + 1)
    area under the ROC curve                      1 − (1 − δ)² / (1 + e^ε)
    guessing a secret among R with L guesses      e^ε L/R + δ

The area: f(x) = max(0, 1 − δ − e^ε x, e^{−ε}(1 − δ − x)) encloses two triangles that meet on the
diagonal x = y = (1 − δ)/(1 + e^ε); ∫ f = (1 − δ)²/(1 + e^ε). From a whole curve, f is the maximum
over its points and the limits are integrals and maxima of 1 − f, which are smaller.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from itertools import pairwise

from affidavit.accountant.rounding import LAST_DIGITS
from affidavit.accountant.show import Facts, Shown, upper
from affidavit.accountant.tradeoff import PrivacyCurve

__all__ = ["RiskLimits", "guessing_limit", "risk_limits"]


@dataclass(frozen=True, slots=True, repr=False)
class RiskLimits(Shown):
    """Upper limits on any attack that decides whether one protected unit was used."""

    area_under_roc: float
    advantage: float
    true_positive_rate_at_1_percent: float
    true_positive_rate_at_01_percent: float

    def facts(self) -> Facts:
        """Each limit beside what a guess reaches."""
        limits = [
            ("area under the ROC curve", self.area_under_roc, "0.5"),
            ("advantage (true minus false positive rate)", self.advantage, "0"),
            ("true positives at 1 % false ones", self.true_positive_rate_at_1_percent, "0.01"),
            ("true positives at 0.1 % false ones", self.true_positive_rate_at_01_percent, "0.001"),
        ]
        line = ", ".join(f"{name.partition(' (')[0]} <= {upper(limit, digits=4)}" for name, limit, _ in limits)
        rows = tuple((name, upper(limit, digits=4), guess) for name, limit, guess in limits)
        return Facts(line, ("limit", "at most", "a guess"), rows)

    def as_dict(self) -> dict[str, float]:
        """Plain numbers, for JSON."""
        return asdict(self)


def _lines(curve: PrivacyCurve) -> list[tuple[float, float]]:
    """The pieces of f as (intercept, slope) lines in x, the zero line included."""
    lines = [(0.0, 0.0), (1.0, -1.0)] if not curve.points else [(0.0, 0.0)]
    for epsilon, delta in curve.points:
        if epsilon < 700.0:
            lines.append((1.0 - delta, -math.exp(epsilon)))
        lines.append((math.exp(-epsilon) * (1.0 - delta), -math.exp(-epsilon)))
    return lines


def _area_below(curve: PrivacyCurve) -> float:
    """∫₀¹ f from below: f is piecewise linear and convex, so its kinks are where neighbouring lines meet."""
    lines = sorted(set(_lines(curve)), key=lambda line: line[1])
    hull: list[tuple[float, float]] = []
    for line in lines:
        while hull and (
            hull[-1][0] <= line[0] or (len(hull) > 1 and _meeting(hull[-2], line) <= _meeting(hull[-2], hull[-1]))
        ):
            hull.pop()
        hull.append(line)
    kinks = [0.0, *(min(1.0, max(0.0, _meeting(a, b))) for a, b in pairwise(hull)), 1.0]
    area = 0.0
    for (intercept, slope), left, right in zip(hull, kinks, kinks[1:], strict=False):
        area += (right - left) * (intercept + slope * 0.5 * (left + right))
    exact = (0.0, 0.0) in curve.points
    return area if exact else max(0.0, area - LAST_DIGITS * (4.0 + len(hull)))


def _meeting(steep: tuple[float, float], flat: tuple[float, float]) -> float:
    if flat[1] == steep[1]:
        return math.inf
    return (steep[0] - flat[0]) / (flat[1] - steep[1])


def risk_limits(curve: PrivacyCurve) -> RiskLimits:
    """Limits from every point of ``curve`` at once; one point gives the formulas above.

    Also valid from any subset of points, only larger.
    """
    advantage = 1.0
    for epsilon, delta in curve.points:
        # TPR − FPR is largest where f has slope −1: there it is t + δ (1 − t), t = (e^ε − 1)/(e^ε + 1).
        t = math.tanh(0.5 * epsilon)
        advantage = min(advantage, (t + delta * (1.0 - t)) * (1.0 + LAST_DIGITS))
    return RiskLimits(
        area_under_roc=min(1.0, 1.0 - _area_below(curve)),
        advantage=advantage,
        true_positive_rate_at_1_percent=curve.true_positive_rate(0.01),
        true_positive_rate_at_01_percent=curve.true_positive_rate(0.001),
    )


def guessing_limit(*, epsilon: float, delta: float, candidates: int, guesses: int = 1) -> float:
    """Chance to hit a secret drawn uniformly from ``candidates`` with ``guesses`` guesses.

    e^ε L/R + δ: without the record the chance is L/R; (ε, δ)-DP lifts it by no more.
    """
    if epsilon > 700.0:
        return 1.0
    return min(1.0, (math.exp(epsilon) * guesses / candidates + delta) * (1.0 + LAST_DIGITS))
