"""What an account grants and refuses, on both databases."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from affidavit.accountant.errors import BudgetError, BudgetExceeded, LedgerMissing, NotSupported, PlanError, UsageError
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD, Unit
from support.ledgers import SHA, exists, init, reserve


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
    assert not exists(ledger)


def test_an_account_is_never_created_silently(ledger: Ledger) -> None:
    init(ledger)
    with pytest.raises(LedgerMissing, match="no account 'letters'") as refusal:
        ledger.account("letters")
    assert "mail" in refusal.value.message
    with pytest.raises(UsageError, match="exists; its budget is fixed"):
        init(ledger, 100)
    assert ledger.account("mail").epsilon == 1


def test_another_relation_or_unit_is_refused(ledger: Ledger) -> None:
    init(ledger)
    with pytest.raises(BudgetError, match="relation zero-out, this run is certified for substitution"):
        reserve(ledger, relation="substitution")
    with pytest.raises(BudgetError, match="unit record"):
        reserve(ledger, unit=Unit("user_id", 5))
    assert ledger.account("mail").reservations == ()


@pytest.mark.parametrize(
    ("name", "why"), [("pld", "arXiv 2602.06756"), ("f-dp", "arXiv 2602.06756"), ("moments", "is not known")]
)
def test_a_filter_that_does_not_hold_is_refused(ledger: Ledger, name: str, why: str) -> None:
    with pytest.raises(NotSupported, match=why) as refusal:
        init(ledger, filter=name)
    assert "--filter" in refusal.value.hint
    assert not exists(ledger)


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
    assert not exists(ledger)


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
