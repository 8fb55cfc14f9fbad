"""What no sample takes, what fails for certain, and what is more than any ε."""

from __future__ import annotations

import math

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Approximate, Compose, Gaussian, Plan, Poisson, Pure, Repeat, WithoutReplacement
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.ceiling import most_taken
from affidavit.accountant.verifier.reading import read

LOUD = Gaussian(0.2)
"""Its losses are about 12."""


@pytest.mark.parametrize(
    ("plan", "relation", "taken"),
    [
        (Repeat(2, Poisson(0.01, LOUD)), "add-remove", 1.0 - 0.99**2),
        (Repeat(2, Poisson(0.01, LOUD)), "substitution", 1.0 - 0.99**2),
        (Compose((Poisson(0.01, LOUD), WithoutReplacement(1_000, 20, LOUD))), "zero-out", 1.0 - 0.99 * 0.98),
    ],
)
def test_a_delta_that_forgives_every_sample_costs_nothing(plan: Plan, relation: str, taken: float) -> None:
    """With hardly any noise the sample shows the record if and only if it is in it: δ(ε) is that probability."""
    for ask in (bound, recompute, settle):
        assert ask(plan, relation=relation, delta=taken + 1e-9).epsilon_upper == 0.0
    assert recompute(plan, relation=relation, delta=taken * 0.9).epsilon_upper > 0.1
    assert recompute(plan, relation=relation, epsilon=3.0).delta_upper <= taken * (1.0 + 1e-12)


@pytest.mark.parametrize(
    ("plan", "taken"),
    [
        (Poisson(0.1, Repeat(3, Poisson(0.05, LOUD))), 0.1 * (1.0 - 0.95**3)),
        (Poisson(0.1, Compose((Poisson(0.05, LOUD), LOUD))), 0.1),
    ],
)
def test_a_sample_of_a_sample_takes_less(plan: Plan, taken: float) -> None:
    """The probability is summed over every draw of both samples."""
    (case,) = read(plan, "add-remove").upper
    assert most_taken(case) == pytest.approx(taken, rel=1e-14)
    assert recompute(plan, relation="add-remove", delta=taken + 1e-9).epsilon_upper == 0.0


def test_beside_others_what_samples_take_is_left_of_their_delta() -> None:
    taken, delta = 2e-8, 1e-5
    found = recompute(Compose((Gaussian(1.0), Repeat(2, Poisson(1e-8, LOUD)))), relation="add-remove", delta=delta)
    alone, less = (recompute(Gaussian(1.0), relation="add-remove", delta=d) for d in (delta, delta - taken))
    assert alone.epsilon_lower * (1.0 - 1e-6) <= found.epsilon_upper <= less.epsilon_upper * (1.0 + 1e-9)


@pytest.mark.parametrize(
    "others",
    [Gaussian(1.0), Gaussian(1e3), Poisson(0.01, Gaussian(1.0)), Compose((Pure(0.1), Gaussian(2.0)))],
)
def test_a_failure_of_exactly_delta_beside_losses_without_end_costs_infinity(others: Plan) -> None:
    """δ(ε) = f + (1 − f) δ_others(ε) > f at every ε."""
    delta = 1e-5
    plan = Compose((others, Approximate(1.0, delta)))
    found = recompute(plan, relation="add-remove", delta=delta)
    assert found.epsilon_lower == found.epsilon_upper == math.inf
    if not isinstance(others, Poisson):
        assert bound(plan, relation="add-remove", delta=delta).epsilon_lower == math.inf
    above = recompute(plan, relation="add-remove", delta=1.001 * delta)
    assert above.epsilon_upper < math.inf


def test_a_failure_of_exactly_delta_beside_bounded_losses_costs_their_sum_at_most() -> None:
    plan = Compose((Pure(0.5), Approximate(1.0, 1e-5)))
    for ask in (bound, recompute):
        assert ask(plan, relation="add-remove", delta=1e-5).epsilon_lower <= 1.5
