"""Plans said in numbers instead of a file; and values that no parameter can take."""

from __future__ import annotations

import json

from cases_runs import PREDICTION, SGA, with_settings
from remedy_cases import PLAN, Case, Place


def _plan_without(key: str) -> str:
    return json.dumps({name: value for name, value in PLAN.items() if name != key})


def _no_delta(place: Place) -> None:
    place.write("plan.json", _plan_without("delta"))


def _epsilon(at: str, flags: str) -> Case:
    return Case(at, f"epsilon --delta 1e-5 --relation zero-out {flags}")


CASES = [
    _epsilon("front/planflags.py:_leaf", "--noise 1 --rho 0.1"),
    _epsilon("front/planflags.py:_leaf", "--noise 1 --epsilon-each 0.1 --steps 3"),
    _epsilon("front/planflags.py:_leaf#2", "--mechanism laplace --rho 0.1"),
    _epsilon("front/planflags.py:_leaf#3", "--steps 100"),
    _epsilon("front/planflags.py:_leaf#3", "--mechanism zcdp"),
    _epsilon("front/planflags.py:_steps", "--noise 1 --rate 0.1 --steps 100 --epochs 3"),
    _epsilon("front/planflags.py:_steps#2", "--noise 1 --rate 0.1 --epochs=-3"),
    _epsilon("front/planflags.py:_steps#3", "--noise 1 --epochs 2.5"),
    _epsilon("front/planflags.py:_steps#4", "--noise 1 --rate 0 --epochs 2"),
    _epsilon("front/planflags.py:_rate", "--noise 1 --rate 0.1 --records 100 --batch 10"),
    _epsilon("front/planflags.py:_rate", "--noise 1 --rate 0.1 --records 100"),
    _epsilon("front/planflags.py:_rate#2", "--noise 1 --records 100"),
    _epsilon("front/planflags.py:_rate#3", "--noise 1 --batch 100"),
    _epsilon("front/planflags.py:_exact", "--noise 1 --rate abc"),
    _epsilon("accountant/validate.py:number#4", "--noise 1 --rate 1e-400"),
    _epsilon("accountant/validate.py:number#4", "--noise 1e-400"),
    _epsilon("accountant/validate.py:number#3", "--noise 1 --rate 1e400"),
    _epsilon("accountant/validate.py:_beyond", "--noise 1 --rate 1e-120"),
    _epsilon("accountant/validate.py:_beyond", "--rho 1e120"),
    _epsilon("front/planflags.py:_exact", "--noise 1 --rate 0.1 --epochs 1/0"),
    _epsilon("front/planflags.py:_sampling", "--noise 1 --sampling poisson"),
    _epsilon("front/planflags.py:_sampling", "--noise 1 --sampling without-replacement"),
    _epsilon("front/planflags.py:_sampled", "--noise 1 --rate 3/8 --sampling without-replacement"),
    _epsilon("front/planflags.py:_sampled", "--noise 1 --rate 0.01 --sampling without-replacement"),
    _epsilon("front/planflags.py:_sampled#2", "--noise 1 --records 80 --batch 30 --sampling without-replacement"),
    Case("front/cli/_planflags.py:asked", "epsilon"),
    Case("front/cli/_planflags.py:asked", "delta --epsilon 1"),
    Case("front/cli/_planflags.py:asked#2", "epsilon plan.json --noise 1 --delta 1e-5 --relation zero-out"),
    Case("front/cli/_planflags.py:asked#2", "delta plan.json --epsilon 1 --noise 1"),
    Case("front/solving.py:solve_plan", "calibrate plan.json --epsilon 1", _no_delta, file="plan.json"),
    Case("front/cli/solving.py:calibrate#3", "calibrate run.toml --epsilon 0.001", with_settings(SGA)),
    Case("front/solving.py:solve_run", "calibrate run.toml --epsilon 1 --solve generator.labels"),
    Case("front/solving.py:solve_run", "calibrate run.toml --epsilon 1 --solve batchsize"),
    Case("front/cli/solving.py:calibrate#3", "calibrate run.toml --epsilon 0.001", with_settings(PREDICTION)),
    Case(
        "front/planfile.py:_parse#3",
        "epsilon plan.json",
        lambda place: place.write("plan.json", '{"delta": 1' + "0" * 5000 + "}"),
        file="plan.json",
    ),
]
