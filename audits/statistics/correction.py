"""One level for a whole report, shared out among everything in it that could raise a false alarm.

Each test at α divided by their number (Bonferroni): whatever depends on what, the chance that any of
them refutes a true certificate is at most α. Self-tests and controls refute nothing and are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from affidavit.accountant.errors import UsageError

__all__ = ["Level"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """``total`` for the report, shared by ``tests`` of them."""

    total: float
    tests: int

    def __post_init__(self) -> None:
        if not 0.0 < self.total < 1.0 or self.tests < 1:
            raise UsageError(
                f"alpha is {self.total!r} for {self.tests} tests",
                hint="For example `alpha = 0.05`, and `tests = 1`.",
            )

    @property
    def each(self) -> float:
        """What one test may spend."""
        return self.total / self.tests

    def note(self, correction: str) -> str:
        """A test's own correction, and this one."""
        if self.tests == 1:
            return correction
        return f"{correction}; alpha {self.total:g} for the report, shared by {self.tests} tests (Bonferroni)"
