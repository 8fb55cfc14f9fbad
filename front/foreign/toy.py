"""Models that answer at once, in place of those that somebody's generator would load or ask.

A check of how a generator draws needs no model that can write: any will do whose answers follow from the prompt.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from affidavit.accountant.extras import require

__all__ = ["ToyOpenAI", "tiny_llama", "toy_logprobs"]

_WORDS = 200
_SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def toy_logprobs(prompt: str, count: int = 100) -> dict[str, float]:
    """The ``count`` likeliest of 200 next words after ``prompt``, with their natural log-probabilities.

    The same for the same prompt; which words are likely depends on its last line, how likely on all of it.
    """
    last = prompt.rpartition("\n")[2]
    weights = {f" w{n}": 3.0 * _unit(last, n) + 2.0 * _unit(prompt, n) for n in range(_WORDS)}
    total = math.log(sum(math.exp(weight) for weight in weights.values()))
    likeliest = sorted(weights, key=lambda word: -(3.0 * _unit(last, int(word[2:]))))[:count]
    return {word: weights[word] - total for word in likeliest}


class ToyOpenAI:
    """Stands for ``openai.OpenAI``: ``completions.create`` and ``chat.completions.create``, by ``toy_logprobs``."""

    def __init__(self, **_: Any) -> None:
        self.completions = SimpleNamespace(create=self._complete)
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self._chat))

    def _complete(self, *, prompt: str, logprobs: int | None = None, **_: Any) -> Any:
        found = toy_logprobs(prompt, min(logprobs or 1, _WORDS))
        text = max(found, key=lambda word: found[word])
        choice = SimpleNamespace(text=text, logprobs=SimpleNamespace(top_logprobs=[found]))
        return SimpleNamespace(choices=[choice])

    def _chat(self, *, messages: list[dict[str, str]], **_: Any) -> Any:
        found = toy_logprobs(messages[-1]["content"], 1)
        return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=next(iter(found))))])


def tiny_llama(folder: Path | str) -> str:
    """Write a Llama of a few random weights, with a tokenizer of bytes and a chat template; returns the folder.

    ``AutoModelForCausalLM`` and ``AutoTokenizer`` load it. Needs the extra ``llm``.
    """
    require("llm", "torch", "transformers", purpose="a tiny model")
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<s>", "</s>", "<pad>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **_SPECIAL)
    fast.chat_template = _TEMPLATE
    before = torch.random.get_rng_state()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=2,
        initializer_range=0.3,
    )
    model = LlamaForCausalLM(config)
    torch.random.set_rng_state(before)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return str(folder)


def _unit(text: str, number: int) -> float:
    return int.from_bytes(hashlib.sha256(f"{number} {text}".encode()).digest()[:4], "big") / 2**32
