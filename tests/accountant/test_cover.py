"""Many cases bounded together: never below what one of them costs, in both engines; and no finer than is confirmed."""

from __future__ import annotations

import importlib
import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

from affidavit.accountant.bound import bound
from affidavit.accountant.cases.case import cases_of
from affidavit.accountant.methods import cover
from affidavit.accountant.methods.base import Target
from affidavit.accountant.methods.best import best
from affidavit.accountant.methods.costliest import together
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
    ZeroConcentrated,
    core,
)
from affidavit.accountant.pld.atomic import approximate, pure
from affidavit.accountant.pld.curve import Curve
from affidavit.accountant.pld.gaussian import Gaussian as GaussianCurve
from affidavit.accountant.pld.laplace import Laplace as LaplaceCurve
from affidavit.accountant.pld.largest import Largest
from affidavit.accountant.settle import settle
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.case_profiles import profile_of
from affidavit.accountant.verifier.largest import Largest as LargestPair
from affidavit.accountant.verifier.pairs import GaussianPair, LaplacePair
from affidavit.accountant.verifier.profile import Target as Asked
from affidavit.accountant.verifier.profile import epsilon_of
from affidavit.accountant.verifier.reading import read

verifier = importlib.import_module("affidavit.accountant.verifier.recompute")
settle_module = importlib.import_module("affidavit.accountant.settle")

G, L, P = Gaussian(3.17), Laplace(3.34), Pure(0.29)
MANY: list[tuple[Plan, Relation, float]] = [
    (Repeat(24, Parallel((G, L))), "add-remove", 1e-5),
    (Repeat(9, Parallel((Laplace(2.0), Gaussian(2.2), Gaussian(2.5)))), "substitution", 1e-3),
    (Repeat(6, Parallel((G, L, P))), "zero-out", 1e-6),
    (Repeat(14, Parallel((Poisson(0.3, Gaussian(0.9)), Laplace(2.5)))), "add-remove", 1e-5),
    (Repeat(12, Parallel((Approximate(0.2, 1e-9), Repeat(3, Laplace(9.0))))), "zero-out", 1e-6),
    (Compose((Gaussian(1.5), Repeat(20, Parallel((Pure(0.25), Laplace(3.9)))))), "add-remove", 1e-5),
]


@pytest.mark.parametrize(("plan", "relation", "delta"), MANY)
def test_cases_together_cost_at_least_what_each_costs(plan: Plan, relation: Relation, delta: float) -> None:
    """The issuing engine: all but the first, by exact brackets of each."""
    upper = cases_of(core(plan), relation).upper
    assert len(upper) > 8
    epsilon = 0.0
    for target in (Target(delta=delta), Target(epsilon=1.0)):
        found = together(upper, relation, target)
        assert found is not None
        lowest = max(best(one, relation, target).bracket.lower for one in upper)
        assert found.bracket.upper >= lowest > 0.0
        epsilon = epsilon or found.bracket.upper
    assert bound(plan, relation=relation, delta=delta).epsilon_upper <= epsilon * (1.0 + 1e-3)


