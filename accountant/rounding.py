"""What the issuing engine charges for the rounding of float64: the numbers, and why each is enough.

A sum, product, quotient or square root is off by at most ``UNIT`` of itself (IEEE 754). exp, expm1, log, log1p are
taken to be good to 4 units, the logarithm of a normal tail to 8 of 4 + its size: tests/accountant/test_rounding.py
holds both against mpmath. Sums are of terms of one sign, or are charged by the sizes of their terms. What is charged
term by term stands where the terms are, in these units. All are relative, but where it says otherwise.
"""

from __future__ import annotations

__all__ = [
    "ALIGNED",
    "BUTTERFLY",
    "CHORD",
    "COMPOSED",
    "FORMULA",
    "LAST_DIGITS",
    "MASSES",
    "MOMENT",
    "NEAR_LATTICE",
    "ONE_USE",
    "PLACE",
    "POWER",
    "QUADRATURE",
    "RECURSION",
    "SAME",
    "SHIFTED_TAIL",
    "STATED",
    "TAIL",
    "ULP",
    "UNIT",
]

UNIT = 2.0**-53
"""Of one operation, rounded to nearest."""
ULP = 2.0 * UNIT
"""From a number to the next, at most."""
LAST_DIGITS = 1e-15
"""9 units: of at most eight operations."""
STATED = 1e-14
"""90 units: of a few sums, products and logarithms of stated numbers, or of chances that ``curve.ever`` adds up."""
FORMULA = 1e-13
"""900 units: of a formula of at most a hundred operations, relative to the sum of its terms' sizes."""
POWER = 1e-12
"""9,000 units: of e^x, |x| <= 750, where x is good to 12 units; of the logarithm of a sum of such."""
COMPOSED = 4e-12
"""Of ε or δ of a composition, whose masses and losses are charged one by one: the sums at the point that was
evaluated, over at most 2^20 places, are NumPy's, by pairs, and the search ends at such a point."""
RECURSION = 1e-10
"""9e5 units: a recursion over at most 4,000 uses (``adaptive.MAX_POINTS``, ``sampled_adaptive.MOST_USES``), each of a
hundred operations on terms of one sign or so; of masses and tails that are read off it or are sums of 2^20 terms."""
QUADRATURE = 1e-10
"""Absolute, of the logarithm of an integral by the trapezoid rule whose step is an eighth of the deviation."""
MOMENT = 1e-10
"""Of a moment's logarithm, beside 1: a chance next to 0 is a difference of rounded numbers, next to those of others."""
ONE_USE = 2.0**-46
"""128 units of a chord's intercept: one use on a sample has ten products of intercepts and slopes, each at most twice
the intercept, and arguments beside their places (``NEAR_LATTICE``)."""
NEAR_LATTICE, ALIGNED = 1e-11, 1e-14
"""An argument so near to a lattice point is on it: in cells, on samples; and relative to the range, without."""
CHORD = 16.0 * UNIT
"""Second differences of a convex function on a lattice that are a smaller share of it are rounding (``chords``)."""
PLACE = 16.0 * UNIT
"""Of the place where a normal tail begins, relative to the sizes of both terms that it is the difference of."""
TAIL = 8.0 * UNIT
"""Of a normal tail's logarithm, beside 4 + its size."""
SHIFTED_TAIL = 1e-11
"""Of a normal tail, by that of the place where it begins: 8 units of it, at most 40, times a hazard of at most 40."""
SAME = 1e-12
"""Of tails: where one of several curves is the largest in float64, and another one is by less."""
MASSES = 2.0**-48
"""32 units: of masses that are computed to 60 digits and rounded once, and of their sums, at most sixteen."""
BUTTERFLY = 8.0
"""Units that one level of a fast Fourier transform adds at most (``pld.transform``)."""
