"""Samples of exponential mechanisms that only an envelope bounds from above: the lower side is reached by stated data.

Every record but the changed one says the same as its replacement, so a sample that misses it is one that holds that.
"""

import math

import numpy as np
import pytest

from affidavit import bound
from affidavit.accountant.plan import Exponential, Poisson, Repeat, WithoutReplacement
from affidavit.accountant.validate import Relation

DELTA = 1e-6


def _attacked(rate: float, eta: float, epsilon: float) -> float:
    """The best δ(ε) of one use over its losses t and t − η: with chance ``rate`` the sample holds the record."""
    t = np.union1d(np.linspace(0.0, eta, 20_001)[1:-1], eta * (1.0 - np.geomspace(1e-8, 1e-2, 20_000)))
    with_it, without = np.exp(t), np.exp(t - eta)
    chance = (1.0 - without) / (with_it - without)
    removed = [1.0 + rate * (m - 1.0) for m in (with_it, without)]
    weights = (chance, 1.0 - chance)
    forward = sum(w * np.maximum(m - math.exp(epsilon), 0.0) for w, m in zip(weights, removed, strict=True))
    backward = sum(w * np.maximum(1.0 - math.exp(epsilon) * m, 0.0) for w, m in zip(weights, removed, strict=True))
    return float(max(forward.max(), backward.max()))


@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "substitution"])
@pytest.mark.parametrize(("sample", "eta"), [(526, 0.724), (10, 0.1), (999, 2.0)])
def test_one_sample_without_replacement_costs_what_the_attack_reaches(
    sample: int, eta: float, relation: Relation
) -> None:
    found = bound(WithoutReplacement(1000, sample, Exponential(eta)), relation=relation, delta=DELTA)
    assert found.epsilon_lower >= 0.98 * found.epsilon_upper
    assert _attacked(sample / 1000, eta, found.epsilon_lower) >= DELTA * (1.0 - 1e-6)


def test_many_samples_cost_at_least_what_poisson_samples_of_alike_records_do() -> None:
    fixed = bound(Repeat(10, WithoutReplacement(1000, 100, Exponential(2.0))), relation="substitution", delta=DELTA)
    poisson = bound(Repeat(10, Poisson(0.1, Exponential(2.0))), relation="add-remove", delta=DELTA)
    assert 0.98 * poisson.epsilon_lower <= fixed.epsilon_lower <= poisson.epsilon_upper <= fixed.epsilon_upper
