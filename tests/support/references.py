"""The project's tables of reference numbers (``tests/references``; its README says how each was computed)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).resolve().parents[1] / "references"


def rows(table: Literal["plans", "claims", "peer_faults"]) -> list[dict[str, Any]]:
    """All rows of a table."""
    return list(json.loads((FOLDER / f"{table}.json").read_text(encoding="utf-8")))


def plans(*verbs: Literal["epsilon", "delta", "error"]) -> list[dict[str, Any]]:
    """The plans whose value is of one of these kinds."""
    return [row for row in rows("plans") if row["verb"] in verbs]


def claims(paper: str) -> list[dict[str, Any]]:
    """The published settings of the papers whose name begins so."""
    return [row for row in rows("claims") if row["paper"].startswith(paper)]


def fault(number: str) -> dict[str, Any]:
    """The fault of a published accountant with this number, such as ``U17``."""
    (found,) = (row for row in rows("peer_faults") if row["id"].startswith(f"{number}-"))
    return found
