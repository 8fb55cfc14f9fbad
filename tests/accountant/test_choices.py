"""Cases that are too many to list: so many uses, each any one of several, are never below what a listed case costs."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.cases.case import cases_of
from affidavit.accountant.cases.dominance import at_least_as_costly
from affidavit.accountant.plan import (
    Approximate,
    Compose,
    Exponential,
    Gaussian,
    Laplace,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    ZeroConcentrated,
)
from affidavit.accountant.pld.steps import one_step
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.cases import enough
from support.unlisted import listed_at_most

RELATIONS: tuple[Relation, ...] = ("add-remove", "zero-out", "substitution")
ROOM = 1.0 + 1e-9


def leaf(rng: random.Random, *, sampled: bool) -> Plan:
    """A mechanism of moderate cost."""
    size = math.exp(rng.uniform(math.log(0.03), math.log(0.8)))
    made: list[Plan] = [
        Gaussian(1.0 / size),
        Laplace(1.0 / size),
        Pure(size),
        Approximate(size, 1e-9),
        Exponential(2.0 * size),
        ZeroConcentrated(size * size / 2.0),
    ]
    if sampled:
        made += [Poisson(0.2, Gaussian(0.5 / size)), WithoutReplacement(50, 10, Laplace(0.5 / size))]
    return rng.choice(made)


def part(rng: random.Random, *, sampled: bool) -> Plan:
    one, other = leaf(rng, sampled=sampled), leaf(rng, sampled=sampled)
    return rng.choice([one, one, Repeat(3, one), Compose((one, other))])


def unlike(seed: int) -> tuple[Plan, Relation]:
    """A repeated parallel node, perhaps beside or below others."""
    rng = random.Random(seed)
    relation = rng.choice(RELATIONS)
    sampled = relation != "substitution"
    parts = tuple(part(rng, sampled=sampled) for _ in range(rng.choice((2, 2, 3))))
    many = Repeat(rng.choice((2, 3, 4)), Parallel(parts))
    return rng.choice(
        [many, Compose((many, leaf(rng, sampled=sampled))), Repeat(2, many), Parallel((many, parts[0]))]
    ), relation


@pytest.mark.parametrize("seed", [*range(10), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 40))])
def test_what_is_not_listed_costs_no_less(seed: int) -> None:
    """Either engine, of δ at an ε and of ε at a δ, against what each engine's lower side says of the listed cases."""
    plan, relation = unlike(seed)
    for asked in ({"delta": 1e-5}, {"epsilon": 0.5}):
        listed = [bound(plan, relation=relation, **asked), recompute(plan, relation=relation, **asked)]
        with listed_at_most(1):
            together = [bound(plan, relation=relation, **asked), recompute(plan, relation=relation, **asked)]
        for found in together:
            assert found.epsilon_upper * ROOM >= max(one.epsilon_lower for one in listed)
            assert found.delta_upper * ROOM >= max(one.delta_lower for one in listed)
            assert found.epsilon_lower <= min(one.epsilon_upper for one in listed) * ROOM
            assert found.delta_lower <= min(one.delta_upper for one in listed) * ROOM


MANY: list[tuple[Plan, float]] = [
    (Parallel((Pure(0.3), Gaussian(4.0), ZeroConcentrated(0.02))), 1.1),
    (Parallel((Laplace(2.0), Gaussian(2.4), Approximate(0.2, 1e-9))), 1.1),
    (Parallel((Exponential(0.9), Compose((Gaussian(7.0), Laplace(9.0))), ZeroConcentrated(0.03))), 1.1),
    (Parallel((Repeat(29, Pure(0.107)), Laplace(1.91))), 1.1),
    (Compose((Parallel((Gaussian(5.0), Pure(0.2))), Parallel((ZeroConcentrated(0.01), Approximate(0.1, 1e-10))))), 1.2),
]


@pytest.mark.parametrize(("one", "width"), MANY)
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_thousand_uses_of_unlike_parts(one: Plan, width: float, relation: Relation) -> None:
    """Both engines answer; both upper sides are near what is reached."""
    plan = Repeat(1000, one)
    found, again = bound(plan, relation=relation, delta=1e-5), recompute(plan, relation=relation, delta=1e-5)
    least = max(found.epsilon_lower, again.epsilon_lower)
    assert min(found.epsilon_lower, again.epsilon_lower) > 0.5 * least
    for upper in (found.epsilon_upper, again.epsilon_upper):
        assert least <= upper <= width * least


