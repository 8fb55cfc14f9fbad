"""Subsampled plans in balls: against closed forms, explicit pairs and other lattices."""

from __future__ import annotations

import math
from itertools import product

import mpmath as mp
import pytest

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Pure, parse_plan
from affidavit.accountant.verifier import recompute, recomputed_curve
from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.lattice import from_above, from_below, reach
from affidavit.accountant.verifier.pairs import (
    Beside,
    Combined,
    Diluted,
    GaussianPair,
    LaplacePair,
    Mixed,
    Pair,
    Reversed,
)
from affidavit.accountant.verifier.product import two_point_product
from affidavit.accountant.verifier.reading import read


def gaussian(sigma: float) -> dict:
    return {"kind": "gaussian", "noise_multiplier": sigma}


def repeat(count: int, of: dict) -> dict:
    return {"kind": "repeat", "count": count, "of": of}


def poisson(rate: float, of: dict) -> dict:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}


def without_replacement(population: int, sample: int, of: dict) -> dict:
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


def one_step(rate: float, sigma: float, epsilon: float, *, remove: bool) -> mp.mpf:
    """Hockey-stick of (qN(1, σ²) + (1-q)N(0, σ²), N(0, σ²)) or its reverse at e^ε, 40 digits."""
    with mp.workdps(40):
        q, s, e = mp.mpf(rate), mp.mpf(sigma), mp.exp(mp.mpf(epsilon))
        bound = (e - 1 + q) / q if remove else (1 / e - 1 + q) / q
        if bound <= 0:
            return mp.mpf(1) - e if remove else mp.mpf(0)
        cut = s * s * mp.log(bound) + mp.mpf(1) / 2  # the mixture's ratio exceeds its threshold right of it
        if remove:
            mixture = q * mp.ncdf((1 - cut) / s) + (1 - q) * mp.ncdf(-cut / s)
            return mixture - e * mp.ncdf(-cut / s)
        mixture = q * mp.ncdf((cut - 1) / s) + (1 - q) * mp.ncdf(cut / s)
        return mp.ncdf(cut / s) - e * mixture


@pytest.mark.parametrize(("rate", "sigma"), [(0.01, 1.0), (0.3, 2.0), (0.001, 0.5)])
@pytest.mark.parametrize("epsilon", [0.01, 0.2, 1.0])
def test_one_poisson_step_is_enclosed(rate: float, sigma: float, epsilon: float) -> None:
    found = recompute(poisson(rate, gaussian(sigma)), relation="add-remove", epsilon=epsilon)
    truth = max(one_step(rate, sigma, epsilon, remove=True), one_step(rate, sigma, epsilon, remove=False))
    assert mp.mpf(found.delta_lower) <= truth <= mp.mpf(found.delta_upper)
    assert found.delta_upper - found.delta_lower <= 1e-14 * found.delta_upper


def test_both_directions_of_sampled_randomised_response() -> None:
    """Two uses, rate 1/2, ε = log 3, δ = 0.2: 0.3715635564 adding, 0.2288 removing (three binomial terms)."""
    plan = repeat(2, poisson(0.5, {"kind": "pure", "epsilon": math.log(3)}))
    found = recompute(plan, relation="add-remove", delta=0.2)
    assert found.epsilon_lower <= found.epsilon_upper
    assert found.epsilon_upper == pytest.approx(0.371563556432, abs=1e-11)
    assert found.epsilon_upper - found.epsilon_lower < 1e-12


def test_sampled_pure_mechanisms_match_an_explicit_product() -> None:
    """δ at ε = 0.3 of four uses by all 16 outcomes in both directions, mpmath."""
    rate, epsilon = mp.mpf(0.25), mp.mpf(0.8)
    p1 = mp.exp(epsilon) / (1 + mp.exp(epsilon))
    mixed = [rate * p1 + (1 - rate) * (1 - p1), rate * (1 - p1) + (1 - rate) * p1]
    plain = [1 - p1, p1]

    def stick(p: list, q: list) -> mp.mpf:
        total = mp.mpf(0)
        for outcome in product((0, 1), repeat=4):
            a, b = mp.mpf(1), mp.mpf(1)
            for index in outcome:
                a, b = a * p[index], b * q[index]
            total += max(a - mp.exp(mp.mpf(0.3)) * b, 0)
        return total

    truth = max(stick(mixed, plain), stick(plain, mixed))
    found = recompute(repeat(4, poisson(0.25, {"kind": "pure", "epsilon": 0.8})), relation="zero-out", epsilon=0.3)
    assert mp.mpf(found.delta_lower) <= truth * (1 + mp.mpf(10) ** -13)
    assert mp.mpf(found.delta_upper) >= truth * (1 - mp.mpf(10) ** -13)
    assert found.delta_upper - found.delta_lower <= 1e-14


