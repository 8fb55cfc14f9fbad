"""One direction, one target: where it is, how fine the grid must be, either side at a given step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from affidavit.accountant.pld.compose import compose_masses
from affidavit.accountant.pld.discretise import Masses, Side
from affidavit.accountant.pld.grid import MAX_POINTS, CurveParts, aligned, lattice, masses
from affidavit.accountant.pld.saddle import Saddle, Sketch, find_saddle, sketch
from affidavit.accountant.pld.transform import beyond_mass, log_moments

__all__ = ["HUGE", "Problem", "Target"]

HUGE = 1e12
"""Losses beyond which float64 has no digits left for a grid."""
FLOOR = 1e-3
"""Absolute floor of a width of ε, in units of the tolerance."""
POOR, NEAR, POOR_LOG = 0.1, 1e-7, 5.0
"""A guess of ε that is off by less, relative or absolute, is not corrected, nor one of ln δ."""
FIRST_POINTS, FIRST_SHARE = 1500, 16
"""Points of the first grid, and as many more for so many parts: each costs as much by itself as some hundred points."""
FIRST_REACH = 2**15
"""Points of the first grid of one use, at most: a narrow window far out would ask for far more."""
LATTICE_POINTS = 2**17
"""Most points for which a lattice of atoms is taken as the grid at once, exactly."""


@dataclass(frozen=True, slots=True)
class Target:
    """Exactly one of ``delta`` (find ε) and ``epsilon`` (find δ)."""

    delta: float | None = None
    epsilon: float | None = None

    def goal(self, bracket: tuple[float, float], tolerance: float) -> float:
        """How wide a bracket may be."""
        return tolerance * (bracket[1] if self.delta is None else max(bracket[0], FLOOR))


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Curves with counts, sketched; the saddle point of the target; the reach of each part's grid.

    What was looked at is kept: a sharper look at the same target begins with the same steps.
    """

    parts: CurveParts
    target: Target
    sketches: tuple[tuple[Sketch, int], ...]
    saddle: Saddle
    reaches: tuple[tuple[float, float], ...]

    @staticmethod
    @lru_cache(maxsize=64)
    def of(parts: CurveParts, target: Target) -> Problem:
        """The first guess, from a normal approximation under the tilt."""
        sketches = tuple((sketch(curve), count) for curve, count in parts)
        saddle, reaches = find_saddle(sketches, epsilon=target.epsilon, delta=target.delta)
        return Problem(parts, target, sketches, saddle, reaches)

    @lru_cache(maxsize=64)  # noqa: B019
    def moved(self, above: float) -> Problem:
        """The same around a better guess of the answer, if this upper side shows that the first one was poor.

        The normal approximation fails where a few large losses out of many small ones decide.
        """
        delta, epsilon = self.target.delta, self.target.epsilon
        if not math.isfinite(above) or above <= 0.0:
            return self
        if delta is not None:
            if abs(above - self.saddle.epsilon) <= max(POOR * above, NEAR):
                return self
        elif abs(math.log(above) - self.saddle.log_delta) <= POOR_LOG:
            return self
        delta, epsilon = above if delta is None else delta, above if epsilon is None else epsilon
        saddle, reaches = find_saddle(self.sketches, epsilon=epsilon, delta=delta)
        return Problem(self.parts, self.target, self.sketches, saddle, reaches)

    @property
    def is_resolved(self) -> bool:
        """Whether a grid has digits for all losses."""
        return all(max(-bottom, top) <= HUGE for bottom, top in self.reaches)

    def least_step(self, points: int = MAX_POINTS) -> float:
        """The finest step for which window and grids keep within so many points."""
        widest = max(high - low for low, high in self.reaches)
        return max(self.saddle.top - self.saddle.bottom, widest, 1e-300) / (0.9 * points)

    def first_step(self) -> float:
        """A cheap step to begin with; the width of its bracket tells the next."""
        span = self.saddle.top - self.saddle.bottom
        gap = lattice(self.parts[0][0])
        if len(self.parts) == 1 and self.parts[0][0].polygon and 0.0 < span < LATTICE_POINTS * gap:
            return gap
        largest = max(max(-low, high) for low, high in self.reaches)
        # Fine enough for the typical loss of one use, too.
        one_use = self.saddle.deviation / math.sqrt(sum(count for _, count in self.parts))
        points = FIRST_POINTS + FIRST_SHARE * min(len(self.parts) - 1, 400)
        step = min(span / points, max(one_use, span / (32 * FIRST_POINTS)))
        return aligned(self.parts, max(step, self.least_step(), largest / FIRST_REACH))

    @lru_cache(maxsize=256)  # noqa: B019
    def look(self, side: Side, step: float, at: float | None = None) -> tuple[float, float]:
        """What one side of this step says of the target, and the share of its δ that is charged for losses outside.

        The share is that at the ε of the target, else at ``at``, else at the ε that is said.
        """
        discretised = masses(self.parts, self.reaches, side=side, step=step)
        tail = compose_masses(discretised, self.saddle, side, limit=MAX_POINTS)
        if self.target.delta is not None:
            found = tail.epsilon(self.target.delta)
            return found, tail.outside_share(found if at is None else at)
        epsilon = self.target.epsilon or 0.0
        found = tail.delta(epsilon)
        if side == "upper":
            found = min(found, tail.infinity + self._chernoff(discretised))
        return found, tail.outside_share(epsilon)

    @lru_cache(maxsize=64)  # noqa: B019
    def widened(self) -> Problem:
        """The same with a wider window, where too much lies outside."""
        room = 0.25 * (self.saddle.top - self.saddle.bottom)
        saddle = replace(self.saddle, top=self.saddle.top + room, bottom=self.saddle.bottom - room)
        return replace(self, saddle=saddle)

    def wants_room(self, share: float, goal: float) -> bool:
        """Whether charges of this share of δ keep a bracket from a width of ``goal``."""
        relative = goal * max(self.saddle.theta, 1.0) if self.target.delta is not None else goal
        return share > 0.2 * relative

    def _chernoff(self, discretised: list[tuple[Masses, int]]) -> float:
        """δ(ε) without the mass at +inf, from the moments of the upper masses alone; safe where δ leaves float64."""
        epsilon, theta = self.target.epsilon or 0.0, self.saddle.theta
        exponents = [theta, *self.saddle.up]
        return beyond_mass(exponents, log_moments(discretised, exponents), epsilon)
