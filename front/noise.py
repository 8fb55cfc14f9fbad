"""How much noise a run file asks for, as one number: its generator's noise keys scaled together, in proportion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from affidavit.accountant import decimals
from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import Domain, solve
from affidavit.accountant.errors import NoValueFits, RunFileError
from affidavit.accountant.remedies import did_you_mean, setting
from affidavit.runfile import RunFile
from affidavit.solving import DIGITS, certified_epsilon, solve_run

__all__ = ["Value", "noise_values", "scaled", "scaled_cost", "solve_noise"]

Value = float | int

_FACTORS = Domain(1e-6, 1e6)
_ATTEMPTS = 5
_MARGIN = 1e-4
"""Certified arithmetic can give slightly more than the float64 search saw: the next target is as much smaller."""


def solve_noise(run: RunFile, *, epsilon: float, keys: Sequence[str] = ()) -> dict[str, Value]:
    """The generator's noise (or ``keys``) at which the run costs at most ``epsilon``, as certified.

    Raises ``NoValueFits``; ``RunFileError`` for a key that cannot be scaled.
    """
    names = tuple(key.removeprefix("generator.") for key in keys) or run.source.noise_keys(run.generator)
    if len(names) == 1 and "." not in names[0]:
        return {names[0]: solve_run(run, epsilon=epsilon, key=names[0]).value}
    start = noise_values(run, names)
    target, least = epsilon, math.inf
    for _ in range(_ATTEMPTS):
        found = solve(
            lambda factor: scaled_cost(run, start, factor),
            epsilon=target,
            start=1.0,
            domain=_FACTORS,
            name=" and ".join(names),
        )
        values = scaled(start, found.value)
        stated = certified_epsilon(run.with_generator(**values))
        if stated is None or stated <= epsilon:
            return values
        least = min(least, stated)
        target *= epsilon / stated * (1.0 - _MARGIN)
    raise NoValueFits(
        f"no value found is certified at ε = {epsilon:g}",
        best_epsilon=least,
        hint=f"Allow more: `epsilons = [{decimals.show(decimals.round_up(least * (1.0 + _MARGIN), digits=DIGITS))}]`.",
    )


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
    """All of them by one factor."""
    return {key: value * factor for key, value in values.items()}


def scaled_cost(run: RunFile, start: Mapping[str, float], factor: float) -> float:
    """ε of the run with every key scaled; a setting that the generator refuses costs more than any budget."""
    try:
        changed = run.with_generator(**scaled(start, factor))
        return bound(changed.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper
    except RunFileError:
        return math.inf