@pytest.mark.parametrize(
    ("plan", "relation", "delta", "lower", "upper"),
    [
        # Brackets by floor and ceiling rounding, tilted FFT (table of plans), and their sources there.
        (repeat(10, poisson(0.2, gaussian(1.0))), "add-remove", 1e-5, 4.98403288903866, 4.984393876527578),
        (repeat(100, poisson(0.08, gaussian(1.0))), "zero-out", 1e-5, 5.611815379209988, 5.615019634386512),
        # Two-sided, T = 1000, σ = 1, q = 0.01.
        (repeat(1000, poisson(0.01, gaussian(1.0))), "add-remove", 1e-6, 2.1241, 2.1253),
    ],
)
def test_brackets_overlap_independent_ones(plan: dict, relation: str, delta: float, lower: float, upper: float) -> None:
    found = recompute(plan, relation=relation, delta=delta)
    assert found.epsilon_upper >= lower
    assert found.epsilon_lower <= upper
    assert found.epsilon_upper - found.epsilon_lower <= 1e-3 * found.epsilon_upper


@pytest.mark.parametrize("delta", [1e-30, 1e-100])
def test_small_deltas(delta: float) -> None:
    found = recompute(repeat(50, poisson(0.1, gaussian(1.0))), relation="add-remove", delta=delta)
    assert found.epsilon_upper - found.epsilon_lower <= 2e-3 * found.epsilon_upper
    loose = recompute(repeat(50, gaussian(1.0)), relation="add-remove", delta=delta)
    assert found.epsilon_upper < loose.epsilon_lower


def test_the_tails_of_a_mixture_are_those_of_the_two_gaussians() -> None:
    with precision():
        base = GaussianPair(ball(2))
        p, q = Mixed(base, ball(0.125)).above(ball(0.5))
        with mp.workdps(50):
            inner = mp.log(1 + mp.expm1(mp.mpf(0.5)) / mp.mpf(0.125))
            cut = inner / 2 + 1
            assert abs(mp.mpf(float(q)) - mp.ncdf(-cut)) < 1e-16
            assert abs(mp.mpf(float(p)) - (mp.mpf(0.125) * mp.ncdf(2 - cut) + mp.mpf(0.875) * mp.ncdf(-cut))) < 1e-16


def _pairs() -> dict[str, Pair]:
    with precision():
        base = GaussianPair(ball(1.5))
        coin = Beside(two_point_product([(Pure(0.5), 1)], budget=1.0), GaussianPair(ball(1)))
        laplace = LaplacePair(ball(1.25))
        return {
            "gaussian": base,
            "laplace": laplace,
            "mixed": Mixed(base, ball(0.1)),
            "reversed": Reversed(base, ball(0.1)),
            "mixed-laplace": Mixed(laplace, ball(0.2)),
            "reversed-laplace": Reversed(laplace, ball(0.2)),
            "combined": Combined(base, ball(0.1)),
            "diluted": Diluted(base, ball(0.1)),
            "mixed-coin": Mixed(coin, ball(0.3)),
        }


PAIRS = _pairs()
SMOOTH = ("gaussian", "laplace", "combined", "diluted")


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("cells", [16, 64])
def test_lattices_bracket_the_curve_everywhere(name: str, cells: int) -> None:
    """Hockey-sticks of the two lattice distributions around P(L > l) - e^l Q(L > l), on and off the lattice."""
    pair = PAIRS[name]
    with precision():
        step = ball(1.25) / cells
        low, high = reach(pair, 1e-12)
        above, below = from_above(pair, step, low, high), from_below(pair, step, low, high)
        for k in range(-24, 60):
            point = ball(k) / 16 + ball(1) / 97
            p, q = pair.above(point)
            truth = float(p - point.exp() * q)

            def stick(side: object, point: object = point) -> float:
                total = side.infinite
                for i, mass in enumerate(side.masses):
                    loss = (side.first + i) * step
                    if loss > point:
                        total = total + mass * (1 - (point - loss).exp())
                return float(total)

            assert stick(below) <= truth + 1e-15
            assert stick(above) >= truth - 1e-15
            # O(h²) where the loss has a density, O(h) where much of it sits in one cell or off the lattice.
            assert stick(above) - stick(below) <= (20 / cells**2 if name in SMOOTH else 1.25 / cells)


