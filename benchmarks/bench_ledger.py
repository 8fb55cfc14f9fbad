"""What a reservation costs in a long ledger: beside an empty one, and for 64 writers at once.

    python -m benchmarks.bench_ledger

On SQLite, and on a PostgreSQL server that is started for it, as the tests start theirs. The long ledgers are filled in
one transaction with reservations that are chained and sealed as any; the whole walk verifies each of them.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from tests.support import postgresql
from tests.support.ledgers import fill, init, reserve

SIZES = (0, 1_000, 10_000, 100_000)
TRIALS = 40
ROUNDS = 3
WRITERS = 64
# What a server has by itself; the tests' own gives up what they do not need.
SERVER = {"full_page_writes": "on", "autovacuum": "on", "shared_buffers": "128MB"}


def _seconds(ledger: Ledger) -> float:
    taken = []
    for _ in range(TRIALS):
        begun = time.perf_counter()
        entry = reserve(ledger, "1", 0)
        taken.append(time.perf_counter() - begun)
        ledger.commit(entry)
    return statistics.median(taken)


def _write(home: Path, url: str, begin: Any, results: Any) -> None:
    ledger = Ledger(keyring=Keyring(home), url=url)
    begin.wait()
    begun = time.perf_counter()
    entry = reserve(ledger, "1", 0)
    results.put(time.perf_counter() - begun)
    ledger.commit(entry)


def _at_once(ledger: Ledger, home: Path) -> list[float]:
    """How long each of the writers waited for its reservation."""
    context = multiprocessing.get_context("fork")
    results, begin = context.Queue(), context.Event()
    workers = [context.Process(target=_write, args=(home, ledger.url, begin, results)) for _ in range(WRITERS)]
    for worker in workers:
        worker.start()
    begin.set()
    for worker in workers:
        worker.join()
    return [results.get(timeout=1) for _ in range(results.qsize())]


def _measure(keyring: Keyring, new_url: Callable[[], str]) -> None:
    """Each length in turn, several times over: what else the machine does meets all of them."""
    ledgers = []
    for size in SIZES:
        ledger = Ledger(keyring=keyring, url=new_url())
        init(ledger, 10**6, 1)
        fill(ledger, size)
        begun = time.perf_counter()
        length = ledger.verify()
        ledgers.append((ledger, length, time.perf_counter() - begun))
        reserve(ledger, "1", 0)  # which notes where the ledger ends: the next reads from there
    seconds: dict[int, list[float]] = {}
    waited: dict[int, list[float]] = {}
    loads = []
    for _ in range(ROUNDS):
        for ledger, length, _ in ledgers:
            seconds.setdefault(length, []).append(_seconds(ledger))
            waited.setdefault(length, []).extend(_at_once(ledger, keyring.home))
            loads.append(os.getloadavg()[0])
    base = statistics.median(next(iter(seconds.values())))
    print(f"{'entries':>9} {'reserve, ms':>12} {'of empty':>9} {'whole walk, s':>14}", end="")
    print(f" {'writers':>11} {'median, s':>10} {'slowest, s':>11}")
    for _, length, walked in ledgers:
        here, all_waits = statistics.median(seconds[length]), waited[length]
        print(f"{length:>9} {1000 * here:>12.1f} {here / base:>9.2f} {walked:>14.2f}", end="")
        print(f" {f'{len(all_waits)} of {ROUNDS * WRITERS}':>11} {statistics.median(all_waits):>10.2f}", end="")
        print(f" {max(all_waits):>11.2f}")
    print(f"load of the machine, these writers among it: {min(loads):.1f} to {max(loads):.1f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        keyring = Keyring(Path(folder))
        keyring.init()
        names = count(1)
        print("SQLite")
        _measure(keyring, lambda: f"sqlite:///{folder}/ledger-{next(names)}.db")
        found = postgresql.programs()
        if found is None:
            print(postgresql.HOW)
            return
        with postgresql.running(found, **SERVER) as server:
            print(f"PostgreSQL {server.ask('SHOW server_version')}")
            _measure(keyring, server.new_place)


if __name__ == "__main__":
    main()
