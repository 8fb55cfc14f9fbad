r"""The tilted FFT and its error bound.

The masses p_j of part j are tilted to p_j e^{θ l}/M_j(θ), transformed, raised to their counts,
multiplied and transformed back. The error of the transform is then relative to the tail that θ
selects, so δ = 1e-100 needs no more than double precision.

A transform of a vector of 1-norm 1 errs by at most c u log2(N) in each coefficient (each butterfly
level adds a rounding of a partial 1-norm). Powers and products amplify it to
Σ_j T_j |z_j|^{T_j − 1} Π_{k≠j} |z_k|^{T_k} Δ; exponentials add u T |ln z|; the inverse averages over the
spectrum. The bound on every entry is computed from the spectrum itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.pld.curve import Array
from affidavit.accountant.pld.discretise import Masses, loss_rounding
from affidavit.accountant.rounding import BUTTERFLY, UNIT

__all__ = ["Tilted", "beyond_mass", "convolve", "log_moments", "loss_shift"]

LOG_DROPPED = -75.0
"""ln of the size below which a coefficient of the composed spectrum counts as 0."""


def log_moments(parts: Sequence[tuple[Masses, int]], exponents: Sequence[float]) -> Array:
    """ln of the moment Σ p e^{t l} of all parts together, over their finite masses, at each exponent t."""
    result = np.zeros(len(exponents))
    for part, count in parts:
        used = np.flatnonzero(part.masses > 0.0)
        log_masses, losses = np.log(part.masses[used]), part.origin + part.step * used
        for i, t in enumerate(exponents):
            logs = log_masses + t * losses
            peak = float(logs.max(initial=-math.inf))
            result[i] += count * (peak + math.log(float(np.exp(logs - peak).sum()))) if used.size else -math.inf
    return result


def loss_shift(parts: Sequence[tuple[Masses, int]]) -> float:
    """By how much rounding may have moved the composed losses."""
    return math.fsum(
        count * (loss_rounding(np.array([_largest(part)])) + 8.0 * UNIT * abs(part.origin)) for part, count in parts
    )


def _largest(part: Masses) -> float:
    return max(abs(part.origin), abs(part.origin + part.step * (part.masses.size - 1)))


def beyond_mass(
    exponents: Sequence[float],
    moments: Array,
    end: float,
    *,
    above: bool = True,
    theta: float = 0.0,
    log_moment: float = 0.0,
) -> float:
    """Chernoff: the mass tilted by ``theta``, ``log_moment`` = K(θ), at or beyond ``end``, ``above`` it or below.

    The best of ``exponents``, with their ``moments``, of those on that side of θ; 1 for none.
    """
    t = np.asarray(exponents)
    bounds = (moments - log_moment - (t - theta) * end)[t > theta if above else t < theta]
    return math.exp(min(float(bounds.min(initial=0.0)), 0.0)) * (1.0 + 1e-9)


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
    product, log_z = np.ones(half, dtype=np.complex128), np.zeros(half, dtype=np.complex128)
    log_size, slope = np.zeros(half), np.zeros(half)
    log_moment = relative = 0.0
    for part, count in parts:
        log_m = float(log_moments([(part, 1)], [theta])[0])
        log_moment += count * log_m
        # Relative rounding of the masses, of the tilt and of K.
        relative += count * (part.rounding + 32.0 * UNIT * (1.0 + abs(log_m) + abs(theta) * _largest(part)))
        with np.errstate(divide="ignore"):
            tilted = np.exp(np.log(part.masses) + (theta * part.losses - log_m))
        if tilted.size > size:
            tilted = np.pad(tilted, (0, -tilted.size % size)).reshape(-1, size).sum(axis=0)
        z = fft.rfft(tilted, size)
        widened = np.sqrt(z.real**2 + z.imag**2) + transform_error
        log_widened = np.log(widened)
        log_size += count * log_widened
        # Transform error, then rounding of the product, or of the logarithm, its multiple and the exponential.
        slope += count * (transform_error / widened + 8.0 * UNIT * (4.0 + np.abs(log_widened)))
        if count == 1:
            product *= z
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                log_z += count * np.log(z)
    with np.errstate(invalid="ignore"):
        # Most of the spectrum of many uses vanishes; what is dropped is part of the error.
        spectrum = np.where(log_size > LOG_DROPPED, product * np.nan_to_num(np.exp(log_z), nan=0.0), 0.0)
    bound = np.exp(np.minimum(log_size, 1.0)) * (slope + transform_error)
    # The half spectrum stands for the whole; what was dropped is at most e^{LOG_DROPPED} a coefficient.
    error = 2.0 * float(bound.sum()) / size + math.exp(LOG_DROPPED) * (1.0 + transform_error)
    return Tilted(fft.irfft(spectrum, size), error * (1.0 + 1e-9), log_moment, relative)