@pytest.mark.parametrize("name", PAIRS)
def test_lattice_masses_are_distributions(name: str) -> None:
    pair = PAIRS[name]
    with precision():
        step = ball(1.25) / 32
        low, high = reach(pair, 1e-12)
        above, below = from_above(pair, step, low, high), from_below(pair, step, low, high)
        assert abs(float(sum(above.masses, ball(0)) + above.infinite) - 1) < (1e-11 if name == "gaussian" else 1e-15)
        assert 1 - 1e-6 <= float(sum(below.masses, ball(0))) <= 1 + 1e-15
        second = sum((m * (-(below.first + i) * step).exp() for i, m in enumerate(below.masses)), ball(0))
        assert float(second) <= 1 + 1.25 / 32  # one cell's rounding, at the very end only


@pytest.mark.parametrize("mu", [20, 79, 150])
def test_a_lattice_of_large_losses_begins_where_they_do(mu: int) -> None:
    """A loud Gaussian's, around μ²/2: most of the places were empty, and below the first group took all of it."""
    with precision(124):
        pair, step = GaussianPair(ball(mu)), ball(mu) / 90
        low, high = reach(pair, 1e-16, 1e-9)
        assert low > mu**2 / 2 - 9 * mu
        above, below = from_above(pair, step, low, high), from_below(pair, step, low, high)
        assert sum(map(float, below.masses)) > 1 - 1e-8
        for z in (-2, 0, 3, 6):
            point = ball(mu**2 / 2 + z * mu + 1 / 97)
            p, q = pair.above(point)
            sticks = []
            for side in (below, above):
                losses = [(side.first + i) * step for i in range(len(side.masses))]
                gains = (
                    m * (1 - (point - loss).exp()) for m, loss in zip(side.masses, losses, strict=True) if loss > point
                )
                sticks.append(float(sum(gains, ball(float(side.infinite)))))
            truth = float(p - point.exp() * q)
            assert sticks[0] * (1 - 1e-12) <= truth <= sticks[1] * (1 + 1e-12)
            assert sticks[1] - sticks[0] <= 0.03 * truth


@pytest.mark.parametrize("light", [0.0, 1e-6])
@pytest.mark.parametrize("width", [2, 20, 30])
def test_atoms_below_the_lattice_lower_the_curve(width: int, light: float) -> None:
    """Noise of so wide a loss has an atom below all places that are kept: it was put at a large loss instead."""
    with precision(200):
        for pair in (LaplacePair(ball(width)), Mixed(LaplacePair(ball(width)), ball(0.3))):
            step = ball(width) / 500
            low, high = reach(pair, 1e-20, light)
            above, below = from_above(pair, step, low, high), from_below(pair, step, low, high)
            for k in range(-50, 52):
                point = k * ball(width) / 50 + ball(1) / 997
                p, q = pair.above(point)
                truth = p - point.exp() * q
                sticks = []
                for side in (below, above):
                    stick = side.infinite
                    for i, mass in enumerate(side.masses):
                        if (loss := (side.first + i) * step) > point:
                            stick += mass * (1 - (point - loss).exp())
                    sticks.append(stick)
                assert sticks[0].lower() <= truth.upper()
                assert sticks[1].upper() >= truth.lower()


@pytest.mark.parametrize("rate", [1e-3, 1e-9, 4.897e-17, 1e-40])
@pytest.mark.parametrize("bits", [89, 200])
def test_a_lattice_below_has_no_loss_above_the_largest_one(rate: float, bits: int) -> None:
    """Of a rare sample's addition: rounding made a group of 2e-21 at a loss of two places, where there is none."""
    with precision(bits):
        pair = Reversed(GaussianPair(1 / ball(1.142)), ball(rate))
        step, largest = ball(1.7158584995624615e-06), -(-ball(rate)).log1p()
        below = from_below(pair, step, *reach(pair, 1e-5))
        losses = [(below.first + i) * step for i in range(len(below.masses))]
        assert not any(mass.lower() > 0 and loss > largest for mass, loss in zip(below.masses, losses, strict=True))


