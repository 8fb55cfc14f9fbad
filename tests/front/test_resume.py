"""Real processes, killed by SIGKILL at chosen moments: the run is resumed or closed, and nothing is drawn twice."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import posix
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from affidavit import closing, synthesis
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.release.journal import NAME, Journal, Past
from affidavit.accountant.unit import RECORD
from affidavit.cli import run as command_line
from affidavit.generation.recorder import Recorder
from support.stopping import Stop, drawn, in_a_call, logging_draws, stopping

GENERATORS = {
    "prism": """
kind = "prism"
labels = ["north", "south"]
samples_per_label = 2
max_tokens = 4
max_record_tokens = 12
batch_size = 5
clip = 4.0
temperature = 1.0
minibatch_rows = 8
""",
    "few-shot": """
kind = "few-shot"
labels = ["north", "south"]
samples_per_label = 2
max_tokens = 3
max_record_tokens = 12
subsets = 4
shots_per_subset = 1
top_k = 40
sampling = "poisson"
mechanism = "gaussian"
noise_multiplier = 1.2
minibatch_rows = 4
""",
    "private-prediction": """
kind = "private-prediction"
labels = ["north", "south"]
samples_per_label = 2
max_tokens = 5
private_tokens = 2
max_record_tokens = 12
batch_size = 5
minibatch_rows = 4
clip = 4.0
temperature = 1.0
public_temperature = 0.4
top_k = 40
distance_threshold = 0.5
distance_noise = 0.4
""",
    "ksa": """
kind = "ksa"
labels = ["north", "south"]
samples_per_label = 2
mechanism = "joint-exponential"
keywords = 2
keyword_epsilon = 2.0
use_public = false
subsets = 4
sampling = "disjoint"
max_answer_tokens = 4
max_tokens = 4
max_record_tokens = 12
minibatch_rows = 4
top_k = 20
""",
}

WRITES = [
    Stop("run", 0, "before"),
    Stop("run", 0),
    Stop("choice", 0, "middle"),
    Stop("use", 1),
    Stop("intent", 0, "before"),
    Stop("intent", 1, "middle"),
    Stop("intent", 2),
    Stop("value", 1, "before"),
    Stop("value", 1, "middle"),
    Stop("value", 1),
    Stop("value", 3),
    Stop("text", 0, "before"),
    Stop("text", 0),
    Stop("text", 2),
    Stop("text", 3),
]
CALLS = {
    "before the charge": (Ledger, "reserve", "before", 0),
    "after the charge": (Ledger, "reserve", "after", 0),
    "before the files": (synthesis, "write", "before", 0),
    "after the trace": (Path, "replace", "after", 0),
    "after the texts": (Path, "replace", "after", 1),
    "after the receipt": (Path, "replace", "after", 2),
    "before the commit": (Ledger, "commit", "before", 0),
    "after the commit": (Ledger, "commit", "after", 0),
    "half tidied up": (Path, "unlink", "after", 6),  # those before are drafts
}


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    kind: str = request.param
    if kind == "postgresql":
        monkeypatch.setenv("AFFIDAVIT_LEDGER", request.getfixturevalue("postgresql").new_place())
    return kind


@pytest.fixture
def place(empty_workplace: Any) -> Any:
    """Keys and a rich account; ``certified`` makes the run."""
    empty_workplace.keyring.init()
    return empty_workplace


def _certified(place: Any, kind: str) -> None:
    text = place.run_file.read_text(encoding="utf-8")
    head = text.partition("[generator]")[0].replace("epsilon = 4.0", "epsilon = 500.0")
    seeded = "[randomness]\nnoise = {seed = 3}\n"
    place.run_file.write_text(f"{head}{seeded}[generator]{GENERATORS[kind]}", encoding="utf-8")
    Ledger(keyring=place.keyring).init_account("letters", relation="zero-out", unit=RECORD, epsilon=10**4, delta="0.9")
    certified = place.certify()
    assert certified.code == 0, certified.err


def _killed(place: Any, dying: Callable[[], contextlib.AbstractContextManager[None]], *flags: str) -> int:
    """Generate in a process of its own under ``dying``; the signal that ended it, 0 for none."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            nowhere = os.open(place.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            for stream in (1, 2):
                os.dup2(nowhere, stream)
            words = ["generate", place.run_file, "--certificate", place.certificate, "-o", place.out, *flags]
            with dying(), logging_draws(place.folder / "log"):
                code = command_line([str(word) for word in words])
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _texts(place: Any) -> list[str]:
    return [json.loads(line)["text"] for line in (place.out / "synthetic.jsonl").read_text("utf-8").splitlines()]


