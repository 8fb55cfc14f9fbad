r"""Amplification by sampling: a curve on the sample in, the curve on the whole data out.

Every rule takes the dominating curve *on the sample* and is monotone in it, so an upper curve
gives an upper curve. Directions are kept apart.

**Mixture pair** (``Mixed``): M = γP + (1−γ)Q against Q. With λ = ln(1 + (e^l − 1)/γ), the loss of
the mixture exceeds l iff the loss of (P, Q) exceeds λ, so M(L > l) = γ P(λ) + (1−γ) Q(λ) and the
profile is H_α(M‖Q) = γ H_β(P‖Q), β = 1 + (α−1)/γ, for α >= 1−γ, and 1 − α below.

- *Poisson sampling, add-remove and zero-out.* Let record r be in D and not (or null) in D'. With
  S the sample of the other records, M(D) is over S the mixture q M(S ∪ r) + (1−q) M(S), and M(D')
  is M(S) with the *same* law of S. Joint convexity over S and the domination of
  (M(S ∪ r), M(S)) by (P, Q), in each order, give the pairs (M, Q) and (Q, M). Attained when S
  does not matter (all other records contribute nothing). Zhu, Dong, Wang 2022, theorem 11.
- *Without replacement, add-remove.* D has n records, D' = D − r has n − 1, both sample m. A sample
  of D contains r with probability γ = m/n; couple it with the sample of D' that has a uniformly
  chosen displaced record in r's place. Given no r the two are equal in law; given r they differ
  by one *substitution*. Convexity gives (M, Q), (Q, M) with (P, Q) dominating substitutions on
  the sample, γ from the larger data set; attained by data sets whose other records are all equal
  (Lebeda, Regehr, Kamath, Steinke 2024).

**Combined curve** (``TwoSided`` of ``Mixed``): without replacement under *substitution* of r by r'. Samples
without that place have the same law W on both sides; let A and A' be the outputs with r and r'.
For α >= 1 put α' = 1 + γ(α−1): by advanced joint convexity (Balle, Barthe, Gaboardi 2018,
theorems 1 and 2) H_{α'}(M(D)‖M(D')) <= γ [(1−β) H_α(A‖W) + β H_α(A‖A')], β = α'/α; a sample without the
place differs from one with it by a substitution of r for another record, so both terms are at
most h(α), h the profile on the sample: γ h(1 + (α'−1)/γ). For α < 1 use
H_α(P‖Q) = 1 − α + α H_{1/α}(Q‖P) and the same bound for the other order. The result is its own
reflection; where the halves meet, at loss 0, sits an atom. Under *zero-out* the null record is
one of the records that a place may hold and a sampled place is still filled from the whole data,
so the same bound holds with h over zero-out and substitution pairs; the leaf states the larger,
its substitution sensitivity. Each half is attained (others all equal to r': the pair (M, Q), and
reversed), the two together in one pair are not: the lower side composes (M, Q).

**Diluted pair** (``Diluted``): Poisson sampling under substitution where only the substitution
curve is known. M(D) = (1−q)X + qA, M(D') = (1−q)X + qA', X the output without the place. By convexity
the profile is at most (1−q)(1−α)₊ + q H_α(A‖A'), attained when X is disjoint from A and A': nothing
declared forbids that.

**Present-absent curve** (``PoissonSubstitution``): the same where the curve of adding or removing
one record on the sample, k(α) >= H_α(A‖X), is known too. Advanced joint convexity with α >= 1, α' = 1+q(α−1),
β = α'/α: H_{α'} <= q[(1−β) k(α) + β h(α)], and reflection below 1. An upper curve; no lower side.
"""

from __future__ import annotations

import math

import numpy as np

from affidavit.accountant.pld.curve import Array, Curve, Logs
from affidavit.accountant.rounding import ULP, UNIT

__all__ = ["Diluted", "Mixed", "PoissonSubstitution", "TwoSided", "log_mixed"]


def log_mixed(loss: Array, rate: float) -> Array:
    """ln(1 + γ(e^λ − 1)) for 0 < γ < 1, without cancellation near λ = 0, nor far down, where it is near ln(1 − γ)."""
    bent = rate * np.expm1(np.minimum(loss, 700.0))
    far = np.logaddexp(loss + math.log(rate), math.log1p(-rate))
    near = (bent > -0.5) & (bent < 1.0) & (loss < 700.0)
    return np.where(near, np.log1p(np.clip(bent, -0.5, 1.0)), far)


