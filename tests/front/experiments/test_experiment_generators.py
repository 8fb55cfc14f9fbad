"""Every registered generator in a grid, with nothing said about it but its settings: certified, run, measured."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from affidavit.experiments.cells import expand
from affidavit.experiments.gridfile import Dataset, load_grid, parse_grid
from affidavit.experiments.runner import run_experiment
from affidavit.experiments.running import _scored_answers
from affidavit.generation.icl.examples import load_examples
from affidavit.generation.icl.tasks import task as named_task
from affidavit.generation.registry import kinds
from affidavit.runfile import RunFile
from support.real_data import real_data

pytestmark = pytest.mark.usefixtures("same_entropy")

ROOT = Path(__file__).resolve().parents[3]
CASES = ROOT / "tests" / "conformance" / "generators"
EXAMPLES = ROOT / "docs" / "examples" / "experiments"
TARGET = 8.0
LABELS = ["north", "south"]
SHIPPED = sorted(path.stem for path in EXAMPLES.glob("*.toml"))
MADE_HERE = EXAMPLES.parent / "film_records.toml"
"""Its data are made by a script beside it, of a data set of the catalogue."""


def _grid(kind: str, folder: Path, **method: Any) -> Any:
    """The generator's settings of the conformance tests, on records about the winds."""
    case = tomllib.loads((CASES / f"{kind}.toml").read_text(encoding="utf-8"))
    labels = case.get("labels", LABELS)
    asks = "queries" in case["generator"]  # a word that the question says is no keyword of its answer
    for name, count in (("train", case["size"]), ("test", 3), ("public", 24)):
        lines = [
            json.dumps(
                {
                    "id": f"{name}{n}",
                    "text": f"the {'near' if asks else labels[n % len(labels)]} wind number {n} over the harbour",
                    "label": labels[n % len(labels)],
                }
            )
            for n in range(count)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    table = {key: value for key, value in case["generator"].items() if key not in ("labels", "queries")}
    table.setdefault("task", "question" if "queries" in case["generator"] else "generic")
    dataset = {
        "name": "winds", "task": "ag-news", "labels": labels, "path": "train.jsonl", "size": case["size"],
        "test": "test.jsonl", "public": "public.jsonl",
    }  # fmt: skip
    return parse_grid(
        {
            "relation": "zero-out" if "zero-out" in case["relations"] else case["relations"][0],
            "delta": 1e-2,
            "epsilon": [TARGET, math.inf],
            "seeds": [0],
            "model": {"name": "toy"},
            "icl": {"shots": [1]},
            "datasets": [dataset],
            "methods": [{"name": kind, "generator": table, **method}],
        },
        folder=folder,
    )


def _settings(kind: str) -> dict[str, Any]:
    """What the smallest settings leave to say: the relation that samples of a fixed size go with."""
    return {"relation": "substitution"} if kind == "few-shot" else {}


def _noise_keys(run: RunFile) -> tuple[str, ...]:
    return run.source.noise_keys(run.generator)


SLOW = {"few-shot", "adadpsyn", "sga", "ksa-answers"}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in SLOW else ()) for kind in kinds()]
)
def test_every_generator_meets_its_target_and_is_measured(kind: str, tmp_path: Path) -> None:
    grid = _grid(kind, tmp_path, **_settings(kind))
    protected, free = run_experiment(grid, tmp_path / "out").results
    assert not protected.refused
    assert protected.epsilon_upper <= TARGET
    assert protected.epsilon_upper > 0.9 * TARGET
    keys = _noise_keys(expand(grid)[0].run())
    assert set(protected.values) == set(free.values) == set(keys)
    for result in (protected, free):
        (scores,) = result.scores.values()
        assert 0.0 <= scores["accuracy"] <= 1.0
        assert result.calls > 0
        assert result.texts > 0
    assert _receipt(tmp_path, protected.cell)["protected"] is True
    assert _receipt(tmp_path, free.cell)["generator"] == f"{kind}-noise-off"


