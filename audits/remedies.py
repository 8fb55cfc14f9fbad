"""Remedies that several audits share."""

from __future__ import annotations

__all__ = ["at_most_records"]


def at_most_records(count: int) -> str:
    """How ``members`` and ``non_members`` divide so many records."""
    if count < 2:
        return "Give more records: at least one member and one that is none."
    return f"At most `members = {count // 2}` and `non_members = {count - count // 2}`, or give more records."
