"""Which value of a parameter costs at most a target ε: of a plan, of a run file, or of nothing but numbers.

Every answer is rounded to the safe side to few digits, and its own forward bound is computed
again: what is printed is what was checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from affidavit.accountant import decimals, remedies, validate
from affidavit.accountant.bound import Bound, bound
from affidavit.accountant.calibrate import ATTEMPTS, FORWARD_SHARE, MARGIN, Calibrated, Domain, calibrate, solve
from affidavit.accountant.errors import NotSupported, NoValueFits, PlanError, RunFileError
from affidavit.accountant.plan import Envelope, value_at, with_value
from affidavit.accountant.settle import known, settle
from affidavit.accountant.validate import Relation
from affidavit.runfile import RunFile

__all__ = [
    "Solution",
    "certified_epsilon",
    "fitting_values",
    "solvable_keys",
    "solve_plan",
    "solve_run",
    "with_solution",
]

DIGITS = 6
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Solution:
    """``value`` of ``parameter`` costs between ``epsilon_lower`` and ``epsilon_upper`` <= the target.

    ``epsilon_certified``: what a certificate for the run would state, at most the target too; None for a plan, and
    where certified arithmetic has no theorem for the run.
    """

    parameter: str
    value: float | int
    target_epsilon: float
    epsilon_lower: float
    epsilon_upper: float
    delta: float
    relation: Relation
    method: str
    epsilon_certified: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values, in the order of the fields."""
        return {name: getattr(self, name) for name in self.__slots__}


def solve_plan(envelope: Envelope, *, epsilon: float, path: str | None = None) -> Solution:
    """The value of a plan's parameter that costs at most ``epsilon`` at the envelope's δ."""
    if envelope.delta is None:
        raise PlanError(
            "delta",
            "missing",
            allowed="a number in [0, 1]",
            hint="Say it: `--delta 1e-5`, or `delta = 1e-5` in the file.",
        )
    delta = envelope.delta
    target = validate.real(epsilon, path="--epsilon")
    found = calibrate(
        envelope.plan, relation=envelope.relation, epsilon=target, delta=delta, path=path, tolerance=TOLERANCE
    )

    def forward(value: float | int) -> Bound:
        changed = with_value(envelope.plan, found.path, value)
        with suppress(NotSupported):
            return settle(changed, relation=envelope.relation, delta=delta)
        # The very bound that the search went by: a wider one may not reach the target where that one did.
        return bound(changed, relation=envelope.relation, delta=delta, tolerance=TOLERANCE * FORWARD_SHARE)

    integer = isinstance(value_at(envelope.plan, found.path), int)
    return _checked(found, target=target, integer=integer, forward=forward)


def with_solution(envelope: Envelope, solved: Solution) -> Envelope:
    """The plan with the value that was found in its place."""
    return replace(envelope, plan=with_value(envelope.plan, solved.parameter, solved.value))


def solvable_keys(run: RunFile) -> tuple[str, ...]:
    """The generator's numeric keys that its cost depends on, in the order of the table."""
    return tuple(key for key, value in run.numbers().items() if _matters(run, key, value))


def certified_epsilon(run: RunFile) -> float | None:
    """The ε that a certificate for the run would state; None where the verifier has no formula for it."""
    try:
        return settle(run.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper
    except NotSupported:
        return None


def solve_run(run: RunFile, *, epsilon: float, key: str) -> Solution:
    """The value of ``generator.<key>`` at which the run costs at most ``epsilon`` at its budget's δ, as certified.

    What both engines confirm may be a little more than the search found, which then aims lower.
    Raises ``RunFileError`` for a key that is not a number, ``NoValueFits``.
    """
    name = key.removeprefix("generator.")
    if name not in run.numbers():
        keys = solvable_keys(run)
        hint = f"Such as {remedies.setting('--solve', f'generator.{remedies.nearest(name, keys) or keys[0]}')}."
        problem = "not a number that can be solved for"
        raise RunFileError(f"generator.{name}", problem, allowed=" | ".join(keys), hint=hint)
    target = aim = validate.real(epsilon, path="--epsilon")
    for _ in range(ATTEMPTS):
        found = _searched(run, epsilon=aim, name=name)
        changed = run.with_generator(**{name: found.value})
        cost, gap = known(changed.plan(), relation=run.relation, delta=run.budget.delta)
        if gap or cost.epsilon_upper <= target:
            return replace(
                found,
                target_epsilon=target,
                epsilon_lower=cost.epsilon_lower,
                epsilon_upper=cost.epsilon_upper,
                method=cost.method,
                epsilon_certified=None if gap else cost.epsilon_upper,
            )
        aim *= target / cost.epsilon_upper * (1.0 - MARGIN)
    found = _searched(run, epsilon=target, name=name, certified=True)
    return replace(found, epsilon_certified=found.epsilon_upper)


def _searched(run: RunFile, *, epsilon: float, name: str, certified: bool = False) -> Solution:
    """By what issues alone, or by what both engines confirm, which takes longer."""
    start = run.numbers()[name]
    integer = isinstance(start, int)

    def forward(value: float | int) -> Bound:
        changed = run.with_generator(**{name: int(value) if integer else float(value)})
        if certified:
            return settle(changed.plan(), relation=run.relation, delta=run.budget.delta)
        return bound(changed.plan(), relation=run.relation, delta=run.budget.delta)

    refused = (RunFileError, NotSupported) if certified else RunFileError

    def cost(value: float) -> float:
        try:
            return forward(value).epsilon_upper
        except refused:  # a value that the generator does not allow costs more than any budget
            return math.inf

    domain = Domain(1, 10**6, integer=True) if integer else Domain(1e-6, 1e6)
    found = solve(cost, epsilon=epsilon, start=float(start), domain=domain, name=f"generator.{name}")
    return _checked(found, target=epsilon, integer=integer, forward=forward)


def fitting_values(run: RunFile, *, epsilon: float) -> Iterator[Solution]:
    """For each key that can make the run fit, the value that does, all others left as they are."""
    for key in solvable_keys(run):
        try:
            yield solve_run(run, epsilon=epsilon, key=key)
        except NoValueFits:
            continue


def _checked(found: Calibrated, *, target: float, integer: bool, forward: Callable[[float | int], Bound]) -> Solution:
    """Round to the side away from the value that does not fit, and bound what is left anew.

    Where rounding costs too much, the value as it was found, whose cost the search has seen to fit.
    """
    value: float | int = int(found.value) if integer else _rounded(found)
    result = forward(value)
    if result.epsilon_upper > target:
        value = found.value
        result = forward(value)
    return Solution(
        parameter=found.path,
        value=value,
        target_epsilon=target,
        epsilon_lower=result.epsilon_lower,
        epsilon_upper=result.epsilon_upper,
        delta=result.delta_upper,
        relation=result.relation,
        method=result.method,
    )


def _rounded(found: Calibrated) -> float:
    if found.neighbour is None:
        return found.value
    outward = decimals.round_up if found.neighbour < found.value else decimals.round_down
    return float(outward(found.value, digits=DIGITS))


def _matters(run: RunFile, key: str, value: int | float) -> bool:
    """Whether halving or doubling the key changes a mechanism or how often it is used."""
    here = run.plan()
    for other in (value * 2, value // 2 if isinstance(value, int) else value / 2):
        try:
            if run.with_generator(**{key: other}).plan() != here:
                return True
        except RunFileError:
            continue
    return False
