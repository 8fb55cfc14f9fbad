from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from affidavit.accountant.errors import (
    BudgetError,
    BudgetExceeded,
    LedgerAltered,
    LedgerMissing,
    NotSupported,
    PlanError,
    UsageError,
)
from affidavit.accountant.keys import Keyring
from affidavit.accountant.ledger import Account, Ledger, default_url
from affidavit.accountant.unit import RECORD, Unit

SHA = "a" * 64


def init(ledger: Ledger, epsilon: str | float = 1.0, delta: str | float = 1e-5, **changes: Any) -> Account:
    facts = {"relation": "zero-out", "unit": RECORD, "epsilon": epsilon, "delta": delta}
    return ledger.init_account("mail", **(facts | changes))


def reserve(ledger: Ledger, epsilon: str | float = "0.25", delta: str | float = "1e-6", **changes: Any) -> str:
    facts = {"relation": "zero-out", "unit": RECORD, "epsilon": epsilon, "delta": delta, "certificate_sha256": SHA}
    return ledger.reserve("mail", **(facts | changes))


def file_of(ledger: Ledger) -> Path:
    return Path(ledger.url.removeprefix("sqlite:///"))


def edit(ledger: Ledger, *statements: str) -> None:
    """What somebody does who can write the file: the triggers go first."""
    with sqlite3.connect(file_of(ledger)) as connection:
        for [name] in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
    connection.close()


def forget_anchor(keyring: Keyring) -> None:
    shutil.rmtree(keyring.home / "anchors")


def test_an_account_is_opened_and_charged(ledger: Ledger, clock: Any) -> None:
    opened = init(ledger)
    assert opened.remaining == (1, Decimal("0.00001"))
    entry = reserve(ledger)
    clock.advance(minutes=5)
    ledger.commit(entry, receipt_sha256="b" * 64)
    account = ledger.account("mail")
    assert account.spent == (Decimal("0.25"), Decimal("0.000001"))
    assert account.remaining == (Decimal("0.75"), Decimal("0.000009"))
    [reservation] = account.reservations
    assert reservation.entry == entry
    assert reservation.state == "committed 2026-03-01T12:05:00Z"
    assert (reservation.certificate_sha256, reservation.receipt_sha256) == (SHA, "b" * 64)
    assert ledger.verify() == 4
    assert ledger.accounts() == (account,)


def test_a_reservation_without_commit_is_spent(ledger: Ledger) -> None:
    init(ledger)
    reserve(ledger, 0.75)
    [reservation] = ledger.account("mail").reservations
    assert reservation.state == "reserved, never committed: spent"
    with pytest.raises(BudgetExceeded):
        reserve(ledger, 0.75)


def test_the_ledger_is_private_and_in_wal_mode(ledger: Ledger) -> None:
    init(ledger)
    assert stat.S_IMODE(file_of(ledger).stat().st_mode) == 0o600
    with sqlite3.connect(file_of(ledger)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_sums_are_exact_decimals(ledger: Ledger) -> None:
    init(ledger, 1.0, 1e-5)
    reserve(ledger, 0.1, 1e-6)
    reserve(ledger, 0.9, 9e-6)
    assert ledger.account("mail").remaining == (0, 0)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "1e-300", 0)
    reserve(ledger, 0, 0)


def test_ten_tenths_fit_and_nothing_more(ledger: Ledger) -> None:
    init(ledger, "0.3", 1)
    for _ in range(3):
        reserve(ledger, 0.1, 0)
    with pytest.raises(BudgetExceeded):
        reserve(ledger, "0.0000000000000000000000000001", 0)


def test_a_run_that_fits_alone_is_granted(ledger: Ledger) -> None:
    init(ledger, 0.3, 1e-5)
    reserve(ledger, 0.3, 1e-5)
    assert ledger.account("mail").remaining == (0, 0)


def test_a_refusal_carries_what_was_asked_and_what_is_left(ledger: Ledger) -> None:
    init(ledger, 1, 1e-5)
    reserve(ledger, 0.75, 5e-6)
    with pytest.raises(BudgetExceeded) as refusal:
        reserve(ledger, 0.5, 1e-6)
    assert refusal.value.requested == (0.5, 1e-6)
    assert refusal.value.remaining == (0.25, 5e-6)
    assert refusal.value.exit_code == 4
    assert "affidavit calibrate RUN.toml --epsilon 0.25" in refusal.value.hint
    with pytest.raises(BudgetExceeded) as refusal:
        reserve(ledger, 0.25, 6e-6)
    assert "delta = 0.000005" in refusal.value.hint
    reserve(ledger, 0.25, 5e-6)
    with pytest.raises(BudgetExceeded) as refusal:
        reserve(ledger, 0.25, 0)
    assert "affidavit ledger show" in refusal.value.hint
    assert len(ledger.account("mail").reservations) == 2


