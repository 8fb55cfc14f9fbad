"""Keys, ledger, certificates and generation: what is refused before or instead of a charge."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import timedelta

from remedy_cases import Case, Place, nothing

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD, Unit

GENERATE = "generate run.toml --certificate certificate.json -o out"
OPEN = "ledger init --dataset letters --relation zero-out --unit record --epsilon 4 --delta 0.001"


def _after(change: Callable[[Place], object]) -> Callable[[Place], None]:
    """A certified run, then a change."""

    def arrange(place: Place) -> None:
        place.certified()
        change(place)

    return arrange


def _other_ledger(place: Place) -> None:
    """The run was charged on the usual one; its address is forgotten, or another is named by mistake."""
    place.generated()
    place.monkeypatch.setenv("AFFIDAVIT_LEDGER", f"sqlite:///{place.folder}/other.db")
    place.account()


def _write(name: str, content: bytes) -> Callable[[Place], None]:
    def arrange(place: Place) -> None:
        path = place.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o600)

    return arrange


def _tampered(place: Place) -> None:
    text = (place.folder / "certificate.json").read_text(encoding="utf-8")
    at = text.index('"payload"') + 200
    place.write("certificate.json", text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :])


def _foreign(place: Place) -> None:
    """A certificate of somebody else's, whose public key is at hand."""
    place.certified()
    other = Keyring(place.folder / "elsewhere")
    shutil.move(place.keyring.home / "signing-key.pem", place.folder / "signing-key.pem")
    place.keyring.init(keep_existing=True)
    other.home.mkdir()
    shutil.copy(place.folder / "signing-key.pem", other.home / "signing-key.pem")
    (info,) = other.show()
    (place.folder / "KEY.pem").write_bytes(info.pem)


def _no_keys(place: Place) -> None:
    place.write("run.toml", (place.folder / "run.toml").read_text(encoding="utf-8"))


def _wrong_name(place: Place) -> None:
    place.keys()
    other = Keyring(place.folder / "elsewhere")
    other.init()
    (place.keyring.home / "trusted").mkdir(exist_ok=True)
    (info,) = other.show()
    (place.keyring.home / "trusted" / "friend.pem").write_bytes(info.pem)


def _account(relation: str = "zero-out", unit: Unit = RECORD, **budget: str) -> Callable[[Place], None]:
    """A certified run whose account is another one than it needs."""

    def arrange(place: Place) -> None:
        place.keys()
        place.must("certify", "run.toml", "-o", "certificate.json")
        Ledger(keyring=place.keyring).init_account(
            "letters",
            relation=relation,
            unit=unit,
            **{"epsilon": "4", "delta": "0.001", **budget},  # type: ignore[arg-type]
        )

    return arrange


def _spent(place: Place) -> None:
    place.keys()
    place.account(epsilon="1.1", delta="0.001")
    place.must("certify", "run.toml", "-o", "certificate.json")
    place.must("generate", "run.toml", "--certificate", "certificate.json", "-o", "out")


def _spent_under_another_name(place: Place) -> None:
    """The budget is spent; the same file is given another name."""
    _spent(place)
    place.set("run.toml", "data.name", "postcards")


def _near_name(place: Place) -> None:
    place.keys()
    place.set("run.toml", "data.name", "leters")
    place.must("certify", "run.toml", "-o", "certificate.json")
    place.account()


def _no_ledger(place: Place) -> None:
    place.keys()
    place.must("certify", "run.toml", "-o", "certificate.json")


def _full(place: Place) -> None:
    place.certified()
    place.write("out/receipt.json", "{}")


def _a_file_in_the_way(place: Place) -> None:
    place.certified()
    place.write("out", "")


def _another(key: str, value: object) -> Callable[[Place], None]:
    return _after(lambda place: place.set("run.toml", key, value))


def _other_records(place: Place) -> None:
    lines = (place.folder / "train.jsonl").read_text(encoding="utf-8").replace("wind number 3", "wind number 3 again")
    place.write("train.jsonl", lines)


