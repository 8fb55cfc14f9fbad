"""What real mail holds: identifiers, records and mailboxes in the Enron bodies of AESLC, and the seconds it takes.

    affidavit data make enron AESLC-7afc087a1cc234d07121f0d4a2d87102ddceabc2
    python -m benchmarks identifiers [FILE.jsonl]

FILE: one object a line with ``mailbox`` and ``body``. Prints counts only. The file's own selection (a
regular expression for addresses and US phone numbers) chose 1,051 bodies from 116 mailboxes. Of
these, 1,044 from 115 hold an address or number that the validators accept; the other 7 hold ten
digits written as a phone number whose area code nobody was given.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from affidavit.audits.pii import census

DATA = Path(__file__).resolve().parents[1] / "data" / "enron" / "aeslc_train_pii.jsonl"


def main() -> None:
    """Print one row a kind."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    if not path.exists():
        print(f"skipped: {path} is not here; see what makes it: affidavit data show enron")
        return
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    records = [(row["mailbox"], row["body"]) for row in rows]
    print(f"{len(records):,} bodies from {len({user for user, _ in records}):,} mailboxes")
    print(f"{'kinds':<28}{'identifiers':>12}{'records':>9}{'mailboxes':>11}{'seconds':>9}")
    for kinds in (("email", "phone"), ("email", "phone", "url", "account")):
        started = time.process_time()
        counted = census(records, kinds=kinds)
        seconds = time.process_time() - started
        for held in counted if len(kinds) > 2 else counted[-1:]:
            name = " + ".join(held.kinds)
            print(f"{name:<28}{held.identifiers:>12,}{held.records:>9,}{held.users:>11,}{seconds:>9.1f}")


if __name__ == "__main__":
    main()
