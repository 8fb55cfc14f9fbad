"""Parallel parts: which choice of the neighbour is the worst (docs/theory/parallel-and-order.md)."""

from __future__ import annotations

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.cases.case import cases_of
from affidavit.accountant.plan import Exponential, Gaussian, Parallel, Repeat, parse_plan
from affidavit.accountant.verifier import recompute

ONE = {"kind": "gaussian", "noise_multiplier": 1.0}
TWO = {"kind": "gaussian", "noise_multiplier": 2.0}


def epsilon(plan: dict, relation: str) -> float:
    return bound(plan, relation=relation, delta=1e-5).epsilon_upper


@pytest.mark.parametrize("relation", ["add-remove", "zero-out"])
def test_one_record_is_in_one_part(relation: str) -> None:
    plan = {"kind": "parallel", "parts": [TWO, ONE, TWO]}
    assert epsilon(plan, relation) == epsilon(ONE, relation)


def test_a_replaced_record_may_leave_one_part_and_enter_another() -> None:
    """Two σ = 1 Gaussians at 1e-5: 6.572970067030331 moving, 4.3771780956812245 fixed (closed forms)."""
    parts = [ONE, ONE]
    assert epsilon({"kind": "parallel", "parts": parts}, "substitution") == pytest.approx(6.572970067030331)
    fixed = {"kind": "parallel", "membership": "fixed", "parts": parts}
    assert epsilon(fixed, "substitution") == pytest.approx(4.3771780956812245)


def test_moves_state_the_cost_of_leaving_and_entering() -> None:
    """Substitution costs sensitivity 2 inside a part; leaving or entering costs 1 in each of two parts."""
    half = {"kind": "gaussian", "noise_multiplier": 0.5}
    plan = {"kind": "parallel", "parts": [half, half], "moves": [ONE, ONE]}
    assert epsilon(plan, "substitution") == pytest.approx(epsilon(half, "substitution"))
    cheap_inside = {"kind": "parallel", "parts": [TWO, TWO], "moves": [ONE, ONE]}
    assert epsilon(cheap_inside, "substitution") == pytest.approx(6.572970067030331)


def test_moves_beyond_the_cost_of_replacing_are_not_reached_beside_a_sample() -> None:
    """Leaving costs each mechanism at most what becoming null does, but for those on a Poisson sample of its own."""
    weak, strong = ({"kind": "gaussian", "noise_multiplier": sigma} for sigma in (10.0, 1.0))

    def sampled(rate: float, of: dict) -> dict:
        return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}

    def compose(*parts: dict) -> dict:
        return {"kind": "compose", "parts": list(parts)}

    for part, move in (
        (sampled(1.0, weak), sampled(1.0, strong)),
        (compose(sampled(0.5, weak), weak), compose(sampled(0.5, weak), strong)),
    ):
        plan = {"kind": "parallel", "parts": [part] * 2, "moves": [move] * 2}
        at_most = bound(compose(part, part, sampled(0.5, weak)), relation="substitution", delta=1e-5).epsilon_upper
        issued = bound(plan, relation="substitution", delta=1e-5, explicit=True)
        again = recompute(plan, relation="substitution", delta=1e-5)
        assert 0.3 < issued.epsilon_lower <= at_most < 1.5
        assert again.epsilon_lower <= at_most


def test_a_single_part_cannot_be_crossed() -> None:
    assert epsilon({"kind": "parallel", "parts": [ONE]}, "substitution") == epsilon(ONE, "substitution")


def test_the_two_costliest_of_many_parts() -> None:
    plan = {"kind": "parallel", "parts": [TWO, ONE, TWO, ONE, TWO]}
    assert epsilon(plan, "substitution") == pytest.approx(6.572970067030331)


def test_parallel_inside_compose_and_repeat() -> None:
    plan = {"kind": "repeat", "count": 4, "of": {"kind": "parallel", "parts": [ONE, TWO]}}
    assert epsilon(plan, "add-remove") == pytest.approx(
        epsilon({"kind": "repeat", "count": 4, "of": ONE}, "add-remove")
    )


def test_unlike_parts_are_all_tried() -> None:
    soft = {"kind": "repeat", "count": 30, "of": {"kind": "exponential", "range": 0.4}}
    plan = {"kind": "parallel", "parts": [ONE, soft]}
    assert epsilon(plan, "zero-out") == max(epsilon(ONE, "zero-out"), epsilon(soft, "zero-out"))


def test_many_equal_parts_collapse_to_one_scenario() -> None:
    plan = Parallel(tuple(Repeat(40, Exponential(0.2)) for _ in range(500)))
    assert len(cases_of(plan, "zero-out").upper) == 1
    assert cases_of(parse_plan(plan), "substitution").upper[-1].exponentials == ((0.2, 80),)


def test_a_dominated_part_is_dropped_only_if_it_is_dominated() -> None:
    costly, cheap = Repeat(3, Gaussian(1.0)), Repeat(2, Gaussian(1.5))
    assert len(cases_of(Parallel((costly, cheap)), "zero-out").upper) == 1
    crossed = Repeat(2, Gaussian(0.9))
    assert len(cases_of(Parallel((costly, crossed)), "zero-out").upper) == 2
