"""Exponential mechanisms that run together on one sample, several kinds of samples together, and one choice below."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit import bound
from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Gaussian,
    Laplace,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
)
from affidavit.accountant.pld.bounded_range import best_share, one_choice
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import recompute

DELTA = 1e-6


@pytest.mark.parametrize(
    ("uses", "eta", "rate"),
    [(5, 0.3, 0.1), (20, 0.3, 0.1), (60, 1.0, 0.01), (100, 0.3, 0.1), (600, 0.3, 0.1), (3_969, 0.204, 0.0735)],
)
def test_one_sample_costs_what_its_mechanisms_do(uses: int, eta: float, rate: float) -> None:
    """On a sample of rate q the record's presence costs q H(1 + (e^ε − 1)/q), H what the mechanisms cost by themselves.

    That is one point of H, which one strategy reaches; 600 of range .3 were said to cost between 0 and 21.27.
    """
    together = Repeat(uses, Exponential(eta))
    found = bound(Poisson(rate, together), relation="add-remove", delta=DELTA)

    def outside(epsilon: float) -> tuple[float, float]:
        inner = math.log1p(math.expm1(epsilon) / rate)
        alone = bound(together, relation="add-remove", epsilon=inner)
        return rate * alone.delta_lower, rate * alone.delta_upper

    assert outside(found.epsilon_upper * (1.0 + 1e-9))[0] <= DELTA * (1.0 + 1e-6)
    assert outside(found.epsilon_lower)[1] >= DELTA * (1.0 - 1e-6)
    assert outside(found.epsilon_upper * (1.0 - 8e-3))[1] >= DELTA


PLANS: tuple[tuple[Plan, float], ...] = (
    (Poisson(0.1, Repeat(600, Exponential(0.3))), 1e-2),
    (Poisson(0.1, Compose((Repeat(600, Exponential(0.3)), Gaussian(3.0)))), 1e-2),
    (WithoutReplacement(2_447, 1_355, Repeat(353, Exponential(0.0259))), 1e-2),
    (WithoutReplacement(583, 409, Compose((Repeat(781, Exponential(0.427)), Gaussian(0.612), Laplace(0.216)))), 1e-2),
    (Repeat(20, Poisson(0.1, Repeat(400, Exponential(0.1)))), 3e-2),
)


@pytest.mark.parametrize("relation", ["zero-out", "substitution"])
@pytest.mark.parametrize(("plan", "width"), PLANS, ids=lambda value: str(value)[:60])
def test_both_engines_settle_what_runs_together(plan: Plan, width: float, relation: str) -> None:
    """Envelopes, or Rényi, were 4 to 17 % above, with nothing below."""
    found = settle(plan, relation=relation, delta=DELTA)  # type: ignore[arg-type]
    assert found.epsilon_lower <= found.epsilon_upper <= (1.0 + width) * found.epsilon_lower


KINDS: tuple[Plan, ...] = (
    Compose((Repeat(5_800, Exponential(0.0115)), Laplace(5.99), Poisson(0.00551, Exponential(0.0328)))),
    Compose((Repeat(4, Exponential(0.0154)), Repeat(4_212, Exponential(0.0267)))),
    Compose((Repeat(2_840, Exponential(0.154)), Repeat(31, Gaussian(59.9)), Exponential(0.0247))),
    Compose((Repeat(300, Poisson(0.1, Exponential(0.5))), Repeat(400, Poisson(0.05, Exponential(0.8))), Gaussian(4.0))),
    Compose((Repeat(500, Poisson(0.1, Exponential(0.5))), Repeat(40, Exponential(0.2)))),
)


@pytest.mark.parametrize("plan", KINDS, ids=lambda plan: str(plan)[:60])
def test_blocks_serve_beside_anything(plan: Plan) -> None:
    """The sides are those of the recursions beside others: an upper side of the envelopes would be 5 % above."""
    found = bound(plan, relation="zero-out", delta=DELTA)
    checked = recompute(plan, relation="zero-out", delta=DELTA)
    assert found.epsilon_upper <= 1.01 * found.epsilon_lower
    assert found.epsilon_lower <= checked.epsilon_upper
    assert checked.epsilon_lower <= found.epsilon_upper


@pytest.mark.parametrize(("uses", "sample", "eta"), [(28, 1_182, 0.00215), (500, 200, 0.7)])
def test_without_replacement_one_record_more_or_less_is_a_poisson_sample_of_the_rate(
    uses: int, sample: int, eta: float
) -> None:
    found = settle(
        Repeat(uses, WithoutReplacement(2_059, sample, Exponential(eta))), relation="add-remove", delta=DELTA
    )
    poisson = settle(Repeat(uses, Poisson(sample / 2_059, Exponential(eta))), relation="add-remove", delta=DELTA)
    assert found.epsilon_upper <= found.epsilon_lower * 1.003
    assert poisson.epsilon_lower <= found.epsilon_upper
    assert found.epsilon_lower <= poisson.epsilon_upper


SMALL: tuple[tuple[Plan, float], ...] = (
    (Poisson(0.775, Repeat(200_000, Pure(0.003))), 1e-5),
    (Poisson(0.775, Repeat(2_000_000, Pure(0.001))), 1e-5),
    (Poisson(0.3, Repeat(300, Laplace(20.0))), 1e-4),
    (Poisson(0.3, Repeat(3_000, Laplace(50.0))), 1e-4),
    (Poisson(0.3, Repeat(100_000, Laplace(300.0))), 2e-4),
)


@pytest.mark.parametrize(("plan", "width"), SMALL, ids=lambda value: str(value)[:60])
def test_very_many_small_losses_on_a_sample_are_sharp(plan: Plan, width: float) -> None:
    """[8.781, 9.978] of two million: too few tilts above; what was folded in counted everywhere below. [2.705, 5.530]
    of a hundred thousand with Laplace noise: the atom at each end of the support went one grid step inward."""
    found = bound(plan, relation="add-remove", delta=1e-10)
    checked = recompute(plan, relation="add-remove", delta=1e-10)
    assert found.epsilon_upper <= (1.0 + width) * found.epsilon_lower
    assert checked.epsilon_lower <= found.epsilon_upper
    assert found.epsilon_lower <= checked.epsilon_upper


@given(eta=st.floats(1e-4, 50.0), tilt=st.floats(1e-3, 1e5))
@settings(max_examples=200, deadline=None)
def test_the_best_choice_has_the_largest_moment(eta: float, tilt: float) -> None:
    """E_P e^{θL} over t, in units of e^{θη}."""

    def moment(share: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        t = share * eta
        chance = -np.expm1(t - eta) / -math.expm1(-eta)
        return np.asarray(chance * np.exp(tilt * (t - eta)) + (1.0 - chance) * np.exp(tilt * (t - 2.0 * eta)))

    found = best_share(eta, tilt)
    others = moment(np.linspace(0.001, 0.999, 999))
    assert float(moment(np.array([found]))[0]) >= others.max() * (1.0 - 1e-6)


@given(eta=st.floats(1e-6, 900.0), share=st.floats(1e-9, 1.0 - 1e-9))
def test_one_choice_has_the_range(eta: float, share: float) -> None:
    pair = one_choice(eta, share)
    assert pair.high - pair.low <= eta * (1.0 + 1e-15)
    masses = np.exp(pair.logs(np.array([-math.inf])).p_tail)
    assert masses[0] == pytest.approx(1.0, abs=1e-12)
    assert float(np.exp(pair.logs(np.array([-math.inf])).q_tail)[0]) == pytest.approx(1.0, abs=1e-9)
