r"""Clipping and exact summation.

    clip_c(z) = max(−c, z − max_v z_v + c)      (Bhusal et al., equation 2)

maps a row of logits into [−c, c] without changing its softmax above the floor. Here the result is
rounded to whole multiples of 2^-20 and held between ±C, C = ⌊c·2^20⌋, so that sums are sums of
integers: no order of summation and no other row can change a bit of what one row contributes.

The sum over a batch is held between ±s·C. A batch is a hash bucket and may hold more than the public
s records; the mean over s then still is in [−c, c], as in the paper. Holding is coordinatewise, monotone
and 1-Lipschitz, so one row still moves every coordinate by an amount in [−C, C].
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.generation.models.base import Logits

__all__ = ["GRID", "GridLogits", "Totals", "blend", "clip_to_grid", "grid_bound", "total"]

GRID = 1 << 20
"""Grid points per unit of logit."""

GridLogits: TypeAlias = NDArray[np.int32]
Totals: TypeAlias = NDArray[np.int64]


def grid_bound(clip: float) -> int:
    """C: the largest whole multiple of 1/GRID within ``clip``."""
    return math.floor(clip * GRID)


def clip_to_grid(logits: Logits, *, clip: float) -> tuple[GridLogits, NDArray[np.bool_]]:
    """``clip_c`` of every row of ``logits`` (rows, vocabulary), in grid units, and which rows were sound.

    Every step is elementwise in float32, so a row's result depends on that row alone. A row with a NaN or
    without a finite maximum is unsound and becomes a row of zeros: it contributes nothing, like an absent record.
    """
    bound = grid_bound(clip)
    peaks = logits.max(axis=1, keepdims=True)
    sound = np.isfinite(peaks[:, 0])
    peaks = np.where(sound[:, None], peaks, np.float32(0.0))
    with np.errstate(invalid="ignore"):
        grid = logits - peaks
        grid += np.float32(clip)
        np.maximum(grid, np.float32(-clip), out=grid)
        grid *= np.float32(GRID)
        np.rint(grid, out=grid)
    if not np.all(sound):
        grid[~sound] = np.float32(0.0)
    whole = grid.astype(np.int32)
    np.clip(whole, -bound, bound, out=whole)
    return whole, sound


def total(parts: Iterable[GridLogits], *, vocabulary: int, batch_size: int, clip: float) -> Totals:
    """The sum over all rows of all parts, held between ±s·C; exact, in any order."""
    result = np.zeros(vocabulary, dtype=np.int64)
    for part in parts:
        result += part.sum(axis=0, dtype=np.int64)
    bound = batch_size * grid_bound(clip)
    return np.clip(result, -bound, bound)


def blend(private: Totals, public: GridLogits, *, batch_size: int) -> Totals:
    """The private sum plus s times the public row.

    That is 2·s·GRID times the paper's ẑ = (z̄ + u)/2; integers stay exact where a division would not.
    """
    return private + np.int64(batch_size) * public.astype(np.int64)
