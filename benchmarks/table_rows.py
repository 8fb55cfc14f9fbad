"""Row evidence as it is on this machine: ``python -m benchmarks.table_rows [--json FILE]``.

For SmolLM2 in both dtypes, and for a dense Llama and a Mixtral with random weights in its folder's tokenizer: whether
rows of PRISM's, few-shot's and one-step shapes stay apart, by which way of computing, and what the plain way does. A
Mixtral couples rows by its experts' batches: it has to run one row a batch, or be refused.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import NotSupported
from affidavit.generation.models import load_model, smollm2
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.transformers_model import Dtype

SHAPES = (BatchShape(32, 128, 40), BatchShape(144, 128, 30), BatchShape(144, 192, 30), BatchShape(32, 512, 8))
SMALL = (BatchShape(8, 64, 8), BatchShape(16, 128, 4))
"""On a processor, where the others take an hour."""
DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")


@contextmanager
def random_model(kind: str) -> Iterator[Path]:
    """A folder with a small model at random: dense, or of eight experts."""
    import torch
    import transformers

    size: dict[str, Any] = {
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 6,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "max_position_embeddings": 2048,
    }
    like = smollm2.checkpoint()
    names = json.loads((like / "config.json").read_text(encoding="utf-8"))
    size |= {key: names[key] for key in ("vocab_size", "bos_token_id", "eos_token_id")}
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as made:
        if kind == "llama":
            transformers.LlamaForCausalLM(transformers.LlamaConfig(**size)).save_pretrained(made)
        else:
            config = transformers.MixtralConfig(**size, num_local_experts=8, num_experts_per_tok=2)
            transformers.MixtralForCausalLM(config).save_pretrained(made)
        for file in like.glob("*token*"):
            shutil.copy(file, made)
        yield Path(made)


def tried(name: str, shown: str) -> Iterator[dict[str, str]]:
    """What each shape came to, in both dtypes."""
    for dtype in DTYPES:
        model: Any = load_model(name, dtype=dtype)
        for shape in SMALL if model.device == "cpu" else SHAPES:
            try:
                said = model.evidence(shape).computed
            except NotSupported as refusal:
                said = f"refused: {refusal.message}"
            yield {
                "model": shown,
                "dtype": dtype,
                "rows x tokens x steps": f"{shape.rows} x {shape.width} x {shape.steps}",
                "evidence": said,
            }
        del model


def main() -> None:
    """Try, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found: list[dict[str, str]] = []

    def show(lines: Iterator[dict[str, str]]) -> None:
        for line in lines:
            if not found:
                print("| " + " | ".join(line) + " |\n" + "|---" * len(line) + "|")
            print("| " + " | ".join(line.values()) + " |", flush=True)
            found.append(line)

    show(tried(smollm2.MODEL_NAME, smollm2.MODEL_NAME))
    for kind in ("llama", "mixtral"):
        with random_model(kind) as folder:
            show(tried(str(folder), f"{kind}, random weights"))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
