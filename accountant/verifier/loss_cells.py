r"""One kind of sampled Gaussian; cells of its noise, for bounds of means of its losses, and nodes, for the means.

x ~ N(0, 1) is the noise in units of σ, μ = 1/σ, ρ = γ/(1−γ), a(x) = ρ e^{μx − μ²/2}, and l(x) = log(1 + a(x)) a use's
loss above its least one, log(1−γ). e^{kl} = (1+a)^k is convex in a for k >= 1 and k <= 0. So in each cell its mean is
at most its chord at the mean of a (Edmundson 1956), in closed form as a φ(x) = ρ φ(x−μ). The error is the square of a
cell's width, which n uses may multiply by n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
from scipy.special import log_ndtr

from affidavit.accountant.verifier.balls import Array
from affidavit.accountant.verifier.rounding import CELL_MASS, UNIT

__all__ = ["FALLING_CELLS", "START", "SWAY", "Cells", "Kind", "Nodes", "Panels", "cells_of", "legendre"]

START = -12.0
"""Below it nodes end, and lies one cell."""
FALLING_CELLS = 1_000
ORDER, SWAY = 64, 30.0
"""Nodes of a panel, and the exponent by frequency on its ellipse (``loss_windows``)."""

Panels: TypeAlias = tuple[Array, Array]
"""Centres and half-widths."""


class Nodes(NamedTuple):
    """Of panels: the noise, l there, and log of weight times φ."""

    x: Array
    loss: Array
    log_weight: Array
    terms: Array
    """Sizes that log a is the sum of."""
    gaps: Array

    def rounding(self, power: float) -> Array:
        """Relative, in units in the last place, of e^{power l} φ: of logarithms, and panels' ends that leave gaps."""
        return 256.0 + 4.0 * (0.5 * self.x * self.x + power * self.loss * (2.0 + self.terms)) + self.gaps


class Kind(NamedTuple):
    """``uses`` of the removal pair: ``rate`` in (0, 1), noise ``sigma`` for a shift by 1."""

    rate: float
    sigma: float
    uses: int

    @property
    def mu(self) -> float:
        return 1.0 / self.sigma

    @property
    def log_kept(self) -> float:
        """log(1 − γ), the least loss."""
        return math.log1p(-self.rate)

    @property
    def log_odds(self) -> float:
        return math.log(self.rate) - self.log_kept

    def log_a(self, x: Array) -> Array:
        return self.mu * x - 0.5 * self.mu**2 + self.log_odds

    def a(self, x: float) -> float:
        return math.exp(min(self.mu * x - 0.5 * self.mu**2 + self.log_odds, 700.0))

    def loss(self, x: Array) -> Array:
        result: Array = np.logaddexp(0.0, self.log_a(x))
        return result

    def place(self, log_a: float) -> float:
        """The x at which log a(x) is that."""
        return (log_a - self.log_odds) / self.mu + 0.5 * self.mu

    def log_tails(self, x: float) -> tuple[float, float]:
        """log P and log Q of (x, ∞), in floats."""
        near = float(log_ndtr(-x))
        far = float(log_ndtr(self.mu - x))
        return float(np.logaddexp(self.log_kept + near, math.log(self.rate) + far)), near

    def log_falling(self, thetas: Array) -> Array:
        """log of at least E_Q e^{−θl} at each θ."""
        cells = cells_of(self, -START, FALLING_CELLS)
        inside = cells.log_sum(-thetas, np.zeros(len(cells.high)))
        beyond = float(log_ndtr(START)) - thetas * cells.loss_high[-1] * (1.0 - 1e-9)
        result: Array = np.logaddexp(inside, beyond) + 1e-12
        return result

    def panels(self, end: float, frequency: float, *, most: Callable[[float], float], least: float = 0.0) -> Panels:
        """From ``START`` to ``end``, none from x on of a half-width above ``most``; ``least`` is small enough."""
        mu, centres, halves, x = self.mu, [], [], START
        while True:
            rest = 0.5 * (end - x)
            r = min(1.0, 1.3 / mu, most(x), rest)
            while frequency * mu * min(1.0, self.a(x + 2.25 * r)) * 0.75 * r > SWAY:
                r = max(0.7 * r, least)
            centres.append(x + r)
            halves.append(r)
            if r == rest:
                return np.array(centres), np.array(halves)
            x += 2.0 * r

    def nodes(self, panels: Panels) -> Nodes:
        centres, halves = panels
        points, weights = legendre()
        x = (centres[:, None] + halves[:, None] * points).ravel()
        log_weight = np.log((halves[:, None] * weights).ravel()) - 0.5 * x * x - 0.5 * math.log(2.0 * math.pi)
        terms = np.abs(self.mu * x) + self.mu**2 + abs(self.log_odds)
        return Nodes(x, self.loss(x), log_weight, terms, 4.0 * np.abs(x) / np.repeat(halves, ORDER))


