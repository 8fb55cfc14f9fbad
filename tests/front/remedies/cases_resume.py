"""Runs that stopped: to be resumed, closed, or left alone."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from cases_machine import _certified, _ledger
from remedy_cases import Api, Case, Place

from affidavit.accountant.ledger import Ledger
from affidavit.accountant.release.journal import NAME, Journal
from affidavit.accountant.release.permit import open_permit
from affidavit.certification import prepare
from affidavit.generation.recorder import Recorder

GENERATE = "generate run.toml --certificate certificate.json -o out"
RESUME = f"{GENERATE} --resume"

_OPEN: list[Journal] = []


def _interrupt() -> None:
    raise KeyboardInterrupt


def _stopped(place: Place, *, call: str = GENERATE) -> None:
    """A run that was interrupted in ``out``, after its second draw."""
    from support.stopping import Stop, stopping  # of the tests; the page of refusals is made without them

    if call == GENERATE:
        place.certified()
    with stopping(Stop("value", 1), _interrupt):
        assert place.call(*call.split()).code == 130


def _uncharged(place: Place) -> None:
    place.certified()
    with place.monkeypatch.context() as patch:
        patch.setattr(Ledger, "reserve", lambda *_, **__: _interrupt())
        assert place.call(*GENERATE.split()).code == 130


def _another_receipt(place: Place) -> None:
    _stopped(place)
    place.write("out/receipt.json", json.dumps({"ledger_entry": "0" * 32}))


def _running(place: Place) -> None:
    _stopped(place)
    _OPEN.append(Journal.reopen(place.folder / "out" / NAME, home=place.keyring.home, at="2026-01-01T00:00:00Z"))


def _copied(place: Place) -> None:
    """The folder as it was, put back after the run had gone on."""
    _stopped(place)
    shutil.copytree(place.folder / "out", place.folder / "older")
    _stopped(place, call=RESUME)
    (place.folder / "out").rename(place.folder / "newest")
    (place.folder / "older").rename(place.folder / "out")


def _newest(place: Place) -> None:
    shutil.rmtree(place.folder / "out")
    (place.folder / "newest").rename(place.folder / "out")


def _damaged(place: Place) -> None:
    _stopped(place)
    place.write(f"out/{NAME}", "another file\n")


def _moved(place: Place) -> None:
    """Its count stayed where it ran."""
    _stopped(place)
    for count in (place.keyring.home / "runs").iterdir():
        count.rename(place.folder / count.name)


def _moved_back(place: Place) -> None:
    for count in place.folder.glob("[0-9a-f]" * 32):
        count.rename(place.keyring.home / "runs" / count.name)


def _recertified(place: Place) -> None:
    _stopped(place)
    (place.folder / "certificate.json").rename(place.folder / "first.json")
    place.must("certify", "run.toml", "-o", "certificate.json")


def _first(place: Place) -> None:
    (place.folder / "first.json").rename(place.folder / "certificate.json")


def _other_program(place: Place) -> None:
    _stopped(place)
    use = Recorder.use
    place.monkeypatch.setattr(Recorder, "use", lambda self, path: use(self, path.replace("parts[0]", "parts[1]")))


def _committed(place: Place) -> None:
    _stopped(place)
    (item,) = Ledger(keyring=place.keyring).account("letters").reservations
    Ledger(keyring=place.keyring).commit(item.entry)


def _full(place: Place) -> None:
    """The disk is full at the third draw."""
    place.certified()
    write, seen = os.write, []

    def writing(descriptor: int, content: bytes) -> int:
        seen.append(content.startswith(b'{"event":"intent"'))
        if sum(seen) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, content)

    place.monkeypatch.setattr(os, "write", writing)


def _undone(place: Place) -> None:
    place.monkeypatch.undo()
    place.monkeypatch.chdir(place.folder)
    place.monkeypatch.setenv("AFFIDAVIT_HOME", str(place.folder / "home"))


def _case(at: str, call: str, arrange: Callable[[Place], object], **more: object) -> Case:
    return Case(at, call, arrange, **more)  # type: ignore[arg-type]


CASES = [
    _case("front/closing.py:_closed", "close out", _uncharged, then=()),
    _case("front/closing.py:ended_already", RESUME, _another_receipt),
    _case("accountant/release/journal.py:_locked", "close out", _running, by_hand=lambda _: _OPEN.pop().close()),
    _case("accountant/release/journal.py:read", RESUME, Place.certified),
    _case("accountant/release/journal.py:read#2", RESUME, _damaged, past=True),
    _case("accountant/release/journal.py:unfinished", GENERATE, _stopped, past=True),
    _case("accountant/release/journal.py:reopen", RESUME, _moved, by_hand=_moved_back, past=True),
    _case("accountant/release/journal.py:reopen#2", RESUME, _copied, by_hand=_newest, past=True),
    _case("accountant/release/strand.py:recall", RESUME, _other_program, code=4, by_hand=_undone, past=True),
    _case("accountant/release/journal.py:write", GENERATE, _full, by_hand=_undone, past=True),
    _case("accountant/release/permit.py:check_same", RESUME, _recertified, code=3, by_hand=_first, past=True),
    _case("accountant/release/permit.py:_reserved", RESUME, _committed, code=4),
]


def _noise(*, in_a_draw: bool) -> None:
    """Noise that is asked for inside a draw that is written down, or beside it."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        run, keyring, certificate = _certified(place)
        subject, _ = prepare(run, keyring=keyring)
        header = {"ledger_entry": "0" * 32, "certificate_sha256": "0" * 64}
        journal = Journal.begin(place / NAME, home=keyring.home, header=header)
        journal.header = {**header, "certificate_sha256": _digest(certificate)}
        ledger = _ledger(place, keyring)
        with open_permit(certificate, subject, "letters", ledger, trusted=keyring.trusted(), journal=journal) as permit:
            if in_a_draw:
                with journal.whole.open():
                    permit.noise.random()
            else:
                permit.noise.random()


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


API = [Api("accountant/release/permit.py:_check_draw", _noise, {"in_a_draw": False}, by_hand={"in_a_draw": True})]
