"""Plans whose meaning was once read wrongly, each with the value that is right and where it is from."""

from __future__ import annotations

import math
import random

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.verifier import check_claim, recompute

from .interpreter import attack, optimum
from .plans import (
    RELATIONS,
    Node,
    approximate,
    compose,
    exponential,
    gaussian,
    parallel,
    poisson,
    pure,
    repeat,
    without_replacement,
)


def sides(plan: Node, relation: str, *, delta: float) -> list[tuple[float, float]]:
    """(lower, upper) ε of float64 and of balls."""
    both = (ask(plan, relation=relation, delta=delta) for ask in (bound, recompute))  # type: ignore[operator]
    return [(found.epsilon_lower, found.epsilon_upper) for found in both]


def run(plan: Node, relation: str, epsilon: float, *, tries: int = 40) -> float:
    return attack(plan, relation, epsilon, rng=random.Random(7), tries=tries)


# --- a displaced record sits in any part ---


@pytest.mark.parametrize("membership", ["fixed", "moving"])
@pytest.mark.parametrize(("relation", "least"), [*zip(RELATIONS, (3.4977, 2.6412, 2.6412), strict=True)])
def test_a_displaced_record_may_sit_in_another_part(membership: str, relation: str, least: float) -> None:
    """W(1000, 100) over two Gaussians, δ = 1e-5: .9 N(0, I) + .1 N((−1, 1), I) against N(0, I) is 3.4977.

    With the changed record null or replaced in its own part, 2.6412. "fixed" binds the replaced record alone, and
    1.6845 was certified.
    """
    parts = parallel(gaussian(1.0), gaussian(1.0), membership=membership)
    plan = without_replacement(1000, 100, parts)
    crossed = without_replacement(1000, 100, repeat(2, gaussian(1.0)))
    for (lower, upper), (_, most) in zip(
        sides(plan, relation, delta=1e-5), sides(crossed, relation, delta=1e-5), strict=True
    ):
        assert least <= upper <= most * (1 + 1e-9)
        assert lower <= upper
    if relation == "add-remove":
        assert all(lower >= least for lower, _ in sides(plan, relation, delta=1e-5))


def test_fifty_uses_of_a_sample_over_parts() -> None:
    """10.47 where 5.15 was certified; the curve of both parts at once."""
    plan = repeat(50, without_replacement(1000, 100, parallel(gaussian(1.0), gaussian(1.0), membership="fixed")))
    for lower, upper in sides(plan, "add-remove", delta=1e-5):
        assert 10.47 <= lower <= upper <= 10.49


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_interpreter_sees_the_displaced_record(relation: str) -> None:
    """Data of four records, samples of two, randomised response: an attack above what a part alone costs."""
    plan = without_replacement(4, 2, parallel(pure(1.0), pure(1.0), membership="fixed"))
    reached = run(plan, relation, 0.5)
    alone = bound(without_replacement(4, 2, pure(1.0)), relation=relation, epsilon=0.5)
    assert reached > 1.3 * alone.delta_upper
    for ask in (bound, recompute):
        assert ask(plan, relation=relation, epsilon=0.5).delta_upper >= reached * (1 - 1e-9)  # type: ignore[operator]


def test_a_lower_side_is_of_data_sets_that_the_relation_allows() -> None:
    """Zero-out: the changed record is null in its own part while another enters the other one."""
    plan = without_replacement(1000, 100, parallel(gaussian(1.0), gaussian(1.0)))
    crossed = bound(without_replacement(1000, 100, repeat(2, gaussian(1.0))), relation="add-remove", delta=1e-5)
    for lower, _ in sides(plan, "zero-out", delta=1e-5):
        assert lower < crossed.epsilon_lower


def test_an_inner_curve_that_nothing_reaches_gives_no_lower_side() -> None:
    """Without replacement over a Poisson sample: whom it leaves out is one of many."""
    plan = without_replacement(3, 2, poisson(0.5, pure(1.0)))
    for relation in RELATIONS:
        found = bound(plan, relation=relation, epsilon=0.2, explicit=True)
        assert found.delta_lower <= run(plan, relation, 0.2) * 1.05 + 1e-9
        assert found.delta_upper >= run(plan, relation, 0.2) - 1e-9


