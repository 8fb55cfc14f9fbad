"""No silent skips: a test that is skipped says which variable or which command would run it, or it fails."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

import pytest

# A variable of the environment, or a command in backticks.
REMEDY = re.compile(r"\b[A-Z]+(_[A-Z]+)+\b|`[^`\s][^`]*`")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a test's skip without a remedy into a failure."""
    return _checked((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a module that skips itself."""
    return _checked((yield))


def _checked(report: Any) -> Any:
    if report.outcome == "skipped" and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not REMEDY.search(reason):
            report.outcome = "failed"
            report.longrepr = (
                f"skipped without a remedy ({reason}): "
                "a reason names the variable, or the command in backticks, that would run the test"
            )
    return report
