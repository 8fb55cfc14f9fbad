"""At a terminal and away from one: Ctrl-C, a reader that goes away, forty columns, and signs of life."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shlex
import signal
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any

import pytest

from affidavit.cli._watch import Watch, beating
from affidavit.demo import run_demo
from affidavit.generation.prism import Progress

COMMAND = [sys.executable, "-m", "affidavit"]
PLAN = {"relation": "add-remove", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 1.0}}

SLEEPING = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have told the tests to ignore it
from affidavit.cli import run

def sleeping(*_, **__):
    print("reached", flush=True)
    time.sleep(600)

{patch}
sys.exit(run(sys.argv[1:]))
"""
IN_A_MODEL_CALL = SLEEPING.format(
    patch="from affidavit.generation.models.toy import ToyModel; ToyModel.start = sleeping"
)
WHILE_LOADING = SLEEPING.format(patch="from affidavit import demo; demo.load_model = sleeping")


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN), encoding="utf-8")
    return path


def _interrupted(script: str, *arguments: object) -> tuple[int, str]:
    """Start, wait until it sleeps, press Ctrl-C: the exit code and what it said."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    reached = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert reached == "reached\n", said
    return process.returncode, said


def test_ctrl_c_in_a_model_call_leaves_no_text_and_says_what_is_spent(workplace: Any) -> None:
    arguments = ["generate", workplace.run_file, "--certificate", workplace.certificate, "-o", workplace.out]
    code, said = _interrupted(IN_A_MODEL_CALL, *arguments)
    assert code == 130
    assert "Traceback" not in said
    assert "`affidavit ledger show`" in said
    assert f"`{shlex.join(['affidavit', *map(str, arguments)])} --resume`" in said
    assert f"`{shlex.join(['affidavit', 'close', str(workplace.out)])}`" in said
    assert f"`{shlex.join(['affidavit', *map(str, arguments)])}`" not in said, "it is refused while that run is there"
    assert [path.name for path in workplace.out.iterdir()] == ["unfinished.jsonl"]
    (reservation,) = workplace.ledger.account("letters").reservations
    assert reservation.ended is None
    assert workplace.command("ledger", "verify").code == 0
    shown = workplace.command("ledger", "show")
    assert shown.code == 0
    assert "never committed: spent" in shown.out
    assert workplace.generate("--resume").code == 0


def test_ctrl_c_before_a_run_begins_tells_to_type_the_same_again(workplace: Any) -> None:
    """It advised `--resume` too, which found nothing to go on with."""
    while_loading = SLEEPING.format(patch="from affidavit import synthesis; synthesis.load_model = sleeping")
    arguments = ["generate", workplace.run_file, "--certificate", workplace.certificate, f"--out={workplace.out}"]
    code, said = _interrupted(while_loading, *arguments)
    assert code == 130
    assert "--resume" not in said
    assert f"Again: `{shlex.join(['affidavit', *map(str, arguments)])}`" in said
    assert workplace.ledger.account("letters").reservations == ()
    assert workplace.generate().code == 0


def test_ctrl_c_in_the_demo_leaves_a_folder_in_which_it_begins_anew(tmp_path: Path) -> None:
    out = tmp_path / "demo run"
    code, said = _interrupted(WHILE_LOADING, "demo", "--out", out, "--model", "toy")
    assert code == 130
    assert f"`{shlex.join(['affidavit', 'demo', '--out', str(out), '--model', 'toy'])}`" in said
    assert run_demo(out, model_name="toy").report.is_file()


@pytest.mark.parametrize("streams", [("stdout",), ("stdout", "stderr")])
@pytest.mark.parametrize("arguments", [("epsilon", "{plan}"), ("epsilon", "{plan}", "--json"), ("--help",), ("helpp",)])
def test_a_reader_that_went_away_is_no_answer(arguments: Any, streams: Any, plan_file: Path) -> None:
    """As of ``| head -1``, with a reader that is gone before the first line."""
    reading, writing = os.pipe()
    os.close(reading)
    typed = [argument.format(plan=plan_file) for argument in arguments]
    done = subprocess.run(
        [*COMMAND, *typed],
        check=False,
        text=True,
        **dict.fromkeys(("stdout", "stderr"), subprocess.PIPE) | dict.fromkeys(streams, writing),
    )
    os.close(writing)
    wrote = "stderr" if arguments == ("helpp",) else "stdout"
    assert done.returncode == (141 if wrote in streams else 2)
    assert "Traceback" not in (done.stderr or "")
    assert "BrokenPipe" not in (done.stderr or "")


def _on_a_terminal(columns: int, *arguments: object) -> str:
    """What a command shows on a terminal of so many columns, without its colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            part = os.read(ours, 1 << 16)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(ours)
    assert process.wait() == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")