def _inner_loss(loss: Array, rate: float) -> Array:
    """λ = ln(1 + (e^l − 1)/γ), the inverse of ``log_mixed``; −inf at and below ln(1−γ)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bent = np.expm1(np.minimum(loss, 0.0)) / rate
        negative = np.log1p(np.maximum(bent, -1.0))
        if rate > 0.5:  # far down 1 + bent cancels, e^l/(1−γ) − 1 does not
            far = math.log1p(-rate) - math.log(rate) + np.log(np.expm1(np.maximum(loss - math.log1p(-rate), 0.0)))
            negative = np.where(bent > -0.5, negative, far)
        positive = loss + np.log1p(min((1.0 - rate) / rate, 1e308) * -np.expm1(-np.maximum(loss, 0.0)))
    return np.where(loss < 0.0, negative, positive)


def _outer_loss(loss: float, rate: float) -> float:
    """``log_mixed`` of one loss."""
    return float(log_mixed(np.array([loss]), rate)[0])


def _listed(curve: Curve) -> bool:
    """Whether ``atoms`` are all there are between the ends, not two that generate a lattice."""
    return bool(curve.atoms) and (curve.atoms[0], curve.atoms[-1]) == (curve.low, curve.high)


def _atoms(curve: Curve, rate: float) -> tuple[float, ...]:
    """The atoms' outer losses; a lattice of many is none any more."""
    bottom = (math.log1p(-rate),) if curve.bottom > 0.0 else ()
    if curve.polygon and not _listed(curve):
        return bottom
    return (*bottom, *(_outer_loss(atom, rate) for atom in curve.atoms))


def _with_zero(curve: Curve) -> tuple[float, ...]:
    """The atoms and 0; of a lattice symmetric about 0, two that generate both."""
    if curve.polygon and not _listed(curve):
        gap = curve.atoms[1] - curve.atoms[0]
        halves = 2.0 * curve.atoms[0] / gap
        if abs(halves - round(halves)) < 1e-6:
            return (0.0, gap if round(halves) % 2 == 0 else 0.5 * gap)
        return (0.0,)
    return tuple(sorted({0.0, *curve.atoms}))


class Mixed(Curve):
    """The pair (γP + (1−γ)Q, Q) for the pair ``curve`` = (P, Q) and 0 < ``rate`` < 1."""

    def __init__(self, curve: Curve, rate: float) -> None:
        self.curve, self.rate, self.accuracy, self.convex = curve, rate, curve.accuracy, curve.convex
        self.polygon = curve.polygon and _listed(curve)
        self.low = _outer_loss(curve.low, rate)
        self.high = _outer_loss(curve.high, rate)
        self.infinity = rate * curve.infinity
        self.atoms = _atoms(curve, rate)
        if self.atoms:
            self.low = min(self.low, self.atoms[0])

    def logs(self, loss: Array) -> Logs:
        inner = self.curve.logs(_inner_loss(loss, self.rate))
        kept, rest = math.log(self.rate), math.log1p(-self.rate)
        p_tail = np.minimum(np.logaddexp(kept + inner.p_tail, rest + inner.q_tail), 0.0)
        p_head = np.minimum(np.logaddexp(kept + inner.p_head, rest + inner.q_head), 0.0)
        mixed = Logs(p_tail, inner.q_tail, p_head, inner.q_head)
        return mixed.ended(loss < math.log1p(-self.rate), np.zeros_like(loss, dtype=np.bool_))

    def deltas(self, epsilon: Array) -> tuple[Array, Array]:
        """γ h(1 + (e^ε − 1)/γ): the inner curve's accuracy is kept."""
        inner = _inner_loss(epsilon, self.rate)
        at = np.where(np.isfinite(inner), inner, 0.0)
        # Moving the inner loss by its own rounding moves δ by at most that times the mass above.
        low, high = self.curve.deltas(at)
        slack = 8.0 * UNIT * ((1.0 + np.abs(at)) * np.exp(self.logs(epsilon).p_tail) + high * self.rate)
        other = super().deltas(epsilon)
        plain = (epsilon < math.log1p(-self.rate) + 1e-9) | (epsilon >= self.high)
        sides = np.maximum(self.rate * low - slack, 0.0), np.minimum(self.rate * high + slack, 1.0)
        return np.where(plain, other[0], sides[0]), np.where(plain, other[1], sides[1])


class TwoSided(Curve):
    """The symmetric curve that is ``half``'s for α >= 1, and its mirror image below."""

    symmetric = True

    def __init__(self, half: Curve) -> None:
        self.half = half
        self.accuracy, self.polygon, self.convex = half.accuracy, half.polygon, half.convex
        self.high, self.infinity = half.high, half.infinity
        self.bottom = self.infinity
        self.low = -self.high
        positive = tuple(atom for atom in half.atoms if atom > 0.0)
        self.atoms = (*(-atom for atom in reversed(positive)), 0.0, *positive)

    def logs(self, loss: Array) -> Logs:
        negative = loss < 0.0
        # P(L <= l) = Q(L >= -l) for l < 0: the tail just below -l.
        outer = self.half.logs(np.where(negative, np.nextafter(-loss, -math.inf), loss))
        return Logs.reflected(negative, outer.p_tail, outer.q_tail)

    def deltas(self, epsilon: Array) -> tuple[Array, Array]:
        sides = zip(self.half.deltas(np.maximum(epsilon, 0.0)), super().deltas(epsilon), strict=True)
        low, high = (np.where(epsilon >= 0.0, one, other) for one, other in sides)
        return low, high


