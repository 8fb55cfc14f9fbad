"""What a trusted key may sign here: which accounts, which relation, up to which ε, until when; or nothing any more.

One file beside the key, ``trusted/<keyid>.json``, strict. A key without one may sign anything. A limit is this
machine's own: it says whose word is taken for what, and is not part of any signature.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from affidavit.accountant import decimals, strictjson
from affidavit.accountant.clock import show_instant
from affidavit.accountant.errors import PlanError
from affidavit.accountant.validate import Relation

__all__ = ["UNLIMITED", "KeyLimits", "Trust", "limits_of"]


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """accounts: names, empty for any. relation, epsilon, delta (the largest claims), expires: None for any, or never.

    A bound on ε alone bounds little: the same plan holds with a smaller ε at a larger δ.

    revoked: since when nothing it signed counts, whenever it was signed: a date in a signature is its signer's word.
    """

    accounts: tuple[str, ...] = ()
    relation: Relation | None = None
    epsilon: Decimal | None = None
    delta: Decimal | None = None
    expires: datetime | None = None
    revoked: datetime | None = None

    def refusal(
        self, *, relation: Relation, epsilon: Decimal, delta: Decimal, now: datetime, account: str | None
    ) -> str:
        """Why such a certificate is outside; empty where it is inside. ``account`` None: not asked yet."""
        if self.expires is not None and now > self.expires:
            return f"its trust ended at {show_instant(self.expires)}"
        if self.relation is not None and relation != self.relation:
            return f"it is trusted for {self.relation} only, and this is for {relation}"
        for name, largest, claimed in (("ε", self.epsilon, epsilon), ("δ", self.delta, delta)):
            if largest is not None and claimed > largest:
                return (
                    f"it is trusted up to {name} = {decimals.show(largest)}, and this claims {decimals.show(claimed)}"
                )
        if self.accounts and account is not None and account not in self.accounts:
            return f"it is not trusted for the account {account}"
        return ""

    def to_json(self) -> str:
        """The file's content."""
        return json.dumps(_FORM.show(self), indent=2) + "\n"

    @classmethod
    def read(cls, content: bytes, *, path: str) -> KeyLimits:
        """Raises ``PlanError`` naming the field: limits that cannot be read are not taken for none."""
        try:
            parsed = strictjson.parse(content)
        except ValueError:
            raise PlanError(path, "not JSON, or a repeated field", allowed="a key's limits") from None
        return _FORM.read(parsed, path=path)


_FORM = strictjson.record(KeyLimits)
UNLIMITED = KeyLimits()


class Trust(dict[str, Ed25519PublicKey]):
    """Trusted keys by keyid, and what each may sign. Revoked ones are not among them."""

    def __init__(self, keys: Mapping[str, Ed25519PublicKey], limits: Mapping[str, KeyLimits]) -> None:
        super().__init__(keys)
        self.limits = dict(limits)


def limits_of(trusted: Mapping[str, Ed25519PublicKey], keyid: str) -> KeyLimits:
    """Of one trusted key; none where plain keys were given."""
    return trusted.limits.get(keyid, UNLIMITED) if isinstance(trusted, Trust) else UNLIMITED
