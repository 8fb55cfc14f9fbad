"""What ``init`` puts into ``[generator]``: each generator's own local settings, with as many records as there are.

They are its preset ``local``, which runs on a laptop; how many records stand behind a text is fitted to the declared
size, and the noise to the budget (``affidavit.noise``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.accountant.errors import UsageError
from affidavit.generation.registry import Generator

__all__ = ["answers", "needs_public", "settings", "with_remarks"]

MOST_RECORDS = 128
"""Behind one text of a generator that reads them all for each token: more cost less and take longer."""
_CROWDS = ("batch_size", "subsets", "ensemble")
"""Keys that say how many records stand behind a text."""

_REMARKS = {
    "labels": "declared, a public fact; never read from the data",
    "queries": "public questions; each is answered once",
    "samples_per_label": "texts for each label",
    "max_tokens": "the longest text",
    "max_record_tokens": "longer records are cut, shorter ones padded: length must not show",
    "max_answer_tokens": "of an answer that is counted",
    "batch_size": "records behind one sample: more cost less",
    "subsets": "prompts that are shown records of their own",
    "shots_per_subset": "records in each of them",
    "ensemble": "prompts that are shown records of their own",
    "shots": "records in each of them",
    "sampling": "how records come to a text",
    "clip": "how far one record can move a token's score",
    "temperature": "of the texts",
    "noise_multiplier": "larger costs less, reads worse",
    "keyword_epsilon": "of choosing the keywords: smaller costs less, is noisier",
    "keywords": "at most so many are chosen",
    "use_public": "whether [data] public is used",
    "dpm": "how private embeddings are clustered; larger multipliers cost less",
}
_TOKEN_STEPS = {
    "samples_per_label": "each from its own disjoint batch: more cost nothing extra",
    "max_tokens": "every token costs",
    "temperature": "higher costs less, reads worse",
}
"""Of generators that read a batch of private records for each token."""


def answers(source: Generator) -> bool:
    """Whether it answers public queries from questions and answers, and has no labels to declare."""
    return "queries" in source.config.model_fields


def needs_public(source: Generator) -> bool:
    """Whether its local settings cannot do without public records."""
    return answers(source) and "use_public" not in source.config.model_fields


def settings(
    source: Generator, *, size: int, labels: tuple[str, ...], queries: tuple[str, ...], public: bool
) -> dict[str, Any]:
    """The whole table but for ``kind``. Raises ``UsageError`` where there are too few records."""
    preset = {key: value for key, value in source.presets["local"].items() if key != "task"}
    topics, head = (queries, "queries") if answers(source) else (labels, "labels")
    crowd = next(key for key in _CROWDS if key in preset)
    room = size // max(1, len(topics))
    if room < 1:
        fewer = "labels; or one for all: remove `--label`, `--labels-file`, then `--one-label text`"
        raise UsageError(
            f"{size} records are too few for {len(topics)} {head}",
            hint=f"Give fewer {fewer if head == 'labels' else 'queries: remove one `--query`'}.",
        )
    own: dict[str, Any] = {head: list(topics)}
    if head == "labels":
        own["samples_per_label"] = 1
    if "sampling" in preset and answers(source):
        preset["sampling"] = "disjoint"  # each query has records of its own, and all of them cost as much as one
    if "use_public" in preset:
        preset |= {"use_public": public} if public else dict.fromkeys(("use_public", "public_example"), False)
    most = MOST_RECORDS if crowd == "batch_size" else preset[crowd]
    ordered = {key: preset[key] for key in source.config.model_fields if key in preset}
    return {**own, **ordered, crowd: min(room, most)}


def with_remarks(table: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Every key with its value and what is to be known of it; tables last."""
    remarks = {**_REMARKS, **(_TOKEN_STEPS if "batch_size" in table else {})}
    for key, value in sorted(table.items(), key=lambda item: isinstance(item[1], Mapping)):
        yield key, value, remarks.get(key, remarks.get("noise_multiplier", "") if key.endswith("_multiplier") else "")
