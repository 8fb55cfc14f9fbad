r"""The tilted FFT and its error bound.

The masses p_j of part j are tilted to p_j e^{θ l}/M_j(θ), transformed, raised to their counts,
multiplied and transformed back. The error of the transform is then relative to the tail that θ
selects, so δ = 1e-100 needs no more than double precision.

A transform of a vector of 1-norm 1 errs by at most c u log2(N) in each coefficient (each butterfly
level adds a rounding of a partial 1-norm). Of each law the largest mass m is taken out first, and z is
m(1 + w), w the transform of the others over m: of rare samples they are little, and so is their error.
Powers and products amplify it to Σ_j T_j |z_j|^{T_j − 1} Π_{k≠j} |z_k|^{T_k} Δ; exponentials add
u T |ln(1 + w)|; the inverse averages over the spectrum. The bound on every entry is computed from the
spectrum itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.pld.curve import Array
from affidavit.accountant.pld.discretise import LEAST, Masses, loss_rounding

__all__ = ["UNIT", "Tilted", "beyond_mass", "convolve", "log_mgf", "loss_shift", "mass_at_infinity"]

UNIT = 2.0**-53
BUTTERFLY = 8.0
"""Rounding errors, in units of u, that one level of the transform adds at most."""
LOG_DROPPED = -75.0
"""ln of the size below which a coefficient of the composed spectrum counts as 0."""


def log_mgf(masses: Masses, theta: float) -> float:
    """ln Σ p e^{θ l} over the finite masses."""
    return float(_log_mgfs(masses, [theta])[0])


def _log_mgfs(masses: Masses, thetas: Sequence[float]) -> Array:
    """The same for several θ."""
    used = np.flatnonzero(masses.masses > 0.0)
    if used.size == 0:
        return np.full(len(thetas), -math.inf)
    log_masses, losses = np.log(masses.masses[used]), masses.origin + masses.step * used
    exponents = np.multiply.outer(np.array(thetas), losses)
    exponents += log_masses
    peaks = exponents.max(axis=1)
    exponents -= peaks[:, None]
    result: Array = peaks + np.log(np.exp(exponents, out=exponents).sum(axis=1))
    return result


def mass_at_infinity(parts: Sequence[tuple[Masses, int]]) -> float:
    """1 − Π (1 − p_j)^count_j."""
    return -math.expm1(
        math.fsum(count * (math.log1p(-part.infinity) if part.infinity < 1.0 else -math.inf) for part, count in parts)
    )


def loss_shift(parts: Sequence[tuple[Masses, int]]) -> float:
    """By how much rounding may have moved the composed losses."""
    return math.fsum(
        count * (loss_rounding(np.array([_largest(part)])) + 8.0 * UNIT * abs(part.origin) + part.shift)
        for part, count in parts
    )


def _largest(part: Masses) -> float:
    return max(abs(part.origin), abs(part.origin + part.step * (part.masses.size - 1)))


def beyond_mass(
    parts: Sequence[tuple[Masses, int]],
    exponents: Sequence[float],
    end: float,
    *,
    theta: float = 0.0,
    log_moment: float = 0.0,
) -> float:
    """Chernoff: the mass tilted by ``theta``, ``log_moment`` = K(θ), at or beyond ``end``.

    Above it for exponents greater than θ, below it for smaller ones; the best of ``exponents``, 1 for none.
    """
    if not exponents:
        return 1.0 + 1e-9
    moments = [count * _log_mgfs(part, exponents) for part, count in parts]
    bounds = [math.fsum(column) for column in np.stack(moments).T.tolist()]
    least = min(bound - log_moment - (t - theta) * end for t, bound in zip(exponents, bounds, strict=True))
    return math.exp(min(least, 0.0)) * (1.0 + 1e-9)


@dataclass(frozen=True, slots=True)
class Tilted:
    """A circular convolution of tilted masses.

    ``tilted`` sums to about 1, each entry within ``error`` of the exact transform's; real masses are
    e^{log_moment − θ l} times these, within a factor e^{±relative}.
    """

    tilted: Array
    error: float
    log_moment: float
    relative: float


def convolve(parts: Sequence[tuple[Masses, int]], theta: float, size: int) -> Tilted:
    """All ``parts`` to their counts, tilted by ``theta``, folded onto ``size`` indices."""
    from scipy import fft

    if not all(part.masses.any() for part, _ in parts):
        # A part with no finite loss at all.
        return Tilted(np.zeros(size), 0.0, 0.0, 0.0)
    half = size // 2 + 1
    transform_error = BUTTERFLY * UNIT * math.log2(size)
    log_z = np.zeros(half, dtype=np.complex128)
    log_size, slope = np.zeros(half), np.full(half, 8.0 * UNIT * (4.0 + len(parts)))
    log_moment = relative = 0.0
    turned = 0
    for part, count in parts:
        log_m = log_mgf(part, theta)
        log_moment += count * log_m
        with np.errstate(divide="ignore"):
            tilted = np.exp(np.log(part.masses) + (theta * part.losses - log_m))
        if tilted.size > size:
            tilted = np.pad(tilted, (0, -tilted.size % size)).reshape(-1, size).sum(axis=0)
        # The largest mass is taken out, at index 0 by a turn: where it is nearly all, the others' errors are theirs.
        top = int(np.argmax(tilted))
        largest, tilted[top] = float(tilted[top]), 0.0
        turned += count * top
        others = fft.rfft(np.roll(np.pad(tilted, (0, size - tilted.size)), -top), size) / largest
        # Relative rounding of the masses, of the tilt, of K and of the largest mass.
        relative += count * (part.rounding + 32.0 * UNIT * (1.0 + abs(log_m) + abs(theta) * _largest(part)))
        relative += count * 8.0 * UNIT * (1.0 + abs(math.log(largest)))
        logs = _log1p(others)
        missed = transform_error * float(tilted.sum()) / largest * np.exp(-logs.real)
        log_size += count * (math.log(largest) + logs.real + np.log1p(missed))
        # Transform error, then rounding of the logarithm, its multiple and the exponential.
        slope += count * (missed + 8.0 * UNIT * np.abs(logs))
        log_z += count * (math.log(largest) + logs)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        # Most of the spectrum of many uses vanishes; what is dropped is part of the error.
        spectrum = np.where(log_size > LOG_DROPPED, np.exp(log_z), 0.0)
    bound = np.exp(np.minimum(log_size, 1.0)) * (slope + transform_error)
    # The half spectrum stands for the whole; what was dropped is at most e^{LOG_DROPPED} a coefficient.
    error = 2.0 * float(bound.sum()) / size + math.exp(LOG_DROPPED) * (1.0 + transform_error)
    result = np.roll(fft.irfft(spectrum, size), turned % size)
    return Tilted(result, error * (1.0 + 1e-9), log_moment, relative)


def _log1p(z: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """ln(1 + z), accurate for small z."""
    size = np.maximum(np.hypot(1.0 + z.real, z.imag), LEAST)
    near = (size > 0.7) & (size < 2.0)
    gain = np.where(near, z.real * (2.0 + z.real) + z.imag**2, 0.0)
    return np.where(near, 0.5 * np.log1p(gain), np.log(size)) + 1j * np.arctan2(z.imag, 1.0 + z.real)
