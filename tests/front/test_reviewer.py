"""A reviewer who got a certificate, a receipt and text, and the signer's public key: what can be checked, and how."""

from __future__ import annotations

import base64
import copy
import hashlib
import json

import pytest

from affidavit.accountant.attestation.keylimits import KeyLimits
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.attestation.receipt import render
from affidavit.accountant.errors import CertificateError
from affidavit.certification import certify
from affidavit.runfile import load_run
from affidavit.verification import verify
from support.ledgers import rewrite


@pytest.fixture
def released(workplace):
    """A finished run, and the same files in a reviewer's hands, who trusts the signer for this once."""
    assert workplace.generate().code == 0
    return workplace


def _verify(place, *more: str):
    receipt, text = place.out / "receipt.json", place.out / "synthetic.jsonl"
    return place.command("verify", str(place.certificate), "--receipt", str(receipt), "--text", str(text), *more)


def test_all_three_fit(released):
    done = _verify(released, "--recompute")
    assert done.code == 0, done.err
    for line in ("signed by", "of a run under this certificate", "noise from the operating system", "to the byte"):
        assert line in " ".join(done.out.split())
    facts = _verify(released, "--json").json
    assert (facts["guarantee"], facts["text"]) == (True, "the receipt's, to the byte")
    assert facts["receipt"].startswith("signed")


def test_no_private_file_is_needed(released):
    (released.out / "trace.jsonl").unlink()
    released.data.unlink()
    for path in released.keyring.home.glob("ledger.db*"):
        path.unlink()
    assert _verify(released).code == 0


def test_forged_text_is_refused_with_its_digest_or_without(released):
    text, receipt = released.out / "synthetic.jsonl", released.out / "receipt.json"
    text.write_bytes(b'{"id": "north-0", "label": "north", "text": "forged"}\n')
    done = _verify(released)
    assert done.code == 3
    assert "is not the text of its receipt" in done.err
    stated = json.loads(receipt.read_text("utf-8"))
    stated["outputs_sha256"]["synthetic.jsonl"] = hashlib.sha256(text.read_bytes()).hexdigest()
    receipt.write_text(json.dumps(stated, ensure_ascii=False, indent=2) + "\n", "utf-8")
    for done in (_verify(released), released.command("report", released.out, "--certificate", released.certificate)):
        assert done.code == 3
        assert "it was changed" in done.err


def test_another_certificate_of_the_same_run_does_not_fit(released):
    # The account is spent, so the command would refuse; it is the library that asks no ledger.
    another = certify(load_run(released.run_file), keyring=released.keyring)
    released.certificate.write_bytes(another.envelope)  # another salt, another file
    done = _verify(released)
    assert done.code == 3
    assert "another certificate" in done.err
    audit, receipt = released.folder / "audit.toml", released.out / "receipt.json"
    audit.write_text('attack = "one-step"\nmembers = 50\nnon_members = 50\n', "utf-8")
    done = released.command("audit", audit, "--certificate", released.certificate, "--receipt", receipt, "-o", "a")
    assert done.code == 3
    assert "another certificate" in done.err


def test_text_alone_is_not_enough(released):
    done = released.command("verify", str(released.certificate), "--text", str(released.out / "synthetic.jsonl"))
    assert done.code == 2
    assert "--receipt" in done.err


def test_a_missing_file_is_named(released):
    done = released.command("verify", str(released.certificate), "--receipt", "nowhere.json")
    assert done.code == 2
    assert "nowhere.json" in done.err


def test_a_seeded_run_is_no_guarantee_whatever_its_number(empty_workplace):
    place = empty_workplace
    place.keyring.init()
    place.run_file.write_text(place.run_file.read_text("utf-8") + "[randomness]\nnoise = {seed = 7}\n", "utf-8")
    assert place.certify().code == 0
    done = place.command("verify", str(place.certificate), "--recompute")
    assert done.code == 1
    assert "NO GUARANTEE" in done.out
    assert place.command("verify", str(place.certificate), "--json").json["guarantee"] is False


def test_the_ledger_that_paid_still_has_the_entry(released):
    done = _verify(released, "--ledger")
    assert done.code == 0, done.err
    assert "has the entry that paid" in " ".join(done.out.split())
    assert _verify(released, "--ledger", "--json").json["ledger"].startswith("committed")


def test_a_ledger_rewritten_since_is_refused(released):
    """By whoever holds its key: the same entries at another cost, and no anchor that remembers."""
    rewrite(released.ledger, released.keyring, "0.01")
    assert released.command("ledger", "verify").code == 0
    done = _verify(released, "--ledger")
    assert done.code == 4
    assert "is not the one that the receipt names" in done.err


