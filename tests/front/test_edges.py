"""Files that are no files, numbers of any length, names of any kind: a refusal that names them, never exit 70."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from affidavit.accountant import files
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.release.journal import NAME
from affidavit.accountant.unit import RECORD

PLAN = {"relation": "zero-out", "delta": 1e-5, "plan": {"kind": "pure", "epsilon": 1}}


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


@pytest.fixture
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that ``/dev/zero``-like files meet at once."""
    monkeypatch.setattr(files, "DOCUMENT_BYTES", 2**20)
    monkeypatch.setattr(files, "DATA_BYTES", 2**20)


def _refused(done, *words: str) -> None:
    assert done.code == 2, done.err
    assert "Internal error" not in done.err
    for word in words:
        assert word in done.err


@pytest.mark.parametrize(
    "call",
    [
        "keys init --keep-existing",
        "keys rotate",
        "keys rotate --revoke",
        "keys trust {folder}/other.pem --expires 2030-01-01T00:00:00Z",
        "audit {folder}/audit.toml --certificate {certificate} -o {folder}/new",
        "report {folder} --certificate {certificate}",
        "neighbours {folder}/glue.py:run {folder}/train.jsonl --relation zero-out -o {folder}/new",
    ],
)
def test_a_full_disk_is_no_fault_of_ours(workplace, call):
    """Keys, findings and reports were written past the helper that says so: exit 70, and an audit's outcome lost."""
    other, folder = Keyring(workplace.folder / "other"), workplace.folder
    other.init()
    (folder / "other.pem").write_bytes(other.show()[0].pem)
    assert workplace.certify().code == 0
    if "init" in call:
        (workplace.keyring.home / "assignment.key").unlink()
    (folder / "audit.toml").write_text('attack = "sensitivity"\n', "utf-8")
    (folder / "glue.py").write_text("def run(records):\n    return str(len(records))\n", "utf-8")
    before = {path: path.read_bytes() for path in workplace.keyring.home.rglob("*.*") if "ledger" not in path.name}
    arguments = call.format(folder=folder, certificate=workplace.certificate).split()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", _no_room)
        refused = workplace.command(*arguments)
    _refused(refused, "No space left on device")
    assert "`affidavit " in refused.err or "`-o " in refused.err
    assert before == {path: path.read_bytes() for path in before}
    assert not [path for path in folder.rglob(".*") if path.is_file()], "half a file was left"
    assert workplace.command(*arguments).code in (0, 1, 5)


def _no_room(_descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_audit_asks_first_whether_its_folder_can_be_written(workplace, monkeypatch):
    assert workplace.certify().code == 0
    monkeypatch.setattr("affidavit.auditing.audit", lambda *_, **__: pytest.fail("the work was done before"))
    (workplace.folder / "audit.toml").write_text('attack = "sensitivity"\n', "utf-8")
    (workplace.folder / "file").write_text("")
    place = workplace.folder / "file" / "new"
    audit = ("audit", workplace.folder / "audit.toml", "--certificate", workplace.certificate, "-o", place)
    _refused(workplace.command(*audit), "cannot be written", "-o ")


def test_a_rotation_that_was_cut_short_goes_on(workplace):
    """The old key was revoked, the new one not yet there: every later rotation was refused, for good."""
    old, write = workplace.keyring.signer().keyid, files.write

    def cut(path: Path, *arguments: object, **more: object) -> None:
        if path.name == "signing-key.pem":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, *arguments, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "write", cut)
        assert workplace.command("keys", "rotate", "--revoke").code == 2
    assert workplace.keyring.signer().keyid == old
    assert workplace.command("keys", "rotate").code == 0
    assert workplace.keyring.signer().keyid != old
    assert old not in workplace.keyring.trusted()


@pytest.mark.parametrize(
    "call",
    [
        "delta plan.json",
        "delta plan.json --delta 1",
        "sigma --steps 1e3",
        "sigma --nothing",
        "epsilon --epochs",
        "keys trust a b",
        "ledger raise",
        "init --size 0",
    ],
)
def test_what_click_refuses_ends_with_a_command_that_works(workplace, call):
    refused = workplace.command(*call.split())
    _refused(refused, "Error: ")
    command = refused.err.strip().rpartition("\n")[2].partition("`")[2].rpartition("`")[0]
    assert command.startswith("affidavit "), refused.err
    assert command.endswith("--help")
    assert "Did you mean '--help'" not in refused.err
    assert workplace.command(*command.split()[1:]).code == 0


def test_what_is_no_regular_file_is_not_read(workplace, fifo):
    for path in (fifo, Path("/dev/zero"), workplace.folder):
        named = str(path)
        for arguments in (["epsilon", named], ["plan", named], ["certify", named, "-o", "c.json"]):
            done = workplace.command(*arguments)
            assert done.code == 2, (arguments, done.err)
            assert "Internal error" not in done.err
    workplace.edit('path = "train.jsonl"', 'path = "fifo"')
    _refused(workplace.certify(), "not a regular file")
    assert workplace.command("verify", fifo).code == 3
    assert workplace.command("keys", "trust", "/dev/zero").code == 2
    _refused(workplace.command("verify", workplace.certificate, "--receipt", fifo), "not a regular file")
    _refused(workplace.command("check-trace", fifo, "--certificate", workplace.certificate), "not a regular file")


