"""PRISM on a GPU: milliseconds a token, beside invink and what reading weights and cache would take at least.

    AFFIDAVIT_DEVICE=cuda python -m benchmarks.bench_device [--model NAME | --like FOLDER] [--json FILE]

One text of T tokens from s private prompts. A token is: one step of every prompt, clipped sum, blend, draw. Beside it,
in the same call:

- *plain*: the same rows, each kernel started by itself, all logits brought to the processor and summed there;
- *invink*: the authors' package for InvisibleInk (``pip install invink==0.1.0``) on as many private prompts, by its
  public function; pairs of two lengths, so that loading and reading the prompts cancel: each pair's time is said, for
  they differ by a factor of two. Its prompts are longer than ours;
- *floor*: weights and cache read once, at the rate of this GPU's own copies.

Checked on the way: that the integers summed on the device are those of the processor, given the same logits; that a
text which is decoded again gives the same integers; how far replayed and plain steps are apart.

``--like``: weights at random in the shape of a folder's config.json, with its tokenizer. Times do not depend on them.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from affidavit.accountant.release.randomness import SecureNoise
from affidavit.generation.aggregate import GRID, OnDevice, blend, clip_to_grid, total
from affidavit.generation.batches import PrivateRows
from affidavit.generation.models import load_model
from affidavit.generation.models.base import Decoding, LanguageModel
from affidavit.generation.prism import PrismConfig, label_rows, token_scores
from affidavit.mechanisms import exponential

TOKENS = 64
RECORD_TOKENS = 96
SIZES = (8, 32, 128, 255)
TEMPERATURE = 0.7
SENTENCE = "Shares of the harbour company rose by a tenth after it said that its new ferry would sail in May. "
INVINK_TOKENS = (8, 40)
INVINK_PAIRS = 3


class Bench:
    """One model, one number of prompts, one size of minibatch."""

    def __init__(self, model: LanguageModel, size: int, minibatch: int) -> None:
        self.model = model
        self.config = PrismConfig(
            labels=["Business"],
            task="ag-news",
            batch_size=size,
            max_record_tokens=RECORD_TOKENS,
            minibatch_rows=minibatch,
            temperature=TEMPERATURE,
        )
        self.rows = label_rows(self.config, model)["Business"]
        self.texts = [f"{number}. " + SENTENCE * 6 for number in range(size)]
        self.noise = SecureNoise()

    def start(self) -> tuple[PrivateRows, Decoding]:
        """Every prompt read."""
        private = PrivateRows(
            self.model,
            self.rows,
            self.texts,
            minibatch_rows=self.config.minibatch_rows,
            max_tokens=self.config.max_tokens,
        )
        return private, self.model.start([self.rows.public], width=len(self.rows.public))

    def draw(self, scores: Any) -> int:
        """One token."""
        return exponential.sample(
            scores, temperature=2 * self.config.batch_size * GRID * TEMPERATURE, noise=self.noise
        ).value

    def text(self, tokens: int = TOKENS) -> dict[str, float]:
        """Seconds of the prompts' reading, and milliseconds a token, all of it and the parts of it."""
        synchronize()
        begun = time.perf_counter()
        private, public = self.start()
        synchronize()
        prefill = time.perf_counter() - begun
        whole, sums, draws, token = [], [], [], 0
        for step in range(tokens):
            before = time.perf_counter()
            if step:
                private.append(token)
                public.append([token])
            stepped = time.perf_counter()
            scores = token_scores(self.config, private, public)
            summed = time.perf_counter()
            token = self.draw(scores)
            after = time.perf_counter()
            if step:
                whole.append(after - before)
                sums.append(summed - stepped)
                draws.append(after - summed)
        return {
            "prefill_s": prefill,
            "ms_a_token": 1000 * statistics.fmean(whole),
            "median_ms": 1000 * statistics.median(whole),
            "wait_and_sum_ms": 1000 * statistics.median(sums),
            "draw_ms": 1000 * statistics.median(draws),
        }

    def plain(self, tokens: int = 16) -> float:
        """Milliseconds a token as it was: kernels started one by one, logits brought to the processor."""
        replays, self.model._replays = self.model._replays, False  # type: ignore[attr-defined]
        private, public = self.start()
        self.model._replays = replays  # type: ignore[attr-defined]
        spent = []
        for step in range(tokens):
            before = time.perf_counter()
            if step:
                private.append(1000 + step)
                public.append([1000 + step])
            self.draw(self.on_the_processor(private, public))
            spent.append(time.perf_counter() - before)
        return 1000 * statistics.median(spent[2:])

    def on_the_processor(self, private: PrivateRows, public: Decoding) -> Any:
        """The token's scores from all logits."""
        clip, size = self.config.clip, self.config.batch_size
        own = clip_to_grid(public.logits, clip=clip)[0][0]
        parts = (clip_to_grid(part, clip=clip)[0] for part in private.logits())
        return blend(total(parts, vocabulary=own.size, batch_size=size, clip=clip), own, batch_size=size)

    def check(self, tokens: int = 12) -> dict[str, Any]:
        """The same integers here and there, again, and how far the plain step is."""
        (one, public), (two, again) = self.start(), self.start()
        replays, self.model._replays = self.model._replays, False  # type: ignore[attr-defined]
        other, plainly = self.start()
        self.model._replays = replays  # type: ignore[attr-defined]
        same = repeated = True
        apart, scale = 0.0, 2 * self.config.batch_size * GRID
        for step in range(tokens):
            if step:
                for rows, decoding in ((one, public), (two, again), (other, plainly)):
                    rows.append(500 + step)
                    decoding.append([500 + step])
            scores = token_scores(self.config, one, public)
            same = same and bool(np.array_equal(scores, self.on_the_processor(one, public)))
            repeated = repeated and bool(np.array_equal(scores, token_scores(self.config, two, again)))
            apart = max(apart, float(np.abs(scores - self.on_the_processor(other, plainly)).max()) / scale)
        return {
            "on_device": isinstance(public, OnDevice),
            "same_integers": same,
            "same_again": repeated,
            "largest_difference_to_plain": apart,
        }


