"""From run file to text on the toy model, by commands; and what each leaves behind."""

from __future__ import annotations

import hashlib
import json
import stat

import pytest

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Laplace, Poisson, Repeat
from affidavit.accountant.settle import settle
from affidavit.accountant.tradeoff import privacy_curve
from affidavit.accountant.unit import RECORD


def test_certify_generate_show(workplace):
    done = workplace.command(
        "generate", workplace.run_file, "--certificate", workplace.certificate, "-o", workplace.out, "--json"
    )
    assert done.code == 0, done.err
    assert done.json["texts"] == 2
    assert done.json["guarantee"] is True

    texts = [json.loads(line) for line in (workplace.out / "synthetic.jsonl").read_text().splitlines()]
    assert [text["label"] for text in texts] == ["north", "south"]
    receipt = json.loads((workplace.out / "receipt.json").read_text())
    assert receipt["certificate_sha256"] == hashlib.sha256(workplace.certificate.read_bytes()).hexdigest()
    assert receipt["outputs_sha256"]["synthetic.jsonl"] == (
        hashlib.sha256((workplace.out / "synthetic.jsonl").read_bytes()).hexdigest()
    )
    assert stat.S_IMODE((workplace.out / "trace.jsonl").stat().st_mode) == 0o600

    shown = workplace.command("ledger", "show", "letters", "--json")
    (reservation,) = shown.json[0]["reservations"]
    assert reservation["entry"] == done.json["ledger_entry"]
    assert reservation["state"].startswith("committed")
    assert reservation["receipt_sha256"] == hashlib.sha256((workplace.out / "receipt.json").read_bytes()).hexdigest()
    assert workplace.command("ledger", "verify").code == 0


def test_a_ledger_on_a_server_charges_as_a_file_does(empty_workplace, postgresql, monkeypatch):
    monkeypatch.setenv("AFFIDAVIT_LEDGER", postgresql.new_place())
    empty_workplace.keyring.init()
    account = ("--dataset", "letters", "--relation", "zero-out", "--unit", "record")
    opened = empty_workplace.command("ledger", "init", *account, "--epsilon", "4", "--delta", "0.001")
    assert opened.code == 0, opened.err
    assert empty_workplace.certify().code == 0
    done = empty_workplace.generate("--json")
    assert done.code == 0, done.err
    shown = empty_workplace.command("ledger", "show", "letters", "--json")
    (reservation,) = shown.json[0]["reservations"]
    assert reservation["entry"] == done.json["ledger_entry"]
    assert empty_workplace.command("ledger", "verify").code == 0
    assert not list(empty_workplace.keyring.home.glob("ledger.db*"))


def test_verify_says_which_of_the_two_it_did(workplace):
    signature = workplace.command("verify", workplace.certificate)
    assert signature.code == 0
    assert "not recomputed" in signature.out
    number = workplace.command("verify", workplace.certificate, "--recompute", "--json")
    assert number.code == 0
    assert number.json["number"] == "recomputed"
    assert number.json["answer"] == "holds"
    claimed = float(number.json["claims"][0]["epsilon"])
    (check,) = number.json["checks"]
    assert check["epsilon_lower"] <= claimed * (1 + 1e-3)
    assert claimed <= check["epsilon_upper"] * (1 + 2e-3)


def test_plan_needs_neither_data_nor_keys(empty_workplace):
    empty_workplace.data.unlink()
    shown = empty_workplace.command("plan", empty_workplace.run_file, "--json")
    assert shown.code == 0, shown.err
    assert shown.json["fits"] is True
    assert shown.json["epsilon_lower"] <= shown.json["epsilon_upper"]
    assert not empty_workplace.keyring.home.exists()


def test_the_certified_number_is_at_least_the_float_lower_side(workplace):
    planned = workplace.command("plan", workplace.run_file, "--json").json
    verified = workplace.command("verify", workplace.certificate, "--json").json
    assert float(verified["claims"][0]["epsilon"]) >= planned["epsilon_lower"]


def test_certify_refuses_above_the_budget_and_names_values_that_fit(empty_workplace):
    empty_workplace.keyring.init()
    empty_workplace.edit("epsilon = 4.0", "epsilon = 0.5")
    refused = empty_workplace.certify()
    assert refused.code == 4
    assert "more than the budget of 0.5" in refused.err
    assert not empty_workplace.certificate.exists()
    hint = refused.err.strip().splitlines()[-1]
    named = dict(part.strip("`").split(" = ") for part in hint.rstrip(".").partition(": ")[2].split(", "))
    assert {"generator.temperature", "generator.max_tokens"} <= set(named)
    temperature = named["generator.temperature"]
    empty_workplace.edit("temperature = 1.0", f"temperature = {temperature}")
    assert empty_workplace.certify().code == 0


def test_a_seeded_run_says_that_it_carries_no_guarantee(empty_workplace):
    text = empty_workplace.run_file.read_text(encoding="utf-8")
    empty_workplace.run_file.write_text(text + "[randomness]\nnoise = {seed = 7}\n", encoding="utf-8")
    empty_workplace.keyring.init()
    empty_workplace.open_account()
    certified = empty_workplace.certify()
    assert "NO GUARANTEE" in certified.err
    done = empty_workplace.generate()
    assert done.code == 0, done.err
    assert "NO GUARANTEE" in done.err
    first = (empty_workplace.out / "receipt.json").read_text(encoding="utf-8").splitlines()[1]
    assert "NONE" in first


