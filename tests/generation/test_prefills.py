"""Kept rows go on as rows that were read anew, bit for bit, and what is drawn from them is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.release.randomness import SeededNoise
from affidavit.generation import prism
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.models.prefills import Prefills, keeping_prefills
from affidavit.generation.models.toy import ToyModel
from affidavit.trial import TrialPermit
from support import models as installed

pytestmark = pytest.mark.model
WIDTH, STEPS = 40, 5
BATCHES = ([0, 1, 2, 3], [2, 4, 0, 0], [5, 5, 5, 5], [3, 2, 1, 5])


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path / "cache"))
    return tmp_path


def _rows(vocabulary: int) -> list[list[int]]:
    noise = np.random.default_rng(7)
    return [noise.integers(3, vocabulary, size=length).tolist() for length in (40, 3, 17, 40, 29, 8)]


def _bits(decoding: Any) -> list[bytes]:
    """The logits at every step, another token appended to each row."""
    found = [decoding.logits.tobytes()]
    for step in range(1, STEPS):
        decoding.append([step, step + 1, step + 2, step])
        found.append(decoding.logits.tobytes())
    return found


def _decoded(model: Any) -> list[list[bytes]]:
    rows = _rows(model.vocabulary_size)
    return [_bits(model.start_apart([rows[i] for i in chosen], width=WIDTH, steps=STEPS)) for chosen in BATCHES]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", ["tiny", pytest.param("smollm2-135m", marks=pytest.mark.slow)])
def test_kept_rows_go_on_bit_for_bit(name: str, dtype: Any, cache: Path) -> None:
    if name == "tiny":
        model: Any = load_model(str(installed.tiny(cache / "llama", "llama")), dtype=dtype)
    else:
        model = installed.smollm2(dtype=dtype)
    expected = _decoded(model)
    with keeping_prefills(model) as kept:
        assert isinstance(kept, Prefills)
        assert _decoded(model) == expected
        assert (kept.asked, kept.computed) == (16, 6)
        assert _decoded(model) == expected
        assert (kept.asked, kept.computed) == (32, 6)
    assert _decoded(model) == expected
    assert kept.asked == 32, "nothing is kept after the end"


def test_a_small_memory_drops_rows_and_changes_nothing(cache: Path) -> None:
    model: Any = load_model(str(installed.tiny(cache / "llama", "llama")), dtype="float32")
    expected = _decoded(model)
    with keeping_prefills(model) as kept:
        kept.most_bytes = 1
        assert _decoded(model) == expected
        assert kept.computed == 4 + 3 + 1 + 4
        assert not kept._rows


def test_a_row_a_batch_is_not_kept(cache: Path) -> None:
    model: Any = load_model(str(installed.tiny(cache / "mixtral", "mixtral")), dtype="float32")
    expected = _decoded(model)
    with keeping_prefills(model) as kept:
        assert _decoded(model) == expected
        assert kept.asked == 0


def test_recorded_steps_go_on_from_kept_rows(cache: Path) -> None:
    """What an accelerator does, computed plainly."""
    from affidavit.generation.models.replayed import Steps
    from affidavit.generation.models.transformers_decoding import OnDeviceDecoding

    model: Any = load_model(str(installed.tiny(cache / "llama", "llama")), dtype="float32")
    rows = _rows(model.vocabulary_size)[:4]
    steps = Steps(model.forward, model.vocabulary_size)
    read = OnDeviceDecoding(model, rows, WIDTH)
    kept = read.read_rows(4)
    expected = _bits(read.replayed(steps))
    again = OnDeviceDecoding(model, rows[::-1], WIDTH, kept=kept[::-1])
    turned = [np.frombuffer(step, dtype=np.float32).reshape(4, -1) for step in expected]
    assert np.array_equal(again.logits, turned[0][::-1])
    assert _bits(OnDeviceDecoding(model, rows, WIDTH, kept=kept).replayed(steps)) == expected


def test_the_same_text_under_the_same_noise(cache: Path) -> None:
    """Sums, noise and draws are made anew: with one seed they come out alike, with another they do not."""
    model: Any = load_model(str(installed.tiny(cache / "llama", "llama")), dtype="float32")
    config = prism.PrismConfig(
        labels=["a"], batch_size=6, max_tokens=4, max_record_tokens=20, minibatch_rows=4, temperature=0.1,
        task="generic-completion",
    )  # fmt: skip
    records = [Record(f"id{i}", " ".join(f"word{(i * 31 + j) % 250}" for j in range(9)), "a") for i in range(8)]

    def texts() -> list[Any]:
        made = []
        for seed in range(6):
            plan = prism.plan(config, relation="zero-out", size=6)
            permit = TrialPermit(plan, "zero-out", SeededNoise(seed))
            done = prism.run(permit, config, records[seed % 3 :], model, size=6)
            made.append([sample.tokens for sample in done.samples])
        return made

    expected = texts()
    with keeping_prefills(model) as kept:
        assert texts() == expected
        assert kept is not None
        assert 0 < kept.computed < kept.asked
    assert len({str(each) for each in expected}) > 1


def test_a_model_that_cannot_keep_is_left_alone() -> None:
    with keeping_prefills(ToyModel()) as kept:
        assert kept is None
