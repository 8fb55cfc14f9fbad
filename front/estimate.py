"""How long a run takes, roughly, from its settings alone."""

from __future__ import annotations

import math

from affidavit.generation.ksa.settings import KsaAnswersConfig, KsaSettings
from affidavit.generation.sga.settings import SgaConfig
from affidavit.generation.subsampled import SubsampledConfig, group_count, sampling_rate
from affidavit.runfile import RunFile

__all__ = ["minutes_to_run"]

# Measured for SmolLM2-135M in bfloat16 on two cores: seconds a prompt token, seconds a decoded token
# a row, and seconds to load the converted checkpoint.
_SMOLLM2 = (0.55e-3, 3.5e-3, 5.0)
_TEMPLATE_TOKENS = 48


def minutes_to_run(run: RunFile) -> float | None:
    """Minutes on two cores for a model that was measured, else None. Reads nothing."""
    if run.model.name == "smollm2-135m":
        match run.generator:
            case SubsampledConfig() as config:
                return _sampled_minutes(config, size=run.data.size)
            case KsaSettings() as config:
                return _keyword_minutes(config)
            case SgaConfig() as config:
                return _ensemble_minutes(config)
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


def _sampled_minutes(config: SubsampledConfig, *, size: int) -> float:
    """Few-shot generation and AdaDPSyn: prompts read anew for every token, or those kept that any token samples."""
    prompt, step, load = _SMOLLM2
    width = config.shots_per_subset * config.max_record_tokens + _TEMPLATE_TOKENS
    if config.sampling == "fixed-groups":
        rate = sampling_rate(config, size=size)
        groups = group_count(config, size=size) / (config.shares if config.shots_per_subset == 1 else 1)
        rows = _whole_minibatches(groups * (1.0 - (1.0 - rate) ** config.max_tokens), config)
        text = rows * (width * prompt + config.max_tokens * step)
    else:
        rows = _whole_minibatches(config.subsets, config)
        text = config.max_tokens * rows * (width + config.max_tokens / 2) * prompt
    texts = len(config.labels) * config.samples_per_label
    return (load + texts * (text + config.max_tokens * step)) / 60.0


def _keyword_minutes(config: KsaSettings) -> float:
    """An answer from every subset for each text, and once a topic from as many public records."""
    prompt, step, load = _SMOLLM2
    answer = config.max_answer_tokens if isinstance(config, KsaAnswersConfig) else 0
    width = config.shots_per_subset * (config.max_record_tokens + answer) + _TEMPLATE_TOKENS
    texts = len(list(config.numbered()))
    batches = texts + (len(config.topics) if config.use_public else 0)
    asked = batches * _whole_minibatches(config.subsets, config)
    answered = asked * (width * prompt + config.max_answer_tokens * step)
    return (load + answered + texts * config.max_tokens * step) / 60.0


def _ensemble_minutes(config: SgaConfig) -> float:
    """An answer from every private and every public prompt for each query."""
    prompt, step, load = _SMOLLM2
    shown = config.shots * (config.max_record_tokens + config.max_tokens)
    rows = 2 * _whole_minibatches(config.ensemble, config)
    each = rows * ((shown + config.max_record_tokens + _TEMPLATE_TOKENS) * prompt + config.max_tokens * step)
    return (load + len(config.queries) * each) / 60.0


def _whole_minibatches(rows: float, config: SubsampledConfig | KsaSettings | SgaConfig) -> int:
    return math.ceil(rows / config.minibatch_rows) * config.minibatch_rows
