"""What keeping draws costs: intent and value on the disk, for a token and for a noisy vector of a whole vocabulary.

The file stands in the working folder, so that its disk is the one that is measured.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np

from affidavit.accountant.release.journal import NAME, Journal
from affidavit.mechanisms.outcomes import encoded

DRAWS = 100
VOCABULARY = 49_152

__all__ = ["main"]


def main() -> None:
    """Milliseconds a draw: median, and the slowest of a hundred."""
    vector = np.random.default_rng(0).standard_normal(VOCABULARY)
    for name, outcome in (("a token", 311), (f"{VOCABULARY} numbers", vector)):
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            place = Path(folder)
            journal = Journal.begin(place / NAME, home=place, header={"ledger_entry": "0" * 32})
            times = []
            for _ in range(DRAWS):
                started = time.perf_counter()
                journal.intend("plan.parts[0].of")
                journal.write("value", durable=True, value=encoded(outcome))
                times.append(1000.0 * (time.perf_counter() - started))
            journal.close()
        print(f"{name}: {np.median(times):.2f} ms a draw, at most {max(times):.1f} ms")


if __name__ == "__main__":
    main()