@pytest.mark.slow
def test_a_rare_sample_adds_hardly_anything_to_laplace_noise() -> None:
    """ε is 4e-7 above the Laplace mechanism's largest loss; δ was said to be 9.8e-28 at least and is 7.6e-164."""
    plan = {
        "kind": "compose",
        "parts": [poisson(4.897e-17, gaussian(1.142)), {"kind": "laplace", "noise_multiplier": 92.98}],
    }
    found = recompute(plan, relation="add-remove", epsilon=0.010755420623422442)
    assert found.delta_lower <= 7.646929975678534e-164 <= found.delta_upper


def test_heterogeneous_and_unsampled_parts_compose() -> None:
    """Sampling at rate 1 - 1e-12 is all but no sampling: the composition is all but a closed form."""
    parts = {
        "kind": "compose",
        "parts": [poisson(1 - 1e-12, gaussian(2.0)), gaussian(3.0), {"kind": "pure", "epsilon": 0.5}],
    }
    plain = {"kind": "compose", "parts": [gaussian(2.0), gaussian(3.0), {"kind": "pure", "epsilon": 0.5}]}
    found = recompute(parts, relation="add-remove", delta=1e-5)
    closed = recompute(plain, relation="add-remove", delta=1e-5)
    assert found.epsilon_lower <= closed.epsilon_upper
    assert found.epsilon_upper >= closed.epsilon_lower * (1 - 1e-9)
    assert found.epsilon_upper == pytest.approx(closed.epsilon_upper, rel=1e-3)


def test_laplace_composes_two_sidedly() -> None:
    """One use, through the lattice (beside a Gaussian too weak to matter), is the closed form."""
    laplace = {"kind": "laplace", "noise_multiplier": 2.0}
    beside = {"kind": "compose", "parts": [laplace, gaussian(1e6)]}
    closed = recompute(laplace, relation="add-remove", epsilon=0.2)
    found = recompute(beside, relation="add-remove", epsilon=0.2)
    assert found.delta_upper >= closed.delta_lower
    assert found.delta_lower <= closed.delta_upper * (1 + 1e-5)
    assert found.delta_upper == pytest.approx(closed.delta_upper, rel=1e-3)


def test_poisson_under_substitution_is_the_diluted_curve() -> None:
    """One use: δ = q h(ε), h the Gaussian curve of the substitution sensitivity."""
    found = recompute(poisson(0.25, gaussian(1.0)), relation="substitution", epsilon=0.5)
    whole = recompute(gaussian(1.0), relation="substitution", epsilon=0.5)
    assert found.delta_lower <= 0.25 * whole.delta_upper
    assert found.delta_upper >= 0.25 * whole.delta_lower
    assert found.delta_upper == pytest.approx(0.25 * whole.delta_upper, rel=2e-3)


@pytest.mark.parametrize("relation", ["substitution", "zero-out", "add-remove"])
def test_one_step_without_replacement(relation: str) -> None:
    """δ = γ h(log(1 + (e^ε - 1)/γ)) with the leaf's substitution curve h, under every relation."""
    gamma, epsilon = 0.02, 0.4
    found = recompute(without_replacement(500, 10, gaussian(0.8)), relation=relation, epsilon=epsilon)
    inner = math.log1p(math.expm1(epsilon) / gamma)
    truth = gamma * recompute(gaussian(0.8), relation=relation, epsilon=inner).delta_upper
    assert found.delta_lower <= truth * (1 + 1e-9)
    assert found.delta_upper >= truth * (1 - 1e-9)
    assert found.delta_upper == pytest.approx(truth, rel=0.02)


def test_without_replacement_is_not_poisson() -> None:
    """σ = 1, γ = 0.01, δ = 1e-5, zero-out: Poisson's curve says 0.199, explicit data sets reach 2.399."""
    found = recompute(without_replacement(1000, 10, gaussian(0.5)), relation="zero-out", delta=1e-5)
    assert found.epsilon_upper >= 2.3989
    assert found.epsilon_upper == pytest.approx(3.0253578275838993, rel=1e-3)