@lru_cache(maxsize=3)
def legendre(order: int = ORDER) -> tuple[Array, Array]:
    """Nodes and weights on [-1, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    return nodes, weights


def _log_between(low: Array, high: Array) -> Array:
    """log of at least the mass of N(0, 1) between the two."""
    right = low > 0.0
    more, less = log_ndtr(np.where(right, -low, high)), log_ndtr(np.where(right, -high, low))
    result: Array = more + np.log(-np.expm1(less - more)) + CELL_MASS
    return result


class Cells(NamedTuple):
    """The first one is all below ``high[0]``."""

    low: Array
    high: Array
    log_mass: Array
    log_height: Array
    """Of φ, its largest value."""
    loss_high: Array
    upper_share: Array
    """Where in its cell (0: low, 1: high) the mean of a lies, for a chord in a; rounded up."""
    lower_share: Array

    def log_sum(self, exponents: Array, log_share: Array) -> Array:
        """log of at least ∫ share e^{kl} φ at each exponent k, all positive or none, by chords in a: e^{kl} is convex.

        Of a fall (k <= 0) the share must be constant in each cell.
        """
        rises = bool(exponents[-1] > 0.0)
        up = self.upper_share if rises else self.lower_share
        edges = np.log(up) + self.log_mass + log_share
        edges[:-1] = np.logaddexp(edges[:-1], np.log1p(-up[1:]) + self.log_mass[1:] + log_share[1:])
        losses = self.loss_high if rises else self.loss_high * (1.0 - 2e-9)
        logs = edges + np.outer(exponents, losses)
        top = logs.max(axis=1)
        result: Array = top + np.log(np.exp(logs - top[:, None]).sum(axis=1)) + 1e-13 * (16.0 + np.abs(top))
        return result if rises else np.logaddexp(result, self.log_mass[0] + log_share[0])

    def log_chord(self, exponent: float) -> Array:
        """log of at least ∫ e^{kl} φ over each cell, ``exponent`` = k."""
        share = self.upper_share if exponent > 0.0 else self.lower_share
        tops = exponent * (self.loss_high if exponent > 0.0 else self.loss_high * (1.0 - 2e-9))
        chords = np.logaddexp(np.log1p(-share[1:]) + tops[:-1], np.log(share[1:]) + tops[1:])
        result: Array = self.log_mass + np.concatenate(([max(tops[0], 0.0)], chords)) + 1e-13
        return result


@lru_cache(maxsize=32)
def cells_of(kind: Kind, end: float, count: int) -> Cells:
    high = np.linspace(START, end, count + 1)
    low = np.concatenate(([-math.inf], high[:-1]))
    log_mass = _log_between(low, high)
    near = np.where(low > 0.0, low, np.where(high < 0.0, high, 0.0))
    log_height = -0.5 * near * near - 0.5 * math.log(2.0 * math.pi) + CELL_MASS
    rounded = 1e-13 + 8.0 * UNIT * (kind.mu * np.abs(high) + kind.mu**2 + abs(kind.log_odds))
    # Where a's mean lies, from a's share of the mass: a φ(x) is a density of N(μ, 1).
    growth = kind.mu * np.diff(high)
    log_mean = _log_between(low[1:] - kind.mu, high[1:] - kind.mu) - log_mass[1:]
    log_mean -= kind.mu * high[:-1] - 0.5 * kind.mu**2
    share = np.expm1(log_mean) / np.expm1(growth)
    slack = 1e-9 + (1e-11 + 16.0 * UNIT * (kind.mu * np.abs(high[1:]) + kind.mu**2)) / growth
    upper, lower = (np.clip(share + slack, 1e-300, 1.0), np.clip(share - slack, 1e-300, 1.0))
    upper, lower = (np.concatenate(([first], one)) for first, one in ((1.0, upper), (1e-300, lower)))
    return Cells(low, high, log_mass, log_height, kind.loss(high) * (1.0 + rounded), upper, lower)
