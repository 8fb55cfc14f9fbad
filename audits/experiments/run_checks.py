"""A check of the generator's code that an audit file asks for: what it says, as findings like any attack's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from affidavit.audits.given import Given, Results

if TYPE_CHECKING:
    from affidavit.audits.experiments.registry import CheckName

__all__ = ["run_check"]


def run_check(given: Given, name: CheckName) -> Results:
    """Every comparison of the check called ``name``. Raises ``UsageError`` where the run has none."""
    given.run.require("check")
    given.tell(f"{name}: the generator's own code, on invented records")
    return list(given.run.check(name).items()), []
