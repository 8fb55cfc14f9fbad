"""Files appear whole or not at all."""

from __future__ import annotations

import tempfile
from pathlib import Path

from affidavit.accountant import files
from affidavit.accountant.errors import UsageError
from affidavit.accountant.remedies import setting, unused

__all__ = ["writable", "write_new", "write_whole"]


def writable(folder: Path) -> None:
    """Make the folder, and see that files can be made in it: before the work that is to be written there.

    Raises ``UsageError``.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        place = setting("-o", Path.home() / "affidavit-out")
        hint = f"Choose another folder: {place}."
        raise UsageError(f"{folder} cannot be written: {error.strerror}", hint=hint) from None


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write to a temporary file beside ``path``, then move it there; ``private`` means 0600.

    Raises ``UsageError`` where the folder cannot be written.
    """
    _write(path, content, private=private, new=False)


def write_new(path: Path, content: str | bytes, *, private: bool = False, flag: str = "-o") -> None:
    """As ``write_whole``, but never over a file: of several writers, the first wins, also if all looked before.

    Raises ``UsageError`` where there is one by now; ``flag`` names another place.
    """
    try:
        _write(path, content, private=private, new=True)
    except FileExistsError:
        raise UsageError(
            f"{path} exists by now: another program wrote it", hint=f"Choose another: {setting(flag, unused(path))}."
        ) from None


def _write(path: Path, content: str | bytes, *, private: bool, new: bool) -> None:
    data = content.encode("utf-8") if isinstance(content, str) else content
    elsewhere = setting("-o", Path.home() / path.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = f"Choose another place: {elsewhere}."
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint=hint) from None
    try:
        files.write(path, data, mode=0o600 if private else 0o644, new=new)
    except FileExistsError:
        raise
    except OSError as error:
        hint = f"Make room there, or choose another place: {elsewhere}."
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint=hint) from None
