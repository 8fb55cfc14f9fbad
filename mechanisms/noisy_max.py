r"""Report noisy max with exponential noise: the output whose score plus Expo(rate) noise is largest.

This is the permute-and-flip mechanism (McKenna and Sheldon 2020, "Permute-and-flip"; Ding, Kifer et al. 2021, "The
permute-and-flip mechanism is identical to report-noisy-max with exponential noise").

*Cost.* Let the scores of neighbours differ by d = q(D′) − q(D), and let ``width`` bound max_v d_v − min_v d_v over all
neighbours. One use is (rate · width, 0)-DP, the leaf ``noisy-max``. *Proof.* A constant added to all scores changes
nothing, so let 0 <= d_v <= width. Fix all noises but that of v, which wins iff its noise exceeds a threshold: x under
D, x′ under D′, and |x′ − x| <= width, because v's own score and the best of the others each rise by 0 to width. As
P(E > y) = exp(−rate · max(y, 0)), the two probabilities differ by a factor exp(rate · width) at most; average over the
fixed noises.

So under substitution, where scores in [0, 1] move by d in [−1, 1], width 2: ε = 2·rate. Where a record only adds its
scores (add-remove, zero-out: 0 <= d <= 1, the monotone case) width 1: ε = rate. Tang et al. 2024 write Expo(σ/2), where
σ/2 is the *rate*: ε = σ and σ/2. The law is **not** of bounded range, nor η²/8-zCDP, as softmax sampling is
(docs/theory/exponential.md): only pure DP is known, and the leaf's cost is ``pure``.

*Sampling.* Permute and flip, exactly: outputs in uniformly random order, each taken with probability
exp(−rate · (max score − score)); the best one always is, so the walk ends. Scores are whole numbers and the rate
is rational, so the law is exact (``coins``), ties included.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.decimals import float_at_least
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Leaf, Pure, register_leaf
from affidavit.accountant.validate import size
from affidavit.mechanisms.base import (
    Mechanism,
    Noise,
    Permit,
    Rational,
    Statistic,
    charge,
    positive,
    watched,
)
from affidavit.mechanisms.coins import exponential_coins

__all__ = ["ASSUMPTIONS", "MECHANISM", "ExponentialNoisyMax", "NoisyMax", "sample"]

ASSUMPTIONS = ("noisy-max: the noise source yields independent uniform bits; the draw is exact",)

_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class NoisyMax(Leaf):
    """Report noisy max with exponential noise: (``epsilon``, 0)-DP, and nothing better is known of it."""

    epsilon: float
    kind: ClassVar[str] = "noisy-max"


register_leaf(NoisyMax, {"epsilon": size}, costs=lambda leaf: Pure(leaf.epsilon))


@dataclass(frozen=True, slots=True)
class ExponentialNoisyMax:
    """``rate`` of the noise (1/mean) and ``width``, the largest spread over outputs of the change in score."""

    rate: Rational
    width: Rational

    def leaf(self) -> NoisyMax:
        """The ``noisy-max`` leaf of one use: rate · width, rounded up."""
        return NoisyMax(float_at_least(positive(self.rate, name="rate") * positive(self.width, name="width")))

    def release(self, permit: Permit, path: str, values: NDArray[np.int64]) -> int:
        """The noisy argmax of whole-number scores.

        Whoever computes them guarantees that neighbouring data change them by a spread of at most ``width``. Raises
        ``PermitViolation`` if ``rate`` · ``width`` exceeds the certified epsilon (compared exactly).
        """
        asked, rate = self.leaf(), Fraction(self.rate)
        charge(permit, path, asked, lambda certified: asked.epsilon <= certified.epsilon)
        statistic = Statistic("spread", (np.asarray(values),), (1 / rate,))
        return watched(permit, path, statistic, lambda: sample(values, rate=rate, noise=permit.noise))


def sample(scores: NDArray[np.int64], *, rate: Rational, noise: Noise) -> int:
    """The sampler alone, for tests: no permit, no charge."""
    values = np.asarray(scores)
    if values.ndim != 1 or not values.size or not np.issubdtype(values.dtype, np.integer):
        raise UsageError("scores are not a list of whole numbers", hint="Scale them to a grid of whole numbers.")
    exact = positive(rate, name="rate")
    best = int(values.max())
    gaps = [best - value for value in values.tolist()]  # exact, whatever the width of the dtype
    order = _shuffled(values.size, noise)
    for first in range(0, order.size, _BLOCK):
        block = order[first : first + _BLOCK]
        taken = np.flatnonzero(exponential_coins([exact * gaps[index] for index in block], noise=noise))
        if taken.size:
            return int(block[taken[0]])
    raise RuntimeError("no output was taken, although the best one always is")


def _shuffled(count: int, noise: Noise) -> NDArray[np.int64]:
    """A uniformly random order: random keys, drawn again where two agree."""
    while True:
        keys = noise.integers(0, 1 << 62, size=count)
        order: NDArray[np.int64] = np.argsort(keys, kind="stable")
        if not np.any(np.diff(keys[order]) == 0):
            return order


MECHANISM = Mechanism(NoisyMax.kind, ExponentialNoisyMax, "exact permute and flip", ASSUMPTIONS)
