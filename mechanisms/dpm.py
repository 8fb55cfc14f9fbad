r"""DPM: clusters of points by private separators (Liebenow et al. 2024; Joo et al. 2025, algorithm 2).

    root  →  for each level: choose a separator for every set, count both halves;
             a half with too small a noisy count: its set stays whole, a cluster
          →  one noisy sum for every cluster; its centre is the sum over the noisy count

The tree grows level by level, and all that happens on one level is *one* release: the sets of a level are
disjoint, so a record touches one path (add-remove, zero-out: ``paths`` = 1) or, replaced, two (substitution: 2).

| release | one path | two paths | leaf |
|---|---|---|---|
| root's size, if it is private | 1 | public | gaussian |
| a level's separators (``dpm_splits``) | width w | 2w | bounded-range |
| a level's counts, both halves of every set | ℓ2 1 | √2: one count falls, one grows | gaussian |
| all clusters' sums, points of norm at most B | ℓ2 B | 2B in one cluster, √2 B in two | gaussian |

What the sets of a level *are* is a function of what was released before, so the levels compose adaptively; and
so are the noisy sizes that shape the scores: no bound of a sensitivity holds with some probability only.
Public points may be clustered along: they are constants, and move no sensitivity. Under substitution the number
of points is public (``paths`` = 2 needs no root count). The interval β is a public setting: the papers'
estimate of it from the data would be another release.

*Shares.* A level i of the τ gets 2^{i/2} parts of the separators' range (the papers' allocation) and of the
counts' precision: deep sets are small. ``split_range`` is the sum of the levels' ranges;
``count_noise_multiplier`` that of the one Gaussian which all counts together cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Compose, Leaf, Plan
from affidavit.mechanisms.base import Permit, draw
from affidavit.mechanisms.base import public as known
from affidavit.mechanisms.bounded_range import JointSelection
from affidavit.mechanisms.dpm_splits import Scores, Separators, Weights
from affidavit.mechanisms.exponential import MAX_SPREAD
from affidavit.mechanisms.gaussian import GaussianNoise

__all__ = ["Clustering", "Clusters", "Draws", "Exact", "FinishingPermit", "clipped", "cluster", "release"]

Floats = NDArray[np.float64]

_ROOT_TWO = math.nextafter(math.sqrt(2.0), 2.0)


@dataclass(frozen=True, slots=True)
class Clustering:
    """DPM's settings, all public.

    ``dimensions``, ``radius`` B: of the points. ``interval`` β. ``levels`` τ. ``smallest``: the least noisy count
    of a half. ``paths``: see the module. The three noise settings may not be 0.
    """

    dimensions: int
    radius: float
    interval: float
    levels: int
    smallest: float
    split_range: float
    count_noise_multiplier: float
    centre_noise_multiplier: float
    paths: Literal[1, 2] = 2
    weights: Weights = field(default_factory=Weights)

    @property
    def separators(self) -> Separators:
        """The candidates of every split."""
        return Separators(self.dimensions, self.radius, self.interval, self.weights)

    def selection(self, level: int) -> JointSelection:
        """The choice of all separators of a level."""
        shares = [2.0 ** (i / 2.0) for i in range(self.levels)]
        share = Fraction(self.split_range) * Fraction(shares[level]) / sum(map(Fraction, shares))
        width = self.paths * self.weights.width
        return JointSelection(width=width, temperature=width / share)

    def counting(self, level: int) -> GaussianNoise:
        """The noise on a level's counts, from 0, the root, to τ."""
        first = 0 if self.paths == 1 else 1
        total = sum(2.0**i for i in range(first, self.levels + 1))
        multiplier = self.count_noise_multiplier * math.sqrt(total / 2.0**level)
        sensitivity = _ROOT_TWO if self.paths == 2 else 1.0
        return GaussianNoise(standard_deviation=multiplier * sensitivity, l2_sensitivity=sensitivity)

    def averaging(self) -> GaussianNoise:
        """The noise on the clusters' sums."""
        sensitivity = self.paths * self.radius
        return GaussianNoise(standard_deviation=self.centre_noise_multiplier * sensitivity, l2_sensitivity=sensitivity)

    def steps(self) -> Iterator[tuple[str, int, Leaf]]:
        """(what, level, leaf) of every release, in order."""
        if self.paths == 1:
            yield "count", 0, self.counting(0).leaf()
        for level in range(self.levels):
            yield "split", level, self.selection(level).leaf()
            yield "count", level + 1, self.counting(level + 1).leaf()
        yield "centre", self.levels, self.averaging().leaf()

    def plan(self) -> Plan:
        """What one clustering costs."""
        return Compose(tuple(leaf for _, _, leaf in self.steps()))

    def check(self, *, points: int) -> None:
        """Raises ``UsageError`` where ``points`` points, public ones included, could have scores too far apart."""
        if self.levels == 0:
            return
        coldest = min(Fraction(self.selection(level).temperature) for level in range(self.levels))
        if self.weights.largest_spread(points) > MAX_SPREAD * coldest:
            largest = self.split_range * MAX_SPREAD * float(coldest) / self.weights.largest_spread(points)
            raise UsageError(
                f"split_range = {self.split_range:g} is too cold for {points} points",
                hint=f"At most `split_range = {_short(largest)}`.",
            )


