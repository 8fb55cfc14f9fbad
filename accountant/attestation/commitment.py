"""Commitments to private data that say nothing to anyone without the key.

A plain digest of the data tells a neighbour D' from D with certainty, so it would void the very
guarantee that a certificate states. Two layers of HMAC-SHA256 (RFC 2104) instead:

1. the *fingerprint* HMAC(commitment key, data), kept among the private artefacts: the same data
   give the same fingerprint, which is how the gate recognises them;
2. the *commitment* HMAC(fingerprint, salt), published in one certificate with its random salt.
   Without the salt, two certificates of the same data could be linked, and someone who has a
   certificate for data of their own choosing could test whether the private data equal them.

Under the assumption that HMAC-SHA256 is a pseudorandom function, the published pair (salt,
commitment) is indistinguishable from random bytes to whoever lacks the key in AFFIDAVIT_HOME.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

__all__ = ["commit", "fingerprint"]

_DATA_DOMAIN = b"affidavit/data-fingerprint/v1\0"
_COMMITMENT_DOMAIN = b"affidavit/data-commitment/v1\0"


def fingerprint(chunks: Iterable[bytes], *, key: bytes) -> str:
    """HMAC-SHA256 of the concatenated chunks, hexadecimal. Keep it private.

    Feed the exact bytes of the data file: any change, also of order, is another data set.
    """
    mac = hmac.new(key, _DATA_DOMAIN, hashlib.sha256)
    for chunk in chunks:
        mac.update(chunk)
    return mac.hexdigest()


def commit(data_fingerprint: str, *, salt: str) -> str:
    """The public commitment to a private fingerprint, hexadecimal."""
    message = _COMMITMENT_DOMAIN + bytes.fromhex(salt)
    return hmac.new(bytes.fromhex(data_fingerprint), message, hashlib.sha256).hexdigest()