def _finished(place: Any) -> list[str]:
    path = place.out / NAME
    return [one["sample"]["text"] for one in Past.read(path).texts] if path.exists() else []


def _whole(place: Any) -> list[str]:
    """The texts of a run that nobody stops."""
    out = place.folder / "whole"
    done = place.command("generate", place.run_file, "--certificate", place.certificate, "-o", out)
    assert done.code == 0, done.err
    texts = [json.loads(line)["text"] for line in (out / "synthetic.jsonl").read_text("utf-8").splitlines()]
    shutil.rmtree(out)
    return texts


def _charges(place: Any) -> list[Any]:
    return list(Ledger(keyring=place.keyring).account("letters").reservations)


def _check_resumed(place: Any, before: list[Any], finished: list[str], *, lost: int, resumed: int) -> None:
    """One charge, committed with the receipt; every draw once; what was finished is there; anyone can verify it."""
    receipt = json.loads((place.out / "receipt.json").read_text("utf-8"))
    assert (receipt["resumed"], receipt["lost_draws"], receipt["closed"]) == (resumed, lost, False)
    (mine,) = [item for item in _charges(place) if item.entry == receipt["ledger_entry"]]
    assert len(_charges(place)) == len(before) + 1
    assert mine.ended is not None
    assert mine.receipt_sha256 == hashlib.sha256((place.out / "receipt.json").read_bytes()).hexdigest()
    assert set(drawn(place.folder / "log").values()) == {1}
    assert _texts(place)[: len(finished)] == finished
    assert len(_texts(place)) == 4
    assert not (place.out / NAME).exists()
    assert not (place.keyring.home / "runs" / mine.entry).exists()
    verified = place.command(
        "verify", place.certificate, "--receipt", place.out / "receipt.json", "--text", place.out / "synthetic.jsonl",
        "--ledger",
    )  # fmt: skip
    assert verified.code == 1
    assert "NO GUARANTEE" in verified.out  # of seeded noise; see the next test


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_run_killed_at_any_line_goes_on(place: Any, ledger_kind: str, kind: str) -> None:
    _certified(place, kind)
    whole = _whole(place)
    tried = 0
    for stop in WRITES:
        before = _charges(place)
        if not _killed(place, lambda stop=stop: stopping(stop, _kill)):
            shutil.rmtree(place.out)  # it has fewer lines of this kind
            (place.folder / "log").unlink()
            continue
        tried += 1
        lost = int(stop in {Stop("intent", 2), Stop("value", 1, "before"), Stop("value", 1, "middle")})
        finished = _finished(place)
        spent = len(_charges(place))
        begun = (place.out / NAME).exists()
        flags = ["--resume"] if begun else []
        with logging_draws(place.folder / "log"):
            done = place.generate(*flags)
        assert done.code == 0, (stop, done.err)
        assert len(_charges(place)) == max(spent, len(before) + 1)
        if begun:
            _check_resumed(place, before, finished, lost=lost, resumed=1)
        if not lost:
            assert _texts(place) == whole, stop
        shutil.rmtree(place.out)
        (place.folder / "log").unlink()
    assert tried >= 10


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_resumed_run_has_its_guarantee(place: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With real noise, so the trace shows no noise twice: a fork would replay that of the other tests."""
    _certified(place, kind)
    place.edit("[randomness]\nnoise = {seed = 3}\n", "")
    assert place.certify().code == 0
    monkeypatch.setattr(os, "urandom", posix.urandom)
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    assert _killed(place, lambda: stopping(Stop("intent", 0), _kill), "--resume") == signal.SIGKILL
    assert place.generate("--resume").code == 0
    receipt = json.loads((place.out / "receipt.json").read_text("utf-8"))
    assert (receipt["resumed"], receipt["lost_draws"]) == (2, 1)
    verified = place.command("verify", place.certificate, "--receipt", place.out / "receipt.json", "--ledger")
    assert verified.code == 0, verified.err
    assert place.command("check-trace", place.out / "trace.jsonl", "--certificate", place.certificate).code in {0, 5}


@pytest.mark.parametrize("moment", CALLS)
def test_a_run_killed_at_charge_or_commit_goes_on(place: Any, ledger_kind: str, moment: str) -> None:
    _certified(place, "prism")
    whole, before = _whole(place), _charges(place)
    assert _killed(place, lambda: in_a_call(*CALLS[moment], _kill)) == signal.SIGKILL
    finished = _finished(place)
    if moment == "half tidied up":
        assert not (place.out / NAME).exists()
    else:
        with logging_draws(place.folder / "log"):
            done = place.generate("--resume", "--json")
        assert done.code == 0, done.err
        assert done.json["texts"] == 4
    for left in (place.keyring.home / "runs").iterdir():  # a count without its run
        assert moment == "half tidied up"
        left.unlink()
    ended = moment in {"after the receipt", "before the commit", "after the commit", "half tidied up"}
    _check_resumed(place, before, finished, lost=0, resumed=int(not ended))
    assert _texts(place) == whole


def test_it_can_be_killed_again_and_again(place: Any, ledger_kind: str) -> None:
    _certified(place, "prism")
    whole, before = _whole(place), _charges(place)
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    for _ in range(4):
        assert _killed(place, lambda: stopping(Stop("value", 1), _kill), "--resume") == signal.SIGKILL
    assert [item.ended for item in _charges(place)][-1] is None  # its budget is spent all the while
    with logging_draws(place.folder / "log"):
        assert place.generate("--resume").code == 0
    _check_resumed(place, before, whole, lost=0, resumed=5)


@pytest.mark.parametrize("stop", [Stop("text", 1), Stop("intent", 3), Stop("value", 6)])
def test_a_run_that_is_closed_releases_what_it_had_finished(place: Any, ledger_kind: str, stop: Stop) -> None:
    _certified(place, "prism")
    before = _charges(place)
    assert _killed(place, lambda: stopping(stop, _kill)) == signal.SIGKILL
    finished, past = _finished(place), Past.read(place.out / NAME)
    closed = place.command("close", place.out, "--json")
    assert closed.code == 0, closed.err
    assert closed.json["texts"] == len(finished)
    receipt = json.loads((place.out / "receipt.json").read_text("utf-8"))
    assert (receipt["closed"], receipt["lost_draws"]) == (True, past.lost)
    assert receipt["draws_per_node"] == past.uses
    (mine,) = _charges(place)[len(before) :]
    assert mine.receipt_sha256 == hashlib.sha256((place.out / "receipt.json").read_bytes()).hexdigest()
    assert _texts(place) == finished
    traced = [json.loads(line) for line in (place.out / "trace.jsonl").read_text("utf-8").splitlines()]
    assert sum(line["event"] == "draw" for line in traced) == sum(past.uses.values())
    refused = place.generate("--resume")
    assert refused.code == 2
    assert "there is no unfinished run" in refused.err
    verified = place.command("verify", place.certificate, "--receipt", place.out / "receipt.json", "--ledger")
    assert "NO GUARANTEE" in verified.out


def test_closing_knows_what_another_process_did_before_it_had_the_folder(
    place: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    claimed, pasts = synthesis.claimed, []

    def late(out: Path, *, resume: bool = False) -> contextlib.AbstractContextManager[None]:
        monkeypatch.setattr(synthesis, "claimed", claimed)
        assert _killed(place, lambda: stopping(Stop("text", 1), _kill), "--resume") == signal.SIGKILL
        pasts.append(Past.read(place.out / NAME))
        return claimed(out, resume=resume)

    monkeypatch.setattr(synthesis, "claimed", late)
    assert place.command("close", place.out).code == 0
    receipt = json.loads((place.out / "receipt.json").read_text("utf-8"))
    assert (receipt["resumed"], receipt["draws_per_node"]) == (1, pasts[0].uses)
    assert _texts(place) == [one["sample"]["text"] for one in pasts[0].texts]


def test_a_receipt_that_nobody_signed_ends_no_run(place: Any) -> None:
    """It was read without its signature: what it named was noted in the ledger, and a damaged one was a crash."""
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    entry = Past.read(place.out / NAME).header["ledger_entry"]
    receipt = place.out / "receipt.json"
    for content in (json.dumps({"ledger_entry": entry}), "", "[]", '"\\ud800"', "{" * 100_000):
        receipt.write_text(content, "utf-8")
        for refused in (place.command("close", place.out), place.generate("--resume")):
            assert refused.code == 2, refused.err
            assert "is no receipt of this run" in refused.err
    assert _charges(place)[-1].ended is None
    receipt.unlink()
    assert place.generate("--resume").code == 0


def test_a_copy_from_before_is_refused(place: Any) -> None:
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    copy = place.folder / "copy"
    shutil.copytree(place.out, copy)
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill), "--resume") == signal.SIGKILL
    refused = place.command("generate", place.run_file, "--certificate", place.certificate, "-o", copy, "--resume")
    assert refused.code == 2
    assert "is a copy from before: 4 draws were made, it has 2" in refused.err
    assert place.generate("--resume").code == 0


def test_a_copy_elsewhere_is_refused(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    for run in (place.keyring.home / "runs").iterdir():
        run.unlink()
    refused = place.generate("--resume")
    assert refused.code == 2
    assert "was not begun with this AFFIDAVIT_HOME" in refused.err
    assert place.command("close", place.out).code == 0


def test_nobody_resumes_a_run_that_runs(place: Any) -> None:
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    journal = Journal.reopen(place.out / NAME, home=place.keyring.home, at="2026-01-01T00:00:00Z")
    try:
        for command in (("close", place.out),):
            refused = place.command(*command)
            assert refused.code == 2
            assert "is still running" in refused.err
    finally:
        journal.close()
    assert place.command("close", place.out).code == 0


@pytest.mark.parametrize("change", ["record", "setting", "certificate"])
def test_what_resumes_it_has_to_be_the_same(place: Any, change: str) -> None:
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    before = place.data.read_text("utf-8"), place.run_file.read_text("utf-8"), place.certificate.read_bytes()
    if change == "record":
        place.data.write_text(before[0].replace("wind number 3", "rain number 3"), encoding="utf-8")
    if change == "setting":
        place.edit("temperature = 1.0", "temperature = 1.5")
    if change == "certificate":
        place.certificate.unlink()
        assert place.certify().code == 0
    refused = place.generate("--resume")
    assert refused.code == 3
    assert Past.read(place.out / NAME).count("resumed") == 0
    place.data.write_text(before[0], encoding="utf-8")
    place.run_file.write_text(before[1], encoding="utf-8")
    place.certificate.write_bytes(before[2])
    assert place.generate("--resume").code == 0


def test_a_program_that_goes_another_way_is_stopped(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    plain = Recorder.use
    monkeypatch.setattr(Recorder, "use", lambda self, path: plain(self, path.replace("parts[0]", "parts[1]")))
    refused = place.generate("--resume")
    assert refused.code == 4
    assert "what resumes it does use at plan.parts[1].of" in refused.err
    monkeypatch.undo()


def test_an_unfinished_run_is_not_written_over(place: Any) -> None:
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("text", 0), _kill)) == signal.SIGKILL
    refused = place.generate()
    assert refused.code == 2
    assert "holds a run that is not finished" in refused.err
    assert len(_charges(place)) == 1


def test_a_run_that_was_committed_elsewhere_is_not_resumed(place: Any) -> None:
    """A copy was closed: its charge is committed, and nothing more may be drawn under it."""
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("value", 1), _kill)) == signal.SIGKILL
    (entry,) = [item.entry for item in _charges(place)]
    Ledger(keyring=place.keyring).commit(entry)
    refused = place.generate("--resume")
    assert refused.code == 4
    assert "its charge committed" in refused.err
    closed = place.command("close", place.out)
    assert closed.code == 2
    assert "no open reservation" in closed.err
    assert not (place.out / "receipt.json").exists()


def test_the_file_is_private_and_says_no_record(place: Any) -> None:
    _certified(place, "prism")
    assert _killed(place, lambda: stopping(Stop("text", 1), _kill)) == signal.SIGKILL
    kept = place.out / NAME
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "wind number" not in kept.read_text("utf-8").replace(json.dumps(_finished(place)), "")
    assert closing.close(place.out, keyring=replace(place).keyring).entry
