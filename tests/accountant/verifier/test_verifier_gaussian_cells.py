"""A Gaussian's lattice in float64: every charge against balls, over the whole range, and where balls take over."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from affidavit.accountant.plan import Approximate, Pure
from affidavit.accountant.verifier.balls import Ball, ball, normal_tail, precision
from affidavit.accountant.verifier.gaussian_cells import AMISS, CHARGE, FARTHEST, grouped, places, split, tails
from affidavit.accountant.verifier.lattice import LatticeMasses, from_above, from_below, reach
from affidavit.accountant.verifier.mixture import begun, gaussian_masses
from affidavit.accountant.verifier.pairs import GaussianPair, plain
from affidavit.accountant.verifier.product import ProductProfile, gaussian_delta, two_point_product

BITS = 1200
SIZES = (1e-8, 1e-3, 0.07, 1.0, 4.0, 26.0, 300.0)


def _knots(mu: float, rng: random.Random) -> np.ndarray:
    """Cells that are as wide as the rule allows, or a hundred times narrower, somewhere out to the farthest."""
    middle = rng.choice([0.0, rng.uniform(-FARTHEST, FARTHEST), FARTHEST, -FARTHEST])
    width = rng.choice([1.0, 0.5, 0.03, 0.01]) / (abs(middle) + mu + 6.5)
    count = min(60, int(0.4 / width) + 3)
    start = min(max(middle - count * width / 2, -FARTHEST), FARTHEST - count * width)
    return start + width * np.arange(count)


@pytest.mark.parametrize("mu", SIZES)
def test_masses_between_knots_are_off_by_no_more_than_the_charge(mu: float) -> None:
    """Against differences of tails in balls of 1,200 bits, at ends of the range and in the middle."""
    rng = random.Random(int(mu * 1e8))
    with precision(BITS):
        for _ in range(12):
            knots = _knots(mu, rng)
            found = split(mu, knots)
            assert found is not None
            ends, size = [ball(float(y)) for y in knots], ball(mu)
            p, q = [normal_tail(y) for y in ends], [normal_tail(y + size) for y in ends]
            exact = [arb(0)] * len(ends)
            exact[0] = 1 - p[0]
            for i in range(len(ends) - 1):
                growth = (size * ends[i] + size * size / 2).exp()
                right = (p[i] - p[i + 1] - growth * (q[i] - q[i + 1])) / -(size * (ends[i] - ends[i + 1])).expm1()
                exact[i + 1] += right
                exact[i] += p[i] - p[i + 1] - right
            for value, true in zip(found[0].tolist(), exact, strict=True):
                assert ball(value) >= true
                assert ball(value) <= true * (1 + 2 * CHARGE) + 1e-299
            assert ball(found[1]) >= p[-1]


@pytest.mark.parametrize("mu", SIZES)
def test_groups_bracket_the_curve_from_below(mu: float) -> None:
    """All hockey-sticks of the groups, at knots and between: below the Gaussian's; near it where cells are narrow."""
    rng = random.Random(int(mu * 1e8) + 1)
    with precision(BITS):
        size = ball(mu)
        for share in (0.9, 0.2):
            width = share / (9.0 + mu + 7.0)
            knots = np.arange(-9.0, 9.0, width)
            found = grouped(mu, knots)
            assert found is not None
            losses = [size * float(y) + size * size / 2 for y in knots]
            second = [(-loss).exp() for loss in losses]
            for _ in range(8):
                near = rng.randrange(len(losses))
                point = losses[near] + rng.choice([0.0, rng.random() * width * mu])
                stick = sum(
                    (
                        ball(mass) * (1 - point.exp() * other)
                        for loss, mass, other in zip(losses, found.tolist(), second, strict=True)
                        if loss > point
                    ),
                    arb(0),
                )
                truth = gaussian_delta(size, point)
                assert stick <= truth
                if -4.0 < float(knots[near]) < 4.0:
                    assert stick >= truth * (1 - share * share)
            assert float(found.sum()) <= 1.0


def test_masses_of_groups_lose_no_more_than_their_charge() -> None:
    with precision(BITS):
        knots = np.arange(-8.0, 8.0, 0.004)
        found = grouped(1.5, knots)
        assert found is not None
        kept = 1 - normal_tail(ball(8.0 + 0.01)) * 2
        assert float(kept) >= float(found.sum()) >= float(kept) * (1 - 2 * AMISS) - 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_places_are_on_their_side(seed: int) -> None:
    rng = random.Random(seed)
    mu, step = 10 ** rng.uniform(-8, 4), math.ldexp(rng.getrandbits(30) + 1, rng.randint(-60, -30))
    first = rng.randint(-100_000, 100_000)
    low, high = (places(mu, ball(step), first, first + 50, upward=upward).tolist() for upward in (False, True))
    for i in range(51):
        exact = Fraction(step) * (first + i) / Fraction(mu) - Fraction(mu) / 2
        assert Fraction(low[i]) <= exact <= Fraction(high[i])
        assert high[i] - low[i] <= 1e-14 * (mu + abs(step * (first + i) / mu))


