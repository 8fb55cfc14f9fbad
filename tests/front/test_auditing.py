"""What an audit is given to attack costs no more than what was certified, or than the ε that it asks for."""

from __future__ import annotations

import dataclasses
import json

import pytest

from affidavit import auditing
from affidavit.accountant.bound import bound
from affidavit.accountant.errors import NotSupported, PermitViolation
from affidavit.accountant.plan import leaves, parse_plan
from affidavit.audits.attacks.extraction import PROMPTS
from affidavit.audits.auditfile import parse_audit
from affidavit.audits.certified import Certified
from affidavit.audits.textmodel import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.registry import generator
from affidavit.runfile import load_run


@pytest.fixture
def run(empty_workplace):
    return load_run(empty_workplace.run_file)


@pytest.fixture
def plans(monkeypatch):
    """The plan behind every trial that is run."""
    seen = []
    opened = auditing.TrialPermit

    def watched(plan, relation):
        seen.append(plan)
        return opened(plan, relation)

    monkeypatch.setattr(auditing, "TrialPermit", watched)
    return seen


def _protected(run):
    certified = Certified.of_plan(run.plan(), relation=run.relation, delta=run.budget.delta)
    return auditing.Protected(run, ToyModel(), certified)


RECORDS = [Record(f"r{n}", f"the north wind number {n}, write to wind{n}@mail.example", "north") for n in range(6)]


@pytest.mark.parametrize("prompt", PROMPTS, ids=lambda prompt: prompt.name)
def test_text_for_an_extraction_costs_at_most_the_certificate(run, plans, prompt):
    protected = _protected(run)
    epsilon = protected.certified.epsilon
    texts = protected.generate(RECORDS, prompt, max_tokens=3, epsilon=epsilon, seed=0)
    assert len(texts) == 1
    (plan,) = plans
    assert [uses for _, _, uses in leaves(plan)] == [3]
    assert bound(plan, relation=run.relation, delta=run.budget.delta).epsilon_upper <= epsilon


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_text_at_another_epsilon_is_calibrated_to_it(run, plans, epsilon):
    _protected(run).generate(RECORDS, PROMPTS[0], max_tokens=3, epsilon=epsilon, seed=0)
    cost = bound(plans[0], relation=run.relation, delta=run.budget.delta).epsilon_upper
    assert epsilon * 0.98 <= cost <= epsilon


def test_another_generator_is_calibrated_by_its_own_noise(run, plans):
    table = {"kind": "few-shot", "labels": ("north", "south"), "subsets": 3, "shots_per_subset": 1, "max_tokens": 3}
    config = generator("few-shot").config.model_validate({**table, "noise_multiplier": 1.0, "max_record_tokens": 12})
    few_shot = run.model_copy(update={"generator": config})
    certified = Certified.of_plan(few_shot.plan(), relation=run.relation, delta=run.budget.delta)
    protected = auditing.Protected(few_shot, ToyModel(), certified)
    epsilon = certified.epsilon / 2
    protected.generate(RECORDS, PROMPTS[0], max_tokens=3, epsilon=epsilon, seed=0)
    cost = bound(plans[0], relation=run.relation, delta=run.budget.delta).epsilon_upper
    assert epsilon * 0.98 <= cost <= epsilon


KEYWORDS = {
    "kind": "ksa",
    "labels": ("north", "south"),
    "subsets": 6,
    "keywords": 1,
    "keyword_epsilon": 4.0,
    "use_public": True,
    "max_answer_tokens": 3,
    "max_tokens": 3,
    "max_record_tokens": 12,
    "minibatch_rows": 8,
}
ADAPTIVE = {
    "kind": "adadpsyn",
    "labels": ("north", "south"),
    "subsets": 3,
    "radius_noise_multiplier": 4.0,
    "mean_noise_multiplier": 1.0,
    "count_noise_multiplier": 2.0,
    "max_tokens": 2,
    "max_record_tokens": 12,
}


@pytest.mark.parametrize("table", [KEYWORDS, ADAPTIVE], ids=["ksa", "adadpsyn"])
def test_the_noise_is_what_the_generator_says_it_is(run, plans, table):
    """KSA's temperature is that of public text, at no cost; AdaDPSyn's multipliers are scaled together."""
    config = generator(table["kind"]).config.model_validate(table)
    run = _public(run, "north", "south").model_copy(update={"generator": config})
    certified = Certified.of_plan(run.plan(), relation=run.relation, delta=run.budget.delta)
    protected = auditing.Protected(run, ToyModel(), certified)
    protected.demonstrate(RECORDS, epsilon=2.0, seed=0)
    cost = bound(plans[0], relation=run.relation, delta=run.budget.delta).epsilon_upper
    assert 1.9 <= cost <= 2.0


ANSWERING = {
    "sga": {"embedding": "toy", "ensemble": 3, "selection": "top-1", "dpm": {"dimensions": 2, "levels": 1}},
    "ksa-answers": {"keyword_epsilon": 4.0, "keywords": 1, "subsets": 3, "use_public": True, "max_answer_tokens": 4},
}


