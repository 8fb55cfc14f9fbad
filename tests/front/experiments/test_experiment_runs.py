"""Grids from file to table on the toy model: what runs, what is charged, what is found again."""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import json
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import DataError, NotSupported, PackageMissing, RunFileError, UsageError
from affidavit.accountant.ledger import Ledger
from affidavit.experiments import running
from affidavit.experiments.cells import expand
from affidavit.experiments.comparing import comparisons
from affidavit.experiments.gridfile import Grid, parse_grid
from affidavit.experiments.runner import done_so_far, run_experiment
from affidavit.experiments.tables import markdown, summaries
from affidavit.generation import prism
from affidavit.generation.models import places
from affidavit.generation.models.toy import ToyModel
from affidavit.verification import verify

GRID = """\
title = "A toy table"
relation = "zero-out"
delta = 1e-3
epsilon = [2.0, inf]
seeds = [0, 1]
model = { name = "toy" }
icl = { shots = [1, 2], test = 4 }
[[datasets]]
name = "winds"
task = "ag-news"
path = "train.jsonl"
size = 24
test = "test.jsonl"
labels = ["north", "south"]
[[methods]]
name = "zero-shot"
baseline = "zero-shot"
[[methods]]
name = "real"
baseline = "real"
[[methods]]
name = "public-only"
baseline = "public-only"
generator = { kind = "prism", max_tokens = 3, batch_size = 6 }
[[methods]]
name = "prism"
generator = { kind = "prism", max_tokens = 3, max_record_tokens = 12, batch_size = 6, minibatch_rows = 4, clip = 4.0 }
[methods.grid]
samples_per_label = [1, 2]
"""
pytestmark = pytest.mark.usefixtures("same_entropy")

