"""Pairs with finitely many losses, for a lattice: products of pure and approximate mechanisms.

A few of them are composed exactly (``product``); the product of many has too many losses, so it is cut into chunks,
each an exact product, and the chunks are composed on a lattice: of many different ε a few at a time, of few different
ones about √count of each at a time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt, prod

from flint import arb

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, Pure
from affidavit.accountant.verifier.balls import Ball
from affidavit.accountant.verifier.pairs import Pair, Tails
from affidavit.accountant.verifier.product import MAX_ATOMS, Atoms, two_point_product

__all__ = ["Stairs", "chunked", "losses_of", "most_atoms"]

PER_CHUNK, MAX_USES, FEW_DIFFERENT, MAX_DIFFERENT = 1 << 8, 2_000, 6, 64
BESIDE_LATTICE, BESIDE_GAUSSIAN = 64, 2_000

Uses = Sequence[tuple[Pure | Approximate, int]]


def losses_of(uses: Uses) -> int:
    """About how many different losses the exact product has, tails cut off."""
    return prod(min(count + 1, 40 * isqrt(count) + 4) for use, count in uses if use.epsilon > 0)


def most_atoms(*, gaussian: bool, lattice: bool) -> int:
    """Most losses that are kept apart: they are multiplied out with a lattice, and a Gaussian is evaluated at each."""
    return BESIDE_LATTICE if lattice else BESIDE_GAUSSIAN if gaussian else MAX_ATOMS


def chunked(uses: Uses) -> Iterator[tuple[Stairs, int]]:
    """The uses in chunks, with counts."""
    if len(uses) > FEW_DIFFERENT and sum(count for _, count in uses) <= MAX_USES:
        yield from _spread(uses)
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
                yield Stairs.of(two_point_product([(use, chunk)], budget=1e-300)), number


def _spread(uses: Uses) -> Iterator[tuple[Stairs, int]]:
    """Chunks of about ``PER_CHUNK`` losses each, of ε's from the whole range, so that they fall into no clusters."""
    single = sorted((use for use, count in uses for _ in range(count)), key=lambda use: (use.epsilon, repr(use)))
    number = -(-len(single) // PER_CHUNK.bit_length())
    for i in range(number):
        yield Stairs.of(two_point_product([(use, 1) for use in single[i::number]], budget=1e-300)), 1


@dataclass(frozen=True, slots=True)
class Stairs(Pair):
    """Finitely many losses, too many to be kept apart; ``above_p[i]``, ``above_q[i]``: masses of the i largest."""

    losses: tuple[Ball, ...]
    heights: tuple[float, ...]
    above_p: tuple[Ball, ...]
    above_q: tuple[Ball, ...]

    @staticmethod
    def of(atoms: Atoms) -> Stairs:
        """From a product; the failure is mass on +inf, and what was cut off may be."""
        kept = 1 - atoms.failure
        lost = atoms.failure if atoms.rest.is_zero() else atoms.failure + kept * atoms.rest.union(arb(0))
        p, q = [lost], [arb(0)]
        for loss, mass in zip(atoms.losses, atoms.masses, strict=True):
            p.append(p[-1] + kept * mass)
            q.append(q[-1] + kept * mass * (-loss).exp())
        # Negated, because bisection wants rising numbers.
        return Stairs(atoms.losses, tuple(-float(loss) for loss in atoms.losses), tuple(p), tuple(q))

    @property
    def bottom(self) -> Ball | None:
        """The smallest loss; -inf under Q only, with a failure."""
        return self.losses[-1] if self.infinite.is_zero() else None

    @property
    def infinite(self) -> Ball:
        """The failure."""
        return self.above_p[0]

    def above(self, loss: Ball) -> Tails:
        """See ``Pair``; a loss that cannot be told from an atom gives balls that hold both cases."""
        # Bisection is in floats; from there to the last loss that is surely above, and the first that surely is not.
        first = last = bisect_right(self.heights, -float(loss))
        while first > 0 and not self.losses[first - 1] > loss:
            first -= 1
        while last > first and self.losses[last - 1] <= loss:
            last -= 1
        while last < len(self.losses) and not self.losses[last] <= loss:
            last += 1
        return (
            self.above_p[first].union(self.above_p[last]),
            self.above_q[first].union(self.above_q[last]),
        )
