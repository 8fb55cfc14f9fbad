"""Both discretisations against the curve itself, at every kind of loss, from fine grids to absurd ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from affidavit.accountant.pld.atomic import approximate, pure
from affidavit.accountant.pld.bounded_range import BoundedRange
from affidavit.accountant.pld.curve import Curve
from affidavit.accountant.pld.discrete_gaussian import _pair
from affidavit.accountant.pld.discretise import Masses, _make_convex, discretise_lower, discretise_upper, loss_rounding
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.grid import anchor, masses
from affidavit.accountant.pld.laplace import Laplace
from affidavit.accountant.pld.subsample import Diluted, Mixed, PoissonSubstitution, TwoSided

CURVES: dict[str, Curve] = {
    "gaussian": Gaussian(1.0),
    "gaussian-strong": Gaussian(30.0),
    "laplace": Laplace(0.7),
    "pure": pure(1.3),
    "approximate": approximate(0.8, 1e-3),
    "envelope": BoundedRange(1.2),
    "discrete": _pair(3.0, 2),
    "mixed-gaussian": Mixed(Gaussian(1.0), 0.05),
    "mixed-gaussian-back": Mixed(Gaussian(1.0), 0.05).swapped(),
    "mixed-rare": Mixed(Gaussian(2.5), 1e-4),
    "mixed-rare-back": Mixed(Gaussian(2.5), 1e-4).swapped(),
    "mixed-laplace": Mixed(Laplace(1.0), 0.3),
    "mixed-approximate": Mixed(approximate(0.002, 8e-4), 0.03),
    "mixed-approximate-back": Mixed(approximate(0.8, 1e-3), 0.2).swapped(),
    "mixed-twice": Mixed(Mixed(Gaussian(2.0), 0.3), 0.2),
    "combined-gaussian": TwoSided(Mixed(Gaussian(1.5), 0.03)),
    "combined-laplace": TwoSided(Mixed(Laplace(1.0), 0.2)),
    "combined-pure": TwoSided(Mixed(pure(1.3), 0.1)),
    "diluted": Diluted(Gaussian(1.0), 0.2),
}


def profile(law: Masses, epsilon: float) -> float:
    """Σ p (1 − e^{ε − l})₊ and the mass at infinity."""
    losses = law.losses
    above = losses > epsilon
    return float(np.sum(law.masses[above] * -np.expm1(epsilon - losses[above]))) + law.infinity


def grid(curve: Curve, step: float, bottom: float, top: float, side: str) -> Masses:
    return masses(((curve, 1),), [(bottom, top)], side=side, step=step)[0][0]


@settings(max_examples=150, deadline=None)
@given(
    name=st.sampled_from(sorted(CURVES)),
    log_step=st.floats(math.log(2e-4), math.log(3.0)),
    bottom=st.floats(-12.0, -0.05),
    top=st.floats(0.05, 12.0),
    where=st.floats(-6.0, 8.0),
)
def test_the_curve_lies_between_its_discretisations(
    name: str, log_step: float, bottom: float, top: float, where: float
) -> None:
    curve, step = CURVES[name], math.exp(log_step)
    upper, lower = grid(curve, step, bottom, top, "upper"), grid(curve, step, bottom, top, "lower")
    # At the random loss, on grid points, just beside them and between them.
    near = lower.losses[len(lower.losses) // 2]
    for epsilon in (where, 0.0, near, near + 0.5 * step, near + 1e-6 * step, near - 0.37 * step):
        low, high = curve.delta(float(epsilon))
        slack = 1e-13 + loss_rounding(upper.losses)
        assert profile(upper, float(epsilon)) >= low - slack
        assert profile(lower, float(epsilon)) <= high + slack


@pytest.mark.parametrize("name", sorted(CURVES))
def test_coarse_grids_are_still_on_their_side(name: str) -> None:
    """Also where all that is left of the lower side is one merged loss."""
    curve = CURVES[name]
    for step in (0.001, 0.01, 0.1, 1.0, 10.0):
        upper, lower = grid(curve, step, -1.0, 1.0, "upper"), grid(curve, step, -1.0, 1.0, "lower")
        for epsilon in np.concatenate((np.linspace(-0.3, 0.3, 61), lower.losses[:50], curve.atoms)):
            low, high = curve.delta(float(epsilon))
            slack = 1e-13 + loss_rounding(upper.losses)
            assert profile(upper, float(epsilon)) >= low - slack
            assert profile(lower, float(epsilon)) <= high + slack


TINY: dict[str, Curve] = {
    "approximate": Mixed(approximate(0.0004352, 4.269e-76), 5.839e-09),
    "approximate-back": Mixed(approximate(0.0004352, 4.269e-76), 5.839e-09).swapped(),
    "pure": pure(1e-12),
    "gaussian": Gaussian(1e-12),
    "laplace": Mixed(Laplace(1e9), 1e-3),
    "envelope": BoundedRange(3e-13),
}


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(sorted(TINY)), log_share=st.floats(math.log(1e-6), 0.0), where=st.floats(-1.5, 1.5))
@example(name="approximate-back", log_share=-10.4, where=0.0)
def test_losses_as_small_as_their_rounding_stay_on_their_side(name: str, log_share: float, where: float) -> None:
    """A kink that rounding puts below 0 raised all others: masses of 15.9 in all, and a lower side above the truth."""
    curve = TINY[name]
    reach = min(curve.high, 1e-11)
    step = max(reach * math.exp(log_share), reach / 1e5)
    upper, lower = grid(curve, step, -reach, reach, "upper"), grid(curve, step, -reach, reach, "lower")
    assert lower.masses.sum() + lower.infinity <= 1.0 + lower.rounding
    for epsilon in (where * reach, where, where * 1e-3, where * 1e-9):
        low, high = curve.delta(epsilon)
        shift = loss_rounding(upper.losses)
        assert profile(upper, epsilon - shift) * (1.0 + upper.rounding) >= low * (1.0 - 1e-12)
        assert profile(lower, epsilon + shift) * (1.0 - lower.rounding) <= high * (1.0 + 1e-12)


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(sorted(CURVES)), log_step=st.floats(math.log(2e-4), math.log(3.0)), reach=st.floats(0.05, 9.0)
)
def test_masses_are_laws(name: str, log_step: float, reach: float) -> None:
    """No negative mass; the upper side sums to at least 1, the lower to at most 1, up to rounding."""
    curve, step = CURVES[name], math.exp(log_step)
    upper, lower = grid(curve, step, -reach, reach, "upper"), grid(curve, step, -reach, reach, "lower")
    for law in (upper, lower):
        assert np.all(law.masses >= 0.0)
        assert np.all(np.isfinite(law.masses))
    assert upper.masses.sum() + upper.infinity >= 1.0 - upper.rounding
    assert lower.masses.sum() + lower.infinity <= 1.0 + lower.rounding


@pytest.mark.parametrize(
    "name", ["gaussian", "mixed-gaussian", "mixed-gaussian-back", "combined-gaussian", "mixed-rare"]
)
def test_both_sides_converge_quadratically(name: str) -> None:
    curve = CURVES[name]
    gaps = []
    for step in (0.02, 0.01, 0.005):
        upper, lower = grid(curve, step, -20.0, 20.0, "upper"), grid(curve, step, -20.0, 20.0, "lower")
        # Compare the second moments: the variance that the grid adds or removes, per use.
        gaps.append(float(np.sum(upper.masses * upper.losses**2) - np.sum(lower.masses * lower.losses**2)))
    # Sixteen times smaller where the grid resolves the curve; a rare mixture's edge is sharper.
    assert gaps[2] < gaps[0] / 5.0


@pytest.mark.parametrize("name", ["pure", "combined-pure", "mixed-laplace", "laplace", "discrete"])
def test_atoms_on_the_grid_are_exact_where_the_curve_is_a_polygon(name: str) -> None:
    curve = CURVES[name]
    step = float(np.diff(curve.atoms)[0]) / 4.0
    upper, lower = grid(curve, step, -20.0, 20.0, "upper"), grid(curve, step, -20.0, 20.0, "lower")
    tolerance = 1e-12 if name in ("pure", "combined-pure", "discrete") else 5.0 * step**2
    for epsilon in (0.0, 0.3 * curve.high, 0.9 * curve.high):
        assert profile(upper, epsilon) - profile(lower, epsilon) <= tolerance


def test_lower_side_survives_grids_coarser_than_the_curve() -> None:
    """A merged point inside the support keeps half the profile where floor rounding would keep none."""
    curve = CURVES["mixed-rare"]
    assert curve.low < anchor(curve, 0.05) < 0.0
    lower = grid(curve, 0.05, -1.0, 12.0, "lower")
    assert profile(lower, 0.5) > 0.5 * curve.delta(0.5)[0]


def test_upper_bound_that_is_no_profile_uses_its_convex_minorant() -> None:
    curve = PoissonSubstitution(Gaussian(1.0), Gaussian(math.sqrt(2.0)), 0.1)
    upper = discretise_upper(curve, origin=-3.0, step=0.01, points=601)
    assert np.all(upper.masses >= 0.0)
    for epsilon in (-0.5, 0.0, 0.005, 0.4, 1.3):
        assert profile(upper, epsilon) <= curve.delta(epsilon)[1] + 5e-5


def test_losses_far_from_zero_do_not_overflow() -> None:
    """σ = 1e-3: losses near 5e5, e^loss far beyond float64."""
    curve = Gaussian(1000.0)
    upper = discretise_upper(curve, origin=4.9e5, step=0.5, points=40_001)
    lower = discretise_lower(curve, origin=4.9e5, step=0.5, points=40_001)
    # The grid may be off by ``loss_rounding``, here 4e-9, which the composer charges to ε.
    shift = loss_rounding(upper.losses)
    assert profile(lower, 5.0e5) <= curve.delta(5.0e5 - shift)[1]
    assert profile(upper, 5.0e5) >= curve.delta(5.0e5 + shift)[0]
    assert profile(upper, 5.0e5) - profile(lower, 5.0e5) < 1e-3


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("seed", range(20))
def test_kinks_that_are_no_vertices_go_and_the_profile_only_falls(side, seed):
    """Both totals stay, no mass is negative, and no point of the profile rises."""
    draws, step, size = np.random.default_rng(seed), 0.05, 60
    masses = draws.random(size) * np.where(draws.random(size) < 0.3, -0.2, 1.0)
    masses[[0, -1]] = 1.0
    ratio = np.exp(-step * np.arange(size))
    kinks = np.maximum(1.0 - np.divide.outer(1.0 / ratio, 1.0 / ratio), 0.0)  # of α_i in mass j
    before, totals = kinks @ masses, (masses.sum(), ratio @ masses)
    _make_convex(masses, step, side=side)
    assert masses.min() >= 0.0
    assert np.all(kinks @ masses <= before + 1e-12)
    assert (masses.sum(), ratio @ masses) == pytest.approx(totals, rel=1e-12)


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_a_grid_of_which_rounding_leaves_nothing_is_empty(side):
    masses = np.array([0.0, -1e-20, 0.0])
    _make_convex(masses, 0.1, side=side)
    assert not masses.any()
