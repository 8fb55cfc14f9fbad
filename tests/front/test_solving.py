"""Calibration of plans and run files: the printed value meets the target, a hair beyond it does not."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from affidavit.accountant import settle as settling
from affidavit.accountant.bound import bound
from affidavit.accountant.errors import NoValueFits, PlanError, RunFileError
from affidavit.accountant.plan import Envelope, Gaussian, Poisson, Repeat, parse_plan
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import recompute
from affidavit.certification import plan_run
from affidavit.planflags import PlanFlags
from affidavit.runfile import parse_run
from affidavit.solving import Solution, fitting_values, solvable_keys, solve_plan, solve_run, with_solution

RUN = {
    "relation": "zero-out",
    "unit": "record",
    "budget": {"epsilon": 4.0, "delta": 1e-3},
    "data": {"name": "letters", "path": "train.jsonl", "size": 240},
    "model": {"name": "toy"},
    "generator": {
        "kind": "prism",
        "labels": ["a", "b"],
        "batch_size": 20,
        "clip": 4.0,
        "temperature": 1.0,
        "max_tokens": 10,
    },
}


def smallest_noise_multiplier(**asked) -> Solution:
    """What `sigma` computes."""
    flags = PlanFlags(**asked)
    envelope = flags.envelope("sigma", start=1.0)
    solved = solve_plan(envelope, epsilon=flags.target)
    assert with_solution(envelope, solved).plan == replace(flags, noise=solved.value).envelope("sigma").plan
    return solved


def test_sigma_of_one_gaussian_is_the_closed_form():
    # Balle and Wang 2018: the least noise multiplier for (1, 1e-5); value from their closed form, 3.730631...
    solved = smallest_noise_multiplier(target=1.0, delta=1e-5, steps=1, rate="1", relation="add-remove")
    assert solved.epsilon_upper <= 1.0
    assert solved.value == pytest.approx(3.730631, abs=2e-5)


def test_sigma_of_many_steps_scales_with_their_root():
    once = smallest_noise_multiplier(target=1.0, delta=1e-5, steps=1, rate="1", relation="add-remove")
    many = smallest_noise_multiplier(target=1.0, delta=1e-5, steps=100, rate="1", relation="add-remove")
    assert many.value == pytest.approx(10.0 * once.value, rel=1e-4)


@pytest.mark.parametrize(
    ("epsilon", "delta", "steps", "rate"),
    [(2.49, 2.56e-4, 100, 0.153846), (0.83, 1e-6, 37, 0.02), (6.1, 3.1e-5, 12, 0.4), (0.2, 1e-3, 250, 0.0071)],
)
def test_sigma_stands_its_own_check(epsilon, delta, steps, rate):
    # What is said is what both engines confirm, as `epsilon` shows it.
    asked = {"delta": delta, "steps": steps, "rate": str(rate), "relation": "add-remove"}
    solved = smallest_noise_multiplier(target=epsilon, **asked)
    plan = Repeat(steps, Poisson(rate, Gaussian(solved.value)))
    found = settle(plan, relation="add-remove", delta=delta)
    assert found.epsilon_upper == solved.epsilon_upper <= epsilon
    assert solved.epsilon_upper >= epsilon * (1 - 3e-4)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"relation": None}, "--relation"),
        ({"steps": 0}, "--steps"),
        ({"rate": "1.5"}, "--rate"),
        ({"rate": "1/0"}, "--rate"),
        ({"target": math.nan}, "--epsilon"),
        ({"delta": -1.0}, "--delta"),
    ],
)
def test_sigma_refuses_what_is_out_of_range(change, path):
    asked = {"target": 1.0, "delta": 1e-5, "steps": 1, "rate": "1", "relation": "add-remove", **change}
    with pytest.raises(PlanError) as caught:
        smallest_noise_multiplier(**asked)
    assert caught.value.path == path


def test_a_plan_by_path():
    plan = parse_plan(
        {"kind": "compose", "parts": [{"kind": "gaussian", "noise_multiplier": 3.0}, {"kind": "pure", "epsilon": 0.2}]}
    )
    solved = solve_plan(Envelope("add-remove", plan, 1e-5), epsilon=2.0, path="plan.parts[1].epsilon")
    assert solved.epsilon_upper <= 2.0
    beyond = {
        "kind": "compose",
        "parts": [{"kind": "gaussian", "noise_multiplier": 3.0}, {"kind": "pure", "epsilon": solved.value * 1.01}],
    }
    assert bound(beyond, relation="add-remove", delta=1e-5).epsilon_upper > 2.0
    with pytest.raises(PlanError, match="noise_multiplier"):
        solve_plan(Envelope("add-remove", plan, 1e-5), epsilon=2.0, path="plan.parts[7].epsilon")


def test_run_keys_that_cost():
    assert set(solvable_keys(parse_run(RUN))) >= {"temperature", "batch_size", "max_tokens", "clip"}
    assert "max_record_tokens" not in solvable_keys(parse_run(RUN))


@pytest.mark.parametrize(("key", "beyond"), [("temperature", 0.99), ("clip", 1.01)])
def test_a_real_key_is_solved_to_the_safe_side(key, beyond):
    run = parse_run(RUN)
    solved = solve_run(run, epsilon=0.5, key=key)
    for factor, fits in ((1.0, True), (beyond, False)):
        changed = run.with_generator(**{key: solved.value * factor})
        cost = bound(changed.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper
        assert (cost <= 0.5) is fits


@pytest.mark.parametrize(("key", "step"), [("max_tokens", 1), ("batch_size", -1)])
def test_a_whole_key_is_solved_to_the_last_value(key, step):
    run = parse_run(RUN)
    solved = solve_run(run, epsilon=0.5, key=key)
    assert isinstance(solved.value, int)
    for offset, fits in ((0, True), (step, False)):
        changed = run.with_generator(**{key: solved.value + offset})
        cost = bound(changed.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper
        assert (cost <= 0.5) is fits


def test_what_no_value_can_do_is_left_out_or_refused():
    run = parse_run({**RUN, "data": {**RUN["data"], "size": 40}})
    with pytest.raises(NoValueFits) as caught:
        solve_run(run, epsilon=0.5, key="batch_size")
    assert caught.value.best_epsilon > 0.5
    assert "generator.batch_size" not in {solved.parameter for solved in fitting_values(run, epsilon=0.5)}


def test_a_key_that_is_no_number_is_refused():
    with pytest.raises(RunFileError, match="temperature"):
        solve_run(parse_run(RUN), epsilon=1.0, key="labels")


PREDICTION = {
    **RUN,
    "data": {**RUN["data"], "size": 640},
    "generator": {"kind": "private-prediction", "labels": ["a", "b"], "batch_size": 64, "max_tokens": 40},
}


def test_a_temperature_cannot_pay_for_the_sparse_vector():
    # 16 sparse-vector runs of 2/(64 * 0.1) = 0.3125 each, alone: 3.7446 at delta 1e-3, whatever the tokens cost.
    with pytest.raises(NoValueFits) as caught:
        solve_run(parse_run(PREDICTION), epsilon=3.0, key="temperature")
    runs = bound(
        {"kind": "repeat", "count": 16, "of": {"kind": "pure", "epsilon": 0.3125}}, relation="zero-out", delta=1e-3
    )
    assert caught.value.best_epsilon == pytest.approx(runs.epsilon_upper, rel=1e-4)


KEYWORDS = {
    **RUN,
    "generator": {
        "kind": "ksa",
        "labels": ["a", "b"],
        "samples_per_label": 4,
        "keywords": 2,
        "subsets": 20,
        "sampling": "poisson",
        "keyword_epsilon": 3.0,
    },
}


def test_a_value_is_certified_within_the_target_where_the_verifier_is_wider(monkeypatch):
    """A verifier that says a tenth more: the search aims lower until what both confirm is within the target."""

    def wider(plan, **asked):
        found = recompute(plan, **asked)
        return replace(found, epsilon_upper=1.1 * found.epsilon_upper)

    monkeypatch.setattr(settling, "recompute", wider)
    settling._settled.cache_clear()
    try:
        run = parse_run(KEYWORDS)
        solved = solve_run(run, epsilon=2.0, key="keyword_epsilon")
        stated = solved.epsilon_certified
        assert 1.99 < stated <= 2.0
        assert solved.epsilon_upper == stated  # what is shown is what would be signed
        # Between float64's and that, `plan` must not say that the budget covers what `certify` will refuse.
        alone = bound(
            parse_run(KEYWORDS).with_generator(keyword_epsilon=solved.value).plan(), relation="zero-out", delta=1e-3
        ).epsilon_upper
        assert alone < 0.95 * stated
        between = {**KEYWORDS, "budget": {"epsilon": 0.5 * (alone + stated), "delta": 1e-3}}
        assert not plan_run(parse_run(between).with_generator(keyword_epsilon=solved.value)).fits
    finally:
        settling._settled.cache_clear()


def test_where_float64_is_too_far_off_the_search_goes_by_certified_numbers(monkeypatch):
    monkeypatch.setattr("affidavit.solving.ATTEMPTS", 0)
    run = parse_run(RUN)
    found = solve_run(run, epsilon=2.0, key="temperature")
    changed = run.with_generator(temperature=found.value)
    stated = settle(changed.plan(), relation=run.relation, delta=run.budget.delta)
    assert found.epsilon_certified == stated.epsilon_upper <= 2.0
    assert found.epsilon_certified >= 2.0 * (1 - 3e-4)
    with pytest.raises(NoValueFits):
        solve_run(run, epsilon=1e-9, key="max_tokens")
