"""The cheapest mixture, against scipy's linear programs, and where nothing will do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from affidavit.accountant.least_cost import cheapest_shares

Array = np.ndarray


def _problem(choices: int, needs: int, *, seed: int) -> tuple[Array, Array, Array]:
    """Needs that a random mixture does."""
    random = np.random.default_rng(seed)
    effects = random.uniform(0.0, 2.0, (choices, needs))
    shares = random.dirichlet(np.ones(choices))
    return effects, shares @ effects, random.uniform(0.1, 3.0, choices)


@pytest.mark.parametrize(("choices", "needs"), [(2, 1), (5, 40), (40, 5), (60, 120)])
def test_no_mixture_is_cheaper(choices: int, needs: int) -> None:
    for seed in range(5):
        effects, least, costs = _problem(choices, needs, seed=seed)
        shares = cheapest_shares(effects, least, costs)
        known = linprog(costs, A_ub=-effects.T, b_ub=-least, A_eq=np.ones((1, choices)), b_eq=[1.0])
        assert shares.min() >= 0.0
        assert shares.sum() == pytest.approx(1.0, abs=1e-12)
        assert (shares @ effects >= least - 1e-5).all()
        assert shares @ costs == pytest.approx(known.fun, rel=1e-5)


def test_ties_are_shared_alike() -> None:
    shares = cheapest_shares(np.ones((4, 3)), np.full(3, 0.5), np.ones(4))
    assert shares == pytest.approx(np.full(4, 0.25))


def test_where_nothing_will_do_as_little_is_missing_as_may_be() -> None:
    shares = cheapest_shares(np.array([[0.0, 0.0], [0.5, 0.6]]), np.array([1.0, 0.3]), np.array([1.0, 2.0]))
    assert shares == pytest.approx([0.0, 1.0], abs=1e-5)
