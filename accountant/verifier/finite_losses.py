"""Pairs with finitely many losses, for a lattice: products of pure and approximate mechanisms.

A few of them are composed exactly (``product``); the product of many has too many losses, so it is cut into chunks,
each an exact product, and the chunks are composed on a lattice: of many different ε a few at a time, of few different
ones about √count of each at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isqrt, prod

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Pure
from affidavit.accountant.verifier.pairs import Finite
from affidavit.accountant.verifier.product import MAX_ATOMS, two_point_product

__all__ = ["chunked", "losses_of", "most_atoms"]

PER_CHUNK, MAX_USES, FEW_DIFFERENT, MAX_DIFFERENT = 1 << 8, 2_000, 6, 64
BESIDE_LATTICE, BESIDE_GAUSSIAN = 64, 2_000

Uses = Sequence[tuple[Pure | Approximate, int]]


def losses_of(uses: Uses) -> int:
    """About how many different losses the exact product has, tails cut off."""
    return prod(min(count + 1, 40 * isqrt(count) + 4) for use, count in uses if use.epsilon > 0)


def most_atoms(*, gaussian: bool, lattice: bool) -> int:
    """Most losses that are kept apart: they are multiplied out with a lattice, and a Gaussian is evaluated at each."""
    return BESIDE_LATTICE if lattice else BESIDE_GAUSSIAN if gaussian else MAX_ATOMS


def chunked(uses: Uses) -> Iterator[tuple[Finite, int]]:
    """The uses in chunks, with counts."""
    if len(uses) > FEW_DIFFERENT and sum(count for _, count in uses) <= MAX_USES:
        # Chunks of about ``PER_CHUNK`` losses each, of ε's from the whole range, so that they fall into no clusters.
        single = sorted((use for use, count in uses for _ in range(count)), key=lambda use: (use.epsilon, repr(use)))
        number = -(-len(single) // PER_CHUNK.bit_length())
        for i in range(number):
            yield Finite(two_point_product([(use, 1) for use in single[i::number]], budget=1e-300)), 1
        return
    if len(uses) > MAX_DIFFERENT:
        raise NotSupported(
            f"more than {MAX_USES} pure or approximate mechanisms, more than {MAX_DIFFERENT} of them different",
            hint="round the epsilons up to a few common values; or state many pure mechanisms as one zcdp leaf, "
            "rho = uses x epsilon^2 / 2",
        )
    for use, count in uses:
        length = isqrt(count)
        for chunk, number in ((length, count // length), (count % length, 1)):
            if chunk:
                yield Finite(two_point_product([(use, chunk)], budget=1e-300)), number
