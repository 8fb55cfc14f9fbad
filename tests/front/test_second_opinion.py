"""Other accountants agree where they are sound, and are not asked where they are not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import DisagreementError
from affidavit.second_opinion import check_opinions, second_opinions

GAUSS = {"kind": "gaussian", "noise_multiplier": 1.0}
SAMPLED = {"kind": "repeat", "count": 100, "of": {"kind": "subsample", "scheme": "poisson", "rate": 0.05, "of": GAUSS}}


@pytest.mark.parametrize(
    "plan", [{"kind": "repeat", "count": 3, "of": GAUSS}, {"kind": "compose", "parts": [GAUSS, SAMPLED]}]
)
def test_agreement(plan: dict) -> None:
    found = bound(plan, relation="add-remove", delta=1e-5)
    opinions = second_opinions(found)
    check_opinions(found, opinions)
    assert all(opinion.applies for opinion in opinions)
    prv = opinions[0]
    assert 0.0 < prv.epsilon_lower <= found.epsilon_upper


@pytest.mark.parametrize(
    ("plan", "relation", "delta"),
    [
        ({"kind": "repeat", "count": 100, "of": {"kind": "pure", "epsilon": 10}}, "add-remove", 1e-5),
        ({"kind": "exponential", "range": 1.0}, "zero-out", 1e-5),
        (GAUSS, "add-remove", 1e-30),
        ({"kind": "gaussian", "noise_multiplier": 0.01}, "add-remove", 1e-5),
    ],
)
def test_not_asked_where_they_were_seen_to_fail(plan: dict, relation: str, delta: float) -> None:
    for opinion in second_opinions(bound(plan, relation=relation, delta=delta)):
        assert not opinion.applies
        assert opinion.why
        assert math.isinf(opinion.epsilon_upper)


def test_a_number_that_is_too_small_is_caught() -> None:
    found = bound(GAUSS, relation="add-remove", delta=1e-5)
    opinions = second_opinions(found)
    wrong = replace(found, epsilon_lower=3.0, epsilon_upper=3.5)
    with pytest.raises(DisagreementError, match=r"3\.5.*4\.36"):
        check_opinions(wrong, opinions)
    too_large = replace(found, epsilon_lower=5.0, epsilon_upper=5.5)
    with pytest.raises(DisagreementError, match="5"):
        check_opinions(too_large, opinions)