def test_names_that_no_file_can_have_are_refused(workplace):
    workplace.edit('path = "train.jsonl"', r'path = "tr\u0000ain.jsonl"')
    _refused(workplace.certify(), "not a name that a file can have")
    workplace.edit(r'path = "tr\u0000ain.jsonl"', 'path = "train.jsonl"')
    _refused(workplace.command("certify", workplace.run_file, "-o", "c" * 300), "File name too long")


@pytest.mark.parametrize(
    "content",
    [
        '{"relation": "zero-out", "delta": 1e-5, "plan": {"kind": "pure", "epsilon": 1' + "0" * 5000 + "}}",
        '{"relation": "zero-out", "delta": 1e-5, "plan": ' + "[" * 100_000 + "]" * 100_000 + "}",
        "a = 1" + "0" * 5000,
        "a = " + "[" * 10_000 + "]" * 10_000,
        "\ud83d",
        "\x00",
    ],
    ids=["digits", "deep", "toml digits", "toml deep", "surrogate", "nul"],
)
def test_odd_documents_are_refused_by_every_reader(workplace, content):
    bad = workplace.folder / "bad"
    bad.write_bytes(content.encode("utf-8", "surrogatepass"))
    toml = workplace.folder / "bad.toml"
    toml.write_bytes(bad.read_bytes())
    commands = [
        ["epsilon", bad],
        ["epsilon", toml],
        ["plan", toml],
        ["verify", bad],
        ["verify", workplace.certificate, "--receipt", bad],
        ["audit", toml, "--certificate", workplace.certificate, "-o", "a"],
        ["calibrate", toml, "--epsilon", "1"],
        ["keys", "trust", bad],
        ["check-trace", bad, "--certificate", workplace.certificate],
    ]
    for arguments in commands:
        done = workplace.command(*arguments)
        assert done.code in (2, 3), (arguments, done.code, done.err)
        assert "Internal error" not in done.err, arguments


def test_a_file_over_the_limit_is_refused_before_it_is_parsed(workplace, small_files):
    large = workplace.folder / "large.json"
    large.write_text(json.dumps(PLAN) + " " * 2**20)
    _refused(workplace.command("epsilon", large), "larger than 1 MiB")
    workplace.data.write_bytes(workplace.data.read_bytes() + b" " * 2**20)
    _refused(workplace.certify(), "larger than 1 MiB")


def test_a_key_that_is_a_folder_is_refused(workplace):
    (workplace.keyring.home / "trusted").mkdir(exist_ok=True)
    (workplace.keyring.home / "trusted" / "x.pem").mkdir()
    _refused(workplace.command("verify", workplace.certificate), "x.pem cannot be read: it is a folder")


def test_a_budget_of_delta_zero_is_planned(workplace):
    workplace.edit("delta = 1e-3", "delta = 0.0")
    done = workplace.command("plan", workplace.run_file)
    assert done.code == 0, done.err
    assert "at δ = 0" in done.out


def test_a_full_disk_is_said(workplace, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("affidavit.accountant.files.os.fsync", full)
    before = sorted(workplace.folder.iterdir())
    done = workplace.command("certify", workplace.run_file, "-o", "other.json")
    _refused(done, "No space left on device")
    assert sorted(workplace.folder.iterdir()) == before


def test_of_several_runs_into_one_folder_one_is_paid_for(workplace):
    """Processes of their own, at once: the folder is claimed before the ledger is asked."""
    workplace.ledger.init_account("roomy", relation="zero-out", unit=RECORD, epsilon=40, delta="0.01")
    workplace.edit('name = "letters"', 'name = "roomy"')
    assert workplace.certify().code == 0
    program = "import sys; from affidavit.cli import main; main(sys.argv[1:])"
    arguments = ["generate", workplace.run_file, "--certificate", workplace.certificate, "-o", workplace.out]
    started = [
        subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    codes = sorted(process.wait(timeout=250) for process in started)
    for process in started:
        process.stderr.close()
    assert codes == [0, 2, 2, 2]
    assert workplace.ledger.balance("roomy").runs == 1


def test_a_refused_run_leaves_its_folder_free(workplace):
    workplace.ledger.reserve(
        "letters", relation="zero-out", unit=RECORD, epsilon="3.9", delta=0, certificate_sha256="a" * 64
    )
    assert workplace.generate().code == 4
    assert not workplace.out.exists() or not list(workplace.out.iterdir())


def test_links_in_the_output_folder_lead_nothing_out_of_it(workplace):
    """Somebody who may write there plants links to files that others read: nothing goes through them."""
    elsewhere = workplace.folder / "elsewhere"
    elsewhere.mkdir()
    workplace.out.mkdir(parents=True)
    names = (NAME, f".{NAME}", "synthetic.jsonl", "receipt.json", "trace.jsonl")
    for name in names:
        (workplace.out / name).symlink_to(elsewhere / name)
    (elsewhere / f".{NAME}").write_text("kept", encoding="utf-8")  # and one that is there
    done = workplace.generate()
    assert done.code == 0, done.err
    assert [path.name for path in elsewhere.iterdir()] == [f".{NAME}"]
    assert (elsewhere / f".{NAME}").read_text(encoding="utf-8") == "kept"
    assert not any((workplace.out / name).is_symlink() for name in names)
    assert stat.S_IMODE((workplace.out / "trace.jsonl").stat().st_mode) == 0o600
