"""Many runs at once on one account that pays for some of them, killed at random, gone on with, closed.

Each run is a ``generate`` in a fork, with its own folder; now and then two forks have the same folder. They are
killed after any amount of processor time, when another one has ended, or at a chosen line of the journal or call of
the ledger: how busy the machine is decides none of it. Whenever that is:

    the ledger verifies, and no more is charged than the budget
    each charge belongs to one folder, whose journal or receipt names it: somebody can go on with it or close it
    nothing is drawn or written in a folder that is not charged
    no draw is made twice
    a run goes on or is closed as its message says, or is refused for the budget
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import posix
import random
import signal
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.release.journal import NAME
from affidavit.accountant.unit import RECORD
from affidavit.cli import run
from support.stopping import Stop, drawn, in_a_call, logging_draws, stopping

ACCOUNT = "letters"
USAGE, BUDGET = 2, 4
EVENTS = ("run", "choice", "use", "intent", "value", "text", "resumed")
CALLS: tuple[tuple[Any, str], ...] = ((Ledger, "reserve"), (Ledger, "commit"), (Path, "replace"))
EXPECTED = ("another run is writing to", "exists already", "unfinished", "is not finished", "removed")


def kill() -> None:
    """The end of this process."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Crowd:
    """``folders`` of which an account pays for ``paid``. ``faults`` names what must not have happened, and did."""

    place: Any
    url: str
    folders: int
    paid: int
    seed: int = 0
    faults: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    ends: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    _refused: set[int] = field(default_factory=set)

    @property
    def keyring(self) -> Keyring:
        keyring: Keyring = self.place.keyring
        return keyring

    @property
    def ledger(self) -> Ledger:
        return Ledger(keyring=self.keyring, url=self.url)

    def out(self, number: int) -> Path:
        folder: Path = self.place.folder
        return folder / f"out{number}"

    def log(self, number: int) -> Path:
        return self.out(number).with_suffix(".log")

    def prepare(self) -> None:
        """A certificate, an account that pays for ``paid`` such runs and not for one more, and how long one takes."""
        budget = {"relation": "zero-out", "unit": RECORD, "delta": "1"}
        certified = self.place.certify()
        if certified.code:
            raise RuntimeError(certified.err)
        claim = json.loads(self.place.command("verify", self.place.certificate, "--json").out)["claims"][0]
        self.each = Decimal(str(claim["epsilon"]))
        self.budget = self.each * self.paid + self.each / 2
        self.ledger.init_account(ACCOUNT, epsilon=self.budget, **budget)
        pid = self._fork(("plan", str(self.place.run_file)), 0, None)
        _, status, used = os.wait4(pid, 0)
        self._ended(pid, 0, status)
        self.seconds = 2.0 * (used.ru_utime + used.ru_stime)

    def round(self, number: int) -> None:
        """All folders at once, each killed or not."""
        chance = random.Random(f"{self.seed}/{number}")
        running: dict[int, int] = {}
        for each in range(self.folders):
            for _ in range(1 if chance.random() < 0.9 else 2):
                stop = self._stop(chance) if chance.random() < 0.6 else None
                used = chance.uniform(0.0, self.seconds) if chance.random() < 0.5 else 0.0
                running[self._fork(self._command(each, chance), each, stop, used)] = each
        while running:
            self._wait_for_one(running)
            if running and chance.random() < 0.2:
                os.kill(chance.choice(sorted(running)), signal.SIGKILL)
        self.check(f"round {number}")

    def finish(self) -> None:
        """Nobody is killed any more: every folder comes to its end, and the account pays for as many as it can."""
        chance = random.Random(f"{self.seed}/end")
        for _ in range(3):
            for each in range(self.folders):
                if not (self.out(each) / "receipt.json").exists() or (self.out(each) / NAME).exists():
                    pid = self._fork(self._command(each, chance), each, None)
                    self._ended(pid, each, os.waitpid(pid, 0)[1])
            self.check("the end")
        for each in range(self.folders):
            receipt = self.out(each) / "receipt.json"
            # A run that was killed before it was charged, and then refused, waits for room: its journal may stay.
            if each not in self._refused and ((self.out(each) / NAME).exists() or not receipt.exists()):
                there = sorted(path.name for path in self.out(each).glob("*"))
                self.faults.append(f"folder {each} comes to no end: {there}, {self.ends[each]}")
            elif receipt.exists():
                words = ("verify", self.place.certificate, "--receipt", receipt, "--ledger", "--text")
                if self.place.command(*words, receipt.with_name("synthetic.jsonl")).code:
                    self.faults.append(f"folder {each} does not verify")
        found = self.ledger.account(ACCOUNT).reservations
        if len(found) != min(self.paid, self.folders) or not all(item.ended for item in found):
            self.faults.append(f"{len(found)} runs were charged, {sum(item.ended is not None for item in found)} ended")

    def check(self, when: str) -> None:
        """What must hold whenever it is looked at."""
        self.ledger.verify()
        items = self.ledger.account(ACCOUNT).reservations
        charged = [item.entry for item in items]
        if sum((item.epsilon for item in items), Decimal(0)) > self.budget:
            self.faults.append(f"{when}: more is charged than the budget")
        named: Counter[str] = Counter()
        for each in range(self.folders):
            entry, draws = self._entry(each), drawn(self.log(each))
            named[entry] += 1
            if any(count > 1 for count in draws.values()):
                self.faults.append(f"{when}: folder {each} drew twice")
            written = any((self.out(each) / name).exists() for name in ("synthetic.jsonl", "receipt.json"))
            if (draws or written) and entry not in charged:
                self.faults.append(f"{when}: folder {each} was not charged")
        for entry in charged:
            if named[entry] != 1:
                self.faults.append(f"{when}: a charge that {named[entry]} folders name")

    def _entry(self, number: int) -> str:
        """The ledger entry of the run in this folder, by its receipt or its journal."""
        receipt, journal = self.out(number) / "receipt.json", self.out(number) / NAME
        if receipt.exists():
            return str(json.loads(receipt.read_bytes())["ledger_entry"])
        head = journal.read_bytes().partition(b"\n") if journal.exists() else (b"", b"", b"")
        return str(json.loads(head[0])["ledger_entry"]) if head[1] else ""

    def _command(self, number: int, chance: random.Random) -> tuple[str, ...]:
        out = str(self.out(number))
        words = ("generate", str(self.place.run_file), "--certificate", str(self.place.certificate), "-o", out)
        if not (self.out(number) / NAME).exists():
            return words
        return ("close", out) if chance.random() < 0.2 else (*words, "--resume")

    def _stop(self, chance: random.Random) -> Any:
        if chance.random() < 0.7:
            when = chance.choice(("before", "middle", "after"))
            return stopping(Stop(chance.choice(EVENTS), chance.randrange(4), when), kill)
        return in_a_call(*chance.choice(CALLS), chance.choice(("before", "after")), chance.randrange(3), kill)

    def _fork(self, words: tuple[str, ...], number: int, stop: Any, seconds: float = 0.0) -> int:
        """``seconds`` of the processor are all that it gets, if any; then the kernel ends it, as SIGKILL would."""
        pid = os.fork()
        if pid:
            return pid
        gc.freeze()  # what it shares with the tests is not copied for being looked at
        code = 99
        try:
            signal.setitimer(signal.ITIMER_PROF, seconds)
            os.urandom = posix.urandom  # the tests' own is the same in every fork
            os.environ["AFFIDAVIT_LEDGER"] = self.url
            said: Path = self.place.folder / f"said{os.getpid()}"
            sys.stdout = sys.stderr = said.open("a", encoding="utf-8", buffering=1)
            with stop or contextlib.nullcontext(), logging_draws(self.log(number)):
                code = run(words)
        finally:
            os._exit(code)

    def _wait_for_one(self, running: dict[int, int]) -> None:
        """Until one has ended; it is none of the running then."""
        pid, status = os.wait()
        if pid in running:  # the tests have other children
            self._ended(pid, running.pop(pid), status)

    def _ended(self, pid: int, number: int, status: int) -> None:
        file: Path = self.place.folder / f"said{pid}"
        said = file.read_text("utf-8") if file.exists() else ""
        file.unlink(missing_ok=True)
        code = os.waitstatus_to_exitcode(status)
        end = "killed" if code < 0 else f"exit {code}"
        self.counts[end] += 1
        self.ends[number].append(end)
        if code == BUDGET:
            self._refused.add(number)
        elif code == USAGE and not any(words in said for words in EXPECTED):
            self.faults.append(f"folder {number}: {said[-300:]}")
        elif code > 0 and code != USAGE:
            self.faults.append(f"folder {number} ended with {code}: {said[-600:]}")