def test_a_part_does_not_know_how_many_records_it_has() -> None:
    """A sample without replacement fills up with nulls there: leaving it is becoming null, also under add-remove."""
    inside = repeat(100, without_replacement(1000, 20, gaussian(0.5)))
    plan = parallel(inside, inside)
    for (_, upper), (_, null) in zip(
        sides(plan, "add-remove", delta=1e-5), sides(inside, "zero-out", delta=1e-5), strict=True
    ):
        assert upper == pytest.approx(null, rel=1e-9)
    null = recompute(inside, relation="zero-out", delta=1e-5)
    assert recompute(plan, relation="add-remove", delta=1e-5).epsilon_upper == pytest.approx(
        null.epsilon_upper, rel=1e-9
    )


def test_populations_of_two_sizes_are_filled_up() -> None:
    one, other = without_replacement(100, 10, gaussian(1.0)), without_replacement(200, 20, gaussian(1.0))
    plan = compose(one, other)
    null = bound(plan, relation="zero-out", delta=1e-5)
    found = bound(plan, relation="add-remove", delta=1e-5)
    assert found.epsilon_upper <= null.epsilon_upper * (1 + 1e-3)
    assert bound(compose(one, one), relation="add-remove", delta=1e-5).epsilon_upper <= found.epsilon_upper * (1 + 1e-3)


def test_a_sample_of_a_sample_is_a_smaller_sample() -> None:
    """W(500 of 1000) of W(50 of 500), σ = 1, δ = 1e-5: 1.0328, that of W(50 of 1000)."""
    nested = without_replacement(1000, 500, without_replacement(500, 50, gaussian(1.0)))
    for lower, upper in sides(nested, "add-remove", delta=1e-5):
        assert lower == pytest.approx(1.0328, abs=5e-5)
        assert upper == pytest.approx(1.0328, abs=5e-5)
    for outer in (0.5, 0.9):
        with pytest.raises(NotSupported, match="Poisson"):
            bound(poisson(outer, without_replacement(10, 5, pure(1.0))), relation="add-remove", delta=0.1)
    with pytest.raises(NotSupported, match="population"):
        recompute(without_replacement(10, 10, without_replacement(20, 5, pure(1.0))), relation="zero-out", delta=0.1)


def test_the_largest_loss_of_a_sample_of_a_poisson_sample() -> None:
    """δ = 0. Below a sample without replacement one record replaces another: Poisson does not dilute the loss."""
    plan = without_replacement(10, 5, poisson(0.1, pure(2.0)))
    assert bound(plan, relation="add-remove", delta=0.0).epsilon_upper >= math.log1p(0.5 * math.expm1(2.0)) * (
        1 - 1e-12
    )


# --- order ---


def test_a_repeated_node_is_its_copies() -> None:
    """parallel(E(1), G(2.0602)) twice, add-remove, δ at ε = 1.6: .0053995 in the worse order, .0048706 in the other."""
    node = parallel(exponential(1.0), gaussian(2.0602))
    for relation in ("add-remove", "zero-out"):
        for plan in (repeat(2, node), compose(node, node)):
            for ask in (bound, recompute):
                found = ask(plan, relation=relation, epsilon=1.6)  # type: ignore[operator]
                assert 0.005394 <= found.delta_lower <= found.delta_upper <= 0.005400
            assert check_claim(plan, relation=relation, epsilon=1.6, delta=0.00487).answer == "does not hold"


def test_parts_that_are_crossed_run_in_any_order() -> None:
    """Under substitution a record may meet both parts: the upper side is that of the Gaussian's outcome known first."""
    plan = parallel(exponential(1.0), gaussian(2.0602))
    first = bound(compose(gaussian(2.0602), exponential(1.0)), relation="zero-out", epsilon=1.6)
    last = bound(compose(exponential(1.0), gaussian(2.0602)), relation="zero-out", epsilon=1.6)
    assert last.delta_upper < first.delta_lower
    for ask in (bound, recompute):
        found = ask(plan, relation="substitution", epsilon=1.6)  # type: ignore[operator]
        assert found.delta_upper >= first.delta_lower
        assert found.delta_lower <= last.delta_upper
    assert check_claim(plan, relation="substitution", epsilon=1.6, delta=last.delta_upper).answer != "holds"


