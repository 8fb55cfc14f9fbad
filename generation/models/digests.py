"""Where models are cached, and how weights are identified."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

__all__ = ["cache_folder", "file_digest", "folder_digest"]


def cache_folder() -> Path:
    """``$AFFIDAVIT_CACHE`` if set, else the platform's cache folder for affidavit."""
    override = os.environ.get("AFFIDAVIT_CACHE")
    if override:
        return Path(override)
    import platformdirs

    return Path(platformdirs.user_cache_dir("affidavit", appauthor=False))


def file_digest(path: Path) -> str:
    """SHA-256 of a file, as hex: of its bytes as they are now. Size and time can be set, so nothing is remembered."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def folder_digest(files: Iterable[Path], *, base: Path) -> str:
    """One SHA-256 over the relative names and digests of several files, in sorted order."""
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.relative_to(base).as_posix()}\0{file_digest(file)}\n".encode())
    return total.hexdigest()
