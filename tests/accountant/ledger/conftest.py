"""The ledger on both databases, the file and the server: what it promises is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger


@pytest.fixture(params=["sqlite", "postgresql"])
def new_url(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """The address of a database with nothing in it, another at each call."""
    if request.param == "postgresql":
        return request.getfixturevalue("postgresql").new_place
    names: Iterator[int] = count(1)
    return lambda: f"sqlite:///{tmp_path / f'ledger-{next(names)}.db'}"


@pytest.fixture
def ledger(keyring: Keyring, clock: Any, new_url: Callable[[], str]) -> Ledger:
    return Ledger(keyring=keyring, url=new_url(), clock=clock)
