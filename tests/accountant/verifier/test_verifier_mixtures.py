"""Mechanisms with and without a dominating pair together; parallel parts; the order of time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.mixture import LossMasses
from affidavit.accountant.verifier.reading import read


def gaussian(sigma: float) -> dict:
    return {"kind": "gaussian", "noise_multiplier": sigma}


def approximate(epsilon: float, delta: float) -> dict:
    return {"kind": "approximate", "epsilon": epsilon, "delta": delta}


def pure(epsilon: float) -> dict:
    return {"kind": "pure", "epsilon": epsilon}


def exponential(spread: float) -> dict:
    return {"kind": "exponential", "range": spread}


def repeat(count: int, of: dict) -> dict:
    return {"kind": "repeat", "count": count, "of": of}


def compose(*parts: dict) -> dict:
    return {"kind": "compose", "parts": list(parts)}


def parallel(*parts: dict, **more: object) -> dict:
    return {"kind": "parallel", "parts": list(parts), **more}


def one_step(eta: float, alpha: float) -> float:
    """(√E - √α)²/(E - 1) between 1/E and E, with its reflection below 1."""
    if alpha < 1.0:
        return 1.0 - alpha + alpha * one_step(eta, 1.0 / alpha)
    return max(0.0, math.exp(eta / 2) - math.sqrt(alpha)) ** 2 / math.expm1(eta)


def coin_then_softmax(epsilon: float, eta: float, alpha: float) -> float:
    """A pure mechanism first: E over its loss of the one-step curve."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    return p * one_step(eta, alpha * math.exp(-epsilon)) + (1 - p) * one_step(eta, alpha * math.exp(epsilon))


def softmax_then_coin(epsilon: float, eta: float, alpha: float) -> float:
    """The softmax first: the best t over a dense scan, then the pure mechanism's curve."""

    def coin(a: float) -> float:
        p = math.exp(epsilon) / (1 + math.exp(epsilon))
        return max(0.0, p - a * (1 - p)) + max(0.0, (1 - p) - a * p)

    best = 0.0
    for k in range(20_001):
        t = eta * k / 20_000
        chance = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
        best = max(best, chance * coin(alpha * math.exp(-t)) + (1 - chance) * coin(alpha * math.exp(eta - t)))
    return best


@pytest.mark.parametrize("epsilon", [0.1, 0.45, 0.9])
def test_what_runs_first_matters(epsilon: float) -> None:
    """Both orders of one pure and one exponential mechanism, each against its own formula."""
    first = recompute(compose(pure(0.5), exponential(0.6)), relation="zero-out", epsilon=epsilon)
    last = recompute(compose(exponential(0.6), pure(0.5)), relation="zero-out", epsilon=epsilon)
    for found, truth in (
        (first, coin_then_softmax(0.5, 0.6, math.exp(epsilon))),
        (last, softmax_then_coin(0.5, 0.6, math.exp(epsilon))),
    ):
        assert found.delta_lower <= truth * (1 + 1e-6)  # a scan falls short of its maximum by about 1e-8
        assert found.delta_upper >= truth * (1 - 1e-9)
        assert found.delta_upper - found.delta_lower <= 2e-3 * truth
    assert first.delta_upper >= last.delta_lower


@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_a_fixed_pair_between_steps_is_bracketed_by_the_two_ends(delta: float) -> None:
    steps = repeat(10, exponential(0.3))
    found = [
        recompute(compose(*parts), relation="zero-out", delta=delta)
        for parts in ((gaussian(1.0), steps, steps), (steps, gaussian(1.0), steps), (steps, steps, gaussian(1.0)))
    ]
    first, between, last = found
    assert last.epsilon_lower <= between.epsilon_upper
    assert between.epsilon_upper <= first.epsilon_upper * (1 + 1e-6)
    assert between.epsilon_lower >= last.epsilon_lower * (1 - 1e-6)


@pytest.mark.parametrize("sigma", [0.05, 1.0, 50.0])
def test_gaussian_and_steps_are_between_their_parts(sigma: float) -> None:
    steps = repeat(40, exponential(0.2))
    both = recompute(compose(gaussian(sigma), steps), relation="zero-out", delta=1e-5)
    alone = [recompute(part, relation="zero-out", delta=1e-5) for part in (gaussian(sigma), steps)]
    assert both.epsilon_upper >= max(part.epsilon_lower for part in alone)
    assert both.epsilon_upper - both.epsilon_lower <= 1e-3 * both.epsilon_upper
    # Basic composition at half the δ each is an upper bound on the truth.
    halves = [recompute(part, relation="zero-out", delta=5e-6) for part in (gaussian(sigma), steps)]
    assert both.epsilon_lower <= sum(part.epsilon_upper for part in halves)


