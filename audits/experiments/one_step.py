"""The one-step experiment: which leaf of a plan, how many uses, and what they show.

The leaf with the most uses is audited (the one generation draws its tokens with), against the
certified curve of as many uses as the audit makes. A refutation there refutes the cost that
the whole certificate is composed of. Several mechanisms are certified as one kind of leaf (a projected
mean is a ``gaussian``): which of them draws can be said, and by default is the one of that name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Leaf, leaves
from affidavit.audits.attacks.cases import Case, Release, cases_of, covered
from affidavit.audits.attacks.one_step import (
    MOST_TRIALS,
    REPEATED_ALPHA,
    REQUIRED_POWER,
    Design,
    OneStep,
    OneStepResult,
    design,
    sub_plan,
    trials_needed,
)
from affidavit.audits.certified import Certified
from affidavit.audits.checks import Check, CheckReport
from affidavit.audits.finding import CheckFinding, OneStepFinding, OperatingPoint, Target
from affidavit.audits.statistics.ceilings import perfect_attack_violates
from affidavit.audits.verdict import decide

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Noise

__all__ = ["OneStepAudit", "one_step_finding", "power_in_words", "prepare", "repeated_finding"]


@dataclass(frozen=True, slots=True)
class OneStepAudit:
    """A design with the claim that it is held against, and the pairs among which it was chosen."""

    attack: OneStep
    certified: Certified
    cases: tuple[Case, ...]

    @property
    def design(self) -> Design:
        """What was fixed beforehand."""
        return self.attack.design

    def trials_needed(self) -> int | None:
        """With how many trials a side half the noise would surely be noticed; None where far more would not do."""
        settled = self.design
        cases = self.cases or (settled.case,)
        return trials_needed(cases, self.certified.curve, uses=settled.uses, alpha=settled.alpha, above=settled.trials)

    def run(self, release: Release, *, null: bool = False, to_the_end: bool = False) -> OneStepResult:
        """Run it on a release function."""
        return self.attack.run(release, self.certified.curve, null=null, to_the_end=to_the_end)


def prepare(certified: Certified, noise: Noise, *, trials: int, alpha: float, mechanism: str = "") -> OneStepAudit:
    """Choose leaf, pair, threshold and number of uses from the certified plan alone.

    Raises ``NotSupported`` where the plan has no leaf that ``mechanism`` (or one of its leaves' own) draws.
    """
    path, leaf, count, cases = _busiest(certified, mechanism)
    each = cases[0].leaf_uses
    claims: dict[int, Certified] = {}

    def of(uses: int) -> Certified:
        if uses not in claims:
            claims[uses] = Certified.of_plan(
                sub_plan(leaf, uses=uses * each),
                relation=certified.relation,
                delta=certified.delta,
                subject=f"{uses * each} use{'s' if uses * each > 1 else ''} of {path}",
            )
        return claims[uses]

    chosen = design(
        cases, lambda uses: of(uses).curve, uses=_doublings(max(1, count // each)), trials=trials, alpha=alpha
    )
    return OneStepAudit(OneStep(chosen, certified.relation, noise), of(chosen.uses), cases)


def _busiest(certified: Certified, mechanism: str) -> tuple[str, Leaf, int, tuple[Case, ...]]:
    found: list[tuple[str, Leaf, int, tuple[Case, ...]]] = []
    for path, leaf, count in leaves(certified.plan):
        try:
            found.append((path, leaf, count, cases_of(leaf, mechanism=mechanism)))
        except NotSupported:
            continue
    auditable = [each for each in found if each[2] > 0]
    if not auditable:
        wanted = f" and that {mechanism} draws" if mechanism else ""
        hint = "Remove `mechanism`." if mechanism else 'Choose another attack: `attack = "extraction"`'
        raise NotSupported(
            f"the plan has no leaf that the one-step audit knows{wanted}",
            hint=f"{hint} It audits {', '.join(covered())}.",
        )
    return max(auditable, key=lambda each: each[2])


def _doublings(count: int) -> list[int]:
    uses = [1]
    while uses[-1] * 2 < count:
        uses.append(uses[-1] * 2)
    return uses if uses[-1] == count else [*uses, count]


def one_step_finding(audit: OneStepAudit, result: OneStepResult, *, target: Target) -> OneStepFinding:
    """The result as a finding: counts held against the curve, ε at the certificate's δ beside it.

    Trials that stopped early are counted as far as they went. Whether silence means anything is decided by the power
    that was predicted before any draw, so that the same audit of a sound mechanism ends in the same verdict every time.
    """
    settled, certified = audit.design, audit.certified
    trials, alpha, last = settled.trials, settled.alpha, settled.last_alpha
    early = result.known != "open"
    better = max(range(len(result.tests)), key=lambda i: result.tests[i].excess)
    counts, test = result.counts[better], result.tests[better]
    perfect = perfect_attack_violates(certified.curve, members=trials, non_members=trials, alpha=last)
    able = perfect and settled.powered and (target == "unprotected" or not result.repeated)
    verdict = decide(violated=result.violated, perfect_attack_would_violate=able)
    return OneStepFinding(
        attack=audit.attack.name,
        target=target,
        verdict=verdict,
        n_members=result.pairs,
        n_non_members=result.pairs,
        runs=2 * result.pairs,
        excess=test.excess,
        claim=certified.claim(with_curve=True),
        epsilon_lower=max(
            certified.epsilon_shown_anytime(each, alpha=settled.early_alpha / len(result.counts))
            if early
            else certified.epsilon_shown(each, alpha=last)
            for each in result.counts
        ),
        ceiling=certified.epsilon_ceiling(members=trials, non_members=trials, alpha=last),
        alpha=alpha,
        correction="threshold and stakes fixed beforehand; a fifth of alpha for a bet that may stop the trials, the "
        f"rest for an exact joint test after the last one, half in each direction; {certified.epsilon_method}",
        curve_points=result.curve_points,
        point=OperatingPoint(
            false_positive_rate=counts.false_positives / counts.non_members,
            true_positive_rate=counts.true_positives / counts.members,
            false_positive_upper=test.false_positive_upper,
            true_positive_lower=test.true_positive_lower,
        ),
        note=_ended(result, trials) + power_in_words(audit, missing=verdict == "UNDERPOWERED"),
    )


def _ended(result: OneStepResult, trials: int) -> str:
    """Where the trials stopped early, and why."""
    why = {"refuted": "the claim was refuted", "consistent": "half the noise was ruled out", "open": ""}[result.known]
    return f"stopped after {result.pairs} of {trials} trials a side, as {why}; " if why else ""


def repeated_finding(result: OneStepResult) -> CheckFinding:
    """What stands beside the result where every output is the same: a seed that is set anew, or no draw at all."""
    trials = result.pairs
    detail = f"{trials} trials a side gave one and the same output: nothing fresh is drawn, as with a fixed seed"
    check = Check(name="fresh outputs", number=2, status="fault", seen=2 * trials, detail=detail)
    return CheckReport(title="one-step", checks=(check,), alpha=REPEATED_ALPHA).items()[0]


def power_in_words(audit: OneStepAudit, *, missing: bool | None = None) -> str:
    """The predicted power; where it is ``missing`` (default: where it is too small), what would give more."""
    settled = audit.design
    told = f"{settled.uses} uses a trial; power against half the noise, predicted: {settled.power:.3f}"
    if not (not settled.powered if missing is None else missing):
        sound, halved = settled.pairs_expected(audit.certified.curve)
        return f"{told}; about {sound} trials a side are expected with the certified noise, {halved} with half of it"
    told += f", needed: {REQUIRED_POWER:g}"
    needed = audit.trials_needed()
    if needed is None:
        return f"{told}; a use costs so little that {MOST_TRIALS} trials a side would not notice it either"
    return f"{told}; members = {needed} and non_members = {needed} would notice it"