def test_a_part_more_never_costs_less() -> None:
    """With E(.1) beside, E(.5) and E(2) were composed the other way round."""
    two, three = (
        parallel(exponential(0.5), exponential(2.0)),
        parallel(exponential(0.5), exponential(2.0), exponential(0.1)),
    )
    for ask in (bound, recompute):
        few, more = (ask(plan, relation="substitution", delta=1e-3).epsilon_upper for plan in (two, three))  # type: ignore[operator]
        assert more >= few * (1 - 1e-9)


def test_unlike_ranges_side_by_side_have_no_order() -> None:
    plan = parallel(repeat(3, exponential(0.5)), repeat(2, compose(exponential(1.0), gaussian(3.0))))
    sequences = [
        compose(repeat(3, exponential(0.5)), repeat(2, compose(exponential(1.0), gaussian(3.0)))),
        compose(repeat(2, compose(exponential(1.0), gaussian(3.0))), repeat(3, exponential(0.5))),
        compose(repeat(2, gaussian(3.0)), repeat(2, exponential(1.0)), repeat(3, exponential(0.5))),
    ]
    upper = min(
        bound(plan, relation="substitution", delta=1e-3).epsilon_upper, sides(plan, "substitution", delta=1e-3)[1][1]
    )
    for sequence in sequences:
        assert upper >= bound(sequence, relation="zero-out", delta=1e-3).epsilon_lower


# --- leaving and entering ---


def test_one_part_is_left_and_the_other_entered() -> None:
    """Poisson samples in two parts, σ = .3, q = 1/2, substitution: δ(0) = .490789; two pairs that both leave: .6705."""
    node = poisson(0.5, gaussian(0.3))
    plan = parallel(node, node, moves=[node, node])
    for ask in (bound, recompute):
        found = ask(plan, relation="substitution", epsilon=0.0)  # type: ignore[operator]
        assert found.delta_lower <= 0.490790
        assert found.delta_upper >= 0.490788
        assert found.delta_upper - found.delta_lower <= 3e-3
    assert check_claim(plan, relation="substitution", epsilon=0.0, delta=0.4909).answer != "does not hold"


def test_leaving_and_entering_randomised_response() -> None:
    """The same with finite mechanisms, where every choice of the adversary can be tried."""
    node = poisson(0.5, pure(1.5))
    plan = parallel(node, node, moves=[node, node])
    exact = optimum(plan, "substitution", 0.0)
    for ask in (bound, recompute):
        found = ask(plan, relation="substitution", epsilon=0.0)  # type: ignore[operator]
        assert found.delta_upper >= exact * (1 - 1e-9)


def test_nested_parts_are_one_partition() -> None:
    """A changed record meets two of the three Gaussians, σ = 1, δ = 1e-5: 6.572970067, not 8.385 for all three."""
    plan = parallel(gaussian(1.0), parallel(gaussian(1.0), gaussian(1.0)))
    for lower, upper in sides(plan, "substitution", delta=1e-5):
        assert lower == pytest.approx(6.572970067030331)
        assert upper == pytest.approx(6.572970067030331)
    assert recompute(plan, relation="substitution", delta=1e-5).epsilon_upper == pytest.approx(6.572970067030331)
    finite = parallel(pure(1.0), parallel(pure(1.0), pure(1.0)))
    assert bound(finite, relation="substitution", epsilon=1.0).delta_upper == pytest.approx(
        optimum(finite, "substitution", 1.0), rel=1e-9
    )


def test_leaving_a_part_costs_no_more_than_replacing_in_it() -> None:
    """Replacing includes becoming null. ``moves`` that state more are an upper side, and nothing reaches them."""
    plan = parallel(pure(0.3), pure(0.3), moves=[pure(1.0), pure(1.0)])
    exact = optimum(plan, "substitution", 0.2)
    for ask in (bound, recompute):
        assert ask(plan, relation="substitution", epsilon=0.2).delta_lower <= exact * (1 + 1e-9)  # type: ignore[operator]
    assert check_claim(plan, relation="substitution", epsilon=0.2, delta=exact * 1.01).answer != "does not hold"


