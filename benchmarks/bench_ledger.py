"""What a reservation costs in a long ledger: beside an empty one, and for 64 writers at once.

    python -m benchmarks.bench_ledger [POSTGRESQL-URL]

On SQLite; and on an empty database of that address, where one is given.
"""

from __future__ import annotations

import multiprocessing
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from affidavit.accountant.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD

SIZES = (0, 1_000, 10_000, 100_000)
TRIALS = 20
WRITERS = 64
SHA = "a" * 64


def _filled(ledger: Ledger, size: int) -> None:
    """``size`` reservations, written in one transaction as ``reserve`` writes them."""
    ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=10**6, delta=1)
    with ledger._verified(write=True) as found:
        state = found
        for _ in range(size):
            state = state.append(
                kind="reserve",
                dataset="mail",
                entry=secrets.token_hex(16),
                certificate_sha256=SHA,
                epsilon="1",
                delta="0",
            )
    ledger._remember(state)


def _seconds(ledger: Ledger) -> float:
    taken = []
    for _ in range(TRIALS):
        begun = time.perf_counter()
        entry = ledger.reserve("mail", relation="zero-out", unit=RECORD, epsilon="1", delta=0, certificate_sha256=SHA)
        taken.append(time.perf_counter() - begun)
        ledger.commit(entry)
    return statistics.median(taken)


def _write(home: Path, url: str, begin: Any, results: Any) -> None:
    ledger = Ledger(keyring=Keyring(home), url=url)
    begin.wait()
    begun = time.perf_counter()
    entry = ledger.reserve("mail", relation="zero-out", unit=RECORD, epsilon="1", delta=0, certificate_sha256=SHA)
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
    return sorted(results.get(timeout=1) for _ in range(results.qsize()))


def _measure(keyring: Keyring, new_url: Callable[[int], str], sizes: Sequence[int]) -> None:
    base = None
    print(f"{'entries':>9} {'reserve, ms':>12} {'of empty':>9} {'whole walk, s':>14}", end="")
    print(f" {'64 writers':>11} {'slowest, s':>11}")
    for size in sizes:
        ledger = Ledger(keyring=keyring, url=new_url(size))
        _filled(ledger, size)
        seconds = _seconds(ledger)
        base = base or seconds
        begun = time.perf_counter()
        entries = ledger.verify()
        walked = time.perf_counter() - begun
        waited = _at_once(ledger, keyring.home)
        ratio = f"{1000 * seconds:>12.1f} {seconds / base:>9.2f} {walked:>14.2f}"
        print(f"{entries:>9} {ratio} {f'{len(waited)} of {WRITERS}':>11} {max(waited, default=0):>11.2f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        keyring = Keyring(Path(folder))
        keyring.init()
        _measure(keyring, lambda size: f"sqlite:///{folder}/ledger-{size}.db", SIZES)
        for url in sys.argv[1:]:
            _measure(keyring, lambda _size, url=url: url, SIZES[-1:])


if __name__ == "__main__":
    main()
