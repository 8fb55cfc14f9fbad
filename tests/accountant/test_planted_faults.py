"""Each fault of ``support.planted`` is caught: with it in the code, the test that is there for it fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.planted import FAULTS, Planted

ROOT = Path(__file__).parents[2]
AT_LEAST = 25


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages as they are installed, which may be changed."""
    folder = tmp_path_factory.mktemp("tree")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-dir"]
    for package, source in settings.items():
        if package.count(".") <= 1:
            target = folder.joinpath(*package.split("."))
            shutil.copytree(ROOT / source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def _run(tree: Path, *tests: str) -> subprocess.CompletedProcess[str]:
    """These tests on the packages in ``tree``."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    named = [f"tests/accountant/{test}" for test in tests]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([*command, *named], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def planted(tree: Path, request: pytest.FixtureRequest) -> Iterator[Planted]:
    fault: Planted = request.param
    path = tree / "affidavit" / fault.file
    right = path.read_text("utf-8")
    path.write_text(right.replace(fault.old, fault.new), "utf-8")
    yield fault
    path.write_text(right, "utf-8")


def test_the_list_fits_the_code() -> None:
    """Every passage stands exactly once in its file, and every test is there."""
    assert len(FAULTS) >= AT_LEAST
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    for fault in FAULTS:
        assert (ROOT / fault.file).read_text("utf-8").count(fault.old) == 1, fault.name
        file, _, name = fault.test.partition("::")
        assert f"def {name}" in (ROOT / "tests" / "accountant" / file).read_text("utf-8"), fault.name


@pytest.mark.slow
@pytest.mark.parametrize("planted", FAULTS, ids=lambda fault: fault.name, indirect=True)
def test_a_planted_fault_is_caught(tree: Path, planted: Planted) -> None:
    done = _run(tree, planted.test)
    assert done.returncode == 1, done.stdout[-2000:]
    assert "failed" in done.stdout


@pytest.mark.slow
def test_without_a_fault_nothing_fails(tree: Path) -> None:
    """So what failed above failed for the fault: the same tests, on the same copy, as it is."""
    done = _run(tree, *sorted({fault.test for fault in FAULTS}))
    assert done.returncode == 0, done.stdout[-2000:]
