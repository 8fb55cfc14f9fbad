"""Other designs of a run that cost less at the same settings: another relation, sampler, or one shot a subset.

Which of them is meant is for the user to say: another relation is another promise. What each costs is computed
from its own plan, as everything else is; nothing here knows a generator by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args, get_origin

from affidavit.accountant.errors import NotSupported, PlanError, RunFileError
from affidavit.accountant.settle import known
from affidavit.accountant.validate import RELATIONS
from affidavit.runfile import RunFile

__all__ = ["Design", "cheaper_designs"]

WORTH_SAYING = 0.98
"""A design is named if it costs less than this share of the present ε."""
FEWER = "shots_per_subset"


@dataclass(frozen=True, slots=True)
class Design:
    """``change`` as it would stand in the run file; what it costs at the run's δ; ``note``: what else it changes."""

    change: str
    epsilon_upper: float
    note: str


def cheaper_designs(run: RunFile) -> tuple[Design, ...]:
    """The designs one change away that cost clearly less, cheapest first. Raises what ``run.plan()`` does."""
    present = _cost(run)
    found = []
    for change, note, other in _changes(run):
        try:
            cost = _cost(other)
        except (NotSupported, PlanError, RunFileError):
            continue
        if cost < WORTH_SAYING * present:
            found.append(Design(change, cost, note))
    return tuple(sorted(found, key=lambda design: design.epsilon_upper))


def _cost(run: RunFile) -> float:
    return known(run.plan(), relation=run.relation, delta=run.budget.delta)[0].epsilon_upper


def _changes(run: RunFile) -> Iterator[tuple[str, str, RunFile]]:
    for relation in RELATIONS:
        if relation != run.relation:
            note = "another promise: docs/relations.md"
            yield f'relation = "{relation}"', note, run.model_copy(update={"relation": relation})
    for name, field in type(run.generator).model_fields.items():
        options = get_args(field.annotation) if get_origin(field.annotation) is Literal else ()
        for option in options:
            if option != getattr(run.generator, name):
                yield from _generator_change(run, name, option, f'{name} = "{option}"', "another way to run it")
    shots = getattr(run.generator, FEWER, None)
    if isinstance(shots, int) and shots > 1:
        yield from _generator_change(run, FEWER, 1, f"{FEWER} = 1", "fewer records are seen at a time")


def _generator_change(
    run: RunFile, name: str, value: object, change: str, note: str
) -> Iterator[tuple[str, str, RunFile]]:
    try:
        yield change, note, run.with_generator(**{name: value})
    except RunFileError:
        return