def test_a_moving_record_removes_here_and_adds_there() -> None:
    """The two moves are composed in opposite directions; the result is symmetric in the two parts."""
    a, b = repeat(20, poisson(0.2, gaussian(1.0))), repeat(5, poisson(0.4, gaussian(2.0)))
    tiny = gaussian(1e9)

    def crossing(first: dict, second: dict) -> float:
        plan = {"kind": "parallel", "parts": [tiny, tiny], "moves": [first, second]}
        return recompute(plan, relation="substitution", delta=1e-5).epsilon_upper

    forth, back = crossing(a, b), crossing(b, a)
    assert forth == pytest.approx(back, rel=1e-3)
    together = recompute({"kind": "compose", "parts": [a, b]}, relation="add-remove", delta=1e-5)
    assert forth <= together.epsilon_upper * (1 + 1e-3)
    cases = read(parse_plan({"kind": "parallel", "parts": [tiny, tiny], "moves": [a, b]}), "substitution").upper
    crossed = next(case for case in cases if case.first.uses)
    assert sorted(use.mirrored for use, _ in crossed.first.uses) == [False, True]


def test_sampled_gaussians_before_exponential_steps() -> None:
    """In front of a single weak step the result is between the front alone and basic composition."""
    front = repeat(20, poisson(0.2, gaussian(1.0)))
    plan = {"kind": "compose", "parts": [front, repeat(5, {"kind": "exponential", "range": 0.02})]}
    found = recompute(plan, relation="zero-out", delta=1e-5)
    alone = recompute(front, relation="zero-out", delta=1e-5)
    assert alone.epsilon_lower <= found.epsilon_upper <= alone.epsilon_upper + 5 * 0.02
    assert found.epsilon_upper - found.epsilon_lower <= 2e-3 * found.epsilon_upper


def test_pure_limit_of_sampled_pure_mechanisms() -> None:
    """δ = 0: the largest loss is T log(1 + q(e^ε - 1)) under add-remove, T ε under substitution by Poisson."""
    plan = repeat(3, poisson(0.25, {"kind": "pure", "epsilon": 1.0}))
    found = recompute(plan, relation="add-remove", delta=0.0)
    assert found.epsilon_lower == pytest.approx(3 * math.log1p(0.25 * math.expm1(1.0)), rel=1e-15)
    assert found.epsilon_upper >= found.epsilon_lower
    assert recompute(plan, relation="substitution", delta=0.0).epsilon_upper == pytest.approx(3.0, rel=1e-15)
    wor = repeat(3, without_replacement(8, 2, {"kind": "pure", "epsilon": 1.0}))
    assert recompute(wor, relation="substitution", delta=0.0).epsilon_upper == pytest.approx(
        3 * math.log1p(0.25 * math.expm1(1.0)), rel=1e-15
    )


def test_curve_of_a_sampled_plan() -> None:
    plan = repeat(100, poisson(0.05, gaussian(1.0)))
    curve = recomputed_curve(plan, relation="add-remove", points=[0.0, 0.5, 1.0, 2.0, 3.0])
    for epsilon, delta in curve[1::2]:
        alone = recompute(plan, relation="add-remove", epsilon=epsilon)
        assert alone.delta_lower <= delta <= 1.1 * alone.delta_upper


@pytest.mark.parametrize(
    "plan",
    [
        {"kind": "discrete-gaussian", "noise_multiplier": 1.0, "granularity": 1e-5},
    ],
)
def test_what_is_not_covered_is_refused_with_advice(plan: dict) -> None:
    with pytest.raises(NotSupported) as caught:
        recompute(plan, relation="add-remove", delta=1e-5)
    assert caught.value.hint


def discrete(sigma: float, granularity: float) -> dict:
    return {"kind": "discrete-gaussian", "noise_multiplier": sigma, "granularity": granularity}


def discrete_delta(deviation: float, shift: int, count: int, epsilon: float) -> mp.mpf:
    """Hockey-stick of ``count`` shifted discrete Gaussians by convolving their masses, 40 digits."""
    with mp.workdps(40):
        s = mp.mpf(deviation)
        span = range(-int(14 * deviation) - shift, int(14 * deviation) + shift + 1)
        p = {x: mp.exp(-((x - shift) ** 2) / (2 * s * s)) for x in span}
        whole = mp.fsum(p.values())
        total = {0: mp.mpf(1)}
        for _ in range(count):
            nxt: dict[int, mp.mpf] = {}
            for x, a in total.items():
                for y, b in p.items():
                    nxt[x + y] = nxt.get(x + y, mp.mpf(0)) + a * b / whole
            total = nxt
        # The loss of the sum: shift/s² times (sum - count * shift/2).
        return mp.fsum(
            mass * -mp.expm1(min(0, mp.mpf(epsilon) - shift / s**2 * (x - mp.mpf(count) * shift / 2)))
            for x, mass in total.items()
        )


