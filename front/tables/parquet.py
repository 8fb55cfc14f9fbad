"""Parquet, by ``arro3-io``: a reader of 12 MB where pyarrow has 150."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import DataError, ModelMissing
from affidavit.tables.table import Row, Table

__all__ = ["read_parquet"]


def read_parquet(path: Path) -> Table:
    """The rows of a Parquet file. Raises ``DataError``; ``ModelMissing`` with the command that installs the reader."""
    try:
        from arro3.io import read_parquet as read
    except ImportError:
        raise ModelMissing(
            f"{path} is Parquet, and the package that reads it is not installed", hint="`pip install 'arro3-io>=0.6'`"
        ) from None
    try:
        reader = read(path)
        schema = reader.schema
        content = reader.read_all()
        names = tuple(content.column_names)
        columns = [content.column(index).to_pylist() for index in range(len(names))]
    except Exception:  # its message may hold what the file does
        raise DataError(f"{path} is no Parquet file that can be read", hint="Write it again, or as CSV.") from None
    rows = tuple(Row(place, tuple(cells)) for place, cells in enumerate(zip(*columns, strict=True), start=1))
    return Table(path, "Parquet", len(names), rows, names, place_word="record",
                 value_names=_class_names(dict(schema.metadata), names))  # fmt: skip


def _class_names(metadata: dict[bytes, bytes], names: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    """The words for a column's numbers, as the ``datasets`` library keeps them in a file's metadata."""
    try:
        features: dict[str, Any] = json.loads(metadata[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError):
        return {}
    found = {}
    for index, name in enumerate(names):
        words = features.get(name, {}).get("names") if isinstance(features.get(name), dict) else None
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            found[index] = tuple(words)
    return found
