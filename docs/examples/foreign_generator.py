"""A generator that knows nothing of affidavit, with an adapter that writes its trace.

The generator answers with one token a step: every sampled record votes for a token, Gaussian noise is added
to the counts, and the largest wins. It has switches for two faults of published code:

    sampling   exactly m records a step, where the plan (and the paper) says Poisson
    reseed     the random source is made inside the loop, from the same seed: one sample, one noise vector

    python docs/examples/foreign_generator.py trace.jsonl plan.json [sampling | reseed]
    affidavit check-trace trace.jsonl --plan plan.json
"""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

RECORDS = [f"letter {number}" for number in range(600)]
RATE = 0.1
NOISE_MULTIPLIER = 4.0  # the standard deviation; one record's vote moves the counts by 1 in l2 norm
TOKENS = 40
VOCABULARY = 30

Note = Callable[[str, dict[str, Any]], None]


def generate(fault: str, note: Note) -> list[int]:
    """The foreign generator. ``note`` was added to it: it is told what was sampled and drawn, no more."""
    answer: list[int] = []
    source = random.SystemRandom()
    for step in range(TOKENS):
        if fault == "reseed":
            source = random.Random(42)  # noqa: S311 - the fault
        if fault == "sampling":
            sample = source.sample(RECORDS, round(RATE * len(RECORDS)))
        else:
            sample = [record for record in RECORDS if source.random() < RATE]
        note("sample", {"use": step, "members": sample})
        counts = [0.0] * VOCABULARY
        for record in sample:
            counts[vote(record, answer)] += 1.0
        noise = [source.gauss(0.0, NOISE_MULTIPLIER) for _ in counts]
        noisy = [count + added for count, added in zip(counts, noise, strict=True)]
        answer.append(noisy.index(max(noisy)))
        note("draw", {"use": step, "noise": noise[:8], "rows": len(sample), "token": answer[-1]})
    return answer


def vote(record: str, answer: list[int]) -> int:
    """Stands for a language model's next token, given one record and the answer so far."""
    return hashlib.sha256(f"{record} {answer}".encode()).digest()[0] % VOCABULARY


def trace(fault: str) -> list[dict[str, Any]]:
    """The adapter: what the generator notes, as lines of the documented format. Record names are keyed."""
    key = secrets.token_bytes(32)
    source = {"algorithm": "MT19937", "seed": 42} if fault == "reseed" else {"algorithm": "operating system"}
    lines: list[dict[str, Any]] = [{"event": "run", "generator": "foreign", "sampler": source}]

    def note(event: str, seen: dict[str, Any]) -> None:
        if event == "sample":
            members = [hmac.digest(key, name.encode(), "sha256").hex() for name in seen["members"]]
            lines.append({**seen, "event": event, "path": "plan.of", "members": members, "population": len(RECORDS)})
        else:
            lines.append({**seen, "event": event, "path": "plan.of.of", "noise_multiplier": NOISE_MULTIPLIER})

    generate(fault, note)
    return lines


PLAN = {
    "relation": "add-remove",
    "delta": 1e-5,
    "plan": {
        "kind": "repeat",
        "count": TOKENS,
        "of": {
            "kind": "subsample",
            "scheme": "poisson",
            "rate": RATE,
            "of": {"kind": "gaussian", "noise_multiplier": NOISE_MULTIPLIER},
        },
    },
}


def main(trace_file: str, plan_file: str, fault: str = "") -> None:
    """Run once and write both files."""
    Path(trace_file).write_text("".join(json.dumps(line) + "\n" for line in trace(fault)), encoding="utf-8")
    Path(plan_file).write_text(json.dumps(PLAN, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
