"""Generation refuses, each time with its own message, exit code and the command or value that works.

In every case no text is written, and where the refusal comes before the ledger nothing is, and nothing is charged. A
run that was charged leaves its journal, and nothing else: ``--resume`` goes on from it.
"""

from __future__ import annotations

import shutil
import signal
import stat
import subprocess
import sys

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.release.journal import NAME


def _nothing_written(place) -> bool:
    return not place.out.exists() or not any(place.out.iterdir())


def _only_the_journal(place) -> bool:
    """It is there, nobody else may read it, and beside it there is nothing, no hidden draft either."""
    (left,) = place.out.iterdir()
    return left.name == NAME and stat.S_IMODE(left.stat().st_mode) == 0o600


def _charged(place) -> int:
    return len(place.ledger.account("letters").reservations)


def _no_certificate(place):
    return place.generate(certificate=False)


def _missing_certificate(place):
    place.certificate.unlink()
    return place.generate()


def _another_config(place):
    place.edit("temperature = 1.0", "temperature = 1.1")
    return place.generate()


def _another_relation(place):
    place.edit('relation = "zero-out"', 'relation = "add-remove"')
    return place.generate()


def _another_data_set(place):
    records = place.records()
    records[0]["text"] += " and more"
    place.write_records(records)
    return place.generate()


def _another_size(place):
    place.edit("size = 24", "size = 25")
    place.write_records([*place.records(), {"id": "new", "text": "one more", "label": "north"}])
    return place.generate()


def _tampered(place):
    envelope = place.certificate.read_text(encoding="utf-8")
    at = envelope.index('"payload"') + 200
    place.certificate.write_text(envelope[:at] + ("A" if envelope[at] != "A" else "B") + envelope[at + 1 :])
    return place.generate()


def _unknown_key(place):
    elsewhere = Keyring(place.folder / "elsewhere")
    elsewhere.init()
    (place.keyring.home / "signing-key.pem").unlink()
    shutil.copy(elsewhere.home / "signing-key.pem", place.keyring.home / "signing-key.pem")
    return place.generate()


def _record_without_text(place):
    records = place.records()
    del records[4]["text"]
    place.write_records(records)
    return place.generate()


def _record_without_id(place):
    records = place.records()
    del records[4]["id"]
    place.write_records(records)
    return place.generate()


def _duplicate_ids(place):
    records = place.records()
    records[5]["id"] = records[2]["id"]
    place.write_records(records)
    return place.generate()


def _empty_label(place):
    records = place.records()
    records[6]["label"] = ""
    place.write_records(records)
    return place.generate()


def _batch_larger_than_size(place):
    place.edit("batch_size = 10", "batch_size = 13")
    return place.generate()


def _used_folder(place):
    place.out.mkdir()
    (place.out / "receipt.json").write_text("{}", encoding="utf-8")
    done = place.generate()
    (place.out / "receipt.json").unlink()
    return done


BEFORE_THE_LEDGER = [
    (_no_certificate, 3, "no certificate was given", "affidavit certify {run} -o {certificate}"),
    (_missing_certificate, 3, "cannot be read", "affidavit certify {run} -o {certificate}"),
    (_another_config, 3, "another config", "certify this run"),
    (_another_relation, 3, "certified relation zero-out", "certify this run"),
    (_another_data_set, 3, "other data", "certify the new data"),
    (_another_size, 3, "another size", "certify this run"),
    (_tampered, 3, "does not fit the signed bytes", "Get the file again"),
    (_unknown_key, 3, "", "affidavit keys trust"),
    (_record_without_text, 2, "line 5, text: missing", "Add the text"),
    (_record_without_id, 2, "line 5, id: missing", "Every record needs an id"),
    (_duplicate_ids, 2, "line 6, id: the same id as in line 3", "id of its own"),
    (_empty_label, 2, "line 7, label: empty", "Every record needs a label"),
    (_batch_larger_than_size, 2, "more than the declared size of 24", "At most `generator.batch_size = 12`"),
    (_used_folder, 2, "exists already", "-o {out}-2"),
]


@pytest.mark.parametrize(
    ("refusal", "code", "message", "hint"), BEFORE_THE_LEDGER, ids=[case[0].__name__[1:] for case in BEFORE_THE_LEDGER]
)
def test_refused_before_anything_is_charged(workplace, refusal, code, message, hint):
    refused = refusal(workplace)
    assert refused.code == code, refused.err
    assert refused.out == ""
    assert message in refused.err
    names = {"run": workplace.run_file, "certificate": workplace.certificate, "out": workplace.out}
    assert hint.format(**names) in refused.err
    assert "wind number" not in refused.err, "private text in a refusal"
    assert "Traceback" not in refused.err
    assert _nothing_written(workplace)
    assert _charged(workplace) == 0


