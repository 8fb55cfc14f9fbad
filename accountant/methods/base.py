"""What a composition method is: a name, a reason not to apply, and a profile of a case."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from affidavit.accountant.cases.case import Case
from affidavit.accountant.validate import Relation

__all__ = ["Bracket", "Method", "Profile", "Target", "certain_delta", "least"]

EPSILON_FLOOR = 1e-6
"""Absolute part of every tolerance on ε."""

INVERSE_PHI = (math.sqrt(5.0) - 1.0) / 2.0
LEAST_RANGE = 1e-8
"""Ranges of exponential mechanisms whose differences float64 resolves."""
LARGEST_EPSILON = 1e15
"""A search for ε goes no further: beyond it the answer is infinity, on both sides alike."""
LOUD, LOUD_WIDTH = 500.0, 1e-2
"""An ε above the first is of no use to anyone: a bracket of this relative width is enough."""


class Bracket(NamedTuple):
    """``lower <= value <= upper``."""

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Target:
    """What a profile will be asked near: one of ``delta`` or ``epsilon``, and how closely.

    ``explicit``: the lower side must be reached by stated neighbouring data sets. ``enough``: an upper side that is no
    larger need not be sharper, and nothing is asked from below then. ``above``: no lower side is asked for.
    """

    delta: float | None = None
    epsilon: float | None = None
    tolerance: float = 1e-3
    explicit: bool = False
    enough: float = 0.0
    above: bool = False


def certain_delta(epsilon: float) -> float:
    """(1 − e^ε)₊: the δ of releasing nothing, below every profile."""
    return -math.expm1(epsilon) if epsilon < 0.0 else 0.0


class Profile(Protocol):
    """The privacy profile δ(ε) of one case, larger direction, from both sides."""

    def delta(self, epsilon: float) -> Bracket:
        """Bracket of δ at ``epsilon`` (any real number)."""
        ...

    def epsilon(self, delta: float) -> Bracket:
        """Bracket of the smallest ε >= 0 with δ(ε) <= ``delta`` (0 < delta < 1)."""
        ...


class Method(Protocol):
    """One way to compose. ``exact`` methods give both sides, the others an upper side only."""

    name: str
    exact: bool

    def why_not(self, case: Case, relation: Relation, /) -> str:
        """Empty if the method applies, else the reason in a few words."""
        ...

    def profile(self, case: Case, relation: Relation, target: Target, /) -> Profile:
        """The case's profile by this method."""
        ...


def least(value: Callable[[float], float], low: float, high: float, *, rounds: int) -> float:
    """The least value met by a golden section of a function that falls and then rises."""
    a, b = high - INVERSE_PHI * (high - low), low + INVERSE_PHI * (high - low)
    at_a, at_b = value(a), value(b)
    found = min(at_a, at_b)
    for _ in range(rounds):
        if at_a <= at_b:
            high, b, at_b = b, a, at_a
            a = high - INVERSE_PHI * (high - low)
            at_a = value(a)
        else:
            low, a, at_a = a, b, at_b
            b = low + INVERSE_PHI * (high - low)
            at_b = value(b)
        found = min(found, at_a, at_b)
    return found
