r"""Where samples are rare: what big losses cost in closed form, the others by one contour integral.

Of rare samples nearly every use costs nearly nothing. The transform M of ``contour`` then hardly decays, as that
near-atom is as narrow as the rate; and rare, large losses allow no tilt that brings out those that matter. Here every
use is cut into common, middle and big losses (``loss_windows``; M = M_c + M_m + M_b), as a sum of measures. With l >= 0
a use's loss above its least one, S = Σ l and c = ε − Σ log(1−γ) > 0, δ(ε) = E_P (1 − e^{c−S})₊ is the sum of

1. *some use is big.* b is far above the point where one loss alone makes S >= c, so 1 − e^{c−S} is positive there but
   for what a big part has below that point: P(E) − e^ε Q(E), E the event that some use is big, and at most
   min(e^ε, e^c (e^c − 1)) Σ (Q-mass of a big part below that point) more, because (1 − y)₊ <= 1 − y + (y − 1)₊ with
   y = e^{c−S} <= e^c, and P <= e^c Q there. Closed form, in balls.
2. *none is big, not all are common*: Π(M_c + M_m) − ΠM_c, a positive measure. The integral and its sum are those of
   ``contour``, the errors too: images, tail, rounding. The tail is at most Π(A + B(t)) − ΠA over t², A a bound of
   M_c(θ) and B(t) of |M_m| beyond t (its coefficients in both are >= 0). In the same way a transform's error e moves a
   term by at most e times the gradient of Π(|a| + |n|) − Π|a|, taken at sizes that include the errors.
3. *all are common*: Chernoff's bound, which keeps the windows apart from c.
4. *one is beyond where the middle was cut*: at most the mass there.

The other direction (a record is added) costs nothing from its largest loss m = −Σ log(1−γ) on, and mostly far less than
this one below (``AddedBound``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from flint import arb

from affidavit.accountant.verifier.balls import Ball, ball, down, precision, up
from affidavit.accountant.verifier.bracket import Bracket, epsilon_bracket
from affidavit.accountant.verifier.loss_windows import APART, CUT, Kind, Windowed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    ComplexArray = NDArray[np.complex128]

__all__ = ["AddedBound", "RareProfile", "rare_profile"]

UNIT = 2.0**-53
FIRST_LOOK, ACCURACY = 1e-3, 1e-10
"""Of δ, relative: what each cut may miss."""
RAMP, HEIGHT = 0.08, 40.0
"""A window's width in log a: this, or less where tilts would lift the end of the middle by more than e to this."""
NEAR = (0.0, 1e-6, 1e-4, 1e-3, 0.01, 0.05)
NEAREST, FURTHEST = -6.0, 45.0
"""Where big windows stand, in σ: below, hardly anything is common; beyond there is no noise."""
LEAST_LOG = -690.0
MOST_TERMS, MOST_WORK = 60_000, 2e9
PASSES, SHARP, ROUGH = 4, 5e-7, 1e-3
"""Looks at most; relative widths at which they end, and beyond which a lattice may be sharper."""
SPREADS: Array = np.geomspace(0.05, 3e3, 100)
"""Tilts, in units of 1/c."""
LOWEST, HALVINGS = 30.0, 10
"""How far (in ln a) below the big window the common one may stand, and how well that is searched."""


@dataclass(frozen=True, slots=True)
class AddedBound:
    """An upper side where the record is added: L = m − S under Q, and (1 − e^{−z})₊ <= θ^θ/(1+θ)^{1+θ} e^{θz}."""

    largest: float
    tilts: Array
    log_moments: Array
    """log of c(θ) E_Q e^{−θS}."""

    @staticmethod
    def of(kinds: Sequence[Kind]) -> AddedBound:
        """Of uses to which the record is added."""
        largest = _shift(kinds, 0.0)
        tilts = SPREADS / largest
        logs = _log_c(tilts) + sum(kind.uses * kind.log_falling(tilts) for kind in kinds) + 1e-12
        return AddedBound(largest * (1.0 + 1e-14), tilts, logs)

    def delta(self, epsilon: float) -> Bracket:
        """δ is at most 1 − e^{ε − m}, and Chernoff's bound."""
        gap = self.largest - epsilon
        if gap <= 0.0:
            return Bracket(0.0, 0.0)
        log_chernoff = float((self.log_moments + self.tilts * gap).min())
        return Bracket(0.0, min(-math.expm1(-gap), math.exp(min(log_chernoff, 0.0))) * (1.0 + 1e-9))

    def settled_by(self, other: RareProfile, *, delta: float | None) -> bool:
        """Whether the other direction costs more, at its aim."""
        return self.delta(other.aim).upper <= (delta or other.delta(other.aim).lower)


