"""Numbers that cannot be too small: balls in, floats rounded outwards out.

A ball (``flint.arb``) is a midpoint with a radius that provably contains the value; every
operation enlarges the radius by its own rounding. ``up`` and ``down`` leave ball arithmetic
through the safe side, ``ball`` enters it without error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from flint import arb, ctx, fmpq
from numpy.typing import NDArray

from affidavit.accountant.digits import alone

__all__ = ["Array", "Ball", "ComplexArray", "ball", "down", "down_array", "normal_tail", "precision", "up", "up_array"]

Ball: TypeAlias = Any  # flint.arb; python-flint ships no types
Array: TypeAlias = NDArray[np.float64]
ComplexArray: TypeAlias = NDArray[np.complex128]

BITS = 256
"""Working precision: relative errors near 1e-77, far below any tolerance here."""


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    """A context in which balls carry ``bits`` bits."""
    with alone, ctx.workprec(bits):
        yield


def ball(value: float | int | Fraction) -> Ball:
    """The value as a ball; floats and integers are exact, fractions rounded outwards."""
    if isinstance(value, Fraction):
        return arb(fmpq(value.numerator, value.denominator))
    return arb(value)


def up(value: Ball) -> float:
    """The least float that is provably at least the ball; inf if the ball is not finite."""
    if not value.is_finite():
        return math.inf
    top = value.upper()
    result = float(top)
    if result == -math.inf:
        return -float(np.finfo(np.float64).max)
    while not arb(result) >= top:
        result = math.nextafter(result, math.inf)
    return result


def down(value: Ball) -> float:
    """The greatest float that is provably at most the ball; -inf if the ball is not finite."""
    return 0.0 - up(-value)


def up_array(values: Sequence[Ball]) -> Array:
    """``up`` of each."""
    return np.array([up(value) for value in values], dtype=np.float64)


def down_array(values: Sequence[Ball]) -> Array:
    """``down`` of each."""
    return np.array([down(value) for value in values], dtype=np.float64)


def normal_tail(z: Ball) -> Ball:
    """P(Z > z) for a standard normal Z."""
    return (z * arb(0.5).sqrt()).erfc() / 2
