"""Random tiny plans: sampling x parallel (fixed, moving, nested) x repeat x compose x ``moves`` and ``absent``."""

from __future__ import annotations

import random
from typing import Any

Node = dict[str, Any]
RELATIONS = ("add-remove", "zero-out", "substitution")
MOST_USES = 4


def pure(epsilon: float) -> Node:
    return {"kind": "pure", "epsilon": epsilon}


def approximate(epsilon: float, delta: float) -> Node:
    return {"kind": "approximate", "epsilon": epsilon, "delta": delta}


def exponential(width: float) -> Node:
    return {"kind": "exponential", "range": width}


def gaussian(noise: float) -> Node:
    return {"kind": "gaussian", "noise_multiplier": noise}


def compose(*parts: Node) -> Node:
    return {"kind": "compose", "parts": list(parts)}


def repeat(count: int, of: Node) -> Node:
    return {"kind": "repeat", "count": count, "of": of}


def parallel(*parts: Node, **more: Any) -> Node:
    return {"kind": "parallel", "parts": list(parts), **more}


def poisson(rate: float, of: Node, **more: Any) -> Node:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of, **more}


def without_replacement(population: int, sample: int, of: Node) -> Node:
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


def uses(node: Node) -> int:
    """Leaf uses, all parts counted."""
    count = node.get("count", 1)
    below = [*node.get("parts", ()), *([node["of"]] if "of" in node else [])]
    return count * sum(map(uses, below)) if "of" in node or "parts" in node else 1


def other_leaves(node: Node, rng: random.Random) -> Node:
    """The same tree with other leaf parameters, mostly cheaper ones."""
    factor = rng.choice((0.4, 0.5, 0.5, 1.0, 1.5))
    changed = dict(node)
    for name in ("epsilon", "range"):
        if name in node:
            changed[name] = node[name] * factor
    if "noise_multiplier" in node:
        changed["noise_multiplier"] = node["noise_multiplier"] / factor
    if "parts" in node:
        changed["parts"] = [other_leaves(part, rng) for part in node["parts"]]
        changed.pop("moves", None)
    if "of" in node:
        changed["of"] = other_leaves(node["of"], rng)
        changed.pop("absent", None)
    return changed


def with_other_noise(node: Node, kind: str) -> Node:
    """The same tree with another mechanism for each Gaussian."""
    if node["kind"] == "gaussian":
        noise = node["noise_multiplier"]
        if kind == "zcdp":
            return {"kind": "zcdp", "rho": 0.5 / noise**2}
        return {"kind": kind, "noise_multiplier": noise} if kind != "none" else gaussian(0.0)
    changed = dict(node)
    for name in ("parts", "moves"):
        if name in node:
            changed[name] = [with_other_noise(part, kind) for part in node[name]]
    for name in ("of", "absent"):
        if name in node:
            changed[name] = with_other_noise(node[name], kind)
    return changed


class Maker:
    """One plan's choices: all samples without replacement are from one population."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.population = self.rng.choice((2, 3, 3, 4))
        # Half of the plans have exact optima: finite pairs only.
        self.finite = self.rng.random() < 0.4

    def leaf(self) -> Node:
        rng = self.rng
        if self.finite or rng.random() < 0.35:
            return pure(rng.choice((0.3, 0.7, 1.0, 1.5))) if rng.random() < 0.8 else approximate(0.5, 0.06)
        return (
            exponential(rng.choice((0.5, 1.0, 2.0))) if rng.random() < 0.55 else gaussian(rng.choice((0.7, 1.3, 2.1)))
        )

    def node(self, depth: int, *, population: int, sampled: bool) -> Node:
        """``population``: records that reach it, where that is known (0 below a Poisson sample)."""
        rng = self.rng
        draw = rng.random()
        if depth == 0 or draw < 0.12:
            return self.leaf()
        if draw < 0.26:
            return compose(*(self.node(depth - 1, population=population, sampled=sampled) for _ in range(2)))
        if draw < 0.40:
            return repeat(2, self.node(depth - 1, population=population, sampled=sampled))
        if draw < 0.70:
            return self.parallel(depth, population=population, sampled=sampled)
        if draw < 0.84 or not population:
            node = poisson(rng.choice((0.3, 0.5, 0.5, 1.0)), self.node(depth - 1, population=0, sampled=True))
            return {**node, "absent": other_leaves(node["of"], rng)} if rng.random() < 0.4 else node
        sample = rng.randint(1, population) if rng.random() < 0.3 else max(1, population // 2)
        inner = self.node(depth - 1, population=sample, sampled=True)
        return without_replacement(population, sample, inner)

    def parallel(self, depth: int, *, population: int, sampled: bool) -> Node:
        rng = self.rng
        count = rng.choice((2, 2, 2, 3))
        first = self.node(depth - 1, population=population, sampled=sampled)
        if rng.random() < 0.5:
            parts = [first] * count
        else:
            parts = [first, *(self.node(depth - 1, population=population, sampled=sampled) for _ in range(count - 1))]
        node = parallel(*parts)
        if rng.random() < 0.35:
            node["membership"] = "fixed"
        if rng.random() < 0.4:
            node["moves"] = [other_leaves(part, rng) for part in parts]
        return node


NOISES = ("gaussian", "zcdp", "laplace", "gaussian", "zcdp", "laplace", "none")


def plan(number: int) -> tuple[Node, str]:
    """The ``number``-th plan and a relation."""
    seed = number
    while True:
        maker = Maker(seed)
        found = maker.node(3, population=maker.population, sampled=False)
        if 1 < uses(found) <= MOST_USES + 2:
            return with_other_noise(found, NOISES[number % len(NOISES)]), RELATIONS[number % 3]
        seed += 1_000_003


def concentrated(node: Node) -> Node:
    """The plan with ρ-zCDP, ρ = 1/(2σ²), for every Gaussian leaf with noise."""
    if node["kind"] == "gaussian" and node["noise_multiplier"] > 0.0:
        return {"kind": "zcdp", "rho": 0.5 / node["noise_multiplier"] ** 2}
    changed = dict(node)
    for name in ("parts", "moves"):
        if name in node:
            changed[name] = [concentrated(part) for part in node[name]]
    for name in ("of", "absent"):
        if name in node:
            changed[name] = concentrated(node[name])
    return changed
