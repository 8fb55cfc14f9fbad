"""The core without any extra, here where all are installed: they are hidden from a new process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_core_commands_work_alone_and_the_others_say_what_to_install():
    script = Path(__file__).with_name("check_core.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ": 0 faults" in done.stdout
