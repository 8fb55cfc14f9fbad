"""Certificates, receipts, permits, keys and the ledger: what a caller in Python can do wrong with them."""

from __future__ import annotations

import contextlib
import copy
import errno
import hashlib
import json
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

from remedy_cases import Api, Case, Place

from affidavit.accountant.attestation import keys, recheck, statement
from affidavit.accountant.attestation.certificate import RunSubject, check_subject, issue, verify_envelope
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.attestation.receipt import SCHEMA, check_receipt, read, render
from affidavit.accountant.attestation.statement import Certificate, Claim, CurvePoint
from affidavit.accountant.ledger import Ledger, book
from affidavit.accountant.ledger.anchors import Anchors
from affidavit.accountant.nodes import Compose, Gaussian, WithoutReplacement
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.release.permit import Permit, open_permit
from affidavit.accountant.unit import RECORD, parse_unit

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
PLAN = parse_plan({"kind": "gaussian", "noise_multiplier": 1.0})
SUBJECT = RunSubject("zero-out", RECORD, PLAN, "c" * 64, "d" * 64, "e" * 64, 240)
CLAIM = Claim(Decimal(6), Decimal("0.00001"))
PAIR = {"epsilon": "6", "delta": "0.00001"}
RUN: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, **PAIR, "certificate_sha256": "a" * 64}


