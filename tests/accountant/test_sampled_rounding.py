"""What one use more makes of a function on a lattice, from above: its charge for rounding against balls."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb

from affidavit.accountant.methods.recursion import OneMore
from affidavit.accountant.methods.sampled_use import Direction, SampledUse
from affidavit.accountant.verifier.balls import Array, Ball, ball, precision
from affidavit.accountant.verifier.product import gaussian_delta

MARGIN = 40


def _lines(mu: float, spacing: float, low: int, points: int) -> Array:
    """Values and slopes of a Gaussian's curve, rounded."""
    with precision(200):
        x = [ball(spacing) * i for i in range(low, low + points)]
        values = [float(gaussian_delta(ball(mu), one)) for one in x]
        slopes = [float(one.exp() * ((one / mu + mu / 2) / arb(2).sqrt()).erfc() / 2) for one in x]
    return np.array((values, slopes))


def _between(values: Array, low: int, spacing: Ball, argument: Ball) -> Ball:
    """Straight in α between lattice points."""
    place = argument / spacing - low
    cell = min(max(int(float(place.floor().mid())), 0), len(values) - 2)
    left, right = ball(float(values[cell])), ball(float(values[cell + 1]))
    return left - (left - right) * (argument - (low + cell) * spacing).expm1() / spacing.expm1()


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    ("eta", "rate", "cells"),
    [(0.0188, 0.00304, 40), (1e-4, 1e-3, 25), (1e-3, 0.9, 30), (0.5, 1e-6, 30), (2.0, 0.3, 20), (6.0, 1e-3, 60)],
)
def test_one_use_more_is_no_less_than_any_choice(eta: float, rate: float, cells: int, direction: Direction) -> None:
    """Of the function that is straight between the floats given; and hardly more than the best of those near it."""
    use = SampledUse(eta, rate, direction)
    spacing = sum(use.swing) / cells
    mu = 10.0 * spacing * cells
    one = OneMore(use, spacing, slope=5.0 / mu)
    margin = one.cuts.margin
    for x in (-3.0 * mu, 0.0, 2.0 * mu, 6.0 * mu):
        low = round(x / spacing) - margin
        lines = _lines(mu, spacing, low, 2 * margin + 5)
        upper = one.upper(lines[0], low, one.cuts.best(lines))
        with precision(200):
            h, top = ball(spacing), ball(eta).exp()
            largest = arb(0)
            for u in np.exp(np.linspace(0.0, eta, 25)):
                size = ball(float(u)).max(arb(1)).min(top)
                chance = (1 / size - 1 / top) / (1 - 1 / top)
                total = arb(0)
                for ratio, weight in ((1 + rate * (size - 1), chance), (1 + rate * (size / top - 1), 1 - chance)):
                    moved = ratio.log() if direction == "backward" else -ratio.log()
                    value = _between(lines[0], low, h, (low + margin + 2) * h + moved)
                    total += weight * (ratio if direction == "forward" else 1) * value
                largest = largest.max(total)
            assert ball(float(upper[2])) >= largest.lower()
            assert float(upper[2]) <= float(largest) * (1.0 + 1e-2)


def test_the_charge_is_small_beside_what_weak_uses_do() -> None:
    """At rate .003, range .019 it was 1e-6 of each value, where a use moves it by 1e-5 and less."""
    use = SampledUse(0.0188, 0.00304, "forward")
    spacing = sum(use.swing) / 85
    assert OneMore(use, spacing, slope=500.0).rounding < 1e-9
    assert OneMore(use, 0.5, slope=math.inf).rounding == pytest.approx(2.0**-46 / 0.5 / -math.expm1(-0.0188))


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("rate", [1.0, 1.0 - 2.0**-53, 0.5, 1e-6])
@pytest.mark.parametrize("eta", [1e-6, 0.5, 37.0, 200.0])
def test_losses_are_known_where_their_ratio_is_below_rounding(eta: float, rate: float, direction: Direction) -> None:
    """Without a sample the smaller ratio is u e^−η: 1 less than what is next to it was 0, and its logarithm −inf."""
    use, times = SampledUse(eta, rate, direction), eta * np.linspace(0.01, 0.99, 9)
    _, near, far = use.pair(times)
    with precision(600):
        ratios = [ball(float(one)).exp() for one in times]
        wanted = [
            [float((1 - ball(rate) * (1 - one)).log()) for one in row]
            for row in (ratios, [one * (-ball(eta)).exp() for one in ratios])
        ]
        down, up = (float((1 - ball(rate) * (1 - ball(one).exp())).log()) for one in (-eta, eta))
    np.testing.assert_allclose((near, far), wanted, rtol=1e-13, atol=1e-15)
    assert use.swing == pytest.approx((-down, up), rel=1e-12)
    assert all(np.isfinite(part).all() for part in use.moments(np.array([0.5, 3.0])))
