"""Which GPUs of this machine there are for processes that compute side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from affidavit.accountant.extras import require

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

__all__ = ["accelerators", "take_device"]


def accelerators() -> tuple[str, ...]:
    """Where models run on GPUs: those that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them."""
    if os.environ.get("AFFIDAVIT_DEVICE") != "cuda":
        return ()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return tuple(one for one in named.split(",") if one.strip())
    require("llm", "torch", purpose="a model on a GPU")
    import torch

    return tuple(map(str, range(torch.cuda.device_count())))


def take_device(taken: Synchronized[int], devices: Sequence[str]) -> None:
    """In a new process, before torch is imported there: the next GPU in turn is the only one that it sees."""
    with taken.get_lock():
        number, taken.value = taken.value, taken.value + 1
    if devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices[number % len(devices)]
