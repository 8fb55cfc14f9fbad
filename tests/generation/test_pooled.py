"""Private rows computed by several processes: the same texts, and a worker that is killed changes no draw."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import AffidavitError, UsageError
from affidavit.generation import prism
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.models.pooled import PooledModel
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.prism import PrismConfig
from affidavit.generation.recorder import Recorder

SIZE = 24
LOAD = {"name": "toy", "dtype": "auto", "base": None}


@pytest.fixture
def pooled() -> Iterator[PooledModel]:
    model = PooledModel(ToyModel(), load=LOAD, workers=2)
    yield model
    for pid in model.pids:
        os.kill(pid, signal.SIGKILL)


def _config() -> PrismConfig:
    return PrismConfig(
        labels=["north", "south"], max_tokens=6, max_record_tokens=12, batch_size=10, clip=4.0, minibatch_rows=3
    )


def _records() -> list[Record]:
    return [Record(f"r{n}", f"the wind number {n}", ("north", "south")[n % 2]) for n in range(SIZE)]


def _run(open_plain: Callable[..., Any], model: Any) -> tuple[Any, dict[str, int]]:
    prism.check(_config(), model, public=())
    permit = open_plain(prism.plan(_config(), relation="zero-out", size=SIZE), seed=4)
    return prism.run(permit, _config(), _records(), model, size=SIZE), permit.uses


def test_the_texts_are_the_same(open_plain: Callable[..., Any], pooled: PooledModel) -> None:
    alone, _ = _run(open_plain, ToyModel())
    together, _ = _run(open_plain, pooled)
    assert together.samples == alone.samples
    assert together.trace == alone.trace
    assert together.versions["workers"] == "2 processes"
    assert len(set(pooled.pids)) == 2


@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_killed_worker_changes_neither_the_charge_nor_the_draws(
    open_plain: Callable[..., Any], pooled: PooledModel, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    alone, uses = _run(open_plain, ToyModel())
    draws: list[str] = []
    once = Recorder.once

    def killing(self: Recorder, path: str, draw: Callable[[], Any]) -> Any:
        if len(draws) == at:
            os.kill(pooled.pids[0], signal.SIGKILL)
        draws.append(path)
        return once(self, path, draw)

    monkeypatch.setattr(Recorder, "once", killing)
    before = set(pooled.pids)
    together, used = _run(open_plain, pooled)
    assert together.samples == alone.samples
    assert together.trace == alone.trace
    assert used == uses
    assert len(draws) == sum(uses.values())
    assert set(pooled.pids) != before


def test_a_worker_killed_while_it_computes_is_replaced(pooled: PooledModel) -> None:
    rows = [[5, 6, 7], [8, 9, 10]]
    whole = ToyModel().start(rows, width=8)
    away = pooled.start_apart(rows, width=8, steps=4)
    for token in (3, 4):
        assert np.array_equal(away.logits, whole.logits)
        whole.append([token] * 2)
        away.append([token] * 2)
        os.kill(pooled._workers[0].pid, signal.SIGKILL)
    assert np.array_equal(away.logits, whole.logits)


def test_what_kills_every_worker_is_not_tried_for_ever(pooled: PooledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    away = pooled.start_apart([[5, 6, 7]], width=8, steps=4)
    worker, deaths = pooled._workers[0], []
    ask = type(worker).ask

    def dying(self: Any, command: str, *given: Any) -> Any:
        deaths.append(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        return ask(self, command, *given)

    monkeypatch.setattr(type(worker), "ask", dying)
    with pytest.raises(AffidavitError, match="3 workers died over one minibatch"):
        _ = away.logits
    assert len(set(deaths)) == 3


def test_a_fault_in_a_worker_comes_back_without_its_words(pooled: PooledModel) -> None:
    away = pooled.start_apart([["a private word"]], width=8, steps=4)  # type: ignore[list-item]
    with pytest.raises(AffidavitError) as caught:
        _ = away.logits
    assert "private" not in str(caught.value)
    assert "a worker met" in str(caught.value)


def test_a_long_row_is_refused_as_ever(pooled: PooledModel) -> None:
    away = pooled.start_apart([[5] * 9], width=8, steps=4)
    with pytest.raises(UsageError):
        _ = away.logits


def test_the_variable_asks_for_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFIDAVIT_WORKERS", "2")
    model = load_model("toy")
    assert isinstance(model, PooledModel)
    model.keep_apart([BatchShape(3, 8, 2)])
    assert len(model.pids) == 2
