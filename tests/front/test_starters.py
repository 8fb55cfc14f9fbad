"""``init --generator``: every generator's local settings, fitted to any file and to the budget, and certified."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path
from typing import Any

import pytest

from affidavit.generation.registry import generator, kinds
from affidavit.runfile import load_run
from affidavit.starters import answers

BASE = ("--relation", "zero-out", "--model", "toy", "--declare-public")
FITTED = {"batch_size", "subsets", "ensemble", "sampling", "use_public", "public_example"}


def _csv(path: Path, *, names: tuple[str, str], count: int) -> Path:
    texts = (("the wind number {n} over the mill", ("north", "south")), ("does day {n} hurt?", ("rest for {n} days",)))
    text, labels = texts[names[0] == "question"]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows((text.format(n=n), labels[n % len(labels)].format(n=n)) for n in range(count))
    return path


def _flags(kind: str, folder: Path) -> tuple[Any, ...]:
    if not answers(generator(kind)):
        return (_csv(folder / "letters.csv", names=("text", "label"), count=300),)
    public = _csv(folder / "public.csv", names=("question", "answer"), count=60)
    data = _csv(folder / "letters.csv", names=("question", "answer"), count=300)
    return (data, "--query", "Does it hurt?", "--public", public)


@pytest.fixture
def fresh(empty_workplace, monkeypatch):
    empty_workplace.run_file.unlink()
    monkeypatch.chdir(empty_workplace.folder)
    return empty_workplace


@pytest.mark.parametrize("kind", kinds())
def test_every_generator_reaches_a_certificate_from_a_plain_csv(kind, fresh):
    done = fresh.command("init", *_flags(kind, fresh.folder), *BASE, "--generator", kind)
    assert done.code == 0, done.err
    certified = fresh.certify()
    assert certified.code == 0, certified.err
    run = load_run(fresh.run_file)
    table, preset = run.generator.model_dump(), generator(kind).presets["local"]
    noise = {key.rpartition(".")[2] for key in run.source.noise_keys(run.generator)}
    flat = {**preset, **preset.get("dpm", {})}
    written = {**table, **(table.get("dpm") or {})}
    for key in flat.keys() - noise - FITTED - {"task", "dpm"}:
        assert written[key] == flat[key], key
    if answers(generator(kind)):
        assert "rest for" not in fresh.run_file.read_text(encoding="utf-8")


def test_a_budget_that_covers_the_usual_noise_leaves_it(fresh):
    done = fresh.command("init", *_flags("few-shot", fresh.folder), *BASE, "--generator", "few-shot", "--epsilon", 500)
    assert done.code == 0, done.err
    written = tomllib.loads(fresh.run_file.read_text(encoding="utf-8"))["generator"]
    assert written["noise_multiplier"] == generator("few-shot").presets["local"]["noise_multiplier"]
    assert "usually" not in done.err


def test_private_and_public_records_are_read_by_the_same_fields(fresh):
    """The private ones are good as they stand, under names of their own; the public ones have to be converted."""
    lines = [f'{{"id": "{n}", "question": "does day {n} hurt?", "answer": "rest {n}"}}' for n in range(60)]
    fresh.data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    public = _csv(fresh.folder / "public.csv", names=("question", "answer"), count=60)
    done = fresh.command(
        "init", fresh.data, "--public", public, "--query", "Does it?", *BASE, "--generator", "ksa-answers"
    )
    assert done.code == 0, done.err
    run = load_run(fresh.run_file)
    assert (run.data.path, run.data.public) == ("train.records.jsonl", "public.records.jsonl")
    assert fresh.certify().code == 0


@pytest.mark.parametrize("word", ["fewshot", "Few_Shot", "few-shots"])
def test_a_slip_in_the_name_is_put_right(word, fresh):
    refused = fresh.command("init", fresh.data, *BASE, "--generator", word)
    assert refused.code == 2
    assert "--generator few-shot`" in refused.err
    assert not fresh.run_file.exists()