def test_what_moves_state_holds_inside_a_part_too() -> None:
    """A leaf satisfies both statements: replacing is no further than by way of the law without the record."""
    inner = parallel(pure(1.0), pure(1.0))
    for plan in (
        parallel(pure(0.1), inner, moves=[pure(0.1), parallel(pure(0.2), pure(0.2))]),
        parallel(pure(1.0), pure(1.0), moves=[pure(0.2), pure(0.2)]),
        parallel(repeat(2, pure(1.0)), gaussian(9.0), moves=[repeat(2, pure(0.2)), gaussian(9.0)]),
    ):
        # Two outcomes of losses ±0.4 each are more than 0.2 to the law without the record allows, twice.
        most = bound(repeat(2, pure(0.4)), relation="zero-out", epsilon=0.3).delta_upper
        for ask in (bound, recompute):
            found = ask(plan, relation="substitution", epsilon=0.3)  # type: ignore[operator]
            assert found.delta_lower <= most
            assert found.delta_upper >= run(plan, "substitution", 0.3) - 1e-9
        assert check_claim(plan, relation="substitution", epsilon=0.3, delta=most).answer != "does not hold"


def test_twice_a_move_is_reached_inside_a_part() -> None:
    """Softmax and noise: half way between the two lies the law without the record."""
    for one, other in ((exponential(0.4), exponential(0.2)), (gaussian(1.0), gaussian(2.0))):
        plan = parallel(one, one, moves=[other, other])
        for ask in (bound, recompute):
            inside = ask(one, relation="substitution", delta=1e-3)  # type: ignore[operator]
            assert ask(plan, relation="substitution", delta=1e-3).epsilon_lower >= inside.epsilon_lower * (1 - 1e-9)  # type: ignore[operator]


def test_a_part_with_a_poisson_sample_must_say_what_leaving_it_costs() -> None:
    """Nothing is stated of a sample without the record: a mechanism may tell for certain that it was left."""
    node = poisson(0.5, pure(0.1))
    plan = parallel(node, node)
    assert run(plan, "substitution", 5.0) >= 0.5
    for ask in (bound, recompute):
        with pytest.raises(NotSupported) as caught:
            ask(plan, relation="substitution", delta=0.1)  # type: ignore[operator]
        assert '"moves"' in caught.value.hint
    inside = poisson(0.5, parallel(pure(0.1), pure(0.1)))
    assert run(inside, "substitution", 5.0) >= 0.5
    with pytest.raises(NotSupported, match="not stated"):
        bound(inside, relation="substitution", delta=0.1)
    stated = parallel(node, node, moves=[node, node])
    assert bound(stated, relation="substitution", delta=0.1).epsilon_upper < 1.0


# --- edges ---


def test_exactly_the_failure_that_is_stated() -> None:
    """(1, 1e-5) at δ = 1e-5 is 1: what is left when the failure has all of δ."""
    plan = approximate(1.0, 1e-5)
    for ask in (bound, recompute):
        found = ask(plan, relation="zero-out", delta=1e-5)  # type: ignore[operator]
        assert found.epsilon_lower == pytest.approx(1.0)
        assert found.epsilon_upper == pytest.approx(1.0)
    assert check_claim(plan, relation="zero-out", epsilon=1.0, delta=1e-5).answer == "holds"
    assert check_claim(plan, relation="zero-out", epsilon=1.0, delta=0.99e-5).answer == "does not hold"
    assert bound(repeat(3, plan), relation="zero-out", delta=3e-5).epsilon_upper == pytest.approx(3.0)


@pytest.mark.parametrize("plan", [gaussian(1.0), poisson(0.1, gaussian(1.0)), compose(gaussian(1.0), exponential(1.0))])
def test_an_upper_side_of_delta_is_never_nothing(plan: Node) -> None:
    for epsilon in (39.0, 400.0):
        assert bound(plan, relation="add-remove", epsilon=epsilon).delta_upper > 0.0
    assert bound(pure(1.0), relation="add-remove", epsilon=39.0).delta_upper == 0.0


def test_the_verifier_reads_far_corners() -> None:
    """Once a complex threshold, and a law with no interval that is likely under both."""
    rare = poisson(1e-6, gaussian(0.2))
    shown = bound(rare, relation="add-remove", delta=1e-20)
    found = recompute(rare, relation="add-remove", delta=1e-20)
    assert found.epsilon_lower <= shown.epsilon_upper
    assert found.epsilon_upper >= shown.epsilon_lower
    far = compose(repeat(2, gaussian(0.0104)), exponential(0.00124))
    assert recompute(far, relation="add-remove", delta=2.67e-5).epsilon_upper == pytest.approx(9793.974855, rel=1e-5)
