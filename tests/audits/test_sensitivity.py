"""The sensitivity check on a generator of a few lines: what counts as a move, whose leaf speaks, what is a fault."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import (
    Compose,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
)
from affidavit.accountant.release.order import Order
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.audits.checks import CheckReport
from affidavit.audits.sensitivity import Change, Neighbours, Rehearsal, allowed, move, sensitivity_check, stated
from affidavit.mechanisms import exponential, gaussian
from affidavit.mechanisms.above_threshold import AboveThreshold
from affidavit.mechanisms.base import Statistic
from affidavit.mechanisms.bounded_range import BoundedRange
from affidavit.mechanisms.noisy_max import NoisyMax
from affidavit.mechanisms.propose_test_release import ProposeTestRelease

ONE = (Fraction(1),)


def _statistic(moves: Any, *values: Sequence[float], scale: tuple[Fraction, ...] = ONE) -> Statistic:
    return Statistic(moves, tuple(np.array(each) for each in values), scale)


@pytest.mark.parametrize(
    ("moves", "before", "after", "expected"),
    [
        ("l2", [[0.0, 0.0]], [[3.0, 4.0]], 5),
        ("l1", [[0, 0]], [[3, -4]], 7),
        ("spread", [[0, 0, 0]], [[3, -4, 0]], 7),
        ("spread", [[5, 5]], [[9, 9]], 0),
        ("spread", [[0, 0], [0, 0]], [[1, 0], [0, 2]], 3),
        ("two-spreads", [[0, 0]], [[1, 0]], 2),
        ("guarded", [[1, 2], [5]], [[1, 2], [3]], 2),
        ("guarded", [[1, 2], [5]], [[1, 3], [3]], 8),
        ("not", [[1.0]], [[1.5]], Fraction(1, 2)),
        ("spread", [[2**61, 0]], [[2**61 + 1, 0]], 1),
    ],
)
def test_a_move_is_measured_as_its_kind_says(moves, before, after, expected):
    """By hand; whole numbers are exact where float64 is not."""
    assert move(_statistic(moves, *before), _statistic(moves, *after)) == expected


def test_another_shape_or_noise_is_no_move():
    first = _statistic("l2", [0.0, 0.0])
    assert move(first, _statistic("l2", [0.0])) is None
    assert move(first, _statistic("l1", [0.0, 0.0])) is None
    assert move(first, _statistic("l2", [0.0, 0.0], scale=(Fraction(2),))) is None


@pytest.mark.parametrize(
    ("leaf", "scale", "expected"),
    [
        (Gaussian(4.0), (2,), Fraction(1, 2)),
        (Laplace(4.0), (2,), Fraction(1, 2)),
        (DiscreteGaussian(4.0, 0.5), (8,), 2),
        (Exponential(0.5), (8,), 4),
        (BoundedRange(0.5), (8,), 4),
        (NoisyMax(0.5), (8,), 4),
        (Pure(0.5), (8,), 4),
        (ProposeTestRelease(0.5, 1e-3), (8,), 4),
        (AboveThreshold(2.0, 8.0, 1, monotone=False), (4, 8), 1),
        (AboveThreshold(2.0, 8.0, 1, monotone=False), (4, 24), 2),
        (Gaussian(0.0), (1,), None),
    ],
)
def test_what_a_leaf_allows_at_a_noise(leaf, scale, expected):
    """Noise over multiplier, or range times temperature: the leaf's own statement, solved for the move."""
    assert allowed(leaf, _statistic("l2", [0.0], scale=tuple(map(Fraction, scale)))) == expected


PARTS = Parallel((Pure(0.1), Pure(0.2)), membership="moving", moves=(Pure(0.3), Pure(0.4)))


