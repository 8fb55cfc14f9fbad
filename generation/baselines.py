"""Unprotected baselines: what the certificate protects against, and what it costs.

- ``zero_shot``: the public prompt alone. Touches no private record.
- ``noise_off``: the same batches and the same blend, unclipped, always the best token.
- ``single_record``: one real record in the prompt, greedy: what plain prompting does.

None of them takes a permit, and their receipts say ``protected: false``. An audit that cannot break
``noise_off`` or ``single_record`` has no power.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from affidavit.generation.batches import Batch, PrivateRows, assign
from affidavit.generation.outputs import Generated, Sample
from affidavit.generation.prism import PrismConfig, bucket_count, label_rows, text_sample

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import Decoding, LanguageModel
    from affidavit.generation.prompts import PromptRows
    from affidavit.mechanisms.base import Noise

__all__ = ["noise_off", "single_record", "zero_shot"]

_Pick = Callable[[], int]
_Advance = Callable[[int], None]


def zero_shot(config: PrismConfig, model: LanguageModel, *, noise: Noise) -> Generated:
    """Texts from the public prompt alone, sampled at the configured temperature from clipped logits."""
    from affidavit.generation.aggregate import GRID, clip_to_grid
    from affidavit.mechanisms.exponential import sample

    def start(batch: Batch, rows: PromptRows) -> tuple[_Pick, _Advance]:  # noqa: ARG001
        public = model.start([rows.public], width=len(rows.public))

        def pick() -> int:
            scores = clip_to_grid(public.logits, clip=config.clip)[0][0].astype(np.int64)
            return sample(scores, temperature=config.temperature * GRID, noise=noise).value

        return pick, lambda token: public.append([token])

    empty = assign(
        (), labels=config.labels, samples_per_label=config.samples_per_label, buckets=config.samples_per_label, key=b""
    )
    return _generate("zero-shot", config, model, empty, start)


def noise_off(
    config: PrismConfig, records: Sequence[Record], model: LanguageModel, *, size: int, key: bytes | None = None
) -> Generated:
    """PRISM without protection: the mean of unclipped logits, blended with the public ones, best token."""

    def start(batch: Batch, rows: PromptRows) -> tuple[_Pick, _Advance]:
        texts = [member.record.text for member in batch.members]
        private = PrivateRows(model, rows, texts, minibatch_rows=config.minibatch_rows)
        public = model.start([rows.public], width=len(rows.public))

        def pick() -> int:
            blended = public.logits[0].astype(np.float64)
            if texts:
                blended += sum(part.sum(axis=0, dtype=np.float64) for part in private.logits()) / len(texts)
            return int(blended.argmax())

        def advance(token: int) -> None:
            private.append(token)
            public.append([token])

        return pick, advance

    return _generate("prism-noise-off", config, model, _batches(config, records, size, key), start)


def single_record(
    config: PrismConfig, records: Sequence[Record], model: LanguageModel, *, size: int, key: bytes | None = None
) -> Generated:
    """Greedy text after a prompt with one real record: the first of each batch."""

    def start(batch: Batch, rows: PromptRows) -> tuple[_Pick, _Advance]:
        shown = [model.encode(member.record.text) for member in batch.members[:1]]
        prompt = rows.row(shown[0]) if shown else rows.public
        decoding: Decoding = model.start([prompt], width=len(prompt))
        return lambda: int(decoding.logits[0].argmax()), lambda token: decoding.append([token])

    return _generate("single-record", config, model, _batches(config, records, size, key), start)


def _batches(config: PrismConfig, records: Sequence[Record], size: int, key: bytes | None) -> tuple[Batch, ...]:
    return assign(
        records,
        labels=config.labels,
        samples_per_label=config.samples_per_label,
        buckets=bucket_count(config, size=size),
        key=secrets.token_bytes(32) if key is None else key,
    )


def _generate(
    name: str,
    config: PrismConfig,
    model: LanguageModel,
    batches: Sequence[Batch],
    start: Callable[[Batch, PromptRows], tuple[_Pick, _Advance]],
) -> Generated:
    rows = label_rows(config, model)
    samples: list[Sample] = []
    trace: list[dict[str, Any]] = []
    for batch in batches:
        pick, advance = start(batch, rows[batch.label])
        tokens: list[int] = []
        stopped = False
        while len(tokens) < config.max_tokens:
            if tokens:
                advance(tokens[-1])
            token = pick()
            if token in model.stop_tokens:
                stopped = True
                break
            tokens.append(token)
        samples.append(text_sample(model, batch, rows[batch.label], tokens, stopped=stopped))
        trace.append(
            {
                "event": "batch",
                "label": batch.label,
                "sample": batch.sample,
                "members": [member.digest for member in batch.members],
            }
        )
    return Generated(
        generator=name,
        samples=tuple(samples),
        trace=tuple(trace),
        draws_per_node={},
        protected=False,
        versions=dict(model.versions),
    )
