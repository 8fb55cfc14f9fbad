"""A test of the same null that may be looked at after every pair of trials, and stopped as soon as it knows.

A pair is one trial with the record, A, and one without it, B. For an alternative (t₁, x₁) outside the null let (t*, x*)
be the point of the null with the least KL(t₁ ‖ t*) + KL(x₁ ‖ x*). The likelihood ratio of one pair,

    E(A, B) = (t₁/t*)^A ((1 − t₁)/(1 − t*))^(1 − A) · (x₁/x*)^B ((1 − x₁)/(1 − x*))^(1 − B),

has mean at most 1 at every point of the null: it is an e-variable, the one that grows fastest (Turner and Grünwald
2023, Theorem 1, for any convex null; Grünwald, de Heide and Koolen 2024). Here, directly: its mean at (t, x) is
(1 + u(t − t*)) (1 + w(x − x*)) with u = (t₁ − t*)/(t*(1 − t*)) > 0 and w = (x₁ − x*)/(x*(1 − x*)) < 0. By the
minimum u(t − t*) + w(x − x*) ≤ 0 on the null, and uw(t − t*)(x − x*) > 0 only where t < t* and x > x*, where both
factors are at most 1. So the product over pairs is a non-negative supermartingale, an average of such products for
several alternatives too, and by Ville (1939) it ever reaches 1/α with probability at most α, under any stopping rule.
That is a bet against the claim (Waudby-Smith and Ramdas 2024; Ramdas et al. 2023), its stakes fixed before any draw.

The search for (t*, x*) is numerical: by how much the mean then exceeds 1 anywhere in the null is bounded, and divided
out.

**Consistent early.** At the alternative itself 1/E has mean 1 exactly. So E ever falls to β with probability at most
β there: stopping with "consistent" then costs at most β of the power.

**A lower bound at any time.** The likelihood of the outcomes averaged over both rates (Beta(½, ½)), over their largest
likelihood in the null, is below a supermartingale at every point of the null (Robbins 1970; Wasserman, Ramdas and
Balakrishnan 2020): a claim is refuted where D ≥ ln(1/α) + ln(largest likelihood/average), and a null that grows with ε
gives a lower bound on ε.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from affidavit.audits.statistics.boundaries import Boundary, GaussianBoundary
from affidavit.audits.statistics.clopper_pearson import Counts, level
from affidavit.audits.statistics.divergence import distance_at_least
from affidavit.audits.statistics.joint import one_point

__all__ = ["Alternative", "Bet", "Sequential", "anytime_epsilon_lower", "anytime_mu_lower", "anytime_radius", "bet"]

Known = Literal["refuted", "consistent", "open"]

_ROUNDING = 1e-10


@dataclass(frozen=True, slots=True)
class Alternative:
    """Rates that a faulty mechanism would show, and which share of the stake is on them.

    Where there are more alarms than hits the bet is on the opposite event.
    """

    true_positive_rate: float
    false_positive_rate: float
    weight: float


@dataclass(frozen=True, slots=True)
class Bet:
    """What a pair adds to ln E: ``hit`` or ``miss`` of its first trial, ``alarm`` or ``quiet`` of its second."""

    hit: float
    miss: float
    alarm: float
    quiet: float

    def log_value(self, pairs: int, hits: int, alarms: int) -> float:
        """ln E after so many pairs."""
        first = hits * self.hit + (pairs - hits) * self.miss
        return first + alarms * self.alarm + (pairs - alarms) * self.quiet

    def growth(self, true_positive_rate: float, false_positive_rate: float) -> float:
        """The mean of what one pair adds, at these rates."""
        first = true_positive_rate * self.hit + (1.0 - true_positive_rate) * self.miss
        return first + false_positive_rate * self.alarm + (1.0 - false_positive_rate) * self.quiet


def bet(boundary: Boundary, true_positive_rate: float, false_positive_rate: float) -> Bet | None:
    """The e-variable of one alternative; None where the null allows it, or nothing can be told of it."""
    if true_positive_rate >= false_positive_rate:
        return _bet(boundary, true_positive_rate, false_positive_rate)
    found = _bet(boundary, 1.0 - true_positive_rate, 1.0 - false_positive_rate)
    return None if found is None else Bet(found.miss, found.hit, found.quiet, found.alarm)


@lru_cache(maxsize=512)
def _bet(boundary: Boundary, true_positive_rate: float, false_positive_rate: float) -> Bet | None:
    import numpy as np
    from scipy.special import xlog1py, xlogy

    t1, x1 = min(max(true_positive_rate, 1e-9), 1.0 - 1e-9), min(max(false_positive_rate, 1e-9), 1.0 - 1e-9)

    def allowed(rate: float) -> float:
        return float(boundary.allowed(np.asarray([rate]))[0])

    def far(rate: float) -> float:
        t = min(t1, allowed(rate))
        own = xlogy(t1, t1) + xlog1py(1.0 - t1, -t1) + xlogy(x1, x1) + xlog1py(1.0 - x1, -x1)
        return float(own - xlogy(t1, t) - xlog1py(1.0 - t1, -t) - xlogy(x1, rate) - xlog1py(1.0 - x1, -rate))

    if allowed(x1) >= t1:
        return None
    x = _least(far, x1, 1.0 - 1e-12)
    t = allowed(x)
    if far(x) < 1e-9 or not 0.0 < t < t1:
        return None
    u, w = (t1 - t) / (t * (1.0 - t)), (x1 - x) / (x * (1.0 - x))
    over = max(0.0, _largest_excess(boundary, t, x, u, w)) + _ROUNDING
    each = math.log1p(over)
    return Bet(
        hit=math.log(t1 / t) - each,
        miss=math.log((1.0 - t1) / (1.0 - t)) - each,
        alarm=math.log(x1 / x),
        quiet=math.log((1.0 - x1) / (1.0 - x)),
    )


def _least(value: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that falls and then rises is least."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    inner, outer = high - ratio * (high - low), low + ratio * (high - low)
    at_inner, at_outer = value(inner), value(outer)
    for _ in range(90):
        if at_inner <= at_outer:
            high, outer, at_outer = outer, inner, at_inner
            inner = high - ratio * (high - low)
            at_inner = value(inner)
        else:
            low, inner, at_inner = inner, outer, at_outer
            outer = low + ratio * (high - low)
            at_outer = value(outer)
    return 0.5 * (low + high)


def _largest_excess(boundary: Boundary, t: float, x: float, u: float, w: float) -> float:
    """By how much E's mean exceeds 1 somewhere in the null, from above: over cells, finer around (t, x).

    The mean rises with t and falls with x, so in a cell [a, b] it is at most its value at (a, g(b)).
    """
    import numpy as np

    around = x + np.concatenate([-np.geomspace(1e-13, 1.0, 4001)[::-1], [0.0], np.geomspace(1e-13, 1.0, 4001)])
    edges = np.unique(np.concatenate([[0.0, 1.0], around[(around > 0.0) & (around < 1.0)]]))
    low, high = edges[:-1], edges[1:]
    worst = 0.0
    for _ in range(40):
        above = (1.0 + u * (boundary.allowed(high) - t)) * (1.0 + w * (low - x)) - 1.0
        reached = (1.0 + u * (boundary.allowed(high) - t)) * (1.0 + w * (high - x)) - 1.0
        worst = max(worst, float(reached.max()))
        unclear = above > worst + 1e-9
        if not unclear.any():
            break
        low, high = low[unclear], high[unclear]
        middle = 0.5 * (low + high)
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        if len(low) > 1 << 20:
            return float(above.max())
    return worst + 1e-9


@dataclass(frozen=True, slots=True)
class Sequential:
    """A stake on several alternatives, in both directions, and the level that may be spent on looking.

    ``beta``: the power that may be given up for stopping early where nothing is wrong, which takes that every
    alternative is ruled out; 0: never stop for that.
    """

    bets: tuple[tuple[float, Bet], ...]
    main: Bet | None
    alpha: float
    beta: float

    @classmethod
    def against(
        cls, boundary: Boundary, alternatives: Sequence[Alternative], *, alpha: float, beta: float
    ) -> Sequential:
        """The first alternative is the one that must be noticed. Those that the claim allows get no stake."""
        level(alpha)
        made = [
            (each.weight, bet(boundary, each.true_positive_rate, each.false_positive_rate)) for each in alternatives
        ]
        staked = sum(weight for weight, found in made if found is not None)
        bets = tuple((weight / staked, found) for weight, found in made if found is not None)
        return cls(bets, made[0][1], alpha, beta)

    def known(self, pairs: int, hits: int, alarms: int) -> Known:
        """Whether it is settled after so many pairs."""
        if self.bets and self.log_evidence(pairs, hits, alarms) >= -math.log(self.alpha):
            return "refuted"
        if self.main is None or self.beta == 0.0:
            return "open"
        least = math.log(self.beta)
        ruled_out = all(each.log_value(pairs, hits, alarms) <= least for _, each in self.bets)
        return "consistent" if ruled_out else "open"

    def log_evidence(self, pairs: int, hits: int, alarms: int) -> float:
        """ln of the average of all bets."""
        values = [math.log(weight) + each.log_value(pairs, hits, alarms) for weight, each in self.bets]
        most = max(values)
        return most + math.log(sum(math.exp(value - most) for value in values))

    def pairs_until_consistent(self, true_positive_rate: float, false_positive_rate: float) -> float:
        """About how many pairs a mechanism of these rates takes (Wald 1945); infinite where it would not end."""
        if self.main is None or self.beta <= 0.0:
            return math.inf
        drift = self.main.growth(true_positive_rate, false_positive_rate)
        return math.log(self.beta) / drift if drift < 0.0 else math.inf

    def pairs_until_refuted(self, true_positive_rate: float, false_positive_rate: float) -> float:
        """The same for the main alternative's stake alone."""
        weight = next((weight for weight, each in self.bets if each is self.main), 0.0)
        if self.main is None or weight == 0.0:
            return math.inf
        drift = self.main.growth(true_positive_rate, false_positive_rate)
        return -math.log(self.alpha * weight) / drift if drift > 0.0 else math.inf