def test_nothing_is_created_by_reading_or_charging(ledger: Ledger) -> None:
    actions: list[Callable[[], object]] = [
        lambda: reserve(ledger),
        ledger.accounts,
        ledger.verify,
        lambda: ledger.commit("x"),
    ]
    for action in actions:
        with pytest.raises(LedgerMissing, match="there is no ledger") as refusal:
            action()
        assert "affidavit ledger init --dataset" in refusal.value.hint
    assert not file_of(ledger).exists()


def test_without_a_home_there_is_no_ledger_either(tmp_path: Path) -> None:
    ledger = Ledger(keyring=Keyring(tmp_path / "none"))
    with pytest.raises(LedgerMissing):
        ledger.verify()
    with pytest.raises(UsageError, match="affidavit keys init"):
        init(ledger)
    assert not (tmp_path / "none").exists()


def test_an_account_is_never_created_silently(ledger: Ledger) -> None:
    init(ledger)
    with pytest.raises(LedgerMissing, match="no account 'letters'") as refusal:
        ledger.account("letters")
    assert "mail" in refusal.value.message
    with pytest.raises(UsageError, match="exists; its budget is fixed"):
        init(ledger, 100)
    assert ledger.account("mail").epsilon == 1


def test_a_database_without_our_tables_is_no_ledger(ledger: Ledger) -> None:
    sqlite3.connect(file_of(ledger)).close()
    file_of(ledger).touch()
    with pytest.raises(LedgerMissing):
        ledger.verify()


def test_another_relation_or_unit_is_refused(ledger: Ledger) -> None:
    init(ledger)
    with pytest.raises(BudgetError, match="relation zero-out, this run is certified for substitution"):
        reserve(ledger, relation="substitution")
    with pytest.raises(BudgetError, match="unit record"):
        reserve(ledger, unit=Unit("user_id", 5))
    assert ledger.account("mail").reservations == ()


def test_only_the_basic_filter_is_offered(ledger: Ledger) -> None:
    with pytest.raises(NotSupported, match="renyi") as refusal:
        init(ledger, filter="renyi")
    assert "--filter basic" in refusal.value.hint
    assert not file_of(ledger).exists()


@pytest.mark.parametrize(
    "change",
    [
        *({"epsilon": value} for value in (-1, float("nan"), True, "1e500")),
        *({"delta": value} for value in (1.1, "x")),
        *({"relation": value} for value in ("both", None)),
    ],
)
def test_budgets_out_of_range_are_refused(ledger: Ledger, change: dict[str, Any]) -> None:
    with pytest.raises(PlanError):
        init(ledger, **change)
    assert not file_of(ledger).exists()


@pytest.mark.parametrize("name", ["", " mail", "a\nb", "x" * 201, None])
def test_names_of_accounts_are_plain(ledger: Ledger, name: Any) -> None:
    with pytest.raises(PlanError, match="dataset"):
        ledger.init_account(name, relation="zero-out", unit=RECORD, epsilon=1, delta=0)


@pytest.mark.parametrize("change", [{"epsilon": -0.1}, {"delta": -1e-9}, {"delta": 2}])
def test_a_negative_cost_is_refused(ledger: Ledger, change: dict[str, Any]) -> None:
    init(ledger)
    with pytest.raises(PlanError):
        reserve(ledger, **change)


def test_a_run_commits_once(ledger: Ledger) -> None:
    init(ledger)
    entry = reserve(ledger)
    ledger.commit(entry)
    for other in (entry, "0" * 32):
        with pytest.raises(UsageError, match="no open reservation"):
            ledger.commit(other)


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


