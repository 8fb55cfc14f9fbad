"""GitHub's job summary: the file that ``GITHUB_STEP_SUMMARY`` names, to which steps append Markdown."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from affidavit.audits.formats.markdown import render

if TYPE_CHECKING:
    from affidavit.audits.findings import Findings

__all__ = ["append"]


def append(findings: Findings, *, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Append the Markdown page to the job's summary. Returns its file, or None away from GitHub.

    Raises ``UsageError`` where the file cannot be written.
    """
    from affidavit.accountant.errors import UsageError

    named = environment.get("GITHUB_STEP_SUMMARY")
    if not named:
        return None
    path = Path(named)
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(render(findings) + "\n")
    except OSError as error:
        raise UsageError(
            f"GITHUB_STEP_SUMMARY names {path}, which cannot be written: {error.strerror}",
            hint="`unset GITHUB_STEP_SUMMARY`, or name a file that can be written.",
        ) from None
    return path
