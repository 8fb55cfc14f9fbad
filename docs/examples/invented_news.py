"""News that nobody wrote, for trying the pages of the generators: ``python docs/examples/invented_news.py``.

Writes ``train.jsonl`` (2,400 records that play the private ones), and from other sentences ``public.jsonl``,
``held_out.jsonl`` and ``pool.jsonl``, into the working directory. They are no good as demonstrations.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

WHO = {
    "World": ["The minister", "A border patrol", "The assembly", "An envoy", "The observers"],
    "Sports": ["The goalkeeper", "The away team", "A rower", "The league", "The youngest runner"],
    "Business": ["The bakery chain", "A shipping firm", "The bank", "A supplier", "The cooperative"],
    "Technology": ["The laboratory", "A start-up", "The browser", "An antenna", "The old server"],
}
DID = ["announced", "postponed", "lost", "repaired", "doubted", "won", "opened", "counted", "moved", "praised"]
WHAT = ["the northern line", "a second round", "the autumn plan", "its oldest rival", "the new rules", "a quiet season"]
WHEN = ["on Monday", "before noon", "after the storm", "for the third time", "without a word", "in the last minute"]
FILES = {"train": 2400, "public": 240, "held_out": 240, "pool": 96}

if __name__ == "__main__":
    chance = random.Random(2026)  # noqa: S311 - invented text, not noise
    for name, count in FILES.items():
        with Path(f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for number in range(count):
                label = list(WHO)[number % len(WHO)]
                words = (chance.choice(part) for part in (WHO[label], DID, WHAT, WHEN))
                text = f"{' '.join(words)}, writes desk{number}@{name.replace('_', '-')}.example."
                file.write(json.dumps({"id": f"{name}-{number}", "text": text, "label": label}) + "\n")
