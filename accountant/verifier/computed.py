"""A computed loss distribution as a pair again, to be sampled.

Whatever runs on a sample together has a loss distribution on a lattice, from above and from below (``front``). From
above, masses p_i at losses l_i and the rest on +inf make up a curve above that of what runs there, so that curve's
pair, with Q-masses e^{-l_i} p_i, dominates it. From below they are outcomes that were merged or left out, so with
all else as one more outcome they make up a post-processing. Samples of one or the other are upper and lower sides.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from flint import arb

from affidavit.accountant.verifier.balls import Array, Ball
from affidavit.accountant.verifier.front import Front
from affidavit.accountant.verifier.mixture import LossMasses
from affidavit.accountant.verifier.pairs import Atom, Finite, Pair
from affidavit.accountant.verifier.product import Atoms

__all__ = ["DISJOINT", "IDLE", "Computed", "atoms_of", "computed"]

DISJOINT = Finite(Atoms((arb(0),), (arb(1),), arb(1), arb(0)))
"""Laws without a common outcome: what has no noise."""
IDLE = Finite(Atoms((arb(0),), (arb(1),), arb(0), arb(0)))
"""Two equal laws."""
CELLS, CELLS_OF_MANY, MANY = 3_000, 1_000, 8
"""Places of the lattice for what the losses of one use on the sample span, on average; where there are many uses."""
HEAVY = 2.0**-4
"""Mass of losses that are worth keeping apart."""


@dataclass(frozen=True, slots=True)
class Computed(Finite):
    """Losses of one direction; what is missing of either law is below all of them."""

    is_directed: bool

    @property
    def bottom(self) -> Ball | None:
        """-inf: some of Q may be there."""
        return None

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """See ``Pair``."""
        pairs, kept = zip(self.product.losses, self.product.masses, strict=True), 1 - self.product.failure
        return tuple(Atom(loss, kept * mass) for loss, mass in pairs if mass > HEAVY)

    @property
    def directed(self) -> bool:
        return self.is_directed

    def reverse(self) -> Pair:
        """Of a lower side: the same outcomes, the laws exchanged."""
        atoms, kept = self.product, 1 - self.product.failure
        losses = tuple(-loss for loss in reversed(atoms.losses))
        masses = tuple(kept * weight for weight in reversed(atoms.weights))
        return Computed(Atoms(losses, masses, arb(0), arb(0)), self.is_directed)


def computed(front: Front) -> tuple[Pair, Pair]:
    """(upper, lower) pair of all of it; one object where the losses are few and exact."""
    direction = front.direction
    if not direction.upper:
        exact = Computed(front.atoms(), front.directed)
        return exact, exact
    many = sum(count for _, count in direction.upper) > MANY
    found = front.masses(front.resolution(CELLS_OF_MANY if many else CELLS))
    above, below = atoms_of(found)
    return (
        Computed(above, front.directed) if above else DISJOINT,
        Computed(below, front.directed) if below else IDLE,
    )


def atoms_of(found: LossMasses) -> tuple[Atoms | None, Atoms | None]:
    """Each side's losses; None where all mass is on +inf, or nowhere."""
    below = _atoms(found.lower_mass, found.lower_loss, max(0.0, found.infinite_lower))
    return _atoms(found.upper_mass, found.upper_loss, found.infinite_upper), below


def _atoms(masses: Array, losses: Array, infinite: float) -> Atoms | None:
    kept = (masses > 0.0) & np.isfinite(losses)
    order = np.argsort(-losses[kept], kind="stable")
    if infinite >= 1.0 or not order.size:
        return None
    whole = 1 - arb(infinite)
    balls = tuple(arb(float(loss)) for loss in losses[kept][order])
    shares = tuple(arb(float(mass)) / whole for mass in masses[kept][order])
    return Atoms(balls, shares, arb(infinite), arb(0))
