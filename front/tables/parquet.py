"""Parquet, by ``pyarrow``: heavy, so an extra; lighter readers abort on a broken file and print what they like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import DataError
from affidavit.accountant.extras import require
from affidavit.tables.table import Row, Table

__all__ = ["read_parquet"]


def read_parquet(content: bytes, path: Path) -> Table:
    """The rows of a Parquet file. Raises ``DataError``; ``PackageMissing`` without the reader."""
    require("parquet", purpose=f"{path}, a Parquet file,")
    from pyarrow import BufferReader, parquet

    try:
        found = parquet.ParquetFile(BufferReader(content)).read()
        names = tuple(str(name) for name in found.column_names)
        columns = [column.to_pylist() for column in found.columns]
        metadata = dict(found.schema.metadata or {})
    except Exception:  # its message may hold what the file does
        raise DataError(f"{path} is no Parquet file that can be read", hint="Write it again, or as CSV.") from None
    rows = tuple(Row(place, tuple(cells)) for place, cells in enumerate(zip(*columns, strict=True), start=1))
    return Table(
        path, "Parquet", len(names), rows, names, place_word="record", value_names=_class_names(metadata, names)
    )


def _class_names(metadata: dict[bytes, bytes], names: tuple[str, ...]) -> dict[int, tuple[str, ...]]:
    """The words for a column's numbers, as the ``datasets`` library keeps them in a file's metadata."""
    try:
        features: Any = json.loads(metadata[b"huggingface"])["info"]["features"]
    except (KeyError, ValueError, TypeError, RecursionError):
        return {}
    if not isinstance(features, dict):
        return {}
    found = {}
    for index, name in enumerate(names):
        feature = features.get(name)
        words = feature.get("names") if isinstance(feature, dict) else None
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            found[index] = tuple(words)
    return found
