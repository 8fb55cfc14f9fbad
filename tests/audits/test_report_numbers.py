"""Displayed numbers: an upper side is never shown smaller than it is, a lower side never larger."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.audits.report.numbers import (
    fixed_lower,
    fixed_upper,
    lower,
    measured,
    one_in,
    percent_upper,
    short,
    upper,
)

_POWERS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def _read(text: str) -> Decimal:
    """What a reader takes a displayed number to be."""
    text = text.replace("−", "-").replace(",", "")
    if "10" in text and any(char in "⁻⁰¹²³⁴⁵⁶⁷⁸⁹" for char in text):
        mantissa, _, power = text.rpartition("10")
        digits = mantissa.replace("×", "").strip() or "1"
        return Decimal(digits) * Decimal(10) ** int(power.translate(_POWERS))
    return Decimal(text)


@given(st.decimals(min_value="1e-40", max_value="1e12", allow_nan=False, allow_infinity=False, places=None))
def test_sides_enclose_the_value(value: Decimal) -> None:
    assert _read(lower(value)) <= value <= _read(upper(value))
    assert _read(fixed_lower(value)) <= value <= _read(fixed_upper(value))
    assert _read(upper(value)) <= value * Decimal("1.001"), "four digits are within 0.1 %"


@given(st.decimals(min_value="0", max_value="1", allow_nan=False))
def test_percentages_are_upper_limits_and_not_100_before_1(value: Decimal) -> None:
    shown = Decimal(percent_upper(value).removesuffix("\u00a0%"))
    assert value * 100 <= shown <= 100
    if value < 1 - Decimal("1e-9"):
        assert shown < 100


@given(st.decimals(min_value="1e-12", max_value="1", allow_nan=False))
def test_one_in_is_an_upper_limit(value: Decimal) -> None:
    text = one_in(value)
    assert text == "certain" or Decimal(1) / Decimal(text.removeprefix("1 in ").replace(",", "")) >= value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("3.10341", "3.104"),
        (0.001, "0.001"),  # a float is its shortest spelling: not 0.001001
        (0.1, "0.1"),
        ("0.00001", "10⁻⁵"),
        ("1.23456e-7", "1.235 × 10⁻⁷"),
        ("12345678", "1.235 × 10⁷"),
        (float("inf"), "∞"),
        (0, "0"),
        ("-0.25", "−0.25"),
    ],
)
def test_upper_spelling(value: str | float, shown: str) -> None:
    assert upper(value) == shown


def test_many_digits_are_rounded_once() -> None:
    """Found by hypothesis: a division to 28 digits rounded up what was then rounded down."""
    assert fixed_lower(Decimal("30517578.124999999999999999995")) == "30,517,578.124"
    assert one_in(Decimal(1) / 978 + Decimal("1e-28")) == "1 in 977"


def test_lower_and_estimates() -> None:
    assert lower("3.10399") == "3.103"
    assert fixed_lower("0.20999") == "0.209"
    assert fixed_upper("0.2001") == "0.201"
    assert short(0.53126) == "0.531"
    assert short(0) == "0"
    assert measured(41) == "41"
    assert measured(0.5) == "0.500"
    assert percent_upper("0.9997102") == "99.972\u00a0%"
    assert percent_upper("0.69123") == "69.2\u00a0%"
    assert one_in("0.0010223") == "1 in 978"
    assert one_in(0) == "never"
    assert one_in(2) == "certain"


@pytest.mark.parametrize("bad", ["", "abc", float("nan"), "nan"])
def test_not_a_number_is_refused(bad: str | float) -> None:
    with pytest.raises(ValueError, match="not a number"):
        upper(bad)
