"""Second opinions: what other accountants say about the same plan, where they are sound.

Never a source of our numbers and never part of a minimum: only compared, one side at a time. Our
upper side must not lie below their lower side, nor our lower side above their upper side, beyond the
errors that they state. Each is asked only on an allow-list, because each was seen to fail outside it:

- prv-accountant 0.2.0 (Gopi, Lee and Wutschitz 2021), two-sided: Gaussian, Laplace and Poisson-sampled
  Gaussian leaves under add-remove or zero-out. Not asked: pure and approximate leaves (its Rényi bound
  for them is no upper bound and its domain too small: negative ε), δ < 1e-9 (round-off), multipliers
  below 0.4 (it does not return) or above 100 (ε below its error). It accounts for the removal direction
  only, so for sampled leaves just its lower side is used.
- autodp 0.2.3.1 (Wang, Zhu and others), upper sides: the exact Gaussian formula, and Rényi bounds of
  Gaussian, Laplace and Poisson-sampled Gaussian leaves. Not asked: characteristic functions
  (results <= 0 with current scipy), δ < 1e-11 (absolute tolerances), pure leaves with half ε.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from affidavit.accountant.bound import Bound
from affidavit.accountant.cases.case import Case, cases_of
from affidavit.accountant.errors import DisagreementError, PackageMissing
from affidavit.accountant.extras import install, require
from affidavit.accountant.plan import Gaussian, Laplace, Plan, Poisson
from affidavit.accountant.validate import Relation

__all__ = ["SecondOpinion", "check_opinions", "second_opinions"]

EPS_ERROR, DELTA_ERROR = 0.01, 1e-12


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """One tool's bracket for the plan; ``applies`` False with ``why`` where it was not asked."""

    tool: str
    applies: bool
    why: str
    epsilon_lower: float = 0.0
    epsilon_upper: float = math.inf


def _unsampled(nodes: Iterable[tuple[Plan, int]]) -> str:
    for node, _ in nodes:
        inner = node.of if isinstance(node, Poisson) else node
        if not isinstance(inner, (Gaussian, Laplace)):
            return f"not asked about {inner.kind} leaves: see the module's allow-list"
        if isinstance(node, Poisson) and not isinstance(inner, Gaussian):
            return "not asked about sampled leaves other than Gaussian"
        if not 0.4 <= inner.noise_multiplier <= 100.0:
            return "not asked about noise multipliers outside [0.4, 100]"
    return ""


def _why_not(case: Case, relation: Relation, delta: float, *, least_delta: float) -> str:
    if case.exponentials:
        return "has no adaptive composition of exponential mechanisms"
    if relation == "substitution" and any(isinstance(node, Poisson) for node, _ in case.fixed):
        return "has no Poisson sampling under substitution"
    if not least_delta <= delta < 1.0:
        return f"not asked about delta below {least_delta:g}"
    return _unsampled(case.nodes())


def _prv(case: Case, delta: float) -> tuple[float, float]:
    prv = importlib.import_module("prv_accountant")
    variables: list[Any] = []
    counts = []
    for node, count in case.nodes():
        match node:
            case Gaussian(noise_multiplier=sigma):
                variables.append(prv.GaussianMechanism(sigma))
            case Laplace(noise_multiplier=scale):
                variables.append(prv.LaplaceMechanism(mu=1.0 / scale))
            case Poisson(rate=rate, of=Gaussian(noise_multiplier=sigma)):
                made = prv.PoissonSubsampledGaussianMechanism(sampling_probability=rate, noise_multiplier=sigma)
                variables.append(made)
        counts.append(count)
    accountant = prv.PRVAccountant(
        variables, max_self_compositions=counts, eps_error=EPS_ERROR, delta_error=max(DELTA_ERROR, delta * 1e-4)
    )
    lower, _, upper = accountant.compute_epsilon(delta, counts)
    sampled = any(isinstance(node, Poisson) for node, _ in case.nodes())
    return max(0.0, float(lower)), math.inf if sampled else float(upper)


def _autodp(case: Case, delta: float) -> tuple[float, float]:
    zoo = importlib.import_module("autodp.mechanism_zoo")
    transformers = importlib.import_module("autodp.transformer_zoo")
    mechanisms: list[Any] = []
    counts = []
    for node, count in case.nodes():
        match node:
            case Gaussian(noise_multiplier=sigma):
                mechanisms.append(zoo.ExactGaussianMechanism(sigma))
            case Laplace(noise_multiplier=scale):
                mechanisms.append(zoo.LaplaceMechanism(b=scale))
            case Poisson(rate=rate, of=Gaussian(noise_multiplier=sigma)):
                sample = transformers.AmplificationBySampling(PoissonSampling=True)
                mechanisms.append(sample(zoo.GaussianMechanism(sigma=sigma), rate, improved_bound_flag=True))
        counts.append(count)
    composed = transformers.Composition()(mechanisms, counts)
    return 0.0, float(composed.get_approxDP(delta))


_TOOLS: tuple[tuple[str, str, float, Callable[[Case, float], tuple[float, float]]], ...] = (
    ("prv-accountant", "0.2.0", 1e-9, _prv),
    ("autodp", "0.2.3.1", 1e-11, _autodp),
)


def second_opinions(bound: Bound) -> tuple[SecondOpinion, ...]:
    """Ask every tool about the plan and δ of ``bound`` (an ε question).

    Raises ``PackageMissing`` if a tool is not installed in the version that the allow-list is for.
    """
    cases = cases_of(bound.plan, bound.relation).upper
    delta = bound.delta_upper
    opinions = []
    for tool, version, least_delta, ask in _TOOLS:
        why = next(filter(None, (_why_not(c, bound.relation, delta, least_delta=least_delta) for c in cases)), "")
        if why:
            opinions.append(SecondOpinion(tool, False, why))
            continue
        require("opinions", purpose="a second opinion")
        _require(tool, version)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [ask(case, delta) for case in cases if case.uses]
        lower = max((f[0] for f in found), default=0.0)
        upper = max((f[1] for f in found), default=math.inf)
        opinions.append(SecondOpinion(tool, True, "", lower, upper))
    return tuple(opinions)


def _require(tool: str, version: str) -> None:
    try:
        found = importlib.metadata.version(tool)
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if found != version:
        raise PackageMissing(
            f"second opinions need {tool} {version}; installed: {found}", hint=f"Run `{install('opinions')}`"
        )


def check_opinions(bound: Bound, opinions: Iterable[SecondOpinion]) -> None:
    """Raises ``DisagreementError``, naming both numbers, where brackets do not overlap."""
    for opinion in opinions:
        if not opinion.applies:
            continue
        if bound.epsilon_upper < opinion.epsilon_lower * (1.0 - 1e-9) - 1e-9:
            raise DisagreementError(
                f"our upper side {bound.epsilon_upper:.9g} lies below the lower side "
                f"{opinion.epsilon_lower:.9g} of {opinion.tool}",
                hint="Please report this plan: one of the two is wrong. Do not certify it meanwhile.",
            )
        if bound.epsilon_lower > opinion.epsilon_upper * (1.0 + 1e-9) + 1e-9:
            raise DisagreementError(
                f"our lower side {bound.epsilon_lower:.9g} lies above the upper side "
                f"{opinion.epsilon_upper:.9g} of {opinion.tool}",
                hint="Please report this plan: one of the two is wrong. Ours may be loose, theirs too small.",
            )
