r"""Poisson sampling under substitution of a pure mechanism: the exact curve of both costs on the sample.

X, A, A' are the outputs without the place, with the old and with the new record; A and A' (a, 0)-indistinguishable from
X, and (r, 0)-indistinguishable from each other, E = e^a, R = e^min(r, 2a). docs/theory/sampling.md: an event of
probabilities (x, A, A') reveals most at one of two corners, on which A' = A/R,

    A_2 = min(R/(R+1), R(E−1)/(E(R−1))),    A_1 = min(A_2, E/(E+1)),    x = max(A/E, 1 − E(1−A)).

Sampled at rate q an event has probabilities c = (1−q)x + qA and d = (1−q)x + qA' under the two data sets. So the pair
has an outcome (c_1, d_1), one (c_2 − c_1, d_2 − d_1) where the corners differ (a < r < 2a), their mirror images, and
the rest at loss 0. Joint convexity (``subsample``) is looser: it takes X, A and A' to be as far apart as any two can.

For r >= 2a one mechanism reaches the whole curve. Otherwise the lower side is that of two mechanisms whose loss has
the larger mean square: A' = X; or A = (Ex, ·, Ex/R), A' its mirror image, X = (x, 1−2x, x), x = (E−1)/(E² + E²/R − 2).
Corners in mpmath: their differences may be small.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from affidavit.accountant.digits import alone
from affidavit.accountant.pld.atomic import Atomic, pure
from affidavit.accountant.pld.curve import Curve, OneStep
from affidavit.accountant.pld.subsample import Mixed
from affidavit.accountant.rounding import MASSES

__all__ = ["replaced_step"]

DIGITS = 60

Corner = tuple[Any, Any]
"""P and Q of an outcome, as mpmath numbers; its mirror image has them exchanged."""


@lru_cache(maxsize=64)
def replaced_step(*, replaced: float, absent: float, rate: float) -> OneStep:
    """One use; costs > 0, 0 < ``rate`` < 1."""
    import mpmath

    digits = DIGITS + int(replaced + 2.0 * absent) + int(-3.0 * math.log10(min(replaced, absent, 1.0)))
    with alone, mpmath.workdps(digits):
        e, r, share = mpmath.exp(absent), mpmath.exp(min(replaced, 2.0 * absent)), mpmath.mpf(rate)
        nothing = 1 - share
        kinks = [e / (e + 1) if replaced > absent else r / (r + 1)]
        if absent < replaced < 2.0 * absent:
            kinks.append(min(r / (r + 1), r * mpmath.expm1(absent) / (e * mpmath.expm1(replaced))))
        corners = [(mpmath.mpf(0), mpmath.mpf(0))]
        for old in kinks:
            gone = nothing * max(old / e, 1 - e * (1 - old))
            corners.append((gone + share * old, gone + share * old / r))
        upper = _symmetric([(p - p_before, q - q_before) for (p_before, q_before), (p, q) in pairwise(corners)])
        if replaced >= 2.0 * absent:
            return OneStep.attained(upper, symmetric=True)
        x = mpmath.expm1(absent) / (e * e + e * e / r - 2)
        p, q = nothing * x + share * e * x, nothing * x + share * e * x / r
        s = 1 / (1 + mpmath.exp(-min(replaced, absent)))
        kept = [(share * s + nothing * (1 - s), 1 - s), (share * (1 - s) + nothing * s, s)]
        if _squared_loss([(p, q), (q, p)]) >= _squared_loss(kept):
            return OneStep.dominated(upper, lower=_symmetric([(p, q)]), symmetric=True)
    pair = Mixed(pure(min(replaced, absent)), rate)
    return OneStep.dominated(upper, lower=pair)


def _symmetric(revealing: Sequence[Corner]) -> Curve:
    """``revealing``, losses falling and positive, their mirror images, and the rest at loss 0."""
    from mpmath import log

    losses = [float(log(p / q)) for p, q in revealing]
    log_p, log_q = [float(log(p)) for p, _ in revealing], [float(log(q)) for _, q in revealing]
    idle = float(log(1 - sum(p + q for p, q in revealing)))
    curve = Atomic(
        np.array([*(-loss for loss in losses), 0.0, *reversed(losses)]),
        np.array([*log_q, idle, *reversed(log_p)]),
        atoms=None if len(losses) == 1 else (),
    )
    curve.accuracy, curve.symmetric = MASSES, True
    return curve


def _squared_loss(outcomes: Sequence[Corner]) -> float:
    """E_P[loss²]: what many uses add up to."""
    from mpmath import log

    return float(sum(p * log(p / q) ** 2 for p, q in outcomes))
