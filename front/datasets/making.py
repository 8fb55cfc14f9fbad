"""Originals in, JSONL out. Files appear whole, and none is overwritten by another."""

from __future__ import annotations

import hashlib
import importlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from affidavit.accountant.errors import AffidavitError, UsageError
from affidavit.datasets.catalogue import DataSet, Source, data_set
from affidavit.datasets.choosing import Choose, Record, by_hash, by_number
from affidavit.datasets.originals import Given, find
from affidavit.writing import write_whole

__all__ = ["Written", "make"]

CHOSEN = {
    "agnews": (2400, 800, True),
    "dbpedia14": (1820, 420, True),
    "dialogsum": (250, 250, False),
    "icliniq": (348, 115, False),
    "questiondoctors": (700, 200, False),
    "wikimovies": (840, 210, True),
}
"""Sets of which some records are taken: how many for training and for testing, and whether as many of each label."""


@dataclass(frozen=True, slots=True)
class Written:
    """A file of a made set: where it is, what it holds, and whether it was there already, as it is."""

    path: Path
    records: int
    sha256: str
    was_there: bool


def make(name: str, originals: Sequence[Path], *, out: Path, any_version: bool = False) -> tuple[Written, ...]:
    """Turn downloaded originals into ``out/FOLDER/*.jsonl``, with a note that says where they are from.

    Raises ``UsageError`` where originals are missing or of another version (unless ``any_version``), or where a file
    with other content stands in the way; ``DataError`` where an original is not in its format. Nothing is written then.
    """
    wanted = data_set(name)
    command = shlex.join(["affidavit", "data", "make", name, *map(str, originals)])
    source, held, known = find(wanted, originals, any_version=any_version, command=f"{command}{_to(out)}")
    contents = {file: _lines(wanted, file, records) for file, records in _converted(wanted, held, known).items()}
    if known:
        _agree(wanted, source, contents)
    contents[wanted.note] = _note(wanted, source, held, known=known, contents=contents).encode("utf-8")
    folder = out / wanted.folder
    standing = [folder / file for file, content in contents.items() if _differs(folder / file, content)]
    if standing:
        flag = " --any-version" if any_version else ""
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


def _converted(wanted: DataSet, originals: Sequence[Given], known: bool) -> dict[str, list[Record]]:  # noqa: FBT001
    module, _, function = wanted.converter.partition(":")
    convert = getattr(importlib.import_module(f"affidavit.datasets.{module}"), function)
    made: dict[str, list[Record]] = convert(originals, _choice(wanted.name, known=known))
    return made


def _choice(name: str, *, known: bool) -> Choose:
    if name not in CHOSEN:
        return lambda candidates: (list(candidates), [])
    train, test, balanced = CHOSEN[name]
    return by_number(name) if known else by_hash(train, test, balanced=balanced)


def _lines(wanted: DataSet, file: str, records: Sequence[Record]) -> bytes:
    """JSONL; ids count the records of a file where the original has none."""
    fields = next(made.fields for made in wanted.files if made.name == file)
    prefix = f"{wanted.name}-{Path(file).stem}"
    counted = "id" in fields and not any("id" in record for record in records)
    lines = (
        json.dumps({**({"id": f"{prefix}-{number:05d}"} if counted else {}), **record}, ensure_ascii=False) + "\n"
        for number, record in enumerate(records)
    )
    return "".join(lines).encode("utf-8")


def _agree(wanted: DataSet, source: Source, contents: dict[str, bytes]) -> None:
    for file, expected in wanted.expected(source).items():
        if hashlib.sha256(contents[file]).hexdigest() != expected:
            raise AffidavitError(
                f"{wanted.name}: {file} does not come out as it should from this original. This is a fault of affidavit.",
                hint="`affidavit data list` shows the digest that was expected.",
            )


def _note(wanted: DataSet, source: Source, held: Sequence[Given], *, known: bool, contents: dict[str, bytes]) -> str:
    lines = [wanted.title, ""]
    for original, given in zip(source.originals, held, strict=True):
        lines += [f"original: {source.repository} {original.path}", f"commit: {source.commit}"]
        lines += [f"sha256: {given.sha256}" + ("" if known else f" (another version; known: {original.sha256})"), ""]
    lines += [f"licence: {wanted.licence}", "", f"processing: {wanted.processing}", ""]
    if wanted.name in CHOSEN:
        chosen = "by number, as in the published results" if known else "by the order of their SHA-256"
        lines += [f"records chosen: {chosen}", ""]
    if wanted.warning:
        lines += [wanted.warning, ""]
    for file, content in contents.items():
        lines += [f"{file}: {_count(content)} records, sha256 {hashlib.sha256(content).hexdigest()}"]
    names = [given.name for given in held]
    flag = "" if known else " --any-version"
    return "\n".join([*lines, "", f"made by: {shlex.join(['affidavit', 'data', 'make', wanted.name, *names])}{flag}", ""])


def _count(lines: bytes) -> int:
    return lines.count(b"\n")


def _differs(path: Path, content: bytes) -> bool:
    return path.exists() and (not path.is_file() or path.read_bytes() != content)


def _to(out: Path) -> str:
    return "" if out == Path("data") else f" -o {shlex.quote(str(out))}"


def _free(out: Path) -> Path:
    return next(path for path in (out.with_name(f"{out.name}-{number}") for number in count(2)) if not path.exists())