def synchronize() -> None:
    """Wait for the GPU."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def bandwidth() -> float:
    """Bytes a second that a copy on the device reads and writes."""
    import torch

    source = torch.empty(1 << 30, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    spent = []
    for _ in range(6):
        synchronize()
        before = time.perf_counter()
        target.copy_(source)
        synchronize()
        spent.append(time.perf_counter() - before)
    return 2 * source.numel() * source.element_size() / min(spent)


def floor(model: Any, bench: Bench, rate: float) -> float:
    """Milliseconds to read the weights and the mean cache of all rows once."""
    config = model._model.config
    weights = sum(one.numel() * one.element_size() for one in model._model.parameters())
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    each = (
        2
        * config.num_hidden_layers
        * config.num_key_value_heads
        * head
        * next(model._model.parameters()).element_size()
    )
    held = bench.config.batch_size * bench.rows.width + len(bench.rows.public)
    return 1000 * (weights + each * (held + (bench.config.batch_size + 1) * TOKENS / 2)) / rate


def invink_ms(folder: Path, size: int) -> list[float]:
    """Milliseconds a token of invink, ``size`` private prompts and the public one: of pairs of lengths, in order.

    No text ends before its length: of a copy's settings no token ends one.
    """
    from invink.generate import generate  # type: ignore[import-not-found]

    texts = [f"{number}. " + SENTENCE * 4 for number in range(size)]

    def seconds(folder: str, tokens: int) -> float:
        begun = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = generate(
                texts,
                folder,
                dataset_desc="business news",
                batch_size=size + 1,
                num=1,
                max_toks=tokens,
                epsilon=1000.0,
                device_map=0,
                allow_download=False,
            )
        if found.lens[0] != tokens:
            raise SystemExit(f"invink wrote {found.lens[0]} tokens of {tokens}: no time a token")
        return time.perf_counter() - begun

    few, many = INVINK_TOKENS
    with tempfile.TemporaryDirectory() as copied:
        for file in folder.iterdir():
            (Path(copied) / file.name).symlink_to(file.resolve())
        settings = Path(copied) / "generation_config.json"
        settings.unlink(missing_ok=True)
        settings.write_text('{"eos_token_id": -1}\n', encoding="utf-8")
        seconds(copied, few)  # whatever is begun once
        pairs = [(seconds(copied, few), seconds(copied, many)) for _ in range(INVINK_PAIRS)]
    return sorted(1000 * (long - short) / (many - few) for short, long in pairs)


def random_weights(like: Path, folder: Path) -> None:
    """A checkpoint of ``like``'s shape with weights at random, and its tokenizer."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(like)
    torch.manual_seed(0)
    AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    for file in like.iterdir():
        if not (folder / file.name).exists() and file.suffix not in (".safetensors", ".bin", ".gguf"):
            shutil.copy(file, folder)


def measure(model: Any, folder: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Every size; what is not installed is said, not left out."""
    rate = bandwidth()
    say(f"{model.versions}; copies move {rate / 1e12:.2f} TB/s")
    result: dict[str, Any] = {"versions": dict(model.versions), "copy_bytes_a_second": rate, "rows": []}
    say("  s  rows   prefill s   ms/token  median   wait+sum   draw    plain   floor   invink   checks")
    for size in SIZES:
        for minibatch in sorted({32, min(256, 1 << (size - 1).bit_length())} if size > 32 else {32}):
            bench = Bench(model, size, minibatch)
            bench.text(4)
            found: dict[str, Any] = {"s": size, "minibatch_rows": minibatch, **bench.text()}
            found["plain_ms"] = bench.plain()
            found["floor_ms"] = floor(model, bench, rate)
            found |= bench.check()
            say(
                f"{size:3d}  {minibatch:4d}   {found['prefill_s']:9.3f}   {found['ms_a_token']:8.2f}  "
                f"{found['median_ms']:6.2f}   {found['wait_and_sum_ms']:8.2f}  {found['draw_ms']:5.2f}  "
                f"{found['plain_ms']:7.1f}  {found['floor_ms']:6.3f}            "
                f"same {found['same_integers']}, again {found['same_again']}, "
                f"plain within {found['largest_difference_to_plain']:.3g}"
            )
            result["rows"].append(found)
            gc.collect()
    if folder is not None:
        for size in SIZES:
            try:
                theirs = result[f"invink_{size}_ms"] = invink_ms(folder, size)
                say(f"invink, {size} private prompts: {', '.join(f'{each:.1f}' for each in theirs)} ms a token")
            except ImportError as missing:
                say(f"invink is not installed: {missing}")
                break
    return result


def main() -> None:
    """Load, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--like", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        name, folder = arguments.model, None
        if arguments.like is not None:
            random_weights(arguments.like, Path(made))
            name, folder = made, Path(made)
        elif Path(name).is_dir():
            folder = Path(name)
        else:
            from affidavit.generation.models import smollm2

            folder = smollm2.checkpoint() if name == smollm2.MODEL_NAME else None
        begun = time.perf_counter()
        model: Any = load_model(name)
        print(
            f"{arguments.like or name} ({model.dtype}) on {model.device}, loaded in {time.perf_counter() - begun:.1f} s"
        )
        if model.device == "cpu":
            parser.exit(2, "no GPU is used here: `export AFFIDAVIT_DEVICE=cuda`\n")
        result = measure(model, folder, lambda line: print(line, flush=True))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
