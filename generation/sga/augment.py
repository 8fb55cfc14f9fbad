"""More public records from private centres (Joo et al. 2025, section 6.1): charged once, before the queries.

DPM over the private records themselves, one embedding each; of the public examples, those nearest to the released
centres; and new records that the model writes after prompts of these examples, sampled, because the best continuation
of the same prompt would be the same record each time. Everything after DPM is public.

*Noisy public data* (section 5.5) are made of the public examples that are furthest instead, to see how much the answers
need good ones. The paper says neither how far from several centres an example is (here: as far as the nearest is) nor
whether the new records are beside the others or in their place (``pool`` says it here), and leaves out what its centres
cost: here they are charged as any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from affidavit.accountant.release.journal import DrawLost
from affidavit.generation.answers import served, written
from affidavit.generation.dataset import Record
from affidavit.generation.sga.candidates import Projection, by_distance, nearest
from affidavit.generation.sga.costs import augmenting

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.models.embedding import EmbeddingModel, Vectors
    from affidavit.generation.questions import QuestionTemplate
    from affidavit.generation.sga.settings import AugmentTable, SgaConfig
    from affidavit.generation.sga.source import Source
    from affidavit.mechanisms.base import Noise
    from affidavit.mechanisms.dpm import Clusters

__all__ = ["augmented", "ordered", "write_record"]


def augmented(
    config: SgaConfig,
    records: Sequence[Record],
    public: Sequence[Record],
    model: LanguageModel,
    embedding: EmbeddingModel,
    source: Source,
    *,
    size: int,
    path: str,
) -> tuple[Record, ...]:
    """The public records and the new ones; ``path`` is the clustering's node.

    Where the number of points is public (``paths`` = 2) it is the declared ``size``: a place without a record is a
    point at the origin, so that a record that becomes null moves a point as any other replaced one.
    """
    table = config.augment
    if table is None:
        return tuple(public)
    settings = augmenting(table, config, source.relation)
    template = config.template

    def embedded(shown: Sequence[Record]) -> Vectors:
        return embedding.embed([template.written(record) for record in shown])

    known = embedded(public)
    projection = Projection.of(known, dimensions=settings.dimensions)
    points = projection(embedded(records)) if records else np.empty((0, settings.dimensions))
    if settings.paths == 2:
        points = np.concatenate([points, np.zeros((size - len(points), settings.dimensions))])
    try:
        clusters = source.clusters(path, points, settings)
    except DrawLost:
        return tuple(public)
    shown, order = ordered(table, clusters, projection(known))
    examples = [public[index] for index in shown]
    made = [
        write_record(config, model, _turned(examples, turn)[: table.examples], noise=source.choice(), number=turn)
        for turn in range(table.texts)
    ]
    new = [record for record in made if record is not None]
    return (*new, *(public[index] for index in order))[: table.pool] if table.pool else (*public, *new)


def ordered(table: AugmentTable, clusters: Clusters, placed: Vectors) -> tuple[list[int], list[int]]:
    """The public records to write after, and all of them in the order in which they fill a pool."""
    order = by_distance(clusters.centres, placed)
    if table.of == "furthest":
        order.reverse()
        return order[: table.examples * len(clusters.centres)], order
    near = (index for centre in clusters.centres for index in nearest(centre, placed)[: table.examples])
    return list(dict.fromkeys(near)), order


def write_record(
    config: SgaConfig, model: LanguageModel, examples: Sequence[Record], *, noise: Noise, number: int
) -> Record | None:
    """A new record after ``examples``, or None where what was written is not a question and its answer."""
    from affidavit.generation.questions import Asking

    asking = Asking(model, config.template, len(examples), config.max_record_tokens, config.max_tokens)
    prompt = asking.another(examples)
    temperature = 1.0 if config.augment is None else config.augment.temperature
    longest = config.max_record_tokens + config.max_tokens
    if served(model):
        (text,) = written(model, [prompt], max_tokens=longest)
    else:
        text = model.decode(_sampled(model, prompt, most=longest, temperature=temperature, noise=noise))
    return _parsed(config.template, text, number=number)


def _sampled(model: LanguageModel, prompt: Sequence[int], *, most: int, temperature: float, noise: Noise) -> list[int]:
    """Tokens sampled from the model's own distribution: public, so a uniform number a token will do."""
    decoding = model.start([prompt], width=len(prompt))
    tokens: list[int] = []
    while len(tokens) < most:
        if tokens:
            decoding.append([tokens[-1]])
        logits = decoding.logits[0].astype(np.float64) / temperature
        chances = np.cumsum(np.exp(logits - logits.max()))
        uniform = float(noise.integers(0, 1 << 53, size=1)[0]) / (1 << 53)
        token = int(np.searchsorted(chances, uniform * chances[-1], side="right"))
        if token in model.stop_tokens:
            break
        tokens.append(token)
    return tokens


def _parsed(template: QuestionTemplate, text: str, *, number: int) -> Record | None:
    _, middle, _ = template.pieces
    question, found, answer = text.partition(middle.strip())
    question, answer = question.strip(), template.clean(answer)
    if not found or not question or not answer:
        return None
    return Record(f"augmented-{number}", question, answer)


def _turned(items: Sequence[Record], by: int) -> list[Record]:
    """From another beginning each time."""
    start = by % len(items)
    return [*items[start:], *items[:start]]