def test_failure_mass_of_approximate_mechanisms_is_infinite_loss() -> None:
    plan = compose({"kind": "approximate", "epsilon": 0.5, "delta": 1e-4}, repeat(20, exponential(0.2)))
    assert recompute(plan, relation="zero-out", delta=9e-5).epsilon_lower == math.inf
    found = recompute(plan, relation="zero-out", delta=1.1e-4)
    assert found.epsilon_upper < math.inf
    assert found.epsilon_upper - found.epsilon_lower <= 2e-3 * found.epsilon_upper
    beyond = recompute(plan, relation="zero-out", epsilon=10.0)
    assert beyond.delta_lower == pytest.approx(1e-4, rel=1e-6)
    assert beyond.delta_upper >= 1e-4


def test_parallel_parts_are_alternatives() -> None:
    costly, cheap = repeat(40, exponential(0.2)), repeat(10, exponential(0.1))
    whole = recompute(parallel(cheap, costly, cheap), relation="zero-out", delta=1e-5)
    assert whole == recompute(costly, relation="zero-out", delta=1e-5)


def test_a_moving_record_pays_in_two_parts() -> None:
    """PRISM under substitution: the larger of one part at 2c/s and two parts at c/s."""
    inside, move = repeat(30, exponential(0.3)), repeat(30, exponential(0.15))
    plan = parallel(*[inside] * 4, moves=[move] * 4)
    found = recompute(plan, relation="substitution", delta=1e-5)
    stays = recompute(inside, relation="substitution", delta=1e-5)
    crosses = recompute(repeat(60, exponential(0.15)), relation="substitution", delta=1e-5)
    assert found.epsilon_upper == max(stays.epsilon_upper, crosses.epsilon_upper)
    fixed = recompute(parallel(*[inside] * 4, membership="fixed"), relation="substitution", delta=1e-5)
    assert fixed.epsilon_upper == stays.epsilon_upper


def test_thousands_of_equal_parts_cost_nothing() -> None:
    cases = read(parse_plan(parallel(*[repeat(40, exponential(0.2))] * 2000)), "substitution").upper
    assert len(cases) == 1
    assert cases[0].steps == ((cases[0].steps[0][0], 80),)


def test_parts_side_by_side_have_no_order() -> None:
    """Unequal steps of two crossing parts: bounds that hold in any interleaving, in particular in both sequences."""
    a, b = repeat(10, exponential(0.9)), repeat(10, exponential(0.3))
    crossing = recompute(parallel(gaussian(1e9), gaussian(1e9), moves=[a, b]), relation="substitution", delta=1e-3)
    for sequence in (compose(a, b), compose(b, a)):
        ordered = recompute(sequence, relation="zero-out", delta=1e-3)
        assert crossing.epsilon_upper >= ordered.epsilon_lower
        assert crossing.epsilon_lower <= ordered.epsilon_upper


def test_parallel_nodes_in_sequence_combine_in_every_way() -> None:
    """Two nodes of (strong, weak) parts under add-remove: the record may be in the strong part of both."""
    node = parallel(gaussian(1.0), approximate(0.3, 1e-7))
    found = recompute(compose(node, node), relation="add-remove", delta=1e-5)
    both = recompute(repeat(2, gaussian(1.0)), relation="add-remove", delta=1e-5)
    assert found.epsilon_upper >= both.epsilon_upper
    mixed = recompute(compose(gaussian(1.0), approximate(0.3, 1e-7)), relation="add-remove", delta=1e-5)
    assert found.epsilon_upper >= mixed.epsilon_lower
    assert len(read(parse_plan(compose(node, node)), "add-remove").upper) == 3


def test_dominated_parts_are_dropped_wherever_they_are_nested() -> None:
    node = parallel(gaussian(2.0), gaussian(1.0), gaussian(3.0))
    assert len(read(parse_plan(repeat(10**6, compose(node, pure(0.1)))), "zero-out").upper) == 1


def test_ways_that_are_too_many_to_list_are_bounded_together() -> None:
    parts = [gaussian(1.0), approximate(1.0, 1e-12), exponential(1.0)]
    found = recompute(repeat(1000, parallel(*parts)), relation="zero-out", delta=1e-5)
    for part in parts:
        assert found.epsilon_upper >= recompute(repeat(1000, part), relation="zero-out", delta=1e-5).epsilon_lower
    assert found.epsilon_upper < 1.5 * found.epsilon_lower