@pytest.mark.parametrize(
    ("statements", "entry"),
    [
        (["UPDATE ledger_entries SET body = replace(body, '0.25', '0.01') WHERE number = 3"], 3),
        (["UPDATE ledger_entries SET body = replace(body, '\"1\"', '\"9\"') WHERE number = 2"], 2),
        (["UPDATE ledger_entries SET mac = replace(mac, substr(mac, 1, 1), 'z') WHERE number = 4"], 4),
        (["DELETE FROM ledger_entries WHERE number = 3"], 3),
        (["DELETE FROM ledger_entries WHERE number = 1"], 1),
        (
            [
                "UPDATE ledger_entries SET number = 99 WHERE number = 3",
                "UPDATE ledger_entries SET number = 3 WHERE number = 4",
                "UPDATE ledger_entries SET number = 4 WHERE number = 99",
            ],
            3,
        ),
        (["UPDATE ledger_entries SET body = 'é' WHERE number = 3"], 3),
        (["UPDATE ledger_entries SET mac = 'é' WHERE number = 3"], 3),
        (["INSERT INTO ledger_entries SELECT 6, body, mac || '0' FROM ledger_entries WHERE number = 5"], 6),
        (["UPDATE ledger_head SET seal = '0'"], 6),
        (["DELETE FROM ledger_head"], 6),
        (["DELETE FROM ledger_entries WHERE number = 5", "UPDATE ledger_head SET count = 4"], 5),
        (["DELETE FROM ledger_entries", "DELETE FROM ledger_head"], None),
    ],
)
def test_every_alteration_is_found_at_the_first_bad_entry(
    ledger: Ledger, statements: list[str], entry: int | None
) -> None:
    init(ledger)
    for _ in range(3):
        reserve(ledger)
    edit(ledger, *statements)
    for action in (ledger.verify, lambda: reserve(ledger), ledger.accounts):
        with pytest.raises(LedgerAltered) as refusal:
            action()
        assert refusal.value.entry == entry
        assert refusal.value.exit_code == 4


