"""Where grid points go: merging parts, putting atoms and smooth ends on the grid, truncation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from affidavit.accountant.pld.curve import Curve
from affidavit.accountant.pld.discretise import Masses, Side, discretise_lower, discretise_upper, loss_rounding
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.rounding import UNIT

__all__ = ["MAX_POINTS", "CurveParts", "aligned", "anchor", "lattice", "masses", "merged"]

MAX_POINTS = 2**20
CurveParts = tuple[tuple[Curve, int], ...]


def merged(curves: Sequence[tuple[Curve, int]]) -> CurveParts:
    """Gaussians become one (their μ² add up), equal curves one part, curves without loss none."""
    gaussians = [(curve, count) for curve, count in curves if isinstance(curve, Gaussian)]
    counts: dict[Curve, int] = {}
    for curve, count in curves:
        if not isinstance(curve, Gaussian) and (curve.high > 0.0 or curve.infinity > 0.0):
            counts[curve] = counts.get(curve, 0) + count
    if gaussians:
        # hypot-like: the squares of tiny or huge μ must not leave float64.
        peak = max(curve.mu for curve, _ in gaussians)
        squares = math.fsum(count * (curve.mu / peak) ** 2 for curve, count in gaussians)
        counts[_gaussian(peak * math.sqrt(squares))] = 1
    return tuple(counts.items())


@lru_cache(maxsize=64)
def _gaussian(mu: float) -> Gaussian:
    return Gaussian(mu)


def aligned(parts: CurveParts, step: float) -> float:
    """At most ``step``, such that the atoms of the main atomic curve lie on the grid."""
    gaps = [(count * gap, gap) for curve, count in parts if (gap := lattice(curve)) > 0.0]
    gap = max(gaps)[1] if gaps else 0.0
    if gap < step / 8.0:
        return step
    return gap / max(1, math.ceil(gap / step - 1e-9))


def lattice(curve: Curve) -> float:
    """The spacing of the grid on which all atoms lie; 0 if there is none or fewer than two."""
    atoms = curve.atoms[:64]
    if len(atoms) < 2:
        return 0.0
    gaps = np.diff(atoms)
    gap = float(gaps.min())
    if gap <= 0.0:
        return 0.0
    multiples = gaps / gap
    return gap if float(np.max(np.abs(multiples - np.round(multiples)))) < 1e-9 else 0.0


@lru_cache(maxsize=4096)
def anchor(curve: Curve, step: float) -> float:
    """A loss to put on the grid: an atom, or where a smooth end of the support merges.

    A profile below the curve has its outermost kink inside the support; merging all losses up
    to m into one puts it at ln P(L <= m)/Q(L <= m). With m half a step above, that point is a fixed
    point, and a grid much coarser than the curve still has a good lower side. Mirrored at
    the upper end.
    """
    if 0.0 in curve.atoms:
        # Sampling leaves most of the mass there.
        return 0.0
    if curve.atoms:
        return max(curve.atoms, key=lambda atom: (abs(atom), atom))
    if not (math.isfinite(curve.low) or math.isfinite(curve.high)):
        return 0.0
    at_low = math.isfinite(curve.low)
    end, inward = (curve.low, step) if at_low else (curve.high, -step)
    # The fixed point lies in [end, end + inward]; two rounds of 64 points place it to step/4096.
    near, far = 0.0, 1.0
    for _ in range(2):
        shares = np.linspace(near, far, 65)[1:]
        at = end + inward * shares
        logs = curve.logs(at + 0.5 * inward)
        p, q = (logs.p_head, logs.q_head) if at_low else (logs.p_tail, logs.q_tail)
        with np.errstate(invalid="ignore"):
            inside = (at >= p - q) if at_low else (at <= p - q)
        first = int(np.argmax(inside & (p > -math.inf))) if inside.any() else 63
        near, far = float(shares[first - 1]) if first else near, float(shares[first])
    return float(end + inward * far)


def masses(
    parts: CurveParts, reaches: Sequence[tuple[float, float]], *, side: Side, step: float
) -> list[tuple[Masses, int]]:
    """Each part discretised between its ``reaches`` on a grid of this ``step``."""
    discretise = discretise_upper if side == "upper" else discretise_lower
    result = []
    for (curve, count), (bottom, top) in zip(parts, reaches, strict=True):
        if curve.low == curve.high:
            # One finite loss: exact from both sides.
            only = Masses(curve.low, step, np.array([1.0 - curve.infinity]), curve.infinity, 8.0 * UNIT)
            result.append((only, count))
            continue
        on_grid = anchor(curve, step)
        low = math.floor((bottom - on_grid) / step + 1e-9)
        high = max(math.ceil((top - on_grid) / step - 1e-9), low + 1)
        ends = on_grid + low * step, on_grid + low * step + (high - low) * step
        if ends[1] + loss_rounding(np.array(ends)) < top:  # an atom beyond the last point would count as infinite
            high += 1
        points = min(high - low + 1, MAX_POINTS)
        result.append((discretise(curve, origin=on_grid + low * step, step=step, points=points), count))
    return result
