"""A certificate authority of the tests' own, and what it signs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

LIFE = timedelta(days=2)


@dataclass(frozen=True)
class Authority:
    """Signs certificates of servers; ``pem`` is what clients are given."""

    key: EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls) -> Authority:
        key, name = generate_private_key(SECP256R1()), _name("tests")
        basic = x509.BasicConstraints(ca=True, path_length=0)
        return cls(key, _signed(name, name, key, key, (basic, True)))

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    def server(self, host: str) -> tuple[bytes, bytes]:
        """The certificate and the private key of a server of this name, in PEM."""
        key = generate_private_key(SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        made = _signed(_name(host), self.certificate.subject, key, self.key, (names, False))
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return made.public_bytes(Encoding.PEM), secret


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _signed(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePrivateKey,
    by: EllipticCurvePrivateKey,
    extension: tuple[x509.ExtensionType, bool],
) -> x509.Certificate:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - LIFE)
        .not_valid_after(now + LIFE)
        .add_extension(extension[0], critical=extension[1])
        .sign(by, hashes.SHA256())
    )
