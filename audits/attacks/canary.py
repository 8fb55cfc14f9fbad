"""Canary insertion: records made for the audit, with a secret that nobody could guess.

Carlini, Liu, Erlingsson, Kos and Song (2019, "The secret sharer"). An identifier of a real record may
be guessed, may stand in a near-copy or in the model's own training data; a canary's secret is drawn by
the audit's seed, so that what comes out was in. Each is in the data by its own fair coin, which is
what the one-run audit asks for.

``exposure`` is their measure for a model that tells log-probabilities: log2 of the number of possible
secrets, minus log2 of the rank of the true one among them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.audits.textmodel import Record

if TYPE_CHECKING:
    from affidavit.audits.textmodel import TextModel

__all__ = ["CANARY_DOMAIN", "exposure", "make_canaries"]

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
        raise UsageError(f"{count} canaries", hint="insert at least one canary")
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


def exposure(model: TextModel, prompt: str, secret: str, rivals: Sequence[str]) -> float:
    """log2(number of candidates) − log2(rank of ``secret``), in bits; ties count against the secret.

    Candidates are the secret and its ``rivals``, drawn from the same law. 0: no better than chance would
    leave it; log2(1 + rivals): the model's first choice.
    """
    if not rivals:
        raise UsageError("exposure needs rivals", hint="give other secrets of the same form")
    scores = model.log_likelihoods([prompt] * (1 + len(rivals)), [secret, *rivals])
    rank = 1 + sum(score >= scores[0] for score in scores[1:])
    return math.log2(1 + len(rivals)) - math.log2(rank)
