"""Commands killed at random moments, and what must be true of ledger and files whenever that was.

Each command runs in a fork of this process, which says over a pipe what it was granted, at the moment when it was.
Then it, or the database's server, gets SIGKILL; afterwards the ledger has to verify, to hold all that was granted,
to hold nothing twice, and to have charged for whatever text there is.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD
from affidavit.cli import run
from support.postgresql import START_SECONDS, Server

Command = tuple[str, ...]
ACCOUNT = "letters"
KINDS = ("generate", "generate", "generate", "certify", "init", "charge", "show")


def crash(server: Server) -> Callable[[], subprocess.Popen[bytes]]:
    """SIGKILL to every process of a server at once, as a machine's end would be; returns what starts it again."""
    pid = int((server.folder / "data" / "postmaster.pid").read_text("utf-8").split()[0])
    words = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    owner = Path(f"/proc/{pid}").stat()
    os.kill(pid, signal.SIGSTOP)  # it starts no more children
    children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    for each in (*children, pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    for each in (*children, pid):
        while _alive(each):
            time.sleep(0.005)
    user: dict[str, Any] = (
        {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )

    # Whoever started the server has not asked yet how it ended: its number looks taken, and these files name it.
    for lock in (server.folder / "data" / "postmaster.pid", *server.folder.glob(".s.PGSQL.*.lock")):
        lock.unlink()

    def start() -> subprocess.Popen[bytes]:
        log = (server.folder / "log").open("ab")
        # As the first one, it ends when this process does, however that ends.
        ends = '"$@" </dev/null & cat >/dev/null; kill -QUIT $!; wait $!'
        facts: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": log, "stderr": log, "start_new_session": True}
        command = ["sh", "-c", ends, "sh", *words]
        process = subprocess.Popen(command, cwd=server.folder, env={"LC_ALL": "C", "PATH": os.defpath}, **facts, **user)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                server.run("SELECT 1")
            except psycopg.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return process

    return start


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@dataclass
class Kills:
    """A workplace whose commands are killed. ``faults`` names what must not have happened, and did."""

    folder: Path
    keyring: Keyring
    url: str
    run_file: Path
    server: Server | None = None
    seed: int = 0
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    _seconds: dict[str, float] = field(default_factory=dict)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def ledger(self) -> Ledger:
        return Ledger(keyring=self.keyring, url=self.url)

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.json"

    def prepare(self) -> None:
        """An account that pays for everything, a certificate, and how long each kind of command takes."""
        self.ledger.init_account(ACCOUNT, relation="zero-out", unit=RECORD, epsilon=10**6, delta=10**0)
        code, _ = self._whole(("certify", str(self.run_file), "-o", str(self.certificate)))
        if code:
            raise RuntimeError("the certificate was refused")
        for number, kind in enumerate(sorted(set(KINDS))):
            self._imported(kind, -100 - number)
            begun = time.monotonic()
            code, _ = self._whole(self._command(kind, -1 - number))
            self._seconds[kind] = time.monotonic() - begun
            if code:
                raise RuntimeError(f"{kind} ended with {code}")

    @property
    def killed(self) -> int:
        """How many commands and servers were killed; a command that had ended by then is none."""
        return self.counts["process"] + self.counts["server"]

    def kill(self, first: int, count: int) -> None:
        """Commands, numbered from ``first`` on, each killed at a moment of its own, until ``count`` were."""
        for number in itertools.count(first):
            if self.killed == count:
                return
            chance = random.Random(f"{self.seed}/{number}")
            kind = chance.choice(KINDS)
            at_server = self.server is not None and chance.random() < 1 / 3
            known, accounts = self._entries(), len(self.ledger.accounts())
            pid, pipe = self._fork(self._command(kind, number))
            if chance.random() < 0.5:  # at any time of its life; or soon after it was granted something
                time.sleep(chance.uniform(0, 1.1 * self._seconds[kind]))
            else:
                select.select([pipe], [], [], START_SECONDS)
                time.sleep(chance.uniform(0, 0.2 * self._seconds[kind]))
            start = crash(self.server) if at_server and self.server is not None else None
            if start is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            granted, status = self._end(pid, pipe)
            if start is not None:
                self._processes.append(start())
            met = "server" if start is not None else "process" if os.WIFSIGNALED(status) else "ended before"
            self.counts[met] += 1
            if start is None:  # a machine that others use more, or less, than before: some end, more are killed
                self._seconds[kind] *= 1.1 if met == "process" else 0.8
            found = self._faults(kind, number, granted, known, accounts)
            self.faults += [f"{number}, {kind}: {fault}" for fault in found]

    def stop(self) -> None:
        """The servers that were started again."""
        for process in self._processes:
            if process.stdin is not None:
                process.stdin.close()
            process.wait(timeout=START_SECONDS)

    def _imported(self, kind: str, number: int) -> None:
        """Run it once in this process, so that a fork's time goes into the work and not into imports."""
        if kind == "charge":
            return
        with pytest.MonkeyPatch.context() as patch, open(os.devnull, "w", encoding="utf-8") as nowhere:
            patch.setenv("AFFIDAVIT_LEDGER", self.url)
            patch.setattr(sys, "stdout", nowhere)
            patch.setattr(sys, "stderr", nowhere)
            run(self._command(kind, number))

    def _command(self, kind: str, number: int) -> Command:
        run_file, out = str(self.run_file), str(self.folder / f"out{number}")
        return {
            "generate": ("generate", run_file, "--certificate", str(self.certificate), "-o", out),
            "certify": ("certify", run_file, "-o", f"{out}.json"),
            "init": ("ledger", "init", "--dataset", f"data {number}", "--relation", "zero-out", "--unit", "record",
                     "--epsilon", "1", "--delta", "0"),
            "charge": ("charge",),
            "show": ("ledger", "show"),
        }[kind]  # fmt: skip

    def _whole(self, command: Command) -> tuple[int, list[dict[str, Any]]]:
        pid, pipe = self._fork(command)
        granted, status = self._end(pid, pipe)
        return os.waitstatus_to_exitcode(status), granted

    def _fork(self, command: Command) -> tuple[int, int]:
        reader, writer = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writer)
            return pid, reader
        gc.freeze()  # what it shares with the tests is not copied for being looked at
        code = 99
        try:
            for stream in (1, 2):
                os.dup2(os.open(self.folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), stream)
            os.environ["AFFIDAVIT_LEDGER"] = self.url
            _tell(writer)
            if command == ("charge",):
                entry = self.ledger.reserve(
                    ACCOUNT, relation="zero-out", unit=RECORD, epsilon=1, delta=0, certificate_sha256="a" * 64
                )
                self.ledger.commit(entry)
                code = 0
            else:
                code = run(command)
        finally:
            os._exit(code)

    def _end(self, pid: int, pipe: int) -> tuple[list[dict[str, Any]], int]:
        """What the process said that it was granted, and how it ended."""
        with os.fdopen(pipe, "rb") as stream:
            said = stream.read()
        _, status = os.waitpid(pid, 0)
        return [json.loads(line) for line in said.split(b"\n")[:-1]], status

    def _entries(self) -> dict[str, bool]:
        """All reservations, and whether each was committed."""
        return {item.entry: item.ended is not None for item in self.ledger.account(ACCOUNT).reservations}

    def _faults(
        self, kind: str, number: int, granted: list[dict[str, Any]], known: dict[str, bool], before: int
    ) -> Iterator[str]:
        self.ledger.verify()
        found, accounts = self._entries(), {account.dataset for account in self.ledger.accounts()}
        new = set(found) - set(known)
        self.counts["charged"] += len(new)
        if not set(known) <= set(found):
            yield "lost: an older reservation"
        if len(new) > 1:
            yield f"double: {len(new)} reservations for one run"
        for one in granted:
            match one["what"]:
                case "reserve" if one["id"] not in found:
                    yield "lost: a reservation that was granted"
                case "commit" if not found.get(one["id"]):
                    yield "lost: an end that was noted"
                case "init_account" if one["id"] not in accounts:
                    yield "lost: an account that was opened"
        if len(accounts) - before not in ((0, 1) if kind == "init" else (0,)):
            yield "double: accounts"
        out = self.folder / f"out{number}"
        files = [path.name for path in out.iterdir()] if out.is_dir() else []
        if any("synthetic" in name or "receipt" in name for name in files):
            self.counts["text"] += 1
            if len(new) != 1:
                yield "text without a charge"
        if "receipt.json" in files:
            receipt = json.loads((out / "receipt.json").read_bytes())
            if receipt["ledger_entry"] not in new or "synthetic.jsonl" not in files:
                yield "a receipt without its charge or text"
        made = out.with_name(f"{out.name}.json")
        if made.exists() and self._whole(("verify", str(made)))[0] != 0:
            yield "half a certificate"


def _tell(pipe: int) -> None:
    """Say what the ledger grants from here on, as soon as it does. In a fork only."""
    for name in ("reserve", "commit", "init_account"):
        plain = getattr(Ledger, name)

        def telling(self: Ledger, first: str, *, _plain: Any = plain, _name: str = name, **facts: Any) -> Any:
            answer = _plain(self, first, **facts)
            said = answer if _name == "reserve" else first
            os.write(pipe, json.dumps({"what": _name, "id": said}).encode() + b"\n")
            return answer

        setattr(Ledger, name, telling)
