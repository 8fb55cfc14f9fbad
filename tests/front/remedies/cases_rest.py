"""What is left of the commands: released text, receipts, own tasks, demos, and files of an odd kind."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from typing import Any

from cases_audits import _released
from cases_grids import PRISM, _grid, _icl, _with
from cases_runs import KSA, SGA, with_settings
from remedy_cases import RUN, Api, Case, Place, dumped

from affidavit.experiments import runner
from affidavit.generation.models.toy import ToyModel

OWN: dict[str, Any] = {"labels": ["north", "south"], "instruction": "Say where the wind comes from."}


def _file_demo(place: Place) -> None:
    """A file where a folder is to be; and no model, so that the demo ends where it would begin."""
    from affidavit.generation.models import load_model

    place.write("file", "")
    place.monkeypatch.setattr("affidavit.demo.load_model", lambda *_, **__: load_model("none"))


def _held(place: Place) -> None:
    """The folder that another run is writing to."""
    place.certified()
    (place.folder / "out").mkdir()
    fcntl.flock(os.open(place.folder / "out", os.O_RDONLY), fcntl.LOCK_EX)


def _other_field(place: Place) -> None:
    """Records whose labels stand in another field than a run reads."""
    path = place.folder / "train.jsonl"
    text = path.read_text(encoding="utf-8").replace('"label": ', '"label": "x", "category": ')
    path.write_text(text, encoding="utf-8")
    place.keys()
    place.account()


EMPTY = _released(
    "-",
    {"held_out": "empty.jsonl"},
    by_hand=lambda place: place.set("audit.toml", "held_out", "held_out.jsonl"),
)


def _empty_file(place: Place) -> None:
    EMPTY.arrange(place)
    place.write("empty.jsonl", "\n")


def _unsettled(place: Place) -> None:
    """An experiment whose certificates went astray before its cells were run."""
    _with({"generator": PRISM, "solve": "temperature"})(place)
    place.must("experiment", "grid.toml", "-o", "table")
    for folder in ("cells", "runs"):
        shutil.rmtree(place.folder / "table" / folder)
    for path in (place.folder / "table" / "settled").glob("*.json"):
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), "certificate": None}))


def _other_public(place: Place) -> None:
    """Public records that are none."""
    with_settings(KSA)(place)
    place.write("public.jsonl", "[]\n")
    place.keys()
    place.account(epsilon="900")
    place.must("certify", "run.toml", "-o", "certificate.json")


CASES = [
    Case(
        "front/verification.py:content_of",
        "verify certificate.json --receipt out/receipt.json",
        lambda place: place.certified(),
        by_hand=lambda place: place.must("generate", "run.toml", "--certificate", "certificate.json", "-o", "out"),
    ),
    Case(
        "front/verification.py:verify",
        "verify certificate.json --text out/synthetic.jsonl",
        lambda place: place.generated(),
    ),
    _icl("front/cli/icl.py:icl", "--shots 0", past=True),
    Case("front/demo.py:_prepare_folder#2", "demo --model toy --out file/demo", _file_demo, past=True),
    Case("front/synthesis.py:claimed", "generate run.toml --certificate certificate.json -o out", _held),
    Case(
        "front/strict.py:read_toml#4",
        "plan run.toml",
        lambda place: place.write("run.toml", "size = 1" + "0" * 5000),
        by_hand=lambda place: place.write("run.toml", dumped(RUN)),
    ),
    Case(
        "front/strict.py:read_toml#4",
        "plan run.toml",
        lambda place: place.write("run.toml", "[budget]\nepsilon = 1e-400\n"),
        by_hand=lambda place: place.write("run.toml", dumped(RUN)),
    ),
    Case(
        "front/labelling.py:refused",
        "certify run.toml -o certificate.json",
        _other_field,
    ),
    _released(
        "front/records.py:_content",
        {"released": "out/texts.jsonl"},
        by_hand=lambda place: place.set("audit.toml", "released", "out/synthetic.jsonl"),
    ),
    _released(
        "front/records.py:_text",
        {"released": "out/receipt.json"},
        by_hand=lambda place: place.set("audit.toml", "released", "out/synthetic.jsonl"),
    ),
    Case(
        "front/records.py:parse_all",
        EMPTY.call,
        _empty_file,
        file=EMPTY.file,
        then=EMPTY.then,
        by_hand=EMPTY.by_hand,
    ),
    # grids
    _grid(
        "front/experiments/cells.py:_check_baseline#2",
        _with(
            {"baseline": "public-only", "generator": SGA},
            datasets__labels=None,
            datasets__task=OWN,
            datasets__public="train.jsonl",
        ),
        past=True,
    ),
    _grid(
        "front/experiments/gridfile.py:_known",
        _with(datasets__task=OWN),
    ),
    _grid(
        "front/owntask.py:_whole",
        _with(datasets__labels=None, datasets__task={**OWN, "labels": ["north", "south", "south"]}),
    ),
    _grid(
        "front/owntask.py:_whole#2",
        _with(datasets__labels=None, datasets__task={**OWN, "words": {"west": "West"}}),
    ),
    _grid(
        "front/experiments/settling.py:_noise_off",
        _with({"generator": PRISM, "epsilon": [float("inf")], "solve": ["clip", "temperature"]}),
        by_hand=lambda place: place.set("grid.toml", "methods.solve", ["temperature"]),
        past=True,
    ),
    _grid(
        "front/experiments/settling.py:_noise_off#2",
        _with({"generator": {**PRISM, "clip": 3.0, "temperature": 0.01}, "epsilon": [float("inf")]}),  # the least
        past=True,
    ),
    _grid("front/experiments/running.py:_generate", _unsettled),
    Case(
        "front/synthesis.py:public_records",
        "generate run.toml --certificate certificate.json -o out",
        _other_public,
        by_hand=lambda place: place.records("public.jsonl", 24),
        past=True,
    ),
]


def _work(*, jobs: int, model: object = None) -> None:
    with runner._workers(jobs, None, model):  # type: ignore[arg-type]
        pass


API = [Api("front/experiments/runner.py:_workers", _work, {"jobs": 2, "model": ToyModel()})]
