"""Texts written side by side, as workers write them: the texts of one after another, and each draw made once.

What is drawn is a function of every bit of the scores here, so that the order in which texts come to their draws cannot
be seen in them, and one wrong bit can.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import AffidavitError
from affidavit.accountant.plan import Exponential, Gaussian, Parallel, leaves
from affidavit.accountant.release.journal import NAME, Journal, Past
from affidavit.accountant.release.order import order_free
from affidavit.accountant.release.randomness import SecureNoise
from affidavit.audits.trace.check import check_trace
from affidavit.audits.trace.events import parse as parse_trace
from affidavit.generation import invisible_ink, prism
from affidavit.generation.dataset import Record
from affidavit.generation.invisible_ink import InvisibleInkConfig
from affidavit.generation.models.base import Spread
from affidavit.generation.models.pooled import PooledModel
from affidavit.generation.models.process_link import ProcessLink
from affidavit.generation.models.ray_link import RayLink
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.prism import PrismConfig
from affidavit.mechanisms import exponential
from support.stopping import Died, KeptPermit, Stop, drawn, logging_draws, moments, stopping

LABELS = ["north", "south", "east", "west", "up", "down"]
SIZE = 24
LOAD = {"name": "toy", "dtype": "auto", "base": None}
SETTINGS: dict[str, Any] = {
    "labels": LABELS, "max_tokens": 5, "max_record_tokens": 12, "batch_size": 4, "clip": 4.0, "minibatch_rows": 3,
}  # fmt: skip
GENERATORS = [
    (prism, PrismConfig(**SETTINGS)),
    (invisible_ink, InvisibleInkConfig(**SETTINGS, top_k=40)),
]
BOTH = pytest.mark.parametrize(("generator", "config"), GENERATORS, ids=["prism", "invisible-ink"])


class FourPlaces(ToyModel, Spread):
    """In one process, for four texts at a time."""

    together = 4

    def one_place(self) -> ToyModel:
        return self


@pytest.fixture(autouse=True)
def _seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def sample(scores: np.ndarray, *, temperature: Any, noise: Any) -> int:
        best = np.argsort(scores, kind="stable")[::-1]
        return int(best[zlib.crc32(scores.astype(np.int64).tobytes()) % 3])

    monkeypatch.setattr(exponential, "sample", sample)


@pytest.fixture
def open_side(open_plain: Callable[..., Any]) -> Callable[[Any], Any]:
    def make(plan: Any) -> Any:
        permit = open_plain(plan)
        permit.side_by_side = True
        permit.noise = SecureNoise()
        return permit

    return make


def _records() -> list[Record]:
    return [Record(f"r{n}", f"the wind number {n}", LABELS[n % len(LABELS)]) for n in range(SIZE)]


def _plan(generator: Any, config: Any) -> Any:
    return generator.plan(config, relation="zero-out", size=SIZE)


def _run(generator: Any, config: Any, permit: Any, model: Any) -> Any:
    generator.check(config, model, public=())
    return generator.run(permit, config, _records(), model, size=SIZE)


def _without_noise(trace: Any) -> list[dict[str, Any]]:
    return [{name: value for name, value in line.items() if name not in {"noise_sha256", "members"}} for line in trace]


@pytest.fixture(params=[ProcessLink, RayLink], ids=["processes", "ray"])
def pooled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[PooledModel]:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    model = PooledModel(ToyModel(), load=LOAD, workers=2, link=request.param)
    yield model
    for worker in model._workers:
        if worker._link is not None:
            worker._link.end()


@pytest.fixture(scope="module", autouse=True)
def _no_cluster_stays() -> Iterator[None]:
    yield
    import ray

    ray.shutdown()


@BOTH
def test_the_texts_are_those_of_one_after_another(
    generator: Any, config: Any, open_plain: Callable[..., Any], open_side: Callable[[Any], Any], pooled: PooledModel
) -> None:
    plan = _plan(generator, config)
    alone = _run(generator, config, open_plain(plan), ToyModel())
    for model in (FourPlaces(), pooled):
        permit = open_side(plan)
        together = _run(generator, config, permit, model)
        assert together.samples == alone.samples
        assert _without_noise(together.trace) == _without_noise(alone.trace)
        assert together.draws_per_node == alone.draws_per_node == permit.uses


def test_texts_really_are_written_side_by_side(
    open_side: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four come to their first token before any of them goes on; and no two draw at once."""
    config = GENERATORS[0][1]
    all_here, seen, drawing = threading.Barrier(4), set[int](), threading.Lock()
    scores, sample = prism.token_scores, exponential.sample

    def waiting(*given: Any) -> Any:
        if threading.get_ident() not in seen:
            seen.add(threading.get_ident())
            all_here.wait()
        return scores(*given)

    def alone(*given: Any, **named: Any) -> Any:
        assert drawing.acquire(blocking=False)
        try:
            return sample(*given, **named)
        finally:
            drawing.release()

    monkeypatch.setattr(prism, "token_scores", waiting)
    monkeypatch.setattr(exponential, "sample", alone)
    _run(prism, config, open_side(_plan(prism, config)), FourPlaces())
    assert len(seen) == 4


