"""Both engines told that no more than so many cases are worth listing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from affidavit.accountant.cases import changes
from affidavit.accountant.verifier import cases, listing

__all__ = ["listed_at_most"]


@contextmanager
def listed_at_most(most: int) -> Iterator[None]:
    """Plans of more cases are bounded together, above."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "MAX_CASES", most)
        patch.setattr(cases, "MAX_CASES", most)
        patch.setattr(listing, "MAX_CASES", most)
        patch.setattr(listing, "_MAX_PRODUCT", most)
        patch.setattr(listing, "_FEW_ORDERS", most)
        changes.choices.cache_clear()
        yield
    changes.choices.cache_clear()