def test_a_dropped_tail_is_found_by_the_seal_even_without_the_anchor(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    reserve(ledger)
    reserve(ledger)
    edit(ledger, "DELETE FROM ledger_entries WHERE number = 4")
    forget_anchor(keyring)
    with pytest.raises(LedgerAltered) as refusal:
        ledger.verify()
    assert refusal.value.entry == 4


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


def test_a_deleted_ledger_is_not_opened_anew_by_itself(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    for path in file_of(ledger).parent.glob("ledger.db*"):
        path.unlink()
    actions: list[Callable[[], object]] = [lambda: init(ledger), lambda: reserve(ledger), ledger.verify]
    for action in actions:
        with pytest.raises(LedgerAltered, match="is gone") as refusal:
            action()
    [anchor] = (keyring.home / "anchors").iterdir()
    assert str(anchor) in refusal.value.message
    anchor.unlink()
    assert init(ledger).reservations == ()


def test_another_ledger_in_its_place_is_found(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    other = Ledger(keyring=keyring, url=f"sqlite:///{keyring.home / 'other.db'}")
    init(other)
    for path in [*file_of(ledger).parent.glob("ledger.db*")]:
        path.rename(path.with_name("aside-" + path.name))
    for path in [*file_of(other).parent.glob("other.db*")]:
        path.rename(path.with_name(path.name.replace("other", "ledger")))
    with pytest.raises(LedgerAltered, match="another ledger stands in its place"):
        ledger.verify()


def test_without_the_key_nothing_verifies(ledger: Ledger, keyring: Keyring, tmp_path: Path) -> None:
    init(ledger)
    stranger = Keyring(tmp_path / "stranger")
    stranger.init()
    with pytest.raises(LedgerAltered, match="another key") as refusal:
        Ledger(keyring=stranger, url=ledger.url).verify()
    assert refusal.value.entry == 1
    (keyring.home / "ledger.key").unlink()
    with pytest.raises(UsageError, match="affidavit keys init"):
        ledger.verify()


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


def test_the_anchor_never_runs_ahead_and_may_lag(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    [anchor] = (keyring.home / "anchors").iterdir()
    before = anchor.read_text()
    entry = reserve(ledger)
    anchor.write_text(before)  # as if the machine had stopped between the two writes
    ledger.commit(entry)
    assert ledger.verify() == 4


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


def test_threads_cannot_overdraw(ledger: Ledger) -> None:
    init(ledger, 1, 1)
    barrier = threading.Barrier(8)

    def attempt(_: int) -> bool:
        barrier.wait()
        try:
            reserve(ledger, "0.2", 0)
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        granted = list(pool.map(attempt, range(8)))
    assert sum(granted) == 5
    assert ledger.account("mail").remaining[0] == 0
    assert ledger.verify() == 2 + 5


def test_readers_never_mistake_a_running_writer_for_an_attack(ledger: Ledger) -> None:
    init(ledger, 10, 1)
    done = threading.Event()
    counts: list[int] = []

    def read() -> None:
        counts.append(ledger.verify())
        while not done.is_set():
            counts.append(ledger.verify())

    with ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        for _ in range(25):
            reserve(ledger, "0.1", 0)
        done.set()
        for reader in readers:
            reader.result()
    assert ledger.verify() == 2 + 25
    assert max(counts) <= 2 + 25


def test_a_place_that_cannot_be_written_is_refused(keyring: Keyring, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="no ledger can be made"):
        init(Ledger(keyring=keyring, url=f"sqlite:///{tmp_path / 'file' / 'ledger.db'}"))


def test_an_anchor_that_cannot_be_read_grants_nothing(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger)
    forget_anchor(keyring)
    (keyring.home / "anchors").write_text("in the way of the folder")
    with pytest.raises(BudgetError, match="cannot be read"):
        reserve(ledger)
    (keyring.home / "anchors").unlink()
    assert ledger.account("mail").reservations == ()


def test_an_anchor_that_cannot_be_written_is_said_and_the_charge_stands(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    init(ledger)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("affidavit.accountant.ledger.anchors.os.replace", full)
    with pytest.raises(BudgetError, match="No space left") as refusal:
        reserve(ledger)
    assert "What was charged is spent" in refusal.value.hint
    assert len(ledger.account("mail").reservations) == 1


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


def _attempts(home: Path, count: int, results: Any) -> None:
    ledger = Ledger(keyring=Keyring(home))
    granted = 0
    for _ in range(count):
        try:
            reserve(ledger, "0.1", 0)
            granted += 1
        except BudgetExceeded:
            pass
    results.put(granted)


def test_processes_cannot_overdraw(ledger: Ledger, keyring: Keyring) -> None:
    init(ledger, 1, 1)
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_attempts, args=(keyring.home, 4, results)) for _ in range(4)]
    for worker in workers:
        worker.start()
    granted = [results.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert sum(granted) == 10
    assert ledger.account("mail").remaining[0] == 0
    assert ledger.verify() == 2 + 10


@pytest.mark.skipif("AFFIDAVIT_TEST_POSTGRESQL" not in os.environ, reason="AFFIDAVIT_TEST_POSTGRESQL names no database")
def test_postgresql_by_url(keyring: Keyring) -> None:
    # The database has to be empty, and its user the owner of the schema.
    url = os.environ["AFFIDAVIT_TEST_POSTGRESQL"]
    ledger = Ledger(keyring=keyring, url=url)
    with pytest.raises(LedgerMissing):
        ledger.verify()
    init(ledger, 1, 1)

    def attempt(_: int) -> bool:
        try:
            reserve(ledger, "0.2", 0)
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(attempt, range(8))) == 5
    ledger.commit(ledger.account("mail").reservations[0].entry)
    assert ledger.verify() == 2 + 5 + 1
    engine = create_engine(url)
    for statement in (
        "UPDATE ledger_entries SET body = '{}'",
        "DELETE FROM ledger_entries",
        "TRUNCATE ledger_entries",
        "UPDATE ledger_head SET count = 1",
        "DELETE FROM ledger_head",
        "TRUNCATE ledger_head",
    ):
        with pytest.raises(DBAPIError, match="append-only"), engine.begin() as connection:
            connection.execute(text(statement))
    with engine.begin() as connection:
        connection.execute(text("DROP TRIGGER ledger_entries_update_or_delete ON ledger_entries"))
        connection.execute(text("UPDATE ledger_entries SET body = '{}' WHERE number = 4"))
    with pytest.raises(LedgerAltered) as refusal:
        ledger.verify()
    assert refusal.value.entry == 4


def _open_account(home: Path, name: str, results: Any) -> None:
    ledger = Ledger(keyring=Keyring(home))
    ledger.init_account(name, relation="zero-out", unit=RECORD, epsilon=1, delta=0)
    results.put(name)


def test_processes_can_open_the_ledger_together(ledger: Ledger, keyring: Keyring) -> None:
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    workers = [context.Process(target=_open_account, args=(keyring.home, f"set {i}", results)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(timeout=60)
    assert {account.dataset for account in ledger.accounts()} == {f"set {i}" for i in range(4)}
    assert ledger.verify() == 5
