"""The commands behind the docs' tables of attacks and of bounds: all of it, resumed, and in several processes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("table_attacks", ROOT / "benchmarks" / "table_attacks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["table_attacks"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def data(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
    (tmp_path / "invented").mkdir()
    with (tmp_path / "invented" / "train.jsonl").open("w") as file:
        for i in range(40):
            text = f"note {i * 37} {' '.join(generator.choice(words, size=14))}"
            file.write(json.dumps({"id": f"r{i}", "text": text, "label": ("north", "south")[i % 2]}) + "\n")
    return tmp_path


def test_the_table_holds_every_attack_and_is_resumed(
    table: ModuleType, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], same_entropy: None
) -> None:
    out, state = tmp_path / "table.md", tmp_path / "state.jsonl"
    size = "--members 3 --non-members 3 --shadow-prompts 2 --population 2 --tokens 3 --record-tokens 16"
    arguments = [str(data), "--datasets", "invented", "--model", "toy", *size.split(), "--state", str(state)]
    table.main([*arguments, "--runs", "1", "--out", str(out)])
    assert capsys.readouterr().err.count("run 0") == 2
    rows = [json.loads(line) for line in state.read_text().splitlines()]
    assert {(row["target"], row["attack"]) for row in rows} == {
        (target, attack) for target in table.TARGETS for attack in table.MEMBERSHIP_ATTACKS
    }
    assert all(0.0 <= row["auc"] <= 1.0 for row in rows)
    assert {row["auc"] for row in rows if (row["target"], row["attack"]) == ("unprotected", "reference")} == {1.0}
    lines = [line for line in out.read_text().splitlines() if line.startswith("| `")]
    assert [line.split("`")[1] for line in lines] == list(table.MEMBERSHIP_ATTACKS)
    table.main([*arguments, "--runs", "1", "--out", str(out)])
    assert capsys.readouterr().err == ""  # nothing was missing
    table.main([*arguments, "--runs", "2", "--attacks", "loss", "reference"])
    assert capsys.readouterr().err.count("run 1") == 2
    assert len(state.read_text().splitlines()) == len(rows) + 2 * 2
    table.main([*arguments, "--runs", "1", "--attacks", "loss", "--seed", "1"])
    assert capsys.readouterr().err.count("run 0") == 2  # other settings are other results


def _command(name: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *arguments], cwd=ROOT, check=True, capture_output=True)


def test_two_processes_make_the_same_table_of_attacks(data: Path, tmp_path: Path) -> None:
    size = "--members 3 --non-members 3 --shadow-prompts 2 --population 2 --attacks loss label-probability --runs 2"
    found = []
    for jobs in ("1", "2"):
        state = tmp_path / f"{jobs}.jsonl"
        named = ["--datasets", "invented", "--model", "toy", "--tokens", "3", "--record-tokens", "16"]
        _command("table_attacks", str(data), *named, *size.split(), "--jobs", jobs, "--state", str(state))
        rows = [json.loads(line) for line in state.read_text().splitlines()]
        found.append({tuple(row.items()) for row in rows if row["target"] == "unprotected"})  # the other has noise
        assert len(rows) == 2 * 2 * 2
    assert found[0] == found[1]


def test_two_processes_make_the_same_table_of_bounds(tmp_path: Path) -> None:
    found = []
    for jobs in ("1", "2"):
        out = tmp_path / f"{jobs}.md"
        _command("table_bounds", "--runs", "1", "--trials", "40", "--jobs", jobs, "--out", str(out))
        found.append(out.read_text())
    assert found[0] == found[1]
    assert "| joint test of μ |" in found[0]
    assert found[0].count("\n") == 2 + 8
