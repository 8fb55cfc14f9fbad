"""Files appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from affidavit.accountant.errors import UsageError
from affidavit.accountant.remedies import setting

__all__ = ["write_whole"]


def write_whole(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write to a temporary file beside ``path``, then move it there; ``private`` means 0600.

    Raises ``UsageError`` where the folder cannot be written.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    elsewhere = setting("-o", Path.home() / path.name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    except OSError as error:
        hint = f"Choose another place: {elsewhere}."
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint=hint) from None
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o600 if private else 0o644)
        Path(temporary).replace(path)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        hint = f"Make room there, or choose another place: {elsewhere}."
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint=hint) from None
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
