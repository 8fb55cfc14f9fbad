"""Two uses summed without a lattice: against closed forms of their composition."""

from __future__ import annotations

import math

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.pld.atomic import pure
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.inverse import inverse
from affidavit.accountant.pld.laplace import Laplace
from affidavit.accountant.pld.subsample import Mixed
from affidavit.accountant.pld.two_uses import two_uses


@pytest.mark.parametrize("other", [0.01, 0.4, 3.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 1e-60])
def test_two_gaussians_are_one(other: float, delta: float) -> None:
    """N(0, 1) at distances μ and ν is one at distance √(μ² + ν²) (Dong, Roth and Su 2022)."""
    parts = (Gaussian(0.7), 1), (Gaussian(other), 1)
    found = two_uses(parts, delta=delta, epsilon=None, tolerance=1e-6, enough=0.0)
    known = inverse(Gaussian(math.hypot(0.7, other)).delta, delta, furthest=1e9)
    assert found is not None
    assert found[0] <= known[1]
    assert known[0] <= found[1] <= found[0] * (1.0 + 1e-5)


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.4, 1.69])
def test_few_losses_are_summed(epsilon: float) -> None:
    """δ(ε) = E δ_Laplace(ε − L), L = ±1 with odds e; δ_Laplace by its formula, 1 − e^{(ε−η)/2} in [−η, η]."""
    eta, one = 0.7, 1.0

    def laplace(at: float) -> float:
        return max(1.0 - math.exp((at - eta) / 2.0), 0.0) if at > -eta else 1.0 - math.exp(at)

    high = math.e / (1.0 + math.e)
    truth = high * laplace(epsilon - one) + (1.0 - high) * laplace(epsilon + one)
    parts = (pure(one), 1), (Laplace(eta), 1)
    found = two_uses(parts, delta=None, epsilon=epsilon, tolerance=0.0, enough=0.0)
    assert found is not None
    assert found[0] <= truth * (1.0 + 1e-13)
    assert truth <= found[1] * (1.0 + 1e-13)
    assert found[1] - found[0] <= 1e-12


def test_others_are_left_to_the_lattice() -> None:
    assert two_uses(((Laplace(0.1), 3),), delta=1e-6, epsilon=None, tolerance=1e-3, enough=0.0) is None
    assert (
        two_uses(
            ((Mixed(Gaussian(1.0), 0.1), 2), (Laplace(1.0), 1)), delta=1e-6, epsilon=None, tolerance=1e-3, enough=0.0
        )
        is None
    )


def test_scales_far_apart_are_no_wider() -> None:
    """A rare sample beside a large pure part: the lattice over ±8.88 had no points for losses of 1e-6."""
    sample = {
        "kind": "subsample",
        "scheme": "poisson",
        "rate": 5.33e-7,
        "of": {"kind": "gaussian", "noise_multiplier": 1.0},
    }
    plan = {"kind": "compose", "parts": [sample, {"kind": "pure", "epsilon": 8.9}]}
    found = bound(plan, relation="add-remove", delta=2.5e-12)
    assert 8.9 < found.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-9)
