"""What is possible at a false-alarm rate that the reader chooses: one panel a rate, no script.

With x the share of unused records that an attacker is willing to accuse, no attack finds a larger share of used ones
than g(x), the certificate's trade-off curve (Dong, Roth and Su 2022); with one suspicion in two right beforehand, at
most g(x)/(g(x) + x) of his accusations are. Both are rounded up.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from typing import Any

from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.finding import Header, MembershipFinding, Tested
from affidavit.audits.report import words
from affidavit.audits.report.numbers import measured, percent_upper

__all__ = ["RATES", "rate_panels"]

RATES: tuple[float, ...] = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5)
_CHOSEN = 1


def rate_panels(curve: PrivacyCurve, items: Iterable[Header] = ()) -> list[dict[str, Any]]:
    """A label, the limits and the widths of two bars for each rate; the second rate is shown first."""
    shown = [
        item
        for item in items
        if isinstance(item, Tested) and item.judged and words.is_certified(item) and len(item.curve_points) > 2
    ]
    panels = []
    for number, rate in enumerate(RATES):
        found = curve.true_positive_rate(rate)
        reached = [(_at(item.curve_points, rate), item) for item in shown]
        best = max(reached, key=lambda pair: pair[0], default=None)
        panels.append(
            {
                "label": f"{measured(100 * rate, places=1)}\u00a0%",
                "chosen": number == _CHOSEN,
                "found": percent_upper(found),
                "right": percent_upper(found / (found + rate)),
                "guess_width": f"{100 * rate:.2f}%",
                "found_width": f"{100 * min(1.0, found):.2f}%",
                "reached": "" if best is None else _reached(*best),
            }
        )
    return panels


def _reached(rate: float, item: Tested) -> str:
    swapped = ", a used record against an unused one" if isinstance(item, MembershipFinding) else ""
    return f"{measured(Decimal(repr(round(100 * rate, 1))), places=1)}\u00a0% ({words.attack_name(item)}{swapped})"


def _at(points: tuple[tuple[float, float], ...], rate: float) -> float:
    """The ROC at a false positive rate, straight between its points (attained by choosing between two thresholds)."""
    line = sorted({(0.0, 0.0), *points, (1.0, 1.0)})
    for (left, low), (right, high) in pairwise(line):
        if left <= rate <= right:
            return high if right == left else low + (high - low) * (rate - left) / (right - left)
    return 1.0
