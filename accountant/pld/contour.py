r"""Compositions by Fourier inversion: no grid of losses, whatever the number of uses.

Of Gaussians, of Poisson samples of Gaussians, and of laws whose transform is a formula (``closed``).

With M(s) = E_P e^{sL} of the whole composition and any θ > 0 (1/(s(s+1)) is the two-sided Laplace transform of
(1 − e^{−l})₊, so M(s)/(s(s+1)) is that of δ),

    δ(ε) = (1/2π) ∫ M(s) e^{−sε} / (s(s+1)) dt,   s = θ + it;

θ is the saddle point of the target. Every error is charged:

- *the sum over t* of step τ = 2π/W is Σ_n e^{θnW} δ(ε + nW) exactly (Poisson summation). Its surplus is positive:
  from n < 0 at most 1/(e^{θW} − 1), from n > 0 a geometric series by Chernoff's bound at another tilt;
- *the sum over x* in M(s), relative to M(θ): ``gaussian_pair``; a formula has rounding only;
- *|t| beyond R*: on a line x + iy of the sign for which arg r_p >= arg r_q, |M| is at most the integral of the
  integrand's size, which falls in t; it is a trapezoid sum again (``Pair.lifted``);
- *rounding*, term by term, times the number of uses (``terms``).

Of few rare samples M hardly decays: nearly all uses cost nearly nothing, almost an atom; and rare, large losses allow
no tilt that brings out what is common. Then windows w (``gaussian_pair.Window``) cut the losses of each use. With A_j
what lies below the j-th and A_{j+1} = A_j + N_j,

    δ = δ[Π A_1] + Σ_j (δ[Π A_{j+1}] − δ[Π A_j]),

where δ[μ] = ∫ (1 − e^{ε−L})₊ dμ. A summand is what at least one N_j adds: a positive measure, so the sum over t is as
above, with the saddle point and Chernoff's bound of A_{j+1}. Its transform is Π A_j (Π (1 + N_j/A_j) − 1), whose
rounding is relative to it, and at most Π (|A_j| + |N_j|) − Π |A_j|, which falls with N_j. What the first part adds, and
all that lies beyond the last window where that is negligible, is charged (``common_part``).

The verifier has its own contour integral, with other quadratures; the lattice (``engine``) is a third way to the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from affidavit.accountant.pld.closed import Closed
from affidavit.accountant.pld.common_part import Common, Pairs, common_part, log_beyond
from affidavit.accountant.pld.curve import ever
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.gaussian_pair import ComplexArray, Pair, TooFineError
from affidavit.accountant.pld.grid import CurveParts
from affidavit.accountant.pld.inverse import inverse
from affidavit.accountant.pld.terms import Split, Use, Whole, summed
from affidavit.accountant.rounding import UNIT

__all__ = ["Contour", "contour"]

ACCURACY, RARE_ACCURACY = 1e-9, 1e-8
"""Of δ, relative: what each of the two sums over t may miss, without windows and with them."""
INFINITE, MOVED, MOST_USES = 1e-14, 1e-6, 1e9
"""Relative error of the mass at +inf; what rounding may move all uses of a formula by, relative to M(θ)."""
LEAST_LOG = -700.0
"""ln of the smallest δ that this is asked for: float64 has no digits far below."""
FEW, WORK, RARE_WORK, FEWER = 4e6, 4e7, 1e8, 1e6
"""Multiplications: a pair before windows are looked for, of all, and with windows; a use where formulas are among them.
The lattice has the others."""
SHARP = 3e-7
"""Relative width at which no windows are tried."""
RATIO, LARGEST_ODDS = 3.0, 1.0
"""ln of the odds between windows, and of those from which on one takes all."""
LN_TILTS = (math.log(1e-4), math.log(1e5))
CLOSE = 0.05
"""How well ln θ is searched."""
LOWER_TILTS = (1.0, 0.75, 0.55, 0.4, 0.3)
OTHER_TILTS = (1.03, 1.1, 1.25, 1.6, 2.5)
STEEPEST = 5e3
"""θε beyond which ε is settled long before δ is."""
FURTHEST, GUESSED = 1e12, 1e-4
"""Beyond it no ε is sought; how closely one is guessed."""


@dataclass(frozen=True, slots=True)
class Sum:
    """The terms of the sum over t; a phase a term and one sum give its part of δ at any ε."""

    tilt: float
    step: float
    terms: ComplexArray  # M(s)/(s(s+1)) / e^{log_scale}
    log_scale: float
    error: float  # of the terms' sum, and of what was left out of it
    beyond: tuple[float, float]  # the other tilt, and ln of Chernoff's constant there

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) of its part."""
        phase = self.step * epsilon * np.arange(len(self.terms))
        turned = (self.terms * np.exp(-1j * phase)).real
        log_factor = self.log_scale - self.tilt * epsilon
        if log_factor > 600.0:  # what lies above the images' bound, capped below, would be said to be δ
            return 0.0, 1.0
        factor = self.step / math.pi * math.exp(log_factor)
        value = factor * (float(turned.sum()) - 0.5 * float(turned[0]))
        size = np.abs(self.terms)
        exponents = abs(self.log_scale) + self.tilt * epsilon
        error = self.error + UNIT * float(size @ (16.0 + len(size) + 4.0 * exponents + 4.0 * phase))
        period = 2.0 * math.pi / self.step
        other, log_constant = self.beyond
        gap = (other - self.tilt) * period
        surplus = math.exp(min(log_constant - other * epsilon - gap, 700.0)) / -math.expm1(-gap)
        surplus += 1.0 / math.expm1(min(self.tilt * period, 708.0))
        return max(0.0, value - factor * error - surplus * 1.001), value + factor * error


