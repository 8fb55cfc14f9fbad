"""The step that an accelerator replays, computed plainly on the processor: the same function of a row."""

from __future__ import annotations

import gc
import inspect
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from affidavit.generation.models.cache import roomy_cache  # noqa: E402
from affidavit.generation.models.replayed import Replayed, Steps, replayable  # noqa: E402

VOCABULARY, WIDTH = 97, 12


class Tiny:
    """A random Llama of two layers, with fewer key-value heads than heads."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.config = transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
        )
        self.model = transformers.LlamaForCausalLM(self.config).eval()
        names = inspect.signature(type(self.model).forward).parameters
        self.argument = "cache" if "cache" in names else "past_key_values"
        self.steps = Steps(self.forward, VOCABULARY)

    def forward(self, ids: Any, mask: Any, positions: Any, *, cache: object, keep: int) -> Any:
        found = self.model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            logits_to_keep=keep,
            use_cache=cache is not None,
            **{self.argument: cache},
        )
        return found.logits

    def padded(self, rows: list[list[int]], width: int) -> tuple[Any, Any, Any]:
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        for index, row in enumerate(rows):
            ids[index, width - len(row) :] = torch.tensor(row)
            mask[index, width - len(row) :] = 1
        return ids, mask, (mask.cumsum(dim=1) - 1).clamp_min(0)

    def start(self, rows: list[list[int]], *, spoil: bool = False) -> Replayed:
        cache = roomy_cache()
        ids, mask, positions = self.padded(rows, WIDTH + 1)
        with torch.inference_mode():
            logits = self.forward(ids, mask, positions, cache=cache, keep=1)[:, -1].float()
            if spoil:
                cache.layers[0].keys[0] = torch.nan
                cache.layers[1].values[0] = torch.inf
        return Replayed(self.steps, cache, mask=mask, after=positions[:, -1:] + 1, logits=logits)

    def anew(self, rows: list[list[int]]) -> np.ndarray:
        width = max(map(len, rows)) + 1
        ids, mask, positions = self.padded(rows, width)
        with torch.inference_mode():
            return self.forward(ids, mask, positions, cache=None, keep=1)[:, -1].float().numpy()


@pytest.fixture(scope="module")
def tiny() -> Tiny:
    return Tiny()


def _rows(count: int = 4) -> list[list[int]]:
    return [[(5 * row + 3 * place + 1) % VOCABULARY for place in range(4 + 2 * row)] for row in range(count)]


def test_a_replayed_step_is_the_models_own(tiny: Tiny) -> None:
    rows, decoding = _rows(), tiny.start(_rows())
    for step in range(6):
        assert np.abs(decoding.logits - tiny.anew(rows)).max() < 1e-5
        tokens = [(7 * step + row) % VOCABULARY for row in range(len(rows))]
        decoding.append(tokens)
        rows = [[*row, token] for row, token in zip(rows, tokens, strict=True)]


def test_a_text_goes_on_beyond_the_room_of_its_first_step(tiny: Tiny) -> None:
    rows, decoding = _rows(2), tiny.start(_rows(2))
    first = decoding._step.length
    for step in range(first - WIDTH + 3):
        decoding.append([step % VOCABULARY] * 2)
        rows = [[*row, step % VOCABULARY] for row in rows]
    assert decoding._step.length > first
    assert np.abs(decoding.logits - tiny.anew(rows)).max() < 1e-5


def test_no_row_moves_another_by_one_bit(tiny: Tiny) -> None:
    plain, changed = tiny.start(_rows()), tiny.start([*_rows()[:-1], [8, 9]])
    moved = tiny.start([*_rows()[1:], _rows()[0]])
    for step in range(4):
        assert np.array_equal(plain.logits[:-1], changed.logits[:-1])
        assert np.array_equal(plain.logits[1:], moved.logits[:-1])
        for decoding in (plain, changed, moved):
            decoding.append([step] * 4)


def test_a_step_that_is_used_again_remembers_nothing(tiny: Tiny) -> None:
    """Not even what is not a number, which a mask alone would let through: 0 x NaN is NaN."""
    fresh = Tiny()
    expected = fresh.start(_rows())
    spoilt = tiny.start(_rows(), spoil=True)
    used = spoilt._step
    for step in range(20):
        spoilt.append([step] * 4)
    assert np.isnan(spoilt.logits[0]).all()
    assert not np.isnan(spoilt.logits[1:]).any()
    del spoilt
    gc.collect()
    again = tiny.start(_rows())
    others = [tiny.start(_rows()) for _ in range(3)]
    assert used in [one._step for one in (again, *others)]
    for decoding in (again, *others):
        decoding.append([1, 2, 3, 4])
    expected.append([1, 2, 3, 4])
    for decoding in (again, *others):
        assert np.array_equal(decoding.logits, expected.logits)


def test_idle_steps_are_few() -> None:
    tiny = Tiny()
    held = [tiny.start(_rows(1)) for _ in range(20)]
    del held
    gc.collect()
    assert len(tiny.steps._idle) == 16


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"layer_types": ["full_attention"] * 2}, True),
        ({"layer_types": ["full_attention", "sliding_attention"]}, False),
        ({"sliding_window": 64}, False),
        ({"sliding_window": 64, "use_sliding_window": False}, True),
        ({"sliding_window": None}, True),
    ],
)
def test_only_layers_that_attend_to_everything_are_replayed(settings: dict[str, object], expected: bool) -> None:
    from types import SimpleNamespace

    assert replayable(SimpleNamespace(**settings)) is expected
