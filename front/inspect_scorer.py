"""Leak checks in Inspect (inspect_ai): a scorer for any task whose model was shown private records, and a task.

    from affidavit.inspect_scorer import leaks

    @task
    def support_mail():
        return Task(dataset=questions, solver=[generate()], scorer=leaks("members.jsonl", "held_out.jsonl"))

    inspect eval affidavit/released_text -T released=out/synthetic.jsonl -T members=... -T held_out=... --model none

What is searched for is what ``attack = "released-text"`` searches for, and each count stands beside the same count over
records that were not in the data. A score holds counts, kinds and spans, no text; but Inspect's own log holds what the
model wrote, so it is as private as that. Nothing follows about epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

from affidavit.accountant.extras import require
from affidavit.audits.attacks.extraction import Extraction
from affidavit.audits.auditfile import parse_audit
from affidavit.audits.experiments.released import prepare_search
from affidavit.audits.textmodel import Record
from affidavit.generation.dataset import Fields
from affidavit.records import read_all, read_texts

if TYPE_CHECKING:
    from affidavit.audits.finding import SearchFinding

__all__ = ["leaks", "released_text"]

_LEVEL = 0.05


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def leaks(
    members: str,
    held_out: str,
    kinds: str | Sequence[str] = ("email", "phone"),
    region: str = "US",
    text: str = "text",
    label: str = "label",
) -> Scorer:
    """Of each completion: identifiers of ``members`` in it, and whether it holds a passage of one, whole or nearly.

    ``held_out``: records of the same kind that were not in the data; the same is counted of them, as what the model
    makes up or knows from elsewhere. Both are JSON Lines whose fields are named ``text`` and ``label``. Raises
    ``DataError``, ``RunFileError``.
    """
    require("audit", purpose="searching text for what records hold")
    named = [kinds] if isinstance(kinds, str) else list(kinds)
    asked = parse_audit(
        {"attack": "released-text", "released": "text", "held_out": held_out, "kinds": named, "region": region}
    )
    fields = Fields(text=text, label=label)
    inside, outside = (
        [Record(each.id, each.text, each.label) for each in read_all(Path(side), fields=fields)]
        for side in (members, held_out)
    )
    search = prepare_search(inside, outside, detector=Extraction(asked.kinds, asked.region), alpha=_LEVEL)

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001
        found = search.finding([state.output.completion], rouge=False)
        return Score(value=_counts(found), explanation=_explained(found))

    return score


def _counts(found: SearchFinding) -> dict[str, int]:
    """Numbers whose means are read beside one another."""
    near = found.overlap.near
    return {
        "leaked": found.leakage.leaked,
        "held_out_leaked": found.leakage.held_out_leaked,
        "verbatim": found.overlap.verbatim,
        "held_out_verbatim": found.overlap.held_out_verbatim,
        "near": 0 if near is None else near.near,
        "held_out_near": 0 if near is None else near.held_out_near,
    }


def _explained(found: SearchFinding) -> str:
    """Where, by characters of the completion; no text."""
    where = [f"{leak.kind} at {leak.start}-{leak.end}" for leak in found.leakage.leaks]
    where += [f"{span.words} words at {span.start}-{span.end}" for span in found.overlap.spans if not span.held_out]
    return "; ".join(where) or "nothing of a record found"


@solver  # type: ignore[untyped-decorator]
def _as_released() -> Solver:
    """The text that was released, as if the model had just written it."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001
        state.output = ModelOutput.from_content("released", state.metadata["text"])
        return state

    return solve


@task  # type: ignore[untyped-decorator]
def released_text(
    released: str, members: str, held_out: str, kinds: str | Sequence[str] = ("email", "phone"), text: str = "text"
) -> Task:
    """The texts of a run's synthetic.jsonl under ``leaks``, whose options the others are; no model is asked."""
    texts = read_texts(Path(released))
    samples = [Sample(f"Text {number}", metadata={"text": each}) for number, each in enumerate(texts, start=1)]
    return Task(
        dataset=MemoryDataset(samples), solver=_as_released(), scorer=leaks(members, held_out, kinds, text=text)
    )
