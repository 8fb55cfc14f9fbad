"""Makes the helpers of this folder importable, and a fresh place for each alternative of a remedy."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from remedy_cases import HIDDEN, INSTALLING, Place
from remedy_sites import Recorder

from support import postgresql as postgres


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What ``HIDDEN`` names is not found; a folder, ``PIP_TARGET``, is looked into first."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(site)
    INSTALLING["PYTHONPATH"] = str(site)
    spec, version = importlib.util.find_spec, importlib.metadata.version

    def known_version(name: str) -> str:
        if name in HIDDEN:
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in HIDDEN else spec(name, *more))
    monkeypatch.setattr(importlib.metadata, "version", known_version)
    modules = set(sys.modules)
    yield
    HIDDEN.clear()
    INSTALLING.clear()
    for name in set(sys.modules) - modules:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(site)):
            del sys.modules[name]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Where errors were made, in the order of their making."""
    with Recorder() as found:
        yield found


@pytest.fixture
def own_postgresql() -> Iterator[postgres.Server]:
    """A server whose settings may be changed."""
    found = postgres.programs()
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(postgres.HOW)
    with postgres.running(found) as server:
        yield server


@pytest.fixture
def new_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    same_entropy: None,
    request: pytest.FixtureRequest,
) -> Callable[[], Place]:
    """A folder of its own with a run file, records, keys, an account and a certificate; commands run in it."""
    count = iter(range(100))

    def server() -> Any:
        return request.getfixturevalue("own_postgresql")

    def make() -> Place:
        return Place.make(
            tmp_path / f"place-{next(count)}", monkeypatch, capsys, lambda: request.getfixturevalue("service"), server
        )

    return make
