"""Films of Wikipedia: JSON arrays of title, year, cast, genres and extract, one a decade."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from affidavit.accountant.errors import DataError
from affidavit.datasets.choosing import Choose, Record, distinct
from affidavit.datasets.originals import Given

__all__ = ["wikimovies"]

GENRES = frozenset({"Action", "Comedy", "Documentary", "Drama", "Horror", "Science Fiction", "Thriller"})
SHORTEST, LONGEST = 150, 750


def wikimovies(originals: Sequence[Given], choose: Choose) -> dict[str, list[Record]]:
    """Films of exactly one of seven genres, with a cast and an extract of 150 to 750 characters; each text once."""
    records = [record for original in originals for record in _films(original)]
    train, test = choose(distinct(records, lambda record: str(record["text"])))
    return {"train.jsonl": train, "test.jsonl": test}


def _films(original: Given) -> list[Record]:
    content = original.json()
    records: list[Record] = []
    for number, film in enumerate(content if isinstance(content, list) else [content], start=1):
        if not _is_film(film):
            raise DataError(f"{original.name}, entry {number}: not a film with title, year, genres and extract")
        record = _film(film)
        if record is not None:
            records.append(record)
    return records


def _is_film(film: Any) -> bool:
    """Old films have no extract, or a null."""
    return (
        isinstance(film, dict)
        and isinstance(film.get("title"), str)
        and isinstance(film.get("year"), int)
        and isinstance(film.get("genres"), list)
        and isinstance(film.get("extract") or "", str)
    )


def _film(film: dict[str, Any]) -> Record | None:
    genres = [genre for genre in film["genres"] if isinstance(genre, str) and genre in GENRES]
    text = " ".join((film.get("extract") or "").split())
    if len(genres) != 1 or not film.get("cast") or not SHORTEST <= len(text) <= LONGEST:
        return None
    return {"text": text, "label": genres[0], "title": film["title"], "year": film["year"]}
