"""Plans that no theorem, no certified arithmetic or no second formula covers, and a plan or a way that is covered."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle, islice
from typing import Any

from remedy_cases import PLAN, Api, Case, Place

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.pld.steps import one_step
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recompute

Node = dict[str, Any]


def gaussian(noise_multiplier: float = 1.0) -> Node:
    return {"kind": "gaussian", "noise_multiplier": noise_multiplier}


def laplace(noise_multiplier: float = 1.0) -> Node:
    return {"kind": "laplace", "noise_multiplier": noise_multiplier}


def discrete(granularity: float) -> Node:
    return {"kind": "discrete-gaussian", "noise_multiplier": 1.0, "granularity": granularity}


def pure(epsilon: float = 1.0) -> Node:
    return {"kind": "pure", "epsilon": epsilon}


def approximate(epsilon: float = 1.0, delta: float = 1e-6) -> Node:
    return {"kind": "approximate", "epsilon": epsilon, "delta": delta}


def exponential(spread: float = 1.0) -> Node:
    return {"kind": "exponential", "range": spread}


def zcdp(rho: float = 0.1) -> Node:
    return {"kind": "zcdp", "rho": rho}


def compose(*parts: Node) -> Node:
    return {"kind": "compose", "parts": list(parts)}


def repeat(count: int, of: Node) -> Node:
    return {"kind": "repeat", "count": count, "of": of}


def parallel(*parts: Node, **more: Any) -> Node:
    return {"kind": "parallel", "parts": list(parts), **more}


def poisson(of: Node, **more: Any) -> Node:
    return {"kind": "subsample", "scheme": "poisson", "rate": 0.5, "of": of, **more}


def drawn(population: int, sample: int, of: Node) -> Node:
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


def unlike(count: int) -> list[Node]:
    """Leaves of which none costs at least what another does."""
    return [approximate(0.01 * (i + 1), 1e-6 * (count - i)) for i in range(count)]


def _bounded(*, plan: Node, relation: Relation = "zero-out") -> object:
    return bound(plan, relation=relation, delta=1e-5)


def _certified(*, plan: Node, relation: Relation = "zero-out") -> object:
    return recompute(plan, relation=relation, delta=1e-5)


def _step(*, plan: Node, relation: Relation = "zero-out") -> object:
    return one_step(parse_plan(plan), relation)


def _verified(*, plan: Node, relation: Relation = "zero-out", again: bool = True) -> object:
    """The recomputed numbers, or those of the certificate alone."""
    if again:
        return recompute(plan, relation=relation, delta=1e-5)
    return recompute(plan, relation=relation, delta=1e-5)


Refused = tuple[str, Callable[..., object], Node, Node]
REPLACED: list[Refused] = [
    ("changes.py:_check_null_is_stated", _bounded, poisson(parallel(gaussian(), pure())),
     poisson(parallel(gaussian(), gaussian(), moves=[gaussian(), gaussian()]))),
    ("changes.py:_poisson_left", _bounded, parallel(poisson(gaussian()), poisson(pure())),
     parallel(poisson(gaussian()), poisson(pure()), moves=[poisson(gaussian()), poisson(pure())])),
    ("certified/on_sample.py:_present_or_absent", _certified, poisson(pure(), absent=gaussian()),
     poisson(gaussian(), absent=gaussian(2.0))),
    ("pld/steps.py:_poisson_substitution", _step, poisson(gaussian(), absent=poisson(gaussian())),
     poisson(gaussian(), absent=gaussian())),
    ("pld/steps.py:_without_replacement", _step,
     drawn(10, 5, poisson(repeat(2, poisson(gaussian(), absent=gaussian())))), drawn(10, 5, gaussian())),
    ("recompute/reading.py:_seen", _verified, parallel(poisson(gaussian()), poisson(pure())),
     parallel(poisson(gaussian()), poisson(pure()), moves=[poisson(gaussian()), poisson(pure())])),
]  # fmt: skip
"""Under substitution: where, who is asked, the plan, and the plan that does what the remedy says."""

PLANS: list[Refused] = [
    ("certified/branches.py:times", _certified, repeat(20_000, compose(exponential(1.0), exponential(0.5))),
     repeat(20_000, repeat(2, exponential(1.0)))),
    ("certified/discrete.py:_pair", _certified, discrete(1e-5), discrete(1.0 / 5000)),
    ("certified/mixture.py:times", _certified, compose(gaussian(), repeat(90_000, pure(1e-4)), exponential(0.01)),
     compose(gaussian(), zcdp(90_000 * 1e-8 / 2), exponential(0.01))),
    ("certified/on_sample.py:_exponential_on_sample", _certified, poisson(repeat(2, exponential())),
     poisson(compose(exponential(), pure()))),
    ("certified/on_sample.py:_attained_on_sample", _certified, poisson(zcdp()), zcdp()),
    ("certified/on_sample.py:_attained_on_sample#2", _certified, poisson(discrete(0.4)), poisson(discrete(0.5))),
    ("certified/on_sample.py:_attained_on_sample#3", _certified, poisson(compose(laplace(), gaussian())),
     compose(poisson(laplace()), poisson(gaussian()))),
    ("certified/product.py:_binomial", _certified, poisson(repeat(10**10, pure(1e-6))),
     poisson(repeat(100, pure(1e-6)))),
    ("certified/product.py:_counted", _certified,
     poisson(compose(*(repeat(50, pure(0.1 + 0.01 * i * i)) for i in range(4)))),
     poisson(repeat(200, pure(0.2)))),
    ("certified/stairs.py:chunked", _certified, compose(*(pure(0.0001 * (i + 1)) for i in range(2001))),
     repeat(2001, pure(0.2001))),
    ("certified/stairs.py:chunked", _certified, repeat(10**9, pure(1e-6)), zcdp(10**9 * 1e-12 / 2)),
    ("changes.py:_of", _bounded, parallel(*unlike(257)), parallel(*[approximate(2.57, 2.57e-4)] * 257)),
    ("changes.py:_product", _bounded, compose(*[parallel(pure(), gaussian(), exponential())] * 7),
     compose(*[parallel(*[gaussian()] * 3)] * 7)),
    ("changes.py:_splits", _bounded, repeat(1000, parallel(pure(), gaussian(), exponential())),
     parallel(repeat(1000, pure()), repeat(1000, gaussian()), repeat(1000, exponential()))),
    ("changes.py:_covering", _bounded,
     drawn(10, 5, parallel(gaussian(), gaussian(), moves=[pure(0.1), pure(0.1)], membership="fixed")),
     drawn(10, 5, parallel(gaussian(), gaussian(), moves=[gaussian(), gaussian()], membership="fixed"))),
    ("changes.py:_check_no_inner_population", _bounded, poisson(drawn(10, 5, gaussian())),
     poisson(poisson(gaussian()))),
    ("changes.py:_check_inner_populations", _bounded, drawn(100, 10, drawn(20, 5, gaussian())),
     drawn(100, 10, drawn(10, 5, gaussian()))),
    ("scenario.py:_flatten", _bounded, compose(*islice(cycle([exponential(0.01), exponential(0.02)]), 4097)),
     repeat(4097, exponential(0.02))),
    ("pld/steps.py:one_step", _step, poisson(parallel(gaussian())), poisson(gaussian())),
    ("pld/steps.py:_leaf", _step, zcdp(), gaussian()),
    ("pld/steps.py:_poisson", _step, poisson(drawn(10, 5, gaussian())), poisson(poisson(gaussian()))),
    ("pld/steps.py:_check_inner", _step, drawn(100, 10, drawn(20, 5, gaussian())),
     drawn(100, 10, drawn(10, 5, gaussian()))),
    ("recompute/reading.py:_joined", _verified, compose(*islice(cycle([pure(1e-3), pure(2e-3)]), 8194)),
     compose(repeat(4097, pure(1e-3)), repeat(4097, pure(2e-3)))),
    ("recompute/reading.py:_limited", _verified, parallel(*unlike(513)), parallel(*[approximate(5.13, 5.13e-4)] * 513)),
    ("recompute/reading.py:_bounded_product", _verified,
     compose(*(parallel(gaussian(1.0 + i), pure(1.0 + i), laplace(1.0 + i)) for i in range(9))),
     compose(*[parallel(*[gaussian()] * 3)] * 9)),
    ("recompute/reading.py:_parallel", _verified, poisson(parallel(gaussian(), gaussian())),
     parallel(poisson(gaussian()), poisson(gaussian()))),
]  # fmt: skip
"""The same under zero-out."""

WITHOUT: list[tuple[str, Node, Relation]] = [
    ("adaptive.py:of", repeat(10**6, exponential(1e-3)), "zero-out"),
    ("atoms.py:power", repeat(2_000_001, laplace(1e4)), "zero-out"),
    ("atoms.py:binomial_law", repeat(2_000_001, pure(1e-4)), "zero-out"),
    ("concentrated.py:concentrated_profile", compose(zcdp(), approximate()), "zero-out"),
    ("fixed.py:fixed_part", discrete(1.0), "zero-out"),
    ("reading.py:_check_populations#2", drawn(100, 10, drawn(10, 5, gaussian())), "zero-out"),
    ("sampled.py:_inner", poisson(laplace()), "zero-out"),
    ("sampled.py:_present_or_absent", poisson(gaussian(2.0), absent=gaussian(1.0)), "substitution"),
]
"""What is certified, and has no second formula: verified without recomputing it."""


def _uncovered(place: Place) -> None:
    place.save("plan.json", {**PLAN, "relation": "zero-out", "plan": drawn(10, 5, zcdp())})


def _covered(place: Place) -> None:
    place.set("plan.json", "plan", drawn(10, 5, gaussian()))


CASES = [
    Case(
        "accountant/bound.py:_best",
        "epsilon plan.json",
        _uncovered,
        file="plan.json",
        by_hand=_covered,
    )
]

API = [
    *(
        Api(f"accountant/{at}", call, {"plan": plan, "relation": "substitution"}, {"plan": covered})
        for at, call, plan, covered in REPLACED
    ),
    *(Api(f"accountant/{at}", call, {"plan": plan}, {"plan": covered}) for at, call, plan, covered in PLANS),
    *(
        Api(f"accountant/verifier/{at}", _verified, {"plan": plan, "relation": relation}, {"again": False})
        for at, plan, relation in WITHOUT
    ),
    Api(
        "accountant/verifier/reading.py:_check_populations",
        _verified,
        {"plan": drawn(100, 10, drawn(20, 5, gaussian()))},
        {"plan": drawn(100, 10, drawn(10, 5, gaussian())), "again": False},
    ),
    Api(
        "accountant/verifier/reading.py:_repeated",
        _verified,
        {"plan": repeat(70_000, compose(exponential(1e-3), exponential(2e-3)))},
        {"plan": repeat(70_000, repeat(2, exponential(2e-3))), "again": False},
    ),
]
