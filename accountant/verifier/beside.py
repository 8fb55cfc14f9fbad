"""One use that loses far more than all others together: its closed form at each of a few losses of the others.

A lattice fine enough for the others would have too many places for that use. The others' losses are put on a lattice of
their own and gathered in cells (``mixture``), from above so that P and Q are kept, from below as one outcome each. What
that adds to ε is about the square of a cell, over the tilt of the curve.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from affidavit.accountant.verifier.computed import atoms_of
from affidavit.accountant.verifier.front import Front
from affidavit.accountant.verifier.pairs import Beside
from affidavit.accountant.verifier.single import SingleProfile

__all__ = ["beside_others"]

WIDER, CELLS, PLACES = 10.0, 96, 600
"""How much wider the one must be; cells, and places of the others' lattice."""


def beside_others(front: Front) -> SingleProfile | None:
    """The profile of one direction; None where no use stands out, or some pair is an upper side only."""
    uses = front.direction.upper
    if not front.attained or len(uses) < 2:
        return None
    spans = front.spans
    widest = int(np.argmax(spans))
    total = sum(span * count for span, (_, count) in zip(spans, uses, strict=True))
    pair, count = uses[widest]
    if count > 1 or spans[widest] < WIDER * (total - spans[widest]):
        return None
    rest = (*uses[:widest], *uses[widest + 1 :])
    others = replace(front, direction=replace(front.direction, upper=rest, lower=rest))
    above, below = atoms_of(others.masses(others.resolution(PLACES)).gathered(CELLS))
    if above is None or below is None:
        return None
    return SingleProfile(
        Beside(above, pair), Beside(below, pair), front.bits, "closed form of one use at others' losses"
    )
