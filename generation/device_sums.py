"""What ``aggregate`` does on the processor, on the device that computed the logits: the same integers, bit for bit.

Clipping, the difference to the public row and the grid are single float32 operations (subtract, add, compare, multiply
by a power of two, round to even), which IEEE 754 defines to the last bit on every device; sums are sums of integers.
No operation here may be fused into one with another rounding, so nothing here is compiled.
tests/generation/test_device_sums.py holds both against each other. Imported only where a model computes on a device,
since it needs torch.
"""

from __future__ import annotations

import torch

from affidavit.generation.aggregate import GRID, grid_bound

__all__ = ["clip_difference", "clip_to_grid"]


def clip_to_grid(logits: torch.Tensor, *, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``aggregate.clip_to_grid``."""
    peaks = logits.amax(dim=1, keepdim=True)
    sound = peaks[:, 0].isfinite()
    lowest = _float32(clip, logits)
    grid = logits - peaks.where(sound[:, None], _float32(0.0, logits))
    grid = (grid + lowest).maximum(-lowest)
    return _whole(grid, sound, clip=clip)


def clip_difference(logits: torch.Tensor, public: torch.Tensor, *, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
    """As ``invisible_ink.clip_difference``."""
    peaks = logits.amax(dim=1, keepdim=True)
    sound = peaks[:, 0].isfinite()
    furthest = _float32(clip, logits)
    own = logits - peaks.where(sound[:, None], _float32(0.0, logits))
    grid = (own - (public - public.max())).nan_to_num(nan=0.0)
    return _whole(grid.minimum(furthest).maximum(-furthest), sound, clip=clip)


def _whole(grid: torch.Tensor, sound: torch.Tensor, *, clip: float) -> tuple[torch.Tensor, torch.Tensor]:
    bound = grid_bound(clip)
    rounded = (grid * _float32(float(GRID), grid)).round()
    rounded = rounded.where(sound[:, None], _float32(0.0, grid))
    return rounded.int().clamp_(-bound, bound), sound


def _float32(value: float, like: torch.Tensor) -> torch.Tensor:
    """A scalar that is rounded to float32 once, before it meets a tensor."""
    return like.new_full((), value, dtype=torch.float32)
