"""Border checks shared by everything that takes a privacy parameter from outside.

Booleans, strings, NaN and infinities are refused by name; a refusal names the path and the
allowed range (``PlanError``). Nothing else in the package re-checks these ranges. A scalar of numpy is the number
that it is, arrays are refused, of one element too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Rational, Real
from typing import Literal, cast, get_args

from affidavit.accountant import remedies
from affidavit.accountant.errors import PlanError

Relation = Literal["add-remove", "zero-out", "substitution"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)

LEAST, MOST = 1e-100, 1e100
"""Sizes of a privacy parameter that is not 0: sums over all uses are finite, and so are their squares."""

__all__ = [
    "LEAST",
    "MOST",
    "RELATIONS",
    "Relation",
    "Underflow",
    "choice",
    "fraction",
    "kept",
    "number",
    "plain",
    "rate",
    "real",
    "relation",
    "size",
    "underflow",
    "whole",
    "written",
]


class Underflow(float):
    """0, in the place of a number that was written and is nearer to 0 than any float; ``number`` refuses it."""

    text: str


def written(text: str) -> float:
    """The float nearest to a decimal, as JSON, TOML and the command line write it. Raises ``ValueError``."""
    result = float(text)
    if result == 0.0 and any(digit.isdecimal() and int(digit) for digit in text.lower().partition("e")[0]):
        return underflow(text)
    return result


def kept(text: str) -> float:
    """``written``, for files whose reader would take an ``Underflow`` for 0. Raises ``ValueError`` for one."""
    result = written(text)
    if isinstance(result, Underflow):
        raise ValueError(f"{result.text[:40]} is not 0, and nearer to it than any float")  # noqa: TRY004
    return result


def underflow(text: str) -> Underflow:
    """What stands for ``text``."""
    result = Underflow(0.0)
    result.text = text.strip()
    return result


def plain(value: object) -> int | float | None:
    """The int or float that ``value`` is, a scalar of numpy included; None for everything else, booleans too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) and not isinstance(value, Rational) else None


def _shown(value: object) -> str:
    """The value for a message: short, and never the inside of a container."""
    if isinstance(value, bool) or value is None:
        return repr(value)
    if (known := plain(value)) is not None:
        return repr(known)
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:37] + "...")
    return f"a {type(value).__name__}"


def number(value: object, *, path: str, allowed: str) -> float:
    """A finite int or float (not a bool, not a string), as float."""
    known = plain(value)
    if known is None:
        raise PlanError(path, f"{_shown(value)} is not a number", allowed=allowed)
    try:
        result = float(known)
    except OverflowError:
        raise PlanError(path, "the number is too large", allowed=allowed) from None
    if not math.isfinite(result):
        raise PlanError(path, f"{_shown(value)} is not finite", allowed=allowed)
    if isinstance(value, Underflow):
        raise PlanError(path, f"{value.text[:40]} is not 0, and nearer to it than any float", allowed=allowed)
    return result


def real(value: object, *, path: str, minimum: float = 0.0) -> float:
    """A finite real number at least ``minimum``."""
    allowed = f"a finite number >= {minimum:g}"
    result = number(value, path=path, allowed=allowed)
    if result < minimum:
        raise PlanError(path, f"{_shown(value)} is too small", allowed=allowed)
    return result


def size(value: object, *, path: str, minimum: float = 0.0) -> float:
    """A privacy parameter: 0 where ``minimum`` is, else a number from ``LEAST`` (or ``minimum``) to ``MOST``."""
    result = real(value, path=path, minimum=minimum)
    if (result < LEAST and result != 0.0) or result > MOST:
        raise _beyond(
            result, path, f"a number >= {max(minimum, LEAST):g} and <= {MOST:g}" + ", or 0" * (minimum == 0.0)
        )
    return result


def rate(value: object, *, path: str) -> float:
    """A probability of being sampled: in [0, 1], and not between 0 and ``LEAST``."""
    result = fraction(value, path=path)
    if 0.0 < result < LEAST:
        raise _beyond(result, path, f"a number in [0, 1], 0 or at least {LEAST:g}")
    return result


def _beyond(value: float, path: str, allowed: str) -> PlanError:
    return PlanError(path, f"{value!r} is beyond what is computed with", allowed=allowed)


def fraction(value: object, *, path: str) -> float:
    """A real number in [0, 1]."""
    result = number(value, path=path, allowed="a number in [0, 1]")
    if not 0.0 <= result <= 1.0:
        raise PlanError(path, f"{_shown(value)} is out of range", allowed="a number in [0, 1]")
    return result


def whole(value: object, *, path: str, minimum: int = 0, maximum: int | None = None) -> int:
    """A whole number in [minimum, maximum]; 3.0 counts as 3, 2.5 does not."""
    allowed = f"a whole number >= {minimum}" + ("" if maximum is None else f" and <= {maximum}")
    result = number(value, path=path, allowed=allowed)
    if result != math.floor(result):
        raise PlanError(path, f"{_shown(value)} is not a whole number", allowed=allowed)
    exact = int(cast("int | float", plain(value)))
    if exact < minimum or (maximum is not None and exact > maximum):
        raise PlanError(path, f"{_shown(value)} is out of range", allowed=allowed)
    return exact


def choice(value: object, *, path: str, options: Sequence[str]) -> str:
    """One of the given strings."""
    allowed = " | ".join(options)
    if not isinstance(value, str) or value not in options:
        hint = remedies.did_you_mean(value, options, path=path)
        raise PlanError(path, f"{_shown(value)} is not known", allowed=allowed, hint=hint)
    return value


def relation(value: object, *, path: str = "relation") -> Relation:
    """A neighbouring relation; never defaulted."""
    if value is None:
        raise PlanError(path, "missing: the relation is never assumed", allowed=" | ".join(RELATIONS))
    return cast("Relation", choice(value, path=path, options=RELATIONS))
