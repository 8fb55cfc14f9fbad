"""What only a caller in Python can do wrong: the remedy's settings are keywords of the call."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from remedy_cases import Api

from affidavit.accountant import bound, decimals, strictjson, verifier
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.release import randomness
from affidavit.accountant.tradeoff import privacy_curve
from affidavit.audits import neighbour
from affidavit.audits.attacks import brainwash, canary, min_k, prompting
from affidavit.audits.statistics import (
    auc,
    clopper_pearson,
    clustered,
    correction,
    one_run,
    one_run_curve,
    power,
    precision,
    thresholds,
)
from affidavit.audits.textmodel import Record
from affidavit.generation import prompts, sampling
from affidavit.generation.models import remembering
from affidavit.generation.models.embedding import load_embedding
from affidavit.generation.models.toy import ToyModel
from affidavit.mechanisms import above_threshold, base, dpm_splits, good_radius, joint_exponential, propose_test_release

GAUSSIAN = parse_plan({"kind": "gaussian", "noise_multiplier": 1.0})
RUNS = {"members": [0.6, 0.7], "non_members": [0.2, 0.3]}


def _rng() -> np.random.Generator:
    return np.random.default_rng(0)


def _per_run(*, true_positive_rate: float) -> float:
    curve = privacy_curve(GAUSSIAN, relation="add-remove", delta=1e-5)
    return power.per_run_power(true_positive_rate, 0.0, curve, members=10, non_members=10, alpha=0.05)


def _radius(*, tolerance: float) -> int:
    return good_radius.GoodRadius(Fraction(4), tolerance).halvings


def _top_k(**changes: Any) -> object:
    given = {"size": 2, "most": 10, "width": Fraction(1), "temperature": Fraction(1)} | changes
    return joint_exponential.JointTopK(**given).leaf()


def _neighbour(*, secret: str) -> object:
    seen = neighbour.Observed(texts=("nothing",))
    return neighbour.neighbour_test(lambda *_: seen, (), (), secrets=[secret])


class _One(NamedTuple):
    a: bool


def _read_json(form: strictjson.Form[Any], *, value: object) -> object:
    return form.read(value, path="value")


CASES = [
    Api(
        "accountant/bound.py:bound",
        lambda *, delta=None, epsilon=None: bound.bound(GAUSSIAN, relation="add-remove", delta=delta, epsilon=epsilon),
    ),
    Api(
        "accountant/verifier/recompute.py:recompute",
        lambda *, delta=None, epsilon=None: verifier.recompute(
            GAUSSIAN, relation="add-remove", delta=delta, epsilon=epsilon
        ),
    ),
    Api(
        "accountant/decimals.py:parse",
        lambda *, value: decimals.parse(value, path="value"),
        {"value": "much"},
        {"value": "0.5"},
    ),
    Api("accountant/decimals.py:as_written", lambda *, value: decimals.as_written(value, path="value"), {"value": []}),
    Api(
        "accountant/decimals.py:as_written#3",
        lambda *, value: decimals.as_written(value, path="value"),
        {"value": "inf"},
    ),
    Api(
        "accountant/decimals.py:as_written#2", lambda *, value: decimals.as_written(value, path="value"), {"value": "x"}
    ),
    *(
        Api(f"accountant/strictjson.py:{at}", partial(_read_json, form), {"value": wrong}, {"value": right})
        for at, form, wrong, right in (
            ("fields", strictjson.record(_One), [], {"a": True}),
            ("fields#2", strictjson.record(_One), {"a": True, "b": 2}, {"a": True}),
            ("fields#3", strictjson.record(_One), {}, {"a": True}),
            ("read", strictjson.listed(strictjson.TEXT), 1, []),
            ("read#2", strictjson.by_name(strictjson.TEXT), 1, {}),
            ("read#3", strictjson.exactly("this"), 1, "this"),
            ("_text", strictjson.TEXT, 1, ""),
            ("_flag", strictjson.FLAG, 1, True),
            ("_count", strictjson.COUNT, -1, 1),
            ("_decoded", strictjson.BASE64, "x", "eA=="),
            ("hexadecimal", strictjson.DIGEST, "x", "ab" * 32),
        )
    ),
    Api(
        "accountant/strictjson.py:instant",
        lambda *, value: strictjson.instant(value, path="value"),
        {"value": 1},
        {"value": "2026-01-31T12:00:00Z"},
    ),
    Api(
        "accountant/decimals.py:within",
        lambda *, value: decimals.within(Decimal(value), path="value"),
        {"value": "-1"},
        {"value": "1"},
    ),
    Api(
        "accountant/release/randomness.py:noise_source",
        lambda *, randomness: source(randomness),
        {"randomness": "weak"},
    ),
    Api(
        "audits/statistics/auc.py:__post_init__",
        lambda *, members, non_members: auc.ScoredRun(tuple(members), tuple(non_members)),
        {"members": [], "non_members": []},
    ),
    Api(
        "audits/statistics/auc.py:__post_init__#2",
        lambda *, members: auc.ScoredRun(tuple(members), (0.1,)),
        {"members": [float("nan")]},
    ),
    Api(
        "audits/statistics/auc.py:run_aucs",
        lambda *, runs: auc.run_aucs([auc.ScoredRun((0.1,), (0.2,))] * runs),
        {"runs": 0},
    ),
    Api(
        "audits/statistics/auc.py:true_positive_rate_at",
        lambda *, fpr: auc.true_positive_rate_at([0.1], [0.2], fpr=fpr),
        {"fpr": 2.0},
    ),
    Api(
        "audits/statistics/auc.py:_betting_lower",
        lambda *, values: auc.exact_interval(values, alpha=0.05),
        {"values": [2.0]},
    ),
    Api(
        "audits/statistics/clopper_pearson.py:__post_init__",
        lambda *, members, non_members: clopper_pearson.Counts(1, members, 1, non_members),
        {"members": 0, "non_members": 0},
    ),
    Api(
        "audits/statistics/clopper_pearson.py:level",
        lambda *, alpha: clopper_pearson.rate_lower(1, 2, alpha=alpha),
        {"alpha": 1.0},
    ),
    Api(
        "audits/statistics/clustered.py:clustered_interval",
        lambda *, hits, sizes: clustered.clustered_interval(hits, sizes, alpha=0.05),
        {"hits": [3], "sizes": [2]},
    ),
    Api(
        "audits/statistics/clustered.py:clustered_interval#2",
        lambda *, alpha: clustered.clustered_interval([1], [2], alpha=alpha),
        {"alpha": 0.0},
    ),
    Api(
        "audits/statistics/correction.py:__post_init__",
        lambda *, alpha, tests: correction.Level(total=alpha, tests=tests),
        {"alpha": 0.0, "tests": 0},
    ),
    Api(
        "audits/statistics/one_run.py:_check",
        lambda *, records, guesses, correct, delta: one_run.one_run_p_value(
            1.0, records=records, guesses=guesses, correct=correct, delta=delta
        ),
        {"records": 1, "guesses": 2, "correct": 3, "delta": 0.0},
    ),
    Api(
        "audits/statistics/one_run.py:one_run_epsilon_lower",
        lambda *, alpha: one_run.one_run_epsilon_lower(records=10, guesses=5, correct=4, delta=1e-5, alpha=alpha),
        {"alpha": 0.0},
    ),
    Api("audits/statistics/power.py:per_run_power", _per_run, {"true_positive_rate": 2.0}),
    Api(
        "audits/statistics/one_run_curve.py:all_coins_refutes",
        lambda *, records, correct: one_run_curve.all_coins_epsilon_lower(
            records=records, correct=correct, delta=1e-5, alpha=0.05
        ),
        {"records": 1, "correct": 3},
    ),
    Api(
        "audits/statistics/precision.py:best_threshold",
        lambda *, runs: precision.best_threshold([auc.ScoredRun((0.6,), (0.2,))] * runs),
        {"runs": 0},
    ),
    Api(
        "audits/statistics/thresholds.py:split",
        lambda *, members, non_members: thresholds.split(
            members, non_members, alpha=0.05, delta=1e-5, generator=_rng()
        ),
        {"members": [0.1], "non_members": [0.1]},
    ),
    Api("audits/statistics/thresholds.py:bonferroni", lambda *, thresholds: bonferroni(thresholds), {"thresholds": []}),
    Api(
        "audits/attacks/min_k.py:lowest_mean",
        lambda *, share: min_k.lowest_mean(np.ones(3), share=share),
        {"share": 0.0},
    ),
    Api(
        "audits/attacks/canary.py:make_canaries",
        lambda *, members, non_members: canary.make_canaries(members + non_members, seed=0),
        {"members": 0, "non_members": 0},
    ),
    Api(
        "audits/attacks/brainwash.py:__post_init__",
        lambda *, labels: brainwash.Brainwash(tuple(labels)),
        {"labels": ["one"]},
    ),
    Api(
        "audits/attacks/prompting.py:label_of",
        lambda *, label: prompting.label_of(Record("a", "text", label)),
        {"label": None},
    ),
    Api("audits/neighbour.py:neighbour_test", _neighbour, {"secret": "short"}),
    Api(
        "generation/sampling.py:poisson",
        lambda *, rate: sampling.poisson(3, rate=Fraction(rate), noise=np.random.default_rng(0)),
        {"rate": 2},
    ),
    Api(
        "generation/sampling.py:without_replacement",
        lambda *, sample: sampling.without_replacement(3, sample=sample, noise=np.random.default_rng(0)),
        {"sample": 4},
    ),
    Api(
        "generation/sampling.py:_whole",
        lambda *, count: sampling.permutation(count, noise=np.random.default_rng(0)),
        {"count": -1},
    ),
    Api("generation/prompts.py:task_template", lambda *, task: prompts.task_template(task), {"task": "agnews"}),
    Api(
        "generation/models/embedding.py:load_embedding",
        lambda *, embedding: load_embedding(embedding),
        {"embedding": "mini"},
        {"embedding": "toy"},
    ),
    Api(
        "generation/models/remembering.py:__init__",
        lambda *, most_rows: remembering.RememberingModel(ToyModel(), most_rows=most_rows),
        {"most_rows": 0},
    ),
    Api(
        "mechanisms/joint_exponential.py:leaf",
        lambda *, size, most: _top_k(size=size, most=most),
        {"size": 0, "most": 0},
    ),
    Api(
        "mechanisms/joint_exponential.py:leaf#2",
        lambda *, temperature: _top_k(most=1 << 20, temperature=Fraction(temperature)),
        {"temperature": 1},
    ),
    Api("mechanisms/base.py:positive", lambda *, scale: base.positive(scale, name="scale"), {"scale": 0}),
    Api("mechanisms/good_radius.py:halvings", _radius, {"tolerance": 0.0}),
    Api(
        "mechanisms/dpm_splits.py:__post_init__",
        lambda *, emptiness, centreness: dpm_splits.Weights(emptiness=emptiness, centreness=centreness),
        {"emptiness": -1.0, "centreness": 0.0},
    ),
    Api(
        "mechanisms/dpm_splits.py:__post_init__#2",
        lambda *, edge, height: dpm_splits.Weights(edge=edge, height=height),
        {"edge": 1.0, "height": 2.0},
    ),
    Api(
        "mechanisms/propose_test_release.py:moved",
        lambda *, gap_sensitivity: propose_test_release.TestedTopK(1.0, 1e-5, 2).moved(gap_sensitivity),
        {"gap_sensitivity": 0},
    ),
    Api(
        "mechanisms/above_threshold.py:leaf",
        lambda *, positives, sensitivity: above_threshold.SparseVector(
            Fraction(4), Fraction(4), sensitivity, positives
        ).leaf(),
        {"positives": 0, "sensitivity": 0},
    ),
]


def source(setting: Any) -> object:
    """The source of noise that a run file's ``randomness`` names."""
    return randomness.noise_source(setting)


def bonferroni(given: Any) -> object:
    """Counts at several thresholds."""
    return thresholds.bonferroni([0.5], [0.1], thresholds=given, alpha=0.05, delta=1e-5)
