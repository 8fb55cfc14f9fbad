from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from affidavit.accountant.attestation.keys import Keyring, home_folder, keyid_of, read_public_key
from affidavit.accountant.errors import UsageError

SECRETS = ("commitment", "assignment", "ledger")


def test_the_home_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AFFIDAVIT_HOME", str(tmp_path / "elsewhere"))
    assert home_folder() == tmp_path / "elsewhere"
    monkeypatch.delenv("AFFIDAVIT_HOME")
    assert home_folder().name == "affidavit"


def test_everything_private_is_readable_by_its_owner_only(keyring: Keyring) -> None:
    assert stat.S_IMODE(keyring.home.stat().st_mode) == 0o700
    files = [path for path in keyring.home.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"signing-key.pem", *(f"{name}.key" for name in SECRETS)}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_the_secrets_are_random_and_different(keyring: Keyring, tmp_path: Path) -> None:
    other = Keyring(tmp_path / "other")
    other.init()
    values = {ring.secret(name) for ring in (keyring, other) for name in SECRETS}
    assert len(values) == 6
    assert {len(value) for value in values} == {32}
    assert other.signer().keyid != keyring.signer().keyid


def test_the_keyid_is_the_digest_of_the_subject_public_key_info(keyring: Keyring) -> None:
    [info] = keyring.show()
    der = load_pem_public_key(info.pem).public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert info.own
    assert info.keyid == hashlib.sha256(der).hexdigest() == keyring.signer().keyid


def test_a_key_is_never_overwritten(keyring: Keyring) -> None:
    before = keyring.signer().keyid
    with pytest.raises(UsageError, match="already"):
        keyring.init()
    (keyring.home / "assignment.key").unlink()
    assert keyring.init(keep_existing=True) == before
    assert len(keyring.secret("assignment")) == 32


@pytest.mark.parametrize("name", ["signing-key.pem", "commitment.key"])
def test_a_private_file_that_others_can_read_is_refused(keyring: Keyring, name: str) -> None:
    (keyring.home / name).chmod(0o640)
    with pytest.raises(UsageError, match="can be read by others") as refusal:
        keyring.signer() if name.endswith(".pem") else keyring.secret("commitment")
    assert f"chmod 600 {keyring.home / name}" in refusal.value.hint


def test_missing_and_damaged_keys_say_what_to_run(keyring: Keyring, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refusal:
        Keyring(tmp_path / "empty").signer()
    assert "affidavit keys init" in refusal.value.hint
    assert Keyring(tmp_path / "empty").show() == ()
    assert not (tmp_path / "empty").exists()
    (keyring.home / "ledger.key").write_text("00ff\n")
    with pytest.raises(UsageError, match="32 bytes"):
        keyring.secret("ledger")
    (keyring.home / "signing-key.pem").write_text("not a key")
    with pytest.raises(UsageError, match="not an Ed25519 private key"):
        keyring.signer()


def test_trusting_another_key_adds_it_once(keyring: Keyring, tmp_path: Path) -> None:
    other = Keyring(tmp_path / "other")
    other.init()
    [info] = other.show()
    assert keyring.trust(info.pem) == keyring.trust(info.pem) == other.signer().keyid
    assert [(known.keyid, known.own) for known in keyring.show()] == [
        (keyring.signer().keyid, True),
        (other.signer().keyid, False),
    ]
    assert set(keyring.trusted()) == {keyring.signer().keyid, other.signer().keyid}
    assert keyid_of(keyring.trusted()[info.keyid]) == info.keyid


def test_only_public_ed25519_keys_can_be_trusted(keyring: Keyring) -> None:
    curve_key = generate_private_key(SECP256R1()).public_key()
    for pem in (curve_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), b"", b"\xff\x00"):
        with pytest.raises(UsageError, match="not an Ed25519 public key"):
            keyring.trust(pem)
    with pytest.raises(UsageError, match="private key"):
        keyring.trust((keyring.home / "signing-key.pem").read_bytes())
    assert len(keyring.show()) == 1


def test_a_trusted_key_under_a_false_name_is_refused(keyring: Keyring, tmp_path: Path) -> None:
    other = Keyring(tmp_path / "other")
    other.init()
    keyring.trust(other.show()[0].pem)
    folder = keyring.home / "trusted"
    os.rename(folder / f"{other.signer().keyid}.pem", folder / f"{'0' * 64}.pem")
    with pytest.raises(UsageError, match="another keyid than its name"):
        keyring.trusted()


def test_a_private_key_does_not_show_in_a_repr(keyring: Keyring) -> None:
    assert repr(keyring.signer()) == f"Signer(keyid={keyring.signer().keyid!r})"
    assert read_public_key(keyring.show()[0].pem)
