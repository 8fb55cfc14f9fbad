"""Several threads and processes on one ledger, on both databases: none overdraws."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import BudgetExceeded
from affidavit.accountant.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD
from support.ledgers import init, reserve


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
    granted = [results.get(timeout=60) for _ in workers]
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
        worker.join(timeout=60)
    assert {account.dataset for account in ledger.accounts()} == {f"set {i}" for i in range(4)}
    assert ledger.verify() == 5