def test_public_artefacts_are_the_same_for_neighbouring_data(workplace, empty_workplace):
    """Everything public but the text and random ids: equal for two data sets that differ in one record."""

    def public() -> tuple[dict[str, object], dict[str, object]]:
        envelope = json.loads(workplace.certificate.read_text(encoding="utf-8"))
        import base64

        statement = json.loads(base64.b64decode(envelope["payload"]))
        data = statement["subject"].pop()
        assert set(data["digest"]) == {"hmac-sha256"}
        for name in ("notBefore", "notAfter", "account"):
            statement["predicate"].pop(name)
        done = workplace.generate()
        assert done.code == 0, done.err
        receipt = json.loads((workplace.out / "receipt.json").read_text(encoding="utf-8"))
        assert receipt["ledger_head"]["count"] == 4  # the ledger, its account, the note of the gate, the reservation
        for name in (
            "certificate_sha256",
            "ledger_entry",
            "ledger_head",
            "ended",
            "outputs_sha256",
            "draws_per_node",
            "signature",
        ):
            receipt.pop(name)
        for name in ("synthetic.jsonl", "receipt.json", "trace.jsonl"):
            (workplace.out / name).unlink()
        return statement, receipt

    first = public()
    records = workplace.records()
    records[3]["text"] = "something else altogether, and a good deal longer than it was before"
    workplace.write_records(records)
    workplace.keyring.home.joinpath("ledger.db").unlink()
    for anchor in workplace.keyring.home.joinpath("anchors").iterdir():
        anchor.unlink()
    workplace.open_account()
    assert workplace.certify().code == 0
    assert public() == first


def test_the_curve_is_nowhere_above_the_claim(workplace):
    """From the claimed ε on, the certificate's own curve may not say a larger δ than its claim."""
    from affidavit.accountant.attestation import certificate as certificates

    found = certificates.load(workplace.certificate, trusted=workplace.keyring.trusted())
    beyond = [point for point in found.curve if point.epsilon >= found.claim.epsilon]
    assert beyond
    assert all(point.delta <= found.claim.delta for point in beyond)


def test_the_same_records_under_another_name_get_no_second_budget(workplace):
    assert workplace.generate().code == 0
    workplace.edit('name = "letters"', 'name = "again"')
    workplace.write_records([record | {"id": f"new-{n}"} for n, record in enumerate(workplace.records())])
    assert workplace.certify().code == 4
    workplace.ledger.init_account("again", relation="zero-out", unit=RECORD, epsilon=4, delta="0.001")
    for path in workplace.out.iterdir():
        path.unlink()
    done = workplace.certify()
    assert done.code == 4
    assert 'name = "letters"' in done.err
    assert workplace.generate().code == 3, "the certificate is for the same records under their own name"
    assert workplace.ledger.balance("again").runs == 0


def test_certificate_and_receipt_say_that_rows_were_tried(workplace):
    done = workplace.command("verify", workplace.certificate)
    assert "no private row of a batch moves another: tried before the first draw" in done.out + done.err
    assert workplace.generate().code == 0
    receipt = json.loads((workplace.out / "receipt.json").read_text())
    assert receipt["versions"]["rows"] == "each row computed by itself"


def test_certify_and_ledger_show_say_how_many_more_runs_fit(workplace):
    """And so many fit."""
    workplace.ledger.init_account("roomy", relation="zero-out", unit=RECORD, epsilon=12, delta="0.01", filter="renyi")
    workplace.edit('name = "letters"', 'name = "roomy"')
    certified = workplace.command("certify", workplace.run_file, "-o", workplace.certificate, "--json")
    assert certified.code == 0, certified.err
    runs = certified.json["runs"]
    assert runs >= 2
    for done in range(runs):
        shown = workplace.command("ledger", "show", "roomy", "--json").json[0]["runs_like_the_last"]
        assert shown == (runs - done if done else None)
        out = workplace.folder / f"out{done}"
        made = workplace.command("generate", workplace.run_file, "--certificate", workplace.certificate, "-o", out)
        assert made.code == 0, made.err
    said = workplace.command("ledger", "show", "roomy")
    assert "0 more runs like the last" in said.out + said.err
    last = workplace.command("generate", workplace.run_file, "--certificate", workplace.certificate, "-o", "one-more")
    assert last.code == 4


@pytest.mark.parametrize("name", ["run.toml", "train.jsonl", "."])
def test_what_is_no_certificate_is_never_lost_to_one(workplace, name):
    """It advised `affidavit certify run.toml -o run.toml`, which put the certificate in the place of the run file."""
    place = workplace.folder / name
    before = {path: path.read_bytes() for path in workplace.folder.iterdir() if path.is_file()}
    refused = workplace.command("generate", workplace.run_file, "--certificate", place, "-o", workplace.out)
    assert refused.code == 3
    assert f"-o {workplace.folder / 'certificate-2.json'}`" in refused.err
    assert workplace.command("certify", workplace.run_file, "-o", place).code == 2
    assert {path: path.read_bytes() for path in workplace.folder.iterdir() if path.is_file()} == before
    assert workplace.certify().code == 0, "an older certificate makes room"


def test_where_the_verifier_knows_no_profile_the_curve_is_the_claim(monkeypatch):
    """Samples so rare that δ forgives them settle without any formula for what runs on them; `certify` refused."""
    plan = Poisson(1e-7, Repeat(3, Laplace(1.5)))
    claim = settle(plan, relation="add-remove", delta=1e-5)
    assert claim.epsilon_upper == 0.0

    def unknown(*_, **__):
        raise NotSupported("no formula", hint="none")

    monkeypatch.setattr("affidavit.accountant.tradeoff.recomputed_curve", unknown)
    assert privacy_curve(plan, relation="add-remove", delta=1e-5).points == ((0.0, 1e-5),)
