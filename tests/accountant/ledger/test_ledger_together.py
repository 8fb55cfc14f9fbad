"""Several threads and processes on one ledger, on both databases: none overdraws."""

from __future__ import annotations

import errno
import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError, BudgetExceeded
from affidavit.accountant.ledger import Ledger, book
from affidavit.accountant.ledger.anchors import Anchors
from affidavit.accountant.ledger.database import Database
from affidavit.accountant.unit import RECORD
from support.ledgers import fill, init, reserve
from support.writers import answers


def test_threads_cannot_overdraw(ledger: Ledger) -> None:
    init(ledger, 1, 1)
    barrier = threading.Barrier(8)

    def attempt(_: int) -> bool:
        barrier.wait()
        try:
            reserve(ledger, "0.2", 0)
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(attempt, range(8)))
    assert sum(granted) == 5
    assert ledger.account("mail").remaining[0] == 0
    assert ledger.verify() == 2 + 5


def test_readers_never_mistake_a_running_writer_for_an_attack(ledger: Ledger) -> None:
    init(ledger, 10, 1)
    done = threading.Event()
    counts: list[int] = []

    def read() -> None:
        counts.append(ledger.verify())
        while not done.is_set():
            counts.append(ledger.verify())

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for _ in range(25):
            reserve(ledger, "0.1", 0)
        done.set()
        for reader in readers:
            reader.result()
    assert ledger.verify() == 2 + 25
    assert max(counts) <= 2 + 25


def _attempts(home: Path, url: str, count: int, results: Any) -> None:
    ledger = Ledger(keyring=Keyring(home), url=url)
    granted = 0
    for _ in range(count):
        try:
            reserve(ledger, "0.1", 0)
            granted += 1
        except BudgetExceeded:
            pass
    results.put(granted)


def test_processes_cannot_overdraw(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger, 1, 1)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_attempts, args=(keyring.home, ledger.url, 4, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    granted = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(granted) == 10
    assert ledger.account("mail").remaining[0] == 0
    assert ledger.verify() == 2 + 10


def _open_account(home: Path, url: str, name: str, results: Any) -> None:
    ledger = Ledger(keyring=Keyring(home), url=url)
    ledger.init_account(name, relation="zero-out", unit=RECORD, epsilon=1, delta=0)
    results.put(name)


def test_processes_can_open_the_ledger_together(ledger: Ledger, keyring: Keyring) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [
        context.Process(target=_open_account, args=(keyring.home, ledger.url, f"set {i}", results)) for i in range(4)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert {account.dataset for account in ledger.accounts()} == {f"set {i}" for i in range(4)}
    assert ledger.verify() == 5


@pytest.mark.parametrize("place", ["before the file is there", "before its first entry is there"])
def test_a_ledger_that_another_makes_meanwhile_is_not_taken_for_one_that_is_gone(
    ledger: Ledger, keyring: Keyring, clock: Any, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one writes, and notes it in the anchor, after this one looked and before it acts on what it saw."""
    made: list[str] = []

    def another(seen: Any) -> Any:
        if not seen and not made:
            made.append("set 0")
            Ledger(keyring=keyring, url=ledger.url, clock=clock).init_account("set 0", **facts)
        return seen

    facts: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, "epsilon": 1, "delta": 0}
    exists, read = Database.exists, book.read_rows
    if place == "before the file is there":
        monkeypatch.setattr(Database, "exists", lambda self: another(exists(self)))
    else:
        monkeypatch.setattr(book, "read_rows", lambda *args, **kwargs: another(read(*args, **kwargs)))
    ledger.init_account("set 1", **facts)
    assert made
    assert [account.dataset for account in ledger.accounts()] == ["set 0", "set 1"]


WRITERS = 64


def _all_answered(ledger: Ledger, keyring: Keyring, *, entries: int) -> None:
    init(ledger, 10, 1)
    fill(ledger, entries)
    long = ledger.verify()
    assert answers(ledger, keyring, writers=WRITERS) == [""] * WRITERS
    assert ledger.balance("mail").runs == entries + WRITERS
    checkpoints = (long + 2 * WRITERS) // book.CHECKPOINT_EVERY - long // book.CHECKPOINT_EVERY
    assert ledger.verify() - long in (2 * WRITERS + checkpoints, 2 * WRITERS + checkpoints + 1)


def test_sixty_four_writers_are_all_answered(ledger: Ledger, keyring: Keyring) -> None:
    _all_answered(ledger, keyring, entries=1_000)


@pytest.mark.slow
def test_sixty_four_writers_at_a_hundred_thousand_entries_are_all_answered(ledger: Ledger, keyring: Keyring) -> None:
    _all_answered(ledger, keyring, entries=100_000)


def test_a_machine_that_was_away_catches_up_before_it_takes_the_lock(
    ledger: Ledger, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is read under the lock is bounded for it too."""
    init(ledger, 10, 1)
    fill(ledger, book.CATCH_UP + 3 * book.CHECKPOINT_EVERY)
    for path in (keyring.home / "anchors").iterdir():
        path.unlink()
    read, begun, seen = book.read_rows, Database.transaction, []
    writing = [False]

    def noting(connection: Any, first: int, *, last: int | None = None) -> Any:
        rows = read(connection, first, last=last)
        seen.append((writing[0], len(rows)))
        return rows

    def watched(self: Database, *, write: bool) -> Any:
        writing[0] = write
        return begun(self, write=write)

    monkeypatch.setattr(book, "read_rows", noting)
    monkeypatch.setattr(Database, "transaction", watched)
    reserve(ledger, "0.001", 0)
    assert max(count for under_lock, count in seen if not under_lock) > book.CATCH_UP
    assert max(count for under_lock, count in seen if under_lock) <= 2 * book.CHECKPOINT_EVERY


def test_of_many_on_a_machine_that_was_away_one_reads_for_all(
    ledger: Ledger, keyring: Keyring, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(ledger, 10, 1)
    fill(ledger, 2 * book.CATCH_UP)
    read, counts, barrier = book.read_rows, [], threading.Barrier(8)

    def noting(connection: Any, first: int, *, last: int | None = None) -> Any:
        rows = read(connection, first, last=last)
        counts.append(len(rows))
        return rows

    def run(_: int) -> str:
        barrier.wait()
        return reserve(Ledger(keyring=keyring, url=ledger.url, clock=clock), "0.001", 0)

    monkeypatch.setattr(book, "read_rows", noting)
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(run, range(8)))) == 8
    assert sum(count > book.CATCH_UP for count in counts) == 1


def test_a_machine_that_cannot_note_how_far_it_caught_up_charges_nothing(
    ledger: Ledger, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(ledger, 10, 1)
    fill(ledger, 2 * book.CATCH_UP)
    length = ledger.verify()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Anchors, "note", full)
        with pytest.raises(BudgetError, match="cannot be written: No space left"):
            reserve(ledger, "0.001", 0)
    assert ledger.verify() == length
    assert reserve(ledger, "0.001", 0)