@pytest.mark.parametrize(
    ("sigma", "granularity", "count"), [(1.0, 0.5, 1), (2.0, 0.25, 2), (1.5, 1.0, 3), (1.0, 0.125, 2)]
)
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_discrete_gaussians_are_enclosed(sigma: float, granularity: float, count: int, epsilon: float) -> None:
    found = recompute(repeat(count, discrete(sigma, granularity)), relation="add-remove", epsilon=epsilon)
    truth = discrete_delta(sigma / granularity, round(1 / granularity), count, epsilon)
    assert mp.mpf(found.delta_lower) <= truth * (1 + mp.mpf(10) ** -9)
    assert mp.mpf(found.delta_upper) >= truth * (1 - mp.mpf(10) ** -9)
    assert found.delta_upper - found.delta_lower <= 5e-3 * found.delta_upper


def test_a_sample_that_mostly_reveals() -> None:
    """Two uses of (1, .9) at rate .9, by all outcomes: more than half of the mass is on an infinite loss."""
    high = 0.1 * math.e / (1.0 + math.e)
    revealed, kept = [(0.9, 0.0), (0.0, 0.9)], [(high, 0.1 - high), (0.1 - high, high)]
    pair = [(0.9 * p + 0.1 * q, q) for p, q in (*revealed, *kept)]
    truth = 0.0
    for way in (pair, [(q, p) for p, q in pair]):
        both = [(p * r, q * s) for (p, q), (r, s) in product(way, repeat=2)]
        truth = max(truth, sum(max(0.0, p - math.exp(0.5) * q) for p, q in both))
    leaf = {"kind": "approximate", "epsilon": 1.0, "delta": 0.9}
    found = recompute(repeat(2, poisson(0.9, leaf)), relation="add-remove", epsilon=0.5)
    assert found.delta_lower <= truth * (1 + 1e-12)
    assert truth * (1 - 1e-12) <= found.delta_upper <= truth * 1.001


def test_billions_of_uses_cost_what_they_lose_on_average() -> None:
    """A lattice of few places, however many uses; the mean of one use's loss in closed form."""
    count, scale = 2_636_227_200, 0.827
    found = recompute(repeat(count, {"kind": "laplace", "noise_multiplier": scale}), relation="add-remove", delta=6e-11)
    mean = count * (1 / scale - 1 + math.exp(-1 / scale))
    most = mean + 8.0 * math.sqrt(count) * 2.0 / scale
    assert found.epsilon_lower <= most
    assert mean <= found.epsilon_upper
    assert found.epsilon_upper - found.epsilon_lower <= 6e-3 * mean


@pytest.mark.parametrize("relation", ["add-remove", "substitution"])
def test_a_shift_of_less_than_a_grid_step_may_show_nothing(relation: str) -> None:
    """No pair below: the parts beside it are the lower side; (e − √e)/(1 + e) of randomised response at ε = 1/2."""
    plan = {"kind": "compose", "parts": [discrete(0.3, 2.0), {"kind": "pure", "epsilon": 1.0}]}
    found = recompute(plan, relation=relation, epsilon=0.5)
    reached = (math.e - math.sqrt(math.e)) / (1.0 + math.e)
    assert reached * (1.0 - 1e-8) <= found.delta_lower <= reached
    assert found.delta_upper > 0.99


def test_the_discrete_gaussian_costs_more_than_the_continuous_one() -> None:
    """At two grid steps and ε = 1 by 6 %: 0.0072488 against 0.0068296."""
    fine = recompute(gaussian(2.0), relation="add-remove", epsilon=1.0)
    coarse = recompute(discrete(2.0, 1.0), relation="add-remove", epsilon=1.0)
    assert coarse.delta_lower > 1.05 * fine.delta_upper


def test_a_sensitivity_between_grid_steps_is_bracketed() -> None:
    """1/g = 2.5: the value lies between shifts of 2 and of 3 steps."""
    found = recompute(discrete(1.0, 0.4), relation="add-remove", delta=1e-4)
    low = recompute(discrete(1.25, 0.5), relation="add-remove", delta=1e-4)
    high = recompute(discrete(2.5 / 3, 1 / 3), relation="add-remove", delta=1e-4)
    assert found.epsilon_lower == pytest.approx(low.epsilon_lower, rel=1e-6)
    assert found.epsilon_upper == pytest.approx(high.epsilon_upper, rel=1e-6)