def test_what_is_too_wide_or_too_far_is_left_to_balls() -> None:
    narrow = np.arange(-1.0, 1.0, 0.01)
    assert split(1.0, narrow) is not None
    assert grouped(1.0, narrow) is not None
    for knots in (narrow * 40.0, narrow[:1], narrow[::-1], narrow + 36.0, np.append(narrow, math.inf)):
        assert split(1.0, knots) is None
        assert grouped(1.0, knots) is None
    assert split(1e6, narrow) is None


def _sticks(side: LatticeMasses, step: Ball, points: list[Ball]) -> list[Ball]:
    losses = [(side.first + i) * step for i in range(len(side.masses))]
    other = [(-loss).exp() for loss in losses]
    masses = [mass if isinstance(mass, arb) else ball(float(mass)) for mass in side.masses]
    triples = list(zip(losses, other, masses, strict=True))
    return [
        sum((mass * (1 - point.exp() * less) for loss, less, mass in triples if loss > point), side.infinite)
        for point in points
    ]


@pytest.mark.parametrize("mu", [0.01, 0.3, 2.0, 12.0])
@pytest.mark.parametrize("cells", [100, 1500])
def test_lattices_of_an_irrational_gaussian_bracket_it(mu: float, cells: int) -> None:
    """Few cells are balls, many are floats; a step of 100 digits is no float."""
    rng = random.Random(cells)
    with precision(300):
        pair = GaussianPair(ball(Fraction(mu) * 7 / 9).sqrt())
        low, high = reach(pair, 1e-18)
        step = ball(Fraction(high - low) / (3 * cells + 1)) * 3
        above, below = from_above(pair, step, low, high), from_below(pair, step, low, high)
        assert isinstance(above.masses, np.ndarray) == isinstance(below.masses, np.ndarray) == (cells > 1000)
        points = [ball(rng.uniform(low, high)) for _ in range(30)]
        for point, more, less in zip(points, _sticks(above, step, points), _sticks(below, step, points), strict=True):
            truth = gaussian_delta(pair.mu, point)
            assert less <= truth <= more


@pytest.mark.parametrize("mu", [1e-4, 1.0, 40.0, 190.0, 5000.0])
def test_masses_before_a_recursion_bracket_the_curve(mu: float) -> None:
    with precision():
        found = gaussian_masses(ball(mu), budget=1e-20)
        for a in (-3.0, -0.5, 0.0, 1.0, 4.0):
            epsilon = mu * mu / 2 + a * mu
            truth = float(gaussian_delta(ball(mu), ball(epsilon)))
            upper = float(np.sum(found.upper_mass * -np.expm1(np.minimum(epsilon - found.upper_loss, 0.0))))
            lower = float(np.sum(found.lower_mass * -np.expm1(np.minimum(epsilon - found.lower_loss, 0.0))))
            assert lower * (1 - 1e-12) <= truth <= (upper + found.infinite_upper) * (1 + 1e-12)
            assert upper - lower <= (1e-4 if mu <= 1.0 else 0.02) * (truth if mu < 5000.0 else 1.0)


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 0.4, 3.0, 50.0, 1e4])
def test_tails_are_known_to_their_errors(mu: float) -> None:
    """At z from -40 to 40, and a loss that is known to no more than it is said to be."""
    rng = random.Random(int(mu * 1e9))
    z = np.concatenate([np.linspace(-40.0, 37.5, 156), [0.0, -1e-300, 1e-17]])
    losses = mu * (z + mu / 2.0)
    amiss = np.abs(losses) * 1e-14
    p, log_q, error = tails(mu, losses, amiss)
    assert np.all(error <= 1e-4 + 2e-14 * (mu + 40.0) ** 3 / mu)
    with precision(BITS):
        for i, loss in enumerate(losses.tolist()):
            near = (ball(loss) + ball(float(amiss[i])) * rng.choice([-1.0, 0.0, 1.0])) / ball(mu) - ball(mu) / 2
            exact_p, exact_q = normal_tail(near), normal_tail(near + mu)
            assert abs(ball(float(p[i])) / exact_p - 1) <= ball(float(error[i]))
            assert abs(ball(float(log_q[i])) - exact_q.log()) <= ball(float(error[i]))


@pytest.mark.parametrize("mu", [Fraction(1, 100), Fraction(2, 3), Fraction(30)])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_what_runs_after_all_steps_is_as_in_balls(mu: Fraction, delta: float) -> None:
    """Beside 30 uses of pure mechanisms, cut or not: float64 around what balls say, and hardly further."""
    with precision(400):
        size = ball(mu).sqrt()
        for budget in (1.0e-18, 1e-300):
            atoms = two_point_product([(Pure(0.11), 30), (Approximate(0.11, delta), 1)], budget=budget)
            width, points = Fraction(1, 17), 120
            inside, weight, upper = begun(ProductProfile(size, atoms, "", 400), width, points, 400)
            for i in range(points):
                p, q = plain(size, atoms).above(i * ball(width))
                other = q * (i * ball(width)).exp()
                assert ball(float(inside[i])) <= p.upper()
                assert ball(float(weight[i])) >= other.lower()
                assert ball(float(upper[i])) >= (p - other).lower()
                assert float(upper[i]) <= float((p - other).upper()) + 1e-8 * float(p.upper()) + 2e-300
                assert float(inside[i]) >= float(p.lower()) * (1.0 - 1e-8)
