"""Power: how often an attack of given strength would refute a claim, before anything is run.

A ceiling says what a *perfect* attack could show; power says it of a real one. It is exact: the test of
counts refutes or not, and the counts are binomial.
"""

from __future__ import annotations

from affidavit.accountant.errors import UsageError
from affidavit.audits.statistics.boundaries import TradeoffCurve, of_curve
from affidavit.audits.statistics.joint import critical_region

__all__ = ["per_run_power"]


def per_run_power(
    true_positive_rate: float,
    false_positive_rate: float,
    curve: TradeoffCurve,
    /,
    *,
    members: int,
    non_members: int,
    alpha: float,
) -> float:
    """P(``violation_test`` refutes ``curve`` at level ``alpha``) for an attack with these rates."""
    for rate in (true_positive_rate, false_positive_rate):
        if not 0.0 <= rate <= 1.0:
            raise UsageError(f"a rate is {rate!r}", hint="For example `true_positive_rate = 0.6`, in [0, 1].")
    region = critical_region(of_curve(curve), members=members, non_members=non_members, alpha=alpha)
    return min(1.0, region.chance(true_positive_rate, false_positive_rate))