@dataclass(frozen=True, slots=True)
class _Middle:
    """The second summand: terms of the sum over t, divided by e^{``log_scale``}."""

    tilt: float
    step: float
    terms: ComplexArray
    log_scale: float
    error: float  # of the terms' sum and of what follows them
    second: tuple[float, float]  # another tilt, and log of Chernoff's constant there
    log_mass: float

    def delta(self, shift: float, size: float) -> tuple[float, float]:
        """(lower, upper) at c = ``shift``, a sum of numbers up to ``size``."""
        log_factor = self.log_scale - self.tilt * shift
        if log_factor > 600.0:
            return 0.0, 1.0
        phase = self.step * shift * np.arange(len(self.terms))
        real = (self.terms * np.exp(-1j * phase)).real
        real[0] *= 0.5
        factor = self.step / math.pi * math.exp(log_factor)
        value = factor * math.fsum(real.tolist())
        rounded = 16.0 + 8.0 * phase * (1.0 + size / shift) + 8.0 * (abs(self.log_scale) + self.tilt * size)
        error = factor * (self.error + UNIT * float(np.abs(self.terms) @ rounded))
        period = 2.0 * math.pi / self.step
        other, constant = self.second
        gap = (other - self.tilt) * period
        images = math.exp(min(constant - other * shift - gap, 700.0)) / -math.expm1(-gap)
        images += math.exp(self.log_mass) / math.expm1(min(self.tilt * period, 700.0))
        return max(0.0, value - error - images * (1.0 + 1e-9)), max(0.0, value + error)


