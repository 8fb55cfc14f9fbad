"""How long a run takes, roughly, from its settings alone."""

from __future__ import annotations

from affidavit.runfile import RunFile

__all__ = ["minutes_to_run"]

# Measured for SmolLM2-135M in bfloat16 on two cores: seconds a prompt token, seconds a decoded token
# a row, and seconds to load the converted checkpoint.
_SECONDS = {"smollm2-135m": (0.55e-3, 3.5e-3, 5.0)}


def minutes_to_run(run: RunFile) -> float | None:
    """Minutes on two cores for a model that was measured, else None. Reads nothing."""
    if run.model.name not in _SECONDS:
        return None
    read, decoded, load = _SECONDS[run.model.name]
    work = run.source.work(run.generator, size=run.data.size)
    return (load + work.read * read + work.decoded * decoded) / 60.0
