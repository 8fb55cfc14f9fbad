"""The parts of the adaptive recursion: the highest chord, the corridor, moment bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.methods.chords import Use, prepare
from affidavit.accountant.methods.recursion import Corridor, lower_profile, upper_profile, whole
from affidavit.accountant.methods.sampled_use import SampledUse, estimate


def convex(losses: np.ndarray, masses: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Σ p_i (1 − e^{x − l_i})₊: the profile of a mechanism with these losses, convex in e^x."""
    return np.maximum(0.0, -np.expm1(np.minimum(x[..., None] - losses, 0.0))) @ masses


def planes(use: Use, values: np.ndarray) -> np.ndarray:
    """Lattice values, and the chords at the two places within cells."""
    rows = [values]
    for inside in use.inside:
        share = math.expm1(inside) / math.expm1(use.spacing)
        rows.append(np.append((1.0 - share) * values[:-1] + share * values[1:], values[-1]))
    return np.stack(rows)


def highest_chord(use: Use, eta: float, values: np.ndarray, *, scanned: int) -> np.ndarray:
    """Largest chord from v to Ev of the polyline through ``values`` at each point but the margins, v from a scan."""
    x = np.arange(len(values)) * use.spacing
    inner = slice(use.margin, len(values) - use.margin)
    t = np.linspace(0.0, eta, scanned)[:, None]
    chance = np.exp(t) * np.expm1(eta - t) / math.expm1(eta)

    def polyline(places: np.ndarray) -> np.ndarray:
        cell = np.clip(np.floor(places / use.spacing).astype(int), 0, len(values) - 2)
        share = np.expm1(places - x[cell]) / math.expm1(use.spacing)
        return (1.0 - share) * values[cell] + share * values[cell + 1]

    objective = chance * polyline(x[inner] - t) + (1.0 - chance) * polyline(x[inner] - t + eta)
    return objective.max(axis=0)


