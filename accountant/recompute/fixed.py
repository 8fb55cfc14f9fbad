"""Everything in a composition that has a dominating pair, gathered by formula."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import mpmath
import numpy as np

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import (
    Approximate,
    Gaussian,
    Laplace,
    Poisson,
    Pure,
    WithoutReplacement,
    ZeroConcentrated,
)
from affidavit.accountant.recompute.atoms import POINT_MASS, AtomicLaw, binomial_law, laplace_law
from affidavit.accountant.recompute.bracket import Bracket, Profile
from affidavit.accountant.recompute.chords import SampledExponential
from affidavit.accountant.recompute.contour import contour_profile
from affidavit.accountant.recompute.gaussian import GaussianProfile
from affidavit.accountant.recompute.mixed import MixedProfile
from affidavit.accountant.recompute.reading import Moved, Step
from affidavit.accountant.recompute.sampled import Direction, moved_law, sampled_law
from affidavit.accountant.recompute.smooth import SmoothLaw
from affidavit.accountant.validate import Relation

__all__ = ["Aim", "FixedPart", "fixed_part"]

_FEW_ATOMS = 100


@dataclass(frozen=True, slots=True)
class Aim:
    """Where a profile should be sharp: at the ε of ``delta``, or at ``epsilon`` if that is known.

    ``accuracy``: relative, of ε, where the formula has a choice.
    """

    delta: float
    epsilon: float | None = None
    accuracy: float = 1e-7


@dataclass(frozen=True, slots=True)
class _OneUse:
    """One smooth use in closed form, conditioned on the atoms."""

    law: SmoothLaw
    atoms: AtomicLaw

    def delta(self, epsilon: float) -> Bracket:
        """δ at ``epsilon``."""
        low = high = self.atoms.infinite
        for loss, mass in zip(self.atoms.losses.tolist(), self.atoms.masses.tolist(), strict=True):
            rest = self.law.delta(epsilon - loss)
            low, high = low + mass * rest.lower, high + mass * rest.upper
        error = (self.atoms.relative_error + 1e-15 * (4.0 + len(self.atoms.losses) + abs(epsilon))) * high
        return (
            Bracket(max(0.0, low - error), min(1.0, high + error)) if len(self.atoms.losses) > 1 else Bracket(low, high)
        )


@dataclass(frozen=True, slots=True)
class FixedPart:
    """Gaussians of Σ 1/σ² = ``precision``, ``atoms``, and (smooth law, uses); one side, one direction."""

    precision: mpmath.mpf
    atoms: AtomicLaw
    smooth: tuple[tuple[SmoothLaw, int], ...]
    names: tuple[str, ...]
    whole: SampledExponential | None = None
    """All there is, where that is one use with a closed form (its law is among the ``atoms``)."""

    def profile(self, aim: Aim) -> Profile:
        """δ(ε), by the most exact formula that applies."""
        if self.whole is not None:
            return self.whole
        if not self.smooth:
            if self.precision > 0 and self.atoms is POINT_MASS:
                return GaussianProfile(self.precision)
            return MixedProfile(self.atoms, float(self.precision))
        once = len(self.smooth) == 1 and self.smooth[0][1] == 1
        if once and self.precision == 0 and len(self.atoms.losses) <= _FEW_ATOMS:
            return _OneUse(self.smooth[0][0], self.atoms)
        return contour_profile(
            self.smooth,
            precision=float(self.precision),
            atoms=self.atoms,
            delta=aim.delta,
            epsilon=aim.epsilon,
            accuracy=aim.accuracy,
        )

    def same_as(self, other: FixedPart) -> bool:
        """Whether both have the same losses, so that one profile serves."""
        return (
            self.precision == other.precision
            and self.smooth == other.smooth
            and self.atoms.infinite == other.atoms.infinite
            and np.array_equal(self.atoms.losses, other.atoms.losses)
            and np.array_equal(self.atoms.masses, other.atoms.masses)
        )

    def joined(self, law: AtomicLaw, *, upper: bool) -> FixedPart:
        """With the independent loss ``law`` added."""
        return FixedPart(self.precision, self.atoms.compose(law, upper=upper), self.smooth, self.names)


def fixed_part(nodes: Iterable[Step], relation: Relation, direction: Direction, *, upper: bool) -> FixedPart:
    """Gather ``nodes``. Raises ``NotSupported`` for what has no second formula."""
    precision = mpmath.mpf(0)
    atoms = POINT_MASS
    smooth: list[tuple[SmoothLaw, int]] = []
    names: dict[str, None] = {}
    whole: SampledExponential | None = None
    nodes = tuple(nodes)
    for node, uses in nodes:
        match node:
            case Gaussian(noise_multiplier=sigma):
                with mpmath.workdps(60):
                    precision = precision + mpmath.mpf(uses) / mpmath.mpf(sigma) ** 2
                names["closed form"] = None
            case Pure(epsilon=epsilon):
                atoms = atoms.compose(binomial_law(epsilon=epsilon, delta=0.0, uses=uses), upper=upper)
                names["binomial sum"] = None
            case Approximate(epsilon=epsilon, delta=delta):
                atoms = atoms.compose(binomial_law(epsilon=epsilon, delta=delta, uses=uses), upper=upper)
                names["binomial sum"] = None
            case Laplace(noise_multiplier=scale):
                atoms = atoms.compose(laplace_law(scale=scale, upper=upper).power(uses, upper=upper), upper=upper)
                names["loss by intervals"] = None
            case ZeroConcentrated(rho=rho) if not upper:  # the Gaussian mechanism is one that the leaf admits
                with mpmath.workdps(60):
                    precision = precision + 2 * uses * mpmath.mpf(rho)
                names["Gaussian of equal rho"] = None
            case Moved() | Poisson() | WithoutReplacement():
                law = _law(node, relation, direction, upper=upper)
                if isinstance(law, SampledExponential):
                    whole = law if uses == 1 else None
                    atoms = atoms.compose(law.law.power(uses, upper=upper), upper=upper)
                    names["chords of one use"] = None
                elif isinstance(law, SmoothLaw):
                    smooth.append((law, uses))
                    names["contour integral"] = None
                else:
                    atoms = atoms.compose(law.power(uses, upper=upper), upper=upper)
                    names["multinomial sum"] = None
            case _:
                raise NotSupported(
                    f"the verifier has no second formula for {node.kind!r}", hint="Remove `--recompute`."
                )
    return FixedPart(precision, atoms, tuple(smooth), tuple(names), whole if len(nodes) == 1 else None)


def _law(
    node: Moved | Poisson | WithoutReplacement, relation: Relation, direction: Direction, *, upper: bool
) -> SmoothLaw | AtomicLaw | SampledExponential:
    if isinstance(node, Moved):
        return moved_law(node.node, direction, leaves=node.leaves, upper=upper)
    return sampled_law(node, relation, direction, upper=upper)