class Diluted(Curve):
    """Loss 0 with probability 1−q, the loss of ``curve`` with probability q = ``rate``."""

    def __init__(self, curve: Curve, rate: float) -> None:
        self.curve, self.rate, self.accuracy, self.polygon = curve, rate, curve.accuracy, curve.polygon
        self.convex, self.symmetric = curve.convex, curve.symmetric
        self.low, self.high = min(curve.low, 0.0), max(curve.high, 0.0)
        self.infinity, self.bottom = rate * curve.infinity, rate * curve.bottom
        self.atoms = _with_zero(curve)

    def logs(self, loss: Array) -> Logs:
        inner = self.curve.logs(loss)
        kept, rest = math.log(self.rate), math.log1p(-self.rate)
        tail = np.where(loss < 0.0, rest, -math.inf)
        head = np.where(loss < 0.0, -math.inf, rest)
        ends = zip(inner, (tail, tail, head, head), strict=True)
        return Logs(*(np.minimum(np.logaddexp(kept + part, still), 0.0) for part, still in ends))

    def deltas(self, epsilon: Array) -> tuple[Array, Array]:
        near, (low, high) = super().deltas(epsilon), self.curve.deltas(np.maximum(epsilon, 0.0))
        low, high = self.rate * low * (1.0 - ULP), np.minimum(self.rate * high * (1.0 + ULP), 1.0)
        return np.where(epsilon < 0.0, near[0], low), np.where(epsilon < 0.0, near[1], high)


class PoissonSubstitution(Curve):
    """Poisson sampling under substitution, both curves on the sample known.

    ``absent`` is the (present, absent) curve k, ``replaced`` the substitution curve h, both
    symmetric; 0 < ``rate`` < 1. With H(α') = q[(1−β) k(α) + β h(α)], β = α'/α, α = 1 + (α'−1)/q:

        dβ/dα' = 1/α − α'/(qα²) = −(1−q)/(q α²),
        −H'(α') = q[(1−β) K + β S]/q + (1−q)(h − k)/α²,

    K, S the Q-tails of the two curves at ln α; the P-tail is H − α' H'. The bound need not be
    convex; the profile is, so it lies under the bound's convex minorant too.
    """

    convex = False
    symmetric = True

    def __init__(self, absent: Curve, replaced: Curve, rate: float) -> None:
        self.absent, self.replaced, self.rate = absent, replaced, rate
        self.accuracy = max(absent.accuracy, replaced.accuracy)
        self.high = _outer_loss(max(absent.high, replaced.high), rate)
        self.low = -self.high
        # β → q as α → ∞: the masses at infinity.
        self.infinity = self.bottom = rate * ((1.0 - rate) * absent.infinity + rate * replaced.infinity)
        self.atoms = (0.0,)

    def logs(self, loss: Array) -> Logs:
        negative = loss < 0.0
        size = np.where(negative, np.nextafter(-loss, -math.inf), loss)
        inner = _inner_loss(size, self.rate)
        k, s = self.absent.logs(inner), self.replaced.logs(inner)
        # α' k-terms in units that cannot overflow: e^{λ} Q-tail <= P-tail.
        beta = np.exp(np.minimum(size - inner, 0.0))
        with np.errstate(invalid="ignore", over="ignore"):
            k_scaled = np.where(k.q_tail > -math.inf, np.exp(inner + k.q_tail), 0.0)
            s_scaled = np.where(s.q_tail > -math.inf, np.exp(inner + s.q_tail), 0.0)
        k_delta = np.maximum(np.exp(k.p_tail) - k_scaled, 0.0)
        s_delta = np.maximum(np.exp(s.p_tail) - s_scaled, 0.0)
        # α' times the Q-tail, then the P-tail.
        scaled = beta * ((1.0 - beta) * k_scaled + beta * s_scaled)
        scaled = np.maximum(scaled + (1.0 - self.rate) * (s_delta - k_delta) * beta * np.exp(-inner), 0.0)
        height = self.rate * ((1.0 - beta) * k_delta + beta * s_delta)
        with np.errstate(divide="ignore"):
            p_side = np.minimum(np.log(height + scaled), 0.0)
            q_side = np.minimum(np.log(scaled) - size, p_side)
        return Logs.reflected(negative, p_side, q_side)
