"""Originals in, JSONL out. Files appear whole, and none is overwritten by another."""

from __future__ import annotations

import hashlib
import importlib
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from affidavit.accountant.errors import AffidavitError, DataError, UsageError
from affidavit.datasets.catalogue import DataSet, Source
from affidavit.datasets.choosing import Choose, Record, by_hash, by_number
from affidavit.datasets.originals import Given, find, where
from affidavit.writing import write_whole

__all__ = ["Written", "make"]

Converter = Callable[[Sequence[Given], Choose], dict[str, list[Record]]]
"""The originals, in the order of their source, and who chooses; a list of records for each file."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file of a made set: where it is, what it holds, and whether it was there already, as it is."""

    path: Path
    records: int
    sha256: str
    was_there: bool


def make(wanted: DataSet, originals: Sequence[Path], *, out: Path, any_version: bool = False) -> tuple[Written, ...]:
    """Turn downloaded originals into ``out/FOLDER/*.jsonl``, with a note that says where they are from.

    Raises ``UsageError`` where originals are missing or of another version (unless ``any_version``), or where a file
    with other content stands in the way; ``DataError`` where an original is not in its format. Nothing is written then.
    """
    command = shlex.join(["affidavit", "data", "make", wanted.name, *map(str, originals)])
    source, held, known = find(wanted, originals, any_version=any_version, command=command, to=_to(out))
    try:
        made = _converter(wanted)(held, _choice(wanted, known=known))
        contents = {file: _lines(wanted, file, records) for file, records in made.items()}
    except DataError as error:
        raise DataError(error.message, hint=where(wanted, source, to=_to(out))) from None
    flag = " --any-version" if any_version else ""
    if known and not any_version:
        _agree(wanted, source, contents, onward=f"{command}{_to(out)} --any-version")
    contents[wanted.note] = _note(wanted, source, held, known=known, contents=contents, flag=flag).encode("utf-8")
    folder = out / wanted.folder
    standing = [folder / file for file, content in contents.items() if _differs(folder / file, content)]
    if standing:
        raise UsageError(
            f"{', '.join(map(str, standing))}: there already, with other content",
            hint=f"Choose another folder: `{command} -o {shlex.quote(str(_free(out)))}{flag}`",
        )
    written = []
    for file, content in contents.items():
        there = (folder / file).exists()
        if not there:
            write_whole(folder / file, content, private=wanted.personal)
        if file != wanted.note:
            digest = hashlib.sha256(content).hexdigest()
            written.append(Written(folder / file, _count(content), digest, there))
    return tuple(written)


def _converter(wanted: DataSet) -> Converter:
    module, _, function = wanted.converter.partition(":")
    converter: Converter = getattr(importlib.import_module(f"affidavit.datasets.{module}"), function)
    return converter


def _choice(wanted: DataSet, *, known: bool) -> Choose:
    chosen = wanted.chosen
    if chosen is None:
        return lambda candidates: (list(candidates), [])
    if known:
        return by_number(wanted.name)
    return by_hash(chosen.train, chosen.test, balanced=chosen.balanced)


def _lines(wanted: DataSet, file: str, records: Sequence[Record]) -> bytes:
    """JSONL; ids count the records of a file where the original has none."""
    if not records:
        raise DataError(f"the original holds no record for {file}")
    fields = next(made.fields for made in wanted.files if made.name == file)
    prefix = f"{wanted.name}-{Path(file).stem}"
    counted = "id" in fields and not any("id" in record for record in records)
    lines = (
        json.dumps({**({"id": f"{prefix}-{number:05d}"} if counted else {}), **record}, ensure_ascii=False) + "\n"
        for number, record in enumerate(records)
    )
    try:
        return "".join(lines).encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{file}: a text holds half of a surrogate pair, which no UTF-8 can write") from None


def _agree(wanted: DataSet, source: Source, contents: dict[str, bytes], *, onward: str) -> None:
    for file, expected in wanted.expected(source).items():
        if hashlib.sha256(contents[file]).hexdigest() != expected:
            raise AffidavitError(
                f"{wanted.name}: {file} does not come out as it should. This is a fault of affidavit.",
                hint=f"Please report it. To have it as it came out: `{onward}`",
            )


def _note(
    wanted: DataSet, source: Source, held: Sequence[Given], *, known: bool, contents: dict[str, bytes], flag: str
) -> str:
    lines = [wanted.title, ""]
    for original, given in zip(source.originals, held, strict=True):
        lines += [f"original: {source.repository} {original.path}"]
        lines += [f"commit: {source.commit}"] if source.commit else []
        lines += [f"sha256: {given.sha256}" + ("" if known else f" (another version; known: {original.sha256})"), ""]
    lines += [f"licence: {wanted.licence}", "", f"processing: {wanted.processing}", ""]
    if wanted.chosen is not None:
        chosen = f"by number, rows/{wanted.name}.txt of the package" if known else "by the order of their SHA-256"
        lines += [f"records chosen: {chosen}", ""]
    if wanted.warning:
        lines += [wanted.warning, ""]
    for file, content in contents.items():
        lines += [f"{file}: {_count(content)} records, sha256 {hashlib.sha256(content).hexdigest()}"]
    return "\n".join([*lines, "", f"made by: {wanted.command(source)}{flag}", ""])


def _count(lines: bytes) -> int:
    return lines.count(b"\n")


def _differs(path: Path, content: bytes) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != content)


def _to(out: Path) -> str:
    return "" if out == Path("data") else f" -o {shlex.quote(str(out))}"


def _free(out: Path) -> Path:
    return next(path for path in (out.with_name(f"{out.name}-{number}") for number in count(2)) if not path.exists())
