from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.accountant import decimals
from affidavit.accountant.errors import PlanError

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
BOUNDED = FLOATS.filter(lambda x: x == 0 or 1e-300 < abs(x) < 1e300)


@given(FLOATS, st.integers(1, 20))
def test_rounding_brackets_the_exact_value_to_within_one_unit(value: float, digits: int) -> None:
    up, down = decimals.round_up(value, digits=digits), decimals.round_down(value, digits=digits)
    assert Fraction(down) <= Fraction(value) <= Fraction(up)
    assert len(up.as_tuple().digits) <= digits
    assert Fraction(up) - Fraction(down) <= abs(Fraction(value)) * Fraction(10) ** (1 - digits)


@given(st.fractions())
def test_fractions_round_outward_too(value: Fraction) -> None:
    assert Fraction(decimals.round_down(value)) <= value <= Fraction(decimals.round_up(value))


@given(BOUNDED)
def test_shown_numbers_are_read_back_exactly(value: float) -> None:
    exact = decimals.round_up(value, digits=17)
    text = decimals.show(exact)
    assert re.match(decimals.PATTERN, text)
    assert decimals.parse(text, path="x") == exact


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"),
        ("-0.00", "0"),
        ("1E-5", "0.00001"),
        ("0.0000001", "0.0000001"),
        ("1E-8", "1e-8"),
        ("1.50E-30", "1.5e-30"),
        ("1e-100", "1e-100"),
        ("17.20", "17.2"),
        ("1200", "1200"),
        ("1E+3", "1000"),
        ("1.25E+20", "1.25e20"),
        ("-0.5", "-0.5"),
    ],
)
def test_numbers_have_one_spelling(value: str, text: str) -> None:
    assert decimals.show(Decimal(value)) == text


def test_what_was_written_counts_as_written() -> None:
    assert decimals.as_written(0.1, path="x") == Decimal("0.1") == decimals.as_written("0.1", path="x")
    assert decimals.as_written(1e-5, path="x") == Decimal("0.00001")
    assert decimals.as_written(3, path="x") == 3


def test_sums_are_exact() -> None:
    assert decimals.add(Decimal(x) for x in ("0.1", "0.9")) == 1
    assert decimals.add([Decimal("0.1")] * 10) == 1
    total = decimals.add([Decimal("1e400"), Decimal("1e-400")])
    assert total != Decimal("1e400")
    assert decimals.subtract(total, Decimal("1e400")) == Decimal("1e-400")


@given(BOUNDED)
def test_floats_on_either_side_of_a_decimal(value: float) -> None:
    written = decimals.as_written(value, path="x")
    below, above = decimals.float_at_most(written), decimals.float_at_least(written)
    assert Decimal(below) <= written <= Decimal(above)
    assert above in (below, math.nextafter(below, math.inf))


def test_the_nearest_float_to_a_written_delta_can_be_too_large() -> None:
    # 1e-5 as a float is 1.00000000000000008180305391403e-5.
    assert decimals.float_at_most(Decimal("0.00001")) < 1e-5
    assert decimals.float_at_most(Decimal("0.5")) == 0.5


OTHER_SPELLINGS = ["", "1.", ".5", "+1", "01", "1e+5", "1E5", "1e05", "NaN", "inf", " 1", "1\n", "１", "1_0", 1, None]


@pytest.mark.parametrize("text", [*OTHER_SPELLINGS, "1e401", "0." + "3" * 70])
def test_other_spellings_are_refused(text: object) -> None:
    with pytest.raises(PlanError, match="number"):
        decimals.parse(text, path="number")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), True, None, "x", "inf", Decimal("sNaN"), [1]])
def test_what_is_not_a_finite_number_is_refused(value: object) -> None:
    with pytest.raises(PlanError, match="budget"):
        decimals.as_written(value, path="budget")  # type: ignore[arg-type]


def test_infinity_has_no_decimal() -> None:
    with pytest.raises(ValueError, match="finite"):
        decimals.round_up(math.inf)
    with pytest.raises(ValueError, match="finite"):
        decimals.show(Decimal("inf"))


def test_the_certificate_spelling() -> None:
    assert decimals.show(decimals.round_up(1 / 3, digits=6)) == "0.333334"
    assert decimals.show(decimals.round_up(0.3)) == "0.3"  # this float is a little below 0.3
    assert decimals.show(decimals.round_up(0.1)) == "0.100000000001"  # this one a little above 0.1
