r"""Where to look: a rough law of the loss, its cumulants, the saddle point, the window.

Nothing here is certified. A *sketch* merges the loss over some nine hundred intervals of uneven
width, fine where the mass is; it decides the tilt θ, the reach of the grids and the window of
the transform. The bounds that the composer charges are computed from the real masses.

For the composed loss with K(t) = Σ_j count_j ln E_P e^{t L_j}, tilting by θ makes K'(θ) the mean,
and to first order (a normal law of variance s² = K''(θ) under the tilt)

    δ(K'(θ)) ≈ e^{K(θ) − θ K'(θ)} · ½ [w(θ s) − w((θ+1) s)],   w(x) = erfcx(x/√2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from scipy.special import erfcx

from affidavit.accountant.pld.curve import Array, Curve, Logs
from affidavit.accountant.pld.discretise import less, parted

__all__ = ["Saddle", "Sketch", "cumulants", "find_saddle", "sketch"]

_GEOMETRIC = np.geomspace(1e-12, 1e15, 360)
_POINTS = np.concatenate((-_GEOMETRIC[::-1], [0.0], _GEOMETRIC))
_SHARES = np.geomspace(1e-6, 1.0, 60)
_BODY, _RIM = math.log(1e-16), -250.0
_THETAS = np.concatenate(
    (-np.array([0.97, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05, 0.02]), [0.0], np.geomspace(1e-9, 1e9, 64))
)
NEGLIGIBLE = 1e-6
"""Relative share of δ that truncations and folding may cost."""


@dataclass(frozen=True, slots=True)
class Sketch:
    """A curve's finite losses merged over few intervals.

    At the edges: ln P(L > l), finite part; ln P(L <= l); and l + ln Q(L <= l), which is at least that and
    bounds what the profile owes to losses up to l < 0.
    """

    losses: Array
    log_p: Array
    edges: Array
    log_tail: Array
    log_head: Array
    log_low: Array

    def reach(self, *, log_low: float, log_tail: float) -> tuple[float, float]:
        """Losses below and above which less than the given masses matter."""
        low = np.flatnonzero(np.where(self.edges > 0.0, self.log_head, self.log_low) <= log_low)
        high = np.flatnonzero(self.log_tail <= log_tail)
        bottom = self.edges[low[-1]] if low.size else self.edges[0]
        top = self.edges[high[0]] if high.size else self.edges[-1]
        return float(bottom), float(top)

    def within(self, bottom: float, top: float) -> Sketch:
        """Without the losses above ``top``, and those below ``bottom`` raised to it.

        So far out a law may have moments that rule the cumulants and no mass that matters.
        """
        kept = self.losses <= top
        kept[np.argmax(self.log_p)] = True
        return replace(self, losses=np.maximum(self.losses[kept], bottom), log_p=self.log_p[kept])


@lru_cache(maxsize=512)
def sketch(curve: Curve) -> Sketch:
    """Evaluate ``curve`` on uneven points, refined until its body is resolved."""
    ends = [x for x in (curve.low, curve.high) if math.isfinite(x)]
    # Mass gathers near a finite end, where the profile bends most.
    close = [
        end + sign * max(abs(end), 1e-12) * _SHARES for end, sign in ((curve.low, 1), (curve.high, -1)) if end in ends
    ]
    edges = np.unique(np.concatenate((_POINTS, ends, curve.atoms[:64], *close)))
    inside = (edges >= curve.low) & (edges <= curve.high)
    edges = edges[inside]
    if edges.size == 0:
        edges = np.array([0.0])
    logs = curve.logs(edges)
    for log_mass in (_BODY, _RIM):
        edges, logs = _resolved(curve, edges, logs, log_mass)
    return _merge(curve, edges, logs)


def _resolved(curve: Curve, edges: Array, logs: Logs, log_mass: float) -> tuple[Array, Logs]:
    """With even points added between the losses beyond which less than the given mass lies."""
    bottom, top = -math.inf, math.inf
    for _ in range(8):
        low = np.flatnonzero(logs.p_head <= log_mass)
        high = np.flatnonzero(less(logs.p_tail, curve.infinity) <= log_mass)
        new_bottom = float(edges[low[-1]]) if low.size else float(edges[0])
        new_top = float(edges[high[0]]) if high.size else float(edges[-1])
        if new_top - new_bottom > 0.8 * (top - bottom) or new_top <= new_bottom:
            break
        bottom, top = new_bottom, new_top
        added = np.setdiff1d(np.linspace(bottom, top, 250), edges)
        if not added.size:
            break
        edges = np.concatenate((edges, added))
        order = np.argsort(edges, kind="stable")
        edges = edges[order]
        logs = Logs(*(np.concatenate(pair)[order] for pair in zip(logs, curve.logs(added), strict=True)))
    return edges, logs


def _merge(curve: Curve, edges: Array, logs: Logs) -> Sketch:
    log_tail = less(logs.p_tail, curve.infinity)
    lower_edge = np.concatenate(([edges[0]], edges))
    upper_edge = np.concatenate((edges, [edges[-1]]))
    log_p = _log_bins(log_tail, logs.p_head)
    log_q = _log_bins(logs.q_tail, logs.q_head)
    with np.errstate(invalid="ignore"):
        losses = np.clip(np.nan_to_num(log_p - log_q, nan=0.0), lower_edge, upper_edge)
    keep = log_p > -2000.0
    if not keep.any():
        keep[0] = True
    return Sketch(losses[keep], log_p[keep], edges, log_tail, logs.p_head, edges + logs.q_head)


def _log_bins(log_tail: Array, log_head: Array) -> Array:
    """ln of the masses below, between and above the edges."""
    with np.errstate(divide="ignore", invalid="ignore"):
        near, far = parted(log_tail, log_head)
        between = np.where(far < near, near + np.log(-np.expm1(np.minimum(far - near, 0.0))), -math.inf)
    return np.concatenate(([log_head[0]], between, [log_tail[-1]]))


@dataclass(frozen=True, slots=True)
class Saddle:
    """Tilt and window for one target.

    ``theta`` >= 0 is the tilt, ``epsilon`` and ``log_delta`` the rough answer, [``bottom``, ``top``] the losses
    that matter; ``up`` and ``down`` are exponents above and below θ that are good for Chernoff bounds outside.
    """

    theta: float
    epsilon: float
    log_delta: float
    deviation: float
    bottom: float
    top: float
    up: tuple[float, ...]
    down: tuple[float, ...]


def cumulants(parts: Sequence[tuple[Sketch, int]], t: Array) -> tuple[Array, Array, Array]:
    """K, K' and K'' of the composed sketches at the tilts ``t``."""
    k0, k1, k2 = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
    for part, count in parts:
        weight = np.multiply.outer(t, part.losses)
        weight += part.log_p
        peak = weight.max(axis=1)
        weight -= peak[:, None]
        np.exp(weight, out=weight)
        total = weight.sum(axis=1)
        mean = weight @ part.losses / total
        distance = np.subtract(part.losses, mean[:, None])
        distance *= distance
        distance *= weight
        spread = distance.sum(axis=1) / total
        k0 += count * (peak + np.log(total))
        k1 += count * mean
        k2 += count * spread
    return k0, k1, k2


