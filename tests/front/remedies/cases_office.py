"""Keys, officers, filters and what a certificate states of costs: refusals of an office that shares a budget."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cases_accountant import Office, _decoded
from cases_ledger import OPEN
from remedy_cases import Api, Case, Place

from affidavit.accountant import receipt, recheck
from affidavit.accountant.bound import bound
from affidavit.accountant.filters import costs
from affidavit.accountant.keylimits import KeyLimits
from affidavit.accountant.keys import Keyring
from affidavit.accountant.nodes import Gaussian
from affidavit.accountant.second_opinion import SecondOpinion, check_opinions

COSTS = {"renyi": [{"order": "2", "rho": "1"}], "zcdp": None, "gdp": None}


def _keys(place: Place) -> None:
    place.keys()


def _others(place: Place) -> None:
    """Two officers' public keys, beside ours, and a ledger."""
    place.keys()
    place.account()
    for name in ("A.pem", "B.pem"):
        with tempfile.TemporaryDirectory() as folder:
            other = Keyring(Path(folder))
            other.init()
            (place.folder / name).write_bytes(other.show()[0].pem)


def _named(place: Place) -> None:
    _others(place)
    assert place.call("ledger", "officers", "A.pem", "B.pem").code == 0


def _understated(*, rho: str) -> None:
    """A certificate whose ρ is signed, whatever it is."""
    office = Office()
    stated = costs.decode({"renyi": [], "zcdp": rho, "gdp": None}, "costs")
    recheck.confirm(office.read(office.issue(costs=stated)))


def _revoke(*, whose: str) -> None:
    office, other = Office(), Office()
    keyid = office.keyring.trust(other.keyring.show()[0].pem)
    chosen = {"nobody's": "f" * 64 + "0", "ours": office.keyring.signer().keyid, "theirs": keyid}[whose]
    office.keyring.revoke(chosen)


def _revoke_again(*, twice: bool) -> None:
    office, other = Office(), Office()
    keyid = office.keyring.trust(other.keyring.show()[0].pem)
    office.keyring.revoke(keyid)
    if twice:
        office.keyring.revoke(keyid)


def _costs(**changes: Any) -> object:
    return costs.decode({**COSTS, **changes}, "costs")


def _limits(*, content: bytes) -> object:
    return KeyLimits.read(content, path="limits")


def _receipt(**changes: object) -> None:
    facts: dict[str, Any] = {
        "schema": receipt.SCHEMA,
        "protected": True,
        "guarantee": "noise from the operating system",
        "generator": "prism",
        "ended": "2026-03-01T12:00:00Z",
        "certificate_sha256": None,
        "ledger_entry": None,
        "ledger_head": None,
        "sampler": None,
        "noise": "secure",
        "outputs_sha256": {},
        "versions": {},
        "draws_per_node": {},
    } | changes
    receipt._check_types(facts)


def _compared(*, low: float, high: float) -> None:
    found = bound(Gaussian(1.0), relation="zero-out", delta=1e-5)
    check_opinions(replace(found), [SecondOpinion("another", True, "", low, high)])


CASES = [
    Case("accountant/filters/budgets.py:holding", OPEN + " --filter gdp --order 8", _keys),
    Case("accountant/filters/budgets.py:holding#2", OPEN + " --filter renyi --order 7.3", _keys),
    Case(
        "accountant/filters/budgets.py:holding#3", OPEN.replace("--delta 0.001", "--delta 0") + " --filter zcdp", _keys
    ),
    Case("accountant/ledger/approvals.py:officers_of", "ledger officers A.pem", _others, then=()),
    Case("accountant/ledger/store.py:set_officers", "ledger officers A.pem B.pem", _named, then=()),
    Case(
        "accountant/filters/budgets.py:_positive",
        OPEN.replace("--epsilon 4 --delta 0.001", "--epsilon 0.001 --delta 1e-300") + " --filter renyi",
        _keys,
    ),
]

_TABLE: list[tuple[str, Callable[..., object], dict[str, Any], dict[str, Any]]] = [
    ("recheck.py:confirm#2", _understated, {"rho": "0.4"}, {"rho": "0.5"}),
    ("keys.py:revoke", _revoke, {"whose": "nobody's"}, {"whose": "theirs"}),
    ("keys.py:revoke#2", _revoke, {"whose": "ours"}, {"whose": "theirs"}),
    ("keys.py:_refuse_revoked", _revoke_again, {"twice": True}, {"twice": False}),
    ("filters/costs.py:_cost", _costs, {"zcdp": "-1"}, {"zcdp": "1"}),
    ("filters/costs.py:decode", _costs, {"renyi": [{"order": "7.3", "rho": "1"}]}, {"renyi": []}),
    (
        "keylimits.py:read",
        _limits,
        {"content": b"{"},
        {"content": KeyLimits().to_json().encode()},
    ),
    ("receipt.py:_check_count", _receipt, {"draws_per_node": {"plan": -1}}, {"draws_per_node": {"plan": 1}}),
    ("receipt.py:_check_types", _receipt, {"versions": []}, {"versions": {}}),
    ("receipt.py:_check_types#2", _receipt, {"draws_per_node": []}, {"draws_per_node": {}}),
    ("statement.py:_account", _decoded, {"account": "letters"}, {"account": "0" * 32}),
    ("second_opinion.py:check_opinions", _compared, {"low": 5.0, "high": 6.0}, {"low": 4.0, "high": 5.0}),
    ("second_opinion.py:check_opinions#2", _compared, {"low": 3.0, "high": 4.0}, {"low": 4.0, "high": 5.0}),
]

API = [Api(f"accountant/{at}", call, given, remedied) for at, call, given, remedied in _TABLE]
