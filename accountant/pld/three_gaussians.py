r"""Poisson sampling under substitution of Gaussian noise: the exact curve, from two sensitivities on the sample.

Let the noise have covariance I, and let the sum move by a with the old record and by b with the new one, against the
sample without either: |a|, |b| <= μ_a (``absent``), |a − b| <= μ_r (``replaced``), μ_a <= μ_r <= 2μ_a (by way of the
sample without them, no two are further apart). P = (1−q)N(0) + qN(a), Q = (1−q)N(0) + qN(b).

Theorem. For every α >= 1 the largest H_α(P‖Q) is that of a = μ_a and b = −(μ_r − μ_a) on a line; for α < 1 it is its
mirror image, 1 − α + α H_{1/α}. The same holds for adaptive compositions on one sample whose μ_r/μ_a are all one ratio,
with μ_a² and μ_r² added up: every use is best on the line of the others, so the sums are reached.

Proof. With X = e^{a·x − |a|²/2}, Y = e^{b·x − |b|²/2}, x ~ N(0, I), and k = (1−q)(α−1),
    H_α(P‖Q) = E f(X, Y),   f = (qX − qαY − k)₊,
which depends on a and b only by s = |a|, t = |b| and c = a·b. In u = ln X, v = ln Y, jointly normal with variances
s², t², covariance c and means −s²/2, −t²/2, Plackett's identity (1954) gives
    ∂E f/∂c = E f_uv,   ∂E f/∂(s²) = ½ E X² f_XX,   ∂E f/∂(t²) = ½ E Y² f_YY   (c held fixed),
and with g >= 0 the density of qX − qαY at k: X² f_XX = (qX)² g, Y² f_YY = (qαY)² g, f_uv = −(qX)(qαY) g <= 0. So E f
falls in c, which is best at its least, max(−st, (s² + t² − μ_r²)/2).
- Where −st is the larger (s + t <= μ_r): ∂c/∂(s²), ∂c/∂(t²) <= 0, so E f rises in s and in t.
- Else c = (s² + t² − μ_r²)/2, whose derivatives are ½: ∂E f/∂(s²) = ½ E g qX (qX − qαY) = ½ k E g qX >= 0 and
  ∂E f/∂(t²) = ½ E g qαY (qαY − qX) = −½ k E g qαY <= 0.
So s = μ_a and t = μ_r − μ_a, with c = −st. For α < 1 exchange P and Q.
Adaptive uses choose a_i, b_i by what came before. By backward induction the value V(X, Y) of what follows keeps what
was used of f: V is convex in X and in Y, V_XY <= 0, and along rays (λX, λY) V_X rises and V_Y falls (for k >= 0): each
survives an expectation over (X e^…, Y e^…). So each use is best at its own s_i, t_i, c_i = −s_i t_i. ∎

At μ_r = 2μ_a the pair N(μ_a), N(−μ_a) is one pair for every α: it dominates and is attained (the antipodal pair of
Schuchardt, Stoian, Kosmala and Günnemann 2024, and of dp-accounting). Between, the pair reaches the half α >= 1, its
exchange the other: the curve dominates, the pair is the lower side.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr

from affidavit.accountant.nodes import Gaussian, Plan, unrolled
from affidavit.accountant.pld.curve import Array, Curve, Logs, OneStep
from affidavit.accountant.pld.mixture import Mixture
from affidavit.accountant.pld.subsample import TwoSided
from affidavit.accountant.rounding import SHIFTED_TAIL, UNIT

__all__ = ["ThreeGaussians", "gaussian_shifts", "replaced_gaussian"]

HALVINGS, COARSE, NEWTON = 120, 10, 6


def gaussian_shifts(of: Plan, absent: Plan) -> tuple[float, float] | None:
    """(μ_r, μ_a) of Gaussians alone, the same uses twice, in one ratio; None otherwise, or without noise."""
    both = list(unrolled(of)), list(unrolled(absent))
    if not both[0] or [count for _, count in both[0]] != [count for _, count in both[1]]:
        return None
    noise = [[one.noise_multiplier if isinstance(one, Gaussian) else 0.0 for one, _ in uses] for uses in both]
    if min(map(min, noise)) <= 0.0:
        return None
    if len({Fraction(gone) / Fraction(sigma) for sigma, gone in zip(*noise, strict=True)}) > 1:
        return None
    counts = [count for _, count in both[0]]
    replaced, presence = (
        math.sqrt(math.fsum(count / sigma**2 for sigma, count in zip(side, counts, strict=True))) for side in noise
    )
    return replaced, presence


class ThreeGaussians(Curve):
    """(1−q)N(0) + qN(``right``) against (1−q)N(0) + qN(−``left``); ``right`` >= ``left`` > 0, 0 < q < 1."""

    accuracy = SHIFTED_TAIL

    def __init__(self, *, right: float, left: float, rate: float) -> None:
        self.right, self.left, self.rate = right, left, rate
        self.p, self.q = Mixture(rate, right), Mixture(rate, -left)
        self.symmetric = left == right  # by x → −x

    def _loss(self, x: Array) -> Array:
        return self.p.log_ratio(x) - self.q.log_ratio(x)

    def _slope(self, x: Array) -> Array:
        """d loss / dx."""
        return self.right * self.p.second(x) + self.left * self.q.second(x)

    def _point(self, loss: Array) -> Array:
        """Where the loss, which rises in x, is reached: halved, Newton's steps, and each root enclosed or halved on."""
        # Each mixture is between its parts, so the loss is between right·x − … and what the left one adds.
        reach = (np.abs(loss) - math.log(self.rate) - math.log1p(-self.rate) + 1.0) / min(self.left, self.right)
        low, high = -reach - self.left - self.right, reach + self.left + self.right

        def halved(low: Array, high: Array, loss: Array, times: int) -> tuple[Array, Array]:
            for _ in range(times):
                middle = 0.5 * (low + high)
                above = self._loss(middle) > loss
                low, high = np.where(above, low, middle), np.where(above, middle, high)
            return low, high

        low, high = halved(low, high, loss, COARSE)
        x = 0.5 * (low + high)
        for _ in range(NEWTON):
            x = np.clip(x - (self._loss(x) - loss) / np.maximum(self._slope(x), 1e-300), low, high)
        close = 4.0 * UNIT * (1.0 + np.abs(x))
        missed = (self._loss(x - close) > loss) | (self._loss(x + close) < loss)
        if missed.any():
            ends = halved(low[missed], high[missed], loss[missed], HALVINGS - COARSE)
            x[missed] = 0.5 * (ends[0] + ends[1])
        result: Array = x
        return result

    def logs(self, loss: Array) -> Logs:
        finite = np.isfinite(loss)
        x = np.where(finite, self._point(np.where(finite, loss, 0.0)), loss)
        kept, rest = math.log(self.rate), math.log1p(-self.rate)

        def mixed(sign: float, mean: float) -> Array:
            tails: Array = np.logaddexp(rest + log_ndtr(sign * x), kept + log_ndtr(sign * (x - mean)))
            return tails

        return Logs(mixed(-1.0, self.right), mixed(-1.0, -self.left), mixed(1.0, self.right), mixed(1.0, -self.left))


def replaced_gaussian(*, replaced: float, absent: float, rate: float) -> OneStep:
    """One use with the shifts μ_r = ``replaced`` > μ_a = ``absent`` > 0 on the sample, 0 < ``rate`` < 1."""
    left = min(replaced, 2.0 * absent) - absent
    pair = ThreeGaussians(right=absent, left=left, rate=rate)
    if left == absent:
        return OneStep.attained(pair, symmetric=True)
    upper = TwoSided(pair)
    return OneStep.dominated(upper, lower=pair)
