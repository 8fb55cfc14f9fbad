"""Which of the given files is which original, and whether it is the version that is known."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import DataError, UsageError
from affidavit.datasets.catalogue import DataSet, Original, Source

__all__ = ["Given", "decoded", "find", "parsed", "where"]


@dataclass(frozen=True, slots=True)
class Given:
    """An original as it was given: the name it has here, and the bytes of its files by their relative names."""

    name: str
    files: Mapping[str, bytes]
    is_folder: bool = False

    @property
    def sha256(self) -> str:
        """As ``Original.sha256``."""
        if not self.is_folder:
            return hashlib.sha256(self.content).hexdigest()
        lines = (f"{hashlib.sha256(self.files[name]).hexdigest()}  {name}\n" for name in sorted(self.files))
        return hashlib.sha256("".join(lines).encode("utf-8")).hexdigest()

    @property
    def content(self) -> bytes:
        """The bytes of an original that is one file."""
        (content,) = self.files.values()
        return content

    @property
    def text(self) -> str:
        """The same as text. Raises ``DataError`` where it is not UTF-8."""
        return decoded(self.content, self.name)

    @property
    def lines(self) -> list[str]:
        """The same as lines, ended by a line feed, with or without a carriage return. Raises ``DataError`` likewise."""
        return [line.removesuffix("\r") for line in self.text.removesuffix("\n").split("\n")]

    def json(self) -> Any:
        """The same as JSON. Raises ``DataError`` where it is none."""
        return parsed(self.text, self.name)


def decoded(content: bytes, place: str) -> str:
    """Bytes as UTF-8; an error names the place and shows nothing."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{place}: byte {error.start} is not UTF-8") from None


def parsed(text: str, place: str) -> Any:
    """Text as JSON; an error names the place and shows nothing."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{place} is not JSON") from None


def find(
    wanted: DataSet, given: Sequence[Path], *, any_version: bool, command: str, to: str = ""
) -> tuple[Source, list[Given], bool]:
    """The source whose originals were given, what they hold, and whether they are the known version.

    An original is found by its name, in a given folder as well, or in a copy of its repository; a single one under
    any name. Raises ``UsageError`` where originals are missing, or are another version and ``any_version`` is not set;
    ``command`` is what was called, and ``to`` its ``-o``, for the hint.
    """
    away = [str(path) for path in given if not path.exists()]
    if away:
        raise UsageError(f"{', '.join(away)}: not there", hint=where(wanted, to=to))
    found = [(source, _located(source, given)) for source in wanted.sources]
    complete = [(source, paths) for source, paths in found if all(paths)]
    if not complete:
        source, paths = max(found, key=lambda pair: sum(path is not None for path in pair[1]))
        absent = [original.name for original, path in zip(source.originals, paths, strict=True) if path is None]
        raise UsageError(f"{wanted.name} is made from {', '.join(absent)}, not given", hint=where(wanted, to=to))
    read = [
        (source, [_read(o, p) for o, p in zip(source.originals, paths, strict=True) if p]) for source, paths in complete
    ]
    for source, originals in read:
        if all(held.sha256 == known.sha256 for held, known in zip(originals, source.originals, strict=True)):
            return source, originals, True
    source, originals = read[0]
    if any_version:
        return source, originals, False
    differing = [
        f"{held.name} is not the version that is known: its SHA-256 is {held.sha256}, expected is {known.sha256}"
        for held, known in zip(originals, source.originals, strict=True)
        if held.sha256 != known.sha256
    ]
    onward = f"Or go on with this version, whose records are chosen otherwise: `{command}{to} --any-version`"
    raise UsageError("\n".join(differing), hint=f"{where(wanted, source, to=to)}\n{onward}")


def where(wanted: DataSet, source: Source | None = None, *, to: str = "") -> str:
    """Where to download the originals, and the command for them."""
    source = source or wanted.sources[0]
    unpack = " and unpack" if any(original.is_folder for original in source.originals) else ""
    addresses = "\n".join(f"  {address}" for address in dict.fromkeys(source.downloads()))
    return f"Download{unpack}:\n{addresses}\nThen: `{wanted.command(source)}{to}`"


def _located(source: Source, given: Sequence[Path]) -> list[Path | None]:
    paths = [_locate(original, given) for original in source.originals]
    if len(given) == len(paths) == 1 and paths[0] is None and _fits(source.originals[0], given[0]):
        return [given[0]]
    return paths


def _locate(original: Original, given: Sequence[Path]) -> Path | None:
    for path in given:
        inside = (path, path / original.name, path / original.path) if path.is_dir() else (path,)
        for candidate in inside:
            if candidate.name == original.name and _fits(original, candidate):
                return candidate
    return None


def _fits(original: Original, path: Path) -> bool:
    return any(m.is_file() for m in path.glob(original.pattern)) if original.is_folder else path.is_file()


def _read(original: Original, path: Path) -> Given:
    members = sorted(m for m in path.glob(original.pattern) if m.is_file()) if original.is_folder else [path]
    try:
        files = {(m.relative_to(path).as_posix() if original.is_folder else m.name): m.read_bytes() for m in members}
    except OSError as error:
        readable = f"`chmod -R u+rX {shlex.quote(str(path))}`"
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint=f"Make it readable: {readable}.") from None
    return Given(path.name, files, original.is_folder)
