"""One exponential use: the verifier's closed form decides the certificates that the issuing path writes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from affidavit.accountant.certified import certified_bound
from affidavit.accountant.plan import Exponential, Parallel, Plan, Repeat
from affidavit.accountant.recompute import check_claim, recompute
from affidavit.accountant.recompute.one_exponential import OneExponential


@pytest.mark.parametrize("eta", [0.05, 0.6, 2.0, 6.0, 40.0])
@pytest.mark.parametrize("share", [-1.5, -0.4, 0.0, 0.3, 0.9, 1.0])
def test_the_closed_form_is_the_best_pair_of_losses(eta: float, share: float) -> None:
    """Over a fine grid of t, the two losses t and t − η; near its maximum the grid errs by O(spacing²)."""
    epsilon = share * eta
    t = np.linspace(0.0, eta, 20_001)
    p = np.expm1(eta - t) / (np.exp(-t) * math.expm1(eta))
    tried = p * np.maximum(0.0, -np.expm1(epsilon - t)) + (1 - p) * np.maximum(0.0, -np.expm1(epsilon - t + eta))
    found = OneExponential(eta).delta(epsilon)
    assert found.lower <= found.upper <= math.nextafter(math.nextafter(found.lower, 1.0), 1.0)
    assert tried.max() <= found.upper * (1 + 1e-9) + 1e-15
    assert found.lower <= tried.max() * (1 + 2e-6) + 1e-15


@pytest.mark.parametrize("eta", [1e-6, 0.05, 0.6, 3.0, 300.0])
@pytest.mark.parametrize("delta", [0.3, 1e-2, 1e-5, 1e-30])
def test_a_certified_single_use_is_decided(eta: float, delta: float) -> None:
    plan = Parallel((Exponential(eta), Exponential(eta / 2)))
    epsilon = certified_bound(plan, relation="zero-out", delta=delta).epsilon_upper
    assert check_claim(plan, relation="zero-out", epsilon=epsilon, delta=delta).answer == "holds"
    if 0.0 < epsilon < eta * (1 - 1e-9):
        below = check_claim(plan, relation="zero-out", epsilon=epsilon * (1 - 1e-9), delta=delta)
        assert below.answer == "does not hold"


def test_the_bracket_is_as_narrow_as_floats() -> None:
    found = recompute(Exponential(0.6), relation="zero-out", delta=1e-5)
    # e^{ε/2} = √E − √(δ(E − 1)), solved by hand for ε.
    expected = 2 * math.log(math.exp(0.3) - math.sqrt(1e-5 * math.expm1(0.6)))
    assert found.epsilon_upper - found.epsilon_lower <= 1e-12
    assert found.epsilon_upper == pytest.approx(expected, rel=1e-12)
    assert "closed form" in found.how


@pytest.mark.parametrize(
    ("plan", "delta"),
    [
        (Repeat(2, Exponential(0.6)), 1e-2),
        (Repeat(3, Exponential(0.6)), 1e-5),
        (Repeat(4, Exponential(2.0)), 1e-5),
        (Repeat(10, Exponential(0.1)), 1e-5),
    ],
)
def test_a_few_certified_uses_are_decided(plan: Plan, delta: float) -> None:
    epsilon = certified_bound(plan, relation="zero-out", delta=delta).epsilon_upper
    assert check_claim(plan, relation="zero-out", epsilon=epsilon, delta=delta).answer == "holds"
