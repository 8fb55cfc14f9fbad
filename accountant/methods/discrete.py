"""Discrete privacy profiles: a convex piecewise linear δ as losses with masses.

A profile δ as a function of α = e^ε is convex and falls from 1 to its mass at infinity. If it is
piecewise linear with kinks at α_i, then δ(ε) = p_∞ + Σ p_i (1 − e^{ε − l_i})₊ with l_i = ln α_i and
p_i = α_i × (change of slope at α_i): a mechanism with losses l_i of probability p_i under P.
So the PLD engine composes it with others (``curve_above``, ``curve_below``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.rounding import RECURSION

if TYPE_CHECKING:
    from affidavit.accountant.pld.curve import Curve

__all__ = ["DiscreteProfile", "chord_profile", "curve_above", "curve_below", "tangent_profile"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteProfile:
    """Losses (nats, increasing), their probabilities under P, and the probability of loss ∞."""

    losses: Array
    masses: Array
    infinite: float = 0.0

    def delta(self, epsilon: float) -> float:
        """p_∞ + Σ p_i (1 − e^{ε − l_i})₊, all terms positive."""
        above = int(np.searchsorted(self.losses, epsilon, side="right"))
        return self.infinite + float(-(self.masses[above:] @ np.expm1(epsilon - self.losses[above:])))


def chord_profile(x: Array, values: Array) -> DiscreteProfile:
    """The chords of the convex minorant, the one to (0, 1) on the left and the constant on the right, as losses.

    The values bound a convex function from above, so their convex minorant does; they need not be convex themselves.
    """
    kept: list[tuple[float, float, float]] = []  # x, value, and α × slope of the chord that ends there
    masses: list[float] = []  # α × change of slope at each kept point but the last
    for point, value in zip(x.tolist(), values.tolist(), strict=True):
        arriving = value - 1.0
        while kept:
            before, height, steepness = kept[-1]
            leaving = (value - height) / math.expm1(min(point - before, 700.0))
            if leaving > steepness:
                masses.append(leaving - steepness)
                arriving = (value - height) / -math.expm1(before - point)
                break
            kept.pop()
            if masses:
                masses.pop()
        kept.append((point, value, arriving))
    masses.append(-kept[-1][2])
    losses = np.array([point for point, _, _ in kept])
    return DiscreteProfile(losses, np.maximum(0.0, np.array(masses)), kept[-1][1])


def tangent_profile(x: Array, values: Array, slopes: Array) -> DiscreteProfile:
    """The upper envelope of the tangents (with 1 − α and 0) as losses: Graham's scan over lines."""
    keep = values > 0.0
    x, values, slopes = x[keep], values[keep], slopes[keep]
    # A line in α: intercept v + s, slope −s/α_i. Kept as (log of s/α_i, intercept), steepest first.
    lines: list[tuple[float, float]] = [(0.0, 1.0)]
    kinks: list[float] = []
    for xi, v, s in zip(x.tolist(), values.tolist(), slopes.tolist(), strict=True):
        if s <= 0.0:
            continue
        line = (math.log(s) - xi, min(1.0, v + s))
        while True:
            steep, intercept = lines[-1]
            if line[0] >= steep or line[1] >= intercept:
                break
            drop = intercept - line[1]
            meet = math.log(drop) - steep - math.log(-math.expm1(line[0] - steep))
            if kinks and meet <= kinks[-1]:
                lines.pop()
                kinks.pop()
                continue
            lines.append(line)
            kinks.append(meet)
            break
    steep, intercept = lines[-1]
    if intercept > 0.0:
        meet = math.log(intercept) - steep  # where the last line reaches 0
        lines.append((-math.inf, 0.0))
        kinks.append(meet)
    slopes_log = np.array([line[0] for line in lines])
    losses = np.array(kinks)
    masses = np.exp(slopes_log[:-1] + losses) * -np.expm1(slopes_log[1:] - slopes_log[:-1])
    # Rounding may leave a sum above the first intercept, 1; scale down.
    total = float(masses.sum())
    return DiscreteProfile(losses, masses / max(1.0, total), 0.0)


def curve_above(profile: DiscreteProfile, spacing: float) -> Curve:
    """A profile on a lattice, from above, as the engine's losses."""
    from affidavit.accountant.pld.atomic import Atomic
    from affidavit.accountant.pld.curve import FullLoss

    if profile.infinite >= 1.0:
        return FullLoss()
    kept = profile.masses > 0.0
    kept[0] |= not kept.any()
    losses, masses = profile.losses[kept], profile.masses[kept]
    masses[0] += max(0.0, 1.0 - profile.infinite - float(masses.sum()))
    atoms = (float(losses[0]), float(losses[0]) + spacing)
    curve = Atomic(losses, np.log(masses), infinity=profile.infinite, atoms=atoms)
    curve.accuracy = RECURSION
    return curve


def curve_below(profile: DiscreteProfile) -> Curve:
    """A profile from below as the engine's losses."""
    from affidavit.accountant.pld.atomic import Atomic
    from affidavit.accountant.pld.curve import NoLoss

    kept = profile.masses > 0.0
    if not kept.any():
        return NoLoss()
    curve = Atomic(profile.losses[kept], np.log(profile.masses[kept]), atoms=())
    curve.accuracy = RECURSION
    return curve
