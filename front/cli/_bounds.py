"""Bounds, risk limits and solutions as tables, sentences and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from affidavit.cli._output import lower_digits, note, print_json, print_table, upper_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from affidavit.accountant.bound import Bound, MethodResult
    from affidavit.accountant.tradeoff import PrivacyCurve
    from affidavit.designs import Design
    from affidavit.second_opinion import SecondOpinion
    from affidavit.solving import Solution

__all__ = [
    "delta_json",
    "epsilon_json",
    "print_designs",
    "print_methods",
    "print_opinions",
    "print_risk",
    "print_solution",
    "print_solutions",
    "sentence",
]


def epsilon_json(result: Bound) -> dict[str, Any]:
    """The form of ``epsilon --json``."""
    return {
        "epsilon_upper": result.epsilon_upper,
        "epsilon_lower": result.epsilon_lower,
        "delta": result.delta_upper,
        "relation": result.relation,
        "method": result.method,
        "methods": [_method_json(each, side="epsilon") for each in result.methods],
    }


def delta_json(result: Bound) -> dict[str, Any]:
    """The same for δ at a given ε."""
    return {
        "delta_upper": result.delta_upper,
        "delta_lower": result.delta_lower,
        "epsilon": result.epsilon_upper,
        "relation": result.relation,
        "method": result.method,
        "methods": [_method_json(each, side="delta") for each in result.methods],
    }


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
    if not each.applies:
        return None, None
    if side == "epsilon":
        return each.epsilon_lower, each.epsilon_upper
    return each.delta_lower, each.delta_upper


def print_methods(result: Bound, *, side: Literal["epsilon", "delta"] = "epsilon") -> None:
    """Every method side by side; the one that ``bound`` rests on is marked. ``side`` is what was asked for."""
    symbol = "ε" if side == "epsilon" else "δ"
    at = f"δ = {result.delta_upper:g}" if side == "epsilon" else f"ε = {result.epsilon_upper:g}"
    rows = []
    for each in result.methods:
        lower, upper = _sides(each, side=side)
        remark = each.why if not each.applies else "best" if each.name == result.method else ""
        rows.append(
            (
                each.name,
                "" if not lower else lower_digits(lower),
                "" if upper is None else upper_digits(upper),
                remark,
            )
        )
    print_table(
        f"{symbol} at {at}, {result.relation}",
        ("method", f"{symbol} at least", f"{symbol} at most", ""),
        rows,
        right=(1, 2),
    )


def sentence(result: Bound) -> str:
    """The bracket in words."""
    low, high = lower_digits(result.epsilon_lower), upper_digits(result.epsilon_upper)
    return (
        f"ε at δ = {result.delta_upper:g} is at least {low} and at most {high} ({result.relation}, by {result.method})."
    )


def print_risk(curve: PrivacyCurve) -> None:
    """What the whole curve allows an attacker who wants to know whether a record was used."""
    from affidavit.accountant.risk import risk_limits

    limits = risk_limits(curve).facts()
    print_table("What that allows an attack on one record", limits.columns, limits.rows, right=(1, 2))


def print_opinions(opinions: Iterable[SecondOpinion]) -> None:
    """Other accountants side by side; they are compared, never used."""
    print_table(
        "Second opinions",
        ("accountant", "ε at least", "ε at most", ""),
        [
            (
                opinion.tool,
                lower_digits(opinion.epsilon_lower) if opinion.applies else "",
                upper_digits(opinion.epsilon_upper) if opinion.applies else "",
                "does not contradict ours" if opinion.applies else opinion.why,
            )
            for opinion in opinions
        ],
        right=(1, 2),
    )


def print_solution(solved: Solution, *, as_json: bool, beside: Mapping[str, Any] | None = None) -> None:
    """The value alone on stdout, what it costs on stderr; or all of it, and what is ``beside``, as JSON."""
    if as_json:
        print_json(solved.to_json() | dict(beside or {}))
        return
    click.echo(_number(solved.value))
    note(
        f"{solved.parameter} = {_number(solved.value)} costs ε between {lower_digits(solved.epsilon_lower)} and "
        f"{upper_digits(solved.epsilon_upper)} at δ = {solved.delta:g} ({solved.relation}, by {solved.method})."
    )


def print_solutions(solutions: Iterable[Solution]) -> None:
    """Several parameters, each solved with the others left as they are."""
    print_table(
        "Each alone would do",
        ("parameter", "value", "ε at least", "ε at most"),
        [
            (
                solved.parameter,
                _number(solved.value),
                lower_digits(solved.epsilon_lower),
                upper_digits(solved.epsilon_upper),
            )
            for solved in solutions
        ],
        right=(1, 2, 3),
    )


def print_designs(designs: Iterable[Design], *, delta: float) -> None:
    """What else could be changed, on stderr: a choice for the user, not an answer to the question."""
    for design in designs:
        note(f"{design.change} would cost ε = {upper_digits(design.epsilon_upper)} at δ = {delta:g} ({design.note}).")


def _number(value: float | int) -> str:
    return repr(value) if isinstance(value, float) else str(value)
