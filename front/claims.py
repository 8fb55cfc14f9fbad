"""Published claims, checked: each row of the four papers with our bracket and a verdict.

Verdicts, by rule:

    holds           the upper side is at most the claim
    refuted         the lower side of an explicit strategy, attained by the paper's own releases,
                    exceeds the claim
    not supported   the upper side exceeds the claim, and no strategy that exceeds it is known
    unstated        the paper does not give enough to compute

The settings are in ``claims_data.toml``; every number is computed by ``affidavit.accountant`` when
asked for. Where a plan only bounds what the paper releases (AdaDPSyn: adaptive radii and counts), its
lower side says nothing about the paper and is reported as 0.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal, get_args

from affidavit.accountant.bound import bound
from affidavit.accountant.calibrate import Domain, solve
from affidavit.accountant.errors import NoValueFits
from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Gaussian,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    to_dict,
)
from affidavit.accountant.settle import known
from affidavit.accountant.validate import Relation

__all__ = [
    "Assessment",
    "Claim",
    "Noise",
    "Verdict",
    "assess",
    "claims",
    "published",
    "tally",
    "to_json",
    "to_markdown",
    "to_rows",
]

Verdict = Literal["holds", "not supported", "refuted", "unstated"]

_TOLERANCE = 5e-4
_NOISE_TOLERANCE = 2e-3
_SEARCHED = 256.0
"""Factor up to which a noise parameter is changed to make a claim hold."""
_SAME_LABEL = "neighbours keep the label, class sizes are public"


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise parameter of a claim: where it sits in the plan, and in the paper's own unit.

    ``path`` leads to the number in the plan's dictionary. The paper's value is the plan's, or
    ``width`` / the plan's where the paper states a temperature.
    """

    name: str
    used: float
    path: tuple[str | int, ...]
    width: float | None = None

    def in_paper(self, value: float) -> float:
        """A plan's value in the paper's unit, and back."""
        return value if self.width is None else self.width / value


@dataclass(frozen=True, slots=True)
class Claim:
    """One published row: what is claimed, for which plan, under which reading.

    ``plan`` is None if the paper does not give enough. ``attained``: the plan's worst case is one of
    the paper's own releases, so a lower side of the plan refutes.
    """

    paper: str
    table: str
    setting: str
    claimed: float
    delta: float
    relation: Relation | None
    sampler: str
    assumption: str
    plan: Plan | None = None
    attained: bool = True
    noise: Noise | None = None


@dataclass(frozen=True, slots=True)
class Assessment:
    """A claim with our bracket of its ε and the verdict; ``noise_needed`` in the paper's unit."""

    claim: Claim
    epsilon_lower: float | None
    epsilon_upper: float | None
    verdict: Verdict
    noise_needed: float | None = None


def claims(*, noise: bool = False) -> list[Assessment]:
    """Every published claim, assessed; with ``noise``, also what each claim would need."""
    return [assess(claim, noise=noise) for claim in published()]


def assess(claim: Claim, *, noise: bool = False) -> Assessment:
    """Bracket one claim's ε, by both engines, and judge it; the lower side of stated data sets is one engine's."""
    if claim.plan is None or claim.relation is None:
        return Assessment(claim, None, None, "unstated")
    found, _ = known(claim.plan, relation=claim.relation, delta=claim.delta)
    lower = found.epsilon_lower
    if not claim.attained:
        lower = 0.0
    elif not found.attained:
        explicit = bound(claim.plan, relation=claim.relation, delta=claim.delta, tolerance=_TOLERANCE, explicit=True)
        lower = explicit.epsilon_lower
    needed = _needed(claim) if noise else None
    return Assessment(claim, lower, found.epsilon_upper, _verdict(claim.claimed, lower, found.epsilon_upper), needed)


def _verdict(claimed: float, lower: float, upper: float) -> Verdict:
    if upper <= claimed:
        return "holds"
    return "refuted" if lower > claimed else "not supported"


def _needed(claim: Claim) -> float | None:
    """The value of the noise parameter, in the paper's unit, at which the claim would just hold."""
    noise, plan, relation = claim.noise, claim.plan, claim.relation
    if noise is None or plan is None or relation is None:
        return None
    base = to_dict(plan)

    def cost(value: float) -> float:
        changed = _replaced(base, noise.path, value)
        return bound(changed, relation=relation, delta=claim.delta, tolerance=_NOISE_TOLERANCE).epsilon_upper

    start = noise.in_paper(noise.used)  # an involution: also from the paper's unit to the plan's
    domain = Domain(start / _SEARCHED, start * _SEARCHED)
    try:
        found = solve(
            cost, epsilon=claim.claimed, start=start, domain=domain, name=noise.name, tolerance=_NOISE_TOLERANCE
        )
    except NoValueFits:
        return None
    return noise.in_paper(found.value)


