"""Calibration: the value of one parameter at which a plan just meets a target ε.

The cost of a value is the *upper* side of ε. The search keeps a bracket of one value that meets
the target and one that does not, found by walking away from the start in both directions, so the
direction of monotony is observed and not assumed. Where ε falls ever more slowly, the end of the
domain is asked at once: a target below what the rest of the plan costs is refused after few values.
Only values whose own forward bound was computed and meets the target are ever returned, and of a plan that both
engines know, only values whose settled ε (``settle``) does: where the search's own bound is a little less, it aims
lower. Steps are
safeguarded secants in logarithms (Dowell and Jarratt's Illinois rule), since ε is close to a power
of most parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from affidavit.accountant import decimals, remedies, validate
from affidavit.accountant.bound import Bound, bound
from affidavit.accountant.errors import NotSupported, NoValueFits, PlanError
from affidavit.accountant.plan import Plan, parse_plan, to_dict, value_at, with_value
from affidavit.accountant.settle import settle
from affidavit.accountant.validate import Relation

__all__ = ["FORWARD_SHARE", "Calibrated", "Domain", "calibrate", "solvable_paths", "solve"]

MAX_EVALUATIONS = 100
HALVINGS = 10
"""How closely the last value that may be taken is searched for, where a step of the walk leads beyond it."""
FLAT = 0.9
"""A step of the walk, at least a doubling, that leaves more than this share of ε asks what the domain's end costs."""
SMALLEST, LARGEST = 1e-12, 1e12
CLOSED_FORM = 1e-8
"""Relative width below which a bracket comes from a closed form."""
ATTEMPTS, MARGIN = 6, 1e-4
"""Searches by what issues alone, each for less than the one before by this share more; then one by settled numbers."""
FORWARD_SHARE = 0.5
"""How wide the forward bound of a value may be, as a share of the tolerance of the search."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Where a parameter may lie; ``integer`` parameters take whole numbers only. ``costlier``: its costlier end."""

    low: float
    high: float
    integer: bool = False
    costlier: Literal["low", "high"] = "high"

    def clip(self, value: float) -> float:
        """The nearest admissible value."""
        value = min(max(value, self.low), self.high)
        return float(round(value)) if self.integer else value


@dataclass(frozen=True, slots=True)
class Calibrated:
    """``value`` meets the target: its settled ε, or its forward bound, is ``epsilon_upper`` <= target.

    ``neighbour`` is the nearest value tried that does not, or None if the whole domain fits.
    """

    path: str
    value: float
    epsilon_upper: float
    neighbour: float | None
    evaluations: int


DOMAINS: dict[str, Domain] = {
    "noise_multiplier": Domain(SMALLEST, LARGEST, costlier="low"),
    "range": Domain(SMALLEST, LARGEST),
    "epsilon": Domain(SMALLEST, LARGEST),
    "rho": Domain(SMALLEST, LARGEST),
    "rate": Domain(SMALLEST, 1.0),
    "count": Domain(0, LARGEST, integer=True),
    "sample": Domain(0, LARGEST, integer=True),
    "population": Domain(1, LARGEST, integer=True, costlier="low"),
}


