"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from affidavit.accountant.errors import UsageError
from affidavit.accountant.remedies import setting, unused

__all__ = ["write_new", "write_whole"]


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write to a temporary file beside ``path``, then move it there; ``private`` means 0600.

    Raises ``UsageError`` where the folder cannot be written.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}",
            hint=f"Choose another place: {setting('-o', Path.home() / path.name)}.",
        ) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o600 if private else 0o644)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="Make room there.") from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_new(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """``write_whole``, but never over an existing file (``UsageError``)."""
    if path.exists():
        raise UsageError(f"{path} exists already", hint=f"Choose another name: {setting('-o', unused(path))}.")
    write_whole(path, content, private=private)
