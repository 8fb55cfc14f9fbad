"""The notebooks of the guide are run, cell by cell, and show what they have stored."""

from __future__ import annotations

import importlib.util
import json
import re
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
CHANGING = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?|\b[0-9a-f]{12,}\b")
"""Instants and digests: of keys, salts and times that every run has of its own."""


@pytest.fixture(scope="module")
def remake() -> ModuleType:
    spec = importlib.util.spec_from_file_location("remake", FOLDER / "remake.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outputs(cell: Any) -> list[dict[str, str]]:
    """What a cell shows, without what every run has of its own; HTML of a cell that varies is left out."""
    found = []
    for output in cell.outputs:
        data = {"text": output.text} if output.output_type == "stream" else dict(output.data)
        if "varies" in cell.metadata.get("tags", []):
            data.pop("text/html", None)
        found.append({kind: CHANGING.sub("…", text) for kind, text in data.items()})
    return found


def test_there_is_one():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_its_cells_say(path, remake, tmp_path, monkeypatch, same_entropy):
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "untouched"
    monkeypatch.setenv("AFFIDAVIT_HOME", str(home))
    monkeypatch.delenv("AFFIDAVIT_LEDGER", raising=False)
    stored = nbformat.read(path, as_version=4)
    nbformat.validate(stored)
    again = remake.remade(nbformat.read(path, as_version=4))
    for before, after in zip(stored.cells, again.cells, strict=True):
        assert (before.cell_type, before.source) == (after.cell_type, after.source)
        if before.cell_type == "code":
            assert before.execution_count == after.execution_count
            assert outputs(before) == outputs(after), before.source
    assert not home.exists(), "a notebook has a home of its own"
    assert list(tmp_path.iterdir()) == []


def test_a_changed_output_is_seen(remake):
    cell = next(cell for cell in nbformat.read(NOTEBOOKS[0], as_version=4).cells if cell.cell_type == "code")
    shown = outputs(cell)
    cell.outputs = remake.run_cell(cell.source.replace("4.0", "5.0"), {}, number=1)
    assert outputs(cell) != shown
    assert {"text/plain", "text/html"} == set(shown[-1])


def test_the_executor_shows_what_jupyter_would(remake):
    assert remake.run_cell("x = 1", {}, number=1) == []
    (printed, value) = remake.run_cell("print('a')\n'b'", {}, number=2)
    assert (printed.text, value.data["text/plain"], value.execution_count) == ("a\n", "'b'", 2)
    with pytest.raises(ZeroDivisionError):
        remake.run_cell("1 / 0", {}, number=3)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_holds_no_record(path):
    text = path.read_text(encoding="utf-8")
    corpus = (files("affidavit") / "demo_data" / "corpus.jsonl").read_text(encoding="utf-8")
    for record in map(json.loads, corpus.splitlines()):
        assert record["text"][:40] not in text
        assert record["id"] not in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_links_lead_somewhere(path):
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\(([^)#]+)\)", cell.source):
                assert (path.parent / target).exists(), target
