"""Grid files and ``affidavit experiment``; test files and ``affidavit icl``."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from remedy_cases import Case, Place, nothing

from affidavit.experiments.gridfile import load_grid
from affidavit.experiments.runner import run_experiment

PRISM = {
    "kind": "prism", "max_tokens": 2, "max_record_tokens": 12, "batch_size": 6, "minibatch_rows": 4, "clip": 4.0,
}  # fmt: skip
GRID: dict[str, Any] = {
    "relation": "zero-out",
    "delta": 1e-3,
    "epsilon": [2.0],
    "seeds": [0],
    "model": {"name": "toy"},
    "icl": {"shots": [1], "test": 4},
    "datasets": [
        {
            "name": "winds",
            "task": "ag-news",
            "path": "train.jsonl",
            "size": 24,
            "test": "test.jsonl",
            "labels": ["north", "south"],
        }
    ],
    "methods": [{"name": "one", "baseline": "zero-shot"}],
}
CALL = "experiment grid.toml -o table"


def _tested(place: Place, name: str = "test.jsonl") -> None:
    lines = [{"text": f"a {label} wind", "label": label} for label in ("north", "south") * 3]
    place.write(name, "".join(json.dumps(line) + "\n" for line in lines))


def _with(
    method: dict[str, Any] | None = None, *, also: Callable[[Place], Any] = nothing, **changes: Any
) -> Callable[[Place], None]:
    def arrange(place: Place) -> None:
        _tested(place)
        content = copy.deepcopy(GRID)
        if method is not None:
            content["methods"] = [{"name": "one", **method}]
        place.save("grid.toml", content)
        for key, value in changes.items():
            path = key.replace("__", ".")
            place.remove("grid.toml", path) if value is None else place.set("grid.toml", path, value)
        also(place)

    return arrange


def _grid(at: str, arrange: Callable[[Place], None], **more: Any) -> Case:
    return Case(at, CALL, arrange, file="grid.toml", **more)


def _icl(at: str, flags: str = "--task ag-news", arrange: Callable[[Place], Any] = nothing, **more: Any) -> Case:
    def both(place: Place) -> None:
        lines = [{"text": f"the {label} of the day", "label": label} for label in ("World", "Sports", "Business")]
        place.write("test.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        place.write("shown.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
        arrange(place)

    return Case(at, f"icl test.jsonl --model toy {flags} --limit 2 --seeds 0", both, **{"file": "test.jsonl", **more})


def _plain(place: Place) -> None:
    _icl("-").arrange(place)


def _line(content: str) -> Callable[[Place], None]:
    return lambda place: place.write("test.jsonl", content + "\n")


CASES = [
    _grid("front/strict.py:_explained#3", _with(relation="bounded")),
    _grid("front/strict.py:_explained", _with(seed=[0])),
    _grid("front/experiments/gridfile.py:parse_grid", _with(folder="x")),
    _grid("front/experiments/gridfile.py:_distinct", _with(seeds=[0, 0])),
    _grid("front/experiments/gridfile.py:_distinct", _with(epsilon=[1.0, 1.0])),
    _grid("front/experiments/gridfile.py:_known#2", _with(datasets__task="agnews")),
    _grid("front/experiments/gridfile.py:_known#2", _with(datasets__task="generic"), past=True),
    _grid("front/experiments/gridfile.py:_known#3", _with(datasets__task="medical", datasets__labels=None), past=True),
    _grid(
        "front/experiments/gridfile.py:_known#4", _with(datasets__public="p.jsonl", datasets__public_first=3), past=True
    ),
    _grid("front/experiments/gridfile.py:_known#5", _with(datasets__test_last=4), past=True),
    _grid("front/experiments/gridfile.py:_known#6", _with(datasets__test=None), past=True),
    _grid("front/experiments/gridfile.py:_whole", _with({"baseline": "zero-shot", "generator": {"kind": "prism"}})),
    _grid("front/experiments/gridfile.py:_whole#3", _with({"baseline": "zero-shot", "epsilon": [1.0], "solve": ["x"]})),
    _grid("front/experiments/gridfile.py:_whole#2", _with({}), past=True),
    _grid(
        "front/experiments/gridfile.py:_whole#4", _with({"generator": PRISM, "grid": {"clip": [1.0, 2.0]}}), past=True
    ),
    _grid("front/experiments/cells.py:_preset", _with({"generator": PRISM, "preset": "papr"}), past=True),
    _grid("front/experiments/cells.py:_preset", _with({"generator": PRISM, "preset": "xyzzy"})),
    _grid("front/experiments/gridfile.py:_distinct#2", _with({"generator": PRISM, "datasets": ["wind"]})),
    _grid("front/experiments/gridfile.py:_distinct#3", _with({"generator": PRISM, "beside": "won"})),
    _grid("front/experiments/gridfile.py:_distinct#3", _with({"generator": PRISM, "beside": "xyzzy"})),
    Case(
        "front/experiments/runner.py:done_so_far",
        f"{CALL} --so-far",
        _with(),
        by_hand=lambda place: run_experiment(load_grid(place.folder / "grid.toml"), place.folder / "table"),
    ),
    _grid("front/noise.py:noise_values", _with({"generator": PRISM, "solve": ["labels"]})),
    _grid(
        "front/noise.py:noise_values",
        _with({"generator": PRISM, "epsilon": [float("inf")], "solve": ["minibatch_rows"]}),
        past=True,
    ),
    _grid("front/experiments/cells.py:check", _with({"baseline": "public-records"}), past=True),
    _grid(
        "front/experiments/cells.py:_check_baseline",
        _with(
            {
                "baseline": "aggregation",
                "generator": {"kind": "few-shot", "mechanism": "gaussian", "noise_multiplier": 1.0, "subsets": 2},
            }
        ),
        past=True,
    ),
    _grid("front/experiments/naming.py:renamed", _with({"generator": {**PRISM, "batch_size": 13}})),
    _grid(
        "front/experiments/naming.py:renamed",
        _with({"generator": {k: v for k, v in PRISM.items() if k != "batch_size"}, "grid": {"batch_size": [6, 13]}}),
    ),
    _grid("front/experiments/runner.py:_check_inputs", _with(datasets__size=20)),
    _grid("front/experiments/files.py:check_there", _with(datasets__path="trains.jsonl")),
    _grid(
        "front/experiments/files.py:check_there",
        _with(datasets__path="trains.jsonl", datasets__public_first=4, datasets__size=20),
    ),
    Case(
        "front/experiments/runner.py:_prepare_folder",
        CALL,
        _with(also=lambda place: place.write("table/other.txt", "")),
    ),
    Case(
        "front/experiments/runner.py:_prepare_folder#2",
        "experiment grid.toml -o file/table",
        _with(also=lambda place: place.write("file", "")),
    ),
    Case(
        "front/experiments/gridfile.py:load_grid",
        "experiment grids.toml -o table",
        _with(),
        by_hand=lambda place: (place.folder / "grid.toml").rename(place.folder / "grids.toml"),
    ),
    _icl("generation/icl/tasks.py:task", "--task agnews"),
    _icl("generation/icl/tasks.py:task", "--task xyzzy", past=True),
    _icl("front/icl.py:task_for", "--task generic", past=True),
    _icl("generation/icl/tasks.py:with_labels#2", "--task ag-news --label World", past=True),
    _icl("generation/icl/tasks.py:with_labels", "--task medical --label a --label b", past=True),
    _icl(
        "front/icl.py:task_for#2",
        "--task ag-news --schema schema.json",
        lambda place: place.write("schema.json", '{"type": "object"}'),
    ),
    _icl(
        "generation/icl/structured.py:load_schema#3",
        "--task wikimovies --schema schema.json",
        lambda place: place.write("schema.json", "[]"),
        file="schema.json",
        past=True,
    ),
    _icl(
        "generation/icl/structured.py:load_schema#2",
        "--task wikimovies --schema schema.json",
        lambda place: place.write("schema.json", "{"),
        file="schema.json",
        past=True,
    ),
    _icl(
        "generation/icl/structured.py:load_schema#3",
        "--task wikimovies --schema schema.json",
        lambda place: place.write("schema.json", '{"type": 3}'),
        file="schema.json",
        past=True,
    ),
    _icl("front/icl.py:icl", "--task ag-news --shots 2"),
    _icl("front/icl.py:icl", "--task ag-news --shots 0 --demonstrations shown.jsonl", past=True),
    _icl("generation/icl/prompting.py:choose_demonstrations", "--task ag-news --shots 9 --demonstrations shown.jsonl"),
    Case("front/cli/icl.py:_whole_numbers", "icl test.jsonl --model toy --task ag-news --seeds one", _plain),
    Case("generation/icl/evaluation.py:check_seeds", "icl test.jsonl --model toy --task ag-news --seeds 1,1", _plain),
    _icl("generation/icl/examples.py:_objects#2", arrange=_line("[]"), past=True),
    _icl("generation/icl/examples.py:_text", arrange=_line('{"text": 3, "label": "World"}'), past=True),
    _icl(
        "generation/icl/examples.py:_example#2",
        arrange=_line('{"text": "a", "label": "Worlds"}'),
        by_hand=_line('{"text": "a", "label": "World"}'),
    ),
    _icl("generation/icl/examples.py:_example", arrange=_line('{"text": "a", "label": []}'), past=True),
    _icl("generation/icl/examples.py:load_examples", arrange=_line(""), past=True),
]
