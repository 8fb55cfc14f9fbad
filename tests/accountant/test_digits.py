"""Precision is one setting of the process: whoever leaves a region must not take another thread's digits away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from flint import ctx

from affidavit.accountant.digits import alone
from affidavit.accountant.filters.again import understated
from affidavit.accountant.filters.spend import costs_of
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.pld.replaced import replaced_step
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.balls import precision
from affidavit.mechanisms.coins import _settled

PLAN = parse_plan({"kind": "laplace", "noise_multiplier": 1.7})
COSTS = costs_of(PLAN, relation="add-remove")


def _replaced() -> Any:
    """At 53 bits instead of 233 its upper side was 4.4e-8 below the truth, and its lower side above it elsewhere."""
    return replaced_step.__wrapped__(replaced=3.505144101211313e-07, absent=2.0815421822594116e-07, rate=0.0213)


@pytest.mark.parametrize(
    "work",
    [
        _replaced,
        lambda: understated(PLAN, COSTS, relation="add-remove"),
        lambda: recompute(PLAN, relation="add-remove", delta=1e-6),
        lambda: _settled(1 << 40, Fraction(1, 3), SeededNoise(1)),
    ],
    ids=["corners", "filters", "certified", "coins"],
)
def test_another_thread_waits_for_the_digits(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work)
    with alone:
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join()


def test_a_region_keeps_its_digits_while_others_come_and_go() -> None:
    entered, left = threading.Event(), threading.Event()

    def other() -> None:
        with precision(100):
            entered.set()
        left.set()

    before = ctx.prec
    thread = threading.Thread(target=other)
    with precision(300), precision(200):
        thread.start()
        assert not entered.wait(0.2)
        assert ctx.prec == 200
    thread.join()
    assert left.is_set()
    assert ctx.prec == before