def _receipt(folder: Path, cell: str) -> dict[str, Any]:
    (path,) = (folder / "out" / "runs" / cell).glob("attempt-*/receipt.json")
    return dict(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_noise_multipliers_keep_their_proportions(tmp_path: Path) -> None:
    cell = expand(_grid("adadpsyn", tmp_path))[0]
    keys = _noise_keys(cell.run())
    assert set(keys) == {"radius_noise_multiplier", "mean_noise_multiplier", "count_noise_multiplier"}
    (result, _) = run_experiment(_grid("adadpsyn", tmp_path), tmp_path / "out").results
    start = cell.run().generator.model_dump()
    factors = [float(result.values[key]) / start[key] for key in keys]
    assert max(factors) == pytest.approx(min(factors), rel=1e-12)


def test_a_generator_that_answers_is_asked_the_test_questions(tmp_path: Path) -> None:
    grid = _grid("sga", tmp_path, test=2)
    cells = expand(grid)
    assert all(cell.answers and cell.shots == (0,) for cell in cells)
    asked = cells[0].run().generator.model_dump()["queries"]
    assert list(asked) == [one.input for one in cells[0].test_examples()]
    assert len(asked) == 2


def test_answers_with_line_separators_are_scored(tmp_path: Path) -> None:
    """As ``outputs.write`` writes them: a model may say U+2028 or U+0085, which JSON leaves as they are."""
    cell = expand(_grid("sga", tmp_path, test=2))[0]
    lines = ({"query": one.input, "text": f"{one.answers[0]}\u2028\u0085."} for one in cell.test_examples())
    content = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (tmp_path / "synthetic.jsonl").write_text(content, encoding="utf-8")
    assert _scored_answers(cell, tmp_path)["accuracy"] == 1.0


def _write(path: Path, labels: tuple[str, ...], count: int) -> None:
    lines = ({"id": str(n), "text": f"text number {n}", "label": labels[n % len(labels)]} for n in range(count))
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.mark.parametrize(
    "path", [*(EXAMPLES / f"{name}.toml" for name in SHIPPED), MADE_HERE], ids=lambda path: path.stem
)
def test_the_shipped_grids_are_whole(path: Path, tmp_path: Path) -> None:
    """Every cell of the examples has settings that are a run, with a key to solve for; on records made here."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    for table, dataset in zip(content["datasets"], load_grid(path).datasets, strict=True):
        table["path"] = f"{dataset.name}.jsonl"
        _write(tmp_path / table["path"], dataset.all_labels, _held(dataset))
        if dataset.test is not None:
            table["test"] = f"{dataset.name}-test.jsonl"
            _write(tmp_path / table["test"], dataset.all_labels, 200)
    cells = expand(parse_grid(content, folder=tmp_path))
    for cell in {cell.setting_id: cell for cell in cells}.values():
        cell.check()
        if cell.protected:
            assert _noise_keys(cell.run())


def _held(dataset: Dataset) -> int:
    """How many lines its file has: private records, and what else it is divided into."""
    return dataset.size + (dataset.public_first or 0) + (dataset.test_last or 0)


def _dataset(name: str, dataset: Dataset) -> Any:
    """One data set of a shipped grid, with its files as ``DATASET/FILE``."""
    paths = [Path(path) for path in (dataset.path, dataset.test) if path is not None]
    files = tuple(f"{path.parent.name}/{path.name}" for path in paths)
    return pytest.param(dataset, files, marks=pytest.mark.data(*files), id=f"{name}-{dataset.name}")


@pytest.mark.parametrize(
    ("dataset", "files"),
    [_dataset(name, dataset) for name in SHIPPED for dataset in load_grid(EXAMPLES / f"{name}.toml").datasets],
)
def test_the_data_are_as_the_shipped_grids_say(dataset: Dataset, files: tuple[str, ...]) -> None:
    """The declared size is the file's, and no label is another than the declared ones, or is open."""
    private, *_ = (load_examples(real_data(name), named_task(dataset.task)).examples for name in files)
    assert len(private) == _held(dataset)
    found = {answer for one in private for answer in one.answers}
    assert set(dataset.all_labels) <= found if dataset.texts.across_labels else found <= set(dataset.all_labels)
