"""Films as JSON records, a line each, for generators of structured text: ``python docs/examples/film_records.py DATA``.

Reads DATA/wikimovies/train.jsonl and test.jsonl (``affidavit data show wikimovies`` says what makes them) and writes
DATA/film-records/: each ``text`` is a record of title, year, genre and the first words of the plot.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

PLOT_WORDS = 16


def record(film: dict[str, object]) -> dict[str, object]:
    """A line of the new file."""
    first = re.split(r"(?<=[.!?])\s", str(film["text"]))[0]
    plot = " ".join(first.split()[:PLOT_WORDS])
    fields = {"title": film["title"], "year": film["year"], "genre": film["label"], "plot": plot}
    return {"id": film["id"], "label": film["label"], "text": json.dumps(fields, ensure_ascii=False)}


if __name__ == "__main__":
    data = Path(sys.argv[1])
    (data / "film-records").mkdir(exist_ok=True)
    for name in ("train.jsonl", "test.jsonl"):
        films = map(json.loads, (data / "wikimovies" / name).read_text(encoding="utf-8").splitlines())
        lines = [json.dumps(record(film), ensure_ascii=False) + "\n" for film in films]
        (data / "film-records" / name).write_text("".join(lines), encoding="utf-8")
