r"""A Gaussian mixture of two parts, a window that cuts it in two, and cells over which integrals are bounded."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr

from affidavit.accountant.pld.curve import Array
from affidavit.accountant.pld.subsample import log_mixed
from affidavit.accountant.rounding import TAIL

__all__ = ["CELLS", "Cells", "Mixture", "Window", "cells"]

CELLS = 1000
FURTHEST, FIRST = -40.0, -8.0
"""Where the first cell ends, and the first fine one."""
COARSE = 64


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
        return z if self.share == 1.0 else log_mixed(z, self.share)

    def second(self, x: Array) -> Array:
        """The share of the part at ``mean`` in the density at x; also the slope of ``log_ratio`` in mean·x."""
        if self.share in (0.0, 1.0):
            return np.full_like(x, self.share)
        result: Array = expit(self.mean * x - 0.5 * self.mean**2 + math.log(self.share) - math.log1p(-self.share))
        return result

    def size(self, x: Array) -> Array:
        """What the rounding errors of ``log_ratio`` are proportional to: a sum of two positive terms, ``log_mixed``."""
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
    """Φ((``high`` − x)/``width``) − Φ((``low`` − x)/``width``), of infinite ends none; towards −x if ``width`` < 0."""

    low: float | None
    high: float | None
    width: float

    def _ends(self, x: Array) -> tuple[Array, Array]:
        low = np.full_like(x, -math.inf) if self.low is None else (self.low - x) / self.width
        high = np.full_like(x, math.inf) if self.high is None else (self.high - x) / self.width
        return low, high

    def log_share(self, x: Array) -> Array:
        """ln of it."""
        low, high = self._ends(x)
        if self.low is None or self.high is None:
            alone: Array = log_ndtr(high if self.low is None else -low)
            return alone
        turned = low > 0.0  # the difference of two that are nearly 1 is that of their complements
        more, less = log_ndtr(np.where(turned, -low, high)), log_ndtr(np.where(turned, -high, low))
        result: Array = more + np.log1p(-np.exp(np.minimum(less - more, -1e-300)))
        return result

    def size(self, x: Array) -> Array:
        """What the rounding errors of ``log_share`` are proportional to: it, and its slopes times the terms of z."""
        share = self.log_share(x)
        result: Array = 2.0 * np.abs(share)
        for end, z in zip((self.low, self.high), self._ends(x), strict=True):
            if end is not None:
                hazard = np.exp(np.minimum(-0.5 * z * z - share, 700.0))
                result += hazard * ((np.abs(x) + abs(end)) / abs(self.width) + np.abs(z))
        return result


class Cells(NamedTuple):
    """Cells towards the moved part of p, the first one all below ``high[0]``; ``log_mass``: ln of a bound of p's."""

    low: Array
    high: Array
    log_mass: Array
    log_beyond: Array
    """ln P(x > ``high``)."""


@lru_cache(maxsize=64)
def cells(p: Mixture, end: float) -> Cells:
    """Those of p up to ``end``, counted towards its moved part."""
    edges = np.concatenate((np.linspace(FURTHEST, FIRST, COARSE, endpoint=False), np.linspace(FIRST, end, CELLS)))
    log_tail = np.minimum(
        np.logaddexp(math.log1p(-p.share) + log_ndtr(-edges), math.log(p.share) + log_ndtr(abs(p.mean) - edges)), 0.0
    )
    above = np.exp(np.concatenate(([0.0], log_tail)))
    rounded = TAIL * (4.0 + np.concatenate(([0.0], -log_tail)))
    mass = above[:-1] * (1.0 + rounded[:-1]) - above[1:] * (1.0 - rounded[1:])
    high = math.copysign(1.0, p.mean) * edges
    # Neither part of p has more below an edge than N(0, 1): far below, where differences cancel, that is sharper.
    log_mass = np.minimum(np.log(np.maximum(mass, 1e-300)), log_ndtr(edges) * (1.0 - 1e-12))
    return Cells(np.concatenate((high[:1], high[:-1])), high, log_mass, log_tail)
