"""Damaged files of every kind: each is refused or read, in bounded time and memory, and never an internal error.

An input is named by its format and a number and is the same in every run: ``input_of(form, number)``.
"""

from __future__ import annotations

import random
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from support.fuzzing.formats import Format, formats

IN_ALL = 100_000
FEW = 6
PARTS = 20
MOST_SECONDS = 10.0  # of the processor: others may be using it too
HANGS_SECONDS = 120.0
MOST_BYTES = 10**9
INTERNAL = 70


@dataclass(frozen=True)
class Fault:
    """What an input must not do."""

    form: str
    number: int
    command: str
    what: str


def input_of(form: Format, number: int) -> bytes:
    """One damaged file."""
    chance = random.Random(f"{form.name}/{number}")
    content = chance.choice(form.mutations)(form.example, chance)
    for _ in range(chance.choice((0, 0, 0, 1))):
        content = chance.choice(form.mutations[-8:])(content, chance)
    return content


def _late(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError


def _clear(place: Any) -> None:
    """Files that commands made: none is written over, so the next would be refused for it."""
    for path in (place.folder / "fuzz").glob("made*"):
        path.unlink()


def _memory(name: str) -> int:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert found is not None
    return 1024 * int(found[1])


def faults_of(place: Any, form: Format, number: int) -> Iterator[Fault]:
    """Run the commands on one input; what they left is as it was before."""
    content = input_of(form, number)
    for command in form.commands:
        _clear(place)
        form.file.write_bytes(content)
        form.file.chmod(0o600)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in form.variables(content).items():
                patch.setenv(name, value)
            Path("/proc/self/clear_refs").write_text("5", "ascii")  # forgets the highest memory so far
            before, begun = _memory("VmRSS"), time.process_time()
            for clock, most in ((signal.ITIMER_PROF, MOST_SECONDS), (signal.ITIMER_REAL, HANGS_SECONDS)):
                signal.setitimer(clock, most)
            try:
                done = place.command(*command)
            finally:
                for clock in (signal.ITIMER_PROF, signal.ITIMER_REAL):
                    signal.setitimer(clock, 0)
            seconds, memory = time.process_time() - begun, _memory("VmHWM") - before
        named = " ".join(str(word) for word in command[:1])
        if done.code == INTERNAL:
            yield Fault(form.name, number, named, done.err.partition(". This")[0].strip())
        if seconds > MOST_SECONDS:
            yield Fault(form.name, number, named, f"took over {MOST_SECONDS:.0f} seconds")
        if memory > MOST_BYTES:
            yield Fault(form.name, number, named, "took over 1 GB")


@pytest.fixture
def place(empty_workplace: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    empty_workplace.keyring.init()
    empty_workplace.open_account(epsilon="1000", delta="1")
    certified = empty_workplace.certify()
    assert certified.code == 0, certified.err
    return empty_workplace


@pytest.fixture
def all_formats(place: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Format, ...]:
    found = formats(place)
    for name in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(name, _late)
    monkeypatch.chdir(place.folder / "fuzz")
    return found


def _run(place: Any, form: Format, numbers: range) -> list[Fault]:
    """The faults of these inputs; what stood in the file before is put back."""
    kept = form.file.read_bytes() if form.file.exists() else None
    faults = [fault for number in numbers for fault in faults_of(place, form, number)]
    form.file.unlink()
    if kept is not None:
        form.file.write_bytes(kept)
    return faults


def test_valid_examples_are_read(place: Any, all_formats: tuple[Format, ...]) -> None:
    for form in all_formats:
        form.file.write_bytes(form.example)
        form.file.chmod(0o600)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in form.variables(form.example).items():
                patch.setenv(name, value)
            for command in form.commands:
                _clear(place)
                done = place.command(*command)
                assert done.code in form.answers, (form.name, command, done.err)


def test_damaged_files_are_refused_or_read(place: Any, all_formats: tuple[Format, ...]) -> None:
    faults = [fault for form in all_formats for fault in _run(place, form, range(FEW))]
    assert not faults, "\n".join(map(str, faults))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_hundred_thousand_damaged_files_are_refused_or_read(
    place: Any, all_formats: tuple[Format, ...], part: int
) -> None:
    """One part of the inputs; together they are all."""
    shares = sum(form.share for form in all_formats)
    faults = []
    for form in all_formats:
        each = -(-IN_ALL * form.share // (shares * PARTS))
        faults += _run(place, form, range(FEW + part * each, FEW + (part + 1) * each))
    assert not faults, "\n".join(map(str, faults))
