"""What is true of the file alone: its place, its rights, its triggers, its damage."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import LedgerAltered, LedgerMissing, UsageError
from affidavit.accountant.ledger import Ledger, default_url
from support.ledgers import file_of, init, reserve


@pytest.fixture
def ledger(keyring: Keyring, clock: Any) -> Ledger:
    """Where it is if nobody says where."""
    return Ledger(keyring=keyring, clock=clock)


def test_the_ledger_is_private_and_in_wal_mode(ledger: Ledger) -> None:
    init(ledger)
    assert stat.S_IMODE(file_of(ledger).stat().st_mode) == 0o600
    with sqlite3.connect(file_of(ledger)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_without_a_home_there_is_no_ledger_either(tmp_path: Path) -> None:
    ledger = Ledger(keyring=Keyring(tmp_path / "none"))
    with pytest.raises(LedgerMissing):
        ledger.verify()
    with pytest.raises(UsageError, match="affidavit keys init"):
        init(ledger)
    assert not (tmp_path / "none").exists()


def test_a_database_without_our_tables_is_no_ledger(ledger: Ledger) -> None:
    sqlite3.connect(file_of(ledger)).close()
    file_of(ledger).touch()
    with pytest.raises(LedgerMissing):
        ledger.verify()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET body = '{}' WHERE number = 2",
        "DELETE FROM ledger_entries WHERE number = 3",
        "DELETE FROM ledger_head",
        "UPDATE ledger_head SET count = 2",
        "UPDATE ledger_head SET seal = 'x'",
        "REPLACE INTO ledger_entries VALUES (2, '{}', 'x')",
        "REPLACE INTO ledger_head SELECT 1, 2, mac, seal FROM ledger_head",
        "INSERT INTO ledger_entries VALUES (9, '{}', 'x')",
    ],
)
def test_the_database_refuses_to_change_history(ledger: Ledger, statement: str) -> None:
    init(ledger)
    reserve(ledger)
    connection = sqlite3.connect(file_of(ledger))
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        connection.execute(statement)
    connection.close()
    assert ledger.verify() == 3


def test_an_older_copy_of_the_whole_file_is_found_by_the_anchor(ledger: Ledger, tmp_path: Path) -> None:
    init(ledger)
    reserve(ledger)
    with sqlite3.connect(file_of(ledger)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    shutil.copy(file_of(ledger), tmp_path / "old.db")
    reserve(ledger)
    for path in file_of(ledger).parent.glob("ledger.db*"):
        path.unlink()
    shutil.copy(tmp_path / "old.db", file_of(ledger))
    with pytest.raises(LedgerAltered, match="had 4 entries and has 3"):
        reserve(ledger)


def test_damaged_files_are_not_trusted(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    [anchor] = (keyring.home / "anchors").iterdir()
    good = anchor.read_text()
    anchor.write_text("{")
    with pytest.raises(LedgerAltered, match="anchor"):
        ledger.verify()
    anchor.write_text(good)
    for path in file_of(ledger).parent.glob("ledger.db-*"):
        path.unlink()
    file_of(ledger).write_bytes(b"this is not a database, but it is long enough to be read as one " * 100)
    with pytest.raises(LedgerAltered, match="damaged"):
        ledger.verify()


@pytest.mark.parametrize(
    "url", ["sqlite://", "sqlite:///:memory:", "nonsense", "sqlite:////x?mode=memory", "unknown+driver://x"]
)
def test_urls_that_cannot_hold_a_ledger_are_refused(keyring: Keyring, url: str) -> None:
    with pytest.raises(UsageError) as refusal:
        Ledger(keyring=keyring, url=url)
    assert "sqlite:////" in refusal.value.hint


def test_the_ledger_is_found_by_environment(keyring: Keyring, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_url(keyring.home) == f"sqlite:///{keyring.home / 'ledger.db'}"
    monkeypatch.setenv("AFFIDAVIT_LEDGER", "sqlite:////elsewhere/ledger.db")
    assert Ledger(keyring=keyring).url == "sqlite:////elsewhere/ledger.db"


def test_a_place_that_cannot_be_written_is_refused(keyring: Keyring, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="no ledger can be made"):
        init(Ledger(keyring=keyring, url=f"sqlite:///{tmp_path / 'file' / 'ledger.db'}"))


def test_a_relative_address_means_one_place(keyring: Keyring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first = Ledger(keyring=keyring, url="sqlite:///relative.db")
    init(first)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(LedgerMissing):
        Ledger(keyring=keyring, url="sqlite:///relative.db").verify()
    assert first.verify() == 2
    assert first.url == f"sqlite:///{tmp_path / 'relative.db'}"