class Office:
    """Keys and a ledger in a folder that goes with this object."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.keyring = Keyring(self.folder / "home")
        self.keyring.init()
        self.url = f"sqlite:///{self.folder / 'ledger.db'}"

    def ledger(self, *, at: datetime = NOON) -> Ledger:
        return Ledger(keyring=self.keyring, url=self.url, clock=lambda: at)

    def account(self) -> Ledger:
        ledger = self.ledger()
        ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=100, delta="0.01")
        return ledger

    def issue(self, subject: RunSubject = SUBJECT, **changes: Any) -> bytes:
        facts: dict[str, Any] = {"claims": [CLAIM], "arithmetic": "balls", "clock": lambda: NOON}
        return issue(subject, signer=self.keyring.signer(), **(facts | changes))

    def read(self, envelope: bytes) -> Certificate:
        return verify_envelope(envelope, trusted=self.keyring.trusted(), clock=lambda: NOON)

    @contextmanager
    def permit(self) -> Iterator[Permit]:
        ledger = self.account()
        with open_permit(
            self.issue(), SUBJECT, "mail", ledger, trusted=self.keyring.trusted(), clock=lambda: NOON
        ) as permit:
            yield permit


def _issued(*, population: int = 240, **changes: Any) -> bytes:
    plan = WithoutReplacement(population, 10, Gaussian(1.0))
    return Office().issue(replace(SUBJECT, plan=plan), **changes)


def _checked(*, plan: Any) -> None:
    office = Office()
    check_subject(office.read(office.issue()), replace(SUBJECT, plan=plan))


def _confirmed(*, epsilon: int) -> None:
    office = Office()
    recheck.confirm(office.read(office.issue(claims=[Claim(Decimal(epsilon), CLAIM.delta)])))


def _receipt(*, draws: int = 1, trusts: bool = True) -> None:
    office = Office()
    envelope = office.issue()
    facts = {
        "guarantee": "noise from the operating system",
        "schema": SCHEMA,
        "protected": True,
        "generator": "prism",
        "certificate_sha256": hashlib.sha256(envelope).hexdigest(),
        "ledger_entry": "0" * 32,
        "ledger_head": None,
        "sampler": "gaussian",
        "noise": "secure",
        "draws_per_node": {"plan": draws},
        "resumed": 0,
        "lost_draws": 0,
        "closed": False,
        "outputs_sha256": {},
        "versions": {},
        "ended": "2026-03-01T12:00:00Z",
    }
    reader = Keyring(office.folder / "reader")
    reader.init()
    if trusts:
        reader.trust(office.keyring.show()[0].pem)
    receipt = read(render(facts, signer=office.keyring.signer()), trusted=reader.trusted())
    check_receipt(receipt, office.read(envelope), trusted=reader.trusted(), now=NOON)


def _under_id(*, entry: str | None) -> str:
    office = Office()
    return office.account().reserve("mail", **RUN, entry=entry)


def _by_hand(*, opened: bool) -> None:
    office = Office()
    with office.permit() as permit:
        if not opened:
            permit = Permit(  # noqa: PLW2901
                object(), permit.certificate, order=permit._order, entry=permit.entry, noise=permit.noise
            )
        permit.use("plan")


def _drawn(*, path: str) -> None:
    with Office().permit() as permit:
        permit.use(path)


def _late(*, late: bool) -> None:
    with Office().permit() as permit:
        if not late:
            permit.use("plan")
    if late:
        permit.use("plan")


def _shared(*, what: Callable[[Permit], object]) -> None:
    with Office().permit() as permit, Office().permit() as other:
        what(permit)
        other.use("plan")


def _account(*, anchors: str = "", ledger: str = "ledger.db") -> None:
    office = Office()
    folder = office.keyring.home / "anchors"
    if anchors == "not writable":
        folder.symlink_to(office.folder / "nowhere")
    elif anchors == "not readable":
        (folder / "note.json").mkdir(parents=True)
    (office.folder / "folder").mkdir()
    office.url = f"sqlite:///{office.folder / ledger}"
    office.account()


def _far_behind(*, full: bool) -> None:
    """A machine that has not seen the ledger for long notes how far it has caught up."""
    office = Office()
    ledger = office.account()
    with contextlib.ExitStack() as changes:
        changes.enter_context(patch.object(book, "CATCH_UP", -1))
        if full:
            changes.enter_context(patch.object(Anchors, "in_turn", side_effect=OSError(errno.ENOSPC, "no space left")))
        _reserved(ledger)


def _charged(*, behind: timedelta) -> None:
    office = Office()
    _reserved(office.account())
    _reserved(office.ledger(at=NOON - behind))


def _reserved(ledger: Ledger) -> str:
    return ledger.reserve(
        "mail", relation="zero-out", unit=RECORD, epsilon=1, delta="0.00001", certificate_sha256="f" * 64
    )


def _committed(*, entry: str) -> None:
    office = Office()
    ledger = office.account()
    made = _reserved(ledger)
    ledger.commit(entry or made)


def _decoded(*, payload: Callable[[bytes], bytes] = bytes, salt: str = "0" * 32, **changes: Any) -> Certificate:
    """A statement read again with other fields."""
    office = Office()
    stated = json.loads(statement.encode(office.read(office.issue())))
    stated["subject"][2]["annotations"]["salt"] = salt
    for name, value in changes.items():
        (stated if name in stated else stated["predicate"])[name] = value(stated[name]) if callable(value) else value
    return statement.decode(payload(json.dumps(stated).encode()))


def _same(value: Any) -> Any:
    return value


REFUSED: list[tuple[str, Callable[..., object], dict[str, Any], dict[str, Any]]] = [
    (
        "attestation/certificate.py:issue",
        _issued,
        {"curve": [CLAIM]},
        {"curve": [CurvePoint(CLAIM.epsilon, CLAIM.delta)]},
    ),
    ("attestation/certificate.py:check_subject#2", _checked, {"plan": Gaussian(2.0)}, {"plan": PLAN}),
    (
        "attestation/keys.py:read_pem",
        lambda *, path: keys.read_pem(Path(path)),
        {"path": f"{__file__}.gone"},
        {"path": __file__},
    ),
    ("ledger/anchors.py:_unreadable", _account, {"anchors": "not readable"}, {"anchors": ""}),
    ("ledger/book.py:_catch_up", _far_behind, {"full": True}, {"full": False}),
    ("ledger/book.py:_remember", _account, {"anchors": "not writable"}, {"anchors": ""}),
    ("ledger/database.py:_transaction", _account, {"ledger": "folder"}, {"ledger": "ledger.db"}),
    ("ledger/book.py:_now", _charged, {"behind": timedelta(hours=1)}, {"behind": timedelta(0)}),
    ("ledger/store.py:_unused", _under_id, {"entry": "mine"}, {"entry": None}),
    ("ledger/store.py:commit", _committed, {"entry": "0" * 32}, {"entry": ""}),
    ("release/order.py:_violation", _drawn, {"path": "plan.of"}, {"path": "plan"}),
    ("release/permit.py:__init__", _by_hand, {"opened": False}, {"opened": True}),
    ("release/permit.py:_check_live", _late, {"late": True}, {"late": False}),
    ("release/permit.py:__reduce__", _shared, {"what": copy.copy}, {"what": lambda permit: permit.use("plan")}),
    (
        "release/randomness.py:__reduce__",
        _shared,
        {"what": lambda permit: pickle.dumps(permit.noise)},
        {"what": lambda permit: permit.use("plan")},
    ),
    ("attestation/receipt.py:read", _receipt, {"trusts": False}, {"trusts": True}),
    ("attestation/receipt.py:check_receipt#2", _receipt, {"draws": 2}, {"draws": 1}),
    ("attestation/recheck.py:confirm", _confirmed, {"epsilon": 1}, {"epsilon": 6}),
    (
        "attestation/statement.py:of",
        lambda *, epsilon: Claim.of(epsilon_upper=epsilon, delta=1e-5),
        {"epsilon": float("inf")},
        {"epsilon": 6.0},
    ),
    ("decimals.py:within", _decoded, {"claims": [PAIR | {"epsilon": "-1"}]}, {"claims": [PAIR]}),
    ("decimals.py:within", _decoded, {"claims": [PAIR | {"delta": "2"}]}, {"claims": [PAIR]}),
    ("attestation/statement.py:_read", _decoded, {"payload": lambda content: content[:-1]}, {"payload": bytes}),
    ("strictjson.py:hexadecimal", _decoded, {"salt": "salt"}, {"salt": "0" * 32}),
    ("attestation/statement.py:_read_subjects", _decoded, {"subject": []}, {"subject": _same}),
    ("attestation/statement.py:_read#2", _decoded, {"claims": []}, {"claims": [PAIR]}),
    (
        "attestation/statement.py:_read#3",
        _decoded,
        {"notAfter": "2026-01-31T12:00:00Z"},
        {"notAfter": "2026-05-31T12:00:00Z"},
    ),
    ("attestation/statement.py:decode", _decoded, {"schema": "affidavit/v99"}, {"schema": statement.SCHEMA}),
    (
        "attestation/certificate.py:__post_init__",
        lambda *, unit: replace(SUBJECT, unit=unit),
        {"unit": "record"},
        {"unit": RECORD},
    ),
    (
        "attestation/certificate.py:__post_init__#2",
        lambda *, plan: replace(SUBJECT, plan=plan),
        {"plan": Compose([PLAN])},
        {"plan": PLAN},
    ),
    (
        "unit.py:parse_unit#2",
        lambda *, key: parse_unit({"key": key, "max_records": 2}, path="unit"),
        {"key": ""},
        {"key": "user_id"},
    ),
]
"""Where, the call, the keywords that are refused, and those that do what the remedy says."""


def _key_is_a_folder(place: Place) -> None:
    place.keys()
    key = place.keyring.home / "signing-key.pem"
    key.rename(place.folder / "backup")
    key.mkdir()


def _restored(place: Place) -> None:
    (place.keyring.home / "signing-key.pem").rmdir()
    os.rename(place.folder / "backup", place.keyring.home / "signing-key.pem")


CASES = [Case("accountant/attestation/keys.py:_read_private#2", "keys show", _key_is_a_folder, by_hand=_restored)]

API = [
    Api("accountant/attestation/statement.py:encode", _issued, {"population": 1 << 60}),
    *(Api(f"accountant/{at}", call, given, remedied) for at, call, given, remedied in REFUSED),
]
