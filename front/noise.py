"""Which keys of a generator are its noise, and with how much of it a run is certified within a target ε."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from affidavit.accountant import decimals
from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import Domain, solve
from affidavit.accountant.errors import RunFileError
from affidavit.accountant.remedies import did_you_mean, setting
from affidavit.runfile import RunFile
from affidavit.solving import certified_epsilon, solvable_keys, solve_run

__all__ = ["Value", "cost_of_scaling", "fitting_noise", "noise_keys", "scaled", "scaled_numbers"]

Value = float | int

_NOISE = ("noise_multiplier", "_noise")
_TEMPERATURE, _EPSILON = "temperature", "epsilon"
_FACTORS = Domain(1e-6, 1e6)
_ATTEMPTS = 5
_MARGIN = 1e-4
"""Certified arithmetic can give slightly more than the float64 search saw: the next target is as much smaller."""
_DIGITS = 6


def noise_keys(run: RunFile) -> tuple[str, ...]:
    """The keys that are the generator's noise: everything larger that costs less, else its ε's.

    Noise multipliers, other ``…_noise`` and the ``temperature``, as far as the cost depends on them; where
    there are none, keys that end in ``epsilon``. Every generator has one or the other.
    """
    counted = solvable_keys(run)
    keys = [key for key in _flat(run.generator.model_dump()) if "." in key or key in counted]
    noise = tuple(key for key in keys if key.endswith(_NOISE) or key == _TEMPERATURE)
    return noise or tuple(key for key in keys if key.endswith(_EPSILON))


def fitting_noise(run: RunFile, *, epsilon: float, keys: tuple[str, ...] = ()) -> dict[str, Value]:
    """The values of ``keys`` (the noise keys, if left out; several are scaled together) that cost at most ``epsilon``.

    As certified, where certified arithmetic has a theorem for the run. Raises ``NoValueFits`` where no value does,
    ``RunFileError`` for a key that is no number.
    """
    keys = tuple(key.removeprefix("generator.") for key in keys or noise_keys(run))
    if len(keys) == 1 and keys[0] in run.numbers() and "." not in keys[0]:
        return {keys[0]: solve_run(run, epsilon=epsilon, key=keys[0]).value}
    start = scaled_numbers(run, keys)
    target = epsilon
    for _ in range(_ATTEMPTS):
        values = _solved(start, cost_of_scaling(run, start), epsilon=target)
        stated = certified_epsilon(run.with_generator(**values))
        if stated is None or stated <= epsilon:
            return values
        target *= epsilon / stated * (1.0 - _MARGIN)
    return _solved(start, cost_of_scaling(run, start, certified=True), epsilon=epsilon)


def _solved(start: Mapping[str, float], cost: Callable[[float], float], *, epsilon: float) -> dict[str, Value]:
    """The scaled values, each rounded away from what does not fit, where that still fits."""
    found = solve(cost, epsilon=epsilon, start=1.0, domain=_FACTORS, name=" and ".join(start))
    if found.neighbour is None:
        return scaled(start, found.value)
    outward = decimals.round_up if found.neighbour < found.value else decimals.round_down
    factor = float(outward(found.value, digits=_DIGITS))
    return scaled(start, factor if cost(factor) <= epsilon else found.value)


def scaled_numbers(run: RunFile, keys: tuple[str, ...]) -> dict[str, float]:
    """What the keys are. Raises ``RunFileError`` for one that is not a fractional number."""
    known = _flat(run.generator.model_dump())
    for key in keys:
        if key not in known:
            hint = did_you_mean(key, list(known)) or f"For example {setting('methods.solve', [*known][:1])}."
            raise RunFileError(
                f"methods.solve: {key}", "not a number that can be scaled", allowed=" | ".join(known), hint=hint
            )
    return {key: known[key] for key in keys}


def scaled(values: Mapping[str, float], factor: float) -> dict[str, Value]:
    """Every value times the factor, to 12 digits."""
    return {key: float(f"{value * factor:.12g}") for key, value in values.items()}


def cost_of_scaling(run: RunFile, start: Mapping[str, float], *, certified: bool = False) -> Callable[[float], float]:
    """ε of the run with every key scaled; a setting that the generator refuses costs more than any budget."""

    def cost(factor: float) -> float:
        try:
            changed = run.with_generator(**scaled(start, factor))
            if certified:
                stated = certified_epsilon(changed)
                return math.inf if stated is None else stated
            return bound(changed.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper
        except RunFileError:
            return math.inf

    return cost


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """The fractional numbers of a table and of the tables within it, by dotted key."""
    found: dict[str, float] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, float):
            found[prefix + key] = value
    return found
