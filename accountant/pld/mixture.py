r"""A Gaussian mixture of two parts, a window that cuts it in two, and cells over which integrals are bounded."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from affidavit.accountant.pld.curve import Array

__all__ = ["CELLS", "UNIT", "Cells", "Mixture", "Window", "cells"]

UNIT = 2.0**-53
CELLS = 1000
FIRST = -8.0
"""Where the first cell ends."""
FURTHEST = 60.0
"""Where the last one ends beyond a window, in widths: e^−1800 of it is left."""
ROUNDED = 1e-13
"""Relative, of a tail: a few units times the logarithm that it is the exponential of."""


class Mixture(NamedTuple):
    """(1 − ``share``) N(0, 1) + ``share`` N(``mean``, 1)."""

    share: float
    mean: float

    @property
    def spread(self) -> float:
        """How far apart its parts are."""
        return abs(self.mean) if 0.0 < self.share < 1.0 else 0.0

    def log_ratio(self, x: Array) -> Array:
        """ln of the density against N(0, 1)."""
        if self.share == 0.0:
            return np.zeros_like(x)
        z = self.mean * x - 0.5 * self.mean**2
        if self.share == 1.0:
            return z
        odds = (1.0 - self.share) / self.share
        small = np.log1p(self.share * np.expm1(np.minimum(z, 1.0)))
        large = z + math.log(self.share) + np.log1p(odds * np.exp(-np.maximum(z, 1.0)))
        result: Array = np.where(z < 1.0, small, large)
        return result

    def second(self, x: Array) -> Array:
        """The share of the part at ``mean`` in the density at x; also the slope of ``log_ratio`` in mean·x."""
        if self.share in (0.0, 1.0):
            return np.full_like(x, self.share)
        with np.errstate(over="ignore"):
            ratio = np.exp(0.5 * self.mean**2 - self.mean * x)
        result: Array = 1.0 / (1.0 + (1.0 - self.share) / self.share * ratio)
        return result

    def size(self, x: Array) -> Array:
        """What the rounding errors of ``log_ratio`` are proportional to."""
        result: Array = np.abs(self.log_ratio(x)) + self.second(x) * (np.abs(self.mean * x) + self.mean**2)
        return result

    def turned(self, x: Array, height: float) -> tuple[Array, Array]:
        """(arg r, |r|/r(x)) at x + i·height."""
        angle = self.mean * height
        if self.share in (0.0, 1.0):
            return np.full_like(x, self.share * angle), np.ones_like(x)
        second = self.second(x)
        real, imaginary = 1.0 - second + second * math.cos(angle), second * math.sin(angle)
        return np.arctan2(imaginary, real), np.hypot(real, imaginary)


class Window(NamedTuple):
    """Φ((``at`` − x)/``width``); its complement has −``width``."""

    at: float
    width: float

    def log_share(self, x: Array) -> Array:
        """ln of it."""
        result: Array = log_ndtr((self.at - x) / self.width)
        return result

    def size(self, x: Array) -> Array:
        """What the rounding errors of ``log_share`` are proportional to: it, and its slope times the terms of z."""
        z, share = (self.at - x) / self.width, self.log_share(x)
        hazard = np.exp(np.minimum(-0.5 * z * z - share, 700.0))
        result: Array = np.abs(share) + hazard * ((np.abs(x) + abs(self.at)) / abs(self.width) + np.abs(z))
        return result


class Cells(NamedTuple):
    """Cells towards the moved part of p, the first one all below ``high[0]``.

    ``log_mass``: ln of a bound of p's mass there times the window at the low end, the largest; ``log_beyond``: ln of
    the same of all beyond each cell.
    """

    low: Array
    high: Array
    log_mass: Array
    log_beyond: Array


@lru_cache(maxsize=64)
def cells(p: Mixture, window: Window) -> Cells:
    """Those of p times a window that falls towards its moved part."""
    sign, rate = math.copysign(1.0, p.mean), p.share
    edges = np.linspace(FIRST, max(sign * window.at, 0.0) + FURTHEST * abs(window.width), CELLS)
    log_tail = np.minimum(
        np.logaddexp(math.log1p(-rate) + log_ndtr(-edges), math.log(rate) + log_ndtr(abs(p.mean) - edges)), 0.0
    )
    share = window.log_share(sign * edges)
    above = np.exp(np.concatenate(([0.0], log_tail)))
    mass = above[:-1] * (1.0 + ROUNDED) - above[1:] * (1.0 - ROUNDED)
    log_mass = np.log(np.maximum(mass, 1e-300)) + np.concatenate(([0.0], share[:-1]))
    high = sign * edges
    return Cells(np.concatenate((high[:1], high[:-1])), high, log_mass, share + log_tail)
