"""Poisson sampling under substitution of a pure mechanism: all events that the costs on the sample allow.

Let X, A, A' be the outputs without the place, with the old record, with the new one; A and A' (a, 0)-close to X, and
(r, 0)-close to each other. An event has probabilities v = (x, y, y') under the three. The costs say that v and its
complement (1, 1, 1) − v lie in the cone

    e^{-a} x <= y, y' <= e^a x,      e^{-r} y <= y' <= e^r y,

and every such v is an event of a mechanism of two outcomes. So the events form a polytope, cut out by twelve planes.
Under the data sets an event has probabilities P = (1−q) x + q y and Q = (1−q) x + q y': the polytope's shadow on the
(Q, P) plane. δ(ε) = max P − e^ε Q is found on the shadow's upper edge, from (0, 0) to (1, 1), and a concave edge is the
power function of a pair of distributions: each of its sides is an outcome of loss log(ΔP/ΔQ) and P-mass ΔP. That pair
is the upper side; it dominates every use. The corners are found by trying all triples of planes, in mpmath.

Lower side: for r >= 2a the shadow's edge is that of one mechanism of three outcomes,
X ∝ (1, e^a − 1, 1), A ∝ (e^a, 1 − e^{-a}, e^{-a}), A' ∝ (e^{-a}, 1 − e^{-a}, e^a): so both sides are one. Else the
event, hence a mechanism of two outcomes, of the largest squared loss.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, pairwise

import mpmath
import numpy as np

from affidavit.accountant.recompute.atoms import POINT_MASS, AtomicLaw

__all__ = ["every_event", "one_mechanism"]

_DIGITS = 400
"""Rounding is at 1e-300 of a corner, below all tolerances; a corner lost to them costs less than 1e-60."""
_LEAST = 1e-9
"""Costs below it are charged as this much, and as nothing below: their planes are all but parallel."""
_UNIT = 2.0**-53

Corner = tuple[mpmath.mpf, mpmath.mpf]
"""(Q, P) of an event."""
Row = tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]


def every_event(*, replaced: float, absent: float, rate: float) -> AtomicLaw:
    """The law whose δ is the largest that any event reaches; costs > 0."""
    replaced, absent = max(replaced, _LEAST), max(absent, _LEAST)
    with mpmath.workdps(_digits(replaced, absent)):
        edge = _upper_edge(_corners(replaced, absent, rate))
        sides = [(q - before_q, p - before_p) for (before_q, before_p), (q, p) in pairwise(edge)]
        return _law([(dq, dp) for dq, dp in sides if dp > 0])


def one_mechanism(*, replaced: float, absent: float, rate: float, removed: bool) -> AtomicLaw:
    """The lower side, in the order asked for."""
    if min(replaced, absent) < _LEAST:
        return POINT_MASS
    if replaced >= 2.0 * absent:
        return every_event(replaced=replaced, absent=absent, rate=rate)
    with mpmath.workdps(_digits(replaced, absent)):
        choices = [((q, p), (1 - q, 1 - p)) for q, p in _corners(replaced, absent, rate) if 0 < q < 1 and 0 < p < 1]
        best = max(choices, key=lambda outcomes: sum(p * mpmath.log(p / q) ** 2 for q, p in outcomes))
        return _law([(q, p) if removed else (p, q) for q, p in best])


def _digits(replaced: float, absent: float) -> int:
    return _DIGITS + int(replaced + 2.0 * absent)


def _law(outcomes: list[Corner]) -> AtomicLaw:
    found = sorted((float(mpmath.log(p / q)), float(p)) for q, p in outcomes)
    return AtomicLaw(np.array([loss for loss, _ in found]), np.array([mass for _, mass in found]), 0.0, 8.0 * _UNIT)


@lru_cache(maxsize=64)
def _corners(replaced: float, absent: float, rate: float) -> tuple[Corner, ...]:
    """The shadows of the polytope's corners."""
    e, r, q = mpmath.exp(absent), mpmath.exp(replaced), mpmath.mpf(rate)
    zero, one = mpmath.mpf(0), mpmath.mpf(1)
    cone: list[Row] = [
        (e, -one, zero),
        (-one, e, zero),
        (e, zero, -one),
        (-one, zero, e),
        (zero, r, -one),
        (zero, -one, r),
    ]
    planes = [(row, zero) for row in cone] + [((-row[0], -row[1], -row[2]), -mpmath.fsum(row)) for row in cone]
    parallel, small = (mpmath.mpf(10) ** (-mpmath.mp.dps // part) for part in (4, 2))
    found: list[Corner] = []
    for (a, level_a), (b, level_b), (c, level_c) in combinations(planes, 3):
        normal = _cross(b, c)
        volume = _dot(a, normal)
        if abs(volume) < parallel:
            continue
        terms = zip(normal, _cross(c, a), _cross(a, b), strict=True)
        event = tuple((level_a * u + level_b * v + level_c * w) / volume for u, v, w in terms)
        if all(_dot(row, event) >= level - small for row, level in planes):
            x, old, new = event
            found.append(((1 - q) * x + q * new, (1 - q) * x + q * old))
    return tuple(found)


def _cross(a: Row, b: Row) -> Row:
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


def _dot(a: Row, b: Row) -> mpmath.mpf:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _upper_edge(corners: tuple[Corner, ...]) -> list[Corner]:
    """The upper convex hull, Q rising; corners that differ by rounding only are one."""
    same, straight = (mpmath.mpf(10) ** (-mpmath.mp.dps // part) for part in (3, 2))
    edge: list[Corner] = []
    for q, p in sorted(corners):
        if edge and abs(q - edge[-1][0]) + abs(p - edge[-1][1]) < same:
            continue
        while len(edge) > 1 and _turn(edge[-2], edge[-1], (q, p)) >= -straight:
            edge.pop()
        edge.append((q, p))
    return edge


def _turn(a: Corner, b: Corner, c: Corner) -> mpmath.mpf:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
