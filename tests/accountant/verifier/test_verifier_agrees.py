"""Two engines that share no code: certified arithmetic and the float64 accountant must overlap."""

from __future__ import annotations

import random

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.verifier import recompute


def leaf(rng: random.Random) -> dict:
    return rng.choice(
        [
            {"kind": "gaussian", "noise_multiplier": round(10 ** rng.uniform(-0.3, 1.0), 3)},
            {"kind": "pure", "epsilon": rng.choice([0.1, 0.5, 1.0])},
            {"kind": "approximate", "epsilon": 0.5, "delta": 1e-12},
            {"kind": "exponential", "range": rng.choice([0.05, 0.2, 0.6])},
            {"kind": "laplace", "noise_multiplier": rng.choice([2.0, 5.0])},
        ]
    )


def sampled(rng: random.Random) -> dict:
    noise = {"kind": "gaussian", "noise_multiplier": round(10 ** rng.uniform(-0.2, 0.5), 3)}
    if rng.random() < 0.5:
        rate = rng.choice([0.05, 0.1, 0.4])
        of = rng.choice([noise, {"kind": "pure", "epsilon": 1.0}])
        return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}
    sample = rng.choice([5, 10, 40])
    return {"kind": "subsample", "scheme": "without-replacement", "population": 100, "sample": sample, "of": noise}


def node(rng: random.Random, depth: int = 0) -> dict:
    draw = rng.random()
    if depth == 2 or draw < 0.2:
        return sampled(rng) if rng.random() < 0.3 else leaf(rng)
    if draw < 0.6:
        return {"kind": "repeat", "count": rng.randint(1, 12), "of": node(rng, depth + 1)}
    if draw < 0.85:
        return {"kind": "compose", "parts": [node(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    part = node(rng, depth + 1)
    return {"kind": "parallel", "parts": [part, part], "membership": rng.choice(["moving", "fixed"])}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_brackets_overlap(seed: int) -> None:
    rng = random.Random(seed)
    plan, relation = node(rng), rng.choice(["add-remove", "zero-out", "substitution"])
    delta = 10 ** -rng.uniform(2, 9)
    certified = recompute(plan, relation=relation, delta=delta)
    plain = bound(plan, relation=relation, delta=delta)
    assert certified.epsilon_lower <= certified.epsilon_upper
    assert certified.epsilon_upper >= plain.epsilon_lower * (1 - 1e-9) - 1e-9
    assert certified.epsilon_lower <= plain.epsilon_upper * (1 + 1e-9) + 1e-9