@dataclass(frozen=True, slots=True)
class Contour:
    """One sum, or one a window, with what the uses add that all are common."""

    sums: tuple[Sum, ...]
    common: Common | None = None
    infinity: float = 0.0

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) δ at ``epsilon`` >= 0."""
        common = 0.0 if self.common is None else self.common.delta(epsilon)
        sides = [one.delta(epsilon) for one in self.sums]
        sides.append((self.infinity * (1.0 - INFINITE), self.infinity * (1.0 + INFINITE)))
        return math.fsum(low for low, _ in sides), min(1.0, math.fsum(high for _, high in sides) + common)

    def width(self, delta: float | None, epsilon: float) -> float:
        """Relative, of ε at ``delta``, or of δ at ``epsilon``."""
        lower, upper = self.delta(epsilon) if delta is None else self.epsilon(delta)
        return (upper - lower) / max(upper, 1e-300) if math.isfinite(upper) else math.inf

    def epsilon(self, delta: float) -> tuple[float, float]:
        """(lower, upper) ε >= 0 at ``delta``."""
        return inverse(self.delta, delta, furthest=FURTHEST)


class Inverted(NamedTuple):
    """What a composition is of: ``uses`` with counts, Σ μ² of Gaussians, and the mass at +inf."""

    uses: tuple[tuple[Use, int], ...]
    precision: float
    infinity: float

    @property
    def pairs(self) -> Pairs:
        """The samples of Gaussians."""
        return tuple((use, count) for use, count in self.uses if isinstance(use, Pair))


def inverted(parts: CurveParts) -> Inverted | None:
    """Samples of Gaussians, and laws whose transform is a formula; None with anything else, or of Gaussians alone."""
    uses: list[tuple[Use, int]] = []
    precisions: list[float] = []
    for curve, count in parts:
        if isinstance(curve, Gaussian):
            precisions.append(count * curve.mu**2)
            continue
        use: Use | None = Pair.of(curve) or Closed.of(curve)
        if use is None or (isinstance(use, Closed) and (count > MOST_USES or use.infinity >= 1.0)):
            return None
        uses.append((use, count))
    infinity = ever((use.infinity, count) for use, count in uses if isinstance(use, Closed))
    return Inverted(tuple(uses), math.fsum(precisions), infinity) if uses else None


def contour(parts: CurveParts, *, delta: float | None, epsilon: float | None) -> Contour | None:
    """The sums for ``parts`` near ``delta`` or ``epsilon``; None where they do not apply or would take too long."""
    found = inverted(parts)
    if found is None or (delta is not None and not delta > found.infinity * (1.0 + INFINITE)):
        return None
    uses, precision, infinity = found
    left = None if delta is None else delta - infinity
    try:
        whole = _aimed(uses, precision, left, epsilon)
        target = max(whole.epsilon if epsilon is None else epsilon, 0.0)
        log_delta = min(whole.log_delta(target), 0.0 if left is None else math.log(left))
        formulas = len(found.pairs) < len(uses)
        plain = _plain(whole, target, log_delta, (FEWER if formulas else FEW) * len(uses))
        if formulas:
            return None if plain is None or _moved(whole) > MOVED else replace(plain, infinity=infinity)
        if plain is not None and plain.width(delta, target) <= SHARP:
            return plain
        near = target
        if delta is not None:
            near = _largest_alone(parts, delta) if plain is None else sum(plain.epsilon(delta)) / 2.0
        cut = _cut(found.pairs, precision, near, log_delta if delta is None else math.log(delta))
        plain = plain or (_plain(whole, target, log_delta, WORK) if cut is None else None)
        return min((one for one in (plain, cut) if one), key=lambda one: one.width(delta, near), default=None)
    except TooFineError:
        return None


def _moved(whole: Whole) -> float:
    """What rounding may move all uses by, relative to M(θ): Chernoff's constants allow a thousandth."""
    each = (count * use.tilted(whole.tilt, 0.0).rounding(one.log_peak)[0] for use, count, one in whole.parts)
    return math.fsum(each)


