"""What an audit is given to attack costs no more than what was certified, or than the ε that it asks for."""

from __future__ import annotations

import pytest

from affidavit import auditing
from affidavit.accountant.bound import bound
from affidavit.accountant.errors import NotSupported, PermitViolation
from affidavit.accountant.plan import leaves, parse_plan
from affidavit.audits.attacks.extraction import PROMPTS
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


@pytest.mark.parametrize("kind", ["sga", "ksa-answers"])
def test_answers_to_public_questions_are_no_demonstrations(run, kind):
    settings = {"sga": {"embedding": "toy", "dpm": {"dimensions": 2}}, "ksa-answers": {"keyword_epsilon": 1.0}}[kind]
    config = generator(kind).config.model_validate({"kind": kind, "queries": ("which way",), **settings})
    certified = Certified.of_plan(run.plan(), relation=run.relation, delta=run.budget.delta)
    protected = auditing.Protected(run.model_copy(update={"generator": config}), ToyModel(), certified)
    for attempt in (
        lambda: protected.demonstrate(RECORDS, epsilon=certified.epsilon, seed=0),
        lambda: protected.generate(RECORDS, PROMPTS[0], max_tokens=3, epsilon=certified.epsilon, seed=0),
    ):
        with pytest.raises(NotSupported) as refused:
            attempt()
        assert "one-step" in refused.value.hint


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


def test_a_receipt_of_another_certificate_is_refused(workplace):
    assert workplace.generate().code == 0
    receipt = workplace.out / "receipt.json"
    auditing.check_receipt(receipt, certificate=workplace.certificate)
    assert workplace.certify().code == 0, "a second certificate of the same run has another salt"
    with pytest.raises(auditing.WrongRun, match="another certificate"):
        auditing.check_receipt(receipt, certificate=workplace.certificate)
