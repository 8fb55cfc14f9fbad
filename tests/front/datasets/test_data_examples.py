"""Examples read data that the command makes, and say so; the guide's table; and the real originals, where they are."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from affidavit.datasets import catalogue, check, make
from affidavit.datasets.catalogue import DataSet, Source
from affidavit.datasets.page import to_markdown
from support.real_data import real_data

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*/*.toml"))
FILES = {ROOT / "data" / found.folder / file.name: found for found in catalogue() for file in found.files}


def _strings(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, dict):
        yield from (text for value in content.values() for text in _strings(value))
    elif isinstance(content, list):
        yield from (text for value in content for text in _strings(value))


def _read(path: Path) -> set[Path]:
    """The data files that an example names, from where it stands."""
    texts = _strings(tomllib.loads(path.read_text(encoding="utf-8")))
    return {(path.parent / text).resolve() for text in texts if text.endswith(".jsonl") and "/data/" in text}


def test_there_are_examples_that_read_data() -> None:
    assert len([path for path in EXAMPLES if _read(path)]) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_example_reads_what_the_command_makes_and_says_which(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    read = _read(path) | _read(path.parent / "run.toml" if (path.parent / "run.toml").exists() else path)
    assert read
    assert read <= set(FILES), "no data set of the catalogue"
    head = text[: re.search(r"^[^#]", text, re.MULTILINE).start()]  # type: ignore[union-attr]
    for file in read:
        assert f"#     {FILES[file].command()}\n" in head


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_sizes_of_an_example_are_those_of_the_catalogue(path: Path) -> None:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    for data in [*content.get("datasets", []), *([content["data"]] if isinstance(content.get("data"), dict) else [])]:
        file = (path.parent / data["path"]).resolve()
        (records,) = (made.records for made in FILES[file].files if made.name == file.name)
        assert data["size"] + data.get("public_first", 0) + data.get("test_last", 0) == records


def test_the_guide_shows_the_catalogue() -> None:
    page = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    _, mark, table = page.partition("<!-- affidavit data list --markdown -->\n\n")
    assert mark
    assert table == to_markdown(), "print it again: affidavit data list --markdown"


def test_made_data_are_not_committed() -> None:
    assert "/data/" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


SOURCES = [
    pytest.param(
        found, source, found.name if not number else f"{found.name}-{number + 1}", id=f"{found.name}-{number + 1}"
    )
    for found in catalogue()
    for number, source in enumerate(found.sources)
]


@pytest.mark.parametrize(("found", "source", "folder"), SOURCES)
def test_the_real_original_gives_the_files_that_are_known(
    found: DataSet, source: Source, folder: str, tmp_path: Path
) -> None:
    """From the public originals, to the last byte: ``make`` compares the digests itself."""
    where = os.environ.get("AFFIDAVIT_ORIGINALS")
    if not where or not (Path(where) / folder).is_dir():
        pytest.skip(f"needs the original in AFFIDAVIT_ORIGINALS/{folder}: see `affidavit data show {found.name}`")
    written = make(replace(found, sources=(source,)), [Path(where) / folder], out=tmp_path)
    assert [(w.path.name, w.records) for w in written] == [(file.name, file.records) for file in found.files]
    assert {file.verdict for file in check(tmp_path) if file.data_set == found.name} == {"as made"}


@pytest.mark.data
def test_the_data_that_tests_read_are_as_made() -> None:
    assert {
        (str(file.path), file.verdict, file.detail) for file in check(real_data()) if file.verdict == "differs"
    } == set()
