"""How long a run takes, roughly, from its settings alone."""

from __future__ import annotations

import math

from affidavit.runfile import RunFile

__all__ = ["minutes_to_run"]

# Measured for SmolLM2-135M in bfloat16 on two cores: seconds a prompt token, seconds a decoded token
# a row, and seconds to load the converted checkpoint.
_SMOLLM2 = (0.55e-3, 3.5e-3, 5.0)
_TEMPLATE_TOKENS = 48


def minutes_to_run(run: RunFile) -> float | None:
    """Minutes on two cores for a model that was measured, else None. Reads nothing."""
    settings = run.generator.model_dump()
    names = ("labels", "samples_per_label", "batch_size", "max_record_tokens", "max_tokens", "minibatch_rows")
    if run.model.name != "smollm2-135m" or any(name not in settings for name in names):
        return None
    labels, samples, batch, record, tokens, minibatch = (settings[name] for name in names)
    buckets = max(1, run.data.size // (len(labels) * batch))
    in_a_batch = run.data.size / (len(labels) * buckets)
    rows = math.ceil(in_a_batch / minibatch) * minibatch + 1
    prompt, step, load = _SMOLLM2
    texts = len(labels) * samples
    return float(load + texts * rows * ((record + _TEMPLATE_TOKENS) * prompt + tokens * step)) / 60.0
