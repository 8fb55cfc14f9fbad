r"""Clipping and exact summation.

    clip_c(z) = max(−c, z − max_v z_v + c)      (Bhusal et al., equation 2)

maps a row of logits into [−c, c] without changing its softmax above the floor. Here the result is
rounded to whole multiples of 2^-20 and held between ±C, C = ⌊c·2^20⌋, so that sums are sums of
integers: no order of summation and no other row can change a bit of what one row contributes.

The sum over a batch is held between ±s·C. A batch is a hash bucket and may hold more than the public
s records; the mean over s then still is in [−c, c], as in the paper. Holding is coordinatewise, monotone
and 1-Lipschitz, so one row still moves every coordinate by an amount in [−C, C].

Where a model computes on a device the same integers are made there (``device_sums``), and one vector comes back;
where other processes compute, one vector of each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import AffidavitError
from affidavit.generation.models.base import Decoding, Logits

if TYPE_CHECKING:
    import torch

__all__ = [
    "GRID",
    "Added",
    "Clipped",
    "Elsewhere",
    "GridLogits",
    "Measure",
    "OnDevice",
    "Totals",
    "added",
    "blend",
    "brought",
    "clip_to_grid",
    "grid_bound",
    "picked",
    "total",
]

GRID = 1 << 20
"""Grid points per unit of logit."""

GridLogits: TypeAlias = NDArray[np.int32]
Totals: TypeAlias = NDArray[np.int64]


class Measure(ABC):
    """What a row of logits contributes, in whole numbers between ±C, and whether it was sound; two ways to compute it.

    ``on_host`` and ``on_device`` give the same numbers: on the processor, and where the logits are.
    """

    clip: float

    @abstractmethod
    def on_host(self, logits: Logits) -> tuple[GridLogits, NDArray[np.bool_]]: ...

    @abstractmethod
    def on_device(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: ...

    def row(self, decoding: Decoding) -> GridLogits | torch.Tensor:
        """What the first row contributes, where it was computed. Raises ``AffidavitError`` if it is unsound."""
        row: GridLogits | torch.Tensor
        if isinstance(decoding, Elsewhere):
            added = decoding.adding([(decoding, 1)], self)()
            row, sound = added.total, not added.unsound
        else:
            grid, all_sound = (
                self.on_device(decoding.device_logits[:1])
                if isinstance(decoding, OnDevice)
                else self.on_host(decoding.logits[:1])
            )
            row, sound = grid[0], bool(all_sound.all())
        if not sound:
            raise AffidavitError(
                "the model's logits for the public prompt are not finite", hint='Try `generator.dtype = "float32"`.'
            )
        return row


@runtime_checkable
class OnDevice(Protocol):
    """A decoding whose logits can be had where they were computed, besides on the processor."""

    @property
    def device_logits(self) -> torch.Tensor:
        """As ``Decoding.logits``, valid until the next token is appended."""
        ...


@dataclass(frozen=True, slots=True)
class Added:
    """What some rows contribute together, not held to any bound; how many they are, and how many were not sound."""

    total: NDArray[Any]
    rows: int
    unsound: int


@runtime_checkable
class Elsewhere(Protocol):
    """A decoding that another process computes, which adds its rows up: the sum comes back, not the rows."""

    @property
    def place(self) -> object:
        """Decodings of the same place can be added up together."""
        ...

    def picked(self, tokens: NDArray[np.int64], *, rows: int) -> Logits:
        """As ``picked``: no other logits leave the process."""
        ...

    def adding(self, parts: Sequence[tuple[Decoding, int]], measure: Measure) -> Callable[[], Added]:
        """Ask its place for the sum over the first rows of ``parts``, so many of each; the answer is waited for."""
        ...


def picked(decoding: Decoding, tokens: NDArray[np.int64], *, rows: int) -> Logits:
    """The logits of ``tokens`` in the first ``rows`` rows: no others are brought from where they are."""
    if isinstance(decoding, Elsewhere):
        return decoding.picked(tokens, rows=rows)
    if not isinstance(decoding, OnDevice):
        return decoding.logits[:rows, tokens]
    held = decoding.device_logits
    return cast("Logits", held[:rows, held.new_tensor(tokens).long()].cpu().numpy())


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
    with np.errstate(invalid="ignore", over="ignore"):  # a warning would tell what a private row holds
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
    bound = batch_size * grid_bound(clip)
    return np.clip(added(parts, vocabulary=vocabulary), -bound, bound)


def added(parts: Iterable[NDArray[Any]], *, vocabulary: int) -> Totals:
    """The same, not held to any bound."""
    result = np.zeros(vocabulary, dtype=np.int64)
    for part in parts:
        result += part.sum(axis=0, dtype=np.int64)
    return result


@dataclass(frozen=True, slots=True)
class Clipped(Measure):
    """``clip_to_grid``, wherever the logits are."""

    clip: float

    def on_host(self, logits: Logits) -> tuple[GridLogits, NDArray[np.bool_]]:
        return clip_to_grid(logits, clip=self.clip)

    def on_device(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from affidavit.generation import device_sums

        return device_sums.clip_to_grid(logits, clip=self.clip)


def blend(private: Totals | torch.Tensor, public: GridLogits | torch.Tensor, *, batch_size: int) -> Totals:
    """The private sum plus s times the public row, on the processor; both from one device come as one vector.

    That is 2·s·GRID times the paper's ẑ = (z̄ + u)/2; integers stay exact where a division would not.
    """
    if isinstance(private, np.ndarray) or isinstance(public, np.ndarray):
        summed: Totals = brought(private) + np.int64(batch_size) * brought(public).astype(np.int64)
        return summed
    return brought(private + batch_size * public.long())


def brought(numbers: NDArray[Any] | torch.Tensor) -> NDArray[Any]:
    """The same numbers on the processor."""
    return numbers if isinstance(numbers, np.ndarray) else numbers.cpu().numpy()