@dataclass(frozen=True, slots=True)
class RareProfile:
    """The four summands; sharp near one ε. Beyond each of ``known`` (ε, δ_upper), δ is at most what it is there."""

    parts: tuple[Windowed, ...]
    middle: _Middle
    common: tuple[float, float]  # tilt, and log of Chernoff's constant
    outside: float
    event: tuple[Ball, Ball]
    """P and Q of: some use is big."""
    known: tuple[tuple[float, float], ...] = ()

    @property
    def aim(self) -> float:
        """Where it is sharp."""
        return self.known[0][0]

    def around(self, epsilon: float) -> RareProfile:
        """With what is known a little beyond ``epsilon``."""
        room = _shift([part.kind for part in self.parts], epsilon)
        points = [epsilon + share * room for share in NEAR]
        return replace(self, known=tuple((point, self.delta(point).upper) for point in points))

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon`` >= 0."""
        lower, upper = self._sides(epsilon)
        return Bracket(lower, min([upper, *(least for point, least in self.known if point <= epsilon)]))

    def _sides(self, epsilon: float) -> tuple[float, float]:
        shift = _shift([part.kind for part in self.parts], epsilon)
        with precision():
            linear = self.event[0] - ball(epsilon).exp() * self.event[1]
            low, high = down(linear), up(linear)
        log_missing = 0.0 if shift > 600.0 else -math.inf
        log_odds = math.log(math.expm1(min(shift, 600.0)))
        for part in self.parts:
            alone = part.kind.place(log_odds)
            below = part.log_below(alone + 1e-12 * (1.0 + abs(alone))) + math.log(part.kind.uses * len(self.parts))
            log_missing = max(log_missing, below + min(epsilon, shift + log_odds))
        least, most = self.middle.delta(shift, 2.0 * shift + epsilon)
        lower = (max(low, 0.0) + least) * (1.0 - 1e-14)
        theta, constant = self.common
        log_common = constant - theta * shift
        if log_missing > 0.0 or log_common > 0.0:
            return lower, 1.0
        rest = (math.exp(log_common) + math.exp(log_missing)) * (1.0 + 1e-9) + self.outside
        return lower, min(1.0, max(0.0, high + most + rest) * (1.0 + 1e-14))


def rare_profile(kinds: Sequence[Kind], *, delta: float | None, epsilon: float | None) -> RareProfile | None:
    """The profile near ``epsilon``, or near the ε of ``delta``; None where the windows do not stand apart enough."""
    aim = epsilon if epsilon is not None else _alone(kinds, delta or 0.0)
    log_delta = math.log(delta) if delta else _log_alone(kinds, aim)
    best: tuple[float, RareProfile] | None = None
    for turn in range(PASSES):
        accuracy = FIRST_LOOK if turn == 0 else ACCURACY
        found = _near(kinds, aim, log_delta, accuracy) if log_delta > LEAST_LOG else None
        if found is None:
            break
        if epsilon is not None or delta is None:
            sides = found.delta(aim)
            log_delta = math.log(max(sides.upper, 1e-300))
        else:
            sides = epsilon_bracket(found, delta, start=aim)
        width = (sides.upper - sides.lower) / sides.upper if 0.0 < sides.upper < math.inf else math.inf
        if math.isfinite(width) and (best is None or width < 0.5 * best[0]):
            best = (width, found.around(sides.upper if epsilon is None else aim))
        elif best is not None:
            break
        if width <= SHARP:
            break
        if turn == 0 and epsilon is None and sides.lower <= aim and math.isfinite(width):
            aim = 0.5 * (sides.lower + sides.upper)
        elif epsilon is None:  # where it was aimed too low, the lower side is sharp all the same
            aim = sides.lower if sides.lower > aim else min(sides.upper, 1.3 * aim)
    return None if best is None or best[0] > ROUGH else best[1]


def _shift(kinds: Sequence[Kind], epsilon: float) -> float:
    """c."""
    return math.fsum([epsilon, *(-kind.uses * kind.log_kept for kind in kinds)])


def _log_alone(kinds: Sequence[Kind], epsilon: float) -> float:
    """About log δ where one loss decides: rather too low."""
    shift = _shift(kinds, epsilon)
    if shift > 600.0:
        return -math.inf
    total = -math.inf
    for kind in kinds:
        log_p, log_q = kind.log_tails(kind.place(math.log(math.expm1(shift))))
        gap = min(epsilon + log_q - log_p, -1e-12)
        total = float(np.logaddexp(total, math.log(kind.uses) + log_p + math.log(-math.expm1(gap))))
    return total


def _alone(kinds: Sequence[Kind], delta: float) -> float:
    """The ε at which that is ``delta``."""
    low, high = math.log(1e-9), math.log(500.0)
    while high - low > 1e-3:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _log_alone(kinds, math.exp(middle)) > math.log(delta) else (low, middle)
    return math.exp(low)


def _log_c(theta: Array) -> Array:
    """log of θ^θ/(1+θ)^{1+θ}, the largest (1 − e^{−l})₊ e^{−θl}."""
    result: Array = -theta * np.log1p(1.0 / theta) - np.log1p(theta)
    return result


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # what is beyond float64 ends in None
def _near(kinds: Sequence[Kind], epsilon: float, log_delta: float, accuracy: float) -> RareProfile | None:
    shift, log_goal = _shift(kinds, epsilon), log_delta + math.log(accuracy)
    if not 0.0 < shift < 600.0:
        return None
    tilts = SPREADS / shift
    higher = math.expm1(shift * (1.0 + HEIGHT / (5.0 - log_delta))) if shift < 100.0 else math.inf
    ramp = min(RAMP, math.log(higher / math.expm1(shift)) / (APART + CUT))
    found = _apart(kinds, shift, tilts, log_goal, ramp)
    if found is None:
        return None
    parts, common = found
    counts = np.array([float(kind.uses) for kind in kinds])
    wholes = np.array([part.whole_bound(tilts) for part in parts])
    log_whole = counts @ wholes + 1e-12
    middle = _middle(parts, shift, tilts, log_whole, log_goal)
    if middle is None:
        return None
    with precision():
        p_none, q_none = arb(0), arb(0)
        for part in parts:
            p, q = part.big_masses()
            p_none += part.kind.uses * (-p).log1p()
            q_none += part.kind.uses * (-q).log1p()
        event = -p_none.expm1(), -q_none.expm1()
    outside = math.fsum(math.exp(part.log_beyond()) for part in parts)
    return RareProfile(parts, middle, common, outside, event).around(epsilon)


def _apart(
    kinds: Sequence[Kind], shift: float, tilts: Array, log_goal: float, ramp: float
) -> tuple[tuple[Windowed, ...], tuple[float, float]] | None:
    """The common windows as far out as keeps what they hold from mattering; its tilt and Chernoff constant."""
    bigs = [min(kind.place(math.log(math.expm1(shift))), FURTHEST) for kind in kinds]
    if min(bigs) < NEAREST:
        return None

    def at(depth: float) -> tuple[tuple[Windowed, ...], tuple[float, float], float]:
        ends = zip(kinds, bigs, strict=True)
        parts = tuple(Windowed.of(kind, alone=alone, depth=depth, ramp=ramp) for kind, alone in ends)
        logs = _log_c(tilts) + sum(part.kind.uses * part.common_bound(tilts) for part in parts)
        best = int(np.argmin(logs - tilts * shift))
        constant = float(logs[best]) + 1e-12
        return parts, (float(tilts[best]), constant), constant - float(tilts[best]) * shift

    low, high = 0.1, LOWEST + shift
    found = at(high)
    if found[2] > log_goal:
        return None
    for _ in range(HALVINGS):
        depth = math.sqrt(low * high)
        here = at(depth)
        if here[2] <= log_goal:
            high, found = depth, here
        else:
            low = depth
    return found[0], found[1]


def _middle(
    parts: tuple[Windowed, ...], shift: float, tilts: Array, log_whole: Array, log_goal: float
) -> _Middle | None:
    chernoff = log_whole + _log_c(tilts) - tilts * shift
    if not np.isfinite(chernoff[0]):
        return None
    best = int(np.nanargmin(chernoff))
    tilt = float(tilts[best])
    above = [i for i in range(best + 1, len(tilts)) if math.isfinite(chernoff[i])]
    if not above:
        return None
    counts = [part.kind.uses for part in parts]
    periods = [(float(chernoff[i]) - log_goal) / (float(tilts[i]) - tilt) for i in above]
    second = above[int(np.argmin(periods))]
    log_mass = min(0.0, max(float(log_whole[0]), -700.0))
    period = max(min(periods), (log_mass - log_goal) / tilt, 1e-3 * shift)
    step = 2.0 * math.pi / period
    # Where the middle has died away.
    commons = [float(part.common_bound(np.array([tilt]))[0]) for part in parts]
    if min(commons) < LEAST_LOG:
        return None
    lifted = [part.lifted(tilt) for part in parts]

    def beyond(t: float) -> float:
        """log of a bound of the measure's transform beyond t."""
        gain = math.fsum(
            n * math.log1p(path.bound(t) * math.exp(-common))
            for n, path, common in zip(counts, lifted, commons, strict=True)
        )
        base = math.fsum(n * common for n, common in zip(counts, commons, strict=True))
        return base + (math.log(math.expm1(gain)) if 0.0 < gain < 30.0 else gain if gain > 0.0 else -1e300)

    log_room = log_goal + math.log(math.pi) + tilt * shift
    end = max(tilt, step)
    while beyond(end) - math.log(end) > log_room:
        end *= 1.1
        if end > MOST_TERMS * step:
            return None
    count = math.ceil(end / step) + 2
    log_rest = beyond(end) - math.log(end)
    other = float(tilts[second]), float(chernoff[second] + tilts[second] * shift)
    return _summed(parts, tilt, step, count, log_rest, log_mass, other)


