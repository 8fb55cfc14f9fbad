r"""Next-token distributions on an exact grid, over a public vocabulary.

``support`` picks the K best tokens of the *public* prompt's logits (all tokens for K = 0): a function of released text
alone, so it costs nothing. A private row is restricted to it and becomes whole multiples of 2^-40:

- ``on_simplex``: probabilities, renormalised over the support, rounded down. With nonnegative entries of sum at most 1,
  ‖v‖₂ <= 1 and ‖v − v′‖₂² <= ‖v‖₂² + ‖v′‖₂² <= 2, exactly, in integers: the √2 and 1 of docs/theory/few-shot.md.
- ``scaled_to_best``: probabilities divided by the largest, in [0, 1].

Both work from logits, so that 0/0 after the restriction cannot arise by underflow; where a model gives no logit at all
for the support (a server that returns few), every token counts alike. A row with a NaN, or an infinite best, is unsound
and contributes nothing, as an absent record does. Each row is computed alone, in arrays of one shape: no other row can
change a bit of it. Sums of integers are exact in any order.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import AffidavitError
from affidavit.mechanisms.projected_mean import GRID

__all__ = ["GRID", "Grid", "Support", "on_simplex", "scaled_to_best", "support", "total"]

Grid: TypeAlias = NDArray[np.int64]
"""Whole multiples of 1/GRID."""

Support: TypeAlias = NDArray[np.int64]
"""Token ids, ascending."""


def support(public: NDArray[np.float32], *, top_k: int) -> Support:
    """The ``top_k`` best tokens of the public prompt's logits; ties go to the smaller token; 0: all of them.

    A token that the public prompt rules out (−∞; a server shows a few tokens only) is never eligible: else which of
    them is taken could follow from what private prompts have shown.
    """
    if np.isnan(public).any():
        raise AffidavitError(
            "the model's logits for the public prompt are not finite", hint='Try `generator.dtype = "float32"`.'
        )
    possible: Support = np.flatnonzero(public > -np.inf)
    if not possible.size:
        raise AffidavitError("the model gives no next token for the public prompt", hint="Use another model.")
    if top_k == 0:
        return possible
    best = np.argsort(-public[possible], kind="stable")[:top_k]
    return np.sort(possible[best])


def on_simplex(logits: NDArray[np.float32]) -> Grid | None:
    """A row's distribution over the tokens whose logits these are; None for an unsound row."""
    weights = _weights(logits)
    if weights is None:
        return None
    shares: Grid = np.floor(weights / weights.sum() * GRID).astype(np.int64)
    excess = int(shares.sum()) - GRID
    if excess > 0:  # float64 may round the shares up by a few ulp
        shares[shares.argmax()] -= excess
    return shares


def scaled_to_best(logits: NDArray[np.float32]) -> Grid | None:
    """A row's probabilities over these tokens, divided by the largest; None for an unsound row."""
    weights = _weights(logits)
    return None if weights is None else np.floor(weights * GRID).astype(np.int64)


def total(rows: list[Grid], *, width: int) -> Grid:
    """The exact sum of rows of length ``width``; zeros where there are none."""
    result: Grid = np.zeros(width, dtype=np.int64)
    for row in rows:
        result += row
    return result


def _weights(logits: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """exp(logit − best): in [0, 1], the best exactly 1."""
    chosen = logits.astype(np.float64)
    best = chosen.max()
    if np.isnan(best) or best == np.inf:
        return None
    if best == -np.inf:
        return np.ones(chosen.size)
    weights: NDArray[np.float64] = np.exp(chosen - best)
    return weights
