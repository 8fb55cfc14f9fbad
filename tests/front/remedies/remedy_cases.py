"""A refusal and its remedy, carried out as printed: the place, the case, and the check."""

from __future__ import annotations

import importlib
import json
import os
import re
import shlex
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from remedy_sites import ROOT, Recorder
from remedy_typed import Step, alternatives, changed, dumped, with_flag, without_flag

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import AffidavitError
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD
from affidavit.cli import run

if TYPE_CHECKING:
    from support.postgresql import Server

RUN: dict[str, Any] = {
    "relation": "zero-out",
    "unit": "record",
    "budget": {"epsilon": 4.0, "delta": 1e-3},
    "data": {"name": "letters", "path": "train.jsonl", "size": 24},
    "model": {"name": "toy"},
    "generator": {
        "kind": "prism",
        "labels": ["north", "south"],
        "max_tokens": 4,
        "max_record_tokens": 12,
        "batch_size": 10,
        "clip": 4.0,
        "temperature": 1.0,
        "minibatch_rows": 8,
    },
}
PLAN = {"relation": "add-remove", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 1.0}}


_UNFILLED = re.compile(
    r"\b(RUN\.toml|CERT\.json|PLAN\.json|AUDIT\.toml|GRID\.toml|TRACE\.jsonl|REQUEST\.json|DIR|OTHER|NEW_\w+)\b"
)


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str


def _none() -> Server:
    raise AssertionError("this case was given no server")


@dataclass(frozen=True)
class Place:
    """A folder in which commands run, with keys and a ledger of its own."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    service: Callable[[], Any] = lambda: None
    """Starts the local server of the toy model."""
    postgresql: Callable[[], Server] = _none
    """Starts a PostgreSQL server that is nobody else's."""

    @classmethod
    def make(
        cls,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        service: Callable[[], Any] = lambda: None,
        postgresql: Callable[[], Server] = _none,
    ) -> Place:
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("AFFIDAVIT_HOME", str(folder / "home"))
        monkeypatch.delenv("AFFIDAVIT_LEDGER", raising=False)
        monkeypatch.setenv("HOME", str(folder / "user"))
        (folder / "user").mkdir()
        place = cls(folder, monkeypatch, capsys, service, postgresql)
        place.write("run.toml", dumped(RUN))
        place.write("plan.json", json.dumps(PLAN))
        place.records("train.jsonl", 24)
        return place

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def records(self, name: str, count: int) -> None:
        lines = [
            {"id": f"r{n:02d}", "text": f"the {label} wind number {n}", "label": label}
            for n, label in ((n, "north" if n % 2 else "south") for n in range(count))
        ]
        self.write(name, "".join(json.dumps(line) + "\n" for line in lines))

    def read(self, name: str) -> dict[str, Any]:
        text = (self.folder / name).read_text(encoding="utf-8")
        try:
            return dict(tomllib.loads(text) if name.endswith(".toml") else json.loads(text))
        except tomllib.TOMLDecodeError:
            return {}

    def save(self, name: str, content: dict[str, Any]) -> None:
        self.write(name, dumped(content) if name.endswith(".toml") else json.dumps(content))

    def set(self, name: str, path: str, value: Any) -> None:
        """One setting of a file."""
        self.save(name, changed(self.read(name), path, lambda table, key: table.__setitem__(key, value)))

    def remove(self, name: str, path: str) -> None:
        self.save(name, changed(self.read(name), path, lambda table, key: table.pop(key, None)))

    def rename(self, name: str, path: str, new: str) -> None:
        self.save(name, changed(self.read(name), path, lambda table, key: table.__setitem__(new, table.pop(key))))

    @property
    def keyring(self) -> Keyring:
        return Keyring(Path(os.environ["AFFIDAVIT_HOME"]))

    def keys(self) -> None:
        self.keyring.init()

    def account(self, name: str = "letters", *, epsilon: str = "40", delta: str = "0.01") -> None:
        Ledger(keyring=self.keyring).init_account(name, relation="zero-out", unit=RECORD, epsilon=epsilon, delta=delta)

    def certified(self) -> None:
        """Keys, an account that pays for several runs, and a certificate."""
        self.keys()
        self.account()
        self.must("certify", "run.toml", "-o", "certificate.json")

    def generated(self) -> None:
        self.certified()
        self.must("generate", "run.toml", "--certificate", "certificate.json", "-o", "out")

    def call(self, *arguments: str) -> Outcome:
        self.capsys.readouterr()
        code = run(list(arguments))
        captured = self.capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    def must(self, *arguments: str) -> None:
        done = self.call(*arguments)
        assert done.code == 0, done.err


