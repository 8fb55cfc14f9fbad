"""Generators that are not ours, and claims without a certificate."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from remedy_cases import PLAN, Api, Case, Place

from affidavit import foreign
from affidavit.foreign.watch import Watch
from affidavit.generation.dataset import Record

GLUE = """
import random

def run(records):
    return [str(random.random()), str(random.random())]

def release(inputs):
    return float(inputs[0]) + random.gauss(0.0, 1.0)
"""
RUN = "neighbours glue.py:run letters.jsonl"
CLAIM = "audit --plan plan.json --records letters.jsonl"
ATTACK = "audit audit.toml --plan plan.json --records letters.jsonl -o findings"
MEMBERSHIP = {"attack": "gap", "members": 4, "non_members": 4, "runs": 1}
DONE = (0, 1, 5)


def _there(**files: Any) -> Callable[[Place], None]:
    """The glue, letters and a plan; of ``files``, those that the case has otherwise."""

    def arrange(place: Place) -> None:
        place.write("glue.py", files.get("glue", GLUE))
        place.records("letters.jsonl", files.get("count", 12))
        place.write("plan.json", json.dumps(files.get("plan", PLAN)))
        if "audit" in files:
            place.save("audit.toml", files["audit"])
        if files.get("certified"):
            place.certified()
            place.must("certify", "run.toml", "-o", "findings/certificate.json")

    return arrange


def _case(at: str, call: str, *, by_hand: Callable[[Place], object] | None = None, **more: Any) -> Case:
    settings = {key: more.pop(key) for key in ("then", "past", "file") if key in more}
    room = "" if at.startswith("accountant/") else "front/"
    return Case(f"{room}{at}", call, _there(**more), by_hand=by_hand, **{"then": DONE, **settings})


def _is_there(_: Place) -> None:
    """Done by naming what is there."""


def _glued(place: Place) -> None:
    place.write("glue.py", GLUE)


NO_DELTA = {key: value for key, value in PLAN.items() if key != "delta"}
ONE_STEP = {"attack": "one-step", "members": 20, "non_members": 20}
EXTRACTION = {"attack": "extraction", "members": 2, "non_members": 2, "runs": 1}

CASES = [
    _case("cli/audits.py:audit", f"{CLAIM} --generator glue.py:run -o findings --certificate c.json"),
    _case("cli/audits.py:audit#2", "audit --claim 1 -o findings", past=True),
    _case("cli/audits.py:audit#3", "audit -o findings", certified=True, audit=ONE_STEP),
    _case("cli/foreign.py:_examined", f"{RUN} --claim 3 --relation add-remove"),
    _case("cli/foreign.py:_examined#2", RUN),
    _case("accountant/validate.py:number#3", f"{RUN} --plan plan.json --claim nan"),
    _case("accountant/validate.py:number#3", f"{RUN} --plan plan.json --claim inf"),
    _case("accountant/validate.py:number#4", f"{RUN} --plan plan.json --claim 1e-400"),
    _case("accountant/validate.py:real", f"{RUN} --plan plan.json --claim=-1"),
    _case("cli/foreign.py:_examined#3", f"{RUN} --plan plan.json --relation zero-out"),
    _case("cli/foreign.py:audit_claimed", "audit --plan plan.json --generator glue.py:run -o findings"),
    _case("cli/foreign.py:audit_claimed#2", f"{CLAIM} -o findings"),
    _case("foreign/claims.py:certified", f"{CLAIM} --generator glue.py:run -o f", plan=NO_DELTA, file="plan.json"),
    _case("foreign/claims.py:audit_claim", ATTACK, audit=EXTRACTION, file="audit.toml", past=True),
    _case("foreign/claims.py:audit_claim#2", ATTACK, audit=ONE_STEP),
    _case("foreign/claims.py:audit_claim#3", ATTACK, audit=MEMBERSHIP, past=True),
    _case("foreign/claims.py:audit_claim#4", f"{ATTACK} --generator glue.py:run", audit=MEMBERSHIP, past=True),
    _case("foreign/claims.py:release", f"{ATTACK} --release glue.py:release", audit=ONE_STEP,
          glue="def release(inputs):\n    return [0.5, float('nan')]", by_hand=_glued),
    _case("foreign/load.py:_failed", f"{RUN} --relation zero-out", glue="def run(records):\n    raise SystemExit(0)",
          by_hand=_glued),
    _case("foreign/load.py:load_function", "neighbours glue letters.jsonl --relation zero-out",
          by_hand=_is_there, then=()),
    _case("foreign/load.py:load_function#2", "neighbours other.py:run letters.jsonl --relation zero-out",
          by_hand=lambda place: place.write("other.py", GLUE)),
    _case("foreign/load.py:load_function#3", f"{RUN} --relation zero-out",
          glue="import a_module_that_is_not_there", by_hand=_glued),
    _case("foreign/load.py:load_function#4", f"{RUN} --relation zero-out", glue="run = 3", by_hand=_glued),
    _case(
        "foreign/pairs.py:pairs",
        f"{RUN} --relation zero-out",
        count=2,
        by_hand=lambda place: place.records("letters.jsonl", 3),
    ),
]  # fmt: skip


def _drawn(*, sensitivity: str = "1.0", members: str = "records") -> Watch:
    """One draw of a generator, with such expressions."""
    import random

    named = foreign.draw("plan", "gauss", inside="run", sensitivity=sensitivity, members=members, batch="plan")

    @foreign.draws(named)
    def run(records: list[Record]) -> float:
        return len(records) + random.gauss(0.0, 1.0)

    return foreign.trace(run, [Record("r1", "a letter", "north")])


def _claimed(*, watched: bool) -> None:
    if not watched:
        foreign.claim(epsilon=1.0, delta=1e-5)
        return
    with Watch(()):
        foreign.claim(epsilon=1.0, delta=1e-5)


API = [
    Api("front/foreign/draw.py:_compiled", _drawn, {"sensitivity": "2 **"}),
    Api("front/foreign/draw.py:evaluate", _drawn, {"sensitivity": "shots"}, {"sensitivity": "len(records)"}),
    Api("front/foreign/reading.py:_members", _drawn, {"members": "[1, 2]"}, {"members": "records"}),
    Api("front/foreign/watch.py:claim", _claimed, {"watched": False}, {"watched": True}),
]
