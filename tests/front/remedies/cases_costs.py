"""Plans that no theorem or no second formula covers, and a plan that is covered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from remedy_cases import Api

from affidavit.accountant import settle
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


def _bounded(*, plan: Node, relation: Relation = "zero-out") -> object:
    return bound(plan, relation=relation, delta=1e-5)


def _recomputed(*, plan: Node, relation: Relation = "zero-out") -> object:
    return recompute(plan, relation=relation, delta=1e-5)


def _step(*, plan: Node, relation: Relation = "zero-out") -> object:
    return one_step(parse_plan(plan), relation)


Refused = tuple[str, Callable[..., object], Node, Node]
REPLACED: list[Refused] = [
    ("cases/changes.py:_check_null_is_stated", _bounded, poisson(parallel(gaussian(), pure())),
     poisson(parallel(gaussian(), gaussian(), moves=[gaussian(), gaussian()]))),
    ("cases/changes.py:_poisson_left", _bounded, parallel(poisson(gaussian()), poisson(pure())),
     parallel(poisson(gaussian()), poisson(pure()), moves=[poisson(gaussian()), poisson(pure())])),
    ("verifier/reading.py:_poisson", _recomputed, parallel(poisson(gaussian()), poisson(pure())),
     parallel(poisson(gaussian()), poisson(pure()), moves=[poisson(gaussian()), poisson(pure())])),
    ("verifier/reading.py:_check_null", _recomputed, poisson(parallel(gaussian(), pure())),
     poisson(parallel(gaussian(), gaussian(), moves=[gaussian(), gaussian()]))),
]  # fmt: skip
"""Under substitution: where, who is asked, the plan, and the plan that does what the remedy says."""

PLANS: list[Refused] = [
    ("verifier/noises.py:_pair", _recomputed, discrete(1e-5), discrete(1.0 / 5000)),
    ("verifier/sampled.py:_further_bits", _recomputed, poisson(pure(1e6)), poisson(pure(1000.0))),
    ("verifier/sampled.py:_further_bits", _recomputed, repeat(2, poisson(laplace(1e-6))), poisson(laplace(0.001))),
    ("verifier/product.py:_binomial", _recomputed, poisson(repeat(10**10, pure(1e-6))),
     poisson(repeat(100, pure(1e-6)))),
    ("verifier/product.py:_counted", _recomputed,
     poisson(compose(*(repeat(50, pure(0.1 + 0.01 * i * i)) for i in range(4)))),
     poisson(repeat(200, pure(0.2)))),
    ("verifier/finite_losses.py:chunked", _recomputed, compose(*(pure(0.0001 * (i + 1)) for i in range(2001))),
     repeat(2001, pure(0.2001))),
    ("cases/changes.py:_covering", _bounded,
     drawn(10, 5, parallel(gaussian(), gaussian(), moves=[approximate(0.1, 0.1)] * 2, membership="fixed")),
     drawn(10, 5, parallel(gaussian(), gaussian(), moves=[gaussian(), gaussian()], membership="fixed"))),
    ("cases/populations.py:check_no_inner_population", _bounded, poisson(drawn(10, 5, gaussian())),
     poisson(poisson(gaussian()))),
    ("cases/populations.py:check_inner_populations", _bounded, drawn(100, 10, drawn(20, 5, gaussian())),
     drawn(100, 10, drawn(10, 5, gaussian()))),
    ("pld/steps.py:_one_step", _step, poisson(parallel(gaussian())), poisson(gaussian())),
    ("verifier/reading.py:_covering", _recomputed,
     drawn(10, 5, parallel(gaussian(), gaussian(), moves=[approximate(0.1, 0.1)] * 2, membership="fixed")),
     drawn(10, 5, parallel(gaussian(), gaussian(), moves=[gaussian(), gaussian()], membership="fixed"))),
    ("verifier/reading.py:_check_no_population", _recomputed, poisson(drawn(10, 5, gaussian())),
     drawn(20, 10, drawn(10, 5, gaussian()))),
    ("verifier/reading.py:_check_populations", _recomputed, drawn(100, 10, drawn(20, 5, gaussian())),
     drawn(100, 10, drawn(10, 5, gaussian()))),
]  # fmt: skip
"""The same under zero-out."""


def _compared(*, least: float) -> None:
    """What issues, beside a verifier that says ``least`` at least."""
    issued = bound(gaussian(), relation="zero-out", delta=1e-5)
    found = recompute(gaussian(), relation="zero-out", delta=1e-5)
    settle._check((issued.epsilon_lower, found.epsilon_upper), (least, issued.epsilon_upper))


API = [
    *(
        Api(f"accountant/{at}", call, {"plan": plan, "relation": "substitution"}, {"plan": covered})
        for at, call, plan, covered in REPLACED
    ),
    *(Api(f"accountant/{at}", call, {"plan": plan}, {"plan": covered}) for at, call, plan, covered in PLANS),
    Api("accountant/settle.py:_check", _compared, {"least": 5.0}, {"least": 4.0}),
]
