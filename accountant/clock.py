"""Time, injected: everything that asks for the time takes a ``Clock``."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

__all__ = ["Clock", "parse_instant", "show_instant", "utc_now"]

Clock = Callable[[], datetime]

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z", re.ASCII)


def utc_now() -> datetime:
    """The current time, in UTC."""
    return datetime.now(UTC)


def show_instant(instant: datetime) -> str:
    """RFC 3339 in UTC, whole seconds (cut, not rounded). Raises ``ValueError`` on a naive time."""
    if instant.tzinfo is None:
        raise ValueError("a time without a zone is ambiguous")
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_instant(text: object) -> datetime:
    """Read what ``show_instant`` writes, and nothing else. Raises ``ValueError``."""
    if not isinstance(text, str) or not _INSTANT.match(text):
        raise ValueError("not a time such as 2026-01-31T12:00:00Z")
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
