"""Real third-party data, which is never part of the repository: where it is, and what makes it.

``AFFIDAVIT_DATA`` names a folder with a folder for each data set, as ``affidavit data make`` fills it. A test that
needs a file of it says so, ``@pytest.mark.data("agnews/train.jsonl")``, and is skipped only where that is not there.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "AFFIDAVIT_DATA"


def folder() -> Path | None:
    """The folder that ``AFFIDAVIT_DATA`` names (relative to where the tests were started), if it names one."""
    named = os.environ.get(VARIABLE)
    return Path(named).absolute() if named else None


FOLDER = folder()  # once, before a test changes its working directory or its environment


def real_data(name: str) -> Path:
    """The path of ``DATASET/FILE``, for a test that is marked with it."""
    assert FOLDER is not None, f"a test that reads {name} has to be marked: @pytest.mark.data({name!r})"
    return FOLDER / name


def skip_without_data(item: pytest.Item) -> None:
    """Skip a test whose marks name files that are not there."""
    for mark in item.iter_markers("data"):
        assert mark.args, f"{item.nodeid}: the mark `data` names no file"
        for name in mark.args:
            if FOLDER is None or not (FOLDER / name).is_file():
                pytest.skip(missing(name))


def missing(name: str) -> str:
    """Why a test that needs ``DATASET/FILE`` is skipped, and what runs it."""
    folder, _, file = name.partition("/")
    dataset = "decodingtrust" if file.startswith("decodingtrust_") else folder  # two sets in one folder
    return (
        f"{VARIABLE} names no folder with {dataset}: `affidavit data show {dataset}` says what makes it in data/, "
        f"then `{VARIABLE}=data make test`"
    )