def _largest_alone(parts: CurveParts, delta: float) -> float:
    """A guess of ε where few uses cost anything: as if each δ added up; rather too low."""

    def sides(epsilon: float) -> tuple[float, float]:
        each = [(curve.delta(epsilon), count) for curve, count in parts]
        return math.fsum(count * low for (low, _), count in each), math.fsum(count * high for (_, high), count in each)

    return min(inverse(sides, delta, furthest=FURTHEST, close=GUESSED)[1], FURTHEST)


def _plain(whole: Whole, target: float, log_delta: float, limit: float) -> Contour | None:
    """One sum whose errors are small at ``target``, where δ is about e^``log_delta``; None beyond ``limit``."""
    if log_delta < LEAST_LOG:
        return None
    found = _around(whole, None, target, max(log_delta + math.log(ACCURACY), LEAST_LOG), limit)
    return None if found is None else Contour((found,))


def _cut(pairs: Pairs, precision: float, epsilon: float, log_delta: float) -> Contour | None:
    """A sum a window: each at a tilt of its own, which the larger and rarer losses beyond it do not limit."""
    log_goal = log_delta + math.log(RARE_ACCURACY)
    if log_goal < LEAST_LOG or not all(pair.divisible for pair, _ in pairs):
        return None
    found = common_part(pairs, precision, epsilon, log_goal)
    if found is None:
        return None
    low, common = found
    sums: list[Sum] = []
    while True:
        high: float | None = low + RATIO
        beyond = log_beyond(pairs, low + RATIO)
        if beyond > log_goal and low + RATIO > LARGEST_ODDS:
            high = None
        split = tuple((one.within(one.between(None, low)), one.within(one.between(low, high))) for one, _ in pairs)
        parts = pairs if high is None else tuple((one.within(one.between(None, high)), count) for one, count in pairs)
        one = _around(_aimed(parts, precision, None, epsilon), split, epsilon, log_goal, RARE_WORK)
        if one is None:
            return None
        sums.append(one)
        if high is None:
            return Contour(tuple(sums), common)
        if beyond <= log_goal:
            return Contour(tuple(sums), common._replace(outside=common.outside + math.exp(beyond)))
        low = high


def _around(whole: Whole, split: Split | None, target: float, log_goal: float, limit: float) -> Sum | None:
    """The sum whose errors are below e^``log_goal`` at ``target``, without the ``split``'s first parts."""
    pairs, precision = tuple((pair, count) for pair, count, _ in whole.parts), whole.precision
    # Chernoff's bound at another tilt puts the period where the images above are negligible.
    others = [Whole.at(factor * whole.tilt, pairs, precision) for factor in OTHER_TILTS]
    if split:
        # A large and rare loss is what the images above are of; at a lower tilt they are further below.
        lower = [Whole.at(factor * whole.tilt, pairs, precision) for factor in LOWER_TILTS]
        whole = min(lower, key=lambda one: _period(one, others, target, log_goal)[0])
    period, other = _period(whole, others, target, log_goal)
    step = 2.0 * math.pi / period
    # What is left of ∫ |terms| dt may be this, in units of e^{log M(θ)}.
    goal = math.exp(min(log_goal + math.log(math.pi) + whole.tilt * target - whole.log_peak, 700.0))
    if split and sum(one.guessed_work(step) for _, one in split) > limit:
        return None
    terms = summed(whole, step, goal, split, limit)
    return None if terms is None else Sum(whole.tilt, step, *terms, (other.tilt, other.log_chernoff))


def _period(whole: Whole, others: list[Whole], target: float, log_goal: float) -> tuple[float, Whole]:
    """The least one at which all images are negligible, and where Chernoff's bound says so of those above."""
    periods = [(one.log_chernoff - one.tilt * target - log_goal) / (one.tilt - whole.tilt) for one in others]
    period, other = min(zip(periods, others, strict=True), key=lambda found: found[0])
    return max(period, (1.0 - log_goal) / whole.tilt), other


def _aimed(pairs: tuple[tuple[Use, int], ...], precision: float, delta: float | None, epsilon: float | None) -> Whole:
    """At the tilt whose saddle point is ``epsilon``, or the ε >= 0 at which δ is guessed to be ``delta``."""

    def beyond(whole: Whole) -> bool:
        if whole.tilt * whole.epsilon > STEEPEST:
            return True
        if epsilon is not None:
            return whole.epsilon > epsilon
        return whole.epsilon > 0.0 and whole.log_delta(whole.epsilon) < math.log(delta or 0.0)

    low, high = LN_TILTS
    while True:
        middle = Whole.at(math.exp(0.5 * (low + high)), pairs, precision)
        if high - low < CLOSE:
            return middle
        low, high = (low, math.log(middle.tilt)) if beyond(middle) else (math.log(middle.tilt), high)
