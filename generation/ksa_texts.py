"""The texts of keyword-space aggregation: who answers, what is counted, what is written from it."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import RunFileError
from affidavit.generation.answers import greedy_answers, served
from affidavit.generation.keywords import count_words, text_domain, vocabulary_domain
from affidavit.generation.prompts import fill
from affidavit.generation.shots import ShotRows, shot_rows

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.keyword_choice import KeywordChoice
    from affidavit.generation.ksa import KsaConfig
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit, Sample
    from affidavit.generation.recorder import Recorder

__all__ = ["Public", "check_public", "write_texts"]


_PUBLIC_CLIP = 20.0
"""Half the spread of logits that are told apart in the last prompt: e^-40 of the best counts as its floor."""

_EXAMPLE = "Here is an example:\n\n"
_EXAMPLE_TOKENS = 32
"""More than that sentence takes, in tokens or bytes."""


@dataclass(frozen=True, slots=True)
class Public:
    """What is public of a run, by label: prompts, domain, counts of public answers, and demonstrations."""

    rows: dict[str, ShotRows]
    domains: dict[str, tuple[str, ...]]
    counts: dict[str, NDArray[np.int64]]
    shown: dict[str, tuple[str, ...]]

    @classmethod
    def prepared(cls, config: KsaConfig, model: LanguageModel, public: Sequence[Record]) -> Public:
        """From public records and the model alone; the model answers public prompts. Raises ``RunFileError``."""
        rows, shown, domains = _checked(config, model, public)
        if not config.use_public:
            none = {label: np.zeros(len(domain), dtype=np.int64) for label, domain in domains.items()}
            return cls(rows, domains, none, dict.fromkeys(config.labels, ()))
        counts = {}
        for label, texts in shown.items():
            prompts = _public_prompts(config, model, rows[label], texts)
            answers = list(_answers(config, model, rows[label], prompts))
            domains[label] = text_domain((*texts, *answers), least=config.least_public)
            counts[label] = count_words(answers, domains[label])
        return cls(rows, domains, counts, shown)


def check_public(config: KsaConfig, model: LanguageModel, public: Sequence[Record]) -> None:
    """What ``Public.prepared`` would refuse, without asking the model. Raises ``RunFileError``."""
    _checked(config, model, public)


def _checked(
    config: KsaConfig, model: LanguageModel, public: Sequence[Record]
) -> tuple[dict[str, ShotRows], dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
    """Prompts, public texts and (at least the) domain, by label."""
    rows = {
        label: shot_rows(
            model,
            config.template,
            label=label,
            shots=config.shots_per_subset,
            max_record_tokens=config.max_record_tokens,
        )
        for label in config.labels
    }
    longest = max(
        max(
            row.width + config.max_answer_tokens,
            len(row.public) + config.max_record_tokens + _EXAMPLE_TOKENS + config.max_tokens,
        )
        for row in rows.values()
    )
    if longest > model.context_length:
        raise RunFileError(
            "generator.max_record_tokens",
            f"prompts and answers need {longest} tokens, {model.name} reads {model.context_length}",
            hint=f"Lower max_record_tokens by {longest - model.context_length}, or shots_per_subset.",
        )
    shown = {label: tuple(record.text for record in public if record.label == label) for label in config.labels}
    if config.use_public:
        for label, texts in shown.items():
            if not texts:
                raise RunFileError(
                    "data.public",
                    f"no public record has the label {label!r}",
                    hint="Add one for each of [generator] labels, or set use_public = false.",
                )
        domains = {label: text_domain(texts, least=config.least_public) for label, texts in shown.items()}
    elif served(model):
        raise RunFileError(
            "generator.use_public",
            "the vocabulary of a served model is not known, so it gives no public domain of keywords",
            hint="Set use_public = true, with public records under [data].",
        )
    else:
        domains = dict.fromkeys(config.labels, vocabulary_domain(model))
    for label, domain in domains.items():
        if len(domain) <= config.keywords:
            raise RunFileError(
                "generator.keywords",
                f"{config.keywords} of a public domain of {len(domain)} words for the label {label!r}",
                allowed=f"at most {len(domain) - 1}" if len(domain) > 1 else "a larger domain",
                hint="Lower keywords or least_public, or add public records.",
            )
    return rows, shown, domains


def write_texts(
    permit: GeneratorPermit,
    config: KsaConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    step: KeywordChoice,
    size: int,
    progress: Callable[[Any], None] | None,
    public: Sequence[Record],
) -> Generated:
    """Every text, in the order of the plan's parts."""
    from affidavit.generation.batched import Progress
    from affidavit.generation.outputs import Generated
    from affidavit.generation.recorder import Recorder

    known = Public.prepared(config, model, public)
    recorder = Recorder(permit)
    samples: list[Sample] = []
    texts = len(config.labels) * config.samples_per_label
    for asked in _asked(recorder, config, records, size=size):
        rows = known.rows[asked.label]
        prompts = [rows.row([model.encode(text) for text in shown]) for shown in asked.shown(config, records)]
        domain = known.domains[asked.label]
        counts = known.counts[asked.label] + count_words(_answers(config, model, rows, prompts), domain)
        keywords = [domain[index] for index in step.choose(recorder, asked.path, counts)]
        recorder.note(rows=len(prompts), keywords=keywords)
        sample = _written(recorder, config, model, known, asked, keywords)
        samples.append(sample)
        if progress is not None:
            length = len(sample.tokens)
            progress(
                Progress(asked.label, asked.sample, len(samples) - 1, texts, length, config.max_tokens, sample.text)
            )
    return Generated(
        generator=config.kind,
        samples=tuple(samples),
        trace=tuple(recorder.trace),
        draws_per_node=dict(recorder.draws),
        protected=True,
        versions=dict(model.versions),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whose answers count for one text: subsets of positions in the records."""

    label: str
    sample: int
    path: str
    subsets: tuple[tuple[int, ...], ...]

    def shown(self, config: KsaConfig, records: Sequence[Record]) -> Iterator[list[str]]:
        """The records of each prompt, as they stand in it. A subset without a record of the label asks nothing."""
        for subset in self.subsets:
            relevant = [records[i] for i in subset if i < len(records) and records[i].label == self.label]
            if relevant:
                yield [config.template.written(record) for record in relevant[: config.shots_per_subset]]


def _asked(recorder: Recorder, config: KsaConfig, records: Sequence[Record], *, size: int) -> Iterator[_Asked]:
    """One a text, in the plan's order; the sampling is that of the plan, and is written to the trace."""
    key = bytes(int(byte) for byte in recorder.secret.integers(0, 256, size=32))
    if config.sampling == "disjoint":
        yield from _disjoint(recorder, config, records, size=size, key=key)
        return
    from affidavit.generation.subsampled import node_path
    from affidavit.generation.subsets import draw_subsets

    digests = [hmac.digest(key, record.id.encode("utf-8"), "sha256").hex() for record in records]
    for number, label in enumerate(config.labels):
        node = node_path(config.scheme, number)
        for sample in range(config.samples_per_label):
            drawn = draw_subsets(config.scheme, size=size, held=len(records), noise=recorder.secret)
            recorder.sampled(node, [digests[place] for place in drawn.members if place < len(digests)])
            yield _Asked(label, sample, f"{node}.of", drawn.subsets)


def _disjoint(
    recorder: Recorder, config: KsaConfig, records: Sequence[Record], *, size: int, key: bytes
) -> Iterator[_Asked]:
    from affidavit.generation.batches import assign
    from affidavit.generation.ksa import bucket_count

    place = {record.id: index for index, record in enumerate(records)}
    batches = assign(
        records,
        labels=config.labels,
        samples_per_label=config.samples_per_label,
        buckets=bucket_count(config, size=size),
        key=key,
    )
    for index, batch in enumerate(batches):
        path = f"plan.parts[{index}]"
        members = [member.digest for member in batch.members]
        recorder.trace.append(
            {"event": "batch", "path": path, "label": batch.label, "sample": batch.sample, "members": members}
        )
        yield _Asked(batch.label, batch.sample, path, tuple((place[member.record.id],) for member in batch.members))


def _answers(
    config: KsaConfig, model: LanguageModel, rows: ShotRows, prompts: Sequence[Sequence[int]]
) -> Iterator[str]:
    return greedy_answers(
        model,
        prompts,
        dummy=rows.row(()),
        width=rows.width,
        max_tokens=config.max_answer_tokens,
        minibatch_rows=config.minibatch_rows,
    )


def _public_prompts(
    config: KsaConfig, model: LanguageModel, rows: ShotRows, texts: Sequence[str]
) -> list[tuple[int, ...]]:
    """Prompts of public records, as many as there are subsets."""
    each = config.shots_per_subset
    encoded = [model.encode(text) for text in texts[: each * config.subsets]]
    return [rows.row(encoded[first : first + each]) for first in range(0, len(encoded), each)]


def _written(
    recorder: Recorder,
    config: KsaConfig,
    model: LanguageModel,
    known: Public,
    asked: _Asked,
    keywords: Sequence[str],
) -> Sample:
    """The text, from public facts and released keywords: sampled, at no further cost; by a served model, greedy."""
    from affidavit.generation.aggregate import GRID, clip_to_grid
    from affidavit.generation.outputs import Sample
    from affidavit.generation.probabilities import support
    from affidavit.mechanisms.exponential import sample

    prompt = last_prompt(config, model, known, label=asked.label, sample=asked.sample, keywords=keywords)
    tokens: list[int] = []
    stopped = False
    opening = known.rows[asked.label].opening
    if served(model):
        written = model.generate([model.decode(prompt)], max_tokens=config.max_tokens)[0]
        return Sample(asked.label, asked.sample, (opening + written).strip(), (), stopped)
    decoding = model.start([prompt], width=len(prompt))
    while len(tokens) < config.max_tokens and not stopped:
        if tokens:
            decoding.append(tokens[-1:])
        best = support(decoding.logits[0], top_k=config.top_k)
        scores = clip_to_grid(decoding.logits, clip=_PUBLIC_CLIP)[0][0][best].astype(np.int64)
        place = sample(scores, temperature=GRID * Fraction(config.temperature), noise=recorder.secret).value
        token = int(best[place])
        stopped = token in model.stop_tokens
        if not stopped:
            tokens.append(token)
    return Sample(asked.label, asked.sample, (opening + model.decode(tokens)).strip(), tuple(tokens), stopped)


def last_prompt(
    config: KsaConfig, model: LanguageModel, known: Public, *, label: str, sample: int, keywords: Sequence[str]
) -> list[int]:
    """The public prompt with a public demonstration, if any, and the keywords, the last of which go if it is too long.

    Public records and keywords are never read as control tokens.
    """
    template = config.template
    head, tail = model.frame(template.frame)
    begun = tail + fill(template.answer_prefix, "answer_prefix", label=label) + known.rows[label].opening
    before = model.encode(head, trusted=True)
    if known.shown[label]:
        text = known.shown[label][sample % len(known.shown[label])]
        before += [*model.encode(_EXAMPLE), *model.encode(text)[: config.max_record_tokens], *model.encode("\n\n")]
    after = model.encode(begun, trusted=True)
    instruction = fill(template.public, "public", label=label).rstrip()
    for kept in range(len(keywords), -1, -1):
        asked = config.suggestion.replace("{words}", ", ".join(keywords[:kept]))
        message = model.encode(f"{instruction} {asked}" if kept else instruction)
        if not kept or len(before) + len(message) + len(after) + config.max_tokens <= model.context_length:
            break
    return [*before, *message, *after]
