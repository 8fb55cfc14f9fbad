"""The texts of keyword-space aggregation: who answers, what is counted, what is written from it."""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.release.journal import DrawLost
from affidavit.accountant.remedies import setting
from affidavit.generation.answers import greedy_answers, served, written
from affidavit.generation.ksa.costs import bucket_count
from affidavit.generation.ksa.keywords import count_words, text_domain, vocabulary_domain
from affidavit.generation.ksa.topics import Topic, topics

if TYPE_CHECKING:
    from affidavit.generation.batches import Batch
    from affidavit.generation.dataset import Record
    from affidavit.generation.ksa.choice import KeywordChoice
    from affidavit.generation.ksa.settings import KsaSettings
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit, Sample
    from affidavit.generation.recorder import Recorder

__all__ = ["Public", "check_public", "write_texts"]

_PUBLIC_CLIP = 20.0
"""Half the spread of logits that are told apart in the last prompt: e^-40 of the best counts as its floor."""


@dataclass(frozen=True, slots=True)
class Public:
    """What is public about one topic: the domain, the counts of public answers, and the public records."""

    topic: Topic
    domain: tuple[str, ...]
    counts: NDArray[np.int64]
    shown: tuple[Record, ...]

    def example(self, number: int) -> Record | None:
        """The public record for the last prompt of the ``number``-th text, if there are any."""
        return self.shown[number % len(self.shown)] if self.shown else None

    @classmethod
    def prepared(cls, config: KsaSettings, model: LanguageModel, public: Sequence[Record]) -> tuple[Public, ...]:
        """One a topic. The model answers public prompts, if public records are used. Raises ``RunFileError``."""
        return tuple(known._answered(config, model) for known in _checked(config, model, public))

    def _answered(self, config: KsaSettings, model: LanguageModel) -> Public:
        if not self.shown:
            return self
        each = config.shots_per_subset
        used = self.shown[: each * config.subsets]
        prompts = [self.topic.prompt(used[first : first + each]) for first in range(0, len(used), each)]
        answers = list(_answers(config, model, self.topic, prompts, private=False))
        texts = (*map(self.topic.words_of, self.shown), *answers)
        domain = text_domain(texts, least=config.least_public, said=self.topic.said)
        return dataclasses.replace(self, domain=domain, counts=count_words(answers, domain))


def check_public(config: KsaSettings, model: LanguageModel, public: Sequence[Record]) -> None:
    """What ``Public.prepared`` would refuse, without asking the model. Raises ``RunFileError``."""
    _checked(config, model, public)


def _checked(config: KsaSettings, model: LanguageModel, public: Sequence[Record]) -> list[Public]:
    """The topics with their public records and (at least the) domain."""
    if served(model) and not config.use_public:
        raise RunFileError(
            "generator.use_public",
            "the vocabulary of a served model is not known, so it gives no public domain of keywords",
            hint='`generator.use_public = true` with `data.public = "public.jsonl"`, a file of public records.',
        )
    vocabulary = () if config.use_public else vocabulary_domain(model)
    found = []
    for topic in topics(config, model):
        shown = tuple(record for record in public if topic.concerns(record)) if config.use_public else ()
        if config.use_public and not shown:
            raise RunFileError(
                "data.public",
                f"no public record for {topic.name!r}",
                hint="`generator.use_public = false`, or add a public record for each label.",
            )
        said = topic.said
        domain = (
            text_domain(map(topic.words_of, shown), least=config.least_public, said=said)
            if shown
            else tuple(word for word in vocabulary if word not in said)
        )
        found.append(Public(topic, domain, np.zeros(len(domain), dtype=np.int64), shown))
    smallest = min(found, key=lambda known: len(known.domain))
    if len(smallest.domain) <= config.keywords:
        raise RunFileError(
            "generator.keywords",
            f"{config.keywords} of a public domain of {len(smallest.domain)} words for {smallest.topic.name!r}",
            allowed=f"at most {len(smallest.domain) - 1}" if len(smallest.domain) > 1 else "a larger domain",
            hint=_of_domain(config, len(smallest.domain) - 1),
        )
    return found


def _of_domain(config: KsaSettings, most: int) -> str:
    """So many keywords as the domain has room for."""
    if most < 1:
        return "Add public records, with more words."
    fewest = "" if config.fewest_keywords <= most else f" with {setting('generator.fewest_keywords', most)}"
    return f"At most {setting('generator.keywords', most)}{fewest}, or add public records."


