"""Model folders: a tiny random model in one, what it refuses, and what is said of a folder that cannot be loaded."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cases_grids import _icl as measured
from remedy_cases import Api, Case, Place

from affidavit.generation import few_shot
from affidavit.generation.icl.examples import load_examples
from affidavit.generation.icl.structured import load_schema
from affidavit.generation.icl.tasks import task
from affidavit.generation.models import load_model

WORDS = ["<s>", "</s>", "<unk>", "the", "cat", "sat", "on", "mat"]
FEW_SHOT = few_shot.FewShotConfig(labels=("north",), subsets=2, noise_multiplier=1.0)


def _save(folder: Path) -> None:
    """A tiny random Llama with a word tokenizer."""
    torch = pytest.importorskip("torch", reason="torch is not installed: `make test` installs it")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    special: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=raw, **special).save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=200, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)


@cache
def _tiny() -> Any:
    with tempfile.TemporaryDirectory() as place:
        _save(Path(place) / "tiny")
        return load_model("tiny", base=Path(place), dtype="float32")


def _loaded(*, damaged: str) -> object:
    """The folder as it was saved, or with one of its files replaced."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "tiny"
        _save(folder)
        if damaged:
            (folder / damaged).write_text("nothing that can be read", encoding="utf-8")
        return load_model("tiny", base=Path(place), dtype="float32")


def _no_accelerator(place: Place) -> None:
    """A machine without one, a folder, and the wish to use one."""
    torch = pytest.importorskip("torch", reason="torch is not installed: `make test` installs it")
    measured("-").arrange(place)
    place.write("a-folder/config.json", json.dumps({"model_type": "llama"}))
    place.write("a-folder/model.safetensors", "not weights")
    place.monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    place.monkeypatch.setenv("AFFIDAVIT_DEVICE", "cuda")


def _file(name: str, content: str, read: Callable[[Path], object]) -> Callable[..., object]:
    """Reads a file beside the one that is there."""

    def call(*, path: str) -> object:
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / name).write_text(content, encoding="utf-8")
            return read(Path(place) / path)

    return call


def _planned(*, noise_multiplier: float | None = None) -> object:
    config = FEW_SHOT.model_copy(update={"noise_multiplier": noise_multiplier})
    return few_shot.plan(config, relation="zero-out", size=24)


CASES = [
    Case(
        "generation/models/transformers_model.py:_accelerator",
        "icl test.jsonl --task ag-news --model a-folder",
        _no_accelerator,
        past=True,
    ),
]

API = [
    Api("generation/few_shot.py:_step", _planned),
    Api(
        "generation/icl/examples.py:_objects",
        _file("test.jsonl", '{"text": "a", "label": "World"}', lambda path: load_examples(path, task("ag-news"))),
        {"path": "tests.jsonl"},
        {"path": "test.jsonl"},
    ),
    Api(
        "generation/icl/structured.py:load_schema",
        _file("schema.json", '{"type": "object"}', load_schema),
        {"path": "schemas.json"},
        {"path": "schema.json"},
    ),
    *(
        Api("generation/models/transformers_model.py:__init__", _loaded, {"damaged": name}, {"damaged": ""})
        for name in ("config.json", "tokenizer.json", "model.safetensors")
    ),
    Api(
        "generation/models/transformers_model.py:_check_rows",
        lambda *, width: _tiny().start([[3, 4, 5]], width=width),
        {"width": 2},
        {"width": 3},
    ),
    Api(
        "generation/models/transformers_model.py:_scored",
        lambda *, continuations: _tiny().log_likelihoods(["the cat"], continuations),
        {"continuations": []},
        {"continuations": ["sat"]},
    ),
    Api(
        "generation/models/transformers_model.py:_scored#2",
        lambda *, prompt: _tiny().log_likelihoods([prompt], ["sat"]),
        {"prompt": ""},
        {"prompt": "the cat"},
    ),
    Api(
        "generation/models/transformers_model.py:choice_log_likelihoods",
        lambda *, choices: _tiny().choice_log_likelihoods(["the cat"], choices),
        {"choices": ["sat", ""]},
        {"choices": ["sat", "on"]},
    ),
]
