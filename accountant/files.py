"""Reading a file that somebody named: a regular one, of bounded size, or an ``OSError`` that says why not.

``Path.read_bytes`` waits for ever on a FIFO, fills the memory from ``/dev/zero``, and answers a NUL in a name with
another kind of error. Callers turn an ``OSError`` and its ``strerror`` into their own words; so nothing else comes.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path

__all__ = ["DATA_BYTES", "DOCUMENT_BYTES", "read_bytes"]

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
