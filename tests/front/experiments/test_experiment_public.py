"""A data set whose head is declared public: who reads which part, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import RunFileError
from affidavit.certification import prepare
from affidavit.experiments import running
from affidavit.experiments.cells import expand
from affidavit.experiments.files import write_parts
from affidavit.experiments.gridfile import Grid, parse_grid
from affidavit.experiments.runner import run_experiment
from affidavit.synthesis import public_records

LABELS = ["north", "south"]
PUBLIC, PRIVATE = 9, 20
SGA = {
    "kind": "sga",
    "task": "question",
    "ensemble": 4,
    "embedding": "toy",
    "max_tokens": 3,
    "max_record_tokens": 12,
    "minibatch_rows": 8,
    "dpm": {"dimensions": 2, "levels": 1, "smallest": 0.0},
}
Parse = Callable[..., Grid]


def _lines(name: str, count: int) -> list[str]:
    return [
        json.dumps({"id": f"{name}-{n}", "text": f"the wind of {name} {n}", "label": LABELS[n % 2]})
        for n in range(count)
    ]


@pytest.fixture
def parse(tmp_path: Path) -> Parse:
    """A grid on a file of 9 public and 20 private records; changes of its data set, and its methods."""
    (tmp_path / "train.jsonl").write_text("\n".join(_lines("train", PUBLIC + PRIVATE)), encoding="utf-8")
    (tmp_path / "test.jsonl").write_text("\n".join(_lines("test", 3)) + "\n", encoding="utf-8")

    def parsed(*methods: dict[str, Any], **dataset: Any) -> Grid:
        table = {
            "relation": "zero-out",
            "delta": 1e-2,
            "epsilon": [8.0],
            "seeds": [0],
            "model": {"name": "toy"},
            "icl": {"shots": [1], "test": 2},
            "datasets": [
                {
                    "name": "winds", "task": "ag-news", "labels": LABELS, "path": "train.jsonl", "size": PRIVATE,
                    "public_first": PUBLIC, "test": "test.jsonl", **dataset,
                }
            ],
            "methods": list(methods),
        }  # fmt: skip
        table["datasets"] = [{key: value for key, value in table["datasets"][0].items() if value is not None}]
        return parse_grid(table, folder=tmp_path)

    return parsed


REAL = {"name": "real", "baseline": "real"}
SHOWN = {"name": "public-records", "baseline": "public-records"}


def test_public_and_private_records_are_shown_apart(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[list[str]] = []
    measure = running.evaluate

    def noted(*arguments: Any, **named: Any) -> Any:
        pools.append([one.input for one in named["demonstrations"]])
        return measure(*arguments, **named)

    monkeypatch.setattr(running, "evaluate", noted)
    shown, real = run_experiment(parse(SHOWN, REAL), tmp_path / "out").results
    texts = [f"the wind of train {n}" for n in range(PUBLIC + PRIVATE)]
    assert pools == [texts[:PUBLIC], texts[PUBLIC:]]
    assert (shown.epsilon, shown.epsilon_upper) == (0.0, 0.0)
    assert math.isinf(real.epsilon)
    assert shown.tokens == real.tokens == 0
    kept = tmp_path / "out" / "data" / "winds.private.jsonl"
    assert kept.stat().st_mode & 0o077 == 0, "a copy of private records can be read by others"


def test_a_public_file_is_shown_as_well(parse: Parse, tmp_path: Path) -> None:
    (tmp_path / "public.jsonl").write_text("\n".join(_lines("else", 5)), encoding="utf-8")
    grid = parse(SHOWN, public_first=None, public="public.jsonl", size=PUBLIC + PRIVATE)
    (result,) = run_experiment(grid, tmp_path / "out").results
    assert result.scores[1]["demonstrations"] == 1.0
    assert not (tmp_path / "out" / "data").exists()


def test_a_generator_reads_both_parts(parse: Parse, tmp_path: Path) -> None:
    grid = parse({"name": "sga", "generator": SGA}).model_copy(update={"parts": tmp_path / "parts"})
    write_parts(grid)
    (cell,) = expand(grid)
    run = cell.run()
    keyring = Keyring(tmp_path / "home")
    keyring.init()
    _, records = prepare(run, keyring=keyring)
    assert [record.id for record in records] == [f"train-{n}" for n in range(PUBLIC, PUBLIC + PRIVATE)]
    assert [record.id for record in public_records(run)] == [f"train-{n}" for n in range(PUBLIC)]
    (elsewhere,) = expand(grid.model_copy(update={"parts": tmp_path / "moved"}))
    assert cell.id == elsewhere.id, "where the parts are kept is no setting"


@pytest.mark.slow
def test_answers_are_certified_and_scored(parse: Parse, tmp_path: Path) -> None:
    (result,) = run_experiment(parse({"name": "sga", "generator": SGA}), tmp_path / "out").results
    assert not result.refused
    assert 7.0 < result.epsilon_upper <= 8.0
    assert result.texts == 2
    assert 0.0 <= result.scores[0]["accuracy"] <= 1.0


def test_more_public_records_are_other_cells(parse: Parse) -> None:
    (before,) = expand(parse(REAL))
    (after,) = expand(parse(REAL, public_first=PUBLIC - 1, size=PRIVATE + 1))
    assert before.id != after.id


def test_the_end_of_a_file_is_tested_on_and_never_shown(
    parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No example that is tested on is a private record, and none of the file is lost."""
    seen: list[tuple[list[str], list[str]]] = []
    measure = running.evaluate

    def noted(*arguments: Any, **named: Any) -> Any:
        pools = (named["demonstrations"], named["examples"])
        seen.append(tuple([one.input for one in pool] for pool in pools))  # type: ignore[arg-type]
        return measure(*arguments, **named)

    monkeypatch.setattr(running, "evaluate", noted)
    run_experiment(parse(REAL, test=None, test_last=2, size=PRIVATE - 2), tmp_path / "out")
    texts = [f"the wind of train {n}" for n in range(PUBLIC + PRIVATE)]
    ((shown, tested),) = seen
    assert shown == texts[PUBLIC:-2]
    assert sorted(tested) == texts[-2:]


@pytest.mark.parametrize(
    ("dataset", "message"),
    [
        ({"public": "test.jsonl"}, "names a file as well"),
        ({"test_last": 2}, "test names a file as well"),
        ({"test": None}, "there is nothing to test on"),
        ({"test": None, "test_last": 2}, "20 is declared, the file holds 18 besides 9 public ones and 2 test ones"),
        ({"test": None, "test_last": 40}, "20 is declared, the file holds 0 besides 9 public ones and 40 test ones"),
        ({"public_first": None, "size": PUBLIC + PRIVATE}, "no public records to show"),
        ({"size": PUBLIC + PRIVATE}, "29 is declared, the file holds 20 besides 9 public ones"),
        ({"public_first": 60}, "20 is declared, the file holds 0 besides 60 public ones"),
        ({"public_first": 0}, "public_first"),
    ],
)
def test_what_cannot_be_divided_is_refused(dataset: dict[str, Any], message: str, parse: Parse, tmp_path: Path) -> None:
    with pytest.raises(RunFileError, match=message):
        run_experiment(parse(SHOWN, **dataset), tmp_path / "out")
    assert not (tmp_path / "out").exists()
