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


def real_data(name: str = "") -> Path:
    """The path of ``DATASET/FILE``, or the folder itself, for a test that is marked with it."""
    assert FOLDER is not None, f"a test that reads {name or 'real data'} has to be marked: @pytest.mark.data({name!r})"
    return FOLDER / name


def skip_without_data(item: pytest.Item) -> None:
    """Skip a test whose marks name files that are not there."""
    for mark in item.iter_markers("data"):
        for name in mark.args or ("",):
            why = missing(name)
            if FOLDER is None or not (FOLDER / name).exists():
                pytest.skip(why)


def missing(name: str) -> str:
    """Why a test that needs ``DATASET/FILE`` is skipped, and what runs it. The file is one of the catalogue's."""
    from affidavit.datasets import catalogue

    if not name:
        return f"{VARIABLE} names no folder: `affidavit data list` shows the data sets, `{VARIABLE}=data make test`"
    found = [one for one in catalogue() if name in {f"{one.folder}/{file.name}" for file in one.files}]
    assert found, f"{name} is made by no data set: `affidavit data list`"
    return (
        f"{VARIABLE} names no folder with {found[0].name}: `affidavit data show {found[0].name}` says what makes it, "
        f"then `{VARIABLE}=data make test`"
    )
