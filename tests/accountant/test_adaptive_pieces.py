"""The parts of the adaptive recursion: pieces of t, the corridor, moment bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.methods.corridor import Corridor, estimate_at, narrow, whole
from affidavit.accountant.methods.pieces import Use, prepare, upper_bound
from affidavit.accountant.methods.recursion import lower_profile, upper_profile


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


@settings(max_examples=60, deadline=None)
@given(
    eta=st.floats(0.02, 4.0),
    cells=st.floats(0.4, 40.0),
    first=st.floats(0.0, 1.0),
    share=st.floats(0.0, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_pieces_bound_the_objective_for_all_t(eta: float, cells: float, first: float, share: float, seed: int) -> None:
    """Any convex profile, any range (a multiple of the spacing or not), any layout: never below a dense scan over t."""
    rng = np.random.default_rng(seed)
    losses, masses = rng.uniform(-2.0 * eta, 2.0 * eta, 5), rng.dirichlet(np.ones(5))
    use = prepare(eta, eta / cells, 1.0)
    points = 24
    low = math.floor(-eta / use.spacing) - points // 2
    x = (low + np.arange(points)) * use.spacing
    around = (low - use.margin + np.arange(points + 2 * use.margin)) * use.spacing
    end = len(use.times) - 1
    layout = use.layout(round(first * end), round((first + share * (1.0 - first)) * end))
    assert layout.rows[0] == 0
    assert layout.rows[-1] == end
    near, far = use.looks(planes(use, convex(losses, masses, around)), points, use.margin, layout.rows)
    found = upper_bound(near, far, layout, use.slack)
    t = np.linspace(0.0, eta, 2001)[:, None]
    chance = np.exp(t) * np.expm1(eta - t) / math.expm1(eta)
    truth = chance * convex(losses, masses, x - t) + (1.0 - chance) * convex(losses, masses, x - t + eta)
    assert np.all(found >= truth.max(axis=0) * (1.0 - 1e-13))


@pytest.mark.parametrize("cells", [24.0, 24.37])
def test_pieces_are_no_looser_than_the_square_of_the_spacing(cells: float) -> None:
    """On a smooth profile the bound exceeds the truth by about (h/η)²; at a quarter of the spacing by a sixteenth."""
    eta, excess = 0.7, []
    losses = np.linspace(-4.0, 4.0, 201)
    masses = np.exp(-0.5 * (losses - 0.5) ** 2)
    masses /= masses.sum()
    for fineness in (1, 4):
        use = prepare(eta, eta / (cells * fineness), 1.0)
        around = (np.arange(12 + 2 * use.margin) - use.margin) * use.spacing
        values = planes(use, convex(losses, masses, around))
        best = use.best(values, 12, use.margin, (0, len(use.times)))
        layout = use.layout(int(best.min()), int(best.max()))
        found = upper_bound(*use.looks(values, 12, use.margin, layout.rows), layout, use.slack)
        t = np.linspace(0.0, eta, 1001)[:, None]
        chance = np.exp(t) * np.expm1(eta - t) / math.expm1(eta)
        x = np.arange(12) * use.spacing
        truth = chance * convex(losses, masses, x - t) + (1.0 - chance) * convex(losses, masses, x - t + eta)
        excess.append(float(np.max(found / truth.max(axis=0) - 1.0)))
    assert 0.0 <= excess[1] <= excess[0] / 10.0
    assert excess[0] <= 0.1 / cells**2


@settings(max_examples=30, deadline=None)
@given(
    runs=st.lists(st.tuples(st.floats(0.05, 1.5), st.integers(1, 30)), min_size=1, max_size=3),
    delta=st.floats(1e-12, 1e-2),
    cells=st.integers(6, 14),
    depth=st.floats(-2.0, 12.0),
)
def test_a_corridor_of_any_depth_is_valid(
    runs: list[tuple[float, int]], delta: float, cells: int, depth: float
) -> None:
    """However much a corridor leaves out, its sides enclose what the whole window's sides enclose."""
    spacing = max(eta for eta, _ in runs) / cells
    near = estimate_at(runs, delta=delta, epsilon=0.0)
    total = sum(eta * uses for eta, uses in runs)
    full = whole(runs, spacing, left=total, right=total, bounded=True, slope=near.slope)
    part = narrow(runs, spacing, between=(0.9 * near.epsilon, near.epsilon), near=near, depth=depth)
    for epsilon in (0.9 * near.epsilon, near.epsilon, 0.0):
        lowest = lower_profile(runs, full).delta(epsilon)
        highest = upper_profile(runs, full).delta(epsilon)
        assert lower_profile(runs, part).delta(epsilon) <= highest * (1.0 + 1e-10)
        assert upper_profile(runs, part).delta(epsilon) >= lowest * (1.0 - 1e-10)


def test_the_moment_bound_holds_for_randomised_response() -> None:
    """H_k is at least what k uses at t = η/2 reach, by the binomial sum; the tail bound is above that everywhere."""
    eta, uses = 0.4, 50
    corridor: Corridor = whole([(eta, uses)], 0.1, left=20.0, right=20.0, bounded=True, slope=1.0)
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
    """Within 1/T of a bracket of width 1 %: what the narrow final grid relies on to be of use."""
    found = estimate_at([(eta, uses)], delta=1e-6, epsilon=0.0)
    spacing = eta / 12
    corridor = narrow(
        [(eta, uses)], spacing, between=(0.97 * found.epsilon, 1.03 * found.epsilon), near=found, depth=8.0
    )
    reserve = 3e-3 + 1.0 / uses
    assert upper_profile([(eta, uses)], corridor).delta(found.epsilon * (1.0 + reserve + 5e-3)) <= 1e-6
    assert lower_profile([(eta, uses)], corridor).delta(found.epsilon * (1.0 - reserve - 5e-3)) >= 1e-6
