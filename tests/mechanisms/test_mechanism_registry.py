"""The registry, exact rounding, and whole random numbers."""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from affidavit import mechanisms
from affidavit.accountant import decimals
from affidavit.accountant.plan import Exponential, Gaussian, Parallel, Pure, Repeat
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms import base


def test_loading_twice_registers_once() -> None:
    mechanisms.load()
    before = base.registered()
    mechanisms.load()
    assert base.registered() == before
    assert {mechanism.kind for mechanism in before} >= {"exponential", "gaussian"}


def test_another_mechanism_of_the_same_kind_is_refused() -> None:
    mechanisms.load()
    known = base.registered()[0]
    with pytest.raises(ValueError, match="registered already"):
        base.register(dataclasses.replace(known, assumptions=("other",)))


def test_assumptions_are_those_of_the_plans_leaves() -> None:
    mechanisms.load()
    only = base.assumptions(Repeat(3, Exponential(1.0)))
    both = base.assumptions(Parallel((Repeat(3, Exponential(1.0)), Gaussian(1.0), Exponential(2.0))))
    assert only
    assert all(text.startswith("exponential") for text in only)
    assert set(only) < set(both)
    assert len(set(both)) == len(both)
    assert base.assumptions(Pure(1.0)) == ()


def test_samplers_are_those_of_the_plans_leaves_in_its_order() -> None:
    mechanisms.load()
    plan = Parallel((Gaussian(1.0), Repeat(3, Exponential(1.0)), Gaussian(2.0)))
    assert base.samplers(plan) == (
        "gaussian: normal noise in float64",
        "exponential: inverse CDF over integer weights",
    )
    assert base.samplers(Pure(1.0)) == ()


def test_mechanisms_of_one_kind_draw_in_one_way() -> None:
    """A plan names kinds, not mechanisms: what a receipt says of a kind must hold for each of them."""
    mechanisms.load()
    ways: dict[str, set[str]] = {}
    for mechanism in base.registered():
        ways.setdefault(mechanism.kind, set()).add(mechanism.sampler)
    assert all(len(found) == 1 and "" not in found for found in ways.values()), ways


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**12))
def test_floats_round_to_the_side_they_say(value: Fraction) -> None:
    up, down = decimals.float_at_least(value), decimals.float_at_most(value)
    assert Fraction(down) <= value <= Fraction(up)
    assert up == down or np.nextafter(down, np.inf) == up


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 1 << 32, (1 << 32) + 1, (1 << 100) + 12345])
def test_whole_numbers_stay_below_their_bound(bound: int) -> None:
    noise = SeededNoise(8)
    assert all(0 <= base.uniform_below(noise, bound) < bound for _ in range(200))


def test_whole_numbers_are_uniform() -> None:
    noise = SeededNoise(9)
    assert chisquare(np.bincount([base.uniform_below(noise, 11) for _ in range(11_000)])).pvalue > 1e-4
    wide = (3 << 70) + 1
    thirds = [base.uniform_below(noise, wide) * 3 // wide for _ in range(3000)]
    assert chisquare(np.bincount(thirds)).pvalue > 1e-4
