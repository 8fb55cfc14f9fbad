"""``sigma``, ``epsilon`` and ``delta``: numbers for a plan, without data, model or keys."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from affidavit.accountant.errors import PlanError
from affidavit.cli._bounds import (
    delta_json,
    epsilon_json,
    print_methods,
    print_opinions,
    print_risk,
    print_solution,
    sentence,
)
from affidavit.cli._output import json_option, lower_digits, print_json, upper_digits

if TYPE_CHECKING:
    from affidavit.accountant.bound import Bound
    from affidavit.accountant.second_opinion import SecondOpinion

__all__ = ["delta", "epsilon", "relation_option", "sigma"]

relation_option = click.option(
    "--relation", help="Which data sets are neighbours: add-remove, zero-out or substitution; never assumed."
)


@click.command()
@click.argument("plan_file", metavar="PLAN.json")
@click.option("--delta", "delta_flag", type=float, help="δ, where the file states none.")
@relation_option
@click.option("--method", help="One method only, named as in the table.")
@click.option("--second-opinion", is_flag=True, help="Also ask other accountants, where they are sound.")
@json_option
def epsilon(
    *,
    plan_file: str,
    delta_flag: float | None,
    relation: str | None,
    method: str | None,
    second_opinion: bool,
    as_json: bool,
) -> None:
    """ε of a plan at its δ, from both sides, by every method that applies.

    PLAN.json is {"relation", "delta", "plan"}, in JSON or TOML; - reads stdin.
    """
    from affidavit.accountant.bound import bound
    from affidavit.accountant.tradeoff import privacy_curve
    from affidavit.planfile import read_envelope

    envelope = read_envelope(plan_file, relation=relation, delta=delta_flag)
    if envelope.delta is None:
        raise PlanError("delta", "missing", allowed="a number in [0, 1]", hint="Put it in the file, or --delta 1e-5.")
    result = bound(envelope.plan, relation=envelope.relation, delta=envelope.delta, method=method)
    opinions = _asked_elsewhere(result) if second_opinion else ()
    if as_json:
        others = {"second_opinions": [asdict(opinion) for opinion in opinions]} if second_opinion else {}
        print_json(epsilon_json(result) | others)
        return
    if method is None:
        print_methods(result)
        print_risk(privacy_curve(envelope.plan, relation=envelope.relation, delta=envelope.delta))
    if opinions:
        print_opinions(opinions)
    click.echo(sentence(result))


def _asked_elsewhere(result: Bound) -> tuple[SecondOpinion, ...]:
    """What other accountants say; a contradiction beyond their stated errors is an error that names both."""
    from affidavit.accountant.second_opinion import check_opinions, second_opinions

    opinions = second_opinions(result)
    check_opinions(result, opinions)
    return opinions


@click.command()
@click.argument("plan_file", metavar="PLAN.json")
@click.option("--epsilon", "epsilon_flag", type=float, required=True, help="The ε at which δ is asked for.")
@relation_option
@json_option
def delta(*, plan_file: str, epsilon_flag: float, relation: str | None, as_json: bool) -> None:
    """δ of a plan at a given ε, from both sides, by every method that applies."""
    from affidavit.accountant import validate
    from affidavit.accountant.bound import bound
    from affidavit.planfile import read_envelope

    envelope = read_envelope(plan_file, relation=relation)
    at = validate.real(epsilon_flag, path="--epsilon")
    result = bound(envelope.plan, relation=envelope.relation, epsilon=at)
    if as_json:
        print_json(delta_json(result))
        return
    print_methods(result)
    low, high = lower_digits(result.delta_lower), upper_digits(result.delta_upper)
    click.echo(f"δ at ε = {at:g} is at least {low} and at most {high} ({result.relation}, by {result.method}).")


@click.command()
@click.option("--epsilon", "epsilon_upper", type=float, required=True, help="Target ε.")
@click.option("--delta", "delta_flag", type=float, required=True, help="δ at which ε is asked for.")
@click.option("--steps", type=int, default=1, show_default=True, help="How many adaptive uses.")
@click.option("--rate", type=float, default=1.0, show_default=True, help="Poisson sampling rate of each use.")
@relation_option
@json_option
def sigma(
    *, epsilon_upper: float, delta_flag: float, steps: int, rate: float, relation: str | None, as_json: bool
) -> None:
    """The smallest noise multiplier of a Gaussian used STEPS times at RATE. No file needed.

    The noise multiplier is the standard deviation over the l2 sensitivity under the relation.
    """
    from affidavit.solving import smallest_noise_multiplier

    solved = smallest_noise_multiplier(
        epsilon=epsilon_upper, delta=delta_flag, steps=steps, rate=rate, relation=relation
    )
    print_solution(solved, as_json=as_json)
