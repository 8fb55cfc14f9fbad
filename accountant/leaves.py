"""What the issuing engine knows of one use of each leaf kind of the core: all of it here, but its pair (``pld.steps``).

Sources of ρ(α), a bound of the Rényi divergence of order α in both directions:

- gaussian: α/(2σ²); laplace: Mironov 2017, table II;
- discrete-gaussian: α/(2σ²) too, σ in units of the shift (Canonne, Kamath, Steinke 2020, proposition 5);
- pure: randomised response is the worst (Bun, Steinke 2016, proposition 3.3's extremal pair);
- exponential: the largest over the two-point pairs t, t − η, in closed form, at most α η²/8
  (Dong, Durfee, Rogers 2020; Cesar, Rogers 2021, lemma 3.4);
- zcdp: α ρ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache, partial

from affidavit.accountant.nodes import (
    Approximate,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    Leaf,
    Pure,
    ZeroConcentrated,
)
from affidavit.accountant.rounding import POWER

__all__ = ["NONE", "UNBOUNDED", "Facts", "Loss", "Renyi", "bounded_range", "facts"]

Renyi = Callable[[float], float]
"""ρ as a function of the order α >= 1."""
Loss = tuple[Fraction | float, Fraction | float]
"""(lower, upper) of a largest loss, exact where it is stated."""

NONE: Loss = (Fraction(0), Fraction(0))
UNBOUNDED: Loss = (math.inf, math.inf)
_LESS_NOISE = {"noise_multiplier": -1}


@dataclass(frozen=True, slots=True)
class Facts:
    """Of one use. ``dearer``: the fields whose growth costs more (+1) or less (−1).

    ``size`` is about the ρ of zCDP, and ``rho`` that itself, if there is one; ``mean`` about the mean loss, no more
    than ``size``. ``stated``: the ε and δ of which it is (ε, δ)-DP. ``renyi``: ρ(α), if it is bounded.
    """

    size: float
    dearer: Mapping[str, int] = field(default_factory=dict[str, int])
    rho: float | None = None
    mean: float = math.inf
    stated: tuple[float, float] | None = None
    largest: Loss = UNBOUNDED
    renyi: Renyi | None = None

    @property
    def is_endless(self) -> bool:
        """Whether it loses more than any ε, though nothing of it fails."""
        return self.largest[0] == math.inf and self.stated is None


@lru_cache(maxsize=4096)
def facts(leaf: Leaf) -> Facts:
    """All of a leaf."""
    match leaf:
        case Gaussian(noise_multiplier=sigma):
            return _concentrated(_size_of_noise(sigma), UNBOUNDED, _LESS_NOISE)
        case ZeroConcentrated(rho=rho):  # it admits the Gaussian of equal ρ
            return _concentrated(rho, UNBOUNDED if rho > 0.0 else NONE, {"rho": 1})
        case DiscreteGaussian(noise_multiplier=sigma, granularity=granularity):
            shift = max(1.0, math.ceil(1.0 / granularity * (1.0 - 1e-12)) * granularity)
            rho = 0.5 * (shift / sigma) ** 2 if sigma > 0.0 else math.inf
            largest = (Fraction(0), math.inf) if leaf.is_coarse else UNBOUNDED
            return Facts(_size_of_noise(sigma), largest=largest, renyi=partial(_in_proportion, rho=rho))
        case Laplace(noise_multiplier=scale):
            size = _size_of_noise(scale)
            if scale == 0.0:
                return Facts(size, _LESS_NOISE, size, stated=(math.inf, 0.0), renyi=partial(_in_proportion, rho=size))
            epsilon, exact = 1.0 / scale, 1 / Fraction(scale)
            mean, renyi = epsilon + math.expm1(-epsilon), partial(_laplace, epsilon=epsilon)
            return Facts(size, _LESS_NOISE, size, mean, (epsilon, 0.0), (exact, exact), renyi)
        case Pure(epsilon=epsilon):
            return _stated(epsilon, 0.0, {"epsilon": 1})
        case Approximate(epsilon=epsilon, delta=delta):
            return _stated(epsilon, delta, {"epsilon": 1, "delta": 1})
        case Exponential(range=eta):
            rho, largest = eta * eta / 8.0, (Fraction(eta), Fraction(eta))
            return Facts(rho, {"range": 1}, rho, rho, (eta, 0.0), largest, partial(bounded_range, eta=eta))
    raise TypeError(type(leaf).__name__)


def _size_of_noise(scale: float) -> float:
    return 0.5 / scale / scale if scale > 0.0 else math.inf


def _concentrated(rho: float, largest: Loss, dearer: Mapping[str, int]) -> Facts:
    return Facts(rho, dearer, rho, rho, largest=largest, renyi=partial(_in_proportion, rho=rho))


def _stated(epsilon: float, delta: float, dearer: Mapping[str, int]) -> Facts:
    size, mean = epsilon * epsilon / 2.0, epsilon * math.tanh(epsilon / 2.0)
    if delta > 0.0:
        return Facts(size, dearer, None, mean, (epsilon, delta))
    exact = Fraction(epsilon)
    return Facts(size, dearer, size, mean, (epsilon, 0.0), (exact, exact), partial(_pure, epsilon=epsilon))


def _in_proportion(order: float, *, rho: float) -> float:
    return order * rho


def _pure(order: float, *, epsilon: float) -> float:
    """(1/(α−1)) ln (e^{αε} + e^{(1−α)ε})/(1 + e^ε), through the excess over 1 where that is small."""
    over = order - 1.0
    if over * epsilon < 30.0:
        excess = math.expm1(over * epsilon) * -math.expm1(-order * epsilon) / (1.0 + math.exp(-epsilon))
        return min(epsilon, math.log1p(excess) / over * (1.0 + POWER))
    return min(
        epsilon, (order * epsilon - epsilon - math.log1p(math.exp(-epsilon)) + math.exp(-30.0)) / over * (1.0 + POWER)
    )


def _laplace(order: float, *, epsilon: float) -> float:
    """(1/(α−1)) ln [α e^{(α−1)ε} + (α−1) e^{−αε}]/(2α−1), ε = 1/scale."""
    over = order - 1.0
    if over * epsilon < 30.0:
        excess = (order * math.expm1(over * epsilon) + over * math.expm1(-order * epsilon)) / (2.0 * order - 1.0)
        # Both terms are near ±α(α−1)ε for small ε: their cancellation error is charged.
        excess += 4e-16 * order * over * epsilon
        return min(epsilon, math.log1p(excess) / over * (1.0 + POWER))
    return min(
        epsilon, (over * epsilon + math.log(order / (2.0 * order - 1.0)) + math.exp(-30.0)) / over * (1.0 + POWER)
    )


def bounded_range(order: float, eta: float) -> float:
    """The largest divergence over losses t, t − η; the maximising t is a stationary point in closed form."""
    zcdp = order * eta * eta / 8.0
    if eta < 1e-3:
        return zcdp
    over = order - 1.0
    tail = math.exp(-over * eta)
    slope = -math.expm1(-over * eta) / -math.expm1(-eta)
    t = min(max(eta + math.log(over * (slope + tail) / (order * slope)), 0.0), eta)
    share = slope * -math.expm1(t - eta) + tail
    if share <= 0.0:  # an order so large that the maximising t is η in float64
        return min(zcdp, eta)
    log_moment = over * t + math.log(share)
    return max(0.0, min(zcdp, eta, (log_moment + 4e-15 * (1.0 + order * eta)) / over))
