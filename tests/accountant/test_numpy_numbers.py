"""A scalar of numpy is the number that it is, wherever a number is taken; what is no number is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from affidavit.accountant import decimals, validate
from affidavit.accountant.attestation.statement import Claim
from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import calibrate
from affidavit.accountant.errors import PlanError
from affidavit.accountant.plan import canonical_json, parse_plan
from affidavit.accountant.verifier import recompute

PLAIN = {
    "kind": "repeat",
    "count": 10,
    "of": {"kind": "subsample", "scheme": "poisson", "rate": 0.25, "of": {"kind": "gaussian", "noise_multiplier": 2.0}},
}
OF_NUMPY = {
    "kind": "repeat",
    "count": np.int64(10),
    "of": {
        "kind": "subsample",
        "scheme": "poisson",
        "rate": np.float32(0.25),
        "of": {"kind": "gaussian", "noise_multiplier": np.uint8(2)},
    },
}
NO_NUMBERS = [
    np.bool_(True),
    np.array(1.0),
    np.array([1.0]),
    np.str_("1"),
    np.complex128(1.0),
    np.float64("nan"),
    np.float32("inf"),
    np.datetime64("2026-01-01"),
    True,
    "1",
    Fraction(1, 2),
    Decimal("0.5"),
    None,
]


def test_a_plan_of_numpy_is_the_plan():
    found = parse_plan(OF_NUMPY)
    assert found == parse_plan(PLAIN)
    assert canonical_json(found) == canonical_json(parse_plan(PLAIN)), "no scalar of numpy is kept"


def test_every_number_beside_the_plan_too():
    delta, epsilon = np.float64(1e-5), np.float32(1.0)
    asked: dict[str, Any] = {"relation": "add-remove"}
    assert bound(OF_NUMPY, delta=delta, tolerance=np.float64(1e-3), **asked) == bound(PLAIN, delta=1e-5, **asked)
    assert bound(OF_NUMPY, epsilon=epsilon, **asked) == bound(PLAIN, epsilon=1.0, **asked)
    node = PLAIN["of"]["of"]
    by_numpy = calibrate(node, epsilon=epsilon, delta=delta, **asked)
    assert by_numpy == calibrate(node, epsilon=1.0, delta=1e-5, **asked)
    assert recompute(node, delta=delta, **asked) == recompute(node, delta=1e-5, **asked)
    assert recompute(node, relation="add-remove", delta=delta) == recompute(node, relation="add-remove", delta=1e-5)


@pytest.mark.parametrize("value", NO_NUMBERS, ids=repr)
def test_what_is_no_number_is_refused(value):
    with pytest.raises(PlanError) as caught:
        validate.real(value, path="here")
    assert caught.value.path == "here"
    with pytest.raises(PlanError):
        bound({"kind": "gaussian", "noise_multiplier": value}, relation="add-remove", delta=1e-5)


@pytest.mark.parametrize("value", [np.int64(2**53 + 1), 2**53 + 1])
def test_a_large_whole_number_is_kept_exactly(value):
    kept = validate.whole(value, path="here")
    assert kept == 2**53 + 1
    assert type(kept) is int


def test_decimals_are_what_was_written():
    """``repr(np.float64(0.1))`` is no decimal: it was a refusal."""
    assert decimals.as_written(np.float64(0.1), path="here") == Decimal("0.1")
    assert decimals.as_written(np.int32(3), path="here") == Decimal(3)
    assert Claim.of(epsilon_upper=np.float64(1.5), delta=np.float64(1e-5)) == Claim.of(epsilon_upper=1.5, delta=1e-5)
    for value in (np.bool_(True), np.array(0.1), np.float64("nan")):
        with pytest.raises(PlanError):
            decimals.as_written(value, path="here")
