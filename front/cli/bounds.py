"""``sigma``, ``epsilon`` and ``delta``: numbers for a plan, without data, model or keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from affidavit.accountant.errors import NotSupported, PlanError
from affidavit.accountant.validate import RELATIONS
from affidavit.cli._output import json_option, lower_digits, note, print_json, print_table, upper_digits

if TYPE_CHECKING:
    from affidavit.accountant.bound import Bound, MethodResult
    from affidavit.accountant.plan import Envelope

__all__ = ["delta", "epsilon", "relation_option", "sigma"]

relation_option = click.option(
    "--relation", type=click.Choice(RELATIONS), help="Which datasets are neighbours; must agree with the file."
)


@click.command()
@click.argument("plan_file", metavar="PLAN.json")
@click.option("--delta", "delta_flag", type=float, help="δ, where the file states none.")
@relation_option
@click.option("--method", help="Show one method only (as named in the table).")
@click.option("--second-opinion", is_flag=True, help="Also ask other accountants, where they are sound.")
@json_option
def epsilon(
    plan_file: str,
    delta_flag: float | None,
    relation: str | None,
    method: str | None,
    second_opinion: bool,
    as_json: bool,
) -> None:
    """ε of a plan at its δ, from both sides, by every method that applies.

    PLAN.json is {"relation", "delta", "plan"} as JSON or TOML; - reads stdin.
    """
    from affidavit.accountant.bound import bound
    from affidavit.planfile import read_envelope

    envelope = read_envelope(plan_file, relation=relation, delta=delta_flag)
    if envelope.delta is None:
        raise PlanError("delta", "missing", allowed="a number in [0, 1]", hint="Add it to the file, or give --delta 1e-5.")
    result = bound(envelope.plan, relation=envelope.relation, delta=envelope.delta)
    chosen = _chosen(result, method)
    opinions = _second_opinions(envelope, result) if second_opinion else None
    if as_json:
        print_json(_epsilon_json(result, chosen, envelope.delta, opinions))
        return
    _epsilon_table(result, envelope, only=chosen, requested=method is not None)
    for opinion in opinions or ():
        print_table("", ("second opinion", "ε", "verdict"), [tuple(map(str, opinion))])


@click.command()
@click.argument("plan_file", metavar="PLAN.json")
@click.option("--epsilon", "epsilon_flag", type=float, required=True, help="The ε at which to bound δ.")
@relation_option
@json_option
def delta(plan_file: str, epsilon_flag: float, relation: str | None, as_json: bool) -> None:
    """δ of a plan at a given ε, from both sides."""
    from affidavit.accountant import validate
    from affidavit.accountant.bound import bound
    from affidavit.planfile import read_envelope

    envelope = read_envelope(plan_file, relation=relation)
    at = validate.real(epsilon_flag, path="--epsilon")
    result = bound(envelope.plan, relation=envelope.relation, epsilon=at)
    if as_json:
        print_json(
            {
                "delta_upper": result.delta_upper,
                "delta_lower": result.delta_lower,
                "epsilon": at,
                "relation": result.relation,
                "method": result.method,
                "methods": [_method_json(each, side="delta") for each in result.methods],
            }
        )
        return
    rows = [
        (
            _marked(each, result),
            "" if each.delta_lower is None else lower_digits(each.delta_lower),
            "" if each.delta_upper is None else upper_digits(each.delta_upper),
            each.why,
        )
        for each in result.methods
    ]
    print_table(
        f"δ at ε = {at:g}, relation {result.relation}",
        ("method", "δ at least", "δ at most", "why"),
        rows,
        right=(1, 2),
    )
    click.echo(f"δ is between {lower_digits(result.delta_lower)} and {upper_digits(result.delta_upper)} ({result.method}).")


@click.command()
@click.option("--epsilon", "epsilon_upper", type=float, required=True, help="Target ε.")
@click.option("--delta", "delta_flag", type=float, required=True, help="δ at which ε is asked for.")
@click.option("--steps", type=int, default=1, show_default=True, help="How many adaptive uses.")
@click.option("--rate", type=float, default=1.0, show_default=True, help="Poisson sampling rate of each use.")
@relation_option
@json_option
def sigma(
    epsilon_upper: float, delta_flag: float, steps: int, rate: float, relation: str | None, as_json: bool
) -> None:
    """The smallest noise multiplier for a Gaussian, used STEPS times at RATE. No file needed.

    The noise multiplier is the standard deviation over the l2 sensitivity under the relation.
    """
    from affidavit.solving import noise_multiplier_for

    solved = noise_multiplier_for(
        epsilon_upper=epsilon_upper, delta=delta_flag, steps=steps, rate=rate, relation=relation
    )
    if as_json:
        print_json(solved.to_json())
        return
    click.echo(upper_digits(solved.value, digits=7))
    note(
        f"noise multiplier for ε ≤ {epsilon_upper:g} at δ = {delta_flag:g}, {solved.relation}, {steps} steps at rate {rate:g}: "
        f"it costs ε between {lower_digits(solved.epsilon_lower)} and {upper_digits(solved.epsilon_upper)} ({solved.method})"
    )


def _chosen(result: Bound, method: str | None) -> MethodResult | None:
    if method is None:
        return None
    for each in result.methods:
        if each.name == method:
            if not each.applies:
                raise NotSupported(f"method {method} does not apply: {each.why}", hint="Leave --method out to see all.")
            return each
    names = ", ".join(each.name for each in result.methods)
    raise NotSupported(f"there is no method {method!r}", hint=f"Known methods: {names}.")


def _method_json(each: MethodResult, *, side: str) -> dict[str, Any]:
    lower, upper = _sides(each, side=side)
    return {
        "name": each.name,
        f"{side}_upper": upper,
        f"{side}_lower": lower,
        "applies": each.applies,
        "why": each.why,
    }


def _sides(each: MethodResult, *, side: str) -> tuple[float | None, float | None]:
    """The two sides of ε or of δ, None where the method has none."""
    if not each.applies:
        return None, None
    if side == "epsilon":
        return each.epsilon_lower, each.epsilon_upper
    return each.delta_lower, each.delta_upper


def _cells(each: MethodResult, *, side: str) -> tuple[str, str]:
    lower, upper = _sides(each, side=side)
    return (
        "" if lower is None else lower_digits(lower),
        "" if upper is None else upper_digits(upper),
    )