def _replaced(node: Mapping[str, Any], path: tuple[str | int, ...], value: float) -> dict[str, Any]:
    """A copy of a plan's dictionary with the number at ``path`` replaced."""
    copied: dict[str, Any] = deepcopy(dict(node))
    holder: Any = copied
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return copied


def published() -> tuple[Claim, ...]:
    """Every row of the papers, in their order, from the package's data file."""
    data = tomllib.loads(files("affidavit").joinpath("claims_data.toml").read_text(encoding="utf-8"))
    readers = {
        "gaussian": _gaussian,
        "noisy_max": _noisy_max,
        "adadpsyn": _adadpsyn,
        "prism": _prism,
        "unstated": _unstated,
    }
    return tuple(
        claim
        for kind, tables in data.items()
        for table in tables
        for row in table["rows"]
        for claim in readers[kind](table, row)
    )


def _gaussian(table: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[Claim]:
    """Tang et al., Algorithm 1: noise √2 σ on a sum of ℓ2 sensitivity √2 (substitution).

    The experiments sample without replacement; the proof (remark A.6) is for Poisson sampling and
    one record added or removed. Both are shown. The multiplier is σ in both: the paper keeps the
    sensitivity √2, also where adding a record moves the sum by 1 only.
    """
    sample = row["subsets"] * row["shots"]
    population = row["population"]
    delta = 1.0 / row.get("delta_from", population)
    for claimed, sigma in zip(table["claimed"], row["sigmas"], strict=True):
        inner = Gaussian(sigma)
        noise = Noise("sigma", sigma, ("of", "of", "noise_multiplier"))
        setting = (
            f"{row['dataset']}: n = {population}, M = {row['subsets']}, N = {row['shots']}, "
            f"T = {row['steps']}, sigma = {sigma:g}"
        )
        yield Claim(
            table["paper"],
            table["table"],
            setting,
            claimed,
            delta,
            "substitution",
            "without replacement (as run)",
            f"{_SAME_LABEL}; lower side: an explicit pair of data sets on the noisy sums",
            Repeat(row["steps"], WithoutReplacement(population, sample, inner)),
            noise=noise,
        )
        if population >= _SMALLEST_POISSON:
            yield Claim(
                table["paper"],
                table["table"],
                setting,
                claimed,
                delta,
                "add-remove",
                "Poisson (as accounted, not run)",
                "the paper's own account: records are sampled independently, the sensitivity stays √2",
                Repeat(row["steps"], Poisson(sample / population, inner)),
                noise=noise,
            )


_SMALLEST_POISSON = 100
"""Below this the sample is nearly the whole label, and the paper's account is not shown again."""


def _noisy_max(table: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[Claim]:
    """Tang et al., report noisy max: Expo(σ/2) on scores of ℓ∞ sensitivity 1 is (σ, 0)-DP on the sample."""
    sample = row["subsets"] * row["shots"]
    population = row["population"]
    for claimed, sigma in zip(table["claimed"], row["sigmas"], strict=True):
        yield Claim(
            table["paper"],
            table["table"],
            f"{row['dataset']}: n = {population}, M N = {sample}, T = {row['steps']}, sigma = {sigma:g}",
            claimed,
            1.0 / population,
            "substitution",
            "without replacement (as run)",
            f"{_SAME_LABEL}; sigma recomputed from the paper's analysis, which does not print it",
            Repeat(row["steps"], WithoutReplacement(population, sample, Pure(sigma))),
            attained=False,
            noise=Noise("sigma", sigma, ("of", "of", "epsilon")),
        )


def _adadpsyn(table: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[Claim]:
    """Gao et al., Algorithm 1, on one sample: radius search, projected means, coverage counts.

    The search makes ⌈log2(√2/(2θ))⌉ comparisons of two noisy values of sensitivity < 2, each with
    standard deviation 2σ0; means have sensitivity 2R and noise 2Rσ1 (T̂ + 1 times); counts have
    sensitivity 1 and noise σ2 (T̂ times). All are Gaussian, adaptive, on the same sample.
    """
    searches = 2 * math.ceil(math.log2(math.sqrt(2.0) / (2.0 * table["tolerance"])))
    columns = (row["iterations"], row["radius"], row["count"], row["mean"])
    for claimed, rounds, radius, count, mean in zip(table["claimed"], *columns, strict=True):
        inner = Compose(
            (
                Repeat(rounds + 1, Gaussian(mean)),
                Repeat(searches, Gaussian(float(radius))),
                Repeat(rounds, Gaussian(float(count))),
            )
        )
        yield Claim(
            table["paper"],
            row["table"],
            f"{row['dataset']}: n = {row['population']}, M N = {row['sample']}, T = {row['steps']}, "
            f"T_hat = {rounds}, sigma_0 = {radius:g}, sigma_1 = {mean:g}, sigma_2 = {count:g}",
            claimed,
            1.0 / row["delta_from"],
            "substitution",
            "without replacement (as described)",
            f"{_SAME_LABEL}; a fresh sample and fresh noise for each token, which the released code does not draw",
            Repeat(row["steps"], WithoutReplacement(row["population"], row["sample"], inner)),
            attained=False,
            noise=Noise("sigma_1", mean, ("of", "of", "parts", 0, "of", "noise_multiplier")),
        )


def _prism(table: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[Claim]:
    """Bhusal et al., Algorithm 1; the claim is the ε of their Theorem 1 at these parameters.

    One record moves a clipped mean of s logit vectors by width 2c/s (zeroed) or 4c/s (replaced); the
    average with the public logits halves that: bounded range c/(s τ) or 2c/(s τ).
    """
    clip, batch, temperature, steps = table["clip"], row["batch"], row["temperature"], row["steps"]
    delta = 1.0 / row["delta_from"]
    claimed = clip * math.sqrt(2.0 * steps * math.log(1.0 / delta)) / (batch * temperature)
    relations: tuple[tuple[Relation, int], ...] = (("zero-out", 1), ("substitution", 2))
    for relation, factor in relations:
        width = factor * clip / batch
        yield Claim(
            table["paper"],
            table["table"],
            f"s = {batch}, c = {clip}, tau = {temperature:g}, T = {steps}, 1/delta = {row['delta_from']}",
            claimed,
            delta,
            relation,
            "none (fixed disjoint batches)",
            "all language models; batches are fixed by a key of the record",
            Repeat(steps, Exponential(width / temperature)),
            noise=Noise("tau", temperature, ("of", "range"), width=width),
        )


def _unstated(table: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[Claim]:
    for claimed in table["claimed"]:
        yield Claim(
            table["paper"],
            row["table"],
            f"{row['setting']}, one query",
            claimed,
            2.56e-4,
            None,
            "without replacement (as described)",
            row["missing"],
        )


def to_json(assessed: Iterable[Assessment]) -> list[dict[str, Any]]:
    """One object a claim; numbers are floats, unknown ones null."""
    return [
        {
            "paper": a.claim.paper,
            "table": a.claim.table,
            "setting": a.claim.setting,
            "claimed": a.claim.claimed,
            "epsilon_lower": a.epsilon_lower,
            "epsilon_upper": a.epsilon_upper,
            "relation": a.claim.relation,
            "sampler": a.claim.sampler,
            "assumption": a.claim.assumption,
            "verdict": a.verdict,
        }
        for a in assessed
    ]


def to_rows(assessed: Sequence[Assessment]) -> list[dict[str, str]]:
    """The same as short strings for a table, with the noise the claim would need."""
    rows = []
    for a in assessed:
        noise = a.claim.noise
        needed = "" if noise is None or a.noise_needed is None else f"{noise.name} = {_digits(a.noise_needed)}"
        bracket = (
            "" if a.epsilon_upper is None or a.epsilon_lower is None else _bracket(a.epsilon_lower, a.epsilon_upper)
        )
        rows.append(
            {
                "paper": a.claim.paper,
                "table": a.claim.table,
                "setting": a.claim.setting,
                "claimed": _digits(a.claim.claimed),
                "ours": bracket,
                "relation": a.claim.relation or "",
                "sampler": a.claim.sampler,
                "verdict": a.verdict,
                "needs": needed,
            }
        )
    return rows


def tally(assessed: Sequence[Assessment]) -> str:
    """How many rows there are of each verdict, in words."""
    found = Counter(a.verdict for a in assessed)
    counts = ", ".join(f"{verdict} {found[verdict]}" for verdict in get_args(Verdict))
    return f"{counts} (of {len(assessed)})"


def to_markdown(assessed: Sequence[Assessment]) -> str:
    """A table, each assumption once below it, and the tally."""
    rows = to_rows(assessed)
    if not rows:
        return ""
    heads = list(rows[0])
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    lines += ["| " + " | ".join(row[h] for h in heads) + " |" for row in rows]
    notes = dict.fromkeys((a.claim.paper, a.claim.sampler, a.claim.assumption) for a in assessed)
    lines += ["", *(f"- {paper}, {sampler}: {assumption}." for paper, sampler, assumption in notes)]
    lines += ["", tally(assessed)]
    return "\n".join(lines) + "\n"


def _digits(value: float) -> str:
    return f"{value:.5g}"


def _bracket(lower: float, upper: float) -> str:
    """Rounded outward to five digits."""
    step = 10.0 ** (math.floor(math.log10(upper)) - 4) if upper > 0.0 else 1.0
    return f"{math.floor(lower / step) * step:.5g} to {math.ceil(upper / step) * step:.5g}"
