"""The command line: one exit code for each kind of outcome, results on stdout, the rest on stderr."""

from __future__ import annotations

import base64
import json
import re
import stat
from pathlib import Path

import pytest

from support.references import plans

GAUSSIAN = {"relation": "add-remove", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 1.0}}


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(GAUSSIAN), encoding="utf-8")
    return path


def test_epsilon_as_json(command, plan_file):
    done = command("epsilon", plan_file, "--json")
    assert done.code == 0
    # Balle and Wang 2018, closed form: 4.377178...
    assert done.json["epsilon_lower"] <= 4.3771780956812245 <= done.json["epsilon_upper"]
    assert set(done.json) == {
        *("epsilon_upper", "epsilon_lower", "delta", "relation", "method", "methods"),
        *("risk", "plan"),
    }
    assert done.json["plan"] == GAUSSIAN
    assert 0.5 < done.json["risk"]["area_under_roc"] < 1.0
    assert {tuple(row) for row in map(dict.keys, done.json["methods"])} == {
        ("name", "epsilon_upper", "epsilon_lower", "applies", "why")
    }
    assert done.err == ""


def test_epsilon_as_a_table_names_the_best_and_the_risk(command, plan_file):
    done = command("epsilon", plan_file)
    assert done.code == 0
    assert "4.37717" in done.out
    assert "area under the ROC curve" in done.out


def test_infinite_epsilon_is_a_result(command, tmp_path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**GAUSSIAN, "plan": {"kind": "gaussian", "noise_multiplier": 0}}), encoding="utf-8")
    done = command("epsilon", path, "--json")
    assert done.code == 0
    assert done.json["epsilon_upper"] == "Infinity"
    assert "Infinity" not in re.sub(r"\"[^\"]*\"", "", done.out), "JSON has no such number"
    assert command("epsilon", path).code == 0


def test_delta_as_json(command, tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('relation = "add-remove"\n[plan]\nkind = "gaussian"\nnoise_multiplier = 1.0\n', encoding="utf-8")
    done = command("delta", path, "--epsilon", "20", "--json")
    # cases/plans.json delta-at-20, closed form at 60 digits
    assert done.json["delta_lower"] <= 2.6647067053654977e-86 * (1 + 1e-12)
    assert done.json["delta_upper"] >= 2.6647067053654977e-86 * (1 - 1e-12)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Usage"),
        (["nonsense"], "No such command"),
        (["epsilon"], "no plan"),
        (["epsilon", "{plan}", "--delta", "0.1"], "disagrees"),
        (["epsilon", "{plan}", "--relation", "zero-out"], "disagrees"),
        (["epsilon", "{plan}", "--method", "guess"], "allowed: basic"),
        (["epsilon", "{plan}", "--method", "adaptive"], "does not apply"),
        (["epsilon", "missing.json"], "cannot be read"),
        (["sigma", "--epsilon", "1", "--delta", "1e-5"], "never assumed"),
        (["plan", "{plan}"], "not TOML"),
        (
            [
                "ledger",
                "init",
                "--dataset",
                "d",
                "--relation",
                "x",
                "--unit",
                "record",
                "--epsilon",
                "1",
                "--delta",
                "0",
            ],
            "x",
        ),
    ],
)
def test_usage_errors_exit_2_and_say_what_is_wrong(command, plan_file, arguments, says):
    done = command(*(argument.format(plan=plan_file) for argument in arguments))
    assert done.code == 2
    assert done.out == "" or says == "Usage"
    assert says in done.err + done.out


