"""What is asked of a model with demonstrations, and how its answers are scored.

choose    one of a few labels, by contextually calibrated likelihood      (AG News, TREC, DBpedia)
extract   a span of the input, by exact match                             (MIT movies)
write     free text, by ROUGE and BLEU                                    (summaries, medical answers)
record    a JSON record, by parse and validation rates                    (WikiMovies)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from affidavit.accountant.errors import UsageError
from affidavit.accountant.remedies import did_you_mean

__all__ = ["MOVIE_SCHEMA", "TASKS", "Kind", "Task", "own_task", "task"]

Kind: TypeAlias = Literal["choose", "extract", "write", "record"]

MOVIE_SCHEMA: Mapping[str, Any] = MappingProxyType(
    {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "title": {"type": "string", "minLength": 1},
            "year": {"type": "integer", "minimum": 1880, "maximum": 2100},
            "genre": {"type": "string", "minLength": 1},
        },
        "required": ["title", "year", "genre"],
    }
)
"""A film record. More keys may stand in it: the plot, for one."""


@dataclass(frozen=True, slots=True)
class Task:
    """One task. ``words`` maps a label to the word that stands for it in a prompt, for ``choose``.

    ``input_fields`` and ``answer_fields`` are looked for in this order in a line of a file. Inputs are cut
    to their first ``max_input_words`` words. ``schema`` and ``keys`` (file field to record key) are for ``record``.
    """

    name: str
    kind: Kind
    instruction: str
    input_name: str
    answer_name: str
    input_fields: tuple[str, ...] = ("text",)
    answer_fields: tuple[str, ...] = ("label",)
    words: Mapping[str, str] = field(default_factory=dict)
    max_tokens: int = 16
    max_input_words: int = 100
    schema: Mapping[str, Any] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def metric(self) -> str:
        """The score that a table shows."""
        return {"choose": "accuracy", "extract": "exact_match", "write": "rouge_l", "record": "valid_rate"}[self.kind]

    def with_labels(self, labels: Sequence[str]) -> Task:
        """The same question with other labels, each standing for itself. Raises ``UsageError``."""
        if self.kind != "choose":
            raise UsageError(f"the task {self.name} has no labels to choose from", hint="Remove `--label`.")
        if len(set(labels)) != len(labels) or len(labels) < 2 or not all(label.strip() for label in labels):
            hint = "For example: `--label spam --label ham`"
            raise UsageError("labels are not at least two different words", hint=hint)
        known = {label: self.words.get(label, label) for label in labels}
        return replace(self, words=known, instruction=self.instruction.replace(_listed(self.words), _listed(known)))

    def with_fields(self, *, text: str | None = None, label: str | None = None) -> Task:
        """The same where the files call text and label otherwise; the task's own names are looked for after them."""
        return replace(
            self,
            input_fields=tuple(dict.fromkeys((text or self.input_fields[0], *self.input_fields))),
            answer_fields=tuple(dict.fromkeys((label, *self.answer_fields))) if label else self.answer_fields,
        )


def _listed(words: Mapping[str, str]) -> str:
    names = list(words.values())
    return ", ".join(names[:-1]) + " or " + names[-1] if len(names) > 1 else "".join(names)


def _choose(name: str, lead: str, words: Mapping[str, str], input_name: str, *, max_input_words: int) -> Task:
    return Task(
        name=name,
        kind="choose",
        instruction=f"{lead} {_listed(words)}.",
        input_name=input_name,
        answer_name="Answer",
        words=words,
        max_input_words=max_input_words,
    )


def _same(*labels: str) -> dict[str, str]:
    return {label: label for label in labels}


_AG_NEWS = _same("World", "Sports", "Business", "Technology")
_TREC = _same("Abbreviation", "Entity", "Description", "Person", "Location", "Number")
_DBPEDIA = {
    "Company": "Company",
    "EducationalInstitution": "School",
    "Artist": "Artist",
    "Athlete": "Athlete",
    "OfficeHolder": "Politician",
    "MeanOfTransportation": "Transportation",
    "Building": "Building",
    "NaturalPlace": "Nature",
    "Village": "Village",
    "Animal": "Animal",
    "Plant": "Plant",
    "Album": "Album",
    "Film": "Film",
    "WrittenWork": "Book",
}

TASKS: Mapping[str, Task] = MappingProxyType(
    {
        "generic": _choose("generic", "Say which category the text belongs to:", _same("Yes", "No"), "Text",
                           max_input_words=100),
        "ag-news": _choose("ag-news", "Say which section of a newspaper the article belongs to:", _AG_NEWS, "Article",
                           max_input_words=70),
        "trec": _choose("trec", "Say of which type the answer to the question is:", _TREC, "Question",
                        max_input_words=40),
        "dbpedia": _choose("dbpedia", "Say what kind of thing the text is about:", _DBPEDIA, "Text",
                           max_input_words=50),
        "mit-g": Task("mit-g", "extract", "Copy the words of the sentence that name the genre of the film.",
                      "Sentence", "Genre", max_tokens=10, max_input_words=60),
        "mit-d": Task("mit-d", "extract", "Copy the words of the sentence that name the director of the film.",
                      "Sentence", "Director", max_tokens=10, max_input_words=60),
        "dialogsum": Task("dialogsum", "write", "Summarise the dialogue in one or two sentences.",
                          "Dialogue", "Summary", ("dialogue", "text"), ("references", "summary", "label"),
                          max_tokens=60, max_input_words=200),
        "medical": Task("medical", "write", "Answer the patient's question as a doctor would.",
                        "Question", "Answer", ("question", "text"), ("answer", "label"),
                        max_tokens=80, max_input_words=120),
        "wikimovies": Task("wikimovies", "record", "Write the film's record as JSON with title, year and genre.",
                           "Film", "Record", ("plot", "text"), (), max_tokens=48, max_input_words=80,
                           schema=MOVIE_SCHEMA, keys={"title": "title", "year": "year", "label": "genre"}),
    }
)  # fmt: skip


def own_task(
    words: Mapping[str, str],
    *,
    instruction: str | None = None,
    input_name: str = "Text",
    answer_name: str = "Answer",
    max_input_words: int = 100,
) -> Task:
    """A task of labels of one's own (``words``: a label to the word that stands for it), asked in one's own words."""
    return Task(
        name="own",
        kind="choose",
        instruction=instruction or f"Say which category the text belongs to: {_listed(words)}.",
        input_name=input_name,
        answer_name=answer_name,
        words=dict(words),
        max_input_words=max_input_words,
    )


def task(name: str) -> Task:
    """A task by name. Raises ``UsageError``."""
    if name not in TASKS:
        raise UsageError(
            f"no task called {name[:40]!r}",
            hint=did_you_mean(name, list(TASKS), path="--task")
            or f"One of: {', '.join(TASKS)}; for example `--task ag-news`.",
        )
    return TASKS[name]
