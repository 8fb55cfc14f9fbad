"""Profiles: certified answers to both questions, and how several of them combine.

A ``Profile`` gives δ at ε and ε at δ as a pair (lower, upper). It is built for a ``Target``, because
lattices are cut where nothing matters for it any more (every cut is charged).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from affidavit.accountant.verifier import bracket
from affidavit.accountant.verifier.bracket import Bracket

__all__ = [
    "LOUD",
    "LOUD_WIDTH",
    "NARROW",
    "NARROW_DELTA",
    "SMALLEST",
    "TAIL",
    "AtMost",
    "Best",
    "Blatant",
    "OneSide",
    "Profile",
    "Target",
    "epsilon_of",
    "worst",
]

SMALLEST = 1e-280
TAIL = 1e-5
"""What may be cut off, relative to the δ asked for."""
NARROW, NARROW_DELTA = 8e-4, 5e-3
"""Relative bracket widths aimed at, of ε and of δ."""
LOUD, LOUD_WIDTH = 500.0, 6e-3
"""An ε above it is of no use to anyone, so this relative width of it is narrow enough."""


@dataclass(frozen=True, slots=True)
class Target:
    """What will be asked: ε at ``delta``, or δ at values of ε up to ``epsilon``.

    ``expected`` is the δ that lattices must resolve, where it is not ``delta``: an earlier, too coarse δ
    at that ε, or what approximate mechanisms leave of ``delta``. ``rough``: a curve, for which a few
    per cent of δ do. ``keep``: the side that is asked for, "both" or one of them. ``enough``: an upper side of what is
    asked (ε, or δ) that is no larger changes nothing, nor does a lower side below it.
    """

    delta: float | None = None
    epsilon: float | None = None
    expected: float | None = None
    rough: bool = False
    keep: Literal["both", "lower", "upper"] = "both"
    enough: float = 0.0

    def asked(self, profile: bracket.Profile) -> Bracket:
        """What is asked, by the profile."""
        if self.delta is not None:
            return bracket.epsilon_bracket(profile, self.delta)
        return profile.delta(self.epsilon or 0.0)

    def met(self, profile: Profile) -> bool:
        """Whether the upper side is enough."""
        if self.delta is None:
            return profile.delta(self.epsilon or 0.0)[1] <= self.enough
        return 0.0 < self.enough < math.inf and profile.delta(self.enough)[1] <= self.delta

    def tail(self, rho: float) -> float:
        """A mass that is negligible beside the δ in question, for a plan of about ρ-zCDP."""
        delta = self.expected or self.delta
        if delta is None:
            gap = max(0.0, (self.epsilon or 0.0) - rho)
            delta = math.exp(-gap * gap / (4 * rho)) if gap < 50 * math.sqrt(rho) else SMALLEST
        return max(SMALLEST, delta * TAIL)


class Profile(bracket.Profile, Protocol):
    """A two-sided privacy profile, and how it is computed."""

    @property
    def method(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Blatant:
    """No noise: δ(ε) = 1 for every ε."""

    method: str = "no noise"

    def delta(self, epsilon: float) -> Bracket:  # noqa: ARG002
        return Bracket(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class AtMost:
    """No loss is above ``largest``; nothing is said below it."""

    largest: float
    method: str = "largest loss"

    def delta(self, epsilon: float) -> Bracket:
        return Bracket(0.0, 0.0 if epsilon >= self.largest else 1.0)


@dataclass(frozen=True, slots=True)
class Best:
    """Several valid profiles of the same thing: the largest lower and the smallest upper side."""

    profiles: tuple[Profile, ...]

    @property
    def method(self) -> str:
        return _words(self)

    def delta(self, epsilon: float) -> Bracket:
        lower, upper = zip(*(profile.delta(epsilon) for profile in self.profiles), strict=True)
        return Bracket(max(lower), min(upper))


@dataclass(frozen=True, slots=True)
class Worst:
    """Alternatives of which the worst counts: the largest lower and the largest upper side."""

    profiles: tuple[Profile, ...]

    @property
    def method(self) -> str:
        return _words(self)

    def delta(self, epsilon: float) -> Bracket:
        lower, upper = zip(*(profile.delta(epsilon) for profile in self.profiles), strict=True)
        return Bracket(max(lower), max(upper))


@dataclass(frozen=True, slots=True)
class OneSide:
    """Only the lower or only the upper side of a profile is valid for the thing at hand."""

    profile: Profile
    keep: str

    @property
    def method(self) -> str:
        return _words(self)

    def delta(self, epsilon: float) -> Bracket:
        lower, upper = self.profile.delta(epsilon)
        return Bracket(lower, 1.0) if self.keep == "lower" else Bracket(0.0, upper)


def _words(profile: Profile) -> str:
    """What each side is computed by, each method once."""
    lower, upper = _named(profile)
    one_sided = {name: " (upper side)" for name in upper if name not in lower}
    one_sided |= {name: " (lower side)" for name in lower if name not in upper}
    return " + ".join(f"{name}{one_sided.get(name, '')}" for name in dict.fromkeys((*upper, *lower)))


def _named(profile: Profile) -> tuple[list[str], list[str]]:
    """The methods of the lower side, and of the upper side."""
    match profile:
        case Best(profiles=profiles) | Worst(profiles=profiles):
            named = [_named(one) for one in profiles]
            return [name for low, _ in named for name in low], [name for _, up in named for name in up]
        case OneSide(profile=inner, keep=keep):
            low, up = _named(inner)
            return (low, []) if keep == "lower" else ([], up)
    return [profile.method], [profile.method]


def epsilon_of(profile: Profile, delta: float, *, start: float) -> Bracket:
    """(lower, upper) ε at ``delta``; alternatives are searched apart, so that none is asked where another is sharp."""
    match profile:
        case Best(profiles=profiles):
            lower, upper = zip(*(epsilon_of(one, delta, start=start) for one in profiles), strict=True)
            return Bracket(max(lower), min(upper))
        case Worst(profiles=profiles):
            low = high = 0.0
            for one in profiles:  # those that cost at most what is known are not searched
                if not 0.0 < low < math.inf or one.delta(low)[1] > delta:
                    more = epsilon_of(one, delta, start=start)
                    low, high = max(low, more[0]), max(high, more[1])
            return Bracket(low, high)
        case OneSide(profile=inner, keep=keep):
            low, high = epsilon_of(inner, delta, start=start)
            return Bracket(low, math.inf) if keep == "lower" else Bracket(0.0, high)
    return bracket.epsilon_bracket(profile, delta, start=start)


def worst(profiles: Sequence[Profile]) -> Profile:
    """The profile of alternatives."""
    return profiles[0] if len(profiles) == 1 else Worst(tuple(profiles))
