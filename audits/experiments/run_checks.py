"""A check of the generator's code that an audit file asks for: what it says, as findings like any attack's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from affidavit.accountant.errors import UsageError
from affidavit.audits.given import Given, Results

if TYPE_CHECKING:
    from affidavit.audits.auditfile import CheckName

__all__ = ["run_check"]


def run_check(given: Given, name: CheckName) -> Results:
    """Every comparison of the check called ``name``. Raises ``UsageError`` where nobody gave it."""
    check = given.checks.get(name)
    if check is None:
        raise UsageError(
            f"the check {name} was not given",
            hint=f'For example `checks = {{"{name}": lambda: report}}`, as `affidavit audit` gives it.',
        )
    given.tell(f"{name}: the generator's own code, on invented records")
    return list(check().findings().items), []
