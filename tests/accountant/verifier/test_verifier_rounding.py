"""Rounding: leaving balls through the safe side, and the float64 recursion against exact arithmetic."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
from flint import arb

from affidavit.accountant.verifier.adaptive import AdaptiveCurve, Lines, adaptive_curve
from affidavit.accountant.verifier.balls import ball, down, normal_tail, precision, up
from affidavit.accountant.verifier.bracket import epsilon_bracket
from affidavit.accountant.verifier.product import gaussian_delta
from affidavit.accountant.verifier.profile import Blatant


@pytest.mark.parametrize("seed", range(5))
def test_floats_leave_balls_outwards(seed: int) -> None:
    rng = random.Random(seed)
    with precision(128):
        for _ in range(200):
            exact = Fraction(rng.randint(-(10**30), 10**30), rng.randint(1, 10**30)) * Fraction(10) ** rng.randint(
                -40, 40
            )
            low, high = down(ball(exact)), up(ball(exact))
            assert Fraction(low) <= exact <= Fraction(high)
            assert high <= math.nextafter(math.nextafter(low, math.inf), math.inf)


def test_what_is_not_finite_leaves_as_infinity() -> None:
    assert up(arb("nan")) == math.inf
    assert down(arb("nan")) == -math.inf
    assert up(arb(10) ** 400) == math.inf
    assert down(arb(10) ** 400) == float(np.finfo(float).max)
    assert 0.0 < up(arb(10) ** -400) < 1e-300
    assert down(arb(10) ** -400) == 0.0
    assert math.copysign(1.0, down(arb(0))) == 1.0


@pytest.mark.parametrize("z", [-9.0, -1.0, 0.0, 0.5, 12.0, 40.0])
def test_normal_tails(z: float) -> None:
    with precision(), mp.workdps(60):
        value = normal_tail(ball(z))
        assert mp.mpf(down(value)) <= mp.ncdf(-mp.mpf(z)) <= mp.mpf(up(value))


@pytest.mark.parametrize("mu", [1e-9, 0.3, 5.0, 1e7, 1e30])
def test_gaussian_curve_of_any_size(mu: float) -> None:
    """At ε = μ²/2 + aμ, against mpmath where it can follow; δ is near Φ(-a) for large μ."""
    with precision():
        for a in (-1.0, 0.0, 3.0):
            epsilon = ball(mu) * ball(mu) / 2 + ball(a) * ball(mu)
            value = gaussian_delta(ball(mu), epsilon)
            with mp.workdps(120):
                m = mp.mpf(mu)
                x = m * m / 2 + mp.mpf(a) * m
                far = x / m + m / 2
                tail = mp.exp(-(mp.mpf(a) ** 2) / 2) / far / mp.sqrt(2 * mp.pi)  # of Mills' ratio, off by 1/far²
                lost = mp.exp(x) * mp.erfc(far / mp.sqrt(2)) / 2 if mu < 1e3 else tail
                truth = mp.ncdf(-mp.mpf(a)) - lost
                slack = 0 if mu < 1e3 else lost / far**2
                assert mp.mpf(down(value)) - slack <= truth <= mp.mpf(up(value)) + slack


def exact_recursion(eta: mp.mpf, count: int, cells: int, points: int) -> list[mp.mpf]:
    """The upper recursion of ``adaptive`` on an aligned lattice in the working precision of mpmath.

    Started from H_1 = (√E - √α)²/(E - 1); a piece is bounded by F(1) + (r g + β)²/(4β), its g and β cut off as there.
    """
    h, E = eta / cells, mp.exp(eta)
    r = mp.exp(h)
    values = [max(mp.mpf(0), mp.exp(eta / 2) - mp.exp(i * h / 2)) ** 2 / (E - 1) for i in range(points)]

    def at(i: int) -> mp.mpf:
        if i < 0:
            return 1 - mp.exp(i * h) + mp.exp(i * h) * values[-i]
        return values[min(i, points - 1)]

    for _ in range(count - 1):
        raised = []
        for i in range(points):
            u = [mp.exp(j * h) for j in range(cells + 1)]
            near, far = [at(i - j) for j in range(cells + 1)], [at(i - j + cells) for j in range(cells + 1)]
            reached = [((E - u[j]) * near[j] + (u[j] - 1) * far[j]) / (E - 1) for j in range(cells + 1)]
            best = max(reached)
            for j in range(cells):
                z = near[j] - far[j], near[j + 1] - far[j + 1]
                beta = r * (r - 1) * u[j] * (z[1] - z[0] / r) / (E - 1)
                if beta > 0:
                    swing = max(mp.mpf(0), r * min(reached[j + 1] - reached[j], beta) + beta)
                    best = max(best, reached[j] + swing**2 / (4 * beta))
            raised.append(best)
        values = raised
    return values


@pytest.mark.parametrize(("eta", "count", "cells"), [(0.5, 6, 8), (2.0, 4, 20), (0.01, 6, 8), (1e-5, 4, 16)])
def test_the_float64_recursion_is_above_the_exact_one(eta: float, count: int, cells: int) -> None:
    spread = Fraction(eta)
    curve = adaptive_curve(((spread, count),), spread / cells)
    with mp.workdps(60):
        exact = exact_recursion(mp.mpf(eta), count, cells, len(curve.upper_values))
        for value, truth in zip(curve.upper_values, exact, strict=True):
            assert truth <= mp.mpf(float(value)) <= truth * (1 + mp.mpf(10) ** -10) + mp.mpf(10) ** -15


@pytest.mark.parametrize(("eta", "count", "cells"), [(0.5, 6, 8), (2.0, 4, 20), (0.01, 6, 8)])
def test_the_bound_on_a_piece_holds_at_every_point_of_it(eta: float, count: int, cells: int) -> None:
    """Random t's inside the pieces, H by chords of the upper side: never above the next upper side."""
    spread = Fraction(eta)
    before = adaptive_curve(((spread, count),), spread / cells)
    after = adaptive_curve(((spread, count + 1),), spread / cells)
    rng = np.random.default_rng(7)
    for i in range(0, len(after.upper_values) - cells, 3):
        t = rng.uniform(0.0, eta, 500)
        other = np.expm1(t) / math.expm1(eta)
        x = i * after.spacing
        reached = (1 - other) * before.upper(x - t) + other * before.upper(x - t + eta)
        assert np.max(reached) <= after.upper_values[i] * (1 + 1e-9) + 1e-15


