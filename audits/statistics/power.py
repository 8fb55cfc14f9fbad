"""Power: how often an attack of given strength would refute a claim, before anything is run.

A ceiling says what a *perfect* attack could show; power says it of a real one. Both are exact: a test of
counts refutes or not, and the counts are binomial.
"""

from __future__ import annotations

from affidavit.accountant.errors import UsageError
from affidavit.audits.statistics.one_run import one_run_epsilon_lower
from affidavit.audits.statistics.tradeoff import TradeoffCurve

__all__ = ["one_run_power", "per_run_power"]

_NEGLIGIBLE = 1e-14


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
    """P(``violation_test`` refutes ``curve`` at level ``alpha``) for an attack with these rates.

    Sums over the false positives that have probability above 1e-14. With so many, k hits of n refute if the
    lower limit of k exceeds the admitted rate a, that is, if P(Bin(n, a) ≥ k) < α/2.
    """
    import numpy as np
    from scipy.special import betaincinv
    from scipy.stats import binom

    for rate in (true_positive_rate, false_positive_rate):
        if not 0.0 <= rate <= 1.0:
            raise UsageError(f"a rate is {rate!r}", hint="For example `true_positive_rate = 0.6`, in [0, 1].")
    alarms = np.arange(non_members + 1)
    weights = binom.pmf(alarms, non_members, false_positive_rate)
    alarms, weights = alarms[weights > _NEGLIGIBLE], weights[weights > _NEGLIGIBLE]
    upper = np.ones(len(alarms))
    open_ = alarms < non_members
    upper[open_] = 1.0 - betaincinv(non_members - alarms[open_], alarms[open_] + 1, alpha / 2.0)
    allowed = np.asarray([1.0 - curve.false_negative_rate(float(rate)) for rate in upper])
    needed = binom.isf(alpha / 2.0, members, allowed) + 1.0
    return float((weights * binom.sf(needed - 1, members, true_positive_rate)).sum())


def one_run_power(
    accuracy: float,
    epsilon: float,
    /,
    *,
    records: int,
    guesses: int,
    delta: float,
    alpha: float,
    guesses_fixed: bool = True,
) -> float:
    """P(the one-run audit shows more than ``epsilon``) each of ``guesses`` right with probability ``accuracy``."""
    from scipy.stats import binom

    if not 0.0 <= accuracy <= 1.0:
        raise UsageError(f"accuracy is {accuracy!r}", hint="For example `accuracy = 0.75`, in [0, 1].")

    def shows(correct: int) -> bool:
        lower = one_run_epsilon_lower(
            records=records, guesses=guesses, correct=correct, delta=delta, alpha=alpha, guesses_fixed=guesses_fixed
        )
        return lower > epsilon

    if not shows(guesses):
        return 0.0
    low, high = -1, guesses  # the bound grows with the number of right guesses
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return float(binom.sf(high - 1, guesses, accuracy))
