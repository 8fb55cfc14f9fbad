"""A few of ``benchmarks attack``'s cases, and that it would see a fault; the campaign itself takes minutes."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
RATES = st.floats(-7.0, -0.05).map(lambda power: 10.0**power)
SIGMAS = st.floats(-0.5, 0.7).map(lambda power: 10.0**power)


@pytest.fixture(scope="module")
def attack() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("benchmarks.bench_attack")


@settings(max_examples=3, deadline=None)
@given(rates=st.tuples(RATES, RATES), sigmas=st.tuples(SIGMAS, SIGMAS), power=st.floats(-20.0, -2.0))
def test_two_samples_are_what_the_quadrature_says(
    attack: ModuleType, rates: tuple[float, float], sigmas: tuple[float, float], power: float
) -> None:
    first, second = (attack._poisson(q, attack._gaussian(s)) for q, s in zip(rates, sigmas, strict=True))
    delta = 10.0**power
    case = attack.Case(attack._compose(first, second), "add-remove", delta, attack.two_samples(rates, sigmas, delta))
    faults, _ = attack.faults_of(case)
    assert not faults


@pytest.mark.parametrize(("family", "number"), [("diluted", 0), ("diluted", 3), ("binomial", 1), ("binomial", 7)])
def test_other_families_have_no_contradiction(attack: ModuleType, family: str, number: int) -> None:
    faults, _ = attack.faults_of(attack.case_of(500, number, [family])[1])
    assert not faults


def test_the_quadrature_is_mpmaths(attack: ModuleType) -> None:
    """P(.01, G(.5)) beside P(1e-4, G(2)) at ε = .4, record removed: as in test_rare_samples, to 16 digits."""
    known = attack.two_samples((0.01, 0.0001), (0.5, 2.0), 1e-3)(0.4)
    assert known.lower == pytest.approx(0.00091338355284104832, rel=1e-14)
    assert known.lower <= known.upper


def test_one_use_in_balls_is_mpmaths(attack: ModuleType) -> None:
    for rate, sigma, epsilon in ((0.01, 0.7, 1.0), (0.9, 3.0, 0.2), (1e-7, 1.0, 1e-8)):
        with mpmath.workdps(50):
            q, s, growth = mpmath.mpf(rate), mpmath.mpf(sigma), mpmath.exp(mpmath.mpf(epsilon))
            x = s * mpmath.log1p((growth - 1) / q) + 1 / (2 * s)
            beyond, moved = mpmath.ncdf(-x), mpmath.ncdf(1 / s - x)
            removed = (1 - q) * beyond + q * moved - growth * beyond
        uses = [attack._sampled_gaussian(rate, sigma, removed=True)]
        assert attack._one(uses, epsilon).lower == pytest.approx(float(removed), rel=1e-15)


def test_a_bound_below_the_truth_is_seen(attack: ModuleType) -> None:
    """The truth claimed a little larger, and a little smaller, than it is."""
    plan = attack._poisson(0.01, attack._gaussian(1.0))
    exact = attack.two_samples((0.01, 1e-12), (1.0, 1e3), 1e-5)
    for factor in (1.0 + 1e-6, 1.0 - 1e-6):
        moved = attack.Case(plan, "add-remove", 1e-5, lambda e, by=factor: attack.Truth(*(by * x for x in exact(e))))
        faults, _ = attack.faults_of(moved)
        assert faults
    assert math.isfinite(exact(1.0).upper)
