"""Exponential uses together with fixed mechanisms, each side in its own way.

Order. Moving a fixed mechanism to an earlier time can only raise ε (the adversary learns its outcome
sooner: an expectation of suprema is at least the supremum of the expectation), to a later time only
lower it. What runs before the first exponential use is an outermost expectation, what runs after
the last is the terminal call price; what runs between is moved to the front on the upper side, and
ignored by the strategy on the lower.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.recompute.atoms import POINT_MASS, AtomicLaw
from affidavit.accountant.recompute.bracket import Bracket, Profile, epsilon_bracket
from affidavit.accountant.recompute.envelope import CallPrice, envelope, nodes
from affidavit.accountant.recompute.fixed import Aim, FixedPart
from affidavit.accountant.recompute.mixed import MixedProfile
from affidavit.accountant.recompute.strategy import Strategy, find_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Window", "lower_profile", "upper_profile"]

_COST_LIMIT = 3e10
_BINS = 1600
_MOST_BINS = 20_000
_REACH = 12.0
_UNIT = 2.0**-53


@dataclass(frozen=True, slots=True)
class Window:
    """A grid for log m: ``spacing``, from ``left`` < 0 to ``right`` > 0."""

    spacing: float
    left: float
    right: float

    @classmethod
    def of(cls, ranges: Sequence[tuple[float, int]], after: FixedPart, aim: Aim, cells: int) -> Window:
        """Wide enough that truncation costs less than the grid; ``cells`` per widest range."""
        reach = math.fsum(eta * n for eta, n in ranges)
        widest = max(eta for eta, _ in ranges)
        rho = math.fsum(eta * eta * n / 8.0 for eta, n in ranges)
        deviation = math.sqrt(2.0 * rho)
        tail = math.sqrt(2.0 * math.log(1.0 / min(aim.delta, 0.1)))
        left = max(aim.epsilon or 0.0, rho + deviation * tail) + 3.0 * deviation + 2.0 * widest
        right = (tail + 3.0) * deviation + 2.0 * widest
        spacing = _common_spacing([eta for eta, _ in ranges], widest, cells)
        further = _reach(after, aim)
        window = cls(spacing, -min(left, reach + widest) - further, min(right, reach + widest) + further)
        uses = sum(n for _, n in ranges)
        if uses * (window.right - window.left) / window.spacing * cells * 16.0 > _COST_LIMIT:
            raise NotSupported(f"{uses} exponential uses are out of the verifier's reach", hint="Remove `--recompute`.")
        return window

    @property
    def x(self) -> Array:
        """The nodes."""
        return nodes(self.spacing, self.left, self.right)


def _reach(after: FixedPart, aim: Aim) -> float:
    """A loss that the mechanisms ``after`` exceed with negligible probability."""
    if after.precision == 0 and after.atoms is POINT_MASS:
        return 0.0
    rest = min(after.atoms.infinite + 1e-6 * aim.delta, 0.5)
    return epsilon_bracket(after.profile(Aim(rest)), rest, start=1.0).upper


def _common_spacing(ranges: Sequence[float], widest: float, cells: int) -> float:
    """About ``widest``/``cells``, so that every range is nearly a multiple (the strategy rounds down)."""

    def loss(count: int) -> float:
        spacing = widest / count
        return max((eta / spacing + 1e-9) % 1.0 * spacing / eta for eta in ranges)

    best = min(range(cells, cells + cells // 2), key=loss) if len(set(ranges)) > 1 else cells
    return widest / best


def _terminal(part: FixedPart, x: Array, *, upper: bool) -> Array | None:
    """V_0/m at the nodes if something runs after the exponential uses."""
    if part.precision == 0 and part.atoms is POINT_MASS:
        return None
    return MixedProfile(part.atoms, float(part.precision)).deltas(-x)[1 if upper else 0]


def _price(ranges: Sequence[tuple[float, int]], window: Window, after: FixedPart) -> CallPrice:
    return envelope(ranges, spacing=window.spacing, x=window.x, terminal=_terminal(after, window.x, upper=True))


def upper_profile(
    ranges: Sequence[tuple[float, int]], front: FixedPart, after: FixedPart, window: Window, aim: Aim
) -> Profile:
    """δ_upper: ``front`` outermost, then the exponential uses, then ``after`` (without smooth laws)."""
    law = _price(ranges, window, after).law()
    if front.precision == 0 and not front.smooth and front.atoms is POINT_MASS:
        return law
    return front.joined(law, upper=True).profile(aim)


def lower_profile(
    ranges: Sequence[tuple[float, int]],
    before: FixedPart,
    after: FixedPart,
    window: Window,
    aim: Aim,
    *,
    adaptive: bool,
) -> Profile:
    """δ_lower of an explicit adversary.

    ``adaptive``: it reacts to the outcomes of ``before`` and foresees ``after`` (no smooth laws there);
    else it plays one strategy and everything else is independent of it.
    """
    x = window.x
    terminal = _terminal(after, x, upper=False) if adaptive else None
    strategy = find_strategy(ranges, spacing=window.spacing, x=x, terminal=terminal)
    alone = before.precision == 0 and before.atoms is POINT_MASS and not before.smooth
    if not adaptive:
        share = _own_share(strategy, aim) if alone else 0.5 * _own_share(strategy, aim)
        law = strategy.played(share)
        return before.joined(law, upper=False).profile(aim)
    if alone and terminal is None:
        return strategy.played(aim.epsilon if aim.epsilon is not None else _own_share(strategy, aim))
    above = _price(ranges, window, after).ratio
    return _Reacting(x, strategy.ratio, above, _bins(before))


def _own_share(strategy: Strategy, aim: Aim) -> float:
    """The largest node ε at which the strategy's δ still exceeds the aim's."""
    reached = strategy.x[strategy.ratio > aim.delta]
    return max(0.0, -float(reached[0])) if len(reached) else 0.0


def _bins(part: FixedPart) -> AtomicLaw:
    """The outcomes of ``part`` told apart only by interval: a post-processing, so a lower side."""
    mu = math.sqrt(float(part.precision))
    if mu == 0.0:
        return part.atoms.coarsened(_MOST_BINS, upper=False)
    from scipy.special import ndtr

    edges = np.linspace(-_REACH, _REACH + mu, _BINS)

    # Differences on the side where the tail is small keep their relative accuracy.
    def mass(shift: float) -> Array:
        at = edges - shift
        low, high = ndtr(at), ndtr(-at)
        result: Array = np.where(at[1:] < 0.0, low[1:] - low[:-1], high[:-1] - high[1:])
        return result

    p, q = mass(mu), mass(0.0)
    kept = (p > 1e-280) & (q > 1e-280)
    if not kept.any():  # so far apart that no interval is likely under both: nothing is told
        return POINT_MASS
    law = AtomicLaw(np.log(p[kept] / q[kept]) - 1e-11, p[kept], 0.0, 1e-11)
    return part.atoms.coarsened(400, upper=False).compose(law, upper=False).coarsened(_MOST_BINS, upper=False)


@dataclass(frozen=True, slots=True)
class _Reacting:
    """E over the bins of V_low/m, where V_low between nodes follows from convexity.

    From nodes c−1, c: V(m) >= V(m_c) + (V(m_c) − V(m_{c−1})) (m − m_c)/(m_c − m_{c−1}) for m >= m_c, with the lower
    value at c and the upper one at c−1; likewise from the right.
    """

    x: Array
    low: Array
    high: Array
    bins: AtomicLaw

    def delta(self, epsilon: float) -> Bracket:
        """A lower bound of δ, and 1."""
        value = float(self.bins.masses @ self._ratio(self.bins.losses - epsilon)) + self.bins.infinite
        return Bracket(max(0.0, value * (1.0 - self.bins.relative_error - 1e-11)), 1.0)

    def _ratio(self, at: Array) -> Array:
        step = float(self.x[1] - self.x[0])
        g = math.exp(step)
        c = np.clip(np.floor((at - self.x[0]) / step).astype(int), 1, len(self.x) - 3)
        u = np.exp(np.clip(at - self.x[c], -step, 2.0 * step))  # m / m_c, in [1, g] inside the grid
        low, high = self.low, self.high
        from_left = low[c] + (low[c] - high[c - 1] / g) * (u - 1.0) / (1.0 - 1.0 / g)
        from_right = g * low[c + 1] - (g * g * high[c + 2] - g * low[c + 1]) * (g - u) / (g * g - g)
        inside = np.maximum(np.maximum(from_left, from_right), low[c]) / u
        inside = np.where((u >= 1.0) & (u <= g), inside, 0.0)
        free = np.maximum(0.0, -np.expm1(-np.maximum(at, 0.0)))
        return np.maximum(np.maximum(inside, free), 0.0)
