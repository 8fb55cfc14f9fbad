"""The rule of tests/support/skips.py, in pytest sessions of its own: no skip without a variable or a command."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent


def run(folder: Path, source: str, *plugins: str) -> dict[str, int]:
    """Counts by outcome of a file of tests under the rule."""
    (folder / "test_it.py").write_text(f"import pytest\n{source}", encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    flags = ["-p", "support.skips", "-p", "no:cacheprovider", "--color=no", "-q"]
    environment = {**os.environ, "PYTHONPATH": str(SUPPORT)}
    command = [sys.executable, "-m", "pytest", *flags]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    counts = re.findall(r"(\d+) (passed|failed|skipped|xfailed|error)", done.stdout.splitlines()[-1])
    return {name: int(count) for count, name in counts}


def test_each_kind_of_skip_is_judged(tmp_path: Path) -> None:
    source = """
@pytest.mark.skip(reason="not today")
def test_mark(): ...

@pytest.mark.skip
def test_no_reason(): ...

def test_call():
    pytest.skip("no JSON here")

@pytest.fixture
def lacking():
    pytest.skip("not installed")

def test_fixture(lacking): ...

def test_variable():
    pytest.skip("AFFIDAVIT_DATA names no folder")

def test_command():
    pytest.skip("not installed: `make test` installs it")

@pytest.mark.xfail(reason="a known fault")
def test_expected():
    raise AssertionError

def test_passes(): ...
"""
    assert run(tmp_path, source) == {"failed": 1, "error": 3, "skipped": 2, "xfailed": 1, "passed": 1}


@pytest.mark.parametrize(("reason", "outcome"), [("nothing here", "error"), ("`pip install x` brings it", "skipped")])
def test_a_module_that_skips_itself_is_judged(tmp_path: Path, reason: str, outcome: str) -> None:
    assert run(tmp_path, f"pytest.skip({reason!r}, allow_module_level=True)") == {outcome: 1}
