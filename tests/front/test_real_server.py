"""Runs on a server that we did not write: `transformers serve`, over a small random model, at both end points.

It shows text alone and no log-probabilities, so it writes for ``ksa`` and ``sga``; what needs more is refused there
before anything is charged.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.errors import ModelUnavailable
from affidavit.generation.models import load_model
from affidavit.generation.models.served_requests import ServerSettings

SERVE = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"
CHAT = (
    "{% for message in messages %}<s> {{ message['content'] }} </s> {% endfor %}{% if add_generation_prompt %}<s> "
    "{% endif %}"
)
WORDS = [
    "".join(pair) for pair in itertools.product(map("".join, itertools.product("bdgklmnprst", "aeiou")), repeat=2)
][:253]
RECORDS = [" ".join(WORDS[3 * n : 3 * n + 3]) for n in range(24)]
GENERATORS: dict[str, dict[str, Any]] = {
    "ksa": {
        "labels": ["north", "south"], "mechanism": "joint-exponential", "keywords": 2, "keyword_epsilon": 2.0,
        "use_public": True, "subsets": 6, "sampling": "disjoint", "max_answer_tokens": 3, "max_tokens": 3,
        "max_record_tokens": 12, "minibatch_rows": 4,
    },
    "sga": {
        "queries": ["which way"], "ensemble": 4, "shots": 1, "candidates": 2, "selection": "generate",
        "embedding": "toy", "max_tokens": 3, "max_record_tokens": 12, "minibatch_rows": 4,
        "dpm": {
            "dimensions": 3, "radius": 0.8, "interval": 0.2, "levels": 2, "smallest": 2.0, "split_range": 1.0,
            "count_noise_multiplier": 2.0, "centre_noise_multiplier": 2.0,
        },
    },
}  # fmt: skip


@dataclass(frozen=True)
class Served:
    """A server that answers, and what it wrote to its log."""

    url: str
    model: str
    log: Path


def _saved(folder: Path) -> None:
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
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        max_position_embeddings=4096, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    model, log = folder / "model", folder / "log"
    _saved(model)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVE, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "home")}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*command, str(model)], stdout=stream, stderr=subprocess.STDOUT, cwd=folder, env=environment
        )
        try:
            _answers(process, f"http://127.0.0.1:{port}/health", log)
            yield Served(f"http://127.0.0.1:{port}/v1", str(model), log)
        finally:
            process.kill()
            process.wait()


def _answers(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    for _ in range(1200):
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


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("kind", GENERATORS)
def test_certified_generated_and_verified(kind: str, endpoint: str, empty_workplace: Any, served: Served) -> None:
    place = empty_workplace
    place.write_records([{**each, "text": text} for each, text in zip(place.records(), RECORDS, strict=True)])
    head = place.run_file.read_text(encoding="utf-8").partition("[model]")[0].replace("epsilon = 4.0", "epsilon = 50.0")
    head = head.replace("size = 24\n", 'size = 24\npublic = "public.jsonl"\n')
    public = [{**record, "text": f"{record['text']} {WORDS[200]}"} for record in place.records()]
    (place.folder / "public.jsonl").write_text("".join(json.dumps(line) + "\n" for line in public))
    table = {"name": served.url, "id": served.model, "endpoint": endpoint, "retries": 0}
    lines = [head, "[model]", *_toml(table), "[generator]", *_toml({"kind": kind, **GENERATORS[kind]})]
    place.run_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    place.keyring.init()
    place.open_account(epsilon="50")
    certified = place.certify()
    assert certified.code == 0, certified.err
    done = place.generate()
    assert done.code == 0, done.err
    receipt = json.loads((place.out / "receipt.json").read_text())
    assert receipt["protected"] is True
    assert receipt["versions"]["rows"] == "each prompt in a request of its own, one at a time"
    asked = [line for line in served.log.read_text(errors="replace").splitlines() if '"POST /v1/' in line]
    assert asked
    assert all(line.rstrip().endswith("200 OK") for line in asked), "the server answers every private prompt"
    texts = [json.loads(line)["text"] for line in (place.out / "synthetic.jsonl").read_text().splitlines()]
    assert any(word in WORDS for text in texts for word in text.split()), texts
    shown = place.command("verify", place.certificate, "--receipt", place.out / "receipt.json")
    assert shown.code == 0, shown.err


def test_a_server_without_log_probabilities_is_refused_where_they_are_needed(served: Served) -> None:
    for endpoint in ("completions", "chat"):
        settings = ServerSettings(url=served.url, model=served.model, top_logprobs=5, retries=0, endpoint=endpoint)  # type: ignore[arg-type]
        with pytest.raises(ModelUnavailable, match="no log-probabilities") as refused:
            load_model(served.url, server=settings)
        assert "text only" in refused.value.hint


def test_the_beginning_of_an_answer_is_gone_on_with_or_said_by_the_user(served: Served) -> None:
    model = load_model(
        served.url, server=ServerSettings(url=served.url, model=served.model, top_logprobs=0, endpoint="chat")
    )
    first, again = (model.generate([RECORDS[1]], max_tokens=4, template="chat") for _ in range(2))
    assert first == again
    assert set(first[0].split()) <= {*WORDS, "<s>"}