def test_many_discrete_gaussians_approach_the_continuous_ones() -> None:
    found = recompute(repeat(100, discrete(10.0, 0.05)), relation="add-remove", delta=1e-5)
    closed = recompute(repeat(100, gaussian(10.0)), relation="add-remove", delta=1e-5)
    assert found.epsilon_upper == pytest.approx(closed.epsilon_upper, rel=2e-3)
    assert found.epsilon_upper - found.epsilon_lower <= 1e-3 * found.epsilon_upper


def test_sampled_discrete_gaussians() -> None:
    found = recompute(repeat(50, poisson(0.1, discrete(1.0, 0.05))), relation="add-remove", delta=1e-5)
    closed = recompute(repeat(50, poisson(0.1, gaussian(1.0))), relation="add-remove", delta=1e-5)
    assert found.epsilon_upper == pytest.approx(closed.epsilon_upper, rel=5e-3)
    assert found.epsilon_upper - found.epsilon_lower <= 2e-3 * found.epsilon_upper


def test_samples_without_replacement_differ_by_a_substitution_under_every_relation() -> None:
    """Two equal parallel parts on one sample: the displaced record may be in the other part, so both are crossed."""
    node = {"kind": "parallel", "parts": [gaussian(1.0), gaussian(1.0)]}
    found = recompute(without_replacement(100, 10, node), relation="add-remove", delta=1e-4)
    crossed = without_replacement(100, 10, repeat(2, gaussian(1.0)))
    assert found.epsilon_upper == recompute(crossed, relation="add-remove", delta=1e-4).epsilon_upper


def test_unlike_parts_are_amplified_together() -> None:
    """A record displaces one of the other part: both parts see a change, also where membership is fixed."""
    pure = {"kind": "pure", "epsilon": 1.0}
    node = {"kind": "parallel", "parts": [gaussian(1.0), pure], "membership": "fixed"}
    found = recompute(without_replacement(100, 10, node), relation="substitution", delta=1e-4)
    both = {"kind": "compose", "parts": [gaussian(1.0), pure]}
    crossed = recompute(without_replacement(100, 10, both), relation="substitution", delta=1e-4)
    assert found.epsilon_upper == crossed.epsilon_upper
    assert found.epsilon_lower < crossed.epsilon_lower
    assert recompute(poisson(0.1, node), relation="add-remove", delta=1e-4).epsilon_upper > 0


def test_parts_that_cannot_be_compared_are_not_amplified_one_by_one() -> None:
    """Inside a part and between two: neither costs at least what the other does, nor is the curve above both."""
    parts, moves = [gaussian(1.0)] * 2, [{"kind": "approximate", "epsilon": 0.1, "delta": 0.1}] * 2
    node = {"kind": "parallel", "parts": parts, "moves": moves, "membership": "fixed"}
    with pytest.raises(NotSupported) as caught:
        recompute(without_replacement(100, 10, node), relation="substitution", delta=1e-4)
    assert caught.value.hint


def test_a_point_of_the_curve_near_the_largest_loss_is_no_fault():
    """Ten pure mechanisms on samples: at ε = 1.5775 next to nothing is left of δ, and the search for its size ends."""
    sampled = {"kind": "subsample", "scheme": "without-replacement", "population": 24, "sample": 6}
    plan = parse_plan(repeat(10, {**sampled, "of": {"kind": "pure", "epsilon": 0.5}}))
    ((epsilon, delta),) = recomputed_curve(plan, relation="zero-out", points=[1.5775375252470205])
    assert epsilon == 1.5775375252470205
    assert 0.0 <= delta < 1e-9


def test_a_sample_of_thirty_thousand_keeps_its_lower_side() -> None:
    """Fewer lattice points for tails lost it: what is reached was said to be nothing."""
    sample = {"kind": "subsample", "scheme": "without-replacement", "population": 30_000, "sample": 20}
    plan = {"kind": "repeat", "count": 100, "of": {**sample, "of": {"kind": "gaussian", "noise_multiplier": 0.51}}}
    found = recompute(plan, relation="substitution", delta=1e-5)
    assert found.epsilon_upper == pytest.approx(1.41994, rel=1e-4)
    assert 0.995 * found.epsilon_upper < found.epsilon_lower < found.epsilon_upper