class _Search:
    """Evaluations of the cost, remembered."""

    def __init__(self, cost: Callable[[float], float], target: float, domain: Domain) -> None:
        self._cost, self.target, self.domain = cost, target, domain
        self.seen: dict[float, float] = {}

    def __call__(self, value: float) -> float:
        if value not in self.seen:
            found = self._cost(value)
            self.seen[value] = math.inf if math.isnan(found) else found
        return self.seen[value]

    def fits(self, value: float) -> bool:
        return self(value) <= self.target

    def bracket(self, start: float) -> tuple[float, float] | None:
        """(a value that fits, one that does not), neighbours in the walk; None if all seen fit."""
        start = self.domain.clip(start)
        fits_at_start = self.fits(start)
        reached = {True: start, False: start}  # toward high, toward low
        factor = 2.0
        while reached and len(self.seen) < MAX_EVALUATIONS:
            flat = False
            for toward_high, here in tuple(reached.items()):
                there = self._walk(here, factor if toward_high else 1.0 / factor)
                if there == here:
                    del reached[toward_high]
                    continue
                reached[toward_high] = there
                if not fits_at_start and math.isinf(self(there)) and math.isfinite(self(here)):
                    del reached[toward_high]
                    there = self._last_allowed(here, there)
                if self.fits(there) != fits_at_start:
                    return (here, there) if fits_at_start else (there, here)
                flat = flat or FLAT * self(here) < self(there) < self(here) < math.inf
            if flat and not fits_at_start and self._hopeless():
                break
            factor = min(factor * factor, 1e4)
        return None

    def _last_allowed(self, allowed: float, refused: float) -> float:
        """About the last value that may be taken, on the way to one that may not; or one before it that fits."""
        for _ in range(HALVINGS):
            middle = self.domain.clip(0.5 * (allowed + refused))
            if middle in (allowed, refused) or self.fits(allowed) or self(allowed) > min(self.seen.values()):
                break
            allowed, refused = (middle, refused) if math.isfinite(self(middle)) else (allowed, middle)
        return allowed

    def _hopeless(self) -> bool:
        """Whether the cheaper end of the domain, too, costs more than the target, and nothing seen costs less.

        The end in whose direction the cost fell; what the parameter does not touch is all that is left there.
        """
        cheapest = min(self.seen, key=self)
        end = self.domain.clip(self.domain.high if cheapest == max(self.seen) else self.domain.low)
        return not self.fits(end) and self(end) <= self(cheapest) and math.isfinite(self(end))

    def _walk(self, here: float, factor: float) -> float:
        there = self.domain.clip(here * factor if here > 0.0 else (1.0 if factor > 1.0 else 0.0))
        if there == here and self.domain.integer:
            there = self.domain.clip(here + (1.0 if factor > 1.0 else -1.0))
        return there


def solve(
    cost: Callable[[float], float], *, epsilon: float, start: float, domain: Domain, name: str, tolerance: float = 1e-4
) -> Calibrated:
    """The value nearest the target ``epsilon`` whose ``cost`` (an upper side of ε) meets it.

    Stops when the cost is within ``tolerance`` (relative) below the target, or the bracket is as
    narrow as numbers allow. Raises ``NoValueFits`` with the smallest ε seen.
    """
    search = _Search(cost, epsilon, domain)
    found = search.bracket(start)
    if found is None:
        fitting = [value for value, seen in search.seen.items() if seen <= epsilon]
        if not fitting:
            best = min(search.seen.values())
            raise NoValueFits(
                f"{name}: no value in [{domain.low:g}, {domain.high:g}] gives epsilon <= {epsilon:g}; "
                f"the smallest epsilon seen is {best:.6g}",
                best_epsilon=best,
                hint=_reachable(best),
            )
        toward = 1.0 if domain.costlier == "high" else -1.0
        value = max(fitting, key=lambda v: (search.seen[v], toward * v))
        return Calibrated(name, value, search.seen[value], None, len(search.seen))
    good, bad = _narrow(search, *found, tolerance=tolerance)
    return Calibrated(name, good, search(good), bad, len(search.seen))


def _narrow(search: _Search, good: float, bad: float, *, tolerance: float) -> tuple[float, float]:
    goal = search.target * (1.0 - tolerance / 2.0)
    weight_good = weight_bad = 1.0
    while len(search.seen) < MAX_EVALUATIONS:
        near = search(good) >= search.target * (1.0 - tolerance)
        if search.target == 0.0:  # which all that fit meet alike: the one next to those that do not
            near = abs(good - bad) <= tolerance * max(abs(good), abs(bad))
        if near or abs(good - bad) <= (1.0 if search.domain.integer else 1e-13 * max(abs(good), abs(bad))):
            break
        middle = _secant(search, good, bad, goal, weight_good, weight_bad)
        if search.fits(middle):
            good, weight_good, weight_bad = middle, 1.0, weight_bad * 0.5
        else:
            bad, weight_bad, weight_good = middle, 1.0, weight_good * 0.5
    return good, bad


def _secant(search: _Search, good: float, bad: float, goal: float, weight_good: float, weight_bad: float) -> float:
    """A point strictly between, by a weighted secant in logarithms or else the middle."""
    low, high = min(good, bad), max(good, bad)
    at_good, at_bad = search(good), search(bad)
    share = 0.5
    if at_good > 0.0 and math.isfinite(at_bad):
        below = weight_good * math.log(goal / at_good)
        above = weight_bad * math.log(at_bad / goal)
        if below > 0.0 and above > 0.0:
            share = min(max(below / (below + above), 0.02), 0.98)
    value = good * math.exp(share * math.log(bad / good)) if low > 0.0 else good + share * (bad - good)
    if search.domain.integer:
        return float(min(max(round(value), low + 1.0), high - 1.0))
    return value if low < value < high else 0.5 * (low + high)


