"""Auditing with one run: many records, one release, an independent fair coin for each.

Each of ``m`` records is in the data by its own fair coin (out means *absent*, or zeroed: the relation
audited is add-remove or zero-out; a fixed half-and-half split is another relation). From the release the
attack guesses ``r`` coins and abstains on the rest; ``v`` guesses are right. For a mechanism that is
(ε, δ)-DP for each coin, with q = 1/(1 + e^−ε) and β = P[Bin(r, q) ≥ v], two bounds on chance are known.

**The number of guesses fixed beforehand** (Steinke, Nasr and Jagielski 2023, "Privacy auditing with one (1)
training run", Theorem 5.2 / Algorithm 1):

    P[V ≥ v] ≤ β + 2 m δ a,    a = max over 1 ≤ i ≤ v of (1/i) P[v − i ≤ Bin(r, q) ≤ v − 1].

The theorem is about one r and one v. With r read from the output and δ > 0 it does not hold: a mechanism
that reveals i coins with probability mδ/i, whereupon only those are guessed, and is randomised response else,
is (ε, δ)-DP, and for m = 10⁴, δ = 1e-5, ε = .05 is accused with probability .061 at α = .05.

**Any number of guesses**, found from the output or not (``guesses_fixed=False``). Let thresholds v(r) be such that
β ≤ b for every r at v = v(r). Then

    P[V ≥ v(R)] ≤ b + m δ (1 − q).

Proof. Condition on the output y, and so on the guesses, G of them; go through the coins in order. Given s, the
coins before i, y has the law P₀ or P₁ as coin i falls (a mean over the coins behind it, so still (ε, δ)-DP), each with
probability ½. The guess "in" is right with probability P₁/(P₀ + P₁) = q + (1 − q)(P₁ − e^ε P₀)/(P₀ + P₁) at y, hence
at most q + (1 − q) φᵢ, with φᵢ = (P₁ − e^ε P₀)₊/(P₀ + P₁); likewise for "out". Under y's law ½(P₀ + P₁) the
mean of φᵢ is at most ½(δ + δ) = δ, as ∫(P₁ − e^ε P₀)₊ ≤ δ and the same with the sides changed. Now replace the
guesses, from the last to the first, by coins that are right with probability q, independently of everything:
the chance that v or more are right changes at step i by

    E[(P[right | y, s] − q) · P[v − 1 right before i and by the coins behind it together | y, s]] ≤ (1 − q) E[φᵢ | y].

In sum P[V ≥ v | y] ≤ P[Bin(G, q) ≥ v] + (1 − q) Σ E[φᵢ | y] for every v, so for v(G); take the mean over y. ∎
For m = r = 1 it is attained. At large ε it is also far below the first: 2a against 1 − q.

At small ε, m δ (1 − q) alone may exceed α. Then less is paid for a φ, at a price λ < 1 − q fixed beforehand, and a
player who may buy φ's is let win more: with k guesses to go of which j must be right, J₀(j) = 1 for j ≤ 0, else 0,

    Jₖ(j) = max over 0 ≤ φ ≤ 1 of (q + (1 − q)φ) Jₖ₋₁(j − 1) + (1 − q)(1 − φ) Jₖ₋₁(j) − λ φ,

and by induction over the coins P[V ≥ v | y] ≤ J_G(v) + λ Σ E[φᵢ | y], so P[V ≥ v(R)] ≤ max over r of J_r(v(r)) plus
m δ λ. At λ = 1 − q nothing is worth buying, and J is β. The price is λ = min(1 − q, α/(2 m δ)): no more than half of α
goes to δ. J grows with ε at a fixed price: what succeeds with probability q + (1 − q)φ costs less where q is larger.

Independent repetitions with fresh coins pool: their product is (ε, δ)-DP for each coin, so ``m``, ``r`` and
``v`` add up. One (ε, δ) is tested.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from affidavit.accountant.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["one_run_epsilon_lower", "one_run_p_value", "one_run_refutes"]

_GRID = 257


def _check(records: int, guesses: int, correct: int, delta: float) -> None:
    if not 0 <= correct <= guesses <= records or not 0.0 <= delta <= 1.0:
        raise UsageError(
            f"{correct} right of {guesses} guesses about {records} records at delta {delta!r}",
            hint="For example `records = 100` and `guesses = 50` and `correct = 40` and `delta = 1e-05`.",
        )


def _p_values(
    epsilon: NDArray[np.float64], records: int, guesses: int, correct: int, delta: float, *, fixed: bool
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
    if not fixed:
        return np.asarray(np.minimum(1.0, beta + records * delta * expit(-epsilon)))
    below = np.arange(correct - 1, -1, -1)  # v − 1, v − 2, …, 0
    window = np.cumsum(binom.pmf(below[None, :], guesses, q), axis=1)
    a = np.max(window / np.arange(1, correct + 1)[None, :], axis=1)
    return np.asarray(np.minimum(1.0, beta + 2.0 * records * delta * a))


def one_run_p_value(
    epsilon: float, *, records: int, guesses: int, correct: int, delta: float, guesses_fixed: bool = True
) -> float:
    """A bound on the chance of ``correct`` or more right guesses under (ε, δ)-DP.

    ``guesses_fixed=False`` wherever the number of guesses follows from the output.
    """
    import numpy as np

    _check(records, guesses, correct, delta)
    return float(_p_values(np.asarray([epsilon]), records, guesses, correct, delta, fixed=guesses_fixed)[0])


def one_run_epsilon_lower(
    *, records: int, guesses: int, correct: int, delta: float, alpha: float, guesses_fixed: bool = True
) -> float:
    """The ε proved at confidence 1 − ``alpha``: every smaller ε has a p-value below ``alpha``.

    That is the infimum of the confidence set {ε: p(ε) ≥ α}. p grows with ε wherever it is near
    α in practice, but the term with δ need not be monotone, so the first crossing is searched
    for on a grid, then bisected; the end returned is the lower one. With ``guesses_fixed=False`` the search begins
    where the price of the term with δ is that of (1 − q); below, the test is of one price and monotone.
    """
    import numpy as np

    _check(records, guesses, correct, delta)
    if not 0.0 < alpha < 1.0:
        raise UsageError(f"alpha is {alpha!r}", hint="For example `alpha = 0.05`, inside (0, 1).")

    def p(epsilon: float) -> float:
        return one_run_p_value(
            epsilon, records=records, guesses=guesses, correct=correct, delta=delta, guesses_fixed=guesses_fixed
        )

    start = 0.0 if guesses_fixed else _full_price_from(records, delta, alpha)
    if p(start) >= alpha:
        return 0.0 if start == 0.0 else _below(start, guesses, correct, alpha, price=alpha / (2.0 * records * delta))
    top = start + 1.0
    while p(top) < alpha:  # ends: p tends to 1 as q does, since v ≤ r
        top *= 2.0
    grid = np.linspace(start, top, _GRID)
    first = int(np.argmax(_p_values(grid, records, guesses, correct, delta, fixed=guesses_fixed) >= alpha))
    low, high = float(grid[first - 1]), float(grid[first])
    while high - low > 1e-9 * max(1.0, high):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if p(middle) < alpha else (low, middle)
    return low


def one_run_refutes(epsilon: float, /, *, records: int, guesses: int, correct: int, delta: float, alpha: float) -> bool:
    """The test of one (ε, δ) for any number of guesses."""
    _check(records, guesses, correct, delta)
    if epsilon >= _full_price_from(records, delta, alpha):
        options = {"records": records, "guesses": guesses, "correct": correct}
        return one_run_p_value(epsilon, **options, delta=delta, guesses_fixed=False) < alpha
    return _played(epsilon, guesses, correct, alpha / (2.0 * records * delta)) < alpha / 2.0


def _full_price_from(records: int, delta: float, alpha: float) -> float:
    """The ε at which m δ (1 − q) is α/2; 0 where it is never more."""
    most = 2.0 * records * delta / alpha
    return 0.0 if most <= 2.0 else math.log(most - 1.0)


def _below(most: float, guesses: int, correct: int, alpha: float, *, price: float) -> float:
    """The largest ε below ``most``, from below, with J_r(v) < α/2 at this price: the other half of α is paid to δ."""
    if _played(0.0, guesses, correct, price) >= alpha / 2.0:
        return 0.0
    low, high = 0.0, most
    while high - low > 1e-6:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _played(middle, guesses, correct, price) < alpha / 2.0 else (low, middle)
    return low


def _played(epsilon: float, guesses: int, correct: int, price: float) -> float:
    """J_r(v): the best that a player of ``guesses`` coins can do who pays ``price`` for a coin that is surely right.

    Where every guess must be right, J_k = q J_{k-1} + max(0, (1 - q) J_{k-1} - price): bought while (1 - q) J exceeds
    the price, and left to luck from then on.
    """
    import numpy as np

    wrong = 1.0 / (1.0 + math.exp(epsilon))
    if correct == guesses:
        bought = min(guesses, max(0, math.ceil(1.0 / price - 1.0 / wrong)))
        return (1.0 - bought * price) * math.exp((guesses - bought) * math.log1p(-wrong))
    value = np.zeros(correct + 1)
    value[0] = 1.0
    for _ in range(guesses):
        step = wrong * (value[:-1] - value[1:])
        value[1:] += (value[:-1] - value[1:]) - step + np.maximum(0.0, step - price)
    return float(value[correct])