HIDDEN: set[str] = set()
"""Modules and packages that look as if they were not installed, until a command has installed them."""

INSTALLING: dict[str, str] = {}
"""What a command that installs something is told by variables: where from, and where to."""


AGAIN = {
    "front/experiments/naming.py:renamed",
    "front/datasets/making.py:make",
    "front/cli/starting.py:init#3",
    "front/cli/_declaring.py:declare#2",
}
"""Where a fault is said again: with the grid's keys, or with the command that gets past it."""

DECODING = "accountant/attestation/statement.py:decode"
"""Where the fault of a signed statement is said again, as the certificate's."""


def nothing(_: Place) -> None:
    """Nothing to prepare."""


@dataclass(frozen=True)
class Case:
    """A command that is refused at ``at``, and what becomes of it once the remedy is done.

    ``file``: which file the remedy's settings are of. ``then``: the call's exit codes afterwards; empty, if the
    remedy is not a way to make the same call. ``by_hand``: does what a remedy in words asks for.
    ``past``: the call may be refused again, but for something else. ``commands``: what the printed commands may exit
    with; 4 where an account that cannot pay is the honest answer.
    """

    at: str
    call: str
    arrange: Callable[[Place], object] = nothing
    file: str = "run.toml"
    code: int = 2
    then: tuple[int, ...] = (0,)
    by_hand: Callable[[Place], object] | None = None
    past: bool = False
    commands: tuple[int, ...] = (0,)

    def __str__(self) -> str:
        return f"{self.at}|{self.call}"


def check(case: Case, new_place: Callable[[], Place], recorder: Recorder) -> int:
    """Refuse, do what the hint says, and see that it works: for each thing it offers. Returns how many."""
    done, number, total = 0, 0, 1
    while number < total:
        place = new_place()
        case.arrange(place)
        recorder.seen.clear()
        refused = place.call(*shlex.split(case.call))
        assert refused.code == case.code, (refused.code, refused.out, refused.err, recorder.seen)
        made = recorder.seen[-2:-1] if AGAIN.issuperset(recorder.seen[-1:]) else recorder.seen[-1:]
        assert case.at in (*made, *recorder.seen[-1:]), (recorder.seen, refused.err)
        assert "Traceback" not in refused.err
        message, _, hint = refused.err[refused.err.index("Error: ") :].partition("\n")
        assert hint.strip(), message
        assert not _UNFILLED.search(hint), hint
        offered = alternatives(hint)
        if case.by_hand is not None:
            case.by_hand(place)
            _again(case, place, shlex.split(case.call), refused)
            done += 1
        else:
            assert offered, f"nothing to type in: {hint}"
        total = max(1, len(offered))
        if offered and not (case.by_hand is not None and number == 0):
            call = shlex.split(case.call)
            for step in offered[number]:
                call = _carried_out(step, case, place, call, message)
            if not all(step.informs for step in offered[number]):
                _again(case, place, call, refused)
            done += 1
        number += 1
    return done


def _again(case: Case, place: Place, call: list[str], refused: Outcome) -> None:
    if not case.then:
        return
    outcome = place.call(*call)
    if case.past:
        assert _error(outcome) != _error(refused), outcome.err
    else:
        assert outcome.code in case.then, (call, outcome.code, outcome.err, refused.err)


