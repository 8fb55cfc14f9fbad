"""Numbers on certificates and in the ledger: exact decimals, rounded to the safe side.

A float is a dyadic fraction, a budget is a decimal that a person wrote. Two rules keep the two
apart: what a person *wrote* (``0.1``, ``1e-5``) is taken as the decimal that was written, what
a computation *returned* is rounded outward from its exact value. Sums are exact, so 0.1 + 0.9
fits into 1.0.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, Overflow
from fractions import Fraction

from affidavit.accountant.errors import PlanError
from affidavit.accountant.validate import plain

__all__ = [
    "PATTERN",
    "add",
    "as_written",
    "float_at_least",
    "float_at_most",
    "parse",
    "round_down",
    "round_up",
    "show",
    "subtract",
    "within",
]

PATTERN = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?(e-?[1-9][0-9]*)?$"
_WRITTEN = re.compile(PATTERN[:-1] + r"\Z")
_MAX_DIGITS = 64
_MAX_EXPONENT = 400

# Wide enough that a sum of admitted numbers (each within 10^±400, 64 digits) is never rounded;
# if it ever were, the trap raises instead.
_EXACT = Context(prec=2 * _MAX_EXPONENT + 4 * _MAX_DIGITS, traps=[Inexact, InvalidOperation, Overflow])


def _bounded(value: Decimal, path: str) -> Decimal:
    digits, exponent = len(value.as_tuple().digits), value.adjusted() if value else 0
    if digits > _MAX_DIGITS or abs(exponent) > _MAX_EXPONENT:
        allowed = f"at most {_MAX_DIGITS} digits, between 1e-{_MAX_EXPONENT} and 1e{_MAX_EXPONENT}"
        raise PlanError(path, "the number is too long", allowed=allowed)
    return value


def parse(text: object, *, path: str) -> Decimal:
    """Read a decimal string as certificates and ledgers spell it. Raises ``PlanError``."""
    if not isinstance(text, str) or len(text) > 2 * _MAX_EXPONENT or not _WRITTEN.match(text):
        raise PlanError(path, "not a decimal string", allowed='digits such as "0.5" or "1.5e-30"')
    return _bounded(Decimal(text), path)


def as_written(value: str | float | Decimal, *, path: str) -> Decimal:
    """The decimal that a person meant: a float counts as its shortest spelling (0.1 is 1/10)."""
    written = value if isinstance(value, (str, Decimal)) else plain(value)
    if written is None:
        raise PlanError(path, f"a {type(value).__name__} is not a number", allowed="a finite number")
    try:
        result = Decimal(repr(written)) if isinstance(written, float) else Decimal(written)
    except InvalidOperation:
        raise PlanError(path, "not a number", allowed="a finite number") from None
    if not result.is_finite():
        raise PlanError(path, "not finite", allowed="a finite number")
    return _bounded(result, path)


def within(value: Decimal, *, path: str, most: int | None = None) -> Decimal:
    """A finite number from 0 to ``most``. Raises ``PlanError``."""
    if not value.is_finite() or value < 0 or (most is not None and value > most):
        allowed = "a finite number >= 0" if most is None else f"a number in [0, {most}]"
        raise PlanError(path, f"{value} is out of range", allowed=allowed)
    return value


def _rounded(value: float | Decimal | Fraction, digits: int, rounding: str) -> Decimal:
    context = Context(prec=digits, rounding=rounding)
    if isinstance(value, Fraction):
        return context.divide(Decimal(value.numerator), Decimal(value.denominator))
    exact = Decimal(value)
    if not exact.is_finite():
        raise ValueError("only a finite number has a decimal")
    return context.plus(exact)


def round_up(value: float | Decimal | Fraction, *, digits: int = 12) -> Decimal:
    """The least decimal of ``digits`` significant digits that is at least ``value``, exactly."""
    return _rounded(value, digits, ROUND_CEILING)


def round_down(value: float | Decimal | Fraction, *, digits: int = 12) -> Decimal:
    """The greatest decimal of ``digits`` significant digits that is at most ``value``, exactly."""
    return _rounded(value, digits, ROUND_FLOOR)


def show(value: Decimal) -> str:
    """One spelling a number: ``"0.00001"``, ``"17.2"``, ``"1.5e-30"``; no trailing zeros."""
    if not value:
        return "0"
    if not value.is_finite():
        raise ValueError("only a finite number has a decimal")
    value = value.normalize(_EXACT)
    return f"{value:f}" if -7 <= value.adjusted() <= 17 else f"{value:e}".replace("e+", "e")


def add(values: Iterable[Decimal]) -> Decimal:
    """The exact sum."""
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """The exact difference."""
    return _EXACT.subtract(left, right)


def float_at_most(value: Decimal | Fraction | float) -> float:
    """The greatest float whose exact value is at most ``value``.

    To certify (ε, δ) for the δ that was *written*, compute ε at ``float_at_most(δ)``: the float
    nearest to 1e-5 is larger than 1e-5, and ε there is a little too small.
    """
    result = float(value)
    return math.nextafter(result, -math.inf) if result > value else result


def float_at_least(value: Decimal | Fraction | float) -> float:
    """The least float whose exact value is at least ``value``."""
    result = float(value)
    return math.nextafter(result, math.inf) if result < value else result
