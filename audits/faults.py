"""Fifteen faults that published implementations have, and which instrument finds each.

The numbers are stable; a check names the fault that it looks for. Who catches what is in
``docs/faults.md``, and a broken generator for each, with the catch, in ``tests/conformance``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["FAULTS", "Catcher", "Fault", "fault"]

Catcher = Literal["permit", "trace check", "neighbour test", "statistical test"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault; ``slug`` is its name in reports (and its rule's id in SARIF)."""

    number: int
    slug: str
    title: str
    caught_by: tuple[Catcher, ...]


FAULTS = (
    Fault(1, "sampling-scheme", "Samples without replacement, accounted as Poisson", ("trace check",)),
    Fault(2, "reused-randomness", "One sample, or one noise vector, reused for every token", ("trace check",)),
    Fault(3, "private-support", "Support, labels, bounds or lengths read from private data", ("neighbour test",)),
    Fault(4, "uncharged-run", "The last sparse-vector run, which never triggered, not charged", ("permit",)),
    Fault(
        5,
        "ex-post-epsilon",
        "An epsilon computed afterwards from where the run happened to stop",
        ("permit", "trace check"),
    ),
    Fault(
        6,
        "dropped-records",
        "Empty records dropped before batching, so that one removal shifts all",
        ("neighbour test",),
    ),
    Fault(
        7,
        "public-row-in-private-batch",
        "The public prompt batched and padded with private ones",
        ("neighbour test", "trace check"),
    ),
    Fault(8, "lost-rows", "Minibatches counted by floor division: the last rows stay zero", ("trace check",)),
    Fault(9, "inert-parameter", "A privacy parameter that nothing reads", ("trace check",)),
    Fault(
        10, "wrong-gap", "Propose-test-release tests one gap and releases what another guards", ("statistical test",)
    ),
    Fault(11, "raw-text-fallback", "A fallback that emits raw private text", ("neighbour test",)),
    Fault(
        12, "deviation-for-variance", "A standard deviation taken for a variance", ("statistical test", "trace check")
    ),
    Fault(13, "predictable-noise", "Noise from a Mersenne Twister, or from a public seed", ("trace check",)),
    Fault(
        14,
        "shape-dependent-rows",
        "Padding or minibatch shapes that let one record move the others",
        ("neighbour test",),
    ),
    Fault(15, "private-coreset", "Private embeddings clustered without noise to choose examples", ("neighbour test",)),
)


def fault(number: int) -> Fault:
    """The fault of that number, 1 to 15."""
    return FAULTS[number - 1]