@dataclass(frozen=True, slots=True)
class Clusters:
    """What was released: ``centres`` (clusters, dimensions) and noisy ``weights``, the heaviest cluster first."""

    centres: Floats
    weights: Floats


class Draws(Protocol):
    """Where DPM's answers come from: a permit, or the exact values."""

    def separators(self, level: int, scores: Sequence[Scores]) -> list[int]:
        """One separator for every set of a level."""
        ...

    def counts(self, level: int, exact: Floats) -> Floats:
        """The sizes of a level's halves."""
        ...

    def stop(self, level: int) -> None:
        """No set is left to split on ``level`` or below."""
        ...

    def sums(self, exact: Floats) -> Floats:
        """Every cluster's sum of points."""
        ...


class Exact:
    """No noise: for baselines, and to see what the noise costs."""

    def separators(self, level: int, scores: Sequence[Scores]) -> list[int]:  # noqa: ARG002
        """The best ones."""
        return [int(rated.argmax()) for rated in scores]

    def counts(self, level: int, exact: Floats) -> Floats:  # noqa: ARG002
        """As they are."""
        return exact

    def stop(self, level: int) -> None:
        """Nothing to do."""

    def sums(self, exact: Floats) -> Floats:
        """As they are."""
        return exact


@dataclass(frozen=True, slots=True)
class _Set:
    """A set of points: which of the private and of the public ones, and its released size."""

    private: NDArray[np.intp]
    public: NDArray[np.intp]
    size: float


def clipped(points: Floats, *, radius: float) -> Floats:
    """Every row scaled into the ball of ``radius``; a row that is not finite becomes 0. Row by row."""
    sound = np.where(np.isfinite(points).all(axis=1, keepdims=True), points, 0.0)
    norms = np.linalg.norm(sound, axis=1, keepdims=True)
    shrunk: Floats = sound * np.minimum(1.0, radius / np.maximum(norms, np.finfo(np.float64).tiny))
    return shrunk


def cluster(points: Floats, settings: Clustering, draws: Draws, *, public: Floats | None = None) -> Clusters:
    """The clustering itself, private ``points`` beside constant ``public`` ones; all randomness is in ``draws``."""
    private = clipped(points, radius=settings.radius)
    fixed = clipped(np.empty((0, settings.dimensions)) if public is None else public, radius=settings.radius)
    size = float(len(private) + len(fixed))
    if settings.paths == 1:
        size = float(draws.counts(0, np.array([size]))[0])
    active = [_Set(np.arange(len(private)), np.arange(len(fixed)), size)]
    done: list[_Set] = []
    for level in range(settings.levels):
        if not active:
            draws.stop(level)
            break
        active, whole = _split(private, fixed, active, settings, draws, level=level)
        done += whole
    done += active
    sums = np.stack([private[part.private].sum(axis=0) for part in done])
    own = np.stack([fixed[part.public].sum(axis=0) for part in done])
    weights = np.array([part.size for part in done])
    centres = (draws.sums(sums) + own) / np.maximum(weights, 1.0)[:, None]
    order = np.argsort(-weights, kind="stable")
    return Clusters(centres[order], weights[order])


