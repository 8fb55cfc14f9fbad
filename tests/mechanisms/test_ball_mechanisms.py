"""Projected mean, coverage count and good radius: sensitivities held against brute force, and what they release."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from affidavit.accountant.errors import PermitViolation, UsageError
from affidavit.accountant.plan import Gaussian, Leaf, Repeat
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms import coverage
from affidavit.mechanisms.coverage import CoverageCount
from affidavit.mechanisms.good_radius import LARGEST, GoodRadius, average_coverage
from affidavit.mechanisms.projected_mean import GRID, ProjectedMean, projected


class OneLeaf:
    def __init__(self, leaf: Leaf, seed: int = 4) -> None:
        self.noise = SeededNoise(seed)
        self.uses = 0
        self._leaf = leaf

    def use(self, path: str) -> Leaf:
        assert path == "plan"
        self.uses += 1
        return self._leaf


def _simplex(rows: int, width: int, *, seed: int, sharp: float = 0.3) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet([sharp] * width, size=rows)


def test_projection_keeps_what_is_inside_and_draws_in_what_is_not() -> None:
    points, centre = _simplex(40, 12, seed=1), np.full(12, 1 / 12)
    lengths = np.linalg.norm(points - centre, axis=1)
    radius = float(np.median(lengths))
    drawn = projected(points, centre=centre, radius=radius) / GRID
    factor = np.minimum(1.0, radius / lengths)
    assert np.abs(drawn - (points - centre) * factor[:, None]).max() < 1e-8
    assert (factor < 1).any()
    assert (factor == 1).any()


@pytest.mark.parametrize("radius", [1e-9, 0.01, 0.3, math.sqrt(0.5), 1.5])
def test_no_point_exceeds_the_radius_in_exact_arithmetic(radius: float) -> None:
    points = np.vstack([_simplex(30, 200, seed=2, sharp=0.01), np.eye(200)[:5]])
    drawn = projected(points, centre=_simplex(1, 200, seed=3)[0], radius=radius)
    limit = (Fraction(radius) * GRID) ** 2
    assert all(sum(int(v) ** 2 for v in row) <= limit for row in drawn)


def test_a_row_is_drawn_in_alone() -> None:
    points, centre = _simplex(9, 50, seed=4), _simplex(1, 50, seed=5)[0]
    whole = projected(points, centre=centre, radius=0.2)
    assert all(np.array_equal(projected(points[[i]], centre=centre, radius=0.2)[0], whole[i]) for i in range(9))


def test_the_mean_is_about_its_centre_over_the_public_count() -> None:
    points, centre = _simplex(8, 6, seed=6), np.full(6, 1 / 6)
    spec = ProjectedMean(1e-9, "replaced")
    noisy = spec.about(centre, radius=2, count=10).release(OneLeaf(spec.leaf()), "plan", points)
    assert np.allclose(noisy, centre + (points - centre).sum(axis=0) / 10, atol=1e-6)


def test_noise_of_the_mean_is_in_proportion_to_the_radius() -> None:
    spec = ProjectedMean(1.5, "replaced")
    centre = np.zeros(4000)
    noisy = spec.about(centre, radius=0.25, count=2).release(OneLeaf(spec.leaf()), "plan", np.zeros((0, 4000)))
    assert np.std(noisy) == pytest.approx(2 * 0.25 * 1.5 / 2, rel=0.05)


def test_one_record_more_costs_half_of_one_replaced() -> None:
    assert ProjectedMean(0.75, "replaced").leaf() == Gaussian(0.75)
    assert ProjectedMean(0.75, "joins").leaf() == Gaussian(1.5)
    spec = ProjectedMean(0.75, "replaced")
    with pytest.raises(PermitViolation, match="does not cover"):
        spec.about(np.zeros(2), radius=1, count=1).release(OneLeaf(Gaussian(1.5)), "plan", np.zeros((1, 2)))


def test_coverage_counts_points_within_the_radius() -> None:
    points = np.array([[1.0, 0.0], [0.9, 0.1], [0.5, 0.5], [0.0, 1.0]])
    near = coverage.covered(points, centre=np.array([1.0, 0.0]), radius=0.15)
    assert near.tolist() == [True, True, False, False]
    spec = CoverageCount(1e-6)
    counted = spec.inside(np.array([1.0, 0.0]), radius=0.8).release(OneLeaf(spec.leaf()), "plan", points)
    assert counted == pytest.approx(3, abs=1e-4)


def _squared(points: np.ndarray) -> np.ndarray:
    grid = coverage.on_grid(points)
    return np.array([coverage.squared_distances(grid, row) for row in grid])


def _literal(points: np.ndarray, radius: float, volume: int) -> float:
    """L as the paper defines it, with real distances."""
    counts = [min(volume, sum(math.dist(p, x) <= radius for x in points)) for p in points]
    return sum(sorted(counts, reverse=True)[:volume]) / volume


def test_average_coverage_is_the_papers_function() -> None:
    points = _simplex(12, 5, seed=8)
    for radius in (0.05, 0.2, 0.5, 0.9):
        assert average_coverage(_squared(points), radius=radius, volume=9) == _literal(points, radius, 9)


def test_average_coverage_never_moves_by_two() -> None:
    """Random clustered points: leaving one out lowers L by 0 to 2 − 1/t; replacing one moves it by less than 2."""
    generator = np.random.default_rng(9)
    largest = 0.0
    for _ in range(60):
        count, volume = int(generator.integers(2, 12)), int(generator.integers(1, 12))
        points = generator.dirichlet([0.4] * 4, size=count)
        radius = float(generator.uniform(0.05, 0.9))
        whole = average_coverage(_squared(points), radius=radius, volume=volume)
        without = [
            average_coverage(_squared(np.delete(points, i, axis=0)), radius=radius, volume=volume) for i in range(count)
        ]
        assert all(0.0 <= whole - other <= 2.0 - 1.0 / volume for other in without)
        other = points.copy()
        other[0] = generator.dirichlet([0.4] * 4)
        moved = abs(whole - average_coverage(_squared(other), radius=radius, volume=volume))
        assert moved < 2.0
        largest = max(largest, moved, *(whole - other for other in without))
    assert largest > 1.0


def test_two_less_two_over_t_is_reached() -> None:
    """t mutually distant points and one that is near to all of them: the star of the derivation."""
    volume = 40
    rim = np.full((volume, volume), (1 - 0.3) / volume) + 0.3 * np.eye(volume)
    hub = np.full((1, volume), 1 / volume)
    radius = 0.3 * math.sqrt(1 - 1 / volume) + 1e-6
    assert radius < 0.3 * math.sqrt(2)
    without = average_coverage(_squared(rim), radius=radius, volume=volume)
    joined = average_coverage(_squared(np.vstack([rim, hub])), radius=radius, volume=volume)
    assert joined - without == pytest.approx(2 - 2 / volume)


def test_the_search_draws_a_public_number_of_values_and_finds_the_cluster() -> None:
    spec = GoodRadius(1e-6, 0.05)
    assert spec.uses == 2 * math.ceil(math.log2(math.sqrt(2) / (2 * 0.05))) == 8
    assert spec.plan() == Repeat(8, Gaussian(1e-6))
    cluster = 0.98 * np.eye(6)[[0]] + 0.02 * _simplex(20, 6, seed=10)
    permits = [OneLeaf(spec.leaf(), seed) for seed in range(12)]
    tight = [spec.holding(16).release(permit, "plan", cluster) for permit in permits]
    assert all(permit.uses == 8 for permit in permits)
    spread = spec.holding(16).release(OneLeaf(spec.leaf()), "plan", np.repeat(np.eye(6), 4, axis=0))
    assert min(tight) < 0.05 < np.mean(tight) < LARGEST / 2 < LARGEST - 0.05 < spread


@pytest.mark.parametrize(("tolerance", "halvings"), [(0.1, 3), (0.5, 1), (2.0, 1), (LARGEST / 8, 3), (0.001, 10)])
def test_halvings_are_the_papers(tolerance: float, halvings: int) -> None:
    assert GoodRadius(1.0, tolerance).halvings == halvings
    assert halvings == max(1, math.ceil(math.log2(math.sqrt(2) / (2 * tolerance))))


def test_points_off_the_simplex_are_refused() -> None:
    spec = CoverageCount(1.0)
    with pytest.raises(UsageError, match="l1 norm"):
        spec.inside(np.zeros(3), radius=1.0).release(OneLeaf(spec.leaf()), "plan", np.ones((1, 3)))
    with pytest.raises(UsageError, match="not all finite"):
        projected(np.array([[math.nan, 0.0]]), centre=np.zeros(2), radius=1.0)
    with pytest.raises(UsageError, match="tolerance"):
        GoodRadius(1.0, 0.0).halvings  # noqa: B018 - the property refuses


def test_points_that_64_bits_do_not_add_up_are_refused() -> None:
    """Cast or summed beyond 2^63 they turned over: one more point moved the sum by 2^24 instead of ``radius``."""
    for rows, radius in ((1, 1e7), (3, 2.0**21)):
        with pytest.raises(UsageError, match="add up to more than 64 bits"):
            projected(np.full((rows, 1), 1e9), centre=np.zeros(1), radius=radius)
    whole = projected(np.full((2, 1), 1e9), centre=np.zeros(1), radius=2.0**21)
    assert whole.sum() / GRID == pytest.approx(2.0**22, rel=1e-8)
