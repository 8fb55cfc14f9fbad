"""Servers that we did not write, over a small random model, and whole runs on them."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["RECORDS", "WORDS", "Served", "free_port", "prepare", "serving", "whole_run"]

CHAT = (
    "{% for message in messages %}<s> {{ message['content'] }} </s> {% endfor %}{% if add_generation_prompt %}<s> "
    "{% endif %}"
)
WORDS = [
    "".join(pair) for pair in itertools.product(map("".join, itertools.product("bdgklmnprst", "aeiou")), repeat=2)
][:253]
RECORDS = [" ".join(WORDS[3 * n : 3 * n + 3]) for n in range(24)]


@dataclass(frozen=True)
class Served:
    """A server that answers, and what it wrote to its log."""

    url: str
    model: str
    log: Path


def _save_model(folder: Path) -> None:
    """A model that says words of no language, and its tokenizer: a token a word."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<s>", "</s>", "<unk>", *WORDS]
    raw = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    special: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "</s>"}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **special)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=4096, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


@contextmanager
def serving(command: Sequence[str], folder: Path, *, port: int, environment: Mapping[str, str]) -> Iterator[Served]:
    """A server over ``folder``/model, while it is needed; it must answer ``/health`` within a quarter of an hour."""
    log = folder / "log"
    model = folder / "model"
    _save_model(model)
    around = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home"), **environment}
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, cwd=folder, env=around)
        try:
            _answers(process, f"http://127.0.0.1:{port}/health", log)
            yield Served(f"http://127.0.0.1:{port}/v1", str(model), log)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _answers(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    for _ in range(7000):
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            assert process.poll() is None, log.read_text(errors="replace")
            time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace"))


def _toml(table: dict[str, Any]) -> list[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items() if key not in inner]
    return lines + [line for key, value in inner.items() for line in (f"[generator.{key}]", *_toml(value))]


def prepare(place: Any, served: Served, generator: Mapping[str, Any], **model: Any) -> None:
    """Records that are words of the model's, and a run file for it, keys and an account."""
    place.write_records([{**each, "text": text} for each, text in zip(place.records(), RECORDS, strict=True)])
    head = place.run_file.read_text(encoding="utf-8").partition("[model]")[0].replace("epsilon = 4.0", "epsilon = 50.0")
    head = head.replace("size = 24\n", 'size = 24\npublic = "public.jsonl"\n')
    public = [{**record, "text": f"{record['text']} {WORDS[200]}"} for record in place.records()]
    (place.folder / "public.jsonl").write_text("".join(json.dumps(line) + "\n" for line in public))
    table = {"name": served.url, "id": served.model, "retries": 0, **model}
    lines = [head, "[model]", *_toml(table), "[generator]", *_toml(dict(generator))]
    place.run_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    place.keyring.init()
    place.open_account(epsilon="50")


def whole_run(place: Any, served: Served) -> str:
    """Certified, generated and verified; what the receipt says of rows."""
    certified = place.certify()
    assert certified.code == 0, certified.err
    done = place.generate()
    assert done.code == 0, done.err
    receipt = json.loads((place.out / "receipt.json").read_text())
    assert receipt["protected"] is True
    asked = [line for line in served.log.read_text(errors="replace").splitlines() if '"POST /v1/' in line]
    assert asked
    assert all(line.rstrip().endswith("200 OK") for line in asked), "the server answers every private prompt"
    texts = [json.loads(line)["text"] for line in (place.out / "synthetic.jsonl").read_text().splitlines()]
    assert any(word in text for text in texts for word in WORDS), texts
    shown = place.command("verify", place.certificate, "--receipt", place.out / "receipt.json")
    assert shown.code == 0, shown.err
    return str(receipt["versions"]["rows"])
