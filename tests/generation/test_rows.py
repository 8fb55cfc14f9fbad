"""Rows that stay apart: what the check sees, what is chosen where they do not, and what is remembered of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import AffidavitError, NotSupported, UsageError
from affidavit.generation.models import row_memory
from affidavit.generation.models.computing import Computing, candidates
from affidavit.generation.models.row_keeper import RowKeeper
from affidavit.generation.models.rows import BatchShape, OneByOne, RowEvidence, rows_stay_apart, summary
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.models.transformers_model import device_wanted

SHAPE = BatchShape(5, 16, 6)


class Rows:
    """Logits that are each row's own sum, and a fault that is added to them."""

    def __init__(self, rows: Sequence[Sequence[int]], width: int, fault: str, step: int = 0) -> None:
        self._rows = [list(row) for row in rows]
        self._width = width
        self._fault = fault
        self._from = step
        self._steps = 0

    @property
    def logits(self) -> np.ndarray:
        own = np.array([sum(row) % 1009 for row in self._rows], dtype=np.float32)
        return (own + (self._added() if self._steps >= self._from else 0.0))[:, None].astype(np.float32)

    def _added(self) -> np.ndarray | float:
        lengths = np.array([len(row) - self._steps for row in self._rows])
        return {
            "sound": lambda: 0.0,
            "sum": lambda: sum(map(sum, self._rows)) % 7,
            "place": lambda: np.arange(len(self._rows)),
            "all full": lambda: float((lengths == self._width).all()),
            "longest": lambda: float(lengths.max() == self._width and (lengths == self._width).sum() > 2),
            "not twice": lambda: float(np.random.default_rng().random()),
        }[self._fault]()

    def append(self, tokens: Sequence[int]) -> None:
        self._steps += 1
        for row, token in zip(self._rows, tokens, strict=True):
            row.append(token)


@pytest.mark.parametrize("shape", [SHAPE, BatchShape(1, 4, 3), BatchShape(2, 1, 1), BatchShape(32, 48, 2)])
def test_rows_by_themselves_pass_and_so_do_the_toy_models(shape: BatchShape) -> None:
    assert rows_stay_apart(lambda rows, width: Rows(rows, width, "sound"), shape, vocabulary=500)
    toy = ToyModel()
    assert rows_stay_apart(lambda rows, width: toy.start(rows, width=width), shape, vocabulary=toy.vocabulary_size)


@pytest.mark.parametrize("fault", ["sum", "place", "all full", "longest", "not twice"])
def test_each_way_to_mix_rows_is_seen(fault: str) -> None:
    assert not rows_stay_apart(lambda rows, width: Rows(rows, width, fault), SHAPE, vocabulary=500)


@pytest.mark.parametrize("fault", ["sum", "place", "not twice"])
def test_a_fault_that_begins_at_the_last_step_is_seen(fault: str) -> None:
    last = SHAPE.steps - 1
    assert not rows_stay_apart(lambda rows, width: Rows(rows, width, fault, last), SHAPE, vocabulary=500)
    assert rows_stay_apart(lambda rows, width: Rows(rows, width, fault, last + 1), SHAPE, vocabulary=500)


def test_one_row_that_does_not_repeat_itself_is_seen() -> None:
    shape = BatchShape(1, 16, 6)
    assert not rows_stay_apart(lambda rows, width: Rows(rows, width, "not twice"), shape, vocabulary=500)


class Torch(SimpleNamespace):
    """As much of torch as decides how rows are computed."""

    def __init__(self, threads: int = 8) -> None:
        super().__init__(
            threads=threads,
            version=SimpleNamespace(cuda=None),
            repeats=False,
            get_float32_matmul_precision=lambda: "highest",
            is_autocast_enabled=lambda _: False,
            are_deterministic_algorithms_enabled=lambda: self.repeats,
            is_deterministic_algorithms_warn_only_enabled=lambda: False,
        )
        self.backends = SimpleNamespace(
            cudnn=SimpleNamespace(version=lambda: None),
            cpu=SimpleNamespace(get_cpu_capability=lambda: "AVX2"),
            mkldnn=SimpleNamespace(enabled=True),
            cuda=SimpleNamespace(cudnn_sdp_enabled=lambda: True, enable_cudnn_sdp=lambda _: None),
        )

    def get_num_threads(self) -> int:
        return int(self.threads)

    def set_num_threads(self, threads: int) -> None:
        self.threads = threads

    def use_deterministic_algorithms(self, mode: bool, *, warn_only: bool = False) -> None:  # noqa: ARG002
        self.repeats = mode


class Bench:
    """A keeper over ``Rows`` that are sound in the ways that ``sound`` accepts; it counts what is started."""

    def __init__(self, sound: Any, *, torch: Torch | None = None, device: str = "cpu", coupled: bool = False) -> None:
        self.torch, self.sound, self.started = torch or Torch(), sound, 0
        self.keeper = RowKeeper(
            self.torch, self.start, name="a model", device=device, place=f"float32 on a {device}", vocabulary=500,
            coupled=coupled, facts={"weights": "digest"},
        )  # fmt: skip

    def start(self, rows: Sequence[Sequence[int]], width: int, way: Computing) -> Any:
        self.started += 1
        fault = "sound" if self.sound(way) else "sum"
        if way.alone:
            return OneByOne([Rows([row], width, "sound" if self.sound(way) else "not twice") for row in rows])
        return Rows(rows, width, fault)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path))
    return tmp_path / "rows"