def test_off_lattice_values_lie_between_their_neighbours() -> None:
    spread = Fraction(1, 2)
    curve = adaptive_curve(((spread, 6),), spread / 16)
    x = np.linspace(0.0, 3.0, 1009)
    upper, lower = curve.upper(x), curve.lower(x)
    assert np.all(lower <= upper)
    cell = np.minimum((x / curve.spacing).astype(int), len(curve.upper_values) - 2)
    assert np.all(upper <= curve.upper_values[cell] * (1 + 1e-9))
    assert np.all(upper >= curve.upper_values[cell + 1])
    assert np.allclose(curve.upper(-x), 1 - np.exp(-x) + np.exp(-x) * upper, rtol=1e-9)
    beyond = np.array([50.0, 700.0, 5000.0])
    assert np.all(curve.upper(beyond) >= curve.upper_values[-1])
    assert np.all(curve.lower(beyond) == 0.0)
    assert np.all(curve.lower(-beyond) <= 1.0)


def test_a_line_is_below_the_curve_everywhere() -> None:
    """Each stored line P(S) - α Q(S) is a strategy, so it bounds the curve at every α, near or far."""
    spread = Fraction(1, 2)
    fine = adaptive_curve(((spread, 5),), spread / 64)
    coarse = adaptive_curve(((spread, 5),), spread / 8)
    x = np.linspace(-2.0, 2.5, 91)
    truth = fine.upper(x)
    for i in range(0, len(coarse.lines.inside), 5):
        line = coarse.lines.inside[i] - coarse.lines.weight[i] * np.exp(x - i * coarse.spacing)
        assert np.all(line <= truth + 1e-12)


class Falling(NamedTuple):
    """δ(ε) = e^{−ε}, from both sides; the upper one ends at ``least``."""

    looseness: float = 0.0
    least: float = 0.0

    def delta(self, epsilon: float) -> tuple[float, float]:
        found = math.exp(-epsilon)
        return found * (1 - self.looseness), max(found * (1 + self.looseness), self.least)


@pytest.mark.parametrize("looseness", [0.0, 1e-9, 1e-3, 0.5, 1.0])
@pytest.mark.parametrize("start", [1e-9, 1.0, 1e5])
def test_the_search_returns_points_that_were_evaluated(looseness: float, start: float) -> None:
    for delta in (0.25, 0.9, 1e-15, 1e-280):
        low, high = epsilon_bracket(Falling(looseness), delta, start=start)
        assert Falling(looseness).delta(high)[1] <= delta
        assert low == 0.0 or Falling(looseness).delta(low)[0] > delta
        assert low * (1 - 1e-15) <= -math.log(delta) <= high * (1 + 1e-15)
        assert high <= (math.log1p(looseness) - math.log(delta)) * (1 + 1e-12) + 1e-15
        if looseness < 1.0:
            assert low >= (math.log1p(-looseness) - math.log(delta)) * (1 - 1e-12) - 1e-15


def test_an_upper_side_that_never_falls_far_enough_is_infinite() -> None:
    low, high = epsilon_bracket(Falling(least=1e-3), 1e-5)
    assert high == math.inf
    assert low == pytest.approx(-math.log(1e-5), rel=1e-12)
    assert epsilon_bracket(Blatant(), 0.5) == (math.inf, math.inf)
    assert epsilon_bracket(Falling(), 1.0) == (0.0, 0.0)
    assert epsilon_bracket(Falling(looseness=math.nan), 0.5) == (0.0, math.inf)  # what is no number says nothing


def test_an_empty_lower_side_is_zero() -> None:
    curve = AdaptiveCurve(0.1, np.ones(4), Lines(np.zeros(4), np.zeros(4)))
    assert np.all(curve.lower(np.array([0.0, 0.15, 3.0])) == 0.0)
