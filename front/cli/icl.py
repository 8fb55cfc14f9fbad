"""``icl``: what synthetic demonstrations are worth to a model."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from affidavit.accountant.errors import UsageError
from affidavit.cli._output import json_option, note, print_json, print_table
from affidavit.cli._progress import counting_progress

if TYPE_CHECKING:
    from affidavit.generation.models.transformers_model import Dtype

__all__ = ["icl"]


@click.command()
@click.argument("test", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="TEST.jsonl")
@click.option(
    "--task",
    "task_name",
    metavar="NAME|FILE.toml",
    help="For example ag-news, trec, dbpedia, mit-g, medical; or a file with labels and wording of your own.",
)
@click.option(
    "--demonstrations",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE.jsonl",
    help="synthetic.jsonl of a run, or real records; none if left out.",
)
@click.option("--shots", type=click.IntRange(0, 64), help="Demonstrations in a prompt: 4 of a file, 0 without one.")
@click.option("--seeds", default="0,1,2", show_default=True, help="Each chooses other demonstrations.")
@click.option("--limit", type=click.IntRange(1), help="Test on this many examples, always the same ones.")
@click.option("--model", default="smollm2-135m", show_default=True)
@click.option("--model-id", help="The model of a server, where --model is its address.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the server's key.")
@click.option("--dtype", type=click.Choice(["auto", "bfloat16", "float32"]), default="auto", show_default=True)
@click.option("--label", "labels", multiple=True, help="A label, once for each, where they are not the task's own.")
@click.option(
    "--labels-file", type=click.Path(dir_okay=False, path_type=Path), help="The same from a file, one a line."
)
@click.option("--instruction", help="What every prompt begins with, where it is not the task's own.")
@click.option(
    "--text-column", metavar="NAME", help="What the files call the text, where it is not the task's own name."
)
@click.option("--label-column", metavar="NAME", help="The same for the label.")
@click.option(
    "--schema",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="SCHEMA.json",
    help="The JSON Schema of a record, where it is not the task's own.",
)
@json_option
def icl(
    *,
    test: Path,
    task_name: str | None,
    demonstrations: Path | None,
    shots: int | None,
    seeds: str,
    limit: int | None,
    model: str,
    model_id: str | None,
    api_key_env: str | None,
    dtype: Dtype,
    labels: tuple[str, ...],
    labels_file: Path | None,
    instruction: str | None,
    text_column: str | None,
    label_column: str | None,
    schema: Path | None,
    as_json: bool,
) -> None:
    """Accuracy on TEST.jsonl with k demonstrations in the prompt, mean and deviation over seeds.

    The task is a known one (--task NAME), or your own: its labels (--label, once for each) and your wording
    (--instruction), or both in a file (--task FILE.toml).

    Labels by contextually calibrated likelihood, slots by exact match, free text by ROUGE and BLEU,
    JSON records by parse and validation rates.
    """
    from affidavit.cli._declaring import labels_of
    from affidavit.generation.icl.structured import load_schema
    from affidavit.icl import icl as measure
    from affidavit.icl import task_for
    from affidavit.runfile import Model
    from affidavit.strict import checked

    names = list(dict.fromkeys((*labels, *labels_of(labels_file))))
    if task_name is None and not names:
        raise UsageError("no task", hint="Name one, `--task ag-news`, or its labels: `--label spam --label ham`.")
    task = task_for(
        Path(task_name) if task_name is not None and task_name.endswith(".toml") else task_name or "generic",
        labels=names or None,
        instruction=instruction,
        fields=(text_column, label_column),
        schema=None if schema is None else load_schema(schema),
    )
    named = {"name": model, "id": model_id, "api_key_env": api_key_env}
    served = checked(Model, {key: value for key, value in named.items() if value is not None}, prefix="model.").server
    default_shots = 0 if demonstrations is None else 4
    with counting_progress() as progress:
        result = measure(
            test,
            task=task,
            model=model,
            demonstrations=demonstrations,
            shots=default_shots if shots is None else shots,
            seeds=_whole_numbers(seeds),
            limit=limit,
            dtype=dtype,
            server=served,
            progress=partial(progress, "seeds asked"),
        )
    if as_json:
        print_json(result.to_json())
        return
    found = result.evaluation
    print_table(
        f"{found.task}, {found.shots} shots, {found.examples} examples, {len(found.seeds)} seeds: {found.model}",
        ("metric", "mean", "standard deviation"),
        [(name, f"{found.mean(name):.4f}", f"{found.deviation(name):.4f}") for name in found.seeds[0].scores],
        right=(1, 2),
    )
    if result.demonstrations is not None:
        sound = result.demonstrations
        note(f"Of {sound.count} demonstrations {sound.parsed} parsed and {sound.valid} were valid records.")


def _whole_numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise UsageError("--seeds is not a list of whole numbers", hint="For example `--seeds 0,1,2`.")
    return [int(part) for part in parts]
