"""A data set's files: the grid's own, or the parts of one file whose head is public, or whose end is for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from affidavit.accountant.errors import DataError
from affidavit.accountant.remedies import near_file
from affidavit.experiments.gridfile import Dataset, Grid
from affidavit.writing import write_whole

__all__ = ["Files", "files", "write_parts"]


@dataclass(frozen=True, slots=True)
class Files:
    """The private and the public records, as a run file in the grid's folder names them; None: no public ones."""

    private: str
    public: str | None


def files(grid: Grid, dataset: Dataset) -> Files:
    """Those of a data set. Parts of a file that is divided stand in the grid's ``parts``, once ``write_parts`` ran."""
    if not dataset.is_divided:
        return Files(dataset.path, dataset.public)
    private, public = (str(grid.parts / f"{dataset.name}.{part}.jsonl") for part in ("private", "public"))
    return Files(private, dataset.public if dataset.public_first is None else public)


def write_parts(grid: Grid) -> None:
    """Divide every file that holds more than private records, anew each time: the file is what counts.

    Test examples are read where they are (``Cell.test_examples``). Raises ``DataError``.
    """
    for dataset in grid.datasets:
        if dataset.is_divided:
            found = files(grid, dataset)
            lines = _lines(grid.folder / dataset.path)
            head, end = dataset.public_first or 0, len(lines) - (dataset.test_last or 0)
            _write(found.private, lines[head:end])
            if head:
                _write(str(found.public), lines[:head])


def check_there(grid: Grid, dataset: Dataset) -> None:
    """That the dataset's files are there. Raises ``DataError`` naming the key."""
    for key in ("path", "test", "public"):
        name = getattr(dataset, key)
        if name is not None and not (path := grid.folder / name).is_file():
            raise DataError(f"there is no file {path}", hint=near_file(path, f"datasets.{key}"))


def _lines(path: Path) -> list[bytes]:
    """The lines that hold something."""
    try:
        content = path.read_bytes()
    except OSError as error:
        hint = near_file(path, "datasets.path")
        raise DataError(f"{path} cannot be read: {error.strerror}", hint=hint) from None
    return [line for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]


def _write(place: str, lines: Sequence[bytes]) -> None:
    write_whole(Path(place), b"".join(line + b"\n" for line in lines), private=True)
