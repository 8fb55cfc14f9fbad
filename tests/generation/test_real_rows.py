"""Real models on a processor: rows that were shown to stay apart do, whatever the caller sets meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.generation.models import load_model
from affidavit.generation.models.rows import BatchShape
from support import models as installed

pytestmark = pytest.mark.model
SHAPE = BatchShape(6, 40, 4)


@pytest.fixture
def threads() -> Iterator[Any]:
    """torch's own setting, put back after a test that changes it."""
    torch = pytest.importorskip("torch", reason=f"torch is not installed: {installed.HOW}")
    before = torch.get_num_threads()
    yield torch
    torch.set_num_threads(before)


def _bits(model: Any, rows: list[list[int]], disturb: Any = lambda: None) -> list[list[bytes]]:
    """Each row's logits at every step, as bytes."""
    decoding = model.start_apart(rows, width=SHAPE.width, steps=SHAPE.steps)
    found = [[row.tobytes()] for row in decoding.logits]
    for step in range(1, SHAPE.steps):
        disturb()
        decoding.append([step] * len(rows))
        for steps, row in zip(found, decoding.logits, strict=True):
            steps.append(row.tobytes())
    return found


def _holds(model: Any, disturb: Any = lambda: None) -> None:
    """What the check promises, on other rows than those it tried."""
    noise = np.random.default_rng(11)
    rows = [noise.integers(3, model.vocabulary_size, size=length).tolist() for length in (40, 3, 17, 40, 29, 8)]
    before = _bits(model, rows, disturb)
    assert len({tuple(steps) for steps in before}) == len(rows)
    for changed in ([5] * 17, [5], list(range(3, 43))):
        after = _bits(model, [*rows[:2], changed, *rows[3:]], disturb)
        assert after[:2] + after[3:] == before[:2] + before[3:]
    assert _bits(model, rows[::-1], disturb) == before[::-1]
    assert _bits(model, rows, disturb) == before


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("count", [1, 2])
def test_smollm2s_rows_stay_apart_with_one_thread_and_two(dtype: str, count: int, threads: Any) -> None:
    model: Any = installed.smollm2(dtype=dtype)
    threads.set_num_threads(count)
    model.keep_apart([SHAPE])
    assert f"6 x 48 x 4 (rows x tokens x steps), {dtype} on " in model.versions["rows"]
    assert "thread" in model.versions["rows"]
    _holds(model)
    assert threads.get_num_threads() == count


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_dense_models_rows_stay_apart(
    dtype: Any, threads: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path / "cache"))
    model = load_model(str(installed.tiny(tmp_path / "llama", "llama")), dtype=dtype)
    for count in (1, 2, 4):
        threads.set_num_threads(count)
        _holds(model)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_mixture_of_experts_runs_a_row_a_batch(
    dtype: Any, threads: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path / "cache"))
    model: Any = load_model(str(installed.tiny(tmp_path / "mixtral", "mixtral")), dtype=dtype)
    threads.set_num_threads(2)
    model.keep_apart([SHAPE])
    assert model.versions["rows"].endswith("one row a batch")
    _holds(model)


def test_a_caller_who_sets_threads_meanwhile_changes_no_bit(threads: Any) -> None:
    """What was shown with one number of threads is computed with that number, whatever the process is set to."""
    model: Any = installed.smollm2(dtype="float32")
    threads.set_num_threads(1)
    rows = [[7 + place for place in range(length)] for length in (40, 3, 17, 40, 29, 8)]
    before = _bits(model, rows)

    def disturb() -> None:
        threads.set_num_threads(3 - threads.get_num_threads())

    assert _bits(model, rows, disturb) == before
