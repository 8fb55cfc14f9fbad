"""The noise that a target ε needs, certified; or the least noise that there is, for ε = ∞.

Several keys are scaled together, by one factor: the noise multipliers of a method that has more than one
keep their proportions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import Domain, solve
from affidavit.accountant.errors import AffidavitError, NoValueFits, RunFileError, UsageError
from affidavit.accountant.keys import Keyring
from affidavit.accountant.remedies import did_you_mean, setting
from affidavit.certification import certify
from affidavit.experiments.cells import Cell, with_values
from affidavit.runfile import RunFile
from affidavit.solving import solvable_keys, solve_run
from affidavit.writing import write_whole

__all__ = ["Settled", "noise_keys", "settle"]

Value = float | int

_NOISE = ("noise_multiplier", "_noise")
_TEMPERATURE, _EPSILON = "temperature", "epsilon"
_FACTORS = Domain(1e-6, 1e6)
_ATTEMPTS = 5
_MARGIN = 1e-4
"""Certified arithmetic can give slightly more than the float64 search saw: the next target is as much smaller."""
_OFF_STEPS = 20


@dataclass(frozen=True, slots=True)
class Settled:
    """What was found for a cell's setting: key values and the certified ε, or why there are none."""

    values: Mapping[str, Value]
    epsilon_upper: float
    certificate: str | None = None
    refused: str = ""


def noise_keys(run: RunFile) -> tuple[str, ...]:
    """The keys that are the generator's noise: everything larger that costs less, else its ε's.

    Noise multipliers, other ``…_noise`` and the ``temperature``, as far as the cost depends on them; where
    there are none, keys that end in ``epsilon``. Every generator has one or the other.
    """
    counted = solvable_keys(run)
    keys = [key for key in _flat(run.generator.model_dump()) if "." in key or key in counted]
    noise = tuple(key for key in keys if key.endswith(_NOISE) or key == _TEMPERATURE)
    return noise or tuple(key for key in keys if key.endswith(_EPSILON))


def _flat(table: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """The fractional numbers of a table and of the tables within it, by dotted key."""
    found: dict[str, float] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, float):
            found[prefix + key] = value
    return found


def settle(cell: Cell, folder: Path, *, keyring: Keyring) -> Settled:
    """Solve, certify and remember in ``folder``; what is there already is read.

    A target that no value meets is an answer (``refused``), not an error.
    """
    place = folder / f"{cell.setting_id}.json"
    if place.is_file():
        known = json.loads(place.read_text(encoding="utf-8"))
        return Settled(known["values"], float(known["epsilon_upper"]), known["certificate"], known["refused"])
    found = _certified(cell, folder, keyring) if cell.protected else Settled(_noise_off(cell), math.inf)
    facts = {name: getattr(found, name) for name in Settled.__slots__}
    write_whole(place, json.dumps({**facts, "epsilon_upper": str(found.epsilon_upper)}, indent=2) + "\n")
    return found


def _certified(cell: Cell, folder: Path, keyring: Keyring) -> Settled:
    from affidavit.accountant.certified import certified_bound

    base = cell.run()
    keys = cell.method.solve or noise_keys(base)
    target = cell.epsilon
    for _ in range(_ATTEMPTS):
        try:
            values = _solve(base, keys, target)
        except NoValueFits as error:
            return Settled({}, math.inf, refused=error.message)
        run = cell.run(values)
        found = certified_bound(run.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper
        if found <= cell.epsilon:
            certified = certify(run, keyring=keyring)
            name = f"{cell.setting_id}.certificate.json"
            write_whole(folder / name, certified.envelope)
            return Settled(values, certified.cost.epsilon_upper, certificate=name)
        target *= cell.epsilon / found * (1.0 - _MARGIN)
    return Settled({}, math.inf, refused=f"no value found is certified at ε = {cell.epsilon:g}")


def _solve(run: RunFile, keys: tuple[str, ...], epsilon: float) -> dict[str, Value]:
    names = tuple(key.removeprefix("generator.") for key in keys)
    if len(names) == 1 and names[0] in run.numbers() and "." not in names[0]:
        return {names[0]: solve_run(run, epsilon=epsilon, key=names[0]).value}
    start = _numbers(run, names)
    found = solve(_cost(run, start), epsilon=epsilon, start=1.0, domain=_FACTORS, name=" and ".join(names))
    return _scaled(start, found.value)


def _numbers(run: RunFile, keys: tuple[str, ...]) -> dict[str, float]:
    known = _flat(run.generator.model_dump())
    for key in keys:
        if key not in known:
            hint = did_you_mean(key, list(known)) or f"For example {setting('methods.solve', [*known][:1])}."
            raise RunFileError(
                f"methods.solve: {key}", "not a number that can be scaled", allowed=" | ".join(known), hint=hint
            )
    return {key: known[key] for key in keys}


def _scaled(values: Mapping[str, float], factor: float) -> dict[str, Value]:
    return {key: value * factor for key, value in values.items()}


def _changed(run: RunFile, values: Mapping[str, Value]) -> RunFile:
    return run.with_generator(**with_values(run.generator.model_dump(), values))


def _cost(run: RunFile, start: Mapping[str, float]) -> Callable[[float], float]:
    """ε of the run with every key scaled; a setting that the generator refuses costs more than any budget."""

    def cost(factor: float) -> float:
        try:
            changed = _changed(run, _scaled(start, factor))
            return bound(changed.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper
        except RunFileError:
            return math.inf

    return cost


def _noise_off(cell: Cell) -> dict[str, Value]:
    """The settings with the least noise that the generator takes: none to speak of.

    The keys go in the direction that costs more, a factor of two at a time, as far as they are allowed.
    """
    if cell.method.baseline is not None or not cell.method.generator:
        return {}
    run = cell.run()
    keys = cell.method.solve or noise_keys(run)
    start = _numbers(run, tuple(key.removeprefix("generator.") for key in keys))
    cost = _cost(run, start)
    here, halved = cost(1.0), cost(0.5)
    if here == halved:
        raise UsageError(
            f"{cell.label}: which way is less noise is not clear from {start}, each costs ε = {here:g}",
            hint="Name its noise in `methods.solve`, or leave ε = inf out: `methods.epsilon = [4.0]`.",
        )
    step = 0.5 if halved > here else 2.0
    factor = 1.0
    for _ in range(_OFF_STEPS):
        try:
            _changed(run, _scaled(start, factor * step)).plan()
        except AffidavitError:
            break
        factor *= step
    if factor == 1.0:
        raise UsageError(
            f"{cell.label}: its noise cannot be turned down from {start}",
            hint="Leave ε = inf out: `methods.epsilon = [4.0]`.",
        )
    return _scaled(start, factor)
