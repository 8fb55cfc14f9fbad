"""Keys, officers, filters and what a certificate states of costs: refusals of an office that shares a budget."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shlex
import shutil
import sqlite3
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from cases_accountant import Office, _decoded, _reserved
from cases_ledger import GENERATE, OPEN, _foreign
from cases_runs import FEW_SHOT, with_settings
from remedy_cases import INSTALLING, Api, Case, Place, nothing

from affidavit.accountant import strictjson
from affidavit.accountant.attestation import receipt, recheck
from affidavit.accountant.attestation.keylimits import KeyLimits
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.bound import bound
from affidavit.accountant.filters import costs
from affidavit.accountant.ledger import Ledger, tables
from affidavit.accountant.ledger.tables import VERSION
from affidavit.accountant.nodes import Gaussian
from affidavit.accountant.unit import RECORD
from affidavit.second_opinion import SecondOpinion, check_opinions
from affidavit.writing import write_new

COSTS = {"renyi": [{"order": "2", "rho": "1"}], "zcdp": None, "gdp": None}


CERTIFY = "certify run.toml -o certificate.json"
RAISE = "ledger raise letters --epsilon 1 --delta 0.01 --request request.json"
HELD = "verify certificate.json --receipt out/receipt.json --ledger"
SAMPLED = with_settings(FEW_SHOT, generator__sampling="poisson")


def _keys(place: Place) -> None:
    place.keys()


def _accounted(place: Place) -> None:
    place.keys()
    place.account()


def _certificate(place: Place) -> None:
    place.certified()


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
    stated = costs.FORM.read({"renyi": [], "zcdp": rho, "gdp": None}, path="costs")
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
    return costs.FORM.read({**COSTS, **changes}, path="costs")


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
        "draws_per_node": {},
        "resumed": 0,
        "lost_draws": 0,
        "closed": False,
        "outputs_sha256": {},
        "versions": {},
    } | changes
    strictjson.record(dict, receipt._FORM).read(facts, path="receipt")


def _compared(*, low: float, high: float) -> None:
    found = bound(Gaussian(1.0), relation="zero-out", delta=1e-5)
    check_opinions(replace(found), [SecondOpinion("another", True, "", low, high)])


def _limited(place: Place) -> None:
    """A certificate by another key, which is trusted for less than it signed."""
    _foreign(place)
    place.must("keys", "trust", "KEY.pem", "--max-epsilon", "0.1")


def _limits_lost(place: Place) -> None:
    _limited(place)
    [limits] = (place.keyring.home / "trusted").glob("*.json")
    limits.rename(place.folder / "backup.json")
    limits.mkdir()


def _limits_back(place: Place) -> None:
    [limits] = (place.keyring.home / "trusted").glob("*.json")
    limits.rmdir()
    (place.folder / "backup.json").rename(limits)


def _asked(place: Place) -> None:
    """A ledger with two officers, of whom the other asks for an account."""
    place.keys()
    place.account()
    other = Keyring(place.folder / "other")
    other.init()
    for name, ring in (("A.pem", place.keyring), ("B.pem", other)):
        (place.folder / name).write_bytes(ring.show()[0].pem)
    shutil.copytree(place.keyring.home, place.folder / "ours")
    place.must("ledger", "officers", "A.pem", "B.pem")
    shutil.copy(place.keyring.home / "ledger.key", other.home / "ledger.key")
    asking = Ledger(keyring=other, url=f"sqlite:///{place.keyring.home}/ledger.db")
    request = asking.request_account("postcards", relation="zero-out", unit=RECORD, epsilon=1, delta=0)
    (place.folder / "request.json").write_bytes(request)


def _done(place: Place) -> None:
    _asked(place)
    place.must("ledger", "approve", "request.json")
    place.must("ledger", "apply", "request.json")


def _careless_server(place: Place) -> None:
    """A ledger on a server that was told not to wait for its disk."""
    server = place.postgresql()
    place.keys()
    place.monkeypatch.setenv("AFFIDAVIT_LEDGER", server.new_place())
    server.set("ALTER SYSTEM SET fsync = 'off'", "SELECT pg_reload_conf()")


class _Known:
    """The layout that is known: the next one, once a newer version is installed."""

    def _number(self) -> int:
        return VERSION + (importlib.util.find_spec("affidavit_next") is not None)

    def __lt__(self, other: int) -> bool:
        return self._number() < other

    def __gt__(self, other: int) -> bool:
        return self._number() > other

    def __format__(self, spec: str) -> str:
        return str(self._number())


def _newer_layout(place: Place) -> None:
    """A ledger that a newer version keeps, which is where pip looks."""
    place.certified()
    with sqlite3.connect(place.keyring.home / "ledger.db") as database:
        database.execute("UPDATE ledger_schema SET version = ?", (VERSION + 1,))
    database.close()
    wheels = place.folder / "wheels"
    wheels.mkdir()
    about = "affidavit-99.0.dist-info"
    with zipfile.ZipFile(wheels / "affidavit-99.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("affidavit_next.py", "")
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: affidavit\nVersion: 99.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    INSTALLING.update(PIP_FIND_LINKS=str(wheels), PIP_TARGET=INSTALLING["PYTHONPATH"])
    place.monkeypatch.setattr(tables, "VERSION", _Known())


def _another_ledger(place: Place) -> None:
    """The account is opened anew in an empty ledger, after the run was certified for the old one."""
    place.certified()
    place.monkeypatch.setenv("AFFIDAVIT_LEDGER", f"sqlite:///{place.folder}/new.db")
    place.account()


def _filtered(name: str, *, epsilon: str, changed: Callable[[Place], object] = nothing) -> Callable[[Place], None]:
    """A run, and an account that adds up by another filter."""

    def arrange(place: Place) -> None:
        place.keys()
        changed(place)
        place.must(*shlex.split(OPEN.replace("--epsilon 4", f"--epsilon {epsilon}")), "--filter", name)

    return arrange


def _divided(place: Place) -> None:
    """An account for a part of the records, and a run on all of them."""
    place.keys()
    place.must(*shlex.split(OPEN), "--part", "1/2")
    shutil.copy(place.folder / "train.jsonl", place.folder / "RECORDS.jsonl")


def _resigned(place: Place, **changes: object) -> None:
    """Our own receipt of the run with other facts, signed again."""
    place.generated()
    path = place.folder / "out" / "receipt.json"
    shutil.copy(path, place.folder / "kept.json")
    facts = json.loads(path.read_bytes()) | changes
    stated = {name: value for name, value in facts.items() if name != "signature"}
    path.write_bytes(receipt.render(stated, signer=place.keyring.signer()))


def _seeded(place: Place) -> None:
    place.set("run.toml", "randomness", {"noise": {"seed": 7}})
    place.generated()


def _protected(place: Place) -> None:
    place.set("run.toml", "randomness.noise", "secure")
    place.must("certify", "run.toml", "-o", "certificate.json")
    shutil.rmtree(place.folder / "out")
    place.must("generate", "run.toml", "--certificate", "certificate.json", "-o", "out")


def _end(*, entry: str) -> None:
    office = Office()
    ledger = office.account()
    made = _reserved(ledger)
    ledger.end_after(entry or made)


def _written(*, name: str) -> None:
    """A file that appears between the look and the writing."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("run.toml").write_text("mine", encoding="utf-8")
        write_new(Path(name), "ours")
        assert Path("run.toml").read_text(encoding="utf-8") == "mine"


