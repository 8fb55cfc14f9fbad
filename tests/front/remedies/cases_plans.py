"""Plan files and their flags: epsilon, delta, sigma, calibrate."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from remedy_cases import PLAN, Case, Place, nothing

PLAN_CALL = "epsilon plan.json --json"
GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.0}


def plan(node: object) -> Callable[[Place], None]:
    """The file with another plan."""
    return lambda place: place.save("plan.json", {**PLAN, "plan": node})


def text(content: str) -> Callable[[Place], None]:
    """The file with another text."""
    return lambda place: place.write("plan.json", content)


def _case(at: str, arrange: Callable[[Place], Any], call: str = PLAN_CALL, **more: Any) -> Case:
    return Case(at, call, arrange, file="plan.json", **more)


def _deep(depth: int) -> dict[str, Any]:
    node: dict[str, Any] = GAUSSIAN
    for _ in range(depth):
        node = {"kind": "compose", "parts": [node]}
    return node


def _toml(place: Place) -> None:
    place.write("plan.toml", "relation = ")


def _latin(place: Place) -> None:
    (place.folder / "plan.json").write_bytes(b"\xff\xfe{}")


def _near(place: Place) -> None:
    (place.folder / "plan.json").rename(place.folder / "plans.json")


CASES = [
    _case(
        "accountant/validate.py:choice",
        text('{"relation": "unbounded", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 1.0}}'),
    ),
    _case(
        "accountant/validate.py:choice",
        text('{"relation": "zero_out", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 1.0}}'),
    ),
    _case("accountant/validate.py:choice", plan({"kind": "Gauss", "noise_multiplier": 1.0})),
    _case("accountant/validate.py:choice", plan({"kind": "xyzzy"}), past=True),
    _case(
        "accountant/plan.py:_repeat",
        plan({"kind": "repeat", "count": 10**7, "of": {"kind": "repeat", "count": 10**6, "of": GAUSSIAN}}),
    ),
    _case("accountant/validate.py:relation", text(json.dumps({"delta": 1e-5, "plan": GAUSSIAN}))),
    _case("front/cli/_planflags.py:required_delta", text(json.dumps({"relation": "add-remove", "plan": GAUSSIAN}))),
    _case("accountant/plan.py:parse_envelope", text("[]")),
    _case("front/planfile.py:_parse", text('{"relation": ')),
    _case(
        "front/planfile.py:_unique",
        text('{"relation": "add-remove", "delta": 1e-5, "delta": 1e-6, "plan": {}}'),
        by_hand=text(json.dumps(PLAN)),
    ),
    _case("front/planfile.py:_parse#2", text("[" * 100_000)),
    _case("front/planfile.py:_text#2", _latin),
    Case(
        "front/planfile.py:_toml",
        "epsilon plan.toml",
        _toml,
        file="plan.toml",
        by_hand=lambda place: place.save("plan.toml", PLAN),
    ),
    _case("front/planfile.py:_text", _near),
    Case("front/planfile.py:_text", "epsilon nothing.json", file="nothing.json"),
    _case("accountant/strictjson.py:fields#3", text(json.dumps({"relation": "add-remove", "delta": 1e-5}))),
    _case("accountant/strictjson.py:fields#2", text(json.dumps({**PLAN, "relatoin": "add-remove"}))),
    _case("accountant/plan.py:_parse#2", plan([])),
    _case("accountant/plan.py:_parse#3", plan({"noise_multiplier": 1.0}), past=True),
    _case("accountant/strictjson.py:fields#3", plan({"kind": "gaussian"})),
    _case("accountant/strictjson.py:fields#2", plan({"kind": "gaussian", "noise_mutliplier": 1.0})),
    _case("accountant/validate.py:number", plan({"kind": "gaussian", "noise_multiplier": "1"})),
    _case("accountant/validate.py:real", plan({"kind": "gaussian", "noise_multiplier": -1})),
    _case("accountant/validate.py:_beyond", plan({"kind": "zcdp", "rho": 1e308})),
    _case("accountant/validate.py:_beyond", plan({"kind": "laplace", "noise_multiplier": 1e-310})),
    _case(
        "accountant/validate.py:_beyond",
        plan({"kind": "subsample", "scheme": "poisson", "rate": 5e-324, "of": GAUSSIAN}),
    ),
    _case(
        "accountant/validate.py:number#4",
        text('{"relation": "add-remove", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 1e-400}}'),
    ),
    _case(
        "accountant/validate.py:number#3",
        text('{"relation": "add-remove", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": NaN}}'),
    ),
    _case(
        "accountant/validate.py:number#2",
        text(
            '{"relation": "add-remove", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 1%s}}'
            % ("0" * 400)
        ),
    ),
    _case("accountant/validate.py:whole", plan({"kind": "repeat", "count": 2.5, "of": GAUSSIAN})),
    _case("accountant/validate.py:whole#2", plan({"kind": "repeat", "count": -1, "of": GAUSSIAN})),
    _case("accountant/plan.py:_parts", plan({"kind": "compose", "parts": 3})),
    _case("accountant/plan.py:_parts", plan({"kind": "parallel", "parts": []})),
    _case("accountant/plan.py:_subsample", plan({"kind": "subsample", "of": GAUSSIAN}), past=True),
    _case(
        "accountant/validate.py:choice", plan({"kind": "subsample", "scheme": "poison", "rate": 0.1, "of": GAUSSIAN})
    ),
    _case(
        "accountant/validate.py:fraction", plan({"kind": "subsample", "scheme": "poisson", "rate": 2, "of": GAUSSIAN})
    ),
    _case(
        "accountant/plan.py:_parallel", plan({"kind": "parallel", "parts": [GAUSSIAN, GAUSSIAN], "moves": [GAUSSIAN]})
    ),
    _case("accountant/plan.py:_parse", plan(_deep(70)), by_hand=plan(GAUSSIAN)),
    _case(
        "accountant/validate.py:real", plan({"kind": "discrete-gaussian", "noise_multiplier": 1.0, "granularity": 0})
    ),
    _case(
        "mechanisms/above_threshold.py:_boolean",
        plan(
            {
                "kind": "above-threshold",
                "threshold_noise_multiplier": 4.0,
                "query_noise_multiplier": 4.0,
                "positives": 1,
                "monotone": "no",
            }
        ),
    ),
    _case(
        "mechanisms/propose_test_release.py:_delta",
        plan({"kind": "propose-test-release", "epsilon": 1.0, "delta": 0.0}),
    ),
    _case("front/planfile.py:_with_flags", nothing, "epsilon plan.json --delta 0.1"),
    _case("accountant/validate.py:choice", nothing, "epsilon plan.json --method guess"),
    _case("accountant/bound.py:bound#2", nothing, "epsilon plan.json --method adaptive"),
    _case("accountant/validate.py:real", nothing, "delta plan.json --epsilon -1"),
    _case("front/planflags.py:envelope", nothing, "sigma --epsilon 1 --delta 1e-5"),
    _case("accountant/validate.py:choice", nothing, "sigma --epsilon 1 --delta 1e-5 --relation bounded"),
    _case("front/cli/solving.py:calibrate", nothing, "calibrate plan.json"),
    _case("accountant/calibrate.py:calibrate", nothing, "calibrate plan.json --epsilon 1 --solve plan.noise"),
    _case("accountant/calibrate.py:calibrate", nothing, "calibrate plan.json --epsilon 1 --solve '!'"),
    _case(
        "accountant/calibrate.py:_default_path",
        plan({"kind": "compose", "parts": [GAUSSIAN, {"kind": "laplace", "noise_multiplier": 1.0}]}),
        "calibrate plan.json --epsilon 1",
    ),
    _case(
        "accountant/calibrate.py:solve",
        plan({"kind": "compose", "parts": [GAUSSIAN, GAUSSIAN]}),
        "calibrate plan.json --epsilon 0.001 --solve plan.parts[0].noise_multiplier",
    ),
    _case(
        "accountant/calibrate.py:_default_path",
        plan({"kind": "compose", "parts": []}),
        "calibrate plan.json --epsilon 1",
    ),
    Case("front/cli/solving.py:calibrate#2", "calibrate run.toml --epsilon 1 --delta 1e-5"),
]
