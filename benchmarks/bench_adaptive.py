"""Adaptive composition of exponential mechanisms: time, width, and what the looser theorems would say.

T uses of one range, both sides at relative tolerance 1e-3, δ = 2.5e-5. Beside ε: the η²/8-zCDP conversion and optimal
composition of η-DP, the two bounds that other tools offer, and the best non-adaptive attack (t = η/2, that is
randomised response with ε = η/2), as ratios to our upper side. Times are processor seconds, the least of several,
everything cold but the imports.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from affidavit.accountant.bound import Bound, bound
from affidavit.accountant.methods.pieces import prepare

REPEATS = 3
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


def non_adaptive(case: Case) -> float:
    """ε that the best attack with one t reaches, at t = η/2."""
    plan = {"kind": "repeat", "count": case.count, "of": {"kind": "pure", "epsilon": case.range / 2.0}}
    return bound(plan, relation="zero-out", delta=DELTA, tolerance=TOLERANCE).epsilon_lower


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
