"""What a plan means, run: no bound is below an attack that was run, no lower side above what theory allows.

``interpreter`` runs tiny plans on explicit neighbours by docs/theory/semantics.md alone; ``plans`` makes them up.
Each plan is asked of all three engines: float64, balls, and the verifier's verdict on a claim just below the attack.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.verifier import check_claim, recompute
from support.unlisted import listed_at_most

from .interpreter import TooLargeError, attack, is_exhaustible, optimum
from .plans import Node, concentrated, plan

RELATIVE, ABSOLUTE = 1e-7, 1e-9
"""Room for the interpreter's float64: sums of a few hundred products."""
TOLERANCE = 0.05
"""How wide a bracket may be: each of its sides must hold all the same."""


@dataclass(frozen=True)
class Ran:
    """One plan, asked at ``epsilon``: the δ of an attack, and the largest there is where all choices can be tried."""

    plan: Node
    relation: str
    epsilon: float
    reached: float
    largest: float | None


def run(number: int, *, zcdp: bool = False) -> Ran | None:
    """The ``number``-th plan, attacked; None where it has more samples than are worth writing out.

    ``zcdp``: with ρ-zCDP for its Gaussians; None where it has none.
    """
    made, relation = plan(number)
    if zcdp and made == (made := concentrated(made)):
        return None
    rng = random.Random(number)
    epsilon = rng.choice((0.0, 0.2, 0.5, 1.0))
    largest = None
    try:
        reached = attack(made, relation, epsilon, rng=rng, tries=8, work=2500)
        if is_exhaustible(made, relation):
            largest = optimum(made, relation, epsilon)
    except TooLargeError:
        return None
    return Ran(made, relation, epsilon, max(reached, largest or 0.0), largest)


def check_sides(ran: Ran, lower: float, upper: float) -> None:
    assert upper >= ran.reached * (1 - RELATIVE) - ABSOLUTE, (ran, upper)
    if ran.largest is not None:
        assert lower <= ran.largest * (1 + RELATIVE) + ABSOLUTE, (ran, lower)


def check(ran: Ran, *, number: bool, verdict: bool) -> int:
    """Every engine that answers; how many did."""
    answers = 0
    try:
        found = bound(ran.plan, relation=ran.relation, epsilon=ran.epsilon, explicit=True, tolerance=TOLERANCE)
        check_sides(ran, found.delta_lower, found.delta_upper)
        answers += 1
    except NotSupported:
        pass
    if number:
        try:
            again = recompute(ran.plan, relation=ran.relation, epsilon=ran.epsilon)  # type: ignore[arg-type]
            check_sides(ran, again.delta_lower, again.delta_upper)
            answers += 1
        except NotSupported:
            pass
    if verdict and (claim := ran.reached * (1 - 1e-6) - ABSOLUTE) > 0.0:
        try:
            checked = check_claim(ran.plan, relation=ran.relation, epsilon=ran.epsilon, delta=claim)
            assert checked.answer != "holds", (ran, checked)
            answers += 1
        except NotSupported:
            pass
    return answers


BATCH = 20


@pytest.mark.parametrize("first", range(0, 300, BATCH))
def test_no_bound_is_below_an_attack(first: int) -> None:
    """Of each three plans, all are asked of what issues, one each of the verifier's number and of its verdict."""
    answers = 0
    for number in range(first, first + BATCH):
        if (ran := run(number)) is not None:
            answers += check(
                ran, number=number % 3 == first // BATCH % 3, verdict=number % 3 == (first // BATCH + 1) % 3
            )
    assert answers >= BATCH // 2


@pytest.mark.parametrize("first", range(120, 240, 2 * BATCH))
def test_no_bound_is_below_an_attack_on_what_is_only_concentrated(first: int) -> None:
    """Gaussians and randomised response, on any samples; nor is any upper side below what Gaussians cost there."""
    answers = 0
    for number in range(first, first + 2 * BATCH):
        if (ran := run(number, zcdp=True)) is None:
            continue
        answers += (answered := check(ran, number=number % 3 == 0, verdict=number % 3 == 1))
        if answered:
            found, gaussian = (
                bound(one, relation=ran.relation, epsilon=ran.epsilon, explicit=True, tolerance=TOLERANCE)
                for one in (ran.plan, plan(number)[0])
            )
            assert gaussian.delta_lower <= found.delta_upper
    assert answers >= BATCH // 5


@pytest.mark.parametrize("first", range(0, 100, BATCH))
def test_no_bound_of_cases_that_are_not_listed_is_below_an_attack(first: int) -> None:
    """As if one case were too many to list: the same plans, all of whose choices are bounded together."""
    answers = 0
    for number in range(first, first + BATCH):
        if (ran := run(number)) is not None:
            with listed_at_most(1):
                answers += check(ran, number=number % 3 == first // BATCH % 3, verdict=False)
    assert answers >= BATCH // 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(300, 5300, 250))
def test_no_bound_is_below_thousands_of_attacks(first: int) -> None:
    answers = 0
    for number in range(first, first + 250):
        for zcdp in (False, True):
            if (ran := run(number, zcdp=zcdp)) is not None:
                answers += check(ran, number=True, verdict=True)
                with listed_at_most(1):
                    check(ran, number=True, verdict=False)
    assert answers >= 250