def _log_delta(t: Array, k0: Array, k1: Array, k2: Array) -> Array:
    s = np.sqrt(np.maximum(k2, 1e-300) / 2.0)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        factor = 0.5 * (erfcx(t * s) - erfcx((t + 1.0) * s))
        result = k0 - t * k1 + np.log(factor)
    return np.where(np.isnan(result), math.inf, result)


def _solve(parts: Sequence[tuple[Sketch, int]], epsilon: float | None, log_delta: float) -> float:
    """θ at which the mean is ``epsilon`` or, if None, the rough δ is e^{log_delta} or the mean 0."""
    thetas = _THETAS
    for _ in range(3):
        k0, k1, k2 = cumulants(parts, thetas)
        low_enough = (_log_delta(thetas, k0, k1, k2) <= log_delta) & (k1 >= 0.0)
        # No further than where δ leaves float64: ε may be at the very top of the losses.
        reached = low_enough if epsilon is None else (k1 >= epsilon) | (k0 - thetas * epsilon < -760.0)
        # From the last tilt that is too small on: far below, the sketch may mislead.
        missed = np.flatnonzero(~reached)
        if missed.size == 0:
            return float(thetas[0])
        i = int(missed[-1])
        if i == thetas.size - 1:
            return float(thetas[-1])
        thetas = np.linspace(thetas[i], thetas[i + 1], 12)
    return float(thetas[-1])