def _numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text))


@pytest.mark.parametrize("what", ["epsilon", "plan", "ledger"])
def test_forty_columns_cut_no_number(what: str, workplace: Any, plan_file: Path) -> None:
    assert workplace.generate().code == 0
    arguments = {"epsilon": ("epsilon", plan_file), "plan": ("plan", workplace.run_file), "ledger": ("ledger", "show")}
    narrow, wide = (_on_a_terminal(columns, *arguments[what]) for columns in (40, 200))
    assert _numbers(wide) <= _numbers(narrow)
    assert "…" not in narrow
    table = narrow.partition("\n\n")[2].rpartition("\n\n")[0]
    assert max(map(len, table.splitlines())) <= 40 or what == "plan"
    assert set(re.findall(r"[a-z]{4,}", wide)) <= set(re.findall(r"[a-z]{4,}", narrow)), "no word is broken"


def test_a_line_for_each_text_away_from_a_terminal(workplace: Any) -> None:
    said = workplace.generate().err
    assert said.index("Text 1 of 2: north") < said.index("Text 2 of 2: south")


def test_a_step_that_goes_on_is_told_again() -> None:
    now, lines = [0.0], []
    watch = Watch("Loading the model", say=lines.append, clock=lambda: now[0])
    for now[0] in (1.0, 29.9):
        watch.beat()
    assert lines == []
    for now[0] in (30.0, 31.0, 61.0):
        watch.beat()
    assert lines == ["Loading the model (30 s so far)", "Loading the model (61 s so far)"]
    for tokens in (1, 2):
        watch.text(Progress("north", 0, 4, 8, tokens, 40, "what it says is not shown"))
    now[0] = 95.0
    watch.beat()
    assert lines[2:] == ["Text 5 of 8: north", "Text 5 of 8: north, token 2 of 40 (95 s so far)"]
    watch.count("seeds asked", 1, 3)
    assert lines[-1] == "Seeds asked: 1 of 3"


def test_the_beat_comes_by_itself() -> None:
    heard = threading.Event()
    now = iter(range(0, 10_000, 31))
    with beating(Watch("Loading the model", say=lambda _: heard.set(), clock=lambda: float(next(now)))):
        assert heard.wait(30)


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (["epsillon"], "Did you mean `affidavit epsilon`?"),
        (["Certify"], "Did you mean `affidavit certify`?"),
        (["check_trace"], "Did you mean `affidavit check-trace`?"),
        (["xyzzy"], "See `affidavit --help`."),
        (["keys", "sho"], "Did you mean `affidavit keys show`?"),
        (["ledger", "opn"], "See `affidavit ledger --help`."),
        (["epsilon", "plan.json", "--detla", "1"], "--delta"),
    ],
)
def test_the_near_command_is_named(typed: list[str], says: str, command: Any) -> None:
    done = command(*typed)
    assert done.code == 2
    assert done.err.startswith("Error: No such ")
    assert says in done.err


def test_help_marks_what_is_required(command: Any) -> None:
    assert re.search(r"--relation TEXT .*?\[required\]", command("sigma", "--help").out, re.DOTALL)
    for name in ("epsilon", "delta"):
        assert "required where no file states one" in " ".join(command(name, "--help").out.split())
    assert re.search(r"--relation TEXT .*?\[required\]", command("ledger", "init", "--help").out, re.DOTALL)