Table = dict[str, Any]
SGA = {"kind": "sga", "task": "question", "ensemble": 4}
FEW_SHOT = {"kind": "few-shot", "noise_multiplier": 1.0, "subsets": 2, "task": "generic"}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """The grid as a table, with its files in ``tmp_path``."""
    for name, count in (("train", 24), ("test", 8)):
        lines = [
            json.dumps({"id": f"{name}{n}", "text": f"the {label} wind number {n}", "label": label})
            for n in range(count)
            for label in (("north", "south")[n % 2],)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tomllib.loads(GRID)


@pytest.fixture
def parse(table: Table, tmp_path: Path) -> Callable[..., Grid]:
    return lambda **changes: parse_grid({**table, **changes}, folder=tmp_path)


def test_a_grid_expands_to_its_cells(parse: Callable[..., Grid]) -> None:
    cells = expand(parse())
    counts: dict[tuple[str, float], int] = {}
    for cell in cells:
        counts[cell.label, cell.epsilon] = counts.get((cell.label, cell.epsilon), 0) + 1
    assert counts == {
        ("zero-shot", 0.0): 2,
        ("real", math.inf): 2,
        ("public-only", 0.0): 2,
        ("prism (samples_per_label = 1)", 2.0): 2,
        ("prism (samples_per_label = 1)", math.inf): 2,
        ("prism (samples_per_label = 2)", 2.0): 2,
        ("prism (samples_per_label = 2)", math.inf): 2,
    }
    assert len({cell.id for cell in cells}) == len(cells)
    assert len({cell.setting_id for cell in cells}) == len(counts)
    assert {cell.shots for cell in cells} == {(0,), (1, 2)}


def test_every_protected_cell_is_certified_charged_and_measured(parse: Callable[..., Grid], tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen: list[tuple[str, int, int]] = []
    done = run_experiment(parse(), out, progress=lambda *at: seen.append(at))
    assert done.found == 0
    assert seen == [("certifying", n, 7) for n in range(8)] + [("running", n, 14) for n in range(15)]
    assert len(done.results) == 14
    keyring = Keyring(out / "home")
    certificates = {
        hashlib.sha256(path.read_bytes()).hexdigest(): path for path in (out / "settled").glob("*.certificate.json")
    }
    assert len(certificates) == 2
    for result in done.results:
        attempts = list((out / "runs" / result.cell).glob("attempt-*"))
        if result.method in ("zero-shot", "real"):
            assert not attempts
            assert set(result.scores) == ({0} if result.method == "zero-shot" else {1, 2})
            continue
        (attempt,) = attempts
        receipt = json.loads((attempt / "receipt.json").read_text())
        protected = result.epsilon == 2.0
        assert receipt["protected"] is protected
        assert (attempt / "ledger.db").exists() is protected
        assert result.tokens > 0
        assert result.calls >= result.tokens
        if protected:
            assert 1.9 < result.epsilon_upper <= 2.0
            ledger = Ledger(keyring=keyring, url=f"sqlite:///{attempt / 'ledger.db'}")
            account = ledger.account("winds")
            assert (float(account.epsilon), float(account.delta)) == (2.0, 1e-3)
            (charged,) = account.reservations
            assert charged.state.startswith("committed")
            assert charged.receipt_sha256 is not None
            number = verify(certificates[receipt["certificate_sha256"]], recompute=True, trusted=keyring.trusted())
            assert number.answer == "holds"
            assert float(number.certificate.claim.epsilon) <= 2.0
        else:
            assert receipt["guarantee"].startswith("NONE")
            assert receipt["certificate_sha256"] is None


def test_a_killed_experiment_goes_on_where_it_was(
    parse: Callable[..., Grid], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, grid = tmp_path / "out", parse()
    measure = running.evaluate
    calls = []

    def dies(*arguments: Any, **named: Any) -> Any:
        calls.append(named)
        if len(calls) == 12:
            raise KeyboardInterrupt
        return measure(*arguments, **named)

    monkeypatch.setattr(running, "evaluate", dies)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(grid, out)
    finished = {path.name: path.read_bytes() for path in (out / "cells").iterdir()}
    texts = {path: path.read_bytes() for path in (out / "runs").glob("*/*/synthetic.jsonl")}
    assert len(texts) > len([name for name in finished if ".prism." in name or ".public-only." in name])
    monkeypatch.undo()
    done = run_experiment(grid, out)
    assert done.found == len(finished)
    assert {name: (out / "cells" / name).read_bytes() for name in finished} == finished
    assert all(path.read_bytes() == content for path, content in texts.items()), "finished text was made again"
    assert len(list((out / "runs").glob("*/*"))) == 10
    asked = ToyModel()
    monkeypatch.setattr(asked, "start", lambda *_, **__: pytest.fail("a finished experiment asked the model"))
    again = run_experiment(grid, out, model=asked)
    assert again.results == done.results
    assert again.found == 14


def test_a_killed_generation_stays_charged_and_is_made_anew_elsewhere(
    parse: Callable[..., Grid], table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    grid = parse(seeds=[0], epsilon=[2.0], methods=[{**table["methods"][3], "grid": {}}])

    class Dies(ToyModel):
        def start(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(grid, out, model=Dies())
    (result,) = run_experiment(grid, out).results
    first, second = sorted((out / "runs" / result.cell).iterdir())
    keyring = Keyring(out / "home")
    states = [
        Ledger(keyring=keyring, url=f"sqlite:///{place / 'ledger.db'}").account("winds").reservations[0].state
        for place in (first, second)
    ]
    assert not states[0].startswith("committed")
    assert states[1].startswith("committed")
    assert not (first / "synthetic.jsonl").exists()


def test_a_task_of_ones_own_names_its_labels_and_its_wording(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    answers = ToyModel.choice_log_likelihoods

    def listening(self: Any, prompts: Any, choices: Any) -> Any:
        asked.extend(prompts)
        return answers(self, prompts, choices)

    monkeypatch.setattr(ToyModel, "choice_log_likelihoods", listening)
    dataset = {key: value for key, value in table["datasets"][0].items() if key != "labels"}
    own = {"labels": ["north", "south"], "instruction": "Whence does it blow?", "answer": "Wind"}
    few_shot = {"name": "few-shot", "preset": "local", "generator": {**FEW_SHOT, "task": "generic", "max_tokens": 3}}
    prism = {key: value for key, value in table["methods"][3].items() if key != "grid"}
    grid = parse_grid(
        {**table, "epsilon": [2.0], "seeds": [0], "datasets": [{**dataset, "task": own}], "methods": [prism, few_shot]},
        folder=tmp_path,
    )
    cells = expand(grid)
    assert [cell.run().generator.model_dump()["labels"] for cell in cells] == [("north", "south")] * 2
    assert [cell.run().generator.model_dump()["task"] for cell in cells] == ["generic", "generic"]
    done = run_experiment(grid.model_copy(update={"methods": grid.methods[:1]}), tmp_path / "out")
    assert len(done.results) == 1
    assert asked
    assert all(prompt.startswith("Whence does it blow?\n\n") and prompt.endswith("\nWind:") for prompt in asked)
    with pytest.raises(RunFileError, match=r"datasets\.labels: stand in the task as well"):
        parse_grid({**table, "datasets": [{**dataset, "task": own, "labels": ["north"]}]}, folder=tmp_path)


def test_changed_settings_are_other_cells(parse: Callable[..., Grid]) -> None:
    def ids(**changes: Any) -> set[str]:
        return {cell.id for cell in expand(parse(**changes))}

    base = ids()
    assert ids(title="other") == base
    assert not ids(delta=1e-4) & base
    assert not ids(icl={"shots": [1], "test": 4}) & {name for name in base if "zero-shot" not in name}
    assert not ids(icl={"shots": [1, 2], "test": 5}) & base
    assert ids(seeds=[1, 2]) & base


def test_a_preset_counts_as_its_values(
    parse: Callable[..., Grid], table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that cells of another preset under the same name are made anew, and no others."""
    written = {**table["methods"][3], "generator": {**prism.PRESETS["local"], "kind": "prism", "batch_size": 6}}
    named = {**written, "preset": "local", "generator": {"kind": "prism", "batch_size": 6}}

    def ids(method: Table) -> set[str]:
        return {cell.id for cell in expand(parse(methods=[method]))}

    first, others = ids(named), ids(written)
    assert first == others
    monkeypatch.setitem(prism.PRESETS, "local", {**prism.PRESETS["local"], "clip": 3.5})
    assert not ids(named) & first
    assert ids(written) == others
    monkeypatch.setitem(prism.PRESETS, "other", prism.PRESETS["local"])
    assert ids({**named, "preset": "other"}) == ids(named)


def test_an_epsilon_that_nothing_meets_is_an_answer(parse: Callable[..., Grid], table: Table, tmp_path: Path) -> None:
    method = {**table["methods"][3], "grid": {}, "epsilon": [1e-9], "solve": "max_tokens"}
    done = run_experiment(parse(methods=[method], seeds=[0]), tmp_path / "out")
    (result,) = done.results
    assert "no value in" in result.refused
    assert not list((tmp_path / "out" / "runs").iterdir())
    assert "not possible" in markdown(summaries(done.results))


def test_keys_that_leave_the_cost_alone_together_meet_nothing(
    parse: Callable[..., Grid], table: Table, tmp_path: Path
) -> None:
    """The range is clip over temperature: scaled together they change nothing, and that is said."""
    method = {**table["methods"][3], "grid": {}, "epsilon": [1.0], "solve": ["temperature", "clip"]}
    (result,) = run_experiment(parse(methods=[method], seeds=[0]), tmp_path / "out").results
    assert result.refused.startswith("temperature and clip: no value")


def test_the_noise_key_is_found(parse: Callable[..., Grid]) -> None:
    cell = next(cell for cell in expand(parse()) if cell.protected)
    run = cell.run()
    assert run.source.noise_keys(run.generator) == ("temperature",)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"epsilon": [0.0]}, RunFileError, "epsilon"),
        ({"epsilon": [1.0, 1.0]}, RunFileError, "epsilon"),
        ({"seeds": []}, RunFileError, "seeds"),
        ({"delta": 0.0}, RunFileError, "delta"),
        ({"typo": 1}, RunFileError, "typo: unknown key"),
        ({"model": {"name": "no-such-model"}}, UsageError, "no model"),
        ({"model": {"name": "http://127.0.0.1:9/v1", "id": "m"}}, NotSupported, "logits of every token"),
        ({"datasets.size": 25}, RunFileError, "the file holds 24"),
        ({"datasets.path": "absent.jsonl"}, DataError, "no file"),
        ({"datasets.test": "absent.jsonl"}, DataError, "no file"),
        ({"datasets.task": "mit"}, RunFileError, "not known"),
        ({"datasets.labels": ["north", "east"]}, DataError, "not one of the task's labels"),
        ({"methods.generator": {"kind": "prism", "batch_size": 99}}, RunFileError, "winds, prism"),
        ({"methods.generator": {"kind": "prism", "cip": 4.0}}, RunFileError, "cip"),
        ({"methods.generator": {}}, RunFileError, "kind"),
        ({"methods.baseline": "real"}, RunFileError, "has no generator"),
        ({"methods.baseline": "aggregation", "methods.generator": FEW_SHOT}, RunFileError, "PRISM's"),
        (
            {
                "methods.baseline": "public-only",
                "methods.generator": SGA,
                "methods.grid": {},
                "datasets.public": "train.jsonl",
            },
            RunFileError,
            "no public prompt",
        ),
        ({"methods.preset": "big"}, RunFileError, "no such preset"),
        ({"methods.datasets": ["waves"]}, RunFileError, "no dataset waves"),
        ({"methods.grid": {"clip": []}}, RunFileError, "empty"),
    ],
)
def test_a_wrong_grid_is_refused_before_anything_is_made(
    change: dict[str, Any], error: type[Exception], message: str, table: Table, tmp_path: Path
) -> None:
    content = {**table, "methods": [dict(table["methods"][3])], "datasets": [dict(table["datasets"][0])]}
    for name, value in change.items():
        where, _, key = name.partition(".")
        if key:
            content[where][0][key] = value
        else:
            content[where] = value
    with pytest.raises(error, match=message):
        run_experiment(parse_grid(content, folder=tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(parse: Callable[..., Grid], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no experiment"):
        run_experiment(parse(), tmp_path)


def test_the_command_writes_tables_and_figure_and_repeats_them(
    table: Table, tmp_path: Path, command: Callable[..., Any]
) -> None:
    (tmp_path / "grid.toml").write_text(GRID, encoding="utf-8")
    first = command("experiment", tmp_path / "grid.toml", "-o", tmp_path / "out")
    assert first.code == 0, first.err
    out = tmp_path / "out"
    files = {name: (out / name).read_bytes() for name in ("table.md", "table.csv", "cells.csv", "figure.svg")}
    assert first.out == files["table.md"].decode()
    again = command("experiment", tmp_path / "grid.toml", "-o", out, "--json")
    assert again.code == 0
    assert "14 of 14 cells were there already" in again.err
    assert {name: (out / name).read_bytes() for name in files} == files
    rows = list(csv.DictReader((out / "table.csv").read_text().splitlines()))
    assert len(rows) == len(again.json) == 13
    assert {row["epsilon"] for row in rows} == {"0.0", "2.0", "inf"}


@pytest.mark.slow
def test_several_processes_give_a_whole_table(parse: Callable[..., Grid], tmp_path: Path) -> None:
    done = run_experiment(parse(), tmp_path / "out", jobs=2, threads=1)
    assert [result.cell for result in done.results] == [cell.id for cell in expand(parse())]
    assert run_experiment(parse(), tmp_path / "out").found == 14


def test_a_terminal_is_shown_both_loops(
    table: Table, tmp_path: Path, command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "grid.toml").write_text(GRID.partition('[[methods]]\nname = "public-only"')[0], encoding="utf-8")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    shown = command("experiment", tmp_path / "grid.toml", "-o", tmp_path / "out")
    assert shown.code == 0, shown.err
    assert "certifying" in shown.err
    assert "running" in shown.err


def test_a_data_set_states_its_texts_and_a_generator_takes_those_it_knows(parse: Callable[..., Grid]) -> None:
    texts = {"samples_per_label": 2, "max_tokens": 4, "batch_size": 5, "match_label": False, "across_labels": True}
    grid = parse()
    asked = {"instruction": "Which wind?", "answer": "Wind"}
    dataset = {**grid.datasets[0].model_dump(exclude_none=True), "texts": texts, "shots": [2], "prompt": asked}
    methods = [
        {"name": "prism", "generator": {"kind": "prism", "max_tokens": 3, "max_record_tokens": 12}},
        {"name": "few-shot", "generator": FEW_SHOT},
    ]
    one, two = expand(parse(datasets=[dataset], methods=methods, epsilon=[2.0], seeds=[0]))
    prism, few_shot = one.run().generator, two.run().generator
    assert (prism.samples_per_label, prism.batch_size, prism.max_tokens, prism.across_labels) == (2, 5, 3, True)
    assert (few_shot.samples_per_label, few_shot.max_tokens, few_shot.match_label) == (2, 4, False)
    assert one.shots == two.shots == (2,)
    assert (one.task.instruction, one.task.input_name, one.task.answer_name) == ("Which wind?", "Article", "Wind")


def test_several_models_are_an_axis(parse: Callable[..., Grid]) -> None:
    other = {"name": "folder/other"}
    cells = expand(parse(model=[{"name": "toy"}, other]))
    assert [cell.model_name for cell in cells] == ["toy"] * 14 + ["other"] * 14
    assert len({cell.id for cell in cells}) == 28
    assert {cell.run().model.name for cell in cells if cell.method.generator} == {"toy", other["name"]}
    with pytest.raises(RunFileError, match="model: the same one twice"):
        parse(model=[{"name": "toy"}, {"name": "toy"}])


def test_so_far_shows_what_has_all_its_seeds_and_runs_nothing(parse: Callable[..., Grid], tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run_experiment(parse(), out)
    gone = next(one for one in done.results if one.method.startswith("prism") and one.epsilon == 2.0)
    (out / "cells" / f"{gone.cell}.json").unlink()
    before = sorted(out.rglob("*"))
    shown = done_so_far(parse(), out)
    assert sorted(out.rglob("*")) == before
    assert (len(shown.results), shown.cells) == (12, 14)
    assert gone.method in {one.method for one in shown.results}  # at the other ε
    assert not any((one.method, one.epsilon) == (gone.method, gone.epsilon) for one in shown.results)
    with pytest.raises(UsageError, match="no setting of the grid"):
        done_so_far(parse(), tmp_path / "nothing")


def test_cells_are_compared_with_public_texts_example_by_example(parse: Callable[..., Grid], tmp_path: Path) -> None:
    grid = parse(icl={"shots": [1, 2], "test": 4, "draws": 2})
    done = run_experiment(grid, tmp_path / "out")
    for one in done.results:
        assert one.beside == "public-only"
        for shots, right in one.right.items():
            assert len(right) == 4
            assert set(right) <= {0.0, 0.5, 1.0}
            assert sum(right) / 4 == pytest.approx(one.scores[shots]["accuracy"])
    compared = comparisons(done.results)
    assert {one.method for one in compared} == {
        "real",
        "prism (samples_per_label = 1)",
        "prism (samples_per_label = 2)",
    }
    assert {one.shots for one in compared} == {1, 2}
    assert "Difference to public-only" in markdown(summaries(done.results), compared)


def test_processes_take_gpus_only_where_models_run_on_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    monkeypatch.delenv("AFFIDAVIT_DEVICE", raising=False)
    assert places.accelerators() == ()
    monkeypatch.setenv("AFFIDAVIT_DEVICE", "cuda")
    assert places.accelerators() == ("2", "5")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(PackageMissing, match="torch"):
        places.accelerators()