def write_texts(
    permit: GeneratorPermit,
    config: KsaSettings,
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
    texts = len(list(config.numbered()))

    def written(ask: Callable[[], _Asked]) -> Sample:
        asked = ask()
        about = known[asked.topic]
        prompts = [about.topic.prompt(shown) for shown in asked.shown(about.topic, records, config.shots_per_subset)]
        answered = _answers(config, model, about.topic, prompts, private=True)
        counts = about.counts + count_words(answered, about.domain)
        try:
            keywords = [about.domain[index] for index in step.choose(recorder, asked.path, counts)]
        except DrawLost:  # as where a test failed
            keywords = []
            recorder.finish(asked.path)
        recorder.note(prompts=len(prompts), keywords=keywords)
        return _written(recorder, config, model, about, keywords, number=asked.number)

    for ask in _asked(recorder, config, records, size=size):
        sample = recorder.text(partial(written, ask))
        samples.append(sample)
        if progress is not None:
            done, length = len(samples) - 1, len(sample.tokens)
            progress(Progress(sample.label, sample.number, done, texts, length, config.max_tokens, sample.text))
    return Generated(
        generator=config.called,
        samples=tuple(samples),
        trace=tuple(recorder.trace),
        draws_per_node=dict(recorder.draws),
        protected=True,
        versions=dict(model.versions),
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """Whose answers count for one text: subsets of positions in the records."""

    topic: int
    number: int
    path: str
    subsets: tuple[tuple[int, ...], ...]

    def shown(self, topic: Topic, records: Sequence[Record], shots: int) -> Iterator[list[Record]]:
        """The records of each prompt. A subset without one that concerns the topic asks nothing."""
        for subset in self.subsets:
            chosen = [records[i] for i in subset if i < len(records) and topic.concerns(records[i])]
            if chosen:
                yield chosen[:shots]


def _asked(
    recorder: Recorder, config: KsaSettings, records: Sequence[Record], *, size: int
) -> Iterator[Callable[[], _Asked]]:
    """One a text, in the plan's order. The sampling is the plan's; it is done, and traced, when the text is."""
    key = recorder.key()
    if config.sampling == "disjoint":
        yield from _disjoint(recorder, config, records, size=size, key=key)
        return
    from affidavit.generation.subsampled import node_path
    from affidavit.generation.subsets import draw_subsets

    digests = [hmac.digest(key, record.id.encode("utf-8"), "sha256").hex() for record in records]

    def sampled(topic: int, number: int) -> _Asked:
        node = node_path(config.scheme, topic)
        drawn = draw_subsets(config.scheme, size=size, held=len(records), noise=recorder.choice())
        recorder.sampled(node, [digests[place] for place in drawn.members if place < len(digests)])
        return _Asked(topic, number, f"{node}.of", drawn.subsets)

    for topic, number in config.numbered():
        yield partial(sampled, topic, number)


def _disjoint(
    recorder: Recorder, config: KsaSettings, records: Sequence[Record], *, size: int, key: bytes
) -> Iterator[Callable[[], _Asked]]:
    """A batch a text. Where every record concerns every topic, all of them count as one label."""
    from affidavit.generation.batches import assign

    place = {record.id: index for index, record in enumerate(records)}
    scheme = config.scheme
    alike = [dataclasses.replace(record, label=scheme.labels[0]) for record in records]
    batches = assign(
        records if scheme.match_label else alike,
        labels=scheme.labels,
        samples_per_label=scheme.samples_per_label,
        buckets=bucket_count(config, size=size),
        key=key,
    )

    def shared(index: int, topic: int, number: int, batch: Batch) -> _Asked:
        path = f"plan.parts[{index}]"
        members = [member.digest for member in batch.members]
        recorder.trace.append(
            {"event": "batch", "path": path, "label": batch.label, "sample": batch.sample, "members": members}
        )
        return _Asked(topic, number, path, tuple((place[member.record.id],) for member in batch.members))

    for index, ((topic, number), batch) in enumerate(zip(config.numbered(), batches, strict=True)):
        yield partial(shared, index, topic, number, batch)


def _answers(
    config: KsaSettings, model: LanguageModel, topic: Topic, prompts: Sequence[Sequence[int]], *, private: bool
) -> Iterator[str]:
    answers = greedy_answers(
        model,
        prompts,
        dummy=topic.prompt(()),
        width=topic.width,
        max_tokens=config.max_answer_tokens,
        minibatch_rows=config.minibatch_rows,
        private=private,
    )
    return map(topic.text, answers)


def _written(
    recorder: Recorder,
    config: KsaSettings,
    model: LanguageModel,
    about: Public,
    keywords: Sequence[str],
    *,
    number: int,
) -> Sample:
    """The text, from public facts and released keywords: sampled, at no further cost; by a served model, greedy."""
    from affidavit.generation.aggregate import GRID, clip_to_grid
    from affidavit.generation.outputs import Sample
    from affidavit.generation.probabilities import support
    from affidavit.mechanisms.exponential import sample

    topic, longest = about.topic, model.context_length - config.max_tokens
    example = about.example(number) if config.public_example else None
    prompt = topic.fitting(example, keywords, longest=longest)
    if served(model):
        (answer,) = written(model, [prompt], max_tokens=config.max_tokens)
        return Sample(topic.name, number, topic.text(answer), (), stopped=False, query=topic.query)
    tokens: list[int] = []
    stopped = False
    noise = recorder.choice()
    decoding = model.start([prompt], width=len(prompt))
    while len(tokens) < config.max_tokens and not stopped:
        if tokens:
            decoding.append(tokens[-1:])
        best = support(decoding.logits[0], top_k=config.top_k)
        scores = clip_to_grid(decoding.logits, clip=_PUBLIC_CLIP)[0][0][best].astype(np.int64)
        place = sample(scores, temperature=GRID * Fraction(config.temperature), noise=noise)
        token = int(best[place])
        stopped = token in model.stop_tokens
        if not stopped:
            tokens.append(token)
    text = topic.text(model.decode(tokens))
    return Sample(topic.name, number, text, tuple(tokens), stopped, topic.query)