def anytime_radius(counts: Counts, *, alpha: float) -> float:
    """The D at which a null is refuted at whatever time these counts were looked at."""
    from scipy.special import betaln, xlog1py, xlogy

    total = -math.log(alpha)
    for hits, trials in ((counts.true_positives, counts.members), (counts.false_positives, counts.non_members)):
        rate = hits / trials
        largest = float(xlogy(hits, rate) + xlog1py(trials - hits, -rate))
        total += largest - float(betaln(hits + 0.5, trials - hits + 0.5) - betaln(0.5, 0.5))
    return total


def anytime_epsilon_lower(counts: Counts, *, delta: float, alpha: float) -> float:
    """The ε proved at confidence 1 − ``alpha``, by whatever rule the trials were stopped."""
    return _anytime(counts, lambda epsilon: one_point(epsilon, delta), alpha=alpha)


def anytime_mu_lower(counts: Counts, *, alpha: float) -> float:
    """The same for μ, of a mechanism whose curve is Gaussian."""
    return _anytime(counts, GaussianBoundary, alpha=alpha)


def _anytime(counts: Counts, family: Callable[[float], Boundary], *, alpha: float) -> float:
    radius = anytime_radius(counts, alpha=alpha)

    def refuted(parameter: float) -> bool:
        return distance_at_least(family(parameter), counts) >= radius

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high):
        low, high = high, 2.0 * high
    while high - low > 1e-6 * high:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low
