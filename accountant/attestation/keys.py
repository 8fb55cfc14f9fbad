"""Keys: who signs certificates here, whom we trust, and the secrets that never leave.

    AFFIDAVIT_HOME/                 0700; default: the platform's user data folder
    ├── signing-key.pem             0600, Ed25519, PKCS #8: signs certificates
    ├── commitment.key              0600, 32 random bytes: keys the commitment to the data
    ├── assignment.key              0600, 32 random bytes: assigns records to batches
    ├── ledger.key                  0600, 32 random bytes: chains the ledger's entries
    └── trusted/<keyid>.pem         public keys of others whose certificates are accepted, and retired ones of ours;
                <keyid>.json        what each may sign (``keylimits``), where that is not anything

A keyid is the SHA-256 of the public key's SubjectPublicKeyInfo (DER), in hexadecimal. One's own
key is always trusted. Whoever can read this folder can sign in the owner's name, recompute
commitments to guessed data and forge ledger entries: it is what has to be kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shlex
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from affidavit.accountant import files
from affidavit.accountant.attestation.keylimits import UNLIMITED, KeyLimits, Trust
from affidavit.accountant.clock import Clock, show_instant, utc_now
from affidavit.accountant.errors import UsageError

__all__ = [
    "KeyInfo",
    "Keyring",
    "SecretName",
    "Signer",
    "TrustedKeys",
    "home_folder",
    "keyid_of",
    "read_pem",
    "read_public_key",
]

TrustedKeys = Mapping[str, Ed25519PublicKey]
SecretName = Literal["commitment", "assignment", "ledger"]

_SIGNING_KEY = "signing-key.pem"
_SECRET_BYTES = 32
_INIT_HINT = "Run: `affidavit keys init`"
_KEPT = "It signs already: `affidavit keys show`"


def home_folder() -> Path:
    """``AFFIDAVIT_HOME``, or the platform's user data folder for affidavit."""
    named = os.environ.get("AFFIDAVIT_HOME")
    if named:
        return Path(named).expanduser()
    import platformdirs

    return platformdirs.user_data_path("affidavit", appauthor=False)


def keyid_of(key: Ed25519PublicKey) -> str:
    """SHA-256 of the key's SubjectPublicKeyInfo in DER, hexadecimal."""
    return hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()