def _expired(place: Place) -> None:
    from affidavit import synthesis
    from affidavit.accountant import clock
    from affidavit.accountant.attestation import certificate as certificates

    place.certified()
    late = clock.utc_now() + timedelta(days=91)
    real = certificates.verify_envelope

    def then(envelope: bytes, **keywords: object) -> object:
        found = json.loads(envelope)
        first = found == json.loads(place.folder.joinpath("first.json").read_bytes())
        return real(envelope, **{**keywords, "clock": (lambda: late) if first else clock.utc_now})  # type: ignore[arg-type]

    shutil.copy(place.folder / "certificate.json", place.folder / "first.json")
    place.monkeypatch.setattr(certificates, "verify_envelope", then)
    assert synthesis.certificates is certificates


def _early(place: Place) -> None:
    from affidavit.accountant.attestation import certificate as certificates
    from affidavit.accountant.clock import utc_now

    place.certified()
    real, calls = certificates.verify_envelope, iter(range(9))

    def before(envelope: bytes, **keywords: object) -> object:
        soon = utc_now() - timedelta(days=2)
        return real(envelope, **{**keywords, "clock": (lambda: soon) if next(calls) == 0 else utc_now})  # type: ignore[arg-type]

    place.monkeypatch.setattr(certificates, "verify_envelope", before)


def _altered(place: Place) -> None:
    import sqlite3

    place.certified()
    shutil.copy(place.keyring.home / "ledger.db", place.folder / "backup.db")
    with sqlite3.connect(place.keyring.home / "ledger.db") as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        database.execute("UPDATE ledger_entries SET body = replace(body, '4', '9') WHERE number = 2")
    database.close()


def _restored(place: Place) -> None:
    shutil.copy(place.folder / "backup.db", place.keyring.home / "ledger.db")


def _private_key_as_public(place: Place) -> None:
    place.keys()
    shutil.copy(place.keyring.home / "signing-key.pem", place.folder / "KEY.pem")


def _public(place: Place) -> None:
    other = Keyring(place.folder / "elsewhere")
    other.init()
    (info,) = other.show()
    (place.folder / "KEY.pem").write_bytes(info.pem)


def _trace(place: Place) -> None:
    place.generated()


def _older_layout(place: Place) -> None:
    import sqlite3

    place.certified()
    with sqlite3.connect(place.keyring.home / "ledger.db") as database:
        database.execute("DROP TABLE ledger_schema")
        database.execute("DROP INDEX ledger_entries_by_id")
    database.close()


def _receipt_at_hand(place: Place) -> None:
    place.generated()
    shutil.copy(place.folder / "out" / "receipt.json", place.folder / "receipt.json")


def _addressed(address: str) -> Callable[[Place], None]:
    def arrange(place: Place) -> None:
        place.keys()
        place.account()
        place.monkeypatch.setenv("AFFIDAVIT_LEDGER", address)

    return arrange