def test_another_model(workplace, monkeypatch):
    monkeypatch.setattr("affidavit.generation.models.model_digest", lambda *_, **__: "ab" * 32)
    refused = workplace.generate()
    assert refused.code == 3
    assert "another model" in refused.err
    assert _charged(workplace) == 0


def test_expired(workplace, monkeypatch):
    from datetime import timedelta

    from affidavit.accountant.clock import utc_now
    from affidavit.accountant.errors import CertificateExpired
    from affidavit.runfile import load_run
    from affidavit.synthesis import generate

    with pytest.raises(CertificateExpired, match="expired at") as caught:
        generate(
            load_run(workplace.run_file),
            certificate=workplace.certificate,
            out=workplace.out,
            clock=lambda: utc_now() + timedelta(days=91),
        )
    assert caught.value.exit_code == 3
    assert "affidavit certify" in caught.value.hint
    assert _nothing_written(workplace)
    assert _charged(workplace) == 0


def test_ledger_exhausted(workplace):
    spent = []
    for run in range(10):
        done = workplace.command(
            "generate", workplace.run_file, "--certificate", workplace.certificate, "-o", workplace.folder / f"out{run}"
        )
        spent.append(done)
        if done.code:
            break
    assert [done.code for done in spent] == [0, 4]
    assert "left of (4, 0.001)" in spent[-1].err
    assert "affidavit ledger show" in spent[-1].err
    assert not (workplace.folder / f"out{len(spent) - 1}").exists()


def test_ledger_missing(empty_workplace):
    empty_workplace.keyring.init()
    assert empty_workplace.certify().code == 0
    refused = empty_workplace.generate()
    assert refused.code == 4
    assert "affidavit ledger init --dataset letters --relation zero-out --unit record" in refused.err
    assert _nothing_written(empty_workplace)


def test_account_missing(empty_workplace):
    empty_workplace.keyring.init()
    empty_workplace.open_account()
    empty_workplace.edit('name = "letters"', 'name = "postcards"')
    assert empty_workplace.certify().code == 0
    refused = empty_workplace.generate()
    assert refused.code == 4
    assert "affidavit ledger init --dataset postcards" in refused.err


def test_ledger_altered(workplace):
    import sqlite3

    with sqlite3.connect(workplace.keyring.home / "ledger.db") as database:
        for (trigger,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {trigger}")
        (body,) = database.execute("SELECT body FROM ledger_entries WHERE number = 2").fetchone()
        database.execute(
            "UPDATE ledger_entries SET body = ? WHERE number = 2", (body.replace('"epsilon":"4"', '"epsilon":"9"'),)
        )
    database.close()
    refused = workplace.generate()
    assert refused.code == 4
    assert "entry 2" in refused.err
    assert _nothing_written(workplace)
    assert workplace.command("ledger", "verify").code == 4


def test_a_run_that_fails_half_way_stays_charged_and_leaves_its_journal_alone(workplace, monkeypatch):
    from affidavit.generation.models import toy

    started = toy.ToyModel.start
    calls = iter(range(100))

    def failing(self, *arguments, **keywords):
        if next(calls) == 3:
            raise RuntimeError("the north wind number 7")
        return started(self, *arguments, **keywords)

    monkeypatch.setattr(toy.ToyModel, "start", failing)
    failed = workplace.generate()
    assert failed.code == 70
    assert "wind number" not in failed.err
    assert "AFFIDAVIT_DEBUG=1" in failed.err
    assert _only_the_journal(workplace)
    (reservation,) = workplace.ledger.account("letters").reservations
    assert reservation.ended is None
    shown = workplace.command("ledger", "show")
    assert "never committed: spent" in shown.out
    assert "stays spent" in shown.err


NEVER_DONE = """
import sys, time
from affidavit.cli import run
from affidavit.generation.models.toy import ToyModel

def start(*_, **__):
    print("generating", flush=True)
    time.sleep(600)

ToyModel.start = start
run(sys.argv[1:])
"""


def test_kill_in_the_middle_of_a_generation(workplace):
    """kill -9 after the reservation, while the model computes: spent, explained by `ledger show`, no text."""
    command = [sys.executable, "-c", NEVER_DONE, "generate", str(workplace.run_file)]
    process = subprocess.Popen(
        [*command, "--certificate", str(workplace.certificate), "-o", str(workplace.out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    reached = process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate()
    assert reached == b"generating\n", said
    assert process.returncode == -signal.SIGKILL

    (reservation,) = workplace.ledger.account("letters").reservations
    assert reservation.ended is None
    shown = workplace.command("ledger", "show")
    assert "never committed: spent" in shown.out
    assert "killed" in shown.err
    assert workplace.command("ledger", "verify").code == 0
    assert _only_the_journal(workplace)
    assert workplace.generate().code == 4, "the budget of a killed run is not given back"
    assert _only_the_journal(workplace)
    assert _charged(workplace) == 1


def test_keys_missing(empty_workplace):
    refused = empty_workplace.certify()
    assert refused.code == 2
    assert "affidavit keys init" in refused.err
