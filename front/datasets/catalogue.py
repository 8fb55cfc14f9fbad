"""What is known of each data set. The facts stand in ``catalogue.toml``."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from affidavit.accountant.errors import UsageError

__all__ = ["Chosen", "DataSet", "Made", "Original", "Source", "catalogue", "data_set"]


@dataclass(frozen=True, slots=True)
class Original:
    """A file of an origin, or a folder of them; ``path`` is where it stands in the repository.

    The ``sha256`` of a folder is that of the lines that ``sha256sum`` prints for the files that match ``pattern``,
    by name, with names relative to the folder; ``size`` is the sum of theirs.
    """

    path: str
    sha256: str
    size: int
    pattern: str = ""

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def is_folder(self) -> bool:
        """A folder has a pattern for the files in it that count."""
        return bool(self.pattern)


@dataclass(frozen=True, slots=True)
class Source:
    """A repository at a commit, and the originals there that make the set, in the order that the converter takes.

    Without a ``commit``, a folder of the web. ``made`` gives the SHA-256 of files that come out otherwise than from
    the first source.
    """

    repository: str
    commit: str
    originals: tuple[Original, ...]
    made: Mapping[str, str]

    @property
    def place(self) -> str:
        """The repository as people call it, ``owner/name``."""
        return self.repository.removeprefix("https://").removeprefix("github.com/")

    def downloads(self) -> tuple[str, ...]:
        """An address for each original; for a folder, that of the whole repository, packed."""
        return tuple(map(self._address, self.originals))

    def _address(self, original: Original) -> str:
        if original.is_folder:
            return f"{self.repository}/archive/{self.commit}.zip"
        files = self.repository.replace("//github.com/", "//raw.githubusercontent.com/")
        return "/".join(part for part in (files, self.commit, quote(original.path)) if part)

    def as_named(self) -> tuple[str, ...]:
        """What the downloads are called on disk; a packed repository is unpacked."""
        folder = f"{self.repository.rpartition('/')[2]}-{self.commit}"
        return tuple(folder if original.is_folder else original.name for original in self.originals)


@dataclass(frozen=True, slots=True)
class Made:
    """A file that is made: its records, their fields, its size in bytes and its SHA-256."""

    name: str
    records: int
    fields: tuple[str, ...]
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """How many candidates are taken for training and for testing; ``balanced``: as many of each label."""

    train: int
    test: int
    balanced: bool


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set; its files go to ``folder``. ``converter`` names the module and the function that make it.

    ``chosen`` is None where every candidate is taken. ``personal``: real people can be recognised in it; files are
    readable by their owner only.
    """

    name: str
    folder: str
    title: str
    licence: str
    processing: str
    converter: str
    personal: bool
    warning: str
    sources: tuple[Source, ...]
    files: tuple[Made, ...]
    chosen: Chosen | None

    @property
    def note(self) -> str:
        """The file that says where the others are from."""
        return "SOURCE.txt" if self.name == self.folder else f"SOURCE-{self.name}.txt"

    def expected(self, source: Source) -> dict[str, str]:
        """The SHA-256 of each file, made from ``source``."""
        return {file.name: source.made.get(file.name, file.sha256) for file in self.files}

    def command(self, source: Source | None = None) -> str:
        """The command that makes the set from what was downloaded to the current folder."""
        names = (source or self.sources[0]).as_named()
        return shlex.join(["affidavit", "data", "make", self.name, *dict.fromkeys(names)])


@cache
def catalogue() -> tuple[DataSet, ...]:
    """Every data set, in the order of the file."""
    content = tomllib.loads(files("affidavit.datasets").joinpath("catalogue.toml").read_text(encoding="utf-8"))
    return tuple(_data_set(name, facts) for name, facts in content.items())


def data_set(name: str) -> DataSet:
    """The data set of that name. Raises ``UsageError`` where there is none."""
    for found in catalogue():
        if found.name == name:
            return found
    names = ", ".join(known.name for known in catalogue())
    raise UsageError(f"there is no data set {name!r}", hint=f"Choose one of {names}: `affidavit data list`")


def _data_set(name: str, facts: Mapping[str, Any]) -> DataSet:
    sources = tuple(
        Source(
            repository=source["repository"],
            commit=source.get("commit", ""),
            originals=tuple(Original(**original) for original in source["originals"]),
            made=source.get("made", {}),
        )
        for source in facts["sources"]
    )
    made = tuple(
        Made(file, facts_of["records"], tuple(facts_of["fields"]), facts_of["size"], facts_of["sha256"])
        for file, facts_of in facts["files"].items()
    )
    return DataSet(
        name=name,
        folder=facts.get("folder", name),
        title=facts["title"],
        licence=facts["licence"],
        processing=facts["processing"],
        converter=facts["converter"],
        personal=facts.get("personal", False),
        warning=facts.get("warning", ""),
        sources=sources,
        files=made,
        chosen=Chosen(**facts["chosen"]) if "chosen" in facts else None,
    )
