"""Auditing with one run: many records, one release, an independent fair coin for each.

Steinke, Nasr and Jagielski (2023), "Privacy auditing with one (1) training run", Theorem 5.2 /
Algorithm 1. Each of ``m`` records is in the data by its own fair coin (out means *absent*, or
zeroed: the relation audited is add-remove or zero-out; a fixed half-and-half split is another
relation). From the release the attack guesses ``r`` coins and abstains on the rest; ``v``
guesses are right. If the mechanism is (ε, δ)-DP for one coin, then

    P[V ≥ v] ≤ β + 2 m δ a,    q = 1/(1 + e^−ε),    β = P[Bin(r, q) ≥ v],
    a = max over 1 ≤ i ≤ v of (1/i) P[v − i ≤ Bin(r, q) ≤ v − 1].

Independent repetitions with fresh coins pool: their product is (ε, δ)-DP for each coin, so
``m``, ``r`` and ``v`` add up. One (ε, δ) is tested; guesses are fixed, split or corrected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from affidavit.accountant.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["one_run_epsilon_lower", "one_run_p_value"]

_GRID = 257


def _check(records: int, guesses: int, correct: int, delta: float) -> None:
    if not 0 <= correct <= guesses <= records or not 0.0 <= delta <= 1.0:
        raise UsageError(
            f"{correct} right of {guesses} guesses about {records} records at delta {delta!r}",
            hint="For example `records = 100` and `guesses = 50` and `correct = 40` and `delta = 1e-05`.",
        )


def _p_values(
    epsilon: NDArray[np.float64], records: int, guesses: int, correct: int, delta: float
) -> NDArray[np.float64]:
    import numpy as np
    from scipy.special import expit
    from scipy.stats import binom

    if correct == 0:
        return np.ones_like(epsilon)
    q = expit(epsilon)[:, None]
    beta = binom.sf(correct - 1, guesses, q[:, 0])
    if delta == 0.0:
        return np.asarray(np.minimum(1.0, beta))
    below = np.arange(correct - 1, -1, -1)  # v − 1, v − 2, …, 0
    window = np.cumsum(binom.pmf(below[None, :], guesses, q), axis=1)
    a = np.max(window / np.arange(1, correct + 1)[None, :], axis=1)
    return np.asarray(np.minimum(1.0, beta + 2.0 * records * delta * a))


def one_run_p_value(epsilon: float, *, records: int, guesses: int, correct: int, delta: float) -> float:
    """A bound on the chance of ``correct`` or more right guesses under (ε, δ)-DP."""
    import numpy as np

    _check(records, guesses, correct, delta)
    return float(_p_values(np.asarray([epsilon]), records, guesses, correct, delta)[0])


def one_run_epsilon_lower(*, records: int, guesses: int, correct: int, delta: float, alpha: float) -> float:
    """The ε proved at confidence 1 − ``alpha``: every smaller ε has a p-value below ``alpha``.

    That is the infimum of the confidence set {ε: p(ε) ≥ α}. p grows with ε wherever it is near
    α in practice, but the term with δ need not be monotone, so the first crossing is searched
    for on a grid from 0, then bisected; the end returned is the lower one.
    """
    import numpy as np

    _check(records, guesses, correct, delta)
    if not 0.0 < alpha < 1.0:
        raise UsageError(f"alpha is {alpha!r}", hint="For example `alpha = 0.05`, inside (0, 1).")

    def p(epsilon: float) -> float:
        return one_run_p_value(epsilon, records=records, guesses=guesses, correct=correct, delta=delta)

    if p(0.0) >= alpha:
        return 0.0
    top = 1.0
    while p(top) < alpha:  # ends: p tends to 1 as q does, since v ≤ r
        top *= 2.0
    grid = np.linspace(0.0, top, _GRID)
    first = int(np.argmax(_p_values(grid, records, guesses, correct, delta) >= alpha))
    low, high = float(grid[first - 1]), float(grid[first])
    while high - low > 1e-9 * max(1.0, high):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if p(middle) < alpha else (low, middle)
    return low
