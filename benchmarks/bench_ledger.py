"""What a reservation costs in a long ledger: seconds beside an empty one, on SQLite, in one run."""

from __future__ import annotations

import secrets
import statistics
import tempfile
import time
from pathlib import Path

from affidavit.accountant.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD

SIZES = (0, 1_000, 10_000, 100_000)
TRIALS = 20
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


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        keyring = Keyring(Path(folder))
        keyring.init()
        base = None
        print(f"{'entries':>9} {'reserve, ms':>12} {'of empty':>9} {'whole walk, s':>14}")
        for size in SIZES:
            ledger = Ledger(keyring=keyring, url=f"sqlite:///{folder}/ledger-{size}.db")
            _filled(ledger, size)
            seconds = _seconds(ledger)
            base = base or seconds
            begun = time.perf_counter()
            entries = ledger.verify()
            walked = time.perf_counter() - begun
            print(f"{entries:>9} {1000 * seconds:>12.1f} {seconds / base:>9.2f} {walked:>14.2f}")


if __name__ == "__main__":
    main()
