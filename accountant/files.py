"""Files: read if they are regular and of bounded size, written whole or not at all; or an ``OSError`` says why not.

``Path.read_bytes`` waits for ever on a FIFO, fills the memory from ``/dev/zero``, and answers a NUL in a name with
another kind of error. Callers turn an ``OSError`` and its ``strerror`` into their own words; so nothing else comes.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from pathlib import Path

__all__ = ["DATA_BYTES", "DOCUMENT_BYTES", "draft", "read_bytes", "write"]

DOCUMENT_BYTES = 64 * 2**20
"""Run files, plans, certificates, keys, receipts, findings: what a person or this program writes."""

DATA_BYTES = 2 * 2**30
"""Records and traces, which are held in memory as a whole."""


def read_bytes(path: Path, *, most: int | None = None) -> bytes:
    """The whole file, of at most ``most`` bytes (``DOCUMENT_BYTES``).

    Raises ``OSError`` (never another error) if it is none, too large, or cannot be read.
    """
    most = DOCUMENT_BYTES if most is None else most
    try:
        status = path.stat()
    except ValueError:
        raise OSError(errno.EINVAL, "not a name that a file can have") from None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"larger than {most // 2**20} MiB")
    return content


def write(path: Path, content: bytes, *, mode: int = 0o600, new: bool = False) -> None:
    """The whole file in the place of an older one, or nothing. Raises ``OSError``, of which ``filename`` is ``path``.

    ``new``: raises ``FileExistsError`` where there is one; of several writers, the first wins.
    """
    try:
        made = draft(path, content, mode=mode)
        try:
            if new:
                os.link(made, path)  # which, unlike a rename, replaces nothing
            else:
                os.replace(made, path)
        finally:
            made.unlink(missing_ok=True)
    except OSError as error:
        if error.errno is not None:
            error.filename, error.filename2 = str(path), None  # not the draft's, or none
        raise


def draft(path: Path, content: bytes, *, mode: int = 0o600) -> Path:
    """``content`` on the disk beside ``path``, under a name of its own. Raises ``OSError``."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    made = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        made.chmod(mode)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    return made