def _summed(
    parts: tuple[Windowed, ...],
    tilt: float,
    step: float,
    count: int,
    log_rest: float,
    log_mass: float,
    second: tuple[float, float],
) -> _Middle | None:
    if sum(len(part.panels(step * count)[0]) for part in parts) * 64.0 * count > MOST_WORK:
        return None
    t = step * np.arange(count)
    log_common = np.zeros(count, dtype=np.complex128)
    log_gain = np.zeros(count, dtype=np.complex128)
    log_small, log_large, rounded = np.zeros(count), np.zeros(count), np.zeros(count)
    of_parts: list[tuple[int, Array, Array, Array, Array]] = []
    for part in parts:
        n, nodes = part.kind.uses, part.deviations(tilt, step, count)
        off = nodes.common + nodes.common_mass
        common, middle = 1.0 + off, nodes.middle
        ratio = middle / common
        first, gain = _log1p(off), _log1p(ratio)
        log_common += n * first
        log_gain += n * gain
        size, other = np.abs(common), np.abs(middle)
        e_common = nodes.common_error + nodes.common_slope * t + 32.0 * UNIT * np.abs(off) / np.minimum(size, 1.0)
        e_middle = nodes.middle_error + nodes.middle_slope * t + 64.0 * UNIT * other * (1.0 + 1.0 / size)
        size, other = size + e_common, other + e_middle
        log_small += n * np.log(size)
        log_large += n * np.log(size + other)
        rounded += n * (np.abs(first) + np.abs(gain))
        of_parts.append((n, size, other, e_common, e_middle))
    scale = float(log_large[0])
    s = tilt + 1j * t
    pole = s * (s + 1.0)
    base = np.exp(log_common - scale)
    # Where Π(1 + n/a) is large, its difference from 1 is taken of the products.
    big = log_gain.real > 1.0
    measure = np.where(big, np.exp(log_common + log_gain - scale) - base, base * np.expm1(np.where(big, 0.0, log_gain)))
    whole, small = np.exp(log_large - scale), np.exp(log_small - scale)
    error = 16.0 * UNIT * ((2.0 + rounded) * (np.abs(measure) + np.where(big, whole, 0.0)))
    error += 16.0 * UNIT * np.abs(log_gain) * np.abs(base) * np.exp(np.minimum(log_gain.real, 700.0))
    growth = log_large - log_small
    for n, size, other, e_common, e_middle in of_parts:
        error += n * e_middle * whole / (size + other)
        inner = np.maximum(growth - np.log1p(other / size), 0.0)
        more = np.where(inner < 1.0, small * np.expm1(np.minimum(inner, 1.0)), whole * size / (size + other))
        error += n * e_common * (more / size + 64.0 * UNIT * whole / size)
    missed = float((error / np.abs(pole)).sum()) * (1.0 + 1e-6)
    if not (math.isfinite(missed) and np.isfinite(measure).all() and log_rest - scale < 600.0):
        return None  # some e^{θl} is beyond float64
    terms: ComplexArray = np.asarray(measure / pole, dtype=np.complex128)
    return _Middle(tilt, step, terms, scale, missed + math.exp(log_rest - scale) / step, second, log_mass)


def _log1p(z: ComplexArray) -> ComplexArray:
    """log(1 + z), its error relative to z where |1 + z| >= 1/2."""
    gain = z.real * (2.0 + z.real) + z.imag * z.imag
    size = np.abs(1.0 + z)
    near = (size > 0.7) & (size < 1.5)
    real = np.where(near, 0.5 * np.log1p(np.where(near, gain, 0.0)), np.log(np.maximum(size, 1e-300)))
    result: ComplexArray = real + 1j * np.arctan2(z.imag, 1.0 + z.real)
    return result
