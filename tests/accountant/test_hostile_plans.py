"""Plans that `python -m benchmarks attack` broke an engine with: both answer, both ways round, and agree."""

from __future__ import annotations

from typing import Any

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recompute
from support.unlisted import listed_at_most

Node = dict[str, Any]


def _poisson(rate: float, of: Node) -> Node:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}


def _gaussian(sigma: float) -> Node:
    return {"kind": "gaussian", "noise_multiplier": sigma}


def _exponentials(eta: float, count: int) -> Node:
    return {"kind": "repeat", "count": count, "of": {"kind": "exponential", "range": eta}}


def _compose(*parts: Node) -> Node:
    return {"kind": "compose", "parts": list(parts)}


def _rare(epsilon: float) -> Node:
    return _poisson(5.839e-9, {"kind": "approximate", "epsilon": epsilon, "delta": 4.269e-76})


SLOW = "a cost of e to a large loss"

PLANS: dict[str, tuple[Node, Relation, float]] = {
    # A cost of e^(tilt × loss) that overflowed.
    SLOW: (
        {
            "kind": "parallel",
            "parts": [
                {
                    "kind": "subsample",
                    "scheme": "without-replacement",
                    "population": 314600,
                    "sample": 314599,
                    "of": {"kind": "exponential", "range": 0.3082},
                },
                {
                    "kind": "repeat",
                    "count": 16910,
                    "of": _compose(_gaussian(0.2793), {"kind": "exponential", "range": 0.02368}),
                },
            ],
        },
        "add-remove",
        3.229e-8,
    ),
    # A lower side of tiny losses whose masses were 15.9 in all.
    "losses near their rounding": (
        {
            "kind": "parallel",
            "parts": [_exponentials(0.00306, 92), _rare(0.0002176)],
            "moves": [_exponentials(0.002142, 92), _rare(0.0004352)],
        },
        "substitution",
        1.593e-14,
    ),
    # Upper sides of a coarse recursion that grew beyond float64.
    "large ranges": (_exponentials(12.52, 1448), "substitution", 4.695e-26),
    # A block of uses, none of which has a loss that float64 resolves.
    "samples that hold nobody": (
        _compose(
            {"kind": "repeat", "count": 33510, "of": _poisson(3.359e-48, {"kind": "exponential", "range": 0.003071})},
            {"kind": "pure", "epsilon": 1.202},
        ),
        "zero-out",
        7.051e-11,
    ),
    "e to nine times the loss": (
        _compose(_poisson(0.99993847, _gaussian(0.1345)), _poisson(8.293e-6, _gaussian(122.6))),
        "zero-out",
        2.68e-10,
    ),
    "e to nine times the loss, of two frequent samples": (
        _compose(_poisson(0.92818, _gaussian(2.163)), _poisson(0.9994386, _gaussian(0.1169))),
        "add-remove",
        2.498e-10,
    ),
    "a transform of which nothing is left": (
        _compose(_poisson(0.0009711, _gaussian(0.3877)), _poisson(0.999999994669, _gaussian(96.53))),
        "zero-out",
        6.231e-281,
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow if name == SLOW else ()) for name in PLANS])
def test_both_engines_answer_and_agree(name: str) -> None:
    plan, relation, delta = PLANS[name]
    issued, verified = (engine(plan, relation=relation, delta=delta) for engine in (bound, recompute))
    assert issued.epsilon_lower <= verified.epsilon_upper * (1.0 + 1e-9)
    assert verified.epsilon_lower <= issued.epsilon_upper * (1.0 + 1e-9)
    epsilon = issued.epsilon_upper
    issued, verified = (engine(plan, relation=relation, epsilon=epsilon) for engine in (bound, recompute))
    assert issued.delta_lower <= verified.delta_upper * (1.0 + 1e-9)
    assert verified.delta_lower <= issued.delta_upper * (1.0 + 1e-9)
    assert issued.delta_lower <= delta * (1.0 + 1e-9)


def test_a_lower_side_beside_tiny_losses_is_below_the_truth() -> None:
    """It was 4.9e-25: the sample's own losses are 2.5e-12 at most, and alone the others give 5.28e-26."""
    epsilon, others = 0.0982128, _exponentials(0.002142, 92)
    alone = bound(others, relation="add-remove", epsilon=epsilon - 3e-12)
    both = bound(_compose(_rare(0.0004352), others), relation="add-remove", epsilon=epsilon)
    assert both.delta_lower <= alone.delta_upper + 1e-84
    assert both.delta_upper >= bound(others, relation="add-remove", epsilon=epsilon).delta_lower


@pytest.mark.parametrize(
    ("plan", "relation", "epsilon", "delta"),
    [
        (
            {
                "kind": "parallel",
                "parts": [
                    {"kind": "repeat", "count": 2, "of": _compose(_gaussian(0.0), {"kind": "pure", "epsilon": 1.5})},
                    {
                        "kind": "subsample",
                        "scheme": "without-replacement",
                        "population": 2,
                        "sample": 1,
                        "of": {"kind": "exponential", "range": 2.0},
                    },
                ],
            },
            "zero-out",
            0.0,
            1.0,
        ),
        (
            _poisson(
                0.5,
                {
                    "kind": "parallel",
                    "parts": [
                        {"kind": "approximate", "epsilon": 0.5, "delta": 0.06},
                        _poisson(0.5, {"kind": "laplace", "noise_multiplier": 0.7}),
                    ],
                },
            ),
            "add-remove",
            1.0,
            0.03,
        ),
    ],
)
def test_the_end_of_float64_is_no_warning(plan: Node, relation: Relation, epsilon: float, delta: float) -> None:
    """Where all is shown there is no slope, and after the last number comes infinity; warnings are errors here."""
    with listed_at_most(1):
        found = bound(plan, relation=relation, epsilon=epsilon, explicit=True)
    assert found.delta_lower <= delta <= found.delta_upper
