"""Grids of the discrete Gaussian that are no whole part of the sensitivity, or nearly: both engines mean the same."""

from __future__ import annotations

import math
from typing import Any

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.verifier import recompute

ENGINES = (bound, recompute)


def _noise(granularity: float) -> dict[str, Any]:
    return {"kind": "discrete-gaussian", "noise_multiplier": 1.0, "granularity": granularity}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("granularity", [1e9, 1e12])
def test_a_grid_far_wider_than_the_sensitivity_costs_a_whole_step(engine: Any, granularity: float) -> None:
    """A value that is rounded may move by one step of 1e9 noises: a loss of (2·1 − 1)/(2 s²), s = 1/g."""
    found = engine(_noise(granularity), relation="add-remove", delta=1e-5)
    assert found.epsilon_lower == 0.0
    assert found.epsilon_upper >= 0.5 * granularity**2 * (1.0 - 1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("delta", [1e-5, 0.0])
def test_a_grid_wider_than_the_sensitivity_need_not_lose_anything(engine: Any, delta: float) -> None:
    """Values on the grid that differ by the sensitivity at most do not differ: what runs beside it may be all.

    An (1, δ)-DP mechanism costs 1 at δ; beside a Gaussian, whose loss has no end, it costs infinity.
    """
    beside = {"kind": "approximate", "epsilon": 1.0, "delta": delta}
    found = engine({"kind": "compose", "parts": [beside, _noise(2.0)]}, relation="add-remove", delta=delta)
    assert found.epsilon_lower <= 1.0
    assert found.epsilon_upper == math.inf
    fine = engine({"kind": "compose", "parts": [beside, _noise(1.0)]}, relation="add-remove", delta=delta)
    assert fine.epsilon_lower == math.inf


@pytest.mark.parametrize("granularity", [1.0000000009, 0.9999999991, 0.333333333, 0.14285714286])
def test_a_grid_written_in_decimals_is_one_grid(granularity: float) -> None:
    """1/k to nine digits is 1/k in both engines; one took the noise for σ k, the other for σ/g, 1e-9 apart."""
    meant = {**_noise(1.0 / round(1.0 / granularity))}
    for plan in (_noise(granularity), meant):
        issued, again = (engine(plan, relation="add-remove", delta=1e-5) for engine in ENGINES)
        assert issued.epsilon_lower <= again.epsilon_upper
        assert again.epsilon_lower <= issued.epsilon_upper
        assert issued.epsilon_upper == pytest.approx(
            bound(meant, relation="add-remove", delta=1e-5).epsilon_upper, 1e-13
        )


def test_noise_far_below_a_step_costs_what_its_one_atom_does() -> None:
    """All but e^{-5e5} of either law is one atom, of loss 1/(2s²) = 5e5: δ(ε) = 1 − e^{ε − 5e5}.

    The certified upper side was infinite: e^ε times a Q that may be 0 or 1e-77 was taken for a loss to be subtracted.
    """
    found = recompute({**_noise(1.0), "noise_multiplier": 1e-3}, relation="add-remove", delta=1e-5)
    exact = 5e5 + math.log1p(-1e-5)
    assert found.epsilon_lower <= exact * (1.0 + 1e-15)
    assert exact * (1.0 - 1e-15) <= found.epsilon_upper <= exact * (1.0 + 1e-12)


def test_a_search_that_walks_far_beyond_the_grid_comes_back() -> None:
    """It asked for tails at places that 256 bits do not tell apart, and ended there."""
    noise = {"kind": "discrete-gaussian", "noise_multiplier": 0.1348, "granularity": 1 / 7}
    plan = {"kind": "subsample", "scheme": "poisson", "rate": 0.9999998886, "of": noise}
    issued, again = (engine(plan, relation="zero-out", delta=1.041e-10) for engine in ENGINES)
    assert again.epsilon_upper == pytest.approx(issued.epsilon_upper, rel=1e-6)
    assert issued.epsilon_lower <= again.epsilon_upper
    assert again.epsilon_lower <= issued.epsilon_upper