@pytest.mark.parametrize(("plan", "relation", "delta"), MANY)
def test_verified_cases_together_cost_at_least_what_each_costs(plan: Plan, relation: Relation, delta: float) -> None:
    """The verifier, on lattices of its own."""
    found_cases = read(core(plan), relation).upper
    asked = Asked(delta=delta)
    found = verifier._together(found_cases, asked)
    assert found is not None
    lowest = max(
        epsilon_of(profile_of(one, asked), delta, start=1.0)[0] for one in found_cases[:: max(1, len(found_cases) // 6)]
    )
    assert found[0][1] >= lowest > 0.0


@pytest.mark.parametrize(("plan", "relation", "delta"), MANY)
def test_groups_give_what_all_cases_give(
    plan: Plan, relation: Relation, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grouped and one by one: overlapping brackets, and hardly a wider one where one kind costs more."""
    grouped, verified = bound(plan, relation=relation, delta=delta), recompute(plan, relation=relation, delta=delta)
    monkeypatch.setattr(cover, "ALONE", 10_000)
    monkeypatch.setattr(verifier, "ALONE", 10_000)
    each = bound(plan, relation=relation, delta=delta)
    assert grouped.epsilon_upper >= each.epsilon_lower * (1.0 - 1e-9)
    assert verified.epsilon_upper >= each.epsilon_lower * (1.0 - 1e-9)
    assert grouped.epsilon_lower <= each.epsilon_upper
    assert grouped.epsilon_upper <= 1.2 * each.epsilon_upper


@pytest.mark.parametrize("leaf", [ZeroConcentrated(0.04), Exponential(0.4)])
def test_concentrated_and_exponential_parts(leaf: Plan) -> None:
    """Where a rest has no pair, the verifier takes the largest ρ; the lower side is a data set's."""
    plan = Repeat(30, Parallel((leaf, Gaussian(3.6))))
    found = settle(plan, relation="add-remove", delta=1e-6)
    alone = settle(Repeat(30, Parallel((Gaussian(3.6),))), relation="add-remove", delta=1e-6)
    assert found.epsilon_upper >= alone.epsilon_lower
    assert found.epsilon_upper <= 1.3 * alone.epsilon_upper


@pytest.mark.parametrize(
    "curves",
    [
        (GaussianCurve(0.32), LaplaceCurve(0.3)),
        (GaussianCurve(0.4), pure(0.3), LaplaceCurve(0.5)),
        (approximate(0.1, 1e-4), GaussianCurve(0.1)),
    ],
)
def test_the_largest_curve_is_the_maximum(curves: tuple[Curve, ...]) -> None:
    """δ at any ε, of either sign."""
    largest = Largest(curves)
    for epsilon in np.linspace(-3.0, 3.0, 241):
        each = [curve.delta(float(epsilon)) for curve in curves]
        lower, upper = largest.delta(float(epsilon))
        assert lower <= max(high for _, high in each)
        assert upper >= max(low for low, _ in each)
        assert upper - lower <= 1e-9


def test_the_largest_pair_is_the_maximum() -> None:
    """The verifier's, in balls."""
    with precision(200):
        pairs = GaussianPair(ball(Fraction(1, 10)).sqrt()), LaplacePair(ball(0.3))
        largest = LargestPair(pairs)
        for loss in [arb(x) / 16 for x in range(-40, 41)]:
            tails = [largest.above(loss), *(pair.above(loss) for pair in pairs)]
            height, *each = (p - loss.exp() * q for p, q in tails)
            assert all(not height < one for one in each)
            assert any(height.overlaps(one) for one in each)


def test_what_no_one_can_use_is_coarse_and_right() -> None:
    """ε in the thousands: a wide bracket around what an exact method says (Gaussian: closed form)."""
    exact = bound(Gaussian(0.01), relation="add-remove", delta=1e-6)
    loud = settle(Compose((Gaussian(0.01), Laplace(50.0))), relation="add-remove", delta=1e-6)
    assert loud.epsilon_upper >= exact.epsilon_lower
    assert loud.epsilon_upper <= 1.02 * (exact.epsilon_upper + 1.0 / 50.0)
    assert loud.epsilon_lower <= exact.epsilon_upper + 1.0 / 50.0


def test_the_issuer_goes_no_finer_than_the_verifier_confirms(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second, finer look only where it can change the settled ε."""
    asked: list[float] = []
    original = settle_module.bound

    def spied(plan: Plan, *, relation: Relation, tolerance: float = 1e-3, **question: float | None) -> object:
        asked.append(tolerance)
        return original(plan, relation=relation, tolerance=tolerance, **question)  # type: ignore[arg-type]

    monkeypatch.setattr(settle_module, "bound", spied)
    plan = Compose((Gaussian(0.01), Laplace(50.0)))
    settle_module.issue(plan, relation="add-remove", delta=1e-6)
    finer = list(asked)
    asked.clear()
    found = recompute(plan, relation="add-remove", delta=1e-6)
    settle_module.issue(plan, relation="add-remove", delta=1e-6, found=found)
    assert asked == [1e-3]
    assert finer[0] == 1e-3
    assert math.isfinite(found.epsilon_upper)


def test_a_part_that_shows_everything_ends_the_search() -> None:
    """One part fails more often than δ: ε is infinite, whatever the other parts cost."""
    parts = (Approximate(0.1, 1e-4), Laplace(2.0), Gaussian(1.0), Pure(0.9), Poisson(0.5, Gaussian(0.5)), Pure(0.2))
    found = settle(Repeat(2, Parallel(parts)), relation="add-remove", delta=1e-6)
    assert found.epsilon_lower == found.epsilon_upper == math.inf
