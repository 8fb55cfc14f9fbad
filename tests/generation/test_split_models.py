"""A model whose layers are in several places computes what the whole one does, and its rows stay apart.

Half of the layers are kept on the disk and fetched for each step, by the hooks of accelerate that carry states from one
GPU to the next for ``AFFIDAVIT_DEVICE=cuda-split``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.transformers_model import TransformersModel, device_wanted
from support import models as installed

ROWS = [[5, 6, 7, 3], [4], [7, 7, 6]]
SHAPE = BatchShape(rows=3, width=16, steps=4)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny random Llama of four layers."""
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path / "cache"))
    torch = pytest.importorskip("torch", reason=f"torch is not installed: {installed.HOW}")
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({f"w{number}": number for number in range(8)}, unk_token="w2"))
    place = tmp_path / "tiny"
    PreTrainedTokenizerFast(tokenizer_object=words, bos_token="w0", eos_token="w1", unk_token="w2").save_pretrained(
        place
    )
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=8, hidden_size=16, intermediate_size=32, num_hidden_layers=4, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=200, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(place)
    return place


def _model(folder: Path, *, split: bool) -> TransformersModel:
    model = TransformersModel(folder, name="tiny", digest="0" * 64, dtype="float32")
    if split:
        from accelerate import dispatch_model

        whole: Any = model._model
        layers = {f"model.layers.{number}": "cpu" if number < 2 else "disk" for number in range(4)}
        others = dict.fromkeys(("model.embed_tokens", "model.norm", "model.rotary_emb", "lm_head"), "cpu")
        model._model = dispatch_model(whole, layers | others, main_device="cpu", offload_dir=folder / "offload")
        model.split = True
    return model


def _steps(model: TransformersModel) -> list[Any]:
    decoding = model.start_apart(ROWS, width=SHAPE.width, steps=SHAPE.steps)
    found = [decoding.logits.copy()]
    for token in (3, 4, 5):
        decoding.append([token] * len(ROWS))
        found.append(decoding.logits.copy())
    return found


@pytest.mark.model
def test_a_split_model_computes_what_the_whole_one_does(folder: Path) -> None:
    whole, split = _model(folder, split=False), _model(folder, split=True)
    assert any(parameter.device.type == "meta" for parameter in split._model.parameters()), "it was not split"
    split.keep_apart([SHAPE])
    assert "3 x 16 x 4" in split.versions["rows"]
    for one, other in zip(_steps(whole), _steps(split), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.model
def test_a_split_model_keeps_no_prefills(folder: Path) -> None:
    """A kept row's states are of one device."""
    for split in (False, True):
        model = _model(folder, split=split)
        with model.keeping_prefills():
            assert (model._prefills is None) == split
            first = _steps(model)
            assert all(np.array_equal(one, other) for one, other in zip(first, _steps(model), strict=True))
        assert model._prefills is None


def test_a_split_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFIDAVIT_DEVICE", "cuda-split")
    assert device_wanted() == "cuda-split"
