"""Samples of whatever runs on them: concentrated mechanisms, none without noise, samples of samples, compositions."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import mpmath
import pytest
from flint import arb

from affidavit.accountant.bound import bound
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.balls import precision
from affidavit.accountant.verifier.pairs import Pair
from affidavit.accountant.verifier.sampled import concentrated_pair

Node = dict[str, Any]


def leaf(kind: str, **values: float) -> Node:
    return {"kind": kind, **values}


def gaussian(noise: float) -> Node:
    return leaf("gaussian", noise_multiplier=noise)


def laplace(noise: float) -> Node:
    return leaf("laplace", noise_multiplier=noise)


def pure(epsilon: float) -> Node:
    return leaf("pure", epsilon=epsilon)


def zcdp(rho: float) -> Node:
    return leaf("zcdp", rho=rho)


def compose(*parts: Node) -> Node:
    return {"kind": "compose", "parts": list(parts)}


def repeat(count: int, of: Node) -> Node:
    return {"kind": "repeat", "count": count, "of": of}


def poisson(rate: float, of: Node, **more: Any) -> Node:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of, **more}


def drawn(population: int, sample: int, of: Node) -> Node:
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


# --- the pair of a concentrated mechanism -------------------------------------------------------------------------


def least_over_orders(rho: float, epsilon: float) -> mpmath.mpf:
    """The conversion of Canonne, Kamath and Steinke 2020 at the best of many orders, by ternary search."""

    def log_bound(u: mpmath.mpf) -> mpmath.mpf:
        a = 1 + mpmath.exp(u)
        return (a - 1) * (a * rho - epsilon) + a * mpmath.log(1 - 1 / a) - mpmath.log(a - 1)

    low, high = mpmath.mpf(-60), mpmath.mpf(60)
    for _ in range(400):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if log_bound(left) > log_bound(right) else (low, right)
    return mpmath.exp(log_bound(low))


CUT = 1e-40


def curve(pair: Pair, epsilon: float) -> mpmath.mpf:
    with precision(200):
        p, q = pair.above(arb(epsilon))
        value = p - arb(epsilon).exp() * q
        assert value.rad() < 1e-20
        return mpmath.mpf(str(value.mid().str(40, radius=False)))


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.1, 1.0, 30.0])
def test_the_pair_of_a_concentrated_mechanism_has_the_best_conversion_as_its_curve(rho: float) -> None:
    with precision(200), mpmath.workdps(60):
        pair = concentrated_pair(Fraction(rho), CUT)
        for away in (0.1, 0.5, 1.0, 3.0, 8.0):
            epsilon = rho + away * math.sqrt(2.0 * rho)
            wanted, found = min(1, least_over_orders(rho, epsilon)), curve(pair, epsilon)
            assert found <= wanted * (1 + 2e-4) + CUT  # a chord's, 8 deviations away
            # Its reflection, at the other end: H(1/x) = 1 - 1/x + H(x)/x.
            mirrored = 1 - mpmath.exp(-epsilon) + mpmath.exp(-epsilon) * found
            assert abs(curve(pair, -epsilon) - mirrored) < 1e-15
            if away > 2.0:  # beyond the chord between the two
                assert wanted <= found


def divergence(p: list[float], q: list[float], order: float) -> float:
    logs = [order * math.log(a) + (1 - order) * math.log(b) for a, b in zip(p, q, strict=True)]
    return (max(logs) + math.log(math.fsum(math.exp(one - max(logs)) for one in logs))) / (order - 1)


def test_the_pair_dominates_every_mechanism_that_is_as_concentrated() -> None:
    """Random laws; ρ is the largest D_α/α both ways over many orders."""
    rng = random.Random(5)
    orders = [1.0 + 10.0 ** (k / 64) for k in range(-256, 192)]
    for _ in range(40):
        count, spread = rng.choice((2, 3, 6)), rng.choice((0.1, 1.0, 3.0))
        p = [math.exp(rng.gauss(0.0, spread)) for _ in range(count)]
        q = [math.exp(rng.gauss(0.0, spread)) for _ in range(count)]
        p, q = ([value / sum(law) for value in law] for law in (p, q))
        rho = max(max(divergence(p, q, a), divergence(q, p, a)) / a for a in orders) * (1 + 1e-3)
        with precision(200):
            pair = concentrated_pair(Fraction(rho), CUT)
        for epsilon in (-3.0, -1.0, -0.2, 0.0, 0.05, 0.3, 1.0, 2.5):
            reached = max(
                sum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(*laws, strict=True))
                for laws in ((p, q), (q, p))
            )
            assert float(curve(pair, epsilon)) >= reached - 1e-12


# --- samples of it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rho", "rate"), [(0.1, 0.1), (1.0, 0.01), (0.003, 0.7)])
def test_a_sample_of_a_concentrated_mechanism_amplifies_its_conversion(rho: float, rate: float) -> None:
    """δ at ln(1 + q(e^ε - 1)) is q times the conversion at ε (Balle, Barthe, Gaboardi 2018), for every relation."""
    epsilon = rho + 4 * math.sqrt(rho)
    with mpmath.workdps(40):
        outer = float(mpmath.log(1 + rate * mpmath.expm1(epsilon)))
        wanted = rate * float(least_over_orders(rho, epsilon))
    samples = (poisson(rate, zcdp(rho)), "add-remove"), (drawn(1000, round(1000 * rate), zcdp(rho)), "substitution")
    for plan, relation in samples:
        found = recompute(plan, relation=relation, epsilon=outer)  # type: ignore[arg-type]
        assert wanted * (1 - 1e-12) <= found.delta_upper <= wanted * (1 + 2e-5)  # chords
        stand_in = gaussian(1 / math.sqrt(2 * rho))
        below = recompute({**plan, "of": stand_in}, relation=relation, epsilon=outer)  # type: ignore[arg-type]
        assert found.delta_lower == pytest.approx(below.delta_lower, rel=1e-9)
    found = recompute(poisson(rate, zcdp(rho)), relation="substitution", epsilon=epsilon)
    assert wanted * (1 - 1e-12) <= found.delta_upper <= wanted * (1 + 2e-5)  # not amplified, but diluted


@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "substitution"])
def test_uses_of_concentrated_samples_cost_no_less_than_gaussian_ones(relation: Any) -> None:
    for rate, rho, count in ((0.1, 0.1, 20), (0.5, 0.02, 5)):
        plan = repeat(count, poisson(rate, zcdp(rho)))
        found = recompute(plan, relation=relation, delta=1e-6)
        stand_in = repeat(count, poisson(rate, gaussian(1 / math.sqrt(2 * rho) * (1 + 1e-15))))
        below = recompute(stand_in, relation=relation, delta=1e-6)
        assert below.epsilon_lower * (1 - 1e-9) <= found.epsilon_lower <= found.epsilon_upper
        assert found.epsilon_upper <= recompute(repeat(count, zcdp(rho)), relation=relation, delta=1e-6).epsilon_upper


def test_all_that_is_concentrated_on_a_sample_is_one() -> None:
    several = compose(zcdp(0.01), repeat(3, zcdp(0.02)))
    for delta in (1e-3, 1e-9):
        one, other = (recompute(poisson(0.2, of), relation="zero-out", delta=delta) for of in (several, zcdp(0.07)))
        assert one.epsilon_upper == pytest.approx(other.epsilon_upper, rel=1e-12)


def test_beside_a_concentrated_mechanism_on_a_sample() -> None:
    """At most as if the Gaussian were known by its ρ only, at least as if the other were a Gaussian."""
    found = recompute(poisson(0.1, compose(gaussian(2.0), zcdp(0.01))), relation="add-remove", delta=1e-6)
    merged = recompute(poisson(0.1, zcdp(0.01 + 0.125)), relation="add-remove", delta=1e-6)
    both = recompute(poisson(0.1, gaussian((0.25 + 0.02) ** -0.5)), relation="add-remove", delta=1e-6)
    assert both.epsilon_lower * (1 - 1e-9) <= found.epsilon_upper < merged.epsilon_upper
    assert found.epsilon_lower == pytest.approx(both.epsilon_lower, rel=1e-9)


# --- no noise -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "count"), [(0.01, 1), (0.25, 3)])
def test_a_sample_without_noise_fails_where_it_takes_the_record(rate: float, count: int) -> None:
    wanted = -math.expm1(count * math.log1p(-rate))
    for plan, relation in (
        (repeat(count, poisson(rate, gaussian(0.0))), "add-remove"),
        (repeat(count, poisson(rate, laplace(0.0))), "substitution"),
        (repeat(count, drawn(1000, round(1000 * rate), compose(pure(1.0), gaussian(0.0)))), "zero-out"),
    ):
        found = recompute(plan, relation=relation, epsilon=20.0)  # type: ignore[arg-type]
        assert found.delta_lower <= wanted * (1 + 1e-12)
        assert found.delta_upper >= wanted * (1 - 1e-12)
        assert found.delta_upper - found.delta_lower <= 1e-6 * wanted
        assert recompute(plan, relation=relation, delta=0.9 * wanted).epsilon_lower == math.inf  # type: ignore[arg-type]


# --- compositions on one sample, samples of samples ---------------------------------------------------------------


Law = list[tuple[float, float]]
"""Outcomes: their probabilities with the record and without it."""


def law_of(plan: Node) -> Law:
    """Under zero-out, of Poisson samples of pure and approximate mechanisms, written out."""
    match plan["kind"]:
        case "pure":
            high = 1 / (1 + math.exp(-plan["epsilon"]))
            return [(high, 1 - high), (1 - high, high)]
        case "approximate":
            lost, inner = plan["delta"], law_of(pure(plan["epsilon"]))
            return [(lost, 0.0), (0.0, lost), *((p * (1 - lost), q * (1 - lost)) for p, q in inner)]
        case "subsample":
            return [(plan["rate"] * p + (1 - plan["rate"]) * q, q) for p, q in law_of(plan["of"])]
        case "repeat":
            return law_of(compose(*[plan["of"]] * plan["count"]))
    laws = [law_of(part) for part in plan["parts"]]
    return [(math.prod(p for p, _ in one), math.prod(q for _, q in one)) for one in itertools.product(*laws)]


def sticks(law: Law, epsilon: float) -> float:
    return max(
        math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in one) for one in (law, [(q, p) for p, q in law])
    )


def nested_plans() -> Iterator[Node]:
    approximate = leaf("approximate", epsilon=0.5, delta=1e-3)
    yield poisson(0.3, compose(poisson(0.4, pure(1.0)), pure(0.5)))
    yield poisson(0.3, repeat(3, poisson(0.4, pure(1.0))))
    yield poisson(0.3, compose(poisson(0.4, approximate), poisson(0.7, compose(pure(0.4), poisson(0.5, pure(2.0))))))
    yield compose(poisson(0.2, compose(poisson(0.5, compose(pure(1.0), pure(0.3))), pure(0.2))), pure(0.7))
    yield repeat(2, poisson(0.5, compose(poisson(0.5, compose(pure(1.0), pure(0.25))), approximate)))


@pytest.mark.parametrize("plan", [*nested_plans()])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
def test_samples_of_samples_by_writing_all_outcomes_out(plan: Node, epsilon: float) -> None:
    wanted = sticks(law_of(plan), epsilon)
    found = recompute(plan, relation="zero-out", epsilon=epsilon)
    assert found.delta_lower <= wanted * (1 + 1e-12) + 1e-15
    assert found.delta_upper >= wanted * (1 - 1e-12) - 1e-15
    assert found.delta_upper <= 1.001 * wanted + 1e-9
    assert found.delta_lower >= 0.98 * wanted - 1e-9  # heavy losses fall between the places of a lattice


def test_laplace_beside_a_pure_mechanism_on_a_sample() -> None:
    """By quadrature: δ of the two on the sample at λ, times q."""
    scale, size, rate, outer = 1.5, 0.4, 0.2, 0.15
    inner = math.log1p(math.expm1(outer) / rate)

    def laplace_delta(epsilon: float) -> mpmath.mpf:
        def gap(x: mpmath.mpf) -> mpmath.mpf:
            p, q = (mpmath.exp(-abs(x - mean) / scale) / (2 * scale) for mean in (1, 0))
            return max(mpmath.mpf(0), p - mpmath.exp(epsilon) * q)

        place = (1 + epsilon * scale) / 2
        cuts = sorted({-40, 0, 1, 40, *([place] if 0 < place < 1 else [])})
        return mpmath.quad(gap, cuts)

    high = 1 / (1 + math.exp(-size))
    wanted = rate * float(high * laplace_delta(inner - size) + (1 - high) * laplace_delta(inner + size))
    found = recompute(poisson(rate, compose(laplace(scale), pure(size))), relation="add-remove", epsilon=outer)
    assert found.delta_lower <= wanted * (1 + 1e-9)
    assert found.delta_upper == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "substitution"])
@pytest.mark.parametrize(
    "plan",
    [
        poisson(0.1, compose(laplace(2.0), gaussian(1.5))),
        repeat(3, poisson(0.1, compose(gaussian(1.0), poisson(0.2, laplace(1.0))))),
        poisson(0.05, repeat(30, poisson(0.3, gaussian(2.0)))),
        repeat(5, drawn(100, 10, compose(laplace(1.0), laplace(3.0)))),
    ],
)
def test_the_engines_do_not_contradict_each_other(plan: Node, relation: Any) -> None:
    found, issued = recompute(plan, relation=relation, delta=1e-6), bound(plan, relation=relation, delta=1e-6)
    assert max(found.epsilon_lower, issued.epsilon_lower) <= min(found.epsilon_upper, issued.epsilon_upper)
    assert found.epsilon_upper <= issued.epsilon_upper * (1 + 1e-3)


def test_a_sample_of_a_sample_is_a_smaller_sample() -> None:
    for twice, once in (
        (poisson(0.2, poisson(0.5, gaussian(1.0))), poisson(0.1, gaussian(1.0))),
        (drawn(100, 40, drawn(40, 10, laplace(1.0))), drawn(100, 10, laplace(1.0))),
    ):
        for relation in ("add-remove", "zero-out", "substitution"):
            one, other = (
                recompute(repeat(50, plan), relation=relation, delta=1e-6)  # type: ignore[arg-type]
                for plan in (twice, once)
            )
            assert one.epsilon_upper == pytest.approx(other.epsilon_upper, rel=1e-9)
            assert one.epsilon_lower == pytest.approx(other.epsilon_lower, rel=1e-9)


def test_a_sample_of_a_fixed_size_of_rare_poisson_samples_has_a_lower_side() -> None:
    """Most of what runs on the sample loses nothing: that loss is kept apart from the others."""
    found = recompute(repeat(100, drawn(100, 40, poisson(0.01, gaussian(0.5)))), relation="substitution", delta=1e-6)
    assert 0.9 * found.epsilon_upper < found.epsilon_lower


def test_several_exponential_mechanisms_on_a_sample() -> None:
    """At least what pure ones of half their range cost, at most what pure ones of all of it do."""
    steps = [leaf("exponential", range=size) for size in (0.5, 0.5, 1.0)]
    found = recompute(poisson(0.1, compose(*steps, gaussian(2.0))), relation="add-remove", delta=1e-6)
    half, whole = (
        recompute(poisson(0.1, compose(*map(pure, sizes), gaussian(2.0))), relation="add-remove", delta=1e-6)
        for sizes in ((0.25, 0.25, 0.5), (0.5, 0.5, 1.0))
    )
    assert half.epsilon_lower * (1 - 1e-4) <= found.epsilon_lower
    assert found.epsilon_lower <= found.epsilon_upper <= whole.epsilon_upper


@pytest.mark.parametrize(
    ("of", "absent"),
    [
        (zcdp(0.2), zcdp(0.05)),
        (pure(1.0), gaussian(1.0)),
        (gaussian(1.0), pure(1.0)),
        (laplace(1.0), laplace(2.0)),
        (pure(1.0), leaf("approximate", epsilon=0.5, delta=1e-9)),
    ],
)
def test_two_statements_about_a_sample_cost_no_more_than_the_larger_one(of: Node, absent: Node) -> None:
    """A mixture of both curves is below the larger one's, which without-replacement sampling has."""
    found = recompute(repeat(3, poisson(0.1, of, absent=absent)), relation="substitution", delta=1e-5)
    assert 0.0 <= found.epsilon_lower <= found.epsilon_upper
    alone = recompute(repeat(3, poisson(0.1, of)), relation="substitution", delta=1e-5)
    assert found.epsilon_upper <= alone.epsilon_upper


def test_a_pair_with_mass_on_minus_infinity_has_a_lattice_of_its_finite_losses() -> None:
    """A record that enters: some of what runs there may lie below all losses that were kept."""
    sample = drawn(1447, 168, compose(gaussian(2.3), laplace(12.0)))
    plan = compose(pure(0.2), repeat(52, leaf("exponential", range=0.00422)), sample)
    found = recompute(plan, relation="add-remove", delta=2.81e-5)
    issued = bound(plan, relation="add-remove", delta=2.81e-5)
    assert issued.epsilon_lower <= found.epsilon_upper
    assert 0.99 * found.epsilon_upper <= found.epsilon_lower <= issued.epsilon_upper