@pytest.mark.parametrize(
    ("plan", "relation", "change", "expected"),
    [
        (Repeat(3, Pure(1.0)), "zero-out", "dropped", {"plan.of": 1.0}),
        (Repeat(3, Pure(1.0)), "zero-out", "replaced", {}),
        (Repeat(3, Pure(1.0)), "substitution", "replaced", {"plan.of": 1.0}),
        (PARTS, "substitution", "dropped", {"plan.parts[0]": 0.1, "plan.parts[1]": 0.2}),
        (PARTS, "substitution", "replaced", {"plan.parts[0]": 0.1, "plan.parts[1]": 0.2}),
        (PARTS, "substitution", "moved", {"plan.parts[0]": 0.3, "plan.parts[1]": 0.4}),
        (Parallel((Pure(0.1),), membership="fixed"), "substitution", "moved", {}),
        (Poisson(0.5, Pure(1.0)), "add-remove", "replaced", {}),
        (
            Compose((Pure(0.5), WithoutReplacement(9, 3, Pure(1.0)))),
            "zero-out",
            "replaced",
            {"plan.parts[1].of": 1.0},
        ),
    ],
)
def test_which_leaves_speak_of_a_change(plan, relation, change, expected):
    found = stated(plan, relation=relation, change=change)
    assert {path: getattr(leaf, "epsilon", None) for path, leaf in found.items()} == expected


# --- a generator -----------------------------------------------------------------------------------------------

STEPS = 3
PLAN = Repeat(STEPS, Compose((Gaussian(2.0), Exponential(1.0))))


class _Permit:
    def __init__(self, watch: Rehearsal, plan: Plan = PLAN) -> None:
        self.watch = watch
        self.noise = SeededNoise(1)
        self._order = Order(plan)

    def use(self, path: str) -> Leaf:
        leaf = self._order.use(path)
        self.watch.began(path)
        return leaf


def _generate(
    records: Sequence[int], permit: _Permit, *, bug: Callable[[int, float], float] = lambda _step, value: value
) -> Hashable:
    """A noisy mean, then a choice by it; a record is worth 0 or 1, and moves the sum by 1."""
    told = []
    for step in range(STEPS):
        total = bug(step, float(sum(records)))
        noisy = gaussian.GaussianNoise(2, 1).release(permit, "plan.of.parts[0]", np.array([total]))
        scores = np.array([sum(records), round(float(noisy[0]))])
        told.append(exponential.SoftmaxSampling(width=1, temperature=1).release(permit, "plan.of.parts[1]", scores))
    return tuple(told)


def _pair(run: Callable[[Sequence[int], _Permit], Hashable] = _generate, *, change: Change = "dropped") -> Neighbours:
    return Neighbours(
        "one of three is dropped",
        change,
        lambda watch: run([1, 1, 1], _Permit(watch)),
        lambda watch: run([1, 1], _Permit(watch)),
    )


def _checked(run: Callable[[Sequence[int], _Permit], Hashable] = _generate) -> CheckReport:
    return sensitivity_check([_pair(run)], plan=PLAN, relation="add-remove")


def _faults(report: CheckReport) -> set[str]:
    return {check.name for check in report.faults}


def test_a_sound_generator_moves_as_its_plan_says_at_every_step():
    """Outcomes are repeated: also the second and third step are compared after one history."""
    report = _checked()
    assert not report.faults
    assert [check.seen for check in report.about("sensitivity")] == [STEPS, STEPS]
    assert all("1.000 of what the plan states" in check.detail for check in report.about("sensitivity"))
    assert report.exit_code == 0


def test_a_statistic_that_moves_too_far_at_one_step_is_a_fault():
    report = _checked(lambda records, permit: _generate(records, permit, bug=lambda step, v: v * (1 + (step == 2))))
    assert _faults(report) == {"sensitivity"}
    (fault,) = report.faults
    assert fault.path == "plan.of.parts[0]"
    assert "release 5" in fault.detail
    assert "2 times the stated move" in fault.detail


def test_a_change_of_which_no_leaf_speaks_is_not_judged():
    report = sensitivity_check([_pair(change="replaced")], plan=PLAN, relation="add-remove")
    assert {check.status for check in report.about("sensitivity")} == {"not checked"}