def test_a_seeded_run_keeps_to_one_order(open_plain: Callable[..., Any]) -> None:
    config = GENERATORS[0][1]
    runs = [_run(prism, config, open_plain(_plan(prism, config)), model) for model in (ToyModel(), FourPlaces())]
    assert runs[0].trace == runs[1].trace


@pytest.mark.parametrize("at", [0, 3, 11])
def test_a_killed_worker_changes_neither_the_charge_nor_the_draws(
    open_plain: Callable[..., Any],
    open_side: Callable[[Any], Any],
    pooled: PooledModel,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
) -> None:
    config = GENERATORS[0][1]
    plan = _plan(prism, config)
    alone = _run(prism, config, open_plain(plan), ToyModel())
    sample, draws = exponential.sample, []

    def killing(*given: Any, **named: Any) -> Any:
        if len(draws) == at:
            os.kill(pooled.pids[at % 2], signal.SIGKILL)
        draws.append(1)
        return sample(*given, **named)

    monkeypatch.setattr(exponential, "sample", killing)
    permit = open_side(plan)
    prism.check(config, pooled, public=())
    before = set(pooled.pids)
    together = prism.run(permit, config, _records(), pooled, size=SIZE)
    assert together.samples == alone.samples
    assert together.draws_per_node == alone.draws_per_node == permit.uses
    assert len(draws) == sum(permit.uses.values())
    assert set(pooled.pids) != before


def test_what_fails_in_one_text_ends_all_of_them(
    open_side: Callable[[Any], Any], pooled: PooledModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = GENERATORS[0][1]
    permit, scores = open_side(_plan(prism, config)), prism.token_scores

    def failing(config: Any, private: Any, public: Any) -> Any:
        if permit.uses.get("plan.parts[1].of"):
            private.append("no token")
        return scores(config, private, public)

    monkeypatch.setattr(prism, "token_scores", failing)
    with pytest.raises(AffidavitError, match="a worker met"):
        _run(prism, config, permit, pooled)
    assert sum(permit.uses.values()) < 6 * config.max_tokens
    assert threading.active_count() < 8


def test_parts_are_side_by_side_where_no_order_matters() -> None:
    one, other = Exponential(0.5), Exponential(0.25)
    assert order_free(Parallel((one, one)))
    assert order_free(Parallel((Gaussian(1.0), Gaussian(2.0))))
    assert not order_free(Parallel((one, other)))


class _Side(KeptPermit):
    side_by_side = True


def test_wherever_it_stops_no_step_is_drawn_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped by any of four threads at any kind of line; gone on with four at a time, or with one."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None, raising=False)
    config = GENERATORS[0][1]
    plan, places = _plan(prism, config), iter(range(10**6))

    def run(place: Path, stop: Stop | None, model: Any, *, resume: bool = False) -> Any:
        place.mkdir(exist_ok=True)
        if resume:
            journal = Journal.reopen(place / NAME, home=place, at="2026-01-01T00:00:00Z")
        else:
            journal = Journal.begin(place / NAME, home=place, header={"ledger_entry": secrets.token_hex(8)})

        def end() -> None:
            raise Died

        try:
            with stopping(stop, end), logging_draws(place / "log"):
                return _run(prism, config, _Side(plan, "zero-out", SecureNoise(), journal), model)
        except Died:
            return None
        finally:
            journal.close()

    whole_place = tmp_path / "whole"
    whole = run(whole_place, None, FourPlaces())
    allowed = {path: uses for path, _, uses in leaves(plan)}
    for number, stop in enumerate(moments(Past.read(whole_place / NAME), most=3)):
        place = tmp_path / str(next(places))
        assert run(place, stop, FourPlaces()) is None, stop
        finished = {text["part"]: text["sample"]["text"] for text in Past.read(place / NAME).texts}
        resumed = run(place, None, (FourPlaces(), ToyModel())[number % 2], resume=True)
        counted, after = drawn(place / "log"), Past.read(place / NAME)
        assert max(counted.values()) == 1, stop
        assert after.lost <= FourPlaces.together, stop
        for index, (sample, expected) in enumerate(zip(resumed.samples, whole.samples, strict=True)):
            path = f"plan.parts[{index}]"
            lost = any(line.get("lost") for line in resumed.trace if str(line.get("path", "")).startswith(path))
            assert lost or sample == expected, stop
            assert finished.get(path, sample.text) == sample.text, stop
        assert all(uses <= allowed[path] for path, uses in resumed.draws_per_node.items()), stop
        assert not check_trace(parse_trace(resumed.trace), plan, relation="zero-out").faults, stop
