"""A run under test that can do what a test hands over as functions, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from affidavit.audits.under_test import RunUnderTest

__all__ = ["under_test"]


def under_test(*, release: Any = None, noise: Any = None, **abilities: Callable[..., Any] | None) -> RunUnderTest:
    """``abilities``: ``generate``, ``demonstrate``, ``serve``, ``check``; None is none."""
    given = {name: staticmethod(ability) for name, ability in abilities.items() if ability is not None}
    made = type("Handed", (RunUnderTest,), {**given, "release": release, "noise": noise})
    found: RunUnderTest = made()
    return found
