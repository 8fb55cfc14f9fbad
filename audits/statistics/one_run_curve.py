"""One run against a whole trade-off curve, every coin guessed.

m records, each in by its own fair coin; from the release the attack guesses **all** m coins, V of them right. Let the
mechanism be f-DP for each coin, g = 1 − f, and p_i = P[V = i]. For a set of numbers {i, i + 1, …, m}

    Σ_{l ≥ i} (l/m) p_l  ≤  g( Σ_{l ≥ i−1} ((m − l)/m) p_l )

(Mahloujifar, Melis and Chaudhuri 2025, "Auditing f-differential privacy in one run", ICML, the theorem on p_i for k = 2
with all guesses made). For take a coin at random, and the event that it is guessed right and i or more are right in
all: the left side. Were this one coin the other way round, the same outputs would have it wrong and one fewer right:
the right side. No test tells the two apart better than g allows, and g is concave, so that the other coins may be
averaged over.

With r_i = Σ_{l ≥ i} (l/m) p_l and h_i = Σ_{l ≥ i} ((m − l)/m) p_l that says r_i ≤ g(h_{i−1}), and
r_{i−1} = r_i + c_{i−1} (h_{i−1} − h_i) with c_i = i/(m − i). Suppose that P[V ≥ v] is τ. The recursion starts with
R_v = τ v/m, H_v = τ (m − v)/m and goes down by H_{i−1} = g⁻¹(R_i) while that exceeds H_i. **Whatever the p_l are,
r_i + h_i is at least R_i + H_i**, so that τ is impossible where these exceed 1. Proof: r_i − c h_i ≥ R_i − c H_i for
all c ≤ c_i. At v it holds, as r_v + h_v = τ and r_v ≥ R_v. And h_{i−1} ≥ g⁻¹(r_i) ≥ H_{i−1}, so for c ≤ c_{i−1} ≤ c_i
r_{i−1} − c h_{i−1} = (r_i − c_{i−1} h_i) + (c_{i−1} − c) h_{i−1} is at least the recursion's. ∎ The recursion is the
paper's, and it rises with τ; the tests hold it against a linear programme over all p, and against what mechanisms on
three coins can do.

**All coins, no other number.** An attack that abstains when the output says so is outside the theorem; where an attack
says "in" or nothing, nothing is taken for "out" here. For the number of guesses that an attacker likes, ``one_run``.
Independent repetitions pool, as there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from functools import lru_cache

from affidavit.accountant.errors import UsageError
from affidavit.audits.statistics.boundaries import Boundary, GaussianBoundary
from affidavit.audits.statistics.clopper_pearson import level
from affidavit.audits.statistics.joint import one_point

__all__ = ["all_coins_epsilon_lower", "all_coins_mu_lower", "all_coins_refutes"]

_KNOTS = 20_001


@lru_cache(maxsize=64)
def _inverse(boundary: Boundary) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Points (g(x), x): where r is more than g(x), g⁻¹(r) is more than x."""
    import numpy as np

    half = 0.5 * np.concatenate([[0.0], np.geomspace(1e-15, 1.0, _KNOTS)])
    rates = np.unique(np.concatenate([half, 1.0 - half]))
    return tuple(boundary.allowed(rates).tolist()), tuple(rates.tolist())


def all_coins_refutes(boundary: Boundary, /, *, records: int, correct: int, alpha: float) -> bool:
    """Whether ``correct`` or more of all ``records`` coins have probability below ``alpha`` under this null."""
    if not 0 <= correct <= records or records < 1:
        raise UsageError(f"{correct} right of {records} coins", hint="For example `records = 100` and `correct = 80`.")
    level(alpha)
    allowed, rates = _inverse(boundary)
    right, wrong = alpha * correct / records, alpha * (records - correct) / records
    for number in range(correct - 1, -1, -1):
        place = bisect_left(allowed, right) - 1
        needed = rates[place] if place >= 0 else 0.0
        if needed > wrong:
            right += number / (records - number) * (needed - wrong)
            wrong = needed
        if right + wrong > 1.0:
            return True
        if needed < wrong:
            return False  # neither grows any more
    return False


def all_coins_epsilon_lower(*, records: int, correct: int, delta: float, alpha: float) -> float:
    """The ε proved at confidence 1 − ``alpha`` for this ``delta``: the nulls grow with ε, so the search is monotone."""
    return _lower(lambda epsilon: one_point(epsilon, delta), records, correct, alpha)


def all_coins_mu_lower(*, records: int, correct: int, alpha: float) -> float:
    """The μ proved of a mechanism whose curve is Gaussian."""
    return _lower(GaussianBoundary, records, correct, alpha)


def _lower(family: Callable[[float], Boundary], records: int, correct: int, alpha: float) -> float:
    def refuted(parameter: float) -> bool:
        return all_coins_refutes(family(parameter), records=records, correct=correct, alpha=alpha)

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2.0 * high
    while high - low > 1e-4 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