@settings(max_examples=80, deadline=None)
@given(
    eta=st.floats(0.02, 4.0),
    cells=st.one_of(st.floats(0.4, 40.0), st.integers(2, 40).map(float)),
    kinks=st.integers(1, 30),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_upper_side_is_the_highest_chord(eta: float, cells: float, kinks: int, seed: int) -> None:
    """Any convex profile, any range (a multiple of the spacing or not): at or above a dense scan over t, and close."""
    rng = np.random.default_rng(seed)
    losses, masses = rng.uniform(-2.0 * eta, 2.0 * eta, kinks), rng.dirichlet(np.ones(kinks))
    use = prepare(eta, eta / cells)
    low = math.floor(-eta / use.spacing) - 12 - use.margin
    values = convex(losses, masses, (low + np.arange(24 + 2 * use.margin)) * use.spacing)
    found = use.upper(planes(use, values), -low)
    truth = highest_chord(use, eta, values, scanned=4001)
    assert np.all(found >= truth * (1.0 - 1e-13))
    bend = np.abs(np.diff(values, n=2)).max()
    assert np.all(found <= truth * (1.0 + 1e-11) + math.exp(2.0 * use.spacing) * bend)


@settings(max_examples=80, deadline=None)
@given(
    eta=st.floats(0.05, 2.0),
    cells=st.one_of(st.floats(0.4, 12.0), st.integers(2, 12).map(float)),
    roughness=st.floats(-14.0, -0.5),
    zero=st.integers(-5, 60),
    seed=st.integers(0, 2**32 - 1),
)
def test_whatever_the_values_no_chord_is_higher(
    eta: float, cells: float, roughness: float, zero: int, seed: int
) -> None:
    """Falling values that bend up and down, by as little as rounding or as much as they fall."""
    rng = np.random.default_rng(seed)
    use = prepare(eta, eta / cells)
    length = 30 + 2 * use.margin
    straight = 1.0 - 0.5 * np.expm1(np.arange(length) * use.spacing) / math.expm1(length * use.spacing)
    values = np.sort(straight * (1.0 + 10.0**roughness * rng.uniform(-1.0, 1.0, length)))[::-1].copy()
    found = use.upper(planes(use, values), zero)
    truth = highest_chord(use, eta, values, scanned=1501)
    assert np.all(found >= truth * (1.0 - 1e-13))


@pytest.mark.parametrize("cells", [24.0, 24.37])
def test_the_highest_chord_is_off_by_the_square_of_the_spacing(cells: float) -> None:
    """On a smooth profile the bound exceeds the truth by about (h/η)²; at a quarter of the spacing by a sixteenth."""
    eta, excess = 0.7, []
    losses = np.linspace(-4.0, 4.0, 201)
    masses = np.exp(-0.5 * (losses - 0.5) ** 2)
    masses /= masses.sum()
    for fineness in (1, 4):
        use = prepare(eta, eta / (cells * fineness))
        around = (np.arange(12 + 2 * use.margin) - use.margin) * use.spacing
        found = use.upper(planes(use, convex(losses, masses, around)), use.margin)
        t = np.linspace(0.0, eta, 1001)[:, None]
        chance = np.exp(t) * np.expm1(eta - t) / math.expm1(eta)
        x = np.arange(12) * use.spacing
        truth = chance * convex(losses, masses, x - t) + (1.0 - chance) * convex(losses, masses, x - t + eta)
        excess.append(float(np.max(found / truth.max(axis=0) - 1.0)))
    assert 0.0 <= excess[1] <= excess[0] / 10.0
    assert excess[0] <= 0.1 / cells**2


def test_the_best_breakpoint_is_found_among_all() -> None:
    """The strategy's choice by a loop over breakpoints, one at a time."""
    eta, rng = 0.5, np.random.default_rng(3)
    for cells in (8.0, 8.4):
        use = prepare(eta, eta / cells)
        around = (np.arange(20 + 2 * use.margin) - use.margin - 10) * use.spacing
        values = planes(use, convex(rng.uniform(-1.0, 1.0, 9), rng.dirichlet(np.ones(9)), around))
        found = use.best(values)
        at = np.arange(20) + use.margin
        rows = []
        for choice, chance in enumerate(use.chance):
            near = values[use.near[0][choice], at + use.near[1][choice]]
            far = values[use.far[0][choice], at + use.far[1][choice]]
            rows.append(chance * near + (1.0 - chance) * far)
        reached = np.array(rows)
        assert np.allclose(reached[found, np.arange(20)], reached.max(axis=0), rtol=1e-14)


@settings(max_examples=30, deadline=None)
@given(
    runs=st.lists(st.tuples(st.floats(0.05, 1.5), st.integers(1, 30)), min_size=1, max_size=3),
    epsilon=st.floats(0.0, 6.0),
    cells=st.integers(6, 14),
    share=st.floats(0.02, 1.0),
)
def test_a_corridor_of_any_width_is_valid(
    runs: list[tuple[float, int]], epsilon: float, cells: int, share: float
) -> None:
    """However much a corridor leaves out, its sides enclose what the whole window's sides enclose."""
    spacing, uses = max(eta for eta, _ in runs) / cells, tuple(runs)
    total = sum(eta * uses for eta, uses in runs)
    full = whole(uses, spacing, width=total, bounded=True)
    part = whole(uses, spacing, width=share * total, bounded=True)
    for at in (0.5 * epsilon, epsilon, 0.0):
        lowest, highest = lower_profile(uses, full).delta(at), upper_profile(uses, full).delta(at)
        assert lower_profile(uses, part).delta(at) <= highest * (1.0 + 1e-10)
        assert upper_profile(uses, part).delta(at) >= lowest * (1.0 - 1e-10)


def test_the_moment_bound_holds_for_randomised_response() -> None:
    """H_k is at least what k uses at t = η/2 reach, by the binomial sum; the tail bound is above that everywhere."""
    eta, uses = 0.4, 50
    corridor: Corridor = whole(((eta, uses),), 0.1, width=20.0, bounded=True)
    yes = math.exp(eta / 2.0) / (1.0 + math.exp(eta / 2.0))
    for k in (1, 7, 50):
        heads = np.arange(k + 1)
        log_chance = [
            math.lgamma(k + 1)
            - math.lgamma(h + 1)
            - math.lgamma(k - h + 1)
            + h * math.log(yes)
            + (k - h) * math.log1p(-yes)
            for h in heads.tolist()
        ]
        losses, masses = (2.0 * heads - k) * eta / 2.0, np.exp(log_chance)
        for good_near in (0.0, 0.5, 2.0, 8.0):
            constant, rate = corridor.tail(k, good_near)
            x = np.linspace(-5.0, 12.0, 400)
            bound = np.exp(np.minimum(constant - rate * x, 0.0))
            assert np.all(bound >= convex(losses, masses, x) * (1.0 - 1e-12))
    assert corridor.tail(50, 8.0)[1] > 1.0


@pytest.mark.parametrize(("eta", "uses"), [(0.636, 100), (0.06, 300), (1.5, 40)])
def test_the_estimate_is_near(eta: float, uses: int) -> None:
    """Within 1/T of a bracket of width 1 %."""
    found = estimate([(SampledUse(eta, 1.0, "forward"), uses)], delta=1e-6, epsilon=0.0)
    runs = ((eta, uses),)
    corridor = whole(runs, eta / 12, width=1.5 * found.epsilon, bounded=True)
    reserve = 3e-3 + 1.0 / uses
    assert upper_profile(runs, corridor).delta(found.epsilon * (1.0 + reserve + 5e-3)) <= 1e-6
    assert lower_profile(runs, corridor).delta(found.epsilon * (1.0 - reserve - 5e-3)) >= 1e-6