CASES = [
    Case("accountant/attestation/certificate.py:check_limits", "verify certificate.json", _limited, code=3),
    Case("accountant/attestation/keys.py:_limits", "keys show", _limits_lost, by_hand=_limits_back),
    Case("accountant/ledger/approvals.py:_refused", "ledger apply request.json", _asked, code=4, then=()),
    Case("accountant/ledger/approvals.py:approve", "ledger approve certificate.json", _certificate, then=()),
    Case("accountant/ledger/database.py:_check_session", OPEN, _careless_server, code=4),
    Case("accountant/ledger/tables.py:check_version#2", "ledger show", _newer_layout, code=4),
    Case("accountant/ledger/grants.py:grant", GENERATE, _another_ledger, code=4),
    Case(
        "accountant/ledger/grants.py:check_pays",
        CERTIFY,
        _filtered("gdp", epsilon="40", changed=SAMPLED),
        code=4,
        then=(),
    ),
    Case("accountant/ledger/grants.py:_overdrawn", CERTIFY, _filtered("zcdp", epsilon="1"), code=4, then=()),
    Case("accountant/ledger/grants.py:_check_part", CERTIFY, _divided, code=4, then=()),
    Case("accountant/ledger/parts.py:read", OPEN + " --part 3/2", _keys),
    Case("accountant/ledger/parts.py:read#2", OPEN.replace("--unit record", "--unit user_id:3") + " --part 1/2", _keys),
    Case("front/cli/ledger.py:part", "ledger part letters train.jsonl -o part.jsonl", _accounted, then=()),
    Case("accountant/ledger/store.py:apply", "ledger apply request.json", _done, code=4, then=()),
    Case("accountant/ledger/store.py:init_account#2", OPEN.replace("letters", "cards"), _named, code=4),
    Case("accountant/ledger/opening.py:raising", RAISE, _named),
    Case("front/verification.py:_paid", HELD, lambda place: _resigned(place, ledger_head=None)),
    Case("front/verification.py:_paid#2", HELD, lambda place: _resigned(place, generator="another"), code=3, then=()),
    Case(
        "front/verification.py:_paid#2",
        HELD,
        lambda place: _resigned(place, generator="another"),
        code=3,
        by_hand=lambda place: (place.folder / "kept.json").replace(place.folder / "out" / "receipt.json"),
    ),
    Case(
        "front/exports/release.py:export",
        "export certificate.json --receipt out/receipt.json --to card",
        _seeded,
        by_hand=_protected,
    ),
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
    ("attestation/recheck.py:_refuse", _understated, {"rho": "0.4"}, {"rho": "0.5"}),
    ("attestation/keys.py:revoke", _revoke, {"whose": "nobody's"}, {"whose": "theirs"}),
    ("attestation/keys.py:revoke#2", _revoke, {"whose": "ours"}, {"whose": "theirs"}),
    ("attestation/keys.py:_refuse_revoked", _revoke_again, {"twice": True}, {"twice": False}),
    ("decimals.py:within", _costs, {"zcdp": "-1"}, {"zcdp": "1"}),
    ("filters/costs.py:_read", _costs, {"renyi": [{"order": "7.3", "rho": "1"}]}, {"renyi": []}),
    (
        "attestation/keylimits.py:read",
        _limits,
        {"content": b"{"},
        {"content": KeyLimits().to_json().encode()},
    ),
    ("ledger/store.py:end_after", _end, {"entry": "0" * 32}, {"entry": ""}),
    ("strictjson.py:_count", _receipt, {"draws_per_node": {"plan": -1}}, {"draws_per_node": {"plan": 1}}),
    ("strictjson.py:read#2", _receipt, {"versions": []}, {"versions": {}}),
    ("strictjson.py:hexadecimal", _decoded, {"account": "letters"}, {"account": "0" * 32}),
]

API = [Api(f"accountant/{at}", call, given, remedied) for at, call, given, remedied in _TABLE] + [
    Api("front/second_opinion.py:check_opinions", _compared, {"low": 5.0, "high": 6.0}, {"low": 4.0, "high": 5.0}),
    Api("front/second_opinion.py:check_opinions#2", _compared, {"low": 3.0, "high": 4.0}, {"low": 4.0, "high": 5.0}),
    Api("front/writing.py:write_new", _written, {"name": "run.toml"}, {"name": "run-2.toml"}),
]
