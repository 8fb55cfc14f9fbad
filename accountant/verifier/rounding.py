"""What the verifier charges for the rounding of float64, where it is not in balls: the numbers, and why each is enough.

A sum, product, quotient or square root is off by at most ``UNIT`` of itself (IEEE 754). What is charged term by term
stands where the terms are, in these units. All are relative, but where it says otherwise.
"""

from __future__ import annotations

__all__ = ["AMISS", "CELL_MASS", "CHARGE", "FLOOR", "LIBM", "MISSED", "STEP", "SUM", "UNIT"]

UNIT = 2.0**-53
"""Of one operation, rounded to nearest."""
STEP = 8.0 * UNIT
"""Of a use in a recursion, and of a sum of three products of numbers of one sign: six operations."""
LIBM = 2.0**-40
"""NumPy's exp, expm1 and log1p, with an operation beside them. They are good to 2^-51."""
FLOOR = 1e-300
"""Absolute: more than underflow takes from a product of what is at least 2^-54, far below all that matters."""
SUM = 1e-9
"""A sum of up to 4e6 floats of one sign, in any order: 4e6 units are 4.5e-10."""
CELL_MASS = 1e-12
"""Of a cell's mass, from the logarithms of two normal tails: 9,000 units, where logarithms are below 750."""
CHARGE, AMISS = 2.0**-37, 2.0**-35
"""Of a Gaussian's mass between lattice points, and of how far a group's mean is from its knot, in units of τ: its nodes
miss, and round, less (``gaussian_cells``)."""
MISSED = 6.0 * 2.0**-126
"""Of an integral by 64 nodes a panel, on an ellipse on which the integrand exceeds its real maximum by e^36 at most
(``loss_windows``)."""
