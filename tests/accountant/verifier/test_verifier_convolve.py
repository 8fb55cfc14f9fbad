"""Sums of losses: against enumeration in fractions, exact powers in balls, and laws that have a closed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from unittest import mock

import numpy as np
import pytest
from flint import arb, arb_poly
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.verifier import convolve
from affidavit.accountant.verifier.balls import Array, ball, precision
from affidavit.accountant.verifier.convolve import Composed, TooLong, compose, losses
from affidavit.accountant.verifier.lattice import LatticeMasses, anchors, from_above, from_below, reach
from affidavit.accountant.verifier.pairs import LaplacePair, Mixed, Reversed

STEP = arb(2.0**-7)


def law(masses: Sequence[Fraction], first: int, infinite: Fraction = Fraction(0)) -> LatticeMasses:
    return LatticeMasses(first, tuple(ball(mass) for mass in masses), ball(infinite))


def delta_of(found: Composed, epsilon: float, *, upward: bool) -> float:
    at = losses(found, STEP, upward=upward)
    return found.infinite + float(np.sum(found.masses * -np.expm1(np.minimum(epsilon - at, 0.0))))


def exactly(parts: Sequence[tuple[list[Fraction], int, Fraction]], epsilon: float) -> float:
    """By enumeration of all outcomes."""
    total, kept = 0.0, math.prod(1 - infinite for _, _, infinite in parts)
    for outcome in product(*(range(len(masses)) for masses, _, _ in parts)):
        mass = math.prod((masses[i] for (masses, _, _), i in zip(parts, outcome, strict=True)), start=Fraction(1))
        place = sum(first + i for (_, first, _), i in zip(parts, outcome, strict=True))
        total += float(mass) * -math.expm1(min(epsilon - place * float(STEP), 0.0))
    return float(1 - kept) + total


def _masses(draw: st.DrawFn) -> tuple[list[Fraction], int, Fraction]:
    weights = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4).filter(any))
    infinite = Fraction(draw(st.integers(0, 3)), 100)
    return [(1 - infinite) * Fraction(w, sum(weights)) for w in weights], draw(st.integers(-6, 6)), infinite


@st.composite
def few(draw: st.DrawFn) -> list[tuple[tuple[list[Fraction], int, Fraction], int]]:
    return [(_masses(draw), draw(st.integers(1, 2))) for _ in range(draw(st.integers(1, 2)))]


@settings(max_examples=30, deadline=None)
@given(uses=few(), epsilon=st.floats(-0.3, 0.6), direct=st.booleans())
def test_sums_are_those_of_all_outcomes(
    uses: list[tuple[tuple[list[Fraction], int, Fraction], int]], epsilon: float, direct: bool
) -> None:
    """Also where products are taken over whole numbers."""
    exact = exactly([part for part, count in uses for _ in range(count)], epsilon)
    laws = [(law(*part), count) for part, count in uses]
    with mock.patch.object(convolve, "DIRECT", 1e9 if direct else 0.0):
        above, below = (compose(laws, STEP, negligible=1e-14, upward=up, exact=9) for up in (True, False))
    assert delta_of(below, epsilon, upward=False) <= exact + 1e-15
    assert exact <= delta_of(above, epsilon, upward=True) + 1e-15
    assert delta_of(above, epsilon, upward=True) - delta_of(below, epsilon, upward=False) <= 1e-12


def bell(width: float, reach_of: int) -> list[Fraction]:
    weights = [Fraction(math.exp(-0.5 * (i / width) ** 2)) for i in range(-reach_of, reach_of + 1)]
    whole = sum(weights)
    return [weight / whole for weight in weights]


@settings(max_examples=15, deadline=None)
@given(count=st.integers(1, 150), width=st.floats(2.0, 30.0), lumps=st.integers(0, 3), place=st.integers(-20, 20))
def test_coarser_places_stay_on_their_side(count: int, width: float, lumps: int, place: int) -> None:
    """Smooth laws and lumpy ones, against the exact power in balls."""
    masses = bell(width, 60)
    for i in range(lumps):
        masses[(37 * i + 11) % len(masses)] += Fraction(1, 1 + i)
    whole = sum(masses)
    masses = [mass / whole for mass in masses]
    with precision(300):
        exact = (arb_poly([ball(mass) for mass in masses]) ** count).coeffs()
        rates = np.array([float(mass) for mass in exact])
    places = float(STEP) * (count * (place - 60) + np.arange(len(rates)))
    centre, spread = float(rates @ places), math.sqrt(float(rates @ places**2) - float(rates @ places) ** 2)
    with mock.patch.object(convolve, "FEWEST_PLACES", 40), mock.patch.object(convolve, "SHARE", 40.0):
        above, below = (
            compose([(law(masses, place - 60), count)], STEP, negligible=1e-13, upward=up) for up in (True, False)
        )
    assert count < 40 or above.stride > 1
    for epsilon in centre + spread * np.array([-2.0, 0.0, 1.0, 3.0, 6.0]):
        true = float(rates @ -np.expm1(np.minimum(epsilon - places, 0.0)))
        assert delta_of(below, epsilon, upward=False) <= true * (1 + 1e-11) + 1e-15
        assert true * (1 - 1e-11) <= delta_of(above, epsilon, upward=True) + 1e-15


def test_coarser_places_cost_little() -> None:
    """A sum has few places however many uses there are, and both sides stay near the truth."""
    masses, count = bell(20.0, 100), 4096
    above, below = (compose([(law(masses, -100), count)], STEP, negligible=1e-12, upward=up) for up in (True, False))
    assert min(above.stride, below.stride) > 8
    assert max(len(above.masses), len(below.masses)) < 4_000
    deviation = 20.0 * math.sqrt(count) * float(STEP)
    for epsilon in (0.0, 2 * deviation, 4 * deviation):
        low, high = delta_of(below, epsilon, upward=False), delta_of(above, epsilon, upward=True)
        assert low <= high <= low * 1.02


@settings(max_examples=100, deadline=None)
@given(masses=st.lists(st.floats(0.0, 1.0) | st.just(0.0), min_size=1, max_size=40), step=st.floats(1e-6, 3.0))
def test_what_is_merged_never_gains(masses: list[float], step: float) -> None:
    """B >= e^h A at every kept place, in fractions."""
    grow, shrink = math.exp(step) * (1 + 1e-12), math.exp(-step) * (1 - 1e-12)
    raised = [Fraction(value) for value in convolve._raised(masses, grow, shrink)]
    with precision(300):
        least = Fraction(math.exp(step) * (1 - 1e-15))
    lowered = [Fraction(mass) - up for mass, up in zip(masses, raised, strict=True)]
    assert min([*raised, *lowered]) >= 0
    assert raised[-1] == 0
    assert all(after >= least * up for after, up in zip(lowered[1:], raised, strict=False))


def test_too_many_places_are_refused() -> None:
    with pytest.raises(TooLong):
        compose([(law(bell(200.0, 800), 0), 1 << 20)], STEP, negligible=1e-9, upward=True, most=2_000)


def curve(masses: LatticeMasses, step: arb, at: Array) -> Array:
    places = np.array([float(i * step + masses.offset) for i in range(masses.first, masses.first + len(masses.masses))])
    values = np.array([float(mass) for mass in masses.masses])
    return float(masses.infinite) + np.array([values @ -np.expm1(np.minimum(e - places, 0.0)) for e in at])


@settings(max_examples=25, deadline=None)
@given(rate=st.floats(1e-3, 0.9), width=st.floats(0.02, 3.0), cells=st.integers(3, 40), forward=st.booleans())
def test_lattices_below_heavy_losses_enclose_the_pair(rate: float, width: float, cells: int, forward: bool) -> None:
    """Sampled Laplace noise, whose two heavy losses are met: both sides are near it at ε >= 0."""
    with precision():
        pair = (Mixed if forward else Reversed)(LaplacePair(arb(width)), arb(rate))
        offset, gap = anchors(pair)
        assert gap is not None
        step = arb(float(gap) / cells * (1 - 1e-12 if forward else 1 + 1e-12))
        low, high = reach(pair, 1e-30)
        above, below = (make(pair, step, low, high, offset) for make in (from_above, from_below))
        at = np.linspace(low - 0.1 * (high - low), high, 41)
        true = []
        for epsilon in at:
            p, q = pair.above(arb(float(epsilon)))
            true.append(float(p - arb(float(epsilon)).exp() * q))
    least, most = curve(below, step, at), curve(above, step, at)
    assert np.all(least <= np.array(true) + 1e-13)
    assert np.all(np.array(true) <= most + 1e-13)
    assert np.max((most - least)[at >= 0.0]) <= 0.6 * float(step) + 1e-12


@pytest.mark.parametrize("kept", [1.0, 0.05])
def test_long_sums_are_those_of_short_ones(kept: float) -> None:
    """In blocks, or sparsely, as numpy adds them up; every sum is of positive terms."""
    rng = np.random.default_rng(5)
    one, other = (rng.random(n) ** 20 * (rng.random(n) < kept) for n in (12_001, 9_003))
    for more in (other, other[:4_002], one):  # a law with itself: by halves
        whole = np.convolve(one, more)
        assert np.all(np.abs(convolve.convolved(one, more) - whole) <= 1e-12 * whole)