CASES = [
    Case("accountant/attestation/keys.py:_read_private", "certify run.toml -o certificate.json"),
    Case("front/cli/keys.py:show", "keys show --pem"),
    Case("accountant/attestation/keys.py:init", "keys init", lambda place: place.keys(), then=()),
    Case(
        "accountant/attestation/keys.py:read_public_key", "keys trust KEY.pem", _private_key_as_public, by_hand=_public
    ),
    Case(
        "accountant/attestation/keys.py:read_public_key#2",
        "keys trust KEY.pem",
        _write("KEY.pem", b"nothing"),
        by_hand=_public,
    ),
    Case("accountant/attestation/keys.py:show", "keys show", _wrong_name),
    Case(
        "accountant/attestation/keys.py:_read_private#3",
        "keys show",
        lambda place: (place.keys(), (place.keyring.home / "signing-key.pem").chmod(0o644)),
    ),
    Case("accountant/attestation/keys.py:signer", "keys show", _write("home/signing-key.pem", b"nothing")),
    Case(
        "accountant/attestation/keys.py:_read_private",
        "certify run.toml -o certificate.json",
        lambda place: (place.keys(), (place.keyring.home / "commitment.key").unlink()),
    ),
    Case(
        "accountant/attestation/keys.py:secret",
        "certify run.toml -o certificate.json",
        lambda place: (place.keys(), _write("home/commitment.key", b"12")(place)),
    ),
    Case("accountant/ledger/book.py:_verified", "ledger show", lambda place: place.keys(), code=4),
    Case(
        "accountant/ledger/grants.py:account_of",
        "ledger show postcards",
        lambda place: (place.keys(), place.account()),
        code=4,
        then=(),
    ),
    Case("accountant/ledger/store.py:init_account", OPEN, lambda place: (place.keys(), place.account()), then=()),
    Case("accountant/filters/budgets.py:checked_filter", OPEN + " --filter pld", lambda place: place.keys()),
    Case("accountant/filters/budgets.py:checked_filter#2", OPEN + " --filter moments", lambda place: place.keys()),
    Case(
        "accountant/decimals.py:as_written#2", OPEN.replace("--epsilon 4", "--epsilon much"), lambda place: place.keys()
    ),
    Case(
        "accountant/decimals.py:as_written#3", OPEN.replace("--epsilon 4", "--epsilon nan"), lambda place: place.keys()
    ),
    Case("accountant/decimals.py:within", OPEN.replace("--epsilon 4", "--epsilon -4"), lambda place: place.keys()),
    Case("accountant/decimals.py:within", OPEN.replace("--delta 0.001", "--delta 2"), lambda place: place.keys()),
    Case(
        "accountant/decimals.py:_bounded",
        OPEN.replace("--epsilon 4", "--epsilon 1" + "0" * 400),
        lambda place: place.keys(),
    ),
    Case(
        "accountant/validate.py:choice",
        OPEN.replace("--relation zero-out", "--relation zero_out"),
        lambda place: place.keys(),
    ),
    Case("front/cli/ledger.py:_unit", OPEN.replace("--unit record", "--unit user_id:x"), lambda place: place.keys()),
    Case("accountant/unit.py:parse_unit", OPEN.replace("--unit record", "--unit person"), lambda place: place.keys()),
    Case(
        "accountant/ledger/opening.py:account_name",
        OPEN.replace("--dataset letters", "--dataset ' '"),
        lambda place: place.keys(),
    ),
    Case(
        "accountant/ledger/database.py:_sqlite_file",
        "ledger show",
        lambda place: (place.keys(), place.monkeypatch.setenv("AFFIDAVIT_LEDGER", "sqlite://")),
        by_hand=lambda place: (place.monkeypatch.delenv("AFFIDAVIT_LEDGER"), place.account()),
    ),
    Case(
        "accountant/ledger/database.py:__init__",
        "ledger show",
        lambda place: (place.keys(), place.monkeypatch.setenv("AFFIDAVIT_LEDGER", "nonsense")),
        by_hand=lambda place: (
            place.monkeypatch.setenv("AFFIDAVIT_LEDGER", f"sqlite:///{place.folder}/ledger.db"),
            place.account(),
        ),
    ),
    Case(
        "accountant/ledger/database.py:_new_file",
        OPEN,
        lambda place: (
            place.keys(),
            place.write("file", ""),
            place.monkeypatch.setenv("AFFIDAVIT_LEDGER", f"sqlite:///{place.folder}/file/ledger.db"),
        ),
    ),
    Case("accountant/ledger/tables.py:check_version", "ledger show", _older_layout, code=4),
    Case(
        "accountant/ledger/database.py:_is_file",
        "ledger show",
        _addressed("sqlite:///" + "x" * 300),
        by_hand=lambda place: place.monkeypatch.delenv("AFFIDAVIT_LEDGER"),
    ),
    Case(
        "accountant/ledger/witness.py:_unusable",
        "ledger witness none/heads.jsonl",
        lambda place: (place.keys(), place.account()),
        code=4,
        by_hand=lambda place: (place.folder / "none").mkdir(),
    ),
    Case("front/verification.py:verify#2", "verify certificate.json --ledger", _receipt_at_hand),
    Case("accountant/ledger/chain.py:altered", "ledger verify", _altered, code=4, by_hand=_restored),
    Case("accountant/attestation/certificate.py:read", "generate run.toml -o out", _after(nothing), code=3, then=()),
    Case(
        "accountant/attestation/certificate.py:read#2",
        GENERATE,
        _after(lambda place: (place.folder / "certificate.json").unlink()),
        code=3,
    ),
    Case("accountant/attestation/dsse.py:_invalid", GENERATE, _after(_tampered), code=3),
    Case("accountant/attestation/dsse.py:_invalid", GENERATE, _after(_write("certificate.json", b"{}")), code=3),
    Case("accountant/attestation/dsse.py:verify", GENERATE, _foreign, code=3),
    Case("accountant/attestation/certificate.py:_check_same", GENERATE, _another("generator.temperature", 1.1), code=3),
    Case(
        "accountant/attestation/certificate.py:_check_same",
        GENERATE,
        _another("relation", "add-remove"),
        code=3,
        then=(),
        commands=(0, 4),
    ),
    Case("accountant/attestation/certificate.py:check_subject", GENERATE, _after(_other_records), code=3),
    Case("accountant/attestation/certificate.py:verify_envelope", GENERATE, _expired, code=3),
    Case("accountant/attestation/certificate.py:verify_envelope#2", GENERATE, _early, code=3, by_hand=nothing),
    Case("front/synthesis.py:_check_account", GENERATE, _no_ledger, code=4),
    Case("front/synthesis.py:_check_account", GENERATE, _near_name, code=4, past=True),
    Case(
        "accountant/ledger/grants.py:check_owner",
        "certify run.toml -o certificate.json",
        _spent_under_another_name,
        code=4,
        past=True,
    ),
    Case("accountant/ledger/grants.py:_exceeded", GENERATE.replace("out", "new"), _spent, code=4, then=()),
    Case("accountant/ledger/grants.py:_exceeded", GENERATE, _account(epsilon="0.5"), code=4, then=()),
    Case("accountant/ledger/grants.py:_exceeded", GENERATE, _account(delta="0.0001"), code=4, past=True),
    Case("accountant/ledger/grants.py:_check_kind", GENERATE, _account("add-remove"), code=4, past=True),
    Case("accountant/ledger/grants.py:_check_kind", GENERATE, _account(unit=Unit("user_id", 3)), code=4, past=True),
    Case("front/synthesis.py:claimed#2", GENERATE, _full),
    Case("front/writing.py:writable", GENERATE.replace("-o out", "-o out/new"), _a_file_in_the_way),
    Case(
        "front/writing.py:_write",
        "certify run.toml -o file/certificate.json",
        lambda place: (place.keys(), place.write("file", "")),
    ),
    Case(
        "accountant/attestation/certificate.py:read#2",
        "verify certificate.json --recompute",
        lambda place: place.keys(),
        code=3,
    ),
    Case("front/checking.py:check_trace#2", "check-trace out/trace.jsonl", _trace),
    Case(
        "front/checking.py:check_trace#2",
        "check-trace out/trace.jsonl --certificate certificate.json --plan plan.json",
        _trace,
        past=True,
    ),
    Case(
        "front/checking.py:check_trace",
        "check-trace out/trace.jsonl --certificate certificate.json --alpha 2",
        _trace,
        then=(0, 5),
    ),
    Case(
        "audits/trace/events.py:_objects",
        "check-trace t.jsonl --plan plan.json",
        _write("t.jsonl", b"[]\n"),
        file="t.jsonl",
        then=(0, 5),
    ),
    Case(
        "audits/trace/events.py:parse",
        "check-trace t.jsonl --plan plan.json",
        _write("t.jsonl", b"{}\n"),
        file="t.jsonl",
        then=(0, 5),
    ),
    Case(
        "audits/trace/events.py:parse#2",
        "check-trace t.jsonl --plan plan.json",
        _write("t.jsonl", b'{"event": "draw"}\n'),
        file="t.jsonl",
        then=(0, 5),
    ),
    Case(
        "audits/trace/events.py:parse#3",
        "check-trace t.jsonl --plan plan.json",
        _write("t.jsonl", b'{"event": "run"}\n{"event": "run"}\n'),
        file="t.jsonl",
        then=(0, 5),
        by_hand=_write("t.jsonl", b'{"event": "run"}\n'),
    ),
    Case(
        "audits/trace/events.py:stated",
        "check-trace t.jsonl --plan plan.json",
        _write("t.jsonl", b'{"event": "draw", "path": "plan", "use": 0, "noise_multiplier": "x"}\n'),
        file="t.jsonl",
        then=(0, 5),
    ),
    Case(
        "front/cli/_formats.py:with_json",
        "check-trace out/trace.jsonl --certificate certificate.json --json --format junit",
        _trace,
        then=(0, 5),
    ),
    Case("front/cli/claims.py:claims", "claims --markdown --json", then=()),
    Case("accountant/ledger/anchors.py:check_new", "certify run.toml -o again.json", _other_ledger, code=4),
]
