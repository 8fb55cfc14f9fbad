"""The noise that a target ε needs, certified; or the least noise that there is, for ε = ∞.

Several keys are scaled together, by one factor: the noise multipliers of a method that has more than one
keep their proportions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import AffidavitError, NoValueFits, UsageError
from affidavit.certification import certify
from affidavit.experiments.cells import Cell
from affidavit.noise import Value, noise_values, scaled, scaled_cost, solve_noise
from affidavit.runfile import RunFile
from affidavit.writing import write_whole

__all__ = ["Settled", "settle"]

_OFF_STEPS = 20
_REFINED_STEPS = 40


@dataclass(frozen=True, slots=True)
class Settled:
    """What was found for a cell's setting: key values and the certified ε, or why there are none."""

    values: Mapping[str, Value]
    epsilon_upper: float
    certificate: str | None = None
    refused: str = ""


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
    try:
        values = solve_noise(cell.run(), epsilon=cell.epsilon, keys=cell.method.solve)
    except NoValueFits as error:
        return Settled({}, math.inf, refused=error.message)
    certified = certify(cell.run(values), keyring=keyring)
    name = f"{cell.setting_id}.certificate.json"
    write_whole(folder / name, certified.envelope)
    return Settled(values, certified.cost.epsilon_upper, certificate=name)


def _noise_off(cell: Cell) -> dict[str, Value]:
    """The settings with the least noise that the generator takes: none to speak of.

    The keys go in the direction that costs more, a factor of two at a time, then by halves of the last factor that was
    too far: as far as they are allowed, so that no ε is met with less noise than this.
    """
    if cell.method.baseline is not None or not cell.method.generator:
        return {}
    run = cell.run()
    keys = cell.method.solve or run.source.noise_keys(run.generator)
    start = noise_values(run, tuple(key.removeprefix("generator.") for key in keys))
    here, halved = scaled_cost(run, start, 1.0), scaled_cost(run, start, 0.5)
    if here == halved:
        raise UsageError(
            f"{cell.label}: which way is less noise is not clear from {start}, each costs ε = {here:g}",
            hint="Name its noise in `methods.solve`, or leave ε = inf out: `methods.epsilon = [4.0]`.",
        )
    step = 0.5 if halved > here else 2.0
    factor = 1.0
    for _ in range(_OFF_STEPS):
        try:
            run.with_generator(**scaled(start, factor * step)).plan()
        except AffidavitError:
            break
        factor *= step
    factor *= _further(run, start, factor, step)
    if factor == 1.0:
        raise UsageError(
            f"{cell.label}: its noise cannot be turned down from {start}",
            hint="Leave ε = inf out: `methods.epsilon = [4.0]`.",
        )
    return scaled(start, factor)


def _further(run: RunFile, start: Mapping[str, Value], factor: float, step: float) -> float:
    """How much less noise is still allowed, where a whole ``step`` is not."""
    allowed, refused = 0.0, 1.0
    for _ in range(_REFINED_STEPS):
        middle = (allowed + refused) / 2.0
        try:
            run.with_generator(**scaled(start, factor * step**middle)).plan()
        except AffidavitError:
            refused = middle
        else:
            allowed = middle
    return math.pow(step, allowed)