def _numeric_paths(node: Any, path: str) -> list[str]:
    found: list[str] = []
    if isinstance(node, Mapping):
        for key, value in node.items():
            found += [f"{path}.{key}"] if key in DOMAINS and not isinstance(value, bool) else []
            found += _numeric_paths(value, f"{path}.{key}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            found += _numeric_paths(value, f"{path}[{i}]")
    return found


def solvable_paths(plan: Plan | Mapping[str, Any]) -> tuple[str, ...]:
    """Paths of all numeric parameters of ``plan``, in declared order."""
    return tuple(_numeric_paths(to_dict(parse_plan(plan)), "plan"))


def _default_path(paths: tuple[str, ...]) -> str:
    for name in ("noise_multiplier", "range", "epsilon", "rho"):
        matching = [path for path in paths if path.endswith("." + name)]
        if len(matching) == 1:
            return matching[0]
    allowed = " | ".join(paths) or "a plan with a parameter"
    raise PlanError("solve", "which parameter is not clear", allowed=allowed, hint=_a_parameter(paths))


def _a_parameter(paths: tuple[str, ...]) -> str:
    if not paths:
        return 'The plan has none; with one it would be `plan = {"kind": "gaussian", "noise_multiplier": 1.0}`.'
    return f"For example {remedies.setting('solve', paths[0])}."


def _reachable(best: float) -> str:
    """A target that the values which were tried do meet."""
    if not math.isfinite(best):
        return "Allow a larger delta, or change another parameter: every value costs ε = ∞."
    epsilon = float(decimals.round_up(best, digits=3))
    return f"Reached is {remedies.setting('epsilon', epsilon)}; or allow a larger delta, or change another parameter."


def calibrate(
    plan: Plan | Mapping[str, Any],
    *,
    relation: Relation,
    epsilon: float,
    delta: float,
    path: str | None = None,
    tolerance: float = 1e-3,
) -> Calibrated:
    """The value of the plan's parameter at ``path`` that gives at most ``epsilon`` at ``delta``.

    ``path`` may be left out if the plan has one noise parameter. The returned value's settled ε is at most
    ``epsilon``; where the verifier has no theorem, its forward bound of tolerance ``FORWARD_SHARE * tolerance`` is.
    Raises ``PlanError`` (bad path), ``NoValueFits``.
    """
    base = parse_plan(plan)
    target = validate.real(epsilon, path="epsilon")
    checked_delta = validate.fraction(delta, path="delta")
    paths = solvable_paths(base)
    chosen = path if path is not None else _default_path(paths)
    if chosen not in paths:
        hint = remedies.did_you_mean(chosen, paths, path="solve") or _a_parameter(paths)
        raise PlanError(
            "solve", f"{chosen!r} is no numeric parameter of this plan", allowed=" | ".join(paths), hint=hint
        )
    where, _, name = chosen.rpartition(".")
    domain = DOMAINS[name]
    if name == "sample":
        domain = Domain(0, value_at(base, f"{where}.population"), integer=True)
    if name == "population":
        domain = replace(domain, low=max(1, value_at(base, f"{where}.sample")))

    def changed(value: float) -> Plan:
        return with_value(base, chosen, int(value) if domain.integer else value)

    def found_at(value: float) -> Bound:
        return bound(changed(value), relation=relation, delta=checked_delta, tolerance=tolerance * FORWARD_SHARE)

    def settled_at(value: float) -> float:
        return settle(changed(value), relation=relation, delta=checked_delta).epsilon_upper

    start = float(value_at(base, chosen)) or 1.0
    first = found_at(domain.clip(start))
    # Where the bound is a closed form, the value may as well be exact.
    sharp = first.epsilon_upper - first.epsilon_lower <= CLOSED_FORM * first.epsilon_upper
    wanted = CLOSED_FORM if sharp else tolerance

    def searched(cost: Callable[[float], float], aim: float) -> Calibrated:
        return solve(cost, epsilon=aim, start=start, domain=domain, name=chosen, tolerance=wanted)

    aim = target
    for attempt in range(ATTEMPTS):
        try:
            found = searched(lambda value: found_at(value).epsilon_upper, aim)
        except NoValueFits:
            if attempt == 0:
                raise
            break
        try:
            stated = settled_at(found.value)
        except NotSupported:
            return found
        if stated <= target:
            return replace(found, epsilon_upper=stated)
        aim *= target / stated * (1.0 - MARGIN * attempt)
    return searched(settled_at, target)
