"""Private rows computed by several workers: the same texts, and a worker that is killed changes no draw.

Each test runs over both ways to reach a worker: processes of this machine, and Ray actors of a local cluster.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import AffidavitError, NotSupported, UsageError
from affidavit.generation import prism
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.models.pooled import PooledModel
from affidavit.generation.models.process_link import ProcessLink
from affidavit.generation.models.ray_link import RayLink
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.prism import PrismConfig
from affidavit.generation.recorder import Recorder

SIZE = 24
BOTH = (ProcessLink, RayLink)
LOAD = {"name": "toy", "dtype": "auto", "base": None}

PROCESSES = pytest.mark.parametrize("pooled", [ProcessLink], ids=["processes"], indirect=True)
"""What happens before or after a link: one is enough."""


@pytest.fixture(scope="module", autouse=True)
def _no_cluster_stays() -> Iterator[None]:
    yield
    import ray

    ray.shutdown()


@pytest.fixture(params=BOTH, ids=["processes", "ray"])
def pooled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[PooledModel]:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    model = PooledModel(ToyModel(), load=LOAD, workers=2, link=request.param)
    yield model
    for worker in model._workers:
        if worker._link is not None:
            worker._link.end()


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
    said = pooled._said
    assert together.versions["workers"] == said
    assert said in {"2 processes", "2 Ray actors"}
    assert together.versions["rows"] == f"{alone.versions['rows']}; in each of {said}"
    assert len(set(pooled.pids)) == 2


@pytest.mark.parametrize("at", [0, 4])
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


@PROCESSES
def test_an_interrupt_ends_no_worker(pooled: PooledModel) -> None:
    """Ctrl-C goes to all of them: another would be begun, and read all prompts, for a run that ends."""
    away = pooled.start_apart([[5, 6, 7]], width=8, steps=4)
    first = away.logits
    os.kill(pooled.pids[0], signal.SIGINT)
    away.append([3])
    whole = ToyModel().start([[5, 6, 7]], width=8)
    assert np.array_equal(first, whole.logits)
    whole.append([3])
    before = pooled.pids
    assert np.array_equal(away.logits, whole.logits)
    assert pooled.pids == before


@PROCESSES
def test_what_kills_every_worker_is_not_tried_for_ever(pooled: PooledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    away = pooled.start_apart([[5, 6, 7]], width=8, steps=4)
    worker, deaths = pooled._workers[0], []
    post = type(worker).post

    def dying(self: Any, command: str, *given: Any, **life: Any) -> Any:
        deaths.append(self.pid)
        os.kill(self.pid, signal.SIGKILL)
        return post(self, command, *given, **life)

    monkeypatch.setattr(type(worker), "post", dying)
    with pytest.raises(AffidavitError, match="3 workers died, one after another"):
        _ = away.logits
    assert len(set(deaths)) == 3


def test_a_worker_killed_while_rows_are_tried_is_replaced(pooled: PooledModel, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, died = pooled._workers[0], []
    post = type(worker).post

    def dying(self: Any, command: str, *given: Any, **life: Any) -> Any:
        if not died:
            died.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        return post(self, command, *given, **life)

    monkeypatch.setattr(type(worker), "post", dying)
    pooled.keep_apart([BatchShape(3, 8, 2)])
    assert died[0] not in pooled.pids
    assert pooled.versions["workers"] == pooled._said


def test_a_fault_in_a_worker_comes_back_without_its_words(pooled: PooledModel) -> None:
    away = pooled.start_apart([["a private word"]], width=8, steps=4)  # type: ignore[list-item]
    with pytest.raises(AffidavitError) as caught:
        _ = away.logits
    assert "private" not in str(caught.value)
    assert "a worker met" in str(caught.value)


@PROCESSES
def test_a_long_row_is_refused_as_ever(pooled: PooledModel) -> None:
    away = pooled.start_apart([[5] * 9], width=8, steps=4)
    with pytest.raises(UsageError):
        _ = away.logits


@pytest.mark.parametrize(("asked", "said"), [("2", "2 processes"), ("ray:3", "3 Ray actors")])
def test_the_variable_asks_for_workers(monkeypatch: pytest.MonkeyPatch, asked: str, said: str) -> None:
    monkeypatch.setenv("AFFIDAVIT_WORKERS", asked)
    model = load_model("toy")
    assert isinstance(model, PooledModel)
    assert model._said == said
    assert not model.pids


@PROCESSES
def test_a_worker_with_other_weights_is_refused(pooled: PooledModel) -> None:
    pooled.digest = "0" * 64
    with pytest.raises(NotSupported, match="not those that are certified"):
        pooled.keep_apart([BatchShape(3, 8, 2)])


def test_ray_keeps_nothing_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither rows nor logits, in Ray's files, its object store, or what it would have stored of a fault."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    import ray

    model = PooledModel(ToyModel(), load=LOAD, workers=1, link=RayLink)
    secret = "a private word that nobody else says"
    away = model.start_apart([[secret] * 20_000], width=40_000, steps=2)  # type: ignore[list-item]
    with pytest.raises(AffidavitError, match="a worker met"):
        _ = away.logits
    passed: list[Any] = []
    got = RayLink._got
    monkeypatch.setattr(RayLink, "_got", lambda self, reference: passed.append(reference) or got(self, reference))
    rows = [[5, 6, 7, 8]] * 40
    logits = model.start_apart(rows, width=8, steps=2).logits
    assert np.array_equal(logits, ToyModel().start(rows, width=8).logits)
    held = ray.get(passed[-1])
    assert len(held) > logits.nbytes
    assert logits.tobytes()[:64] not in held
    session = Path(ray._private.worker.global_worker.node.get_session_dir_path())
    read = [path.read_bytes() for path in session.rglob("*") if path.is_file()]
    assert read
    assert not [1 for content in read if secret.encode() in content or logits.tobytes()[:64] in content]


def test_a_message_that_comes_twice_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    import ray

    link = RayLink(LOAD, 1)
    link.send(("ready",))
    assert link.receive()[0] is None
    sealed = link._sealed[0].shut(("ready",))  # type: ignore[index]
    assert ray.get(link._actor.do.remote(sealed)) is not None
    with pytest.raises(ray.exceptions.RayTaskError):
        ray.get(link._actor.do.remote(sealed))
    link.end()


def test_more_workers_than_before_find_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray was begun for one worker of this process, and is asked for three."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    rows = [[5, 6, 7], [8, 9, 10]]
    expected = ToyModel().start(rows, width=8).logits
    models = [PooledModel(ToyModel(), load=LOAD, workers=count, link=RayLink) for count in (1, 3)]
    found = [model.start_apart(rows, width=8, steps=1) for model in models for _ in model._workers]
    assert all(np.array_equal(away.logits, expected) for away in found)
    assert len({pid for model in models for pid in model.pids}) == 4
    for model in models:
        for worker in model._workers:
            worker._link.end()  # type: ignore[union-attr]
