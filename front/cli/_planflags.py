"""Options that say a plan in a few numbers, in the place of a plan file."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from affidavit.accountant.errors import PlanError, UsageError
from affidavit.cli._number import NUMBER
from affidavit.planflags import MECHANISMS, SAMPLINGS, PlanFlags, as_json

if TYPE_CHECKING:
    from affidavit.accountant.plan import Envelope

__all__ = [
    "Asked",
    "asked",
    "plan_line",
    "plan_options",
    "relation_option",
    "required_delta",
    "required_relation",
    "use_options",
]

_NEIGHBOURS = "Which data sets are neighbours: add-remove, zero-out or substitution; never assumed"
relation_option = click.option("--relation", help=f"{_NEIGHBOURS}: required where no file states one.")
required_relation = click.option("--relation", help=f"{_NEIGHBOURS}.  [required]")
"""Where no file can state one. Not click's own ``required``: the refusal says which there are."""

_MECHANISM = (
    click.option(
        "--mechanism", metavar="KIND", help=f"{' | '.join(MECHANISMS)}; as its parameter says, gaussian for --noise."
    ),
    click.option("--noise", type=NUMBER, metavar="X", help="Noise multiplier: the noise's scale over the sensitivity."),
    click.option("--rho", type=NUMBER, metavar="X", help="ρ of a mechanism of which only ρ-zCDP is known."),
    click.option("--range", type=NUMBER, metavar="X", help="Bounded range of an exponential mechanism."),
    click.option("--epsilon-each", type=NUMBER, metavar="X", help="ε of a mechanism of which only that is known."),
)
_USE = (
    click.option("--steps", type=int, metavar="N", help="How many adaptive uses; one if left out."),
    click.option("--epochs", metavar="N", help="In the place of --steps: N times records/batch, rounded up."),
    click.option("--rate", metavar="Q", help="Share of the records in a step, such as 0.01 or 256/60000."),
    click.option("--records", type=int, metavar="N", help="With --batch, in the place of --rate."),
    click.option("--batch", type=int, metavar="N", help="Records in a step; a mean under Poisson sampling."),
    click.option("--sampling", metavar="KIND", help=f"{' | '.join(SAMPLINGS)}; poisson if left out."),
    click.option("--show-plan", is_flag=True, help="Print the plan as a plan file, and nothing else."),
)
_NAMES = {each.name for each in fields(PlanFlags)} - {"target", "delta", "relation"}


def _stack(options: tuple[Callable[[Any], Any], ...]) -> Callable[[Any], Any]:
    """Add the options to a command, which gets one ``flags`` for all of them."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def called(**given: Any) -> Any:
            flags = PlanFlags(**{name: given.pop(name) for name in sorted(_NAMES & given.keys())})
            return function(flags=flags, **given)

        return functools.reduce(lambda decorated, option: option(decorated), reversed(options), called)

    return decorate


plan_options = _stack((*_MECHANISM, *_USE))
use_options = _stack(_USE)
"""For a command that solves for the mechanism's parameter."""


class Asked:
    """A plan as it was asked for: its envelope, and what has to be said of how the flags were read."""

    def __init__(self, envelope: Envelope, notes: tuple[str, ...] = (), *, from_file: bool = False) -> None:
        self.envelope, self.notes, self.from_file = envelope, notes, from_file

    def to_json(self) -> dict[str, Any]:
        """The plan that was bounded; with ``notes`` where it was made from flags."""
        return {"plan": as_json(self.envelope)} | ({} if self.from_file else {"notes": list(self.notes)})


def plan_line(envelope: Envelope) -> str:
    """The plan on one line."""
    return f"plan (a file by --show-plan): {json.dumps(as_json(envelope))}"


def asked(name: str, plan_file: str | None, flags: PlanFlags) -> Asked:
    """The plan of a file or of flags, never of both. Raises ``UsageError`` with the command that works."""
    from affidavit.planfile import read_envelope

    if plan_file is None:
        if not flags:
            example = flags.command(name, noise=1.1, steps=100)
            raise UsageError("no plan: name a plan file, or say it in numbers", hint=f"Such as: {example}")
        return Asked(flags.envelope(name), flags.notes(name))
    if flags:
        beside = PlanFlags(target=flags.target, delta=flags.delta, relation=flags.relation)
        try:
            read_envelope(plan_file, relation=beside.relation, delta=beside.delta)
        except PlanError:
            beside = PlanFlags(target=flags.target)
        raise UsageError(
            f"a plan is said by {plan_file} or by numbers, not by both",
            hint=f"One of them: {beside.command(name, plan_file)}, or {flags.command(name)}",
        )
    return Asked(read_envelope(plan_file, relation=flags.relation, delta=flags.delta), from_file=True)


def required_delta(name: str, plan_file: str | None, flags: PlanFlags, envelope: Envelope) -> float:
    """The plan's δ. Raises ``PlanError`` with the command that states one."""
    if envelope.delta is not None:
        return envelope.delta
    arguments = () if plan_file is None else (plan_file,)
    example = flags.command(name, *arguments, delta=1e-5)
    raise PlanError("delta", "missing", allowed="a number in [0, 1]", hint=f"Such as: {example}")