def _split(
    private: Floats, fixed: Floats, active: Sequence[_Set], settings: Clustering, draws: Draws, *, level: int
) -> tuple[list[_Set], list[_Set]]:
    """The sets of the next level, and those of this one that stay whole."""
    separators = settings.separators
    scores = [
        separators.scores(np.concatenate([private[part.private], fixed[part.public]]), size=part.size)
        for part in active
    ]
    halves = []
    for part, chosen in zip(active, draws.separators(level, scores), strict=True):
        mine, theirs = (
            separators.right(points[places], chosen)
            for points, places in ((private, part.private), (fixed, part.public))
        )
        halves += [(part.private[~mine], part.public[~theirs]), (part.private[mine], part.public[theirs])]
    sizes = draws.counts(level + 1, np.array([float(len(mine) + len(theirs)) for mine, theirs in halves]))
    split: list[_Set] = []
    whole: list[_Set] = []
    for index, part in enumerate(active):
        pair = [
            _Set(mine, theirs, float(size))
            for (mine, theirs), size in zip(halves[2 * index : 2 * index + 2], sizes[2 * index :], strict=False)
        ]
        if min(half.size for half in pair) < settings.smallest:
            whole.append(part)
        else:
            split += pair
    return split, whole


class FinishingPermit(Permit, Protocol):
    """A permit that also lets a mechanism leave a node early."""

    def finish(self, path: str) -> None:
        """What is left of the node at ``path`` will not be used; nothing is refunded."""
        ...


def release(
    permit: FinishingPermit,
    path: str,
    points: Floats,
    settings: Clustering,
    *,
    public: Floats | None = None,
) -> Clusters:
    """Cluster ``points``, charged to the ``compose`` node at ``path``, which must be ``settings.plan()``.

    Whoever computes ``points`` guarantees that a record moves one of them: present or absent with ``paths`` = 1,
    to any other place with ``paths`` = 2, where their number is public.
    Raises ``PermitViolation`` where the certified noise is more, ``UsageError`` as ``Clustering.check``.
    """
    settings.check(points=len(points) + (0 if public is None else len(public)))
    found = cluster(points, settings, _Permitted(permit, path, settings), public=public)
    known(permit, path, found.centres, found.weights)
    return found


class _Permitted:
    """Draws through a permit."""

    def __init__(self, permit: FinishingPermit, path: str, settings: Clustering) -> None:
        self._permit = permit
        self._settings = settings
        self._path = path
        self._places = {(what, level): i for i, (what, level, _) in enumerate(settings.steps())}

    def separators(self, level: int, scores: Sequence[Scores]) -> list[int]:
        return list(draw(self._permit, self._at("split", level), self._settings.selection(level), scores))

    def counts(self, level: int, exact: Floats) -> Floats:
        return draw(self._permit, self._at("count", level), self._settings.counting(level), exact)

    def sums(self, exact: Floats) -> Floats:
        return draw(self._permit, self._at("centre", self._settings.levels), self._settings.averaging(), exact)

    def stop(self, level: int) -> None:
        for below in range(level, self._settings.levels):
            self._permit.finish(self._at("split", below))
            self._permit.finish(self._at("count", below + 1))

    def _at(self, what: str, level: int) -> str:
        return f"{self._path}.parts[{self._places[what, level]}]"


def _short(value: float) -> float:
    """Three digits, never above ``value``."""
    short = float(f"{value:.3g}")
    return short if short <= value else float(f"{value * 0.995:.3g}")
