"""Canary insertion: records made for the audit, with a secret that nobody could guess.

Carlini, Liu, Erlingsson, Kos and Song (2019, "The secret sharer"). An identifier of a real record may
be guessed, may stand in a near-copy or in the model's own training data; a canary's secret is drawn by
the audit's seed, so that what comes out was in. Each is in the data by its own fair coin, which is
what the one-run audit asks for.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.audits.textmodel import Record

__all__ = ["CANARY_DOMAIN", "make_canaries"]

CANARY_DOMAIN = "canary.example"
"""Reserved for examples (RFC 2606): no mail is ever sent there, and no real address is in it."""

_LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"
_SECRET_LENGTH = 10
_OPENINGS = (
    "Please note that from next week on I can be reached at {address} instead of my old mailbox.",
    "My account is still under the address {address}, could you look it up for me.",
    "Send the signed copy to {address} when it is ready, I will pick up the original myself.",
    "The invoice went to the wrong mailbox again, the right one is {address} as I wrote before.",
)


def make_canaries(count: int, *, seed: int, labels: Sequence[str] = ()) -> tuple[Record, ...]:
    """``count`` records, each with an address of its own: 10 letters of 32, so 2^50 possible ones.

    ``labels`` are dealt out in turn. Equal seeds give equal canaries; the seed is the audit's, never
    the mechanism's.
    """
    if count < 1:
        raise UsageError(f"{count} canaries", hint="For example `members = 20` and `non_members = 20`.")
    generator = np.random.default_rng([seed, 0x6361])
    secrets: dict[str, None] = {}
    while len(secrets) < count:
        drawn = generator.integers(0, len(_LETTERS), size=_SECRET_LENGTH)
        secrets["".join(_LETTERS[int(i)] for i in drawn)] = None
    return tuple(
        Record(
            id=f"canary-{secret}",
            text=f"Reference {secret[:4]}. "
            + _OPENINGS[i % len(_OPENINGS)].format(address=f"{secret}@{CANARY_DOMAIN}"),
            label=labels[i % len(labels)] if labels else None,
        )
        for i, secret in enumerate(secrets)
    )