def test_an_internal_error_exits_70_without_its_message(command, plan_file, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("jane@example.org")

    monkeypatch.setattr("affidavit.planfile.read_envelope", fails)
    monkeypatch.delenv("AFFIDAVIT_DEBUG", raising=False)
    quiet = command("epsilon", plan_file)
    assert quiet.code == 70
    assert "RuntimeError" in quiet.err
    assert "jane" not in quiet.err
    monkeypatch.setenv("AFFIDAVIT_DEBUG", "1")
    assert "Traceback" in command("epsilon", plan_file).err


def test_interrupt_exits_130(command, plan_file, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("affidavit.planfile.read_envelope", interrupted)
    assert command("epsilon", plan_file).code == 130


def test_a_false_certificate_is_refuted_by_recomputing(workplace):
    """Well signed, and wrong: the signature alone accepts it, recomputing exits 1."""
    from affidavit.accountant.attestation import certificate as certificates
    from affidavit.accountant.attestation.certificate import Claim
    from affidavit.certification import prepare
    from affidavit.runfile import load_run

    subject, _ = prepare(load_run(workplace.run_file), keyring=workplace.keyring)
    envelope = certificates.issue(
        subject,
        claims=[Claim.of(epsilon_upper=0.01, delta=1e-3)],
        signer=workplace.keyring.signer(),
        arithmetic="wishful",
    )
    workplace.certificate.write_bytes(envelope)
    assert workplace.command("verify", workplace.certificate).code == 0
    refuted = workplace.command("verify", workplace.certificate, "--recompute", "--json")
    assert refuted.code == 1
    assert refuted.json["answer"] == "does not hold"


def test_verify_trusts_another_signer_only_when_told(workplace, tmp_path, monkeypatch):
    pem = tmp_path / "signer.pem"
    pem.write_text(workplace.command("keys", "show", "--pem").out, encoding="ascii")
    monkeypatch.setenv("AFFIDAVIT_HOME", str(tmp_path / "other"))
    refused = workplace.command("verify", workplace.certificate)
    assert refused.code == 3
    assert "affidavit keys trust" in refused.err
    assert workplace.command("verify", workplace.certificate, "--trust", pem).code == 0
    assert workplace.command("verify", workplace.certificate).code == 3
    assert workplace.command("keys", "trust", pem).code == 0
    assert workplace.command("verify", workplace.certificate).code == 0


def test_certificate_numbers_are_decimal_strings_not_below_the_json(workplace):
    statement = json.loads(base64.b64decode(json.loads(workplace.certificate.read_bytes())["payload"]))
    (claim,) = statement["predicate"]["claims"]
    shown = workplace.command("plan", workplace.run_file, "--json").json
    assert isinstance(claim["epsilon"], str)
    assert float(claim["epsilon"]) >= shown["epsilon_lower"]
    assert float(claim["epsilon"]) <= shown["epsilon_upper"] * (1 + 1e-2)


@pytest.mark.parametrize(
    ("target", "trials", "code", "verdict"),
    [
        ("protected", 1000, 0, "CONSISTENT"),
        ("unprotected", 1000, 1, "VIOLATION"),
        ("protected", 4, 5, "UNDERPOWERED"),
    ],
)
def test_audits_exit_by_their_outcome(workplace, target, trials, code, verdict):
    audit = workplace.folder / "audit.toml"
    sizes = f"members = {trials}\nnon_members = {trials}\n"
    audit.write_text(f'attack = "one-step"\ntarget = "{target}"\nalpha = 0.05\n{sizes}', encoding="utf-8")
    out = workplace.folder / "audit"
    done = workplace.command("audit", audit, "--certificate", workplace.certificate, "-o", out, "--json")
    assert done.code == code, done.err
    assert done.json["items"][0]["verdict"] == verdict
    assert stat.S_IMODE((out / "findings.json").stat().st_mode) == 0o600


def test_an_audit_of_another_run_is_refused(workplace):
    audit = workplace.folder / "audit.toml"
    audit.write_text('attack = "one-step"\nmembers = 10\nnon_members = 10\n', encoding="utf-8")
    workplace.edit("temperature = 1.0", "temperature = 2.0")
    refused = workplace.command("audit", audit, "--certificate", workplace.certificate, "-o", workplace.folder / "a")
    assert refused.code == 3
    assert f"`affidavit certify {workplace.run_file} -o {workplace.certificate}`" in refused.err


def test_a_report_of_the_whole_folder(workplace):
    assert workplace.generate().code == 0
    done = workplace.command("report", workplace.folder, "--recompute", "--title", "Letters")
    assert done.code == 0, done.err
    page = Path(done.out.strip()).read_text(encoding="utf-8")
    assert "Letters" in page
    assert "http://" not in page.replace("http://www.w3.org/", "")


@pytest.mark.parametrize("row", plans("error"), ids=lambda row: row["id"])
def test_malformed_plans_of_the_table_exit_2(command, tmp_path, row):
    """Each is refused with exit 2, by a message that names the field and what is allowed; nothing is written."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({key: row[key] for key in ("relation", "delta", "plan")}), encoding="utf-8")
    refused = command("epsilon", path)
    assert refused.code == 2
    assert refused.out == ""
    assert "allowed: " in refused.err
    assert refused.err.startswith("Error: ")
    assert list(tmp_path.iterdir()) == [path]


def test_delta_names_what_it_brackets_where_both_are_points(command):
    """The table once said "ε at δ = 0: 1 at least", of a mechanism that is 0.5-DP."""
    done = command("delta", "--epsilon", "1", "--epsilon-each", "0.5", "--relation", "zero-out")
    assert "δ at ε = 1, zero-out" in done.out
    assert "ε at δ = 0" not in done.out


def test_code_that_ends_the_process_gives_no_exit_code_of_ours(command, plan_file, monkeypatch):
    """Whatever ends it within a command, 0 would be an answer."""

    def ends(*_, **__):
        raise SystemExit(0)

    monkeypatch.setattr("affidavit.planfile.read_envelope", ends)
    assert command("epsilon", plan_file).code == 70