def _public_pem(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _new_pem() -> tuple[Signer, bytes]:
    """A new key, and the file's content."""
    key = Ed25519PrivateKey.generate()
    return Signer.of(key), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def read_pem(path: Path) -> bytes:
    """A key file's content. Raises ``UsageError``."""
    try:
        return files.read_bytes(path)
    except OSError as error:
        raise UsageError(f"the key {path} cannot be read: {error.strerror}", hint="Check the path.") from None


def read_public_key(pem: bytes) -> Ed25519PublicKey:
    """Read an Ed25519 public key in PEM. Raises ``UsageError``, also on a private key."""
    if b"PRIVATE KEY" in pem:
        raise UsageError(
            "this file holds a private key, which nobody else should have",
            hint="Ask its owner for what `affidavit keys show --pem` prints, and for a new key.",
        )
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise UsageError(
            "not an Ed25519 public key in PEM", hint="The signer's `affidavit keys show --pem` prints the right form."
        )
    return key


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key and the keyid of its public half; the key never shows in a repr."""

    keyid: str
    private_key: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def of(cls, private_key: Ed25519PrivateKey) -> Signer:
        return cls(keyid_of(private_key.public_key()), private_key)

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature (RFC 8032), 64 bytes."""
        return self.private_key.sign(message)


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A known key: ``own`` is ours, the others stand in ``trusted/`` with their ``limits``."""

    keyid: str
    own: bool
    pem: bytes = field(repr=False)
    limits: KeyLimits = UNLIMITED


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys in one home folder. Reading never creates anything; ``init`` does."""

    home: Path

    @classmethod
    def default(cls) -> Keyring:
        return cls(home_folder())

    def init(self, *, keep_existing: bool = False) -> str:
        """Create the folder, the signing key and the secrets; returns the keyid.

        With ``keep_existing`` only what is missing is made. Otherwise an existing signing key
        is a ``UsageError``, as a link to one that is gone always is: a key is never overwritten.
        """
        path = self.home / _SIGNING_KEY
        if self.exists() and not keep_existing:
            raise UsageError(f"there is a signing key in {self.home} already", hint=_KEPT)
        if path.is_symlink() and not path.exists():
            raise UsageError(
                f"{path} is a link to a key that is not there",
                hint=f"Put the key back where it leads, or make a new one: `rm {_quoted(path)}`, "
                "then `affidavit keys init --keep-existing`",
            )
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o700)
        for name in get_args(SecretName):
            _create(self.home / f"{name}.key", secrets.token_hex(_SECRET_BYTES).encode() + b"\n")
        _create(path, _new_pem()[1])  # or keep the one that another process has made by now
        return self.signer().keyid

    def exists(self) -> bool:
        """Whether there is a signing key."""
        return (self.home / _SIGNING_KEY).exists()

    def signer(self) -> Signer:
        """Our signing key. Raises ``UsageError`` if it is missing, damaged or readable by others."""
        path = self.home / _SIGNING_KEY
        pem = _read_private(path)
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise UsageError(
                f"{path} is not an Ed25519 private key without a password",
                hint=f"Restore it from a backup, or move it away: "
                f"`mv {_quoted(path)} {_quoted(path)}.old`, then `affidavit keys init`",
            )
        return Signer.of(key)

    def secret(self, name: SecretName) -> bytes:
        """One of the random secrets, 32 bytes. Raises ``UsageError`` as ``signer`` does."""
        path = self.home / f"{name}.key"
        try:
            value = bytes.fromhex(_read_private(path).decode("ascii").strip())
        except ValueError:
            value = b""
        if len(value) != _SECRET_BYTES:
            raise UsageError(f"{path} does not hold {_SECRET_BYTES} bytes in hexadecimal", hint=_restored(path))
        return value

    def trust(self, pem: bytes, *, limits: KeyLimits = UNLIMITED) -> str:
        """Accept certificates signed by this public key within ``limits`` from now on; returns its keyid.

        Limits of a key that is trusted already are replaced. Raises ``UsageError`` for one that was revoked.
        """
        key = read_public_key(pem)
        keyid = keyid_of(key)
        folder = self.home / "trusted"
        folder.mkdir(parents=True, exist_ok=True)
        self._refuse_revoked(keyid)
        # The limits first: a key is never trusted for more than was said, not even for a moment.
        if limits != UNLIMITED or self._limits_file(keyid).exists():
            self._limit(keyid, limits)
        _create(folder / f"{keyid}.pem", _public_pem(key))
        return keyid

    def revoke(self, keyid: str, *, clock: Clock = utc_now) -> str:
        """Take nothing that a key signed any more, whenever it was signed; for good. Returns the whole keyid.

        ``keyid`` may be its beginning. Raises ``UsageError`` for our own key (``rotate`` it), and for none or several.
        """
        known = [info for info in self.show() if info.keyid.startswith(keyid)] if keyid else []
        if len(known) != 1:
            raise UsageError(
                f"{'several keys begin' if known else 'no key begins'} with {keyid[:64]!r}",
                hint="Which there are: `affidavit keys show`",
            )
        (info,) = known
        if info.own:
            raise UsageError("this is our own signing key", hint="Run: `affidavit keys rotate --revoke`")
        self._refuse_revoked(info.keyid)
        self._limit(info.keyid, replace(info.limits, revoked=clock()))
        return info.keyid

    def rotate(self, *, revoke: bool = False, clock: Clock = utc_now) -> str:
        """A new signing key; returns its keyid. What the old one signed stays accepted here, unless ``revoke``.

        The old private key is gone afterwards; its public half stays in ``trusted/``. The secrets stay: ledgers
        and commitments are keyed with them. Others have to trust the new key before they accept what it signs.
        """
        old = self.signer()
        new, pem = _new_pem()
        if self._limits(old.keyid).revoked is None:  # it is, where a rotation before got no further than that
            self.trust(_public_pem(old.private_key.public_key()))
            if revoke:
                self._limit(old.keyid, KeyLimits(revoked=clock()))
        files.write(self.home / _SIGNING_KEY, pem)
        return new.keyid

    def _limits_file(self, keyid: str) -> Path:
        return self.home / "trusted" / f"{keyid}.json"

    def _limits(self, keyid: str) -> KeyLimits:
        path = self._limits_file(keyid)
        try:
            content = files.read_bytes(path)
        except FileNotFoundError:
            return UNLIMITED
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}", hint="Restore it from a backup.") from None
        return KeyLimits.read(content, path=path.name)

    def _limit(self, keyid: str, limits: KeyLimits) -> None:
        files.write(self._limits_file(keyid), limits.to_json().encode())

    def _refuse_revoked(self, keyid: str) -> None:
        if (revoked := self._limits(keyid).revoked) is not None:
            raise UsageError(
                f"the key {keyid[:16]} was revoked at {show_instant(revoked)}, for good",
                hint="Ask its owner for a new key: `affidavit keys rotate --revoke`, then `affidavit keys show --pem`",
            )

    def show(self) -> tuple[KeyInfo, ...]:
        """All keys trusted here, our own first. Empty if there are none."""
        signers = [self.signer()] if self.exists() else []
        own = [KeyInfo(signer.keyid, True, _public_pem(signer.private_key.public_key())) for signer in signers]
        known = {info.keyid for info in own}
        others = []
        for path in sorted((self.home / "trusted").glob("*.pem")):
            key = read_public_key(read_pem(path))
            if path.stem != keyid_of(key):
                raise UsageError(
                    f"{path} holds a key with another keyid than its name",
                    hint=f"Rename it: `mv {_quoted(path)} {_quoted(path.with_name(keyid_of(key) + '.pem'))}`",
                )
            if path.stem not in known:
                others.append(KeyInfo(path.stem, False, _public_pem(key), self._limits(path.stem)))
        return (*own, *others)

    def trusted(self, *also: bytes) -> Trust:
        """What everything that verifies takes: keyid to public key, without revoked ones, and their limits.

        ``also``: public keys in PEM that are taken for anything, this once. Raises ``UsageError`` for a revoked one.
        """
        known = [info for info in self.show() if info.limits.revoked is None]
        keys = {info.keyid: read_public_key(info.pem) for info in known}
        limits = {info.keyid: info.limits for info in known}
        for key in map(read_public_key, also):
            keyid = keyid_of(key)
            self._refuse_revoked(keyid)
            keys[keyid], limits[keyid] = key, UNLIMITED
        return Trust(keys, limits)


def _create(path: Path, content: bytes) -> None:
    """Write a new file; one that is there already stays."""
    with contextlib.suppress(FileExistsError):
        files.write(path, content, new=True)


def _quoted(path: Path) -> str:
    """As a shell reads it."""
    return shlex.quote(str(path))


def _restored(path: Path) -> str:
    """How to come by a secret again; what was made with the old one does not fit a new one."""
    moved = f"`mv {_quoted(path)} {_quoted(path)}.old`, then " if path.exists() else ""
    return (
        f"Restore it from a backup. Or make a new one; earlier certificates and ledgers then do not verify: {moved}"
        "`affidavit keys init --keep-existing`"
    )


def _read_private(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode
        content = files.read_bytes(path)
    except FileNotFoundError:
        hint = _restored(path) if (path.parent / _SIGNING_KEY).exists() else _INIT_HINT
        raise UsageError(f"there is no {path}", hint=hint) from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="Restore it from a backup.") from None
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise UsageError(f"{path} can be read by others", hint=f"Run: `chmod 600 {_quoted(path)}`")
    return content
