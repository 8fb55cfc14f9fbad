"""Two officers: one key, whoever's, opens or raises no account."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affidavit.accountant.attestation import dsse
from affidavit.accountant.attestation.keys import Keyring, Signer, _public_pem
from affidavit.accountant.errors import BudgetError, LedgerAltered, PlanError, UsageError
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.ledger.chain import Head, Row, link, seal
from affidavit.accountant.unit import RECORD
from tests.support.ledgers import contents, init, overwrite, reserve

BUDGET: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, "epsilon": "2", "delta": "1e-5"}


def pem(signer: Signer) -> bytes:
    return _public_pem(signer.private_key.public_key())


@pytest.fixture
def second() -> Signer:
    return Signer.of(Ed25519PrivateKey.generate())


@pytest.fixture
def guarded(ledger: Ledger, keyring: Keyring, second: Signer) -> Ledger:
    """A ledger with one account from before, and two officers: us, and a second."""
    init(ledger)
    ledger.set_officers([pem(keyring.signer()), pem(second)])
    return ledger


def test_two_officers_open_an_account_and_one_does_not(guarded: Ledger, second: Signer) -> None:
    with pytest.raises(BudgetError, match="officers open accounts"):
        guarded.init_account("letters", **BUDGET)
    request = guarded.request_account("letters", **BUDGET)
    with pytest.raises(BudgetError, match="signed by 1 of the 2"):
        guarded.apply(request)
    with pytest.raises(BudgetError, match="signed by 1 of the 2"):
        guarded.apply(dsse.add_signature(dsse.add_signature(request, _signer(guarded)), _signer(guarded)))
    stranger = Signer.of(Ed25519PrivateKey.generate())
    with pytest.raises(BudgetError, match="signed by 1 of the 2"):
        guarded.apply(dsse.add_signature(request, stranger))
    account = guarded.apply(dsse.add_signature(request, second))
    assert (account.dataset, str(account.epsilon)) == ("letters", "2")
    with pytest.raises(BudgetError, match="done before"):
        guarded.apply(dsse.add_signature(request, second))
    guarded.verify()


def _signer(ledger: Ledger) -> Signer:
    return ledger._keyring.signer()


@pytest.mark.parametrize("name", ["basic", "renyi", "gdp"])
def test_two_officers_raise_an_account_once(guarded: Ledger, second: Signer, name: str) -> None:
    request = guarded.request_account("letters", filter=name, **BUDGET)
    before = guarded.apply(dsse.add_signature(request, second))
    larger = dsse.add_signature(guarded.request_raise("letters", epsilon="3", delta="1e-5"), second)
    account = guarded.apply(larger)
    assert (str(account.epsilon), account.order) == ("3", before.order)
    assert (account.holding or 3) > (before.holding or 2)
    with pytest.raises(BudgetError, match="not as it was"):
        guarded.apply(larger)
    with pytest.raises(PlanError, match="not lowered"):
        guarded.request_raise("letters", epsilon="1", delta="1e-5")
    assert guarded.account("letters").holding == account.holding


def test_a_request_is_for_one_ledger(
    guarded: Ledger, keyring: Keyring, second: Signer, new_url: Callable[[], str], clock: Any
) -> None:
    other = Ledger(keyring=keyring, url=new_url(), clock=clock)
    init(other)
    other.set_officers([pem(keyring.signer()), pem(second)])
    with pytest.raises(BudgetError, match="another ledger"):
        other.apply(dsse.add_signature(guarded.request_account("letters", **BUDGET), second))


def test_the_ledger_s_key_alone_opens_no_account(guarded: Ledger, keyring: Keyring) -> None:
    rows = contents(guarded)
    last = Row(*rows["ledger_entries"][-1])
    key = keyring.secret("ledger")
    facts = json.loads(rows["ledger_entries"][1][1])
    forged = {name: facts[name] for name in facts if name not in ("number", "previous")} | {"dataset": "letters"}
    added = link(forged, after=Head(last.number, last.mac), key=key)
    end = Head(added.number, added.mac)
    rows["ledger_entries"].append((added.number, added.body, added.mac))
    rows["ledger_head"] = [(1, end.count, end.mac, seal(end, key=key))]
    overwrite(guarded, rows)
    with pytest.raises(LedgerAltered, match="makes no sense"):
        guarded.verify()


def test_officers_are_named_once_and_are_several(guarded: Ledger, second: Signer) -> None:
    with pytest.raises(UsageError, match="for good"):
        guarded.set_officers([pem(second), pem(_signer(guarded))])
    with pytest.raises(UsageError, match="1 different officer"):
        guarded.set_officers([pem(second), pem(second)])


def test_officers_are_there_after_a_checkpoint(guarded: Ledger) -> None:
    for _ in range(130):
        reserve(guarded, "0.001", "1e-9")
    with pytest.raises(BudgetError, match="officers open accounts"):
        guarded.init_account("letters", **BUDGET)
    guarded.verify()
