"""One ledger file under many names: older copies are found, however their address is spelled."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import LedgerAltered
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD
from support.ledgers import TABLES, file_of

SHA = "a" * 64


@pytest.fixture
def ledger(keyring: Keyring, clock: Any) -> Ledger:
    """Where it is if nobody says where."""
    return Ledger(keyring=keyring, clock=clock)


def init(ledger: Ledger, epsilon: str | float = 1.0, name: str = "mail") -> None:
    ledger.init_account(name, relation="zero-out", unit=RECORD, epsilon=epsilon, delta=1)


def reserve(ledger: Ledger, epsilon: str = "0.001") -> str:
    return ledger.reserve("mail", relation="zero-out", unit=RECORD, epsilon=epsilon, delta=0, certificate_sha256=SHA)


def copy_of(ledger: Ledger, target: Path) -> Path:
    """A whole copy, as somebody makes who can read the file."""
    with sqlite3.connect(file_of(ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    shutil.copy(file_of(ledger), target)
    return target


@pytest.mark.parametrize(
    "spelling",
    [
        "sqlite:///{copy}",
        "sqlite+pysqlite:///{copy}",
        "sqlite:///{link}",
        "sqlite:///{folder}/../{folder.name}/copy.db",
        "sqlite+pysqlite:///{linked_folder}/copy.db",
    ],
)
def test_an_older_copy_is_found_however_its_address_is_spelled(
    ledger: Ledger, keyring: Keyring, tmp_path: Path, spelling: str
) -> None:
    init(ledger)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    copy = copy_of(ledger, folder / "copy.db")
    (link := tmp_path / "link.db").symlink_to(copy)
    (linked_folder := tmp_path / "linked").symlink_to(folder)
    url = spelling.format(copy=copy, link=link, folder=folder, linked_folder=linked_folder)
    reserve(ledger, "1")
    old = Ledger(keyring=keyring, url=url)
    for action in (lambda: reserve(old, "1"), old.verify, lambda: old.balance("mail")):
        with pytest.raises(LedgerAltered, match="had 3 entries and has 2"):
            action()


def test_an_older_copy_moved_over_the_ledger_through_a_link_is_found(
    ledger: Ledger, keyring: Keyring, tmp_path: Path
) -> None:
    (link := tmp_path / "link.db").symlink_to(keyring.home / "ledger.db")
    through = Ledger(keyring=keyring, url=f"sqlite:///{link}")
    init(ledger)
    old = copy_of(ledger, tmp_path / "old.db")
    reserve(through, "1")
    for path in file_of(ledger).parent.glob("ledger.db*"):
        path.unlink()
    shutil.copy(old, file_of(ledger))
    for book in (ledger, through):
        with pytest.raises(LedgerAltered, match="old copy restored"):
            reserve(book, "1")


def test_a_ledger_that_moved_goes_on_where_it_is(ledger: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    init(ledger)
    reserve(ledger, "0.5")
    moved = Ledger(keyring=keyring, url=f"sqlite:///{copy_of(ledger, tmp_path / 'moved.db')}")
    reserve(moved, "0.5")
    assert moved.balance("mail").remaining[0] == 0
    with pytest.raises(LedgerAltered, match="had 4 entries and has 3"):
        reserve(ledger, "0.5")


def test_a_relative_link_and_its_target_are_one_ledger(
    ledger: Ledger, keyring: Keyring, clock: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(ledger)
    monkeypatch.chdir(tmp_path)
    os.symlink(keyring.home / "ledger.db", "here.db")
    here = Ledger(keyring=keyring, url="sqlite:///here.db", clock=clock)
    reserve(here, "0.5")
    reserve(ledger, "0.5")
    assert here.balance("mail").remaining[0] == 0


def test_an_older_copy_on_the_same_server_is_found(keyring: Keyring, clock: Any, postgresql: Any) -> None:
    """Its tables copied to another schema, used by that address and by other spellings of it."""
    first, copy = (Ledger(keyring=keyring, url=postgresql.new_place(), clock=clock) for _ in range(2))
    init(first)
    copy.upgrade()
    source, target = (re.findall("search_path%3D(\\w+)", book.url)[0] for book in (first, copy))
    for table in TABLES:
        postgresql.run(f"INSERT INTO {target}.{table} SELECT * FROM {source}.{table}")  # noqa: S608
    reserve(first, "1")
    spelled = (f"{copy.url}&application_name=other", copy.url.replace("/postgres?", "/?dbname=postgres&"))
    for old in (copy, *(Ledger(keyring=keyring, url=url, clock=clock) for url in spelled)):
        with pytest.raises(LedgerAltered, match="had 3 entries and has 2"):
            reserve(old, "1")
