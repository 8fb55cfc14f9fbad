"""Row evidence, remembered in the user's cache: the same batch on the same machine is tried once.

A file each, named by the digest of everything that the outcome may depend on (``facts``). It says how rows stayed
apart, and for how many steps; that they did not is never remembered. A damaged file is as none.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from affidavit.accountant import files
from affidavit.generation.models.computing import Computing
from affidavit.generation.models.digests import cache_folder
from affidavit.generation.models.rows import BatchShape

__all__ = ["kernel_settings", "processor", "recall", "remember"]

_FORMAT = "affidavit row evidence 1"
_SETTINGS = ("OMP_", "KMP_", "GOMP_", "MKL_", "ONEDNN_", "DNNL_", "TORCH_", "PYTORCH_", "ATEN_", "CUDA_", "CUBLAS_")


def processor() -> str:
    """The processor's model, as far as the system says."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine()


def kernel_settings() -> dict[str, str]:
    """The environment variables by which numeric libraries choose kernels."""
    return {name: value for name, value in sorted(os.environ.items()) if name.startswith(_SETTINGS)}


def recall(facts: Mapping[str, object], shape: BatchShape) -> Computing | None:
    """How rows of ``shape`` stayed apart under ``facts``, if that was tried before, for as many steps."""
    try:
        found = json.loads(_place(facts, shape).read_bytes())
        computing = Computing(**found["computing"])
        steps = found["steps"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    sound = found["format"] == _FORMAT and isinstance(steps, int) and isinstance(computing.threads, int)
    return computing if sound and computing.threads > 0 and steps >= shape.steps else None


def remember(facts: Mapping[str, object], shape: BatchShape, computing: Computing) -> None:
    """Keep it, whole or not at all; where the cache cannot be written, it is tried again next time."""
    place = _place(facts, shape)
    line = {"format": _FORMAT, "facts": dict(facts), **asdict(shape), "computing": asdict(computing)}
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        files.write(place, json.dumps(line, indent=1).encode())


def _place(facts: Mapping[str, object], shape: BatchShape) -> Path:
    key = json.dumps([_FORMAT, dict(facts), shape.rows, shape.width], sort_keys=True)
    return cache_folder() / "rows" / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
