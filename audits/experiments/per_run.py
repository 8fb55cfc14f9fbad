"""The per-run game: one record, many independent releases with it and without it, one score a release.

The setting in which two rates are held against a claim, and an ε with them: nothing is pooled. Under
add-remove and zero-out a run without the record leaves it out; under substitution a blank one takes
its place. All other records are the same in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from affidavit.accountant.validate import Relation
from affidavit.audits.attacks.protocol import MembershipAttack, View
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.extraction import BLANK
from affidavit.audits.experiments.membership import Demonstrate
from affidavit.audits.finding import OperatingPoint, PerRunFinding, Target
from affidavit.audits.statistics.auc import ScoredRun, roc_points
from affidavit.audits.statistics.ceilings import perfect_attack_violates, runs_needed
from affidavit.audits.statistics.joint import violation_test
from affidavit.audits.statistics.thresholds import Thresholded, bonferroni, fixed, split
from affidavit.audits.textmodel import AnsweringModel, Record
from affidavit.audits.verdict import control_verdict, decide

__all__ = ["per_run_finding", "play", "thresholded"]

_ROC = tuple(i / 20 for i in range(21))


@dataclass(frozen=True, slots=True)
class _Data:
    record: Record
    background: tuple[Record, ...]
    relation: Relation

    def of(self, *, member: bool) -> tuple[Record, ...]:
        if member:
            return (self.record, *self.background)
        blank = (replace(self.record, text=BLANK),) if self.relation == "substitution" else ()
        return (*blank, *self.background)


def play(
    record: Record,
    background: Sequence[Record],
    demonstrate: Demonstrate,
    attack: MembershipAttack,
    model: AnsweringModel,
    *,
    relation: Relation,
    members: int,
    non_members: int,
    seed: int,
) -> ScoredRun:
    """The record's score in ``members`` runs with it and ``non_members`` runs without it, in random order."""
    data = _Data(record, tuple(background), relation)
    generator = np.random.default_rng(seed)
    sides = generator.permutation([True] * members + [False] * non_members)
    scores: dict[bool, list[float]] = {True: [], False: []}
    for side in sides:
        shown = demonstrate(data.of(member=bool(side)), int(generator.integers(2**31)))
        (score,) = attack.scores(View(shown.texts, shown.model or model), [record])
        scores[bool(side)].append(score)
    return ScoredRun(tuple(scores[True]), tuple(scores[False]))


def thresholded(
    scores: ScoredRun, thresholds: Sequence[float], *, delta: float, alpha: float, seed: int
) -> Thresholded:
    """Counts at a threshold: of those fixed in the audit file, or chosen on half of the runs."""
    if not thresholds:
        generator = np.random.default_rng([seed, 1])
        return split(scores.members, scores.non_members, alpha=alpha, delta=delta, generator=generator)
    if len(thresholds) == 1:
        return fixed(scores.members, scores.non_members, threshold=thresholds[0], alpha=alpha)
    return bonferroni(scores.members, scores.non_members, thresholds=thresholds, alpha=alpha, delta=delta)


def per_run_finding(
    scores: ScoredRun,
    attack: MembershipAttack,
    certified: Certified,
    *,
    target: Target,
    thresholds: Sequence[float],
    alpha: float,
    seed: int,
    unprotected: ScoredRun | None = None,
    control: bool = False,
) -> PerRunFinding:
    """Counts held against the certificate's whole trade-off curve, ε at its δ beside it.

    ``unprotected``: the same attack without protection, by a threshold found in the same way; what it refutes is
    the most that is believed of this one. A ``control`` is that attack itself: held against no claim.
    """
    delta = certified.delta
    at = thresholded(scores, thresholds, delta=delta, alpha=alpha, seed=seed)
    counts, level = at.counts, at.alpha
    test = violation_test(counts, certified.curve, alpha=level)
    sides = {"members": counts.members, "non_members": counts.non_members}
    lower = certified.epsilon_shown(counts, alpha=level)
    powered = perfect_attack_violates(certified.curve, **sides, alpha=level)
    ceiling = certified.epsilon_ceiling(**sides, alpha=level)
    note = f"threshold {at.threshold:g}"
    shown = powered
    if unprotected is not None:
        works = thresholded(unprotected, thresholds, delta=delta, alpha=alpha, seed=seed)
        shown = powered and violation_test(works.counts, certified.curve, alpha=works.alpha).violated
        ceiling = min(ceiling, certified.epsilon_shown(works.counts, alpha=works.alpha))
    if control:
        verdict = control_verdict(leaked=lower > 0.0)
    else:
        verdict = decide(violated=test.violated, perfect_attack_would_violate=shown)
    if verdict == "UNDERPOWERED" and powered:
        note += f"; without protection it proves {ceiling:.3f}, which is no contradiction to the claim either"
    elif verdict == "UNDERPOWERED":
        needed = runs_needed(certified.epsilon, alpha=level, delta=delta)
        note += "" if needed is None else f"; power at this epsilon needs {needed} runs a side to be counted"
    return PerRunFinding(
        attack=attack.name,
        target=target,
        verdict=verdict,
        n_members=counts.members,
        n_non_members=counts.non_members,
        runs=counts.members + counts.non_members,
        excess=None if control else test.excess,
        claim=None if control else certified.claim(),
        epsilon_lower=lower,
        ceiling=ceiling,
        alpha=alpha,
        correction=f"{at.correction}; exact joint test of both rates; {certified.epsilon_method}",
        access=tuple(sorted(attack.needs)),
        control=control,
        curve_points=roc_points([scores], at=_ROC),
        point=OperatingPoint(
            false_positive_rate=counts.false_positives / counts.non_members,
            true_positive_rate=counts.true_positives / counts.members,
            false_positive_upper=test.false_positive_upper,
            true_positive_lower=test.true_positive_lower,
        ),
        note=note,
    )
