"""``sigma``, ``epsilon`` and ``delta``: numbers for a plan, without data, model or keys."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from affidavit.cli._bounds import (
    delta_json,
    epsilon_json,
    print_methods,
    print_opinions,
    print_risk,
    print_solution,
    sentence,
)
from affidavit.cli._number import NUMBER
from affidavit.cli._output import json_option, lower_digits, note, print_json, upper_digits
from affidavit.cli._planflags import (
    Asked,
    asked,
    plan_line,
    plan_options,
    relation_option,
    required_delta,
    required_relation,
    use_options,
)

if TYPE_CHECKING:
    from affidavit.accountant.bound import Bound
    from affidavit.planflags import PlanFlags
    from affidavit.second_opinion import SecondOpinion

__all__ = ["delta", "epsilon", "sigma"]


@click.command()
@click.argument("plan_file", metavar="[PLAN.json]", required=False)
@plan_options
@click.option("--delta", "delta_flag", type=NUMBER, help="δ, where the file states none.")
@relation_option
@click.option("--method", help="One method only, named as in the table.")
@click.option("--second-opinion", is_flag=True, help="Also ask other accountants, where they are sound.")
@json_option
def epsilon(
    *,
    plan_file: str | None,
    flags: PlanFlags,
    delta_flag: float | None,
    relation: str | None,
    method: str | None,
    second_opinion: bool,
    show_plan: bool,
    as_json: bool,
) -> None:
    """ε of a plan at its δ, from both sides, by every method that applies.

    The plan is a file, {"relation", "delta", "plan"} in JSON or TOML (- reads stdin), or said in numbers: one
    mechanism (--noise, --rho, ...), --steps or --epochs, and what a step takes of the records.
    """
    from affidavit.accountant.bound import bound
    from affidavit.accountant.risk import risk_limits
    from affidavit.accountant.tradeoff import privacy_curve

    flags = replace(flags, delta=delta_flag, relation=relation)
    found = asked("epsilon", plan_file, flags)
    if show_plan:
        print_json(found.to_json()["plan"])
        return
    plan, where = found.envelope.plan, found.envelope.relation
    at = required_delta("epsilon", plan_file, flags, found.envelope)
    result = _settled(found, delta=at) if method is None else bound(plan, relation=where, delta=at, method=method)
    opinions = _asked_elsewhere(result) if second_opinion else ()
    curve = privacy_curve(plan, relation=where, delta=at) if method is None else None
    if as_json:
        risk = {} if curve is None else {"risk": risk_limits(curve).as_dict()}
        others = {"second_opinions": [asdict(opinion) for opinion in opinions]} if second_opinion else {}
        print_json(epsilon_json(result) | risk | found.to_json() | others)
        return
    _say_plan(found)
    if curve is not None:
        print_methods(result)
        print_risk(curve)
    if opinions:
        print_opinions(opinions)
    click.echo(sentence(result))


def _settled(found: Asked, *, delta: float | None = None, epsilon: float | None = None) -> Bound:
    """What a certificate would state, or what the issuing engine says alone, with a word on it."""
    from affidavit.accountant.settle import known

    result, gap = known(found.envelope.plan, relation=found.envelope.relation, delta=delta, epsilon=epsilon)
    if gap:
        note(f"Not confirmed by the verifier, so no certificate would state it: {gap}.")
    return result


def _say_plan(found: Asked) -> None:
    """How numbers were read, before what they cost; a file speaks for itself."""
    if not found.from_file:
        for line in (plan_line(found.envelope), *found.notes, ""):
            click.echo(line)


def _asked_elsewhere(result: Bound) -> tuple[SecondOpinion, ...]:
    """What other accountants say; a contradiction beyond their stated errors is an error that names both."""
    from affidavit.second_opinion import check_opinions, second_opinions

    opinions = second_opinions(result)
    check_opinions(result, opinions)
    return opinions


@click.command()
@click.argument("plan_file", metavar="[PLAN.json]", required=False)
@plan_options
@click.option("--epsilon", "epsilon_flag", type=NUMBER, required=True, help="The ε at which δ is asked for.")
@relation_option
@json_option
def delta(
    *,
    plan_file: str | None,
    flags: PlanFlags,
    epsilon_flag: float,
    relation: str | None,
    show_plan: bool,
    as_json: bool,
) -> None:
    """δ of a plan at a given ε, from both sides, by every method that applies.

    The plan is a file or said in numbers, as for epsilon.
    """
    from affidavit.accountant import validate

    found = asked("delta", plan_file, replace(flags, target=epsilon_flag, relation=relation))
    if show_plan:
        print_json(found.to_json()["plan"])
        return
    at = validate.real(epsilon_flag, path="--epsilon")
    result = _settled(found, epsilon=at)
    if as_json:
        print_json(delta_json(result) | found.to_json())
        return
    _say_plan(found)
    print_methods(result, side="delta")
    low, high = lower_digits(result.delta_lower), upper_digits(result.delta_upper)
    click.echo(f"δ at ε = {at:g} is at least {low} and at most {high} ({result.relation}, by {result.method}).")


@click.command()
@click.option("--epsilon", "epsilon_upper", type=NUMBER, required=True, help="Target ε.")
@click.option("--delta", "delta_flag", type=NUMBER, required=True, help="δ at which ε is asked for.")
@click.option("--mechanism", metavar="KIND", help="gaussian | laplace; gaussian if left out.")
@use_options
@required_relation
@json_option
def sigma(
    *,
    epsilon_upper: float,
    delta_flag: float,
    flags: PlanFlags,
    relation: str | None,
    show_plan: bool,
    as_json: bool,
) -> None:
    """The smallest noise multiplier of a Gaussian (or Laplace) mechanism for a target ε. No file needed.

    The noise multiplier is the noise's scale over the sensitivity under the relation: the standard deviation over
    the l2 sensitivity, or Laplace's scale over the l1 sensitivity.
    """
    from affidavit.accountant import validate
    from affidavit.solving import solve_plan, with_solution

    flags = replace(flags, target=epsilon_upper, delta=delta_flag, relation=relation)
    if flags.mechanism is not None:
        validate.choice(flags.mechanism, path="--mechanism", options=("gaussian", "laplace"))
    started = flags.envelope("sigma", start=1.0)
    solved = solve_plan(started, epsilon=epsilon_upper)
    found = Asked(with_solution(started, solved), flags.notes("sigma"))
    if show_plan:
        print_json(found.to_json()["plan"])
        return
    print_solution(solved, as_json=as_json, beside=found.to_json())
    if not as_json:
        for line in (*found.notes, plan_line(found.envelope)):
            note(line)
