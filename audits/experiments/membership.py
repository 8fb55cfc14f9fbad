"""The membership experiment on one-shot in-context learning, as the papers ran it, with a valid interval.

In every run the pool is split anew at random into members and non-members, a demonstration is
made from the members, and every record is scored against a model prompted with it. A run gives
one number, its AUC; what is inferred is inferred over runs. No ε is computed from the scores:
those of one run share a demonstration, and a pool of them is no set of independent trials.

The mean AUC is still held against the certificate: telling members from non-members of a random
split is telling a substitution apart, and a certificate limits that (``Certified.swap_auc_limit``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.protocol import MembershipAttack, View
from affidavit.audits.certified import Certified
from affidavit.audits.finding import MembershipFinding, Target
from affidavit.audits.measure import Measure
from affidavit.audits.remedies import at_most_records
from affidavit.audits.statistics.auc import (
    ScoredRun,
    exact_interval,
    mean_auc,
    resampled_interval,
    roc_points,
    run_aucs,
    true_positive_rate_at,
)
from affidavit.audits.statistics.precision import precision
from affidavit.audits.textmodel import AnsweringModel, Record
from affidavit.audits.verdict import control_verdict, decide

__all__ = ["Demonstrate", "Demonstrated", "membership_finding", "score_runs"]

_ROC = tuple(i / 20 for i in range(21))
_LOW_FPR = 0.01
_RESAMPLED = "bootstrap over runs, percentiles widened for few runs (approximate)"


@dataclass(frozen=True, slots=True)
class Demonstrated:
    """What a run shows, and the records whose use is audited: all members, unless fewer were shown.

    Released demonstrations, or with ``model`` an endpoint that hides them.
    """

    texts: tuple[str, ...]
    used: tuple[Record, ...]
    model: AnsweringModel | None = None


Demonstrate = Callable[[Sequence[Record], int], Demonstrated]
"""The members, and the run's seed → the demonstration made from them."""


def score_runs(
    pool: Sequence[Record],
    demonstrate: Demonstrate,
    attack: MembershipAttack,
    model: AnsweringModel,
    *,
    members: int,
    non_members: int,
    runs: int,
    seed: int,
) -> tuple[ScoredRun, ...]:
    """Split, demonstrate and score, ``runs`` times. Raises ``DataError`` when the pool is too small."""
    if members + non_members > len(pool):
        raise DataError(
            f"{members} members and {non_members} non-members from {len(pool)} records",
            hint=at_most_records(len(pool)),
        )
    generator = np.random.default_rng(seed)
    scored = []
    for _ in range(runs):
        order = [int(i) for i in generator.permutation(len(pool))]
        inside = [pool[i] for i in order[:members]]
        outside = [pool[i] for i in order[members : members + non_members]]
        shown = demonstrate(inside, int(generator.integers(2**31)))
        view = View(shown.texts, shown.model or model)
        scores = attack.scores(view, [*shown.used, *outside])
        cut = len(shown.used)
        scored.append(ScoredRun(tuple(scores[:cut]), tuple(scores[cut:])))
    return tuple(scored)


def membership_finding(
    runs: Sequence[ScoredRun],
    attack: MembershipAttack,
    certified: Certified,
    *,
    target: Target,
    alpha: float,
    seed: int,
    dropped: int = 0,
    unprotected: Sequence[ScoredRun] = (),
    control: bool = False,
) -> MembershipFinding:
    """Mean AUC over runs with its resampled interval, held against the certificate's limit by an exact one.

    ``unprotected``: the same attack without protection; its AUC is the most that is believed of this one. A
    ``control`` is that attack itself: held against no claim.
    """
    aucs = run_aucs(runs)
    limit = certified.swap_auc_limit()
    exact, _ = exact_interval(aucs, alpha=alpha)
    perfect, _ = exact_interval([1.0] * len(aucs), alpha=alpha)
    best = min(perfect, exact_interval(run_aucs(unprotected), alpha=alpha)[0]) if unprotected else perfect
    generator = np.random.default_rng(seed)
    interval = resampled_interval(aucs, alpha=alpha, generator=generator)
    note = f"exact lower limit of the mean AUC: {exact:.4f}"
    if control:
        verdict = control_verdict(leaked=exact > 0.5)
    else:
        verdict = decide(violated=exact > limit, perfect_attack_would_violate=best > limit)
    if verdict == "UNDERPOWERED" and perfect > limit:
        note += f"; without protection it is {best:.4f}, and the certificate admits {limit:.4f}"
    elif verdict == "UNDERPOWERED" and limit < 1.0:
        note += f"; power at this epsilon needs more than {math.ceil(math.log(alpha / 2.0) / math.log(limit))} runs"
    steps = 1.0 if certified.relation == "substitution" else 2.0
    return MembershipFinding(
        attack=attack.name,
        target=target,
        verdict=verdict,
        n_members=len(runs[0].members),
        n_non_members=len(runs[0].non_members),
        runs=len(runs),
        auc=mean_auc(runs),
        interval=interval,
        interval_method=_RESAMPLED,
        measures=_measures(runs, alpha=alpha, generator=generator),
        limit=None if control else limit,
        claim=None if control else certified.claim(),
        ceiling=max(0.0, math.log(best / (1.0 - best))) / steps if best > 0.0 else 0.0,
        alpha=alpha,
        correction="verdict by an exact interval over runs; no epsilon from pooled scores",
        dropped_near_copies=dropped,
        access=tuple(sorted(attack.needs)),
        control=control,
        curve_points=roc_points(runs, at=_ROC),
        note=note,
    )


def _measures(runs: Sequence[ScoredRun], *, alpha: float, generator: np.random.Generator) -> tuple[Measure, ...]:
    """The papers' figures: TPR at a low FPR, and precision, which feels the odds that AUC does not."""
    low = [true_positive_rate_at(run.members, run.non_members, fpr=_LOW_FPR) for run in runs]
    value, interval = precision(runs, alpha=alpha, generator=generator)
    return (
        Measure(
            name="TPR at FPR 1 %, mean over runs",
            value=sum(low) / len(low),
            interval=resampled_interval(low, alpha=alpha, generator=generator),
            method=_RESAMPLED,
        ),
        Measure(
            name="precision, threshold from the other half of the runs",
            value=value,
            interval=interval,
            method=_RESAMPLED if interval is not None else "",
        ),
    )