def _error(outcome: Outcome) -> str:
    return next((line for line in outcome.err.splitlines() if line.startswith("Error: ")), "")


def _carried_out(step: Step, case: Case, place: Place, call: list[str], message: str) -> list[str]:
    """Do one step; returns the call as it now is."""
    key = message.removeprefix("Error: ").partition(": ")[0]
    match step.kind:
        case "command" if shlex.split(step.text)[:2] == ["affidavit", call[0]] and call[0] not in {"keys", "ledger"}:
            return shlex.split(step.text)[1:]  # the same call, put right
        case "command":
            _command(step.text, place, case.commands)
        case "sql":
            place.postgresql().set(step.text)
        case "flag":
            return with_flag(call, step.text)
        case "remove" if step.text.startswith("-"):
            return without_flag(call, step.text)
        case "remove":
            place.remove(case.file, step.text)
        case "setting":
            place.set(case.file, *step.setting)
        case "file" if case.file.endswith(".jsonl"):
            number = re.search(r"line (\d+)", message)
            lines = (place.folder / case.file).read_text(encoding="utf-8").splitlines()
            lines[slice(None) if number is None else slice(int(number[1]) - 1, int(number[1]))] = [step.text]
            place.write(case.file, "".join(line + "\n" for line in lines))
        case "file":
            place.write(case.file, step.text)
        case "word" if (place.folder / step.text).is_file():
            return [step.text if argument == key else argument for argument in call]
        case "word" if key.rpartition(".")[2] in json.dumps(place.read(case.file)):
            place.rename(case.file, key, step.text)
        case _:
            raise AssertionError(f"not something to type: {step.text}")
    return call


def _command(text: str, place: Place, codes: tuple[int, ...]) -> None:
    name, *arguments = shlex.split(text)
    match name:
        case "affidavit":
            done = place.call(*arguments)
            expected = (0, 1, 5) if arguments[0] == "audit" else codes
            assert done.code in expected, (text, done.code, done.err)
        case "export":
            variable, _, value = arguments[0].partition("=")
            place.monkeypatch.setenv(variable, value)
        case "unset":
            place.monkeypatch.delenv(arguments[0])
        case _:
            typed(text, place.folder)


def typed(text: str, folder: Path) -> None:
    """Run another program's command, offline: pip finds what it is to install, and what was hidden shows again."""
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **INSTALLING}
    done = subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, env=offline, check=False)
    assert done.returncode == 0, (text, done.stderr)
    HIDDEN.clear()
    importlib.invalidate_caches()


@dataclass(frozen=True)
class Api:
    """A call of Python's that is refused at ``at``; the remedy's settings are its keywords.

    ``hidden``: what is not installed, until the remedy's command was run.
    """

    at: str
    call: Callable[..., object]
    given: dict[str, Any] = field(default_factory=dict)
    by_hand: dict[str, Any] | None = None
    hidden: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.at


def check_api(case: Api, recorder: Recorder) -> int:
    """Refuse, change the keywords as the hint says, and see that it works."""
    recorder.seen.clear()
    HIDDEN.update(case.hidden)
    with pytest.raises(AffidavitError) as caught:
        case.call(**case.given)
    said_again = recorder.seen[-1:] == [DECODING] != [case.at]
    assert recorder.seen[-2 if said_again else -1 :][:1] == [case.at], recorder.seen
    assert caught.value.hint
    if case.by_hand is not None:
        case.call(**case.given | case.by_hand)
        return 1
    offered = alternatives(caught.value.hint)
    assert offered, caught.value.hint
    for steps in offered:
        given = dict(case.given)
        for step in steps:
            assert step.kind in ("setting", "remove", "command"), step
            if step.kind == "remove":
                given.pop(step.text)
            elif step.kind == "command":
                typed(step.text, ROOT)
            else:
                key, value = step.setting
                given[key.rpartition(".")[2]] = value
        case.call(**given)
    return len(offered)
