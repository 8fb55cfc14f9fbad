"""``calibrate``: the value of a parameter that costs at most a target ε."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from affidavit.accountant import decimals
from affidavit.accountant.errors import UsageError
from affidavit.accountant.remedies import setting
from affidavit.cli._bounds import print_designs, print_solution, print_solutions
from affidavit.cli._number import NUMBER
from affidavit.cli._output import json_option, print_json

if TYPE_CHECKING:
    from affidavit.runfile import RunFile

__all__ = ["calibrate"]


@click.command()
@click.argument("file", metavar="RUN.toml|PLAN.json")
@click.option("--epsilon", type=NUMBER, help="Target ε; a run file's budget if left out.")
@click.option(
    "--solve", "path", metavar="PATH", help="Which parameter, e.g. generator.temperature, plan.of.noise_multiplier."
)
@click.option("--delta", type=NUMBER, help="δ, where a plan file states none.")
@click.option("--relation", help="The relation, where a plan file states none.")
@json_option
def calibrate(
    *, file: str, epsilon: float | None, path: str | None, delta: float | None, relation: str | None, as_json: bool
) -> None:
    """Which value of a parameter costs at most ε; the safe side, and checked again.

    For a run file without --solve: every parameter that could do it alone. Designs that would cost less at the
    same settings (another relation, another sampler, one shot a subset) are named beside it.
    """
    from affidavit.designs import cheaper_designs
    from affidavit.planfile import read_envelope
    from affidavit.solving import fitting_values, solve_plan, solve_run

    run = _run_file(file)
    if run is None:
        if epsilon is None:
            raise UsageError("--epsilon is missing", hint="Say which ε to meet, for example `--epsilon 1`.")
        envelope = read_envelope(file, relation=relation, delta=delta)
        print_solution(solve_plan(envelope, epsilon=epsilon, path=path), as_json=as_json)
        return
    for flag, given in (("--delta", delta), ("--relation", relation)):
        if given is not None:
            raise UsageError(f"{flag}: a run file states it", hint=f"Remove `{flag}`: the run file says what holds.")
    target = run.budget.epsilon if epsilon is None else epsilon
    if not as_json:
        print_designs(cheaper_designs(run), delta=run.budget.delta)
    if path is not None:
        print_solution(solve_run(run, epsilon=target, key=path), as_json=as_json)
        return
    solutions = list(fitting_values(run, epsilon=target))
    if not solutions:
        raise UsageError(
            f"no single parameter brings this run to ε = {target:g}",
            hint=_affordable(run),
        )
    if as_json:
        print_json([solved.to_json() for solved in solutions])
    else:
        print_solutions(solutions)


def _affordable(run: RunFile) -> str:
    """An ε that the run meets as it is."""
    from affidavit.accountant.settle import known

    cost = known(run.plan(), relation=run.relation, delta=run.budget.delta)[0].epsilon_upper
    if not math.isfinite(cost):
        return "At this δ it costs ε = ∞: raise `budget.delta`, or the noise."
    return f"As it is it meets {setting('--epsilon', decimals.show(decimals.round_up(cost, digits=3)))}."


def _run_file(file: str) -> RunFile | None:
    """The run file, if the file is one: TOML with a [generator]."""
    if Path(file).suffix.lower() != ".toml":
        return None
    from affidavit.runfile import parse_run
    from affidavit.strict import read_toml

    content = read_toml(Path(file))
    return None if "plan" in content and "generator" not in content else parse_run(content, folder=Path(file).parent)
