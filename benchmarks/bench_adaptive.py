"""Adaptive composition of exponential mechanisms: time, width, and what the looser theorems would say.

T uses of one range, both sides at relative tolerance 1e-3, δ = 2.5e-5. Beside ε: the η²/8-zCDP conversion and optimal
composition of η-DP, the two bounds that other tools offer, and the best non-adaptive attack (one t at every use), as
ratios to our upper side. Times are processor seconds, the least of several, everything cold but the imports.
"""

from __future__ import annotations

import math
import os
import time
from typing import NamedTuple

from affidavit.accountant.bound import Bound, bound
from affidavit.accountant.methods.chords import prepare

REPEATS = 5
DELTA = 2.5e-5
TOLERANCE = 1e-3


class Case(NamedTuple):
    """``count`` uses of one range."""

    range: float
    count: int


CASES = tuple(Case(eta, count) for eta in (0.636, 0.06) for count in (100, 300, 1_000))
"""0.636: batches of 15, clip 10, temperature 1.048."""


def composed(case: Case, method: str | None = None) -> Bound:
    """The bracket by the best method, or by one."""
    plan = {"kind": "repeat", "count": case.count, "of": {"kind": "exponential", "range": case.range}}
    return bound(plan, relation="zero-out", delta=DELTA, tolerance=TOLERANCE, method=method)


def reached(case: Case, t: float) -> float:
    """ε of the attack with losses t and t − η at every use: its binomial sum, solved by bisection."""
    import numpy as np
    from scipy.special import gammaln, xlogy

    count, eta = case.count, case.range
    chance = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
    hits = np.arange(count + 1)
    ways = gammaln(count + 1) - gammaln(hits + 1) - gammaln(count - hits + 1)
    masses = np.exp(ways + xlogy(hits, chance) + xlogy(count - hits, 1.0 - chance))
    losses = hits * t + (count - hits) * (t - eta)
    low, high = 0.0, count * eta
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        delta = float(masses @ np.maximum(0.0, -np.expm1(np.minimum(middle - losses, 0.0))))
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return low


def non_adaptive(case: Case) -> float:
    """The largest ε that one t at every use reaches, t from a grid."""
    return max(reached(case, case.range * share / 200.0) for share in range(60, 180))


def timed(case: Case) -> tuple[Bound, float]:
    """The bracket and the least processor time of several."""
    least = float("inf")
    for _ in range(REPEATS):
        prepare.cache_clear()
        start = time.process_time()
        found = composed(case)
        least = min(least, time.process_time() - start)
    return found, least


def main() -> None:
    """Print every case."""
    print(f"threads: OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}; processor time of this process")
    print(f"δ = {DELTA:g}, zero-out, tolerance {TOLERANCE:g}; the last three columns are ratios to our upper side")
    print(f"{'range':>6} {'uses':>5} {'ε':>22} {'width':>8} {'ms':>6} {'non-adaptive':>13} {'zCDP':>6} {'pure':>6}")
    for case in CASES:
        found, seconds = timed(case)
        upper = found.epsilon_upper
        others = (non_adaptive(case), *(composed(case, name).epsilon_upper for name in ("zcdp", "optimal")))
        bracket = f"[{found.epsilon_lower:.5f}, {upper:.5f}]"
        width = (upper - found.epsilon_lower) / upper
        ratios = "{:13.4f} {:6.3f} {:6.2f}".format(*(other / upper for other in others))
        print(f"{case.range:>6} {case.count:>5} {bracket:>22} {width:8.1e} {1e3 * seconds:6.0f} {ratios}", flush=True)


if __name__ == "__main__":
    main()