def test_as_many_options_as_one_likes() -> None:
    """None covers another: 60 in one parallel node, as if 32 were too many, and 3^8 by eight nodes in a row."""
    approximate = [Approximate(0.05 * (i + 1), 1e-9 * (60 - i)) for i in range(60)]
    in_a_row = [Parallel((Approximate(0.2, 1e-9), Gaussian(4.5), Laplace(4.4)))] * 8
    with listed_at_most(32):
        found = bound(Parallel(tuple(approximate)), relation="zero-out", delta=1e-5)
        again = recompute(Parallel(tuple(approximate)), relation="zero-out", delta=1e-5)
    for one in (found, again):
        assert 2.99 < one.epsilon_lower <= one.epsilon_upper < 1.05 * one.epsilon_lower
    plan = Compose(tuple(in_a_row))
    for one in (bound(plan, relation="zero-out", delta=1e-5), recompute(plan, relation="zero-out", delta=1e-5)):
        assert 0.0 < one.epsilon_lower <= one.epsilon_upper < 1.4 * one.epsilon_lower


def test_many_changes_of_range_are_any_order() -> None:
    """More than either engine keeps; no less than fewer of them, no more than all with the larger range."""
    pair = Compose((Exponential(0.01), Exponential(0.02)))
    for ask in (bound, recompute):
        found = ask(Repeat(20_001, pair), relation="zero-out", delta=1e-5)
        least = ask(Repeat(20_001, Exponential(0.02)), relation="zero-out", delta=1e-5)
        most = ask(Repeat(40_002, Exponential(0.02)), relation="zero-out", delta=1e-5)
        assert least.epsilon_lower <= found.epsilon_upper <= most.epsilon_upper
        assert 0.95 * least.epsilon_lower <= found.epsilon_lower <= found.epsilon_upper


def test_repeats_of_repeats_are_one() -> None:
    parts = Parallel((Pure(0.3), Gaussian(4.0)))
    flat, nested = Repeat(12, parts), Repeat(3, Repeat(4, parts))
    for relation in RELATIONS:
        assert cases_of(nested, relation) == cases_of(flat, relation)
        again = [recompute(plan, relation=relation, delta=1e-5) for plan in (flat, nested)]
        assert again[0].epsilon_upper == again[1].epsilon_upper


def equally_far(shift: float) -> tuple[float, float, float]:
    """1/σ, 1/b and ε of a Gaussian, a Laplace and a pure mechanism of one δ(0)."""
    kept = math.erfc(shift / math.sqrt(8.0))
    return shift, -2.0 * math.log(kept), math.log(2.0 / kept - 1.0)


@pytest.mark.parametrize("shift", [1e-3, 0.02, 0.3, 1.0, 3.0, 8.0])
def test_a_gaussian_dominates_laplace_and_pure_of_its_total_variation(shift: float) -> None:
    """By the curves, at every ε; and the rule says so, hardly more, and not the other way round."""
    mu, loss, epsilon = equally_far(shift)
    nodes = Gaussian(1.0 / mu), Laplace(1.0 / loss), Pure(epsilon)
    curves = [one_step(node, "zero-out").forward.upper for node in nodes]
    for at in np.linspace(-1.5 * loss, 1.5 * loss, 61):
        gaussian, laplace, pure = (curve.delta(float(at)) for curve in curves)
        assert gaussian[1] >= laplace[0] * (1.0 - 1e-9)
        assert laplace[1] >= pure[0] * (1.0 - 1e-9)
    little = 1.0 + 1e-6
    larger = Gaussian(1.0 / (mu * little)), Laplace(1.0 / (loss * little)), Pure(epsilon * little)
    for i in range(3):
        for j in range(i + 1, 3):
            assert at_least_as_costly(larger[i], nodes[j])
            assert not at_least_as_costly(nodes[i], larger[j])
    assert at_least_as_costly(ZeroConcentrated((mu * little) ** 2 / 2.0), nodes[1])
    assert not at_least_as_costly(nodes[1], Gaussian(1e3))
    for node in nodes[1:]:
        found = enough(node)  # the verifier's own way
        assert found is not None
        assert Fraction(mu) ** 2 * Fraction(1.0 - 1e-6) <= found <= Fraction(mu) ** 2 * Fraction(1.0 + 1e-6)
