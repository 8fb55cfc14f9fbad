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
