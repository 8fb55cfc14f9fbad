"""The tests' own PostgreSQL server: its programs work from anywhere, and it ends with the tests, however they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import postgresql as postgres

TESTS = Path(__file__).parent
# A run in the background is started with SIGINT ignored, as its children are.
STARTED = """
import signal, time
from support import postgresql
signal.signal(signal.SIGINT, signal.default_int_handler)
with postgresql.running(postgresql.programs()) as server:
    print(server.folder, flush=True)
    time.sleep(120)
"""


@pytest.fixture
def programs() -> postgres.Programs:
    found = postgres.programs()
    if found is None:
        pytest.skip(postgres.HOW)
    return found


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_the_tests_are_ended(programs: postgres.Programs, end: signal.Signals) -> None:
    command = [sys.executable, "-c", STARTED]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as tests:
        assert tests.stdout is not None
        folder = Path(tests.stdout.readline().strip())
        assert (folder / "data" / "postmaster.pid").exists()
        tests.send_signal(end)
    for _ in range(600):
        if not folder.exists():
            return
        time.sleep(0.1)
    pytest.fail("the server is still there a minute later")


def test_its_programs_work_where_they_are_copied(tmp_path: Path) -> None:
    """As root, a folder that only root may enter is no place for a server that runs as somebody else."""
    found = postgres.programs()
    if found is None or not found.needs:
        pytest.skip(postgres.HOW)
    copied = found.copied(tmp_path)
    for name in ("initdb", "postgres"):
        done = subprocess.run([copied.path(name), "--version"], capture_output=True, text=True, check=True, env={})
        assert "PostgreSQL" in done.stdout
        assert os.path.commonpath([copied.path(name), tmp_path]) == str(tmp_path)
