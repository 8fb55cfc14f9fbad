"""Many processes that write on one ledger at once.

They are forks of a process that has imported the ledger and nothing else: one of the tests' own process would be as
large as all that they have imported, which 64 at a time are too many for a machine's memory.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from pathlib import Path

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from support.ledgers import reserve


def answers(ledger: Ledger, keyring: Keyring, *, writers: int) -> list[str]:
    """What each was answered that reserves a run and commits it: what it was refused with, or nothing."""
    command = [sys.executable, "-m", __name__, str(keyring.home), ledger.url, str(writers)]
    paths = {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(command, env={**os.environ, **paths}, stdout=subprocess.PIPE, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def main(home: str, url: str, writers: str) -> None:
    """All begin together, each in a process of its own, and say a line each; one that is killed says none."""
    gc.freeze()  # what all share is not copied for being looked at
    (gate, gate_end), (answer, answer_end) = os.pipe(), os.pipe()
    for _ in range(int(writers)):
        if not os.fork():
            os.close(gate_end)
            os.read(gate, 1)  # which ends when nobody holds the other end
            os.write(answer_end, json.dumps(_one_run(home, url)).encode() + b"\n")
            os._exit(0)
    os.close(gate_end)
    os.close(answer_end)
    with os.fdopen(answer) as lines:
        print(json.dumps([json.loads(line) for line in lines]))


def _one_run(home: str, url: str) -> str:
    ledger = Ledger(keyring=Keyring(Path(home)), url=url)
    try:
        ledger.commit(reserve(ledger, "0.001", 0))
    except Exception as error:  # whatever it is, it is no answer
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    main(*sys.argv[1:])
