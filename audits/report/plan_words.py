"""A plan as a sentence, for readers who do not read JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import fields
from itertools import groupby

from affidavit.accountant.plan import (
    Compose,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    ZeroConcentrated,
    leaves,
)
from affidavit.audits.report.numbers import short

__all__ = ["places_in_words", "plan_in_words", "uses_in_words"]

_PATH = re.compile(r"\bplan(?:\.of|\.parts\[(?:\d+|\*)\])+")
_STEP = re.compile(r"\.of|\.parts\[(\d+|\*)\]")
_MECHANISMS = {
    "exponential": "the exponential mechanism",
    "gaussian": "the Gaussian mechanism",
    "discrete-gaussian": "the discrete Gaussian mechanism",
    "laplace": "the Laplace mechanism",
}


def places_in_words(text: str, plan: Plan) -> str:
    """``text`` with every path into the plan said as what stands there; a path that leads nowhere stays."""
    return _PATH.sub(lambda found: _place(found.group(), plan), text)


def _place(path: str, plan: Plan) -> str:
    node: Plan | None = plan
    among: list[str] = []
    for step in _STEP.finditer(path):
        number = step.group(1)
        if number is None:
            node = getattr(node, "of", None)
        else:
            parts = getattr(node, "parts", ())
            at = 0 if number == "*" else int(number)
            node = parts[at] if at < len(parts) else None
            if len(parts) > 1:
                among.append("every part" if number == "*" else f"part {at + 1} of {len(parts)}")
    if node is None:
        return path
    name = _MECHANISMS.get(node.kind, f"the {node.kind.replace('-', ' ')} mechanism")
    if not isinstance(node, Leaf):
        name = f"the {node.kind.replace('-', ' ')} step"
    return name + (f" ({', '.join(among)})" if among else "")


def plan_in_words(plan: Plan) -> str:
    """What runs, from the outside in; equal neighbouring parts are said once."""
    match plan:
        case Exponential(range=spread):
            return f"a draw by the exponential mechanism of range {short(spread, digits=4)}"
        case Gaussian(noise_multiplier=noise):
            return f"a Gaussian mechanism with noise multiplier {short(noise, digits=4)}"
        case DiscreteGaussian(noise_multiplier=noise):
            return f"a discrete Gaussian mechanism with noise multiplier {short(noise, digits=4)}"
        case Laplace(noise_multiplier=noise):
            return f"a Laplace mechanism with noise multiplier {short(noise, digits=4)}"
        case Pure(epsilon=epsilon):
            return f"a mechanism of which only ε = {short(epsilon, digits=4)} is known"
        case ZeroConcentrated(rho=rho):
            return f"a mechanism of which only ρ = {short(rho, digits=4)} (zCDP) is known"
        case Leaf():
            settings = ", ".join(f"{field.name} {getattr(plan, field.name)}" for field in fields(plan))
            return f"a mechanism of kind {plan.kind}" + (f" ({settings})" if settings else "")
        case Repeat(count=count, of=of):
            return f"{count:,} times in a row, {plan_in_words(of)}"
        case Poisson(rate=rate, of=of):
            return f"on a fresh sample that holds each record with probability {short(rate)}, {plan_in_words(of)}"
        case WithoutReplacement(population=population, sample=sample, of=of):
            return f"on a fresh sample of {sample:,} of {population:,} records, {plan_in_words(of)}"
        case Parallel(parts=parts):
            return _grouped(parts, "on each of {n} disjoint parts of the data", "on one part of the data")
        case Compose(parts=parts):
            return _grouped(parts, "{n} times, one after another", "")
        case _:
            return f"a node of kind {plan.kind}"


def _grouped(parts: Sequence[Plan], several: str, single: str) -> str:
    said = []
    for part, run in groupby(parts):
        number = len(list(run))
        opening = several.format(n=number) if number > 1 else single
        said.append(f"{opening}: {plan_in_words(part)}" if opening else plan_in_words(part))
    return "; then ".join(said) or "nothing"


def uses_in_words(plan: Plan) -> str:
    """How many draws there are in all."""
    total = sum(uses for _, _, uses in leaves(plan))
    return f"{total:,} private draw" + ("" if total == 1 else "s")
