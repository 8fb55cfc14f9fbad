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
from affidavit.audits.findings import Finding, Target, Utility
from affidavit.audits.statistics.auc import (
    ScoredRun,
    exact_interval,
    mean_auc,
    resampled_interval,
    roc_points,
    run_aucs,
)
from affidavit.audits.textmodel import Record, TextModel
from affidavit.audits.verdict import decide

__all__ = ["Demonstrate", "Demonstrated", "membership_finding", "score_runs"]

_ROC = tuple(i / 20 for i in range(21))


@dataclass(frozen=True, slots=True)
class Demonstrated:
    """Released demonstrations, and the records whose use is audited: all members, unless fewer were shown."""

    texts: tuple[str, ...]
    used: tuple[Record, ...]


Demonstrate = Callable[[Sequence[Record], int], Demonstrated]
"""The members, and the run's seed → the demonstration made from them."""


def score_runs(
    pool: Sequence[Record],
    demonstrate: Demonstrate,
    attack: MembershipAttack,
    model: TextModel,
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
            hint=f"set members + non_members to at most {len(pool)}",
        )
    generator = np.random.default_rng(seed)
    scored = []
    for _ in range(runs):
        order = [int(i) for i in generator.permutation(len(pool))]
        inside = [pool[i] for i in order[:members]]
        outside = [pool[i] for i in order[members : members + non_members]]
        shown = demonstrate(inside, int(generator.integers(2**31)))
        view = View(shown.texts, model)
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
    utility: Utility | None = None,
    control: bool = False,
) -> Finding:
    """Mean AUC over runs with its resampled interval, held against the certificate's limit by an exact one."""
    aucs = run_aucs(runs)
    limit = certified.swap_auc_limit()
    exact, _ = exact_interval(aucs, alpha=alpha)
    perfect, _ = exact_interval([1.0] * len(aucs), alpha=alpha)
    ((_, low_fpr),) = roc_points(runs, at=[0.01])
    verdict = decide(violated=exact > limit, perfect_attack_would_violate=perfect > limit)
    note = f"exact lower limit of the mean AUC: {exact:.4f}; TPR at FPR 1 %, mean over runs: {low_fpr:.4f}"
    if verdict == "UNDERPOWERED" and limit < 1.0:
        note += f"; power at this epsilon needs more than {math.ceil(math.log(alpha / 2.0) / math.log(limit))} runs"
    steps = 1.0 if certified.relation == "substitution" else 2.0
    return Finding(
        attack=attack.name,
        target=target,
        verdict=verdict,
        n_members=len(runs[0].members),
        n_non_members=len(runs[0].non_members),
        runs=len(runs),
        statistic_name="AUC, mean over runs",
        statistic=mean_auc(runs),
        interval=resampled_interval(aucs, alpha=alpha, generator=np.random.default_rng(seed)),
        interval_method="bootstrap over runs, percentiles widened for few runs (approximate)",
        limit=limit,
        claim=certified.claim(),
        epsilon_lower=None,
        ceiling=max(0.0, math.log(perfect / (1.0 - perfect))) / steps,
        alpha=alpha,
        correction="verdict by an exact interval over runs; no epsilon from pooled scores",
        dropped_near_copies=dropped,
        utility=utility,
        control=control,
        curve_points=roc_points(runs, at=_ROC),
        swap=True,
        note=note,
    )
