"""However rows are split over workers and minibatches, the sum is that of one process: the same integers, bit for bit.

Also where workers hold their rows on a device (torch on the processor stands for it), where rows are not finite, and
where a worker dies between two questions.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from affidavit.accountant.errors import AffidavitError
from affidavit.generation.aggregate import GRID, Added, Clipped, Measure, brought, picked
from affidavit.generation.batches import PrivateRows
from affidavit.generation.invisible_ink import Difference
from affidavit.generation.models import process_link
from affidavit.generation.models.member import Member
from affidavit.generation.models.pooled import _Away
from affidavit.generation.models.process_link import ProcessLink
from affidavit.generation.models.worker import ANSWERED, Worker

VOCABULARY = 9
ODD = [np.nan, np.inf, -np.inf, -0.0, 3.0e38, 1e-40]
VALUES = st.one_of(st.floats(-80.0, 80.0, width=32), st.sampled_from(ODD).map(lambda value: float(np.float32(value))))
LOGITS = arrays.arrays(np.float32, st.tuples(st.integers(1, 14), st.just(VOCABULARY)), elements=VALUES)


class _Standing:
    """Rows whose logits stand: the row that holds the number i has those of place i."""

    def __init__(self, logits: np.ndarray, rows: Sequence[Sequence[int]], *, on_device: bool) -> None:
        self.logits = logits[[row[0] for row in rows]]
        if on_device:
            torch = pytest.importorskip("torch")
            self.device_logits = torch.from_numpy(self.logits)

    def append(self, tokens: Sequence[int]) -> None:
        """Nothing."""


class _Model:
    vocabulary_size = VOCABULARY

    def __init__(self, logits: np.ndarray, *, on_device: bool) -> None:
        self._logits, self._on_device = logits, on_device

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> _Standing:
        assert width
        return _Standing(self._logits, rows, on_device=self._on_device)

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> _Standing:
        assert steps
        return self.start(rows, width=width)


class _Here:
    """A link to a worker of this process."""

    def __init__(self, model: _Model) -> None:
        self.pid, self.alive = 1, True
        self._worker = Worker.__new__(Worker)  # its making silences the process
        self._worker._model, self._worker._begun, self._worker._fault = model, {}, None
        self._answers: deque[Any] = deque()

    def send(self, message: tuple[Any, ...]) -> None:
        if not self.alive:
            raise EOFError
        answer = self._worker.answer(*message)
        if message[0] in ANSWERED:
            self._answers.append(answer)

    def receive(self) -> Any:
        if not self.alive:
            raise EOFError
        return self._answers.popleft()

    def end(self) -> None:
        self.alive = False


def _measures(logits: np.ndarray, clip: float) -> list[Measure]:
    return [Clipped(clip), Difference(clip, np.linspace(-3.0, 4.0, logits.shape[1], dtype=np.float32))]


@given(logits=LOGITS, clip=st.sampled_from([0.3, 10.0, 1000.0]), on_device=st.booleans(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_split_gives_the_sum_of_one_process(
    logits: np.ndarray, clip: float, on_device: bool, data: st.DataObject
) -> None:
    model = _Model(logits, on_device=on_device)
    workers = [Member(lambda: _Here(model)) for _ in range(data.draw(st.integers(1, 3), "workers"))]
    parts, at = [], 0
    while at < len(logits):
        realised = data.draw(st.integers(1, len(logits) - at), "realised")
        dummies = data.draw(st.integers(0, 2), "dummies")
        rows = [[number] for number in range(at, at + realised)] + [[0]] * dummies
        worker = data.draw(st.sampled_from(workers), "worker")
        parts.append((_Away(worker, rows, 1, 1), realised))
        at += realised
    batch_size = data.draw(st.integers(1, 14), "batch size")
    for measure in _measures(logits, clip):
        one = PrivateRows.holding(
            [(_Standing(logits, [[n] for n in range(len(logits))], on_device=False), len(logits))]
        )
        whole = one.total(measure, vocabulary=VOCABULARY, batch_size=batch_size, clip=clip)
        if data.draw(st.booleans(), "killed"):
            data.draw(st.sampled_from(parts), "whose worker")[0]._worker._link.end()  # type: ignore[union-attr]
        rows_away = PrivateRows.holding(parts)
        total = rows_away.total(measure, vocabulary=VOCABULARY, batch_size=batch_size, clip=clip)
        assert isinstance(total, np.ndarray)
        assert total.dtype == np.int64
        assert np.array_equal(total, brought(whole))
        assert (rows_away.summed, rows_away.unsound) == (one.summed, one.unsound)


def test_what_comes_back_is_one_vector_as_short_as_it_can_be() -> None:
    model = _Model(np.zeros((4, VOCABULARY), dtype=np.float32), on_device=False)
    for clip, dtype in ((1.0, np.int32), (511.5, np.int32), (512.0, np.int64)):
        worker = Member(lambda: _Here(model))
        parts = [(_Away(worker, [[0], [1]], 1, 1), 2), (_Away(worker, [[2], [3]], 1, 1), 1)]
        added = parts[0][0].adding(parts, Clipped(clip))()
        assert isinstance(added, Added)
        assert (added.total.dtype, added.total.shape, added.rows) == (dtype, (VOCABULARY,), 3)
        assert added.total.tolist() == [round(3 * clip * GRID)] * VOCABULARY


def test_of_picked_logits_no_others_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = np.arange(3 * VOCABULARY, dtype=np.float32).reshape(3, VOCABULARY)
    away = _Away(Member(lambda: _Here(_Model(logits, on_device=False))), [[0], [1], [2]], 1, 1)
    received = []
    receive = _Here.receive
    monkeypatch.setattr(_Here, "receive", lambda self: received.append(receive(self)) or received[-1])
    tokens = np.array([1, 7])
    assert np.array_equal(picked(away, tokens, rows=2), logits[:2, tokens])
    assert [answer[1].shape for answer in received] == [(2, 2)]


def test_an_unsound_public_row_is_refused_elsewhere_too() -> None:
    logits = np.full((1, VOCABULARY), np.nan, dtype=np.float32)
    away = _Away(Member(lambda: _Here(_Model(logits, on_device=False))), [[0]], 1, None)
    with pytest.raises(AffidavitError, match="public prompt are not finite"):
        Clipped(1.0).row(away)


@pytest.mark.parametrize(("seen", "taken"), [(("2", "5"), ["2", "5", "2"]), ((), ["", "", ""])])
def test_workers_take_the_gpus_in_turn(
    monkeypatch: pytest.MonkeyPatch, seen: tuple[str, ...], taken: list[str]
) -> None:
    started: list[str] = []

    class Process:
        def __init__(self, *, target: Any, args: tuple[Any, ...], daemon: bool) -> None:
            assert target is process_link._work
            assert daemon
            started.append(args[3])

        def start(self) -> None:
            """Nothing."""

    pipes = SimpleNamespace(close=lambda: None)
    context = SimpleNamespace(Pipe=lambda: (pipes, pipes), Process=Process)
    monkeypatch.setattr(process_link, "accelerators", lambda: seen)
    monkeypatch.setattr(process_link.multiprocessing, "get_context", lambda _: context)
    for number in range(3):
        ProcessLink({"name": "toy"}, 3, number)
    assert started == taken


def test_a_worker_sees_its_own_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    monkeypatch.setenv("AFFIDAVIT_WORKERS", "2")
    Worker({"name": "toy"}, 2, "1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
    assert "AFFIDAVIT_WORKERS" not in os.environ
    Worker({"name": "toy"}, 2)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"
