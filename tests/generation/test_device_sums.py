"""Where a model computes on a device, the same integers are made there: bit for bit, given the same logits.

torch on the processor stands for the device here: the operations are single IEEE 754 operations on either.
``benchmarks/bench_device.py`` makes the same comparison on a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from affidavit.generation import invisible_ink, prism
from affidavit.generation.aggregate import Clipped, OnDevice, brought, clip_to_grid, picked
from affidavit.generation.batches import PrivateRows
from affidavit.generation.models.base import Decoding
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.prism import PrismConfig, label_rows

torch = pytest.importorskip("torch")
device_sums = pytest.importorskip("affidavit.generation.device_sums")

ODD = [np.nan, np.inf, -np.inf, -0.0, 3.0e38, 1e-40]
VALUES = st.one_of(st.floats(-80.0, 80.0, width=32), st.sampled_from(ODD).map(lambda value: float(np.float32(value))))
ROWS = arrays.arrays(np.float32, (5, 9), elements=VALUES)
CLIPS = st.sampled_from([0.3, 1.0, 10.0, 1000.0])


@given(ROWS, CLIPS)
@settings(max_examples=300, deadline=None)
def test_clipped_rows_are_the_same_integers(logits: np.ndarray, clip: float) -> None:
    grid, sound = clip_to_grid(logits, clip=clip)
    found, right = device_sums.clip_to_grid(torch.from_numpy(logits), clip=clip)
    assert np.array_equal(right.numpy(), sound)
    assert found.dtype == torch.int32
    assert np.array_equal(found.numpy(), grid)


@given(ROWS, arrays.arrays(np.float32, 9, elements=st.floats(-80.0, 80.0, width=32)), CLIPS)
@settings(max_examples=300, deadline=None)
def test_clipped_differences_are_the_same_integers(logits: np.ndarray, public: np.ndarray, clip: float) -> None:
    clip = min(clip, 100.0)
    grid, sound = invisible_ink.clip_difference(logits, public, clip=clip)
    found, right = device_sums.clip_difference(torch.from_numpy(logits), torch.from_numpy(public), clip=clip)
    assert np.array_equal(right.numpy(), sound)
    assert np.array_equal(found.numpy(), grid)


def test_halves_are_rounded_to_even_on_both() -> None:
    row = np.array([[0.0, -0.5, -1.5, -2.5, -3.5]], dtype=np.float32) / np.float32(1 << 20)
    grid, _ = clip_to_grid(row, clip=2.0**-19)
    assert grid.tolist() == [[2, 2, 0, 0, -2]]
    assert device_sums.clip_to_grid(torch.from_numpy(row), clip=2.0**-19)[0].tolist() == grid.tolist()


class _Held:
    """A decoding whose logits are a tensor."""

    def __init__(self, decoding: Decoding) -> None:
        self._decoding = decoding

    @property
    def logits(self) -> np.ndarray:
        raise AssertionError("rows were brought to the processor")

    @property
    def device_logits(self) -> torch.Tensor:
        return torch.from_numpy(self._decoding.logits)

    def append(self, tokens: Sequence[int]) -> None:
        self._decoding.append(tokens)


class _DeviceToy(ToyModel):
    """The toy model, its logits on a device; ``broken`` rows of every minibatch are not finite."""

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        return _Held(super().start(rows, width=width))


CONFIG = PrismConfig(labels=["World"], batch_size=4, minibatch_rows=3, max_record_tokens=20, clip=2.0)
TEXTS = ["The wind is cold.", "Rain fell on the harbour all day.", "Snow.", "A storm came from the north, they said."]


@pytest.mark.parametrize("held", [0, 1, 3, 4])
def test_a_batch_gives_the_same_scores_wherever_its_rows_are(held: int) -> None:
    """Also of no rows, and of more rows than a minibatch holds."""
    found = []
    for model in (ToyModel(), _DeviceToy()):
        rows = label_rows(CONFIG, model)["World"]
        private = PrivateRows(model, rows, TEXTS[:held], minibatch_rows=CONFIG.minibatch_rows, max_tokens=2)
        public = model.start([rows.public], width=len(rows.public))
        assert isinstance(public, OnDevice) == isinstance(model, _DeviceToy)
        for token in (5, 6):
            private.append(token)
            public.append([token])
        found.append((prism.token_scores(CONFIG, private, public), private.summed, private.unsound))
    (here, *counts), (there, *others) = found
    assert np.array_equal(here, there)
    assert here.dtype == there.dtype == np.int64
    assert counts == others == [held, 0]


def test_differences_and_picked_logits_are_the_same_wherever_the_rows_are() -> None:
    sums, rows = [], []
    for model in (ToyModel(), _DeviceToy()):
        prompts = label_rows(CONFIG, model)["World"]
        private = PrivateRows(model, prompts, TEXTS, minibatch_rows=3, max_tokens=2)
        own = ToyModel().start([prompts.public], width=len(prompts.public)).logits[0]
        measure = invisible_ink.Difference(1.0, own)
        sums.append(brought(private.total(measure, vocabulary=own.size, batch_size=4, clip=1.0)))
        chosen = np.array([1, 4, 9])
        rows.append([picked(part, chosen, rows=count) for part, count in private.decodings])
    assert np.array_equal(*sums)
    assert sums[0].any()
    for one, other in zip(*rows, strict=True):
        assert np.array_equal(one, other)


def test_unsound_rows_on_a_device_contribute_nothing_and_are_counted() -> None:
    logits = np.zeros((3, 6), dtype=np.float32)
    logits[1, 2] = np.nan
    logits[2, 0] = 1.0
    rows: PrivateRows = PrivateRows.__new__(PrivateRows)
    rows._parts = [(_Held(SimpleLogits(logits)), 3)]  # type: ignore[arg-type, list-item]
    total = brought(rows.total(Clipped(1.0), vocabulary=6, batch_size=1, clip=1.0))
    expected = clip_to_grid(logits[[0, 2]], clip=1.0)[0].sum(axis=0)
    assert np.array_equal(total, expected.clip(-(1 << 20), 1 << 20))
    assert (rows.summed, rows.unsound) == (3, 1)


class SimpleLogits:
    """Logits that stand."""

    def __init__(self, logits: np.ndarray) -> None:
        self.logits = logits

    def append(self, tokens: Sequence[int]) -> None:
        """Nothing."""
