r"""Propose-test-release of a top-k set: released as it is, if a noisy gap says that no neighbour has another one.

Counts c over a public domain; S(D) is the set of the k largest (ties go to the lower index), and

    g_k(D) = c_(k) − c_(k+1)

the gap that guards it, in the order from large to small. With discrete Laplace noise Z of scale Δ/ε the set is
released iff g_k + Z >= Δ + m, where m is the least whole number with P(Z >= m) <= δ₀; else nothing is (``None``).

*Cost*: (ε, δ₀)-DP, δ₀ in full at every use (Dwork and Lei 2009, "Differential privacy and robust statistics"; as
used for keywords by Wu, Panda, Wang and Mittal 2024, "Privacy-preserving in-context learning for large language
models"). Let one record change the difference of any two counts by at most Δ, and the gap by at most Δ.

- *Where S(D) = S(D′)* the output is a function of one noisy bit, whose gap moves by at most Δ: (ε, 0)-DP.
- *Where S(D) ≠ S(D′)*, take a in S(D) only and b in S(D′) only. Then c_a − c_b >= g(D) and c′_b − c′_a >= g(D′), so
  g(D) + g(D′) <= (c_a − c_b) − (c′_a − c′_b) <= Δ. Both gaps are at most Δ, so either side releases its set with
  probability at most P(Z >= m) <= δ₀; all other mass is on ``None``, whose probabilities are within e^ε.

Sensitivity, per relation, of counts where a record adds 0 or 1 to each entry:

- add-remove, zero-out: all counts move the same way by 0 or 1, so Δ = 1 for differences and gaps alike;
- substitution (or a record that changes an answer rather than adding one): each count moves by −1, 0 or 1: Δ = 2.

*The trap.* Released is the set that g_k guards: g is indexed by the size of the set. Testing the next gap, or
releasing the *order* within the set (which all of g_1 … g_k guard), costs what it likes. Indices come sorted.
A failed test must be answered from public facts alone.

*Sampling* is exact (``coins``): gaps and Δ are whole numbers. With q = e^{−ε/Δ}, P(Z >= m) = q^m/(1 + q) for m >= 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant import validate
from affidavit.accountant.decimals import float_at_least
from affidavit.accountant.errors import PlanError, UsageError
from affidavit.accountant.plan import Approximate, Leaf, register_leaf
from affidavit.mechanisms.base import Mechanism, Permit, Statistic, charge, told, watched
from affidavit.mechanisms.coins import two_sided_geometric

__all__ = ["ASSUMPTIONS", "MECHANISM", "ProposeTestRelease", "TestedTopK", "gaps"]

ASSUMPTIONS = ("propose-test-release: the noise source yields independent uniform bits",)


@dataclass(frozen=True, slots=True)
class ProposeTestRelease(Leaf):
    """One test and, if it passes, one release: (ε, δ)-DP."""

    epsilon: float
    delta: float
    kind: ClassVar[str] = "propose-test-release"


def _delta(value: object, *, path: str) -> float:
    delta = validate.fraction(value, path=path)
    if delta <= 0.0:
        raise PlanError(path, "a test that cannot err never passes", allowed="a number in (0, 1]")
    return delta


_epsilon = partial(validate.size, minimum=1e-9)

register_leaf(
    ProposeTestRelease, {"epsilon": _epsilon, "delta": _delta}, costs=lambda leaf: Approximate(leaf.epsilon, leaf.delta)
)


@dataclass(frozen=True, slots=True)
class TestedTopK:
    """ε of the test, δ₀ of its error, and Δ: by how much one record moves a gap or a difference of two counts."""

    epsilon: float
    delta: float
    gap_sensitivity: int

    __test__: ClassVar[bool] = False

    def leaf(self) -> ProposeTestRelease:
        """The ``propose-test-release`` leaf of one use."""
        return self.moved(self.gap_sensitivity)

    def moved(self, gap_sensitivity: int) -> ProposeTestRelease:
        """The leaf of the same noise and test where a record moves gaps by less (it leaves or enters the part).

        ε shrinks in proportion; δ₀ may be kept, since the threshold lies further above the smaller gaps.
        """
        if not 1 <= gap_sensitivity <= self.gap_sensitivity:
            raise UsageError(
                "gap_sensitivity is not a whole number >= 1",
                hint="`gap_sensitivity = 1` under add-remove, else `gap_sensitivity = 2`.",
            )
        exact = Fraction(_epsilon(self.epsilon, path="epsilon")) * gap_sensitivity / self.gap_sensitivity
        return ProposeTestRelease(float_at_least(exact), _delta(self.delta, path="delta"))

    @property
    def scale(self) -> Fraction:
        """Of the noise: Δ/ε."""
        return self.gap_sensitivity / Fraction(self.epsilon)

    @property
    def threshold(self) -> int:
        """Δ + m: the least noisy gap that passes.

        m = scale·(ln(1/δ₀) − ln(1 + q)), rounded up; 2^-40 is added for the rounding of float64.
        """
        width = float(self.scale)
        least = width * (-math.log(self.delta) - math.log1p(math.exp(-1.0 / width)))
        return self.gap_sensitivity + max(1, math.ceil(least + (1.0 + abs(least)) * 2.0**-40))

    def of_size(self, size: int) -> TestedSet:
        """The test of the set of the ``size`` largest counts."""
        return TestedSet(self, size)


@dataclass(frozen=True, slots=True)
class TestedSet:
    """``spec``, for the set of the ``size`` largest counts; ``size`` is public, or was released."""

    spec: TestedTopK
    size: int

    __test__: ClassVar[bool] = False

    def leaf(self) -> ProposeTestRelease:
        """As of ``spec``."""
        return self.spec.leaf()

    def release(self, permit: Permit, path: str, values: NDArray[np.int64]) -> tuple[int, ...] | None:
        """Indices of the ``size`` largest counts, ascending, or None: charged either way.

        Whoever counts guarantees Δ. Raises ``PermitViolation`` if ε or δ exceeds the certified one.
        """
        spec, counts = self.spec, np.asarray(values)
        if counts.ndim != 1 or counts.dtype.kind not in "iu" or not 1 <= self.size < counts.size:
            raise UsageError(
                "a top-k set needs whole-number counts of more things than it holds", hint="Lower the size of the set."
            )
        asked = spec.leaf()
        charge(permit, path, asked, lambda held: asked.epsilon <= held.epsilon and asked.delta <= held.delta)
        gap = int(gaps(counts)[self.size - 1])
        order = np.argsort(-counts.astype(np.int64), kind="stable")
        best = tuple(sorted(int(index) for index in order[: self.size]))

        def draw() -> tuple[int, ...] | None:
            noisy = gap + two_sided_geometric(1 / spec.scale, noise=permit.noise)
            return best if noisy >= spec.threshold else None

        told(permit, path, Statistic("spread", (counts,), (spec.scale,)))
        return watched(permit, path, Statistic("guarded", (np.array(best), np.array([gap])), (spec.scale,)), draw)


def gaps(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """g_1, …, g_{d−1}: entry ``size − 1`` guards the set of the ``size`` largest counts."""
    ordered = np.sort(np.asarray(counts, dtype=np.int64))[::-1]
    return ordered[:-1] - ordered[1:]


MECHANISM = Mechanism(ProposeTestRelease.kind, TestedTopK, "exact geometric noise on a gap", ASSUMPTIONS)
