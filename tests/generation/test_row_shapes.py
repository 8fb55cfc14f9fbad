"""Every generator shows, before anything is charged, that rows stay apart in each batch that it then starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from affidavit.generation.dataset import Record
from affidavit.generation.models.base import Decoding
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.registry import generator, kinds

SIZE = 60
LABELS = ["World", "Science and the arts"]  # of different lengths: so are their prompts
COMMON = {"max_record_tokens": 12, "minibatch_rows": 4}
NOISE = {"noise_multiplier": 2.0, "mechanism": "gaussian"}
KSA = {"keywords": 2, "keyword_epsilon": 2.0, "subsets": 6, "max_answer_tokens": 4, "max_tokens": 3, "use_public": True}
DPM = {"dimensions": 3, "radius": 0.8, "interval": 0.2, "levels": 2, "smallest": 2.0}
QUERIES = ["Where is the ferry?", "What does the long letter from the harbour office say?"]
RUNS: dict[str, dict[str, Any]] = {
    "prism": {"kind": "prism", "labels": LABELS, "batch_size": 10, "max_tokens": 4},
    "private-prediction": {
        "kind": "private-prediction", "labels": LABELS, "batch_size": 10, "max_tokens": 4, "private_tokens": 4,
    },
    "invisible-ink": {"kind": "invisible-ink", "labels": LABELS, "batch_size": 10, "max_tokens": 4},
    "few-shot": {"kind": "few-shot", "labels": LABELS, "subsets": 4, "max_tokens": 4, **NOISE},
    "few-shot, fixed groups": {
        "kind": "few-shot", "labels": LABELS, "subsets": 4, "max_tokens": 4, "sampling": "fixed-groups", **NOISE,
    },
    "adadpsyn": {
        "kind": "adadpsyn", "labels": LABELS, "subsets": 4, "max_tokens": 3, "radius_noise_multiplier": 20.0,
        "mean_noise_multiplier": 5.0, "count_noise_multiplier": 20.0,
    },
    "ksa": {"kind": "ksa", "labels": LABELS, "mechanism": "joint-exponential", "sampling": "disjoint", **KSA},
    "ksa-answers": {
        "kind": "ksa-answers", "queries": QUERIES, "mechanism": "joint-exponential", "sampling": "without-replacement",
        **KSA,
    },
    "sga": {
        "kind": "sga", "queries": QUERIES, "ensemble": 6, "shots": 2, "candidates": 2, "selection": "top-1",
        "embedding": "toy", "max_tokens": 4, "dpm": DPM,
    },
}  # fmt: skip


class Noted(ToyModel):
    """What was shown, and what was started."""

    def __init__(self) -> None:
        super().__init__()
        self.shown: set[BatchShape] = set()
        self.started: set[BatchShape] = set()

    def keep_apart(self, shapes: Iterable[BatchShape]) -> None:
        self.shown |= set(shapes)

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        self.started.add(BatchShape(len(rows), width, steps))
        return super().start_apart(rows, width=width, steps=steps)


def test_every_generator_is_here() -> None:
    assert {run["kind"] for run in RUNS.values()} == set(kinds())


@pytest.mark.parametrize("name", RUNS)
def test_what_runs_was_shown_before(name: str, open_plain: Callable[..., Any]) -> None:
    source = generator(RUNS[name]["kind"])
    config = source.config.model_validate(COMMON | RUNS[name])
    text = "the harbour master wrote a letter about the ferry, number"
    records = [Record(f"r{n}", f"{text} {n}", LABELS[n % 2]) for n in range(SIZE)]
    public = [Record(f"p{n}", f"{text} {n} and the market", LABELS[n % 2]) for n in range(20)]
    model = Noted()
    assert source.check is not None
    source.check(config, model, public=public)
    shown = set(model.shown)
    assert not model.started
    permit = open_plain(source.plan(config, relation="zero-out", size=SIZE))
    source.run(permit, config, records, model, size=SIZE, public=public)
    assert model.started
    assert all(any(tried.covers(batch) for tried in shown) for batch in model.started)
