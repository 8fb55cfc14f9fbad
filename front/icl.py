"""``affidavit icl``: what demonstrations are worth, measured on a labelled test file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from affidavit.accountant.errors import UsageError
from affidavit.generation.icl.evaluation import Evaluation, check_seeds, evaluate, subset
from affidavit.generation.icl.examples import load_examples
from affidavit.generation.icl.prompting import choose_demonstrations
from affidavit.generation.icl.scores import require_packages
from affidavit.generation.icl.tasks import Task
from affidavit.generation.icl.tasks import task as named_task
from affidavit.generation.models import load_model
from affidavit.owntask import load_task

if TYPE_CHECKING:
    from affidavit.generation.icl.structured import RecordRates
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.models.served_requests import ServerSettings
    from affidavit.generation.models.transformers_model import Dtype

__all__ = ["IclResult", "icl", "task_for"]


@dataclass(frozen=True, slots=True)
class IclResult:
    """The scores; for records also how many of the demonstrations were sound."""

    evaluation: Evaluation
    demonstrations: RecordRates | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        sound = None if self.demonstrations is None else self.demonstrations.to_json()
        return {**self.evaluation.to_json(), "demonstration_records": sound}


def task_for(
    name: str | Path,
    *,
    labels: Sequence[str] | None = None,
    instruction: str | None = None,
    fields: tuple[str | None, str | None] = (None, None),
    schema: Mapping[str, Any] | None = None,
) -> Task:
    """A task by name, or from a TOML file; with labels, an instruction or a record schema of one's own.

    ``fields``: what the files call text and label. Raises ``UsageError``, ``RunFileError``.
    """
    task = load_task(name) if isinstance(name, Path) else named_task(name)
    if name == "generic" and labels is None:
        raise UsageError("the task generic has no labels of its own", hint="For example: `--label spam --label ham`")
    task = task if labels is None else task.with_labels(labels)
    if instruction is not None:
        task = replace(task, instruction=instruction)
    task = task.with_fields(text=fields[0], label=fields[1])
    if schema is None:
        return task
    if task.kind != "record":
        raise UsageError(f"the task {name} writes no records", hint="Remove `--schema`.")
    return replace(task, schema=schema)


def icl(
    test: Path,
    *,
    task: Task,
    model: LanguageModel | str,
    demonstrations: Path | None,
    shots: int,
    seeds: Sequence[int],
    limit: int | None = None,
    dtype: Dtype = "auto",
    server: ServerSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> IclResult:
    """Measure a model on the examples of ``test`` with k of the demonstrations of a file, or with none.

    The demonstrations may be synthetic text, real records, or absent (``shots`` 0). Both files are read
    and checked before the model is loaded. ``server``: where the model is served; it must score given
    text. Raises ``DataError``, ``ModelMissing``, ``ModelUnavailable``, ``PackageMissing``, ``UsageError``.
    """
    require_packages(task.kind)
    if (demonstrations is None) != (shots == 0):
        raise UsageError(
            "shots and demonstrations do not fit each other",
            hint="`--shots 0` without a file of demonstrations." if demonstrations is None else "`--shots 4`",
        )
    check_seeds(seeds)
    shown = load_examples(demonstrations, task, blank="drop") if demonstrations is not None else None
    pool = () if shown is None else shown.examples
    for seed in seeds:
        choose_demonstrations(pool, task, shots=shots, seed=seed)
    examples = subset(load_examples(test, task).examples, limit)
    loaded = load_model(model, dtype=dtype, server=server) if isinstance(model, str) else model
    found = evaluate(loaded, task, demonstrations=pool, examples=examples, shots=shots, seeds=seeds, progress=progress)
    return IclResult(found, None if shown is None else shown.records)
