"""Files appear whole or not at all."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from affidavit.accountant import files
from affidavit.accountant.errors import UsageError
from affidavit.accountant.remedies import setting, unused

__all__ = ["refuse_to_replace", "replaceable", "writable", "write_new", "write_whole"]


def writable(folder: Path) -> None:
    """See that files can be made in the folder, or it in the nearest one above: before the work that is written there.

    Raises ``UsageError``.
    """
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        other = setting("-o", Path.home() / "affidavit-out")
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}", hint=f"Choose another folder: {other}."
        ) from None


def replaceable(path: Path) -> bool:
    """Whether a certificate may be written there: in the place of an older one, or of nothing."""
    try:
        found = json.loads(files.read_bytes(path) or b"{}")
    except OSError:
        return not path.exists()
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and found.keys() <= {"payload", "payloadType", "signatures"}


def refuse_to_replace(path: Path) -> None:
    """Raises ``UsageError`` where a certificate would take the place of something else: the run file, or the data."""
    if not replaceable(path):
        hint = f"Choose another place: {setting('-o', unused(path.parent / f'{path.stem}.json'))}."
        raise UsageError(f"{path} is there, and no certificate: it would be lost", hint=hint)


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