def _public(run, *labels):
    """The run with public records."""
    lines = [{"id": f"p{n}", "text": f"the public wind {n}", "label": labels[n % len(labels)]} for n in range(8)]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return run.model_copy(update={"public_content": content})


@pytest.fixture
def answering(run, request):
    """A run that answers a public question from records that are answered questions."""
    kind = request.param
    table = {"queries": ("which way",), "max_tokens": 4, "max_record_tokens": 12, "minibatch_rows": 8}
    config = generator(kind).config.model_validate({"kind": kind, **table, **ANSWERING[kind]})
    return _public(run, "it blows north").model_copy(update={"generator": config})


@pytest.mark.parametrize("answering", ANSWERING, indirect=True)
def test_a_released_answer_is_a_demonstration_as_its_records_are(answering, plans):
    protected = _protected(answering)
    (shown,) = protected.demonstrate(RECORDS, epsilon=protected.certified.epsilon, seed=0)
    assert shown.text == "which way"
    assert shown.label
    assert shown.label not in {"answer", "north"}
    costs = [bound(plan, relation=answering.relation, delta=answering.budget.delta) for plan in plans]
    assert [cost.epsilon_upper for cost in costs] == [pytest.approx(protected.certified.epsilon, rel=1e-3)]


@pytest.mark.parametrize(
    ("kind", "changes", "sampled"),
    [("sga", {}, 3), ("ksa-answers", {}, None), ("ksa-answers", {"sampling": "without-replacement"}, 3)],
)
def test_samples_of_answers_that_hold_next_to_none_of_a_trial_are_warned_of(run, kind, changes, sampled):
    """Of 24 places; batches are made as small as the trial instead."""
    table = {"kind": kind, "queries": ("which way",), **ANSWERING[kind], **changes}
    config = generator(kind).config.model_validate(table)
    run = _public(run, "it blows north").model_copy(update={"generator": config})
    for members, expected in ((4, sampled), (12, None)):
        audit = parse_audit({"attack": "reference", "members": members, "non_members": members, "runs": 9})
        warning = auditing._thin_samples(audit, run)
        if expected is None:
            assert not warning
        else:
            assert f"of the {members} in a trial it holds about {expected * members / 24:.2g}" in warning


@pytest.mark.parametrize("answering", ANSWERING, indirect=True)
def test_a_generator_of_answers_cannot_be_asked_to_extract(answering, plans):
    protected = _protected(answering)
    with pytest.raises(NotSupported) as refused:
        protected.generate(RECORDS, PROMPTS[0], max_tokens=3, epsilon=protected.certified.epsilon, seed=0)
    assert "one-step" in refused.value.hint
    assert "reference" in refused.value.hint
    assert not plans


@pytest.fixture
def keywords(run):
    """A run that chooses keywords among those of public records."""
    table = {"labels": ("north", "south"), "subsets": 3, "keywords": 1, "use_public": True, "max_tokens": 4}
    sizes = {"max_answer_tokens": 4, "max_record_tokens": 12, "minibatch_rows": 8}
    config = generator("ksa").config.model_validate({"kind": "ksa", **table, **sizes})
    return _public(run, "north", "south").model_copy(update={"generator": config})


def test_public_records_of_any_label_serve_an_extraction(keywords, plans):
    protected = _protected(keywords)
    epsilon = protected.certified.epsilon
    (text,) = protected.generate(RECORDS, PROMPTS[0], max_tokens=3, epsilon=epsilon, seed=0)
    assert text
    assert bound(plans[0], relation=keywords.relation, delta=keywords.budget.delta).epsilon_upper <= epsilon * 1.001


def test_every_record_of_a_trial_is_in_a_batch(keywords, monkeypatch):
    """At the declared size 24 there are four buckets a label; the trial's six records fill the only one."""
    seen = []
    source = keywords.source

    def watched(permit, config, records, model, **options):
        seen.append(source.run(permit, config, records, model, **options))
        return seen[0]

    monkeypatch.setattr(type(keywords), "source", property(lambda _: dataclasses.replace(source, run=watched)))
    protected = _protected(keywords)
    protected.demonstrate(RECORDS, epsilon=protected.certified.epsilon, seed=0)
    batches = [line for line in seen[0].trace if line["event"] == "batch"]
    assert [len(line["members"]) for line in batches] == [6, 0]


def test_demonstrations_are_made_as_the_run_makes_text(run, plans):
    protected = _protected(run)
    shown = protected.demonstrate(RECORDS, epsilon=protected.certified.epsilon, seed=0)
    assert [record.label for record in shown] == ["north", "south"]
    assert plans == [run.plan()]


def test_a_trial_permit_counts_as_a_real_one_does():
    plan = parse_plan({"kind": "repeat", "count": 2, "of": {"kind": "exponential", "range": 1.0}})
    permit = auditing.TrialPermit(plan, "zero-out")
    for _ in range(2):
        assert permit.use("plan.of").kind == "exponential"
    with pytest.raises(PermitViolation):
        permit.use("plan.of")
