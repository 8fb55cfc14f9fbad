"""Numbers as a reader sees them: few digits, and never rounded to the flattering side.

An upper bound is shown rounded up, a lower bound rounded down, so that what the page says is
implied by what the certificate says. A float counts as its shortest spelling (0.1 is 1/10), a
decimal string as the decimal that it spells.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal

from affidavit.accountant.decimals import round_down, round_up, show

__all__ = [
    "Number",
    "as_decimal",
    "fixed_lower",
    "fixed_upper",
    "lower",
    "measured",
    "one_in",
    "percent_upper",
    "short",
    "upper",
]

Number = str | float | Decimal

_PRECISION = 1000  # more digits than any admitted number has: only the stated rounding happens
_WIDEST = Decimal(10) ** 6
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def as_decimal(value: Number) -> Decimal:
    """The decimal that was meant. Raises ``ValueError`` for text that is not a number, and NaN."""
    try:
        result = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    except ArithmeticError:
        raise ValueError("not a number") from None
    if result.is_nan():
        raise ValueError("not a number")
    return result


def _spelled(value: Decimal) -> str:
    """Plain digits in the usual range, else d.d × 10ⁿ; a real minus sign."""
    if value.is_infinite():
        return "∞" if value > 0 else "−∞"
    magnitude = abs(value)
    if magnitude == 0 or Decimal("1e-4") <= magnitude < _WIDEST:
        return show(value).replace("-", "−")
    exponent = value.adjusted()
    digits = show(value.scaleb(-exponent)).replace("-", "−")
    power = "10" + str(exponent).translate(_RAISED)
    return power if digits == "1" else f"{digits} × {power}"


def upper(value: Number, *, digits: int = 4) -> str:
    """An upper bound with ``digits`` significant digits, rounded up."""
    exact = as_decimal(value)
    return _spelled(round_up(exact, digits=digits) if exact.is_finite() else exact)


def lower(value: Number, *, digits: int = 4) -> str:
    """A lower bound with ``digits`` significant digits, rounded down."""
    exact = as_decimal(value)
    return _spelled(round_down(exact, digits=digits) if exact.is_finite() else exact)


def short(value: Number, *, digits: int = 3) -> str:
    """An estimate, which has no safe side: rounded to nearest."""
    exact = as_decimal(value)
    return _spelled(Decimal(f"{exact:.{digits - 1}e}") if exact.is_finite() and exact else exact)


def _rounded(exact: Decimal, places: int, rounding: str) -> Decimal:
    return Context(prec=_PRECISION, rounding=rounding).quantize(exact, Decimal(1).scaleb(-places))


def _fixed(value: Number, places: int, rounding: str) -> str:
    exact = as_decimal(value)
    if not exact.is_finite():
        return _spelled(exact)
    return f"{_rounded(exact, places, rounding):,.{places}f}".replace("-", "−")


def fixed_upper(value: Number, *, places: int = 3) -> str:
    """An upper bound for a column of numbers: ``places`` decimals, rounded up."""
    return _fixed(value, places, ROUND_CEILING)


def fixed_lower(value: Number, *, places: int = 3) -> str:
    """A lower bound for a column of numbers: ``places`` decimals, rounded down."""
    return _fixed(value, places, ROUND_FLOOR)


def measured(value: Number, *, places: int = 3) -> str:
    """A measured value: whole numbers as they are, others with ``places`` decimals, to nearest."""
    exact = as_decimal(value)
    whole = exact.is_finite() and exact == exact.to_integral_value()
    return _fixed(exact, 0 if whole else places, ROUND_HALF_EVEN)


def percent_upper(value: Number) -> str:
    """A probability limit in per cent, rounded up, with enough digits not to round 0.9997 to 1."""
    exact = min(Decimal(1), as_decimal(value))
    distance = min(exact, 1 - exact)
    places = 1 if distance <= 0 else min(12, max(1, -distance.adjusted() - 1))
    return show(_rounded(exact.scaleb(2, Context(prec=_PRECISION)), places, ROUND_CEILING)) + "\u00a0%"


def one_in(probability: Number) -> str:
    """``1 in 978`` for a small probability limit; the denominator rounded down, never too rosy."""
    exact = as_decimal(probability)
    if exact <= 0:
        return "never"
    denominator = math.floor(Context(rounding=ROUND_DOWN).divide(Decimal(1), exact))
    return "certain" if denominator <= 1 else f"1 in {denominator:,}"
