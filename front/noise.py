"""How much noise a run file asks for, as one number: its generator's noise keys scaled together, in proportion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from affidavit.accountant import decimals
from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import Domain, solve
from affidavit.accountant.errors import RunFileError
from affidavit.accountant.remedies import did_you_mean, setting
from affidavit.runfile import RunFile
from affidavit.solving import DIGITS, certified_epsilon, solve_run

__all__ = ["Value", "noise_values", "scaled", "scaled_cost", "solve_noise"]

Value = float | int

_FACTORS = Domain(1e-6, 1e6)
_ATTEMPTS = 5
_MARGIN = 1e-4
"""What both engines confirm can be slightly more than the search saw: the next target is as much smaller."""


def solve_noise(run: RunFile, *, epsilon: float, keys: Sequence[str] = ()) -> dict[str, Value]:
    """The generator's noise (or ``keys``) at which the run costs at most ``epsilon``, as settled.

    Raises ``NoValueFits``; ``RunFileError`` for a key that cannot be scaled.
    """
    names = tuple(key.removeprefix("generator.") for key in keys) or run.source.noise_keys(run.generator)
    if len(names) == 1 and names[0] in run.numbers() and "." not in names[0]:
        return {names[0]: solve_run(run, epsilon=epsilon, key=names[0]).value}
    start = noise_values(run, names)
    target = epsilon
    for _ in range(_ATTEMPTS):
        values = _solved(run, start, epsilon=target)
        stated = certified_epsilon(run.with_generator(**values))
        if stated is None or stated <= epsilon:
            return values
        target *= epsilon / stated * (1.0 - _MARGIN)
    return _solved(run, start, epsilon=epsilon, settled=True)


def _solved(run: RunFile, start: Mapping[str, float], *, epsilon: float, settled: bool = False) -> dict[str, Value]:
    """The scaled values, the factor rounded away from what does not fit, where that still fits."""

    def cost(factor: float) -> float:
        return scaled_cost(run, start, factor, settled=settled)

    found = solve(cost, epsilon=epsilon, start=1.0, domain=_FACTORS, name=" and ".join(start))
    if found.neighbour is None:
        return scaled(start, found.value)
    outward = decimals.round_up if found.neighbour < found.value else decimals.round_down
    factor = float(outward(found.value, digits=DIGITS))
    return scaled(start, factor if cost(factor) <= epsilon else found.value)


def noise_values(run: RunFile, keys: Sequence[str]) -> dict[str, float]:
    """What the keys are set to. Raises ``RunFileError`` for one that is no fractional number."""
    known = {key: value for key, value in run.numbers().items() if isinstance(value, float)}
    for key in keys:
        if key not in known:
            hint = did_you_mean(key, list(known)) or f"For example {setting('methods.solve', [*known][:1])}."
            raise RunFileError(
                f"methods.solve: {key}", "not a number that can be scaled", allowed=" | ".join(known), hint=hint
            )
    return {key: known[key] for key in keys}


def scaled(values: Mapping[str, float], factor: float) -> dict[str, Value]:
    """All of them by one factor, to 12 digits."""
    return {key: float(f"{value * factor:.12g}") for key, value in values.items()}


def scaled_cost(run: RunFile, start: Mapping[str, float], factor: float, *, settled: bool = False) -> float:
    """ε of the run with every key scaled; a setting that the generator refuses costs more than any budget."""
    try:
        changed = run.with_generator(**scaled(start, factor))
        if settled:
            stated = certified_epsilon(changed)
            return math.inf if stated is None else stated
        return bound(changed.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper
    except RunFileError:
        return math.inf
