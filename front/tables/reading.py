"""Which kind of file it is, by what it holds rather than by its name; then its rows."""

from __future__ import annotations

from pathlib import Path

from affidavit.accountant.errors import DataError, UsageError
from affidavit.accountant.files import DATA_BYTES, read_bytes
from affidavit.tables.delimited import read_delimited, separator
from affidavit.tables.encoding import decode
from affidavit.tables.jsonfile import read_json
from affidavit.tables.parquet import read_parquet
from affidavit.tables.table import Table

__all__ = ["read_table"]

_SEPARATED = frozenset({".csv", ".tsv", ".tab", ".psv"})
_FOREIGN = {
    b"PK\x03\x04": "a spreadsheet or another archive",
    b"\x1f\x8b": "compressed",
    b"\xd0\xcf\x11\xe0": "a spreadsheet",
}


def read_table(
    path: Path, *, encoding: str | None = None, delimiter: str | None = None, member: str | None = None
) -> Table:
    """The rows of CSV, TSV, JSON Lines, JSON or Parquet.

    ``encoding``, ``delimiter``, ``member`` (of a JSON object): where the file does not say it itself. Raises
    ``DataError``, ``UsageError``; no message holds anything of the file.
    """
    try:
        content = read_bytes(path, most=DATA_BYTES)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", hint="Check the path.") from None
    if content.startswith(b"PAR1"):
        return read_parquet(content, path)
    for mark, what in _FOREIGN.items():
        if content.startswith(mark):
            raise UsageError(f"{path} is {what}", hint="Unpack it, or save it as CSV or JSON Lines first.")
    decoded = decode(content, name=str(path), encoding=encoding)
    shown = decoded.encoding
    if decoded.guessed:
        shown += " (a guess: nothing in the file says so; another is named by --encoding)"
    text = decoded.text
    if path.suffix.lower() not in _SEPARATED and text.lstrip()[:1] in ("{", "["):
        return read_json(text, path, member=member, encoding=shown)
    chosen = None if delimiter is None else separator(delimiter)
    return read_delimited(text, path, delimiter=chosen, encoding=shown)