def test_what_passes_beside_the_releases_is_a_fault():
    assert _faults(_checked(lambda records, permit: (_generate(records, permit), sum(records)))) == {"outputs"}


def test_a_use_whose_statistic_is_not_shown_is_a_fault():
    def run(records: Sequence[int], permit: _Permit) -> Hashable:
        for _ in range(STEPS):
            permit.use("plan.of.parts[0]")
            exponential.SoftmaxSampling(width=1, temperature=1).release(
                permit, "plan.of.parts[1]", np.array([len(records), 0])
            )
        return ()

    assert _faults(_checked(run)) == {"unstated releases"}


@pytest.mark.parametrize("steps", [len, lambda records: 5 - len(records)])
def test_releases_whose_number_hangs_on_the_data_are_a_fault(steps):
    def run(records: Sequence[int], permit: _Permit) -> Hashable:
        for _ in range(steps(records)):
            gaussian.GaussianNoise(2, 1).release(permit, "plan.of.parts[0]", np.array([0.0]))
            exponential.SoftmaxSampling(width=1, temperature=1).release(permit, "plan.of.parts[1]", np.array([0, 0]))
        return ()

    assert _faults(_checked(run)) == {"order of releases"}


def test_noise_that_hangs_on_the_data_is_a_fault():
    def run(records: Sequence[int], permit: _Permit) -> Hashable:
        for _ in range(STEPS):
            gaussian.GaussianNoise(2 * len(records), 1).release(permit, "plan.of.parts[0]", np.array([0.0]))
            exponential.SoftmaxSampling(width=1, temperature=1).release(permit, "plan.of.parts[1]", np.array([0, 0]))
        return ()

    assert _faults(_checked(run)) == {"what is public"}


@pytest.mark.parametrize("failing", [2, 3])
def test_a_failure_that_hangs_on_the_data_is_a_fault_and_its_words_are_not_told(failing):
    def run(records: Sequence[int], permit: _Permit) -> Hashable:
        if len(records) == failing:
            raise ValueError("the changed record's own words")
        return _generate(records, permit)

    sound = _pair()
    report = sensitivity_check([sound, _pair(run)], plan=PLAN, relation="add-remove")
    assert _faults(report) == {"order of releases"}
    assert "ValueError" in report.faults[0].detail
    assert "words" not in str(report.to_dict())


def test_a_failure_whatever_the_data_is_raised():
    def run(records: Sequence[int], permit: _Permit) -> Hashable:
        raise ValueError("a setting")

    with pytest.raises(ValueError, match="a setting"):
        _checked(run)


def test_a_record_in_two_parts_is_a_fault():
    plan = Parallel((Gaussian(2.0), Gaussian(2.0)))

    def run(records: Sequence[int], permit: _Permit) -> Hashable:
        for part in range(2):
            value = np.array([float(len(records))])
            gaussian.GaussianNoise(2, 1).release(permit, f"plan.parts[{part}]", value)
        return ()

    pair = Neighbours(
        "dropped",
        "dropped",
        lambda watch: run([1, 1], _Permit(watch, plan)),
        lambda watch: run([1], _Permit(watch, plan)),
    )
    report = sensitivity_check([pair], plan=plan, relation="add-remove")
    assert _faults(report) == {"parallel parts"}
    moved = Neighbours("moved", "moved", pair.before, pair.after)
    assert not sensitivity_check([moved], plan=plan, relation="substitution").faults


def test_a_check_that_was_not_made_is_not_checked():
    report = sensitivity_check(
        [Neighbours("nothing changes", "dropped", lambda _: "text", lambda _: "text")], plan=PLAN, relation="add-remove"
    )
    assert {check.status for check in report.about("sensitivity")} == {"not checked"}
    assert report.findings().outcome == "holds"
    assert {item.badge for item in report.findings().items if not item.judged} == {"NOT CHECKED"}
    with pytest.raises(UsageError, match="no neighbours"):
        sensitivity_check([], plan=PLAN, relation="add-remove")
