"""Zero-concentrated DP: ρ adds up, then the optimal conversion.

Sources: Bun and Steinke 2016 (Gaussian: ρ = 1/(2σ²); ε-DP: ρ = ε²/2; adaptive composition adds);
Cesar and Rogers 2021, Lemma 3.4 (bounded range η: ρ = η²/8; *not* true of permute-and-flip).
Conversion: Canonne, Kamath and Steinke 2020, Proposition 12: for every α > 1,

    δ(ε) <= exp((α − 1)(α ρ − ε)) / (α − 1) · (1 − 1/α)^α.

Any α gives a valid number, so the search over α is not part of the proof. An upper side only.

The lower side of a plan with ``zcdp`` leaves is that of the same plan with a Gaussian of σ = 1/√(2ρ) in the place
of each (``stand_in``): it is exactly ρ-zCDP (Bun and Steinke 2016, Proposition 1.6), so the leaf admits it, and the
plan's ε is the supremum over what its leaves admit. On samples too, whatever the relation: what satisfies the
Gaussian's statement satisfies the leaf's, that of a record that is replaced as that of one that is taken away
(``moves``, ``absent``), each for itself. So all that the plan with Gaussians admits, this one does.
One statement alone admits a costlier mechanism (``two_losses``).
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from affidavit.accountant import nodes
from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.choices import rho_of
from affidavit.accountant.cases.nodes import OneOf
from affidavit.accountant.methods.base import Bracket, Target, certain_delta
from affidavit.accountant.methods.rdp import RenyiProfile
from affidavit.accountant.rounding import STATED, UNIT
from affidavit.accountant.validate import Relation

__all__ = ["ZcdpMethod", "ZcdpProfile", "stand_in"]

LOWEST, BEYOND, LARGEST = -40.0, 40.0, 700.0
"""ln(α − 1) from which on the best α is looked for; how far beyond ln 1/ρ; where float64 ends."""


def stand_in(case: Case) -> Case | None:
    """The case with the Gaussian of equal ρ for each ``zcdp`` leaf, which never costs more.

    None if it has none, and where only an upper side is of use.
    """
    below = [one for node, _ in case.fixed for one in nodes.walk(node)]
    if any(isinstance(one, OneOf) for one in below) or not any(
        isinstance(one, nodes.ZeroConcentrated) for one in below
    ):
        return None
    fixed: dict[nodes.Plan, int] = {}
    for node, count in case.fixed:
        gaussian = _gaussian(node)
        if gaussian != nodes.Pure(0.0):
            fixed[gaussian] = fixed.get(gaussian, 0) + count
    return replace(case, fixed=tuple(fixed.items()))


def _gaussian(node: nodes.Plan) -> nodes.Plan:
    """The case with Gaussians of equal ρ; of ρ = 0 what releases nothing."""
    match node:
        case nodes.ZeroConcentrated(rho=rho):
            return nodes.Gaussian(_equal_noise(rho)) if rho > 0.0 else nodes.Pure(0.0)
    return nodes.rebuilt(node, _gaussian)


def _equal_noise(rho: float) -> float:
    """The smallest float σ found with 1/(2σ²) <= ρ, in exact arithmetic."""
    sigma = math.sqrt(0.5) / math.sqrt(rho)
    while Fraction(1, 2) > Fraction(rho) * Fraction(sigma) ** 2:
        sigma = math.nextafter(sigma, math.inf)
    return sigma


class ZcdpProfile(RenyiProfile):
    """Profile of ρ-zCDP: ρ(α) = ρα, whose best α − 1 is no more than about (ε or ln 1/δ)/ρ."""

    rounding = 8.0 * UNIT

    def __init__(self, rho: float) -> None:
        self.rho = rho
        largest = min(max(-math.log(rho), 0.0) + BEYOND, LARGEST) if rho > 0.0 else 0.0
        super().__init__(lambda order: order * rho, orders=(LOWEST, largest))

    def delta(self, epsilon: float) -> Bracket:
        """The conversion; what is certain where nothing is released."""
        return super().delta(epsilon) if self.rho else Bracket(0.0, certain_delta(epsilon))

    def epsilon(self, delta: float) -> Bracket:
        """The same, solved for ε."""
        return super().epsilon(delta) if self.rho else Bracket(0.0, 0.0)


class ZcdpMethod:
    """All leaves with a zCDP guarantee, unsampled."""

    name = "zcdp"
    exact = False

    def why_not(self, case: Case, _relation: Relation) -> str:
        if any(rho_of(node) is None for node, _ in case.nodes()):
            return "needs a zCDP guarantee of every mechanism"
        return ""

    def profile(self, case: Case, _relation: Relation, _target: Target) -> ZcdpProfile:
        total = sum(count * (rho_of(node) or 0.0) for node, count in case.nodes() if count)
        return ZcdpProfile(total * (1.0 + STATED))
