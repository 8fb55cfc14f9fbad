r"""Exact coins and integers with exponential laws, from uniform whole numbers alone.

Everything here has *exactly* the stated law for rational parameters; nothing rests on how float64 rounds.

A coin with probability p = exp(−γ) compares a uniform number U in [0, 1), read 62 bits at a time, with p. Float64
knows p to 2^-40 of its size (γ in float64, then exp: see ``_bounds``), which settles all but about one coin in
2^39. For the others more bits of U are drawn, and p is computed to as many by ``mpmath``, until they part.

Sources: Canonne, Kamath and Steinke 2020, "The discrete Gaussian for differential privacy" (algorithms 1 to 3:
geometric, discrete Laplace and discrete Gaussian from such coins). The coins themselves are by comparison of bits
instead of their alternating series: one draw for many coins at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.digits import alone
from affidavit.mechanisms.base import Noise, uniform_below

__all__ = ["exponential_coin", "exponential_coins", "geometric", "two_sided_geometric"]

_BITS = 62
_RELATIVE = 2.0**-40
_LARGEST = 80.0  # exp(−80) is below 2^-62 in any case


def exponential_coins(exponents: Sequence[Fraction], *, noise: Noise) -> NDArray[np.bool_]:
    """Independent coins, the i-th 1 with probability exactly exp(−``exponents[i]``), exponents >= 0."""
    words = noise.integers(0, 1 << _BITS, size=len(exponents))
    low, high = _bounds(np.array([float(exponent) if exponent < _LARGEST else _LARGEST for exponent in exponents]))
    coins: NDArray[np.bool_] = words < low
    for index in np.flatnonzero(~coins & (words <= high)):
        coins[index] = _settled(int(words[index]), exponents[int(index)], noise)
    return coins


def exponential_coin(exponent: Fraction, *, noise: Noise) -> bool:
    """One coin with probability exactly exp(−``exponent``)."""
    return bool(exponential_coins([exponent], noise=noise)[0])


def geometric(rate: Fraction, *, noise: Noise) -> int:
    """K >= 0 with P(K >= k) = exp(−``rate`` · k) exactly, for a rational rate > 0.

    With rate = d/n: U uniform below n, kept with probability exp(−U/n), plus n times a number V with
    P(V >= v) = exp(−v), is geometric of rate 1/n; its quotient by d is geometric of rate d/n.
    """
    step = rate.denominator
    while True:
        below = uniform_below(noise, step)
        if exponential_coin(Fraction(below, step), noise=noise):
            break
    whole = 0
    while exponential_coin(Fraction(1), noise=noise):
        whole += 1
    return (below + step * whole) // rate.numerator


def two_sided_geometric(rate: Fraction, *, noise: Noise) -> int:
    """K with P(K = k) ∝ exp(−``rate`` · |k|) exactly: the discrete Laplace law."""
    while True:
        size = geometric(rate, noise=noise)
        negative = bool(noise.integers(0, 2, size=1)[0])
        if size or not negative:
            return -size if negative else size


def _bounds(exponents: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whole numbers around 2^62·exp(−exponent): a word below the first is certainly in, above the second out.

    The float64 exponent is within 2^-53 of itself, at most 80·2^-53 in absolute terms, so exp is within
    2^-46 relative, and float64 exp itself is assumed good to 2^-44: together well under 2^-40.
    """
    near = np.ldexp(np.exp(-exponents), _BITS)
    low = np.floor(near * (1.0 - _RELATIVE)).astype(np.int64) - 1
    high = np.minimum(np.ceil(near * (1.0 + _RELATIVE)) + 1.0, 2.0**_BITS).astype(np.int64)
    low[exponents >= _LARGEST] = 0
    return low, high


def _settled(word: int, exponent: Fraction, noise: Noise) -> bool:
    """Whether U < exp(−exponent), given U's first 62 bits."""
    import mpmath

    if exponent == 0:
        return True
    bits = _BITS
    while True:
        more = int(noise.integers(0, 1 << _BITS, size=1)[0])
        word, bits = (word << _BITS) + more, bits + _BITS
        with alone, mpmath.workprec(bits + 64):
            power = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator)
            near = int(mpmath.floor(mpmath.ldexp(power, bits)))
        if word < near - 1:
            return True
        if word > near + 1:
            return False
        if bits > 64 * _BITS:
            raise RuntimeError("a coin was not settled by four thousand bits: the noise source is broken")