def test_a_ledger_without_a_receipt_is_a_question_without_an_object(released):
    done = released.command("verify", str(released.certificate), "--ledger")
    assert done.code == 2
    assert "--receipt" in done.err


def test_another_receipt_of_the_same_entry_is_refused(released):
    """The signer made two; the ledger noted one."""
    path = released.out / "receipt.json"
    facts = {name: value for name, value in json.loads(path.read_bytes()).items() if name != "signature"}
    path.write_bytes(render({**facts, "generator": "another"}, signer=released.keyring.signer()))
    assert _verify(released).code == 0
    done = _verify(released, "--ledger")
    assert done.code == 3
    assert "another receipt" in done.err


def test_a_receipt_may_name_no_end(released):
    path = released.out / "receipt.json"
    facts = {name: value for name, value in json.loads(path.read_bytes()).items() if name != "signature"}
    path.write_bytes(render({**facts, "ledger_head": None}, signer=released.keyring.signer()))
    assert _verify(released).code == 0
    assert "names no end" in _verify(released, "--ledger").err


def test_a_search_of_text_is_held_against_the_receipt_that_is_named(released):
    """It was not: any text could be searched under another run's receipt, and its findings bound to the certificate."""
    audit, receipt, out = released.folder / "audit.toml", released.out / "receipt.json", released.folder / "found"
    (released.folder / "held_out.jsonl").write_text('{"id": "h", "label": "north", "text": "nobody"}\n', "utf-8")
    (released.folder / "other.jsonl").write_text('{"id": "north-0", "label": "north", "text": "harmless"}\n', "utf-8")
    for text, refused in (("other.jsonl", True), (released.out / "synthetic.jsonl", False)):
        audit.write_text(f'attack = "released-text"\nreleased = "{text}"\nheld_out = "held_out.jsonl"\n', "utf-8")
        done = released.command("audit", audit, "--certificate", released.certificate, "--receipt", receipt, "-o", out)
        assert (done.code == 3) == refused == ("is not the text of its receipt" in done.err), done.err


def test_a_key_that_is_trusted_for_little_puts_no_text_under_a_certificate(released):
    other = Keyring(released.folder / "other")
    other.init()
    limits = KeyLimits(relation="substitution")
    released.keyring.trust(other.show()[0].pem, limits=limits)
    facts = json.loads((released.out / "receipt.json").read_text("utf-8"))
    del facts["signature"]
    text = b'{"id": "north-0", "label": "north", "text": "forged"}\n'
    (released.out / "synthetic.jsonl").write_bytes(text)
    facts["outputs_sha256"] = {"synthetic.jsonl": hashlib.sha256(text).hexdigest()}
    (released.out / "receipt.json").write_bytes(render(facts, signer=other.signer()))
    for done in (_verify(released), released.command("report", released.out, "--certificate", released.certificate)):
        assert done.code == 3
        assert "it is trusted for substitution only" in done.err


def _values(value, path=()):
    """Every value of a document that is no container, with its path."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if inside is None:
        yield path, value
    for key, each in inside or ():
        yield from _values(each, (*path, key))


def _changed(document, path, value):
    """A copy with another value there; without it, where ``value`` is ``...``."""
    copied = here = copy.deepcopy(document)
    for key in path[:-1]:
        here = here[key]
    if value is ...:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return copied


def test_no_value_of_a_certificate_or_a_receipt_can_change_unseen(released):
    """Every value of the statement, the envelope and the receipt: another one, none, or left out."""
    envelope = json.loads(released.certificate.read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    receipt = json.loads((released.out / "receipt.json").read_bytes())
    trusted, seen = released.keyring.trusted(), 0
    for name, document in (("statement", statement), ("envelope", envelope), ("receipt", receipt)):
        for path, value in _values(document):
            for other in (None, ..., 0, "", f"{value}0", [value]):
                if (type(other), other) == (type(value), value):
                    continue
                changed = _changed(document, path, other)
                certificate, stated = released.certificate.read_bytes(), released.out / "receipt.json"
                if name == "statement":
                    payload = base64.b64encode(json.dumps(changed, separators=(",", ":")).encode()).decode()
                    certificate = json.dumps({**envelope, "payload": payload}).encode()
                elif name == "envelope":
                    certificate = json.dumps(changed, separators=(",", ":")).encode()
                else:
                    stated = released.folder / "changed.json"
                    stated.write_text(json.dumps(changed, ensure_ascii=False, indent=2) + "\n", "utf-8")
                with pytest.raises(CertificateError):
                    verify(certificate, receipt=stated, text=released.out / "synthetic.jsonl", trusted=trusted)
                seen += 1
    assert seen > 1000
