"""The parts of the adaptive recursion: the highest chord, the cuts, the window, moment bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.methods.chords import Chords, prepare
from affidavit.accountant.methods.cuts import cuts_of
from affidavit.accountant.methods.recursion import compose, whole
from affidavit.accountant.methods.sampled_use import Direction, Moments, SampledUse, estimate


def convex(losses: np.ndarray, masses: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Σ p_i (1 − e^{x − l_i})₊: the profile of a mechanism with these losses, convex in e^x."""
    return np.maximum(0.0, -np.expm1(np.minimum(x[..., None] - losses, 0.0))) @ masses


def highest_chord(use: Chords, eta: float, values: np.ndarray, *, scanned: int) -> np.ndarray:
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
    found = use.upper(values, -low)
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
    found = use.upper(values, zero)
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
        found = use.upper(convex(losses, masses, around), use.margin)
        t = np.linspace(0.0, eta, 1001)[:, None]
        chance = np.exp(t) * np.expm1(eta - t) / math.expm1(eta)
        x = np.arange(12) * use.spacing
        truth = chance * convex(losses, masses, x - t) + (1.0 - chance) * convex(losses, masses, x - t + eta)
        excess.append(float(np.max(found / truth.max(axis=0) - 1.0)))
    assert 0.0 <= excess[1] <= excess[0] / 10.0
    assert excess[0] <= 0.1 / cells**2


@pytest.mark.parametrize(("rate", "direction"), [(1.0, "forward"), (0.3, "forward"), (0.3, "backward")])
@pytest.mark.parametrize("cells", [8.0, 8.4])
def test_the_best_cut_is_found_among_all(cells: float, rate: float, direction: Direction) -> None:
    """The strategy's choice by a loop over cuts, one at a time, the larger of two tangents between lattice points."""
    eta, rng = 0.5, np.random.default_rng(3)
    use = SampledUse(eta, rate, direction)
    spacing = max(use.swing) / cells
    cuts = cuts_of(use, spacing)
    x = (np.arange(20 + 2 * cuts.margin) - cuts.margin - 10) * spacing
    losses, masses = rng.uniform(-1.0, 1.0, 9), rng.dirichlet(np.ones(9))
    slopes = np.where(losses > x[:, None], np.exp(x[:, None] - losses), 0.0) @ masses
    lines = np.stack((convex(losses, masses, x), slopes))

    def largest(place: float) -> float:
        left = min(int(place / spacing + 1e-9), len(x) - 2)
        both = (lines[0, i] - lines[1, i] * math.expm1(place - i * spacing) for i in (left, left + 1))
        return max(both)

    rows = []
    for t in cuts.times.tolist():
        chance, *logs = (float(part[0]) for part in use.pair(np.array([t])))
        row = np.zeros(20)
        for mass, log in zip((chance, 1.0 - chance), logs, strict=True):
            weight, move = (mass * math.exp(log), -log) if direction == "forward" else (mass, log)
            row += [weight * largest((cuts.margin + i) * spacing + move) for i in range(20)]
        rows.append(row)
    reached = np.array(rows)
    found = cuts.strategy(lines, cuts.best(lines))[0]
    assert np.all(found <= reached.max(axis=0) * (1.0 + 1e-12))
    exact = cuts.moved is None  # else not every cut is tried
    assert exact == (rate == 1.0 and cells == 8.0)
    assert np.all(found >= reached.max(axis=0) * (1.0 - (1e-12 if exact else 1e-2)))
    assert [cuts.best_at(lines, i) for i in range(20)] == reached.argmax(axis=0).tolist()


@settings(max_examples=30, deadline=None)
@given(
    runs=st.lists(st.tuples(st.floats(0.05, 1.5), st.integers(1, 30)), min_size=1, max_size=3),
    epsilon=st.floats(0.0, 6.0),
    cells=st.integers(6, 14),
    share=st.floats(0.02, 1.0),
)
def test_a_window_of_any_width_is_valid(
    runs: list[tuple[float, int]], epsilon: float, cells: int, share: float
) -> None:
    """However much a window leaves out, its sides enclose what the whole window's sides enclose."""
    spacing, uses = max(eta for eta, _ in runs) / cells, tuple((SampledUse(eta, 1.0, "forward"), n) for eta, n in runs)
    total = sum(eta * uses for eta, uses in runs)
    full, part, both = (
        compose(uses, whole(uses, spacing, width=width, mirrored=mirrored))
        for width, mirrored in ((total, True), (share * total, True), (share * total, False))
    )
    for at in (0.5 * epsilon, epsilon, 0.0):
        lowest, highest = full.below().delta(at), full.above().delta(at)
        for window in (part, both):
            assert window.below().delta(at) <= highest * (1.0 + 1e-10)
            assert window.above().delta(at) >= lowest * (1.0 - 1e-10)


def test_the_moment_bound_holds_for_randomised_response() -> None:
    """H_k is at least what k uses at t = η/2 reach, by the binomial sum; the tail bound is above that everywhere."""
    eta = 0.4
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
            constant, rate = Moments.of(((SampledUse(eta, 1.0, "forward"), k),)).at(good_near)
            x = np.linspace(-5.0, 12.0, 400)
            bound = np.exp(np.minimum(constant - rate * x, 0.0))
            assert np.all(bound >= convex(losses, masses, x) * (1.0 - 1e-12))
    assert Moments.of(((SampledUse(eta, 1.0, "forward"), 50),)).at(8.0)[1] > 1.0


@pytest.mark.parametrize(("eta", "uses"), [(0.636, 100), (0.06, 300), (1.5, 40)])
def test_the_estimate_is_near(eta: float, uses: int) -> None:
    """Within 1/T of a bracket of width 1 %."""
    runs = ((SampledUse(eta, 1.0, "forward"), uses),)
    found = estimate(runs, delta=1e-6, epsilon=0.0)
    curves = compose(runs, whole(runs, eta / 12, width=1.5 * found.epsilon, mirrored=True))
    reserve = 3e-3 + 1.0 / uses
    assert curves.above().delta(found.epsilon * (1.0 + reserve + 5e-3)) <= 1e-6
    assert curves.below().delta(found.epsilon * (1.0 - reserve - 5e-3)) >= 1e-6