@pytest.mark.parametrize(
    "body",
    [gaussian(3.0), pure(0.2), exponential(0.2), compose(pure(0.1), exponential(0.1)), parallel(pure(0.2), pure(0.1))],
)
def test_repeat_is_compose(body: dict) -> None:
    together = recompute(repeat(5, body), relation="zero-out", delta=1e-4)
    apart = recompute(compose(*[body] * 5), relation="zero-out", delta=1e-4)
    assert together.epsilon_upper == pytest.approx(apart.epsilon_upper, rel=1e-9)
    assert together.epsilon_lower == pytest.approx(apart.epsilon_lower, rel=1e-9)


def stick(masses: np.ndarray, losses: np.ndarray, epsilon: float) -> float:
    """Σ m (1 − e^{ε − l})+."""
    return math.fsum((masses * -np.expm1(np.minimum(epsilon - losses, 0.0))).tolist())


@pytest.mark.parametrize("scale", [1e-3, 1.0, 200.0])
def test_a_long_product_is_gathered_on_the_safe_side(scale: float) -> None:
    """Against every pair of losses, multiplied out."""
    draw = np.random.default_rng(7)
    parts = []
    for count in (300, 400):
        losses, masses = np.sort(draw.normal(0.2 * scale, scale, count)), draw.exponential(1.0, count)
        masses *= 0.99 / masses.sum()
        parts.append((masses, losses))
    product = LossMasses(*parts[0], 0.01, *parts[0]).times(LossMasses(*parts[1], 0.01, *parts[1]))
    masses, losses = np.multiply.outer(parts[0][0], parts[1][0]).ravel(), np.add.outer(parts[0][1], parts[1][1]).ravel()
    assert len(product.upper_mass) < len(masses) / 10
    for epsilon in np.linspace(-2.0 * scale, 5.0 * scale, 29):
        exact = stick(masses, losses, epsilon)
        above = stick(product.upper_mass, product.upper_loss, epsilon)
        below = stick(product.lower_mass, product.lower_loss, epsilon)
        assert below <= exact * (1.0 + 1e-14)
        assert exact <= above * (1.0 + 1e-14)
        cell = (losses.max() - losses.min()) / 8_000
        assert above - below <= cell * (1.0 + cell) * masses.sum() + 1e-9


@pytest.mark.parametrize(
    ("uses", "of", "sigma", "spread"),
    [(90_000, pure(0.1), 1.0, 1.0), (20_000, pure(0.5), 2.0, 0.5)],
)
def test_tens_of_thousands_of_sampled_pure_mechanisms_beside_others(
    uses: int, of: dict, sigma: float, spread: float
) -> None:
    """Both engines' brackets hold the same value; the issuing one knows no product of losses."""
    sampled = repeat(uses, {"kind": "subsample", "scheme": "poisson", "rate": 0.001, "of": of})
    plan = compose(sampled, gaussian(sigma), exponential(spread))
    found, issued = (ask(plan, relation="zero-out", delta=1e-6) for ask in (recompute, bound))
    assert 0.0 <= found.epsilon_upper - found.epsilon_lower <= 2e-4 * found.epsilon_upper
    assert max(found.epsilon_lower, issued.epsilon_lower) <= min(found.epsilon_upper, issued.epsilon_upper)


@pytest.mark.parametrize("leaf", [gaussian(2.0), pure(0.3), exponential(0.3), {"kind": "zcdp", "rho": 0.02}])
def test_more_uses_and_smaller_deltas_cost_more(leaf: dict) -> None:
    def upper(count: int, delta: float) -> float:
        return recompute(repeat(count, leaf), relation="add-remove", delta=delta).epsilon_upper

    values = [upper(count, 1e-5) for count in (1, 3, 10, 30)]
    assert values == sorted(values)
    values = [upper(5, delta) for delta in (1e-2, 1e-4, 1e-8, 1e-16)]
    assert values == sorted(values)


def test_a_cell_that_is_wider_than_float64_reaches_loses_no_more_than_its_outcomes() -> None:
    """Losses of 2.5e9 in 8,000 cells: e^-loss was 0 in them and the merged outcome's loss infinite.

    The sample alone costs 2525987601.496 (q δ_G(ε) = δ, in closed form), randomised response 4.998544 more at most;
    at least 2526353224.77 was said of both.
    """
    gaussian = {"kind": "gaussian", "noise_multiplier": 1.407e-5}
    sample = {"kind": "subsample", "scheme": "poisson", "rate": 0.0007424, "of": gaussian}
    plan = {"kind": "compose", "parts": [sample, {"kind": "pure", "epsilon": 4.998544}]}
    for relation in ("substitution", "add-remove"):
        alone = recompute(sample, relation=relation, delta=1.96e-8)
        found = recompute(plan, relation=relation, delta=1.96e-8)
        assert found.epsilon_lower <= alone.epsilon_upper + 4.998544
        assert found.epsilon_upper >= alone.epsilon_lower
        assert found.epsilon_lower >= 0.99 * alone.epsilon_lower