def find_saddle(
    parts: Sequence[tuple[Sketch, int]], *, epsilon: float | None, delta: float | None
) -> tuple[Saddle, tuple[tuple[float, float], ...]]:
    """The tilt, the window outside which mass is negligible, and each part's reach.

    Give what is known of the answer: ε, δ or both; what is missing is estimated.
    """
    log_share = math.log(NEGLIGIBLE) - math.log(sum(count for _, count in parts))
    log_delta = -40.0 if delta is None else math.log(max(delta, 1e-320))
    for _ in range(6):
        reaches = [part.reach(log_low=log_share, log_tail=log_share + log_delta) for part, _ in parts]
        cut = [(part.within(*ends), count) for (part, count), ends in zip(parts, reaches, strict=True)]
        saddle = _saddle(cut, epsilon, log_delta, known=delta is not None)
        if delta is not None or abs(saddle.log_delta - log_delta) < 0.5:
            break
        log_delta = saddle.log_delta
    return saddle, tuple(reaches)


def _saddle(parts: Sequence[tuple[Sketch, int]], epsilon: float | None, log_delta: float, *, known: bool) -> Saddle:
    solved = _solve(parts, epsilon, log_delta)
    at = np.array([solved, max(solved, 0.0)])
    k0, k1, k2 = cumulants(parts, at)
    if epsilon is None:
        epsilon = max(float(k1[0]), 0.0)
    if not known:
        log_delta = float(_log_delta(at, k0, k1, k2)[0])
    log_delta = min(max(log_delta, -730.0), 0.0)
    theta, k_theta, mean, deviation = float(at[1]), float(k0[1]), float(k1[1]), math.sqrt(float(k2[1]))
    small = math.log(NEGLIGIBLE)
    steps = max(theta, 1.0 / max(deviation, 1e-12), 1e-9) * np.geomspace(0.01, 30.0, 40)
    up, down = theta + steps, theta - steps
    k_up, k_down = cumulants(parts, up)[0], cumulants(parts, down)[0]
    # Above: untilted P(L > x) <= e^{K(t) − t x} is a small share of δ.
    tops = (k_up - log_delta - small) / up
    # Folded in: tilted mass e^{K(t) − K(θ) − (t−θ) x} is a small share of δ in tilted units.
    share = min(small + log_delta - k_theta + theta * epsilon + math.log1p(theta), small)
    folds = (k_up - k_theta - share) / steps
    bottoms = (k_theta - k_down + share) / steps
    i, j, k = int(np.argmin(tops)), int(np.argmin(folds)), int(np.argmax(bottoms))
    top = max(float(tops[i]), float(folds[j]), epsilon)
    bottom = min(float(bottoms[k]), epsilon - 0.5 * deviation, mean)
    # The sketch is rough: leave room, and several exponents to choose from.
    room = 0.02 * (top - bottom)
    near = sorted({n for m in (i, j) for n in range(m - 6, m + 3, 2) if 0 <= n < steps.size})
    below = sorted(n for n in range(k - 6, k + 3, 2) if 0 <= n < steps.size)
    return Saddle(
        theta=theta,
        epsilon=epsilon,
        log_delta=log_delta,
        deviation=deviation,
        bottom=bottom - room,
        top=top + room,
        up=tuple(float(up[n]) for n in near),
        down=tuple(float(down[n]) for n in below),
    )
