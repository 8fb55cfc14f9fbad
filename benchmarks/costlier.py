"""Pairs of random plans of which one costs at least what the other does, whatever the two cost.

By what a plan means (docs/theory/semantics.md, "Checks that follow"): a use or a part more, a mechanism of which less
is known, a higher rate, free slots instead of fixed ones, substitution instead of zero-out, a part among others. So one
plan's lower side above the other's upper side is a fault, in either engine or between them. Some pairs cost the same.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Pair", "pair_of"]

Node = dict[str, Any]
FIELDS = {
    "gaussian": ("noise_multiplier", -1),
    "laplace": ("noise_multiplier", -1),
    "pure": ("epsilon", 1),
    "exponential": ("range", 1),
    "approximate": ("epsilon", 1),
    "zcdp": ("rho", 1),
}
"""What a leaf states, and whether more of it costs more."""


CHANGES = ("leaf", "leaf", "use", "part", "part", "rate", "split", "wrapped", "fixed", "relation", "beside")


class Pair(NamedTuple):
    """``less`` costs no more than ``more``, each under its relation; ``same``: and no less."""

    less: tuple[Node, str]
    more: tuple[Node, str]
    same: bool


def _places(node: Node) -> list[Node]:
    below = [node["of"]] if "of" in node else node.get("parts", [])
    return [node, *(place for one in below for place in _places(one))]


def _holds(node: Node, what: Callable[[Node], bool]) -> bool:
    return any(what(place) for place in _places(node))


def _is_fixed_size(node: Node) -> bool:
    return node.get("scheme") == "without-replacement"


def _weaker_leaf(rng: random.Random, plan: Node) -> None:
    leaf = rng.choice([place for place in _places(plan) if place["kind"] in FIELDS])
    field, sign = FIELDS[leaf["kind"]]
    leaf[field] = float(f"{leaf[field] * (1.0 + sign * rng.choice((0.001, 0.1, 0.4))):.6g}")


def _one_more_use(rng: random.Random, plan: Node) -> None:
    place = rng.choice(_places(plan))
    inner = dict(place)
    place.clear()
    if inner["kind"] == "repeat":
        place.update(inner, count=inner["count"] + rng.choice((1, 10)))
    else:
        place.update(kind="repeat", count=2, of=inner)


def _one_more_part(rng: random.Random, plan: Node, other: Node) -> None:
    place = rng.choice(_places(plan))
    inner = dict(place)
    place.clear()
    parts = [inner, other] if rng.random() < 0.5 else [other, inner]
    place.update(kind="compose", parts=parts)


def _higher_rate(rng: random.Random, plan: Node) -> None:
    samples = [place for place in _places(plan) if place.get("scheme") == "poisson"]
    if samples:
        sample = rng.choice(samples)
        sample["rate"] = min(1.0, float(f"{sample['rate'] * rng.choice((1.001, 1.3, 4.0)):.6g}"))


def _split(rng: random.Random, plan: Node) -> None:
    repeats = [place for place in _places(plan) if place["kind"] == "repeat" and place["count"] > 1]
    if repeats:
        place = rng.choice(repeats)
        count, of = place["count"], place["of"]
        first = rng.randint(1, count - 1)
        place.clear()
        halves = [{"kind": "repeat", "count": n, "of": copy.deepcopy(of)} for n in (first, count - first)]
        place.update(kind="compose", parts=halves)


def _wrapped(rng: random.Random, plan: Node) -> None:
    place = rng.choice(_places(plan))
    inner = dict(place)
    place.clear()
    place.update(
        rng.choice(
            (
                {"kind": "compose", "parts": [inner]},
                {"kind": "repeat", "count": 1, "of": inner},
                {"kind": "parallel", "parts": [inner]},
            )
        )
    )


def pair_of(rng: random.Random, draw: Callable[[random.Random], Node], relation: str) -> Pair:
    """A random pair; ``draw`` draws plans."""
    less = draw(rng)
    more, other_relation, same = copy.deepcopy(less), relation, False
    change = rng.choice(
        ("leaf", "leaf", "use", "part", "part", "rate", "split", "wrapped", "fixed", "relation", "beside")
    )
    match change:
        case "leaf":
            _weaker_leaf(rng, more)
        case "use":
            _one_more_use(rng, more)
        case "part":
            _one_more_part(rng, more, draw(rng))
        case "rate":
            _higher_rate(rng, more)
        case "split":
            _split(rng, more)
            same = True
        case "wrapped":
            _wrapped(rng, more)
            same = not _holds(less, _is_fixed_size)
        case "fixed":
            for place in _places(less):
                if place["kind"] == "parallel":
                    place["membership"] = "fixed"
        case "relation":
            relation, other_relation = "zero-out", "substitution"
        case "beside" if not _holds(less, _is_fixed_size):
            more = {"kind": "parallel", "parts": [more, draw(rng)]}
    if _holds(less, _is_fixed_size) and change == "wrapped":
        more = less
    return Pair((less, relation), (more, other_relation), same)
