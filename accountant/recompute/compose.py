"""One case: its directions, its sides, and the resolution of its grid."""

from __future__ import annotations

import math

from affidavit.accountant.plan import (
    Exponential,
    Gaussian,
    Laplace,
    Poisson,
    WithoutReplacement,
    ZeroConcentrated,
)
from affidavit.accountant.recompute.adaptive import Window, lower_profile, upper_profile
from affidavit.accountant.recompute.bracket import Bracket, Profile, epsilon_bracket
from affidavit.accountant.recompute.concentrated import concentrated_profile
from affidavit.accountant.recompute.fixed import Aim, FixedPart, fixed_part
from affidavit.accountant.recompute.one_exponential import OneExponential
from affidavit.accountant.recompute.reading import Case, Moved, Step
from affidavit.accountant.recompute.sampled import Direction
from affidavit.accountant.validate import Relation

__all__ = ["delta_of", "epsilon_of", "unbounded"]

_RESOLUTIONS = (32, 64, 128, 256)
_ACCURACIES = (1e-7, 1e-10, 1e-10, 1e-10)
_TOLERANCE = 1e-3
_FLOOR = 1e-6
_STALLED = 0.7
"""A finer grid that leaves more of the width than this meets a gap that is not the grid's."""


def epsilon_of(case: Case, relation: Relation, delta: float) -> tuple[Bracket, str]:
    """Bracket of the case's ε at 0 < ``delta`` < 1, and the formulas used."""
    if (one := _one_exponential(case)) is not None:
        return epsilon_bracket(one, delta, start=one.range), "closed form of one exponential use"
    low, high = 0.0, math.inf
    resolutions = _RESOLUTIONS if case.ranges else (0,)
    sides = _Sides(case, relation)
    for cells in resolutions:
        aim = Aim(delta)
        upper = max(epsilon_bracket(profile, delta, start=1.0).upper for profile in sides.upper(aim, cells))
        lower = max(
            (epsilon_bracket(profile, delta, start=1.0).lower for profile in sides.lower(aim, cells)), default=0.0
        )
        before = high - low
        low, high = max(low, lower), min(high, upper)
        if high - low <= max(_TOLERANCE * high, _FLOOR) or high - low > _STALLED * before:
            break
    return Bracket(low, high), sides.how


def delta_of(case: Case, relation: Relation, epsilon: float, delta: float) -> Bracket:
    """Bracket of the case's δ at ``epsilon``, refined until it lies on one side of ``delta``."""
    if (one := _one_exponential(case)) is not None:
        return one.delta(epsilon)
    low, high = 0.0, 1.0
    sides = _Sides(case, relation)
    for cells, accuracy in zip(_RESOLUTIONS if case.ranges else (0, 0), _ACCURACIES, strict=False):
        aim = Aim(max(delta, 1e-300), epsilon, accuracy)
        high = min(high, max(profile.delta(epsilon).upper for profile in sides.upper(aim, cells)))
        if high <= delta:
            break
        low = max([low] + [profile.delta(epsilon).lower for profile in sides.lower(aim, cells)])
        if low > delta:
            break
    return Bracket(low, high)


def _one_exponential(case: Case) -> OneExponential | None:
    """The closed form, if the case is a single exponential use."""
    if case.fixed or len(case.ranges) != 1 or case.ranges[0][1] != 1:
        return None
    return OneExponential(case.ranges[0][0])


def unbounded(case: Case) -> bool:
    """Whether some use has no noise at all."""
    return any(isinstance(node, (Gaussian, Laplace)) and node.noise_multiplier == 0.0 for node, _ in case.fixed)


class _Sides:
    """The profiles whose maximum bounds the case: one a direction of the neighbouring pair."""

    def __init__(self, case: Case, relation: Relation) -> None:
        self.case = case
        self.relation: Relation = relation
        sampled = [node for node, _ in case.fixed if isinstance(node, (Poisson, WithoutReplacement))]
        replacing = [n for n in sampled if isinstance(n, WithoutReplacement) and relation != "add-remove"]
        self.upper_directions: tuple[Direction, ...] = ("removed",)
        diluted = [n for n in sampled if isinstance(n, Poisson) and relation == "substitution"]
        moved = [node.node for node, _ in case.fixed if isinstance(node, Moved)]
        if len(replacing) + len(diluted) < len(sampled) or any(isinstance(node, Poisson) for node in moved):
            self.upper_directions = ("removed", "added")
        self.lower_directions: tuple[Direction, ...] = self.upper_directions
        if replacing or any(isinstance(node, WithoutReplacement) for node in moved):
            self.lower_directions = ("removed", "added", "middle")
        self.names: dict[str, None] = {}
        self._known: list[tuple[FixedPart, Aim, Profile]] = []

    @property
    def how(self) -> str:
        """The formulas used so far."""
        return " x ".join(self.names) or "nothing released"

    def _part(self, nodes: tuple[Step, ...], direction: Direction, *, upper: bool) -> FixedPart:
        part = fixed_part(nodes, self.relation, direction, upper=upper)
        self.names.update(dict.fromkeys(part.names))
        return part

    def _profile(self, part: FixedPart, aim: Aim) -> Profile:
        """The part's profile; the two sides of one direction are often the same."""
        for known, at, profile in self._known:
            if at == aim and known.same_as(part):
                return profile
        found = part.profile(aim)
        self._known.append((part, aim, found))
        return found

    def upper(self, aim: Aim, cells: int) -> list[Profile]:
        """Upper profiles; ``cells`` is the grid's resolution for exponential uses."""
        case = self.case
        if case.unordered or any(isinstance(node, ZeroConcentrated) for node, _ in case.fixed):
            self.names["zCDP conversion"] = None
            exponentials = [(Exponential(eta), uses) for eta, uses in case.ranges]
            return [concentrated_profile([*case.fixed, *exponentials])]
        result: list[Profile] = []
        for direction in self.upper_directions:
            front = self._part(case.before + case.between, direction, upper=True)
            if not case.ranges:
                result.append(self._profile(front, aim))
                continue
            after = self._part(case.after, direction, upper=True)
            if after.smooth:
                front, after = self._part(case.fixed, direction, upper=True), self._part((), direction, upper=True)
            self.names["envelope of secants"] = None
            window = Window.of(case.ranges, after, aim, cells)
            result.append(upper_profile(case.ranges, front, after, window, aim))
        return result

    def lower(self, aim: Aim, cells: int) -> list[Profile]:
        """Lower profiles, each reached by an explicit adversary."""
        case = self.case
        result: list[Profile] = []
        if case.unordered or not case.lower:
            return result
        for direction in self.lower_directions:
            before = self._part(case.before, direction, upper=False)
            if not case.ranges:
                result.append(self._profile(before, aim))
                continue
            after = self._part(case.after, direction, upper=False)
            adaptive = not (before.smooth or after.smooth or case.between)
            if not adaptive:
                before, after = self._part(case.fixed, direction, upper=False), self._part((), direction, upper=False)
            self.names["played strategy"] = None
            window = Window.of(case.ranges, after, aim, cells)
            result.append(lower_profile(case.ranges, before, after, window, aim, adaptive=adaptive))
        return result