@pytest.mark.parametrize(
    ("sound", "said"),
    [
        (lambda _: True, "8 threads"),
        (lambda way: way.threads == 1, "1 thread"),
        (lambda way: way.alone, "8 threads, one row a batch"),
        (lambda way: way.alone and way.threads == 1, "1 thread, one row a batch"),
    ],
)
def test_a_processor_takes_the_first_way_that_keeps_rows_apart(sound: Any, said: str) -> None:
    assert Bench(sound).keeper.evidence(SHAPE) == RowEvidence(SHAPE, f"float32 on a cpu, {said}")


def test_a_gpu_takes_repeatable_kernels_where_it_needs_them() -> None:
    evidence = Bench(lambda way: way.deterministic, device="cuda").keeper.evidence(SHAPE)
    assert evidence.computed == "float32 on a cuda, 8 threads, deterministic kernels"


def test_rows_that_share_experts_are_never_in_one_batch() -> None:
    ways = list(candidates(device="cpu", threads=4, coupled=True))
    assert ways
    assert all(way.alone for way in ways)
    assert "one row a batch" in Bench(lambda _: True, coupled=True).keeper.evidence(SHAPE).computed


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_mixes_rows_all_the_same_is_refused_and_not_remembered(device: str, cache: Path) -> None:
    bench = Bench(lambda _: False, device=device)
    with pytest.raises(NotSupported, match=f"on a {device} a row of a model depends on the other rows") as refusal:
        bench.keeper.evidence(SHAPE)
    assert ("unset AFFIDAVIT_DEVICE" in refusal.value.hint) == (device == "cuda")
    assert not cache.exists()


def test_the_same_shape_on_the_same_machine_is_tried_once() -> None:
    first = Bench(lambda way: way.threads == 1)
    found = first.keeper.way(SHAPE)
    tried = first.started
    assert first.keeper.way(BatchShape(SHAPE.rows, SHAPE.width, SHAPE.steps - 1)) == found
    assert first.started == tried
    again = Bench(lambda _: False)
    assert again.keeper.way(SHAPE) == found
    assert again.started == 0


@pytest.mark.parametrize(
    "change", ["steps", "rows", "width", "threads", "weights", "environment", "precision", "damaged", "negative"]
)
def test_anything_that_may_matter_is_tried_anew(change: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Bench(lambda _: True).keeper.way(SHAPE)
    (file,) = cache.iterdir()
    again = Bench(lambda _: True)
    shape = SHAPE
    if change in ("steps", "rows", "width"):
        shape = BatchShape(**{name: getattr(SHAPE, name) + (name == change) for name in ("rows", "width", "steps")})
    elif change == "threads":
        again.torch.threads = 4
    elif change == "weights":
        again.keeper._facts["weights"] = "another"
    elif change == "environment":
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    elif change == "precision":
        again.torch.get_float32_matmul_precision = lambda: "medium"
    elif change == "damaged":
        file.write_text("{")
    else:
        file.write_text(file.read_text().replace('"threads": 8,\n  "det', '"threads": -8,\n  "det'))
    again.keeper.way(shape)
    assert again.started > 0


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path / "file"))
    assert Bench(lambda _: True).keeper.way(SHAPE) == Computing(8)


def test_threads_are_set_where_rows_are_computed_and_put_back() -> None:
    torch = Torch(threads=8)
    with Computing(1).in_force(torch):
        assert torch.threads == 1
    assert torch.threads == 8
    with pytest.raises(AffidavitError, match="threads was changed"), Computing(1).in_force(torch):
        torch.set_num_threads(3)
    assert torch.threads == 8
    with pytest.raises(ZeroDivisionError), Computing(2).in_force(torch):
        raise ZeroDivisionError
    assert torch.threads == 8


def test_repeatable_kernels_are_in_force_and_put_back() -> None:
    torch = Torch()
    with Computing(8, deterministic=True).in_force(torch):
        assert torch.repeats
    assert not torch.repeats


def test_a_receipt_says_shapes_and_place_once() -> None:
    here, there = "float32 on a cpu, 1 thread", "float32 on a cpu, 8 threads"
    found = [RowEvidence(SHAPE, here), RowEvidence(SHAPE, here), RowEvidence(BatchShape(5, 32, 6), there)]
    assert summary(found) == (
        "apart bit for bit in 5 x 16 x 6 (rows x tokens x steps), float32 on a cpu, 1 thread; "
        "apart bit for bit in 5 x 32 x 6 (rows x tokens x steps), float32 on a cpu, 8 threads"
    )


def test_the_processor_has_a_name() -> None:
    assert row_memory.processor()


def test_the_processor_is_used_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AFFIDAVIT_DEVICE", raising=False)
    assert device_wanted() == "cpu"
    monkeypatch.setenv("AFFIDAVIT_DEVICE", "cuda")
    assert device_wanted() == "cuda"
    monkeypatch.setenv("AFFIDAVIT_DEVICE", "abacus")
    with pytest.raises(UsageError, match="AFFIDAVIT_DEVICE"):
        device_wanted()
