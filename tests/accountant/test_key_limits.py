"""Trusted keys that are limited, revoked or rotated: what they signed is taken for that, and no more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from affidavit.accountant.attestation.certificate import verify_envelope
from affidavit.accountant.attestation.keylimits import KeyLimits
from affidavit.accountant.attestation.keys import Keyring, Signer, _public_pem
from affidavit.accountant.errors import PlanError, UntrustedKey, UsageError
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.release.permit import open_permit
from affidavit.accountant.unit import RECORD


@pytest.fixture
def issuer() -> Signer:
    return Signer.of(Ed25519PrivateKey.generate())


def pem(signer: Signer) -> bytes:
    return _public_pem(signer.private_key.public_key())


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"relation": "add-remove"}, "trusted for add-remove only"),
        ({"epsilon": Decimal("0.4")}, "trusted up to ε = 0.4"),
        ({"delta": Decimal("1e-6")}, "trusted up to δ = 0.000001, and this claims 0.00001"),
        ({"accounts": ("letters",)}, "not trusted for the account mail"),
    ],
)
def test_a_key_signs_only_within_its_limits(
    limits: dict[str, Any],
    why: str,
    keyring: Keyring,
    issuer: Signer,
    clock: Any,
    make_certificate: Callable[..., bytes],
) -> None:
    envelope = make_certificate(signer=issuer)
    wider = {
        "relation": "zero-out",
        "epsilon": Decimal("0.5"),
        "delta": Decimal("1e-5"),
        "accounts": ("mail", "letters"),
    }
    keyring.trust(pem(issuer), limits=KeyLimits(**limits))
    with pytest.raises(UntrustedKey, match=why):
        verify_envelope(envelope, trusted=keyring.trusted(), clock=clock, account="mail")
    keyring.trust(pem(issuer), limits=KeyLimits(**{name: wider[name] for name in limits}))
    assert verify_envelope(envelope, trusted=keyring.trusted(), clock=clock, account="mail").keyids == (issuer.keyid,)


def test_trust_ends(keyring: Keyring, issuer: Signer, clock: Any, make_certificate: Callable[..., bytes]) -> None:
    envelope = make_certificate(signer=issuer)
    keyring.trust(pem(issuer), limits=KeyLimits(expires=clock() + timedelta(days=1)))
    verify_envelope(envelope, trusted=keyring.trusted(), clock=clock)
    clock.advance(days=2)
    with pytest.raises(UntrustedKey, match="its trust ended"):
        verify_envelope(envelope, trusted=keyring.trusted(), clock=clock)


def test_the_gate_asks_which_account_a_key_is_for(
    keyring: Keyring,
    issuer: Signer,
    clock: Any,
    make_certificate: Callable[..., bytes],
    make_subject: Callable[..., Any],
) -> None:
    ledger = Ledger(keyring=keyring, clock=clock)
    ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=1, delta="1e-3")
    keyring.trust(pem(issuer), limits=KeyLimits(accounts=("letters",)))
    envelope = make_certificate(signer=issuer)
    with (
        pytest.raises(UntrustedKey, match="account mail"),
        open_permit(envelope, make_subject(), "mail", ledger, trusted=keyring.trusted(), clock=clock),
    ):
        pass
    assert ledger.account("mail").runs == 0


def test_what_a_revoked_key_signed_counts_no_more_and_it_does_not_come_back(
    keyring: Keyring, issuer: Signer, clock: Any, make_certificate: Callable[..., bytes]
) -> None:
    keyring.trust(pem(issuer))
    envelope = make_certificate(signer=issuer)
    verify_envelope(envelope, trusted=keyring.trusted(), clock=clock)
    assert keyring.revoke(issuer.keyid[:12], clock=clock) == issuer.keyid
    with pytest.raises(UntrustedKey):
        verify_envelope(envelope, trusted=keyring.trusted(), clock=clock)
    for again in (lambda: keyring.trust(pem(issuer)), lambda: keyring.revoke(issuer.keyid)):
        with pytest.raises(UsageError, match="was revoked at"):
            again()
    assert issuer.keyid not in keyring.trusted()


def test_a_rotated_key_keeps_its_certificates_and_signs_no_more(
    keyring: Keyring, clock: Any, make_certificate: Callable[..., bytes]
) -> None:
    old, before = keyring.signer(), make_certificate()
    keyid = keyring.rotate()
    assert keyring.signer().keyid == keyid != old.keyid
    assert verify_envelope(before, trusted=keyring.trusted(), clock=clock).keyids == (old.keyid,)
    assert verify_envelope(make_certificate(), trusted=keyring.trusted(), clock=clock).keyids == (keyid,)
    held = b"".join(path.read_bytes() for path in keyring.home.rglob("*") if path.is_file())
    assert held.count(b"BEGIN PRIVATE KEY") == 1


def test_a_compromised_key_is_rotated_away(
    keyring: Keyring, clock: Any, make_certificate: Callable[..., bytes]
) -> None:
    old, before = keyring.signer(), make_certificate()
    keyring.rotate(revoke=True, clock=clock)
    with pytest.raises(UntrustedKey):
        verify_envelope(before, trusted=keyring.trusted(), clock=clock)
    assert [info.keyid for info in keyring.show() if info.limits.revoked] == [old.keyid]


def test_a_rotated_ledger_key_ring_still_reads_its_ledger(keyring: Keyring, clock: Any) -> None:
    ledger = Ledger(keyring=keyring, clock=clock)
    ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=1, delta="1e-3")
    keyring.rotate()
    assert ledger.verify() == 2


@pytest.mark.parametrize("content", [b"", b"{}", b'{"accounts": [], "accounts": []}', b"null", b'{"revoked": null}'])
def test_damaged_limits_are_not_taken_for_none(keyring: Keyring, issuer: Signer, content: bytes) -> None:
    keyring.trust(pem(issuer))
    (keyring.home / "trusted" / f"{issuer.keyid}.json").write_bytes(content)
    with pytest.raises(PlanError):
        keyring.trusted()


def test_our_own_key_is_rotated_not_revoked(keyring: Keyring) -> None:
    with pytest.raises(UsageError, match="our own"):
        keyring.revoke(keyring.signer().keyid)
    for unknown in ("", "f" * 64):
        with pytest.raises(UsageError, match="no key begins"):
            keyring.revoke(unknown)


def test_a_copy_of_the_home_folder_is_a_backup(
    keyring: Keyring, tmp_path: Path, clock: Any, make_certificate: Callable[..., bytes]
) -> None:
    """What docs/keys.md says to do, done: copy, lose, put back, verify; an older copy is refused."""
    import shutil

    ledger = Ledger(keyring=keyring, clock=clock)
    ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=1, delta="1e-3")
    envelope, backup = make_certificate(), tmp_path / "backup"
    shutil.copytree(keyring.home, backup)
    shutil.rmtree(keyring.home)
    shutil.copytree(backup, keyring.home)
    assert ledger.verify() == 2
    assert verify_envelope(envelope, trusted=keyring.trusted(), clock=clock).keyids
    ledger.reserve("mail", relation="zero-out", unit=RECORD, epsilon="0.5", delta="1e-5", certificate_sha256="a" * 64)
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (keyring.home / name).unlink(missing_ok=True)
        if (backup / name).exists():
            shutil.copy(backup / name, keyring.home / name)
    from affidavit.accountant.errors import LedgerAltered

    with pytest.raises(LedgerAltered, match="an old copy restored"):
        ledger.verify()
