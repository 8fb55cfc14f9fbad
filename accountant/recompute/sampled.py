"""Subsample nodes: the loss of one use, by scheme, relation, direction and side.

``removed``: the changed record is in the first dataset, ``added``: in the second; each direction is
composed apart. ``middle`` serves lower sides only. Under substitution (and zero-out) without
replacement the upper side is one symmetric curve, the lower side explicit neighbouring data:
everyone else contributes the same constant, so that an unsampled record leaves no trace.
The theorems are in ``smooth``; for atoms they are applied to each atom.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import mpmath
import numpy as np

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Exponential, Gaussian, Plan, Poisson, Pure, WithoutReplacement
from affidavit.accountant.recompute.atoms import POINT_MASS, AtomicLaw, binomial_law
from affidavit.accountant.recompute.chords import SampledExponential, Seen, chord_law, exponential_law
from affidavit.accountant.recompute.events import every_event, one_mechanism
from affidavit.accountant.recompute.reading import steps
from affidavit.accountant.recompute.smooth import (
    SmoothLaw,
    diluted_pair,
    explicit_pair,
    removal_pair,
    replacement_curve,
)
from affidavit.accountant.validate import Relation

__all__ = ["DIRECTIONS", "Direction", "moved_law", "sampled_law"]

Direction = Literal["removed", "added", "middle"]
DIRECTIONS: tuple[Direction, ...] = ("removed", "added", "middle")

_UNIT = 2.0**-53
_CELLS = 4000
_REACH = 9.0
"""Standard deviations of the noise up to which a loss is told apart; what lies above becomes +∞."""


def sampled_law(
    node: Poisson | WithoutReplacement, relation: Relation, direction: Direction, *, upper: bool
) -> SmoothLaw | AtomicLaw | SampledExponential:
    """The privacy loss of one use. Raises ``NotSupported`` where no formula here covers it."""
    rate = node.rate if isinstance(node, Poisson) else node.sample / node.population
    replaces = isinstance(node, WithoutReplacement) and relation != "add-remove"
    diluted = isinstance(node, Poisson) and relation == "substitution"
    if diluted and isinstance(node, Poisson) and node.absent is not None and 0.0 < rate < 1.0:
        return _present_or_absent(rate, node.of, node.absent, removed=direction != "added", upper=upper)
    eta = _one_range(node.of)
    if eta is not None and upper and 0.0 < rate < 1.0:
        seen: Seen = "diluted" if diluted else "replaced" if replaces else "removed"
        return SampledExponential(eta, rate, "added" if seen == "removed" and direction == "added" else seen)
    sigma, inner = _inner(node.of, upper=upper)
    if sigma is not None:
        if diluted:
            return diluted_pair(rate=rate, sigma=sigma)
        if replaces and upper:
            return replacement_curve(rate=rate, sigma=sigma)
        if replaces and direction == "middle":
            return explicit_pair(rate=rate, sigma=sigma, before=0.5)
        return removal_pair(rate=rate, sigma=sigma, removed=direction != "added")
    if diluted:
        return _diluted_atoms(inner, rate)
    if replaces and upper:
        return _replacement_atoms(inner, rate)
    return _removal_atoms(inner, rate) if direction != "added" else _addition_atoms(inner, rate)


def moved_law(
    node: Poisson | WithoutReplacement, direction: Direction, *, leaves: bool, upper: bool
) -> SmoothLaw | AtomicLaw | SampledExponential:
    """One use of a part that the changed record ``leaves`` or enters, its cost stated for zero-out.

    What is removed from one part is added to the other; with `absent` stated, the sample may hold the record's
    place without it: the curve of both costs. Without replacement the sample is filled in the record's
    place, which is what zero-out means there.
    """
    relation: Relation = "substitution" if isinstance(node, Poisson) and node.absent is not None else "zero-out"
    turned: dict[Direction, Direction] = {"removed": "added", "added": "removed", "middle": "middle"}
    return sampled_law(node, relation, direction if leaves else turned[direction], upper=upper)


def _inner(of: Plan, *, upper: bool) -> tuple[float | None, AtomicLaw]:
    """What runs on the sample: the σ of one Gaussian, or atoms."""
    if (sigma := _sigma(of)) is not None:
        return sigma, POINT_MASS
    law = POINT_MASS
    for leaf, uses in steps(of):
        match leaf:
            case Pure(epsilon=epsilon):
                part = binomial_law(epsilon=epsilon, delta=0.0, uses=uses)
            case Approximate(epsilon=epsilon, delta=delta):
                part = binomial_law(epsilon=epsilon, delta=delta, uses=uses)
            case Exponential(range=eta):
                part = exponential_law(eta, upper=upper).power(uses, upper=upper) if eta > 0.0 else POINT_MASS
            case Gaussian(noise_multiplier=0.0):
                part = AtomicLaw(np.zeros(1), np.zeros(1), 1.0)
            case _:
                raise NotSupported(
                    f"the verifier has no formula for {leaf.kind!r} inside a sample", hint="Remove `--recompute`."
                )
        law = law.compose(part, upper=upper)
    return None, law


def _q_masses(law: AtomicLaw) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
    """Q-masses of the atoms, and the Q-mass where P has none (the pairs used are symmetric)."""
    return law.masses * np.exp(-law.losses), law.infinite


def _removal_atoms(law: AtomicLaw, rate: float) -> AtomicLaw:
    """(γP + (1−γ)Q, Q)."""
    q, only_q = _q_masses(law)
    growth = rate * np.expm1(law.losses)
    losses, masses = np.log1p(growth), q * (1.0 + growth)
    if only_q > 0.0 and rate < 1.0:
        losses = np.concatenate((losses, [math.log1p(-rate)]))
        masses = np.concatenate((masses, [only_q * (1.0 - rate)]))
    return _sorted(losses, masses, rate * law.infinite, law)


def _addition_atoms(law: AtomicLaw, rate: float) -> AtomicLaw:
    """(Q, γP + (1−γ)Q)."""
    q, only_q = _q_masses(law)
    losses, masses, infinite = -np.log1p(rate * np.expm1(law.losses)), q, 0.0
    if only_q > 0.0:
        if rate < 1.0:
            losses = np.concatenate((losses, [-math.log1p(-rate)]))
            masses = np.concatenate((masses, [only_q]))
        else:
            infinite = only_q
    return _sorted(losses, masses, infinite, law)


def _replacement_atoms(law: AtomicLaw, rate: float) -> AtomicLaw:
    """H(α) = γ h(1 + (α−1)/γ) above 1, its mirror image below, the rest at loss 0."""
    above = law.losses > 0.0
    q = law.masses[above] * np.exp(-law.losses[above])
    growth = rate * np.expm1(law.losses[above])
    high = q * (1.0 + growth)
    infinite = rate * law.infinite
    middle = max(0.0, 1.0 - infinite - float(high.sum()) - float(q.sum()))
    losses = np.concatenate((-np.log1p(growth), [0.0], np.log1p(growth)))
    return _sorted(losses, np.concatenate((q, [middle], high)), infinite, law)


def _diluted_atoms(law: AtomicLaw, rate: float) -> AtomicLaw:
    """With probability 1 − q nothing, else the pair itself."""
    losses = np.concatenate((law.losses, [0.0]))
    return _sorted(losses, np.concatenate((rate * law.masses, [1.0 - rate])), rate * law.infinite, law)


def _present_or_absent(rate: float, of: Plan, absent: Plan, *, removed: bool, upper: bool) -> SmoothLaw | AtomicLaw:
    """Poisson sampling under substitution, both costs on the sample known."""
    sigma, gone = _sigma(of), _sigma(absent)
    if sigma is not None and gone is not None and gone >= sigma:
        if upper:
            return _present_or_absent_gaussian(rate, sigma, gone)
        return removal_pair(rate=rate, sigma=gone, removed=removed)
    costs, presence = _pure_cost(of), _pure_cost(absent)
    if costs is None or presence is None:
        raise NotSupported(
            "the verifier reads `absent` where it and what it goes with are pure or exponential, or Gaussian and it "
            "costs less",
            hint="Remove `--recompute`.",
        )
    if costs[0] == 0.0 or presence[0] == 0.0:
        return _diluted_atoms(_inner(of, upper=upper)[1], rate)
    if upper:
        return every_event(replaced=costs[0], absent=presence[0], rate=rate)
    return one_mechanism(replaced=costs[1], absent=presence[1], rate=rate, removed=removed)


def _sigma(of: Plan) -> float | None:
    """σ of the one Gaussian that all of it amounts to."""
    inside = steps(of)
    if not inside or not all(isinstance(leaf, Gaussian) and leaf.noise_multiplier > 0.0 for leaf, _ in inside):
        return None
    precision = math.fsum(n / leaf.noise_multiplier**2 for leaf, n in inside if isinstance(leaf, Gaussian))
    return 1.0 / math.sqrt(precision)


def _one_range(of: Plan) -> float | None:
    """η, if it is one exponential use."""
    match steps(of):
        case ((Exponential(range=eta), 1),) if eta > 0.0:
            return eta
    return None


def _pure_cost(of: Plan) -> tuple[float, float] | None:
    """ε of pure and exponential uses together, and of one that some mechanism among them spends alone."""
    whole: list[float] = []
    single = 0.0
    for leaf, uses in steps(of):
        match leaf:
            case Pure(epsilon=cost):
                single = max(single, cost)
            case Exponential(range=cost):
                single = max(single, cost / 2.0)
            case _:
                return None
        whole.append(cost * uses)
    total = math.fsum(whole)
    return total if len(whole) == 1 and steps(of)[0][1] == 1 else math.nextafter(total, math.inf), single


@lru_cache(maxsize=8)
def _present_or_absent_gaussian(rate: float, replaced: float, absent: float) -> AtomicLaw:
    """σ of replacing and of taking away known, absent >= replaced: an upper side.

    Advanced joint convexity (docs/theory/sampling.md; Balle, Barthe and Gaboardi 2018, Theorem 1): for
    α = 1 + (e^l − 1)/q >= 1, β = e^l/α, H(e^l) <= q[(1−β) k(α) + β h(α)], and H(a) = 1 − a + a H(1/a) below 1. Convex,
    because P(L > log α) under h exceeds that under k. Joined by chords.
    """
    q = mpmath.mpf(rate)

    def curve(loss: mpmath.mpf) -> mpmath.mpf:
        if loss < 0:
            return -mpmath.expm1(loss) + mpmath.exp(loss) * curve(-loss)
        inner = 1 + mpmath.expm1(loss) / q
        beta = mpmath.exp(loss) / inner
        return q * ((1 - beta) * _gaussian_stick(inner, absent) + beta * _gaussian_stick(inner, replaced))

    top = mpmath.log1p(q * mpmath.expm1(1 / (2 * replaced**2) + _REACH / replaced))
    return chord_law(curve, low=-top, high=top, cells=_CELLS)


def _gaussian_stick(alpha: mpmath.mpf, sigma: float) -> mpmath.mpf:
    """Hockey-stick of N(1, σ²) against N(0, σ²) at ``alpha`` (Balle and Wang 2018, Theorem 8)."""
    mu = 1 / mpmath.mpf(sigma)
    shift = mpmath.log(alpha) / mu
    return mpmath.ncdf(mu / 2 - shift) - alpha * mpmath.ncdf(-mu / 2 - shift)


def _sorted(losses: object, masses: object, infinite: float, origin: AtomicLaw) -> AtomicLaw:
    loss, mass = np.asarray(losses, dtype=float), np.asarray(masses, dtype=float)
    order = np.argsort(loss, kind="stable")
    return AtomicLaw(loss[order], mass[order], infinite, origin.relative_error + 32.0 * _UNIT)
