"""Where models are cached, and how weights are identified."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

__all__ = ["cache_folder", "file_digest", "folder_digest"]

_CHUNK = 1 << 20


def cache_folder() -> Path:
    """``$AFFIDAVIT_CACHE`` if set, else the platform's cache folder for affidavit."""
    override = os.environ.get("AFFIDAVIT_CACHE")
    if override:
        return Path(override)
    import platformdirs

    return Path(platformdirs.user_cache_dir("affidavit", appauthor=False))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file, as hex. Remembered in the cache under (path, size, modification time)."""
    path = path.resolve()
    stat = path.stat()
    key = f"{path}|{stat.st_size}|{stat.st_mtime_ns}"
    store = cache_folder() / "digests.json"
    known = _read(store)
    if key not in known:
        known[key] = _sha256(path)
        _write(store, known)
    return known[key]


def folder_digest(files: Iterable[Path], *, base: Path) -> str:
    """One SHA-256 over the relative names and digests of several files, in sorted order."""
    total = hashlib.sha256()
    for file in sorted(files):
        total.update(f"{file.relative_to(base).as_posix()}\0{file_digest(file)}\n".encode())
    return total.hexdigest()


def _read(store: Path) -> dict[str, str]:
    try:
        known = json.loads(store.read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(store: Path, known: dict[str, str]) -> None:
    """Best effort: a cache that cannot be written only costs the next call its time."""
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=".digests-", dir=store.parent)
        with os.fdopen(handle, "w") as stream:
            json.dump(known, stream, indent=1, sort_keys=True)
        Path(draft).replace(store)
    except OSError:
        return
