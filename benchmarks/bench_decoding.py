"""PRISM's decoding: one cached step a token, against recomputing every prompt for every token.

    python -m benchmarks.bench_decoding [--model NAME] [--dtype auto|bfloat16|float32]

For s private prompts of equal public width and T tokens it measures the seconds that one synthetic text
takes (prefill, clipped sum and draw included) and prints released tokens per second, and how the time
grows: the exponent b of time ∝ T^b from T = 32 to T = 64, without the prefill (cached: about 1;
recomputing: more, since the prompts grow). Recomputation is timed at five of the T steps, evenly spaced,
and integrated between them; cached decoding is timed whole.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from affidavit.accountant.release.randomness import SecureNoise
from affidavit.generation.aggregate import GRID
from affidavit.generation.batches import PrivateRows
from affidavit.generation.models import load_model
from affidavit.generation.models.base import LanguageModel
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.prism import PrismConfig, label_rows, token_scores
from affidavit.mechanisms import exponential

BATCHES = (8, 32)
LENGTHS = (32, 64)
RECORD_TOKENS = 48
TEMPERATURE = 0.7
SENTENCE = "Shares of the harbour company rose by a tenth after it said that its new ferry would sail in May. "
NEXT = 260  # any token: what is timed does not depend on which


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds for one text of T tokens."""

    prefill: float
    steps: float

    @property
    def total(self) -> float:
        return self.prefill + self.steps


class Bench:
    """One model, one batch size."""

    def __init__(self, model: LanguageModel, batch_size: int) -> None:
        self._model = model
        self._config = PrismConfig(
            labels=["Business"],
            task="ag-news",
            batch_size=batch_size,
            max_record_tokens=RECORD_TOKENS,
            minibatch_rows=batch_size,
            temperature=TEMPERATURE,
        )
        self._rows = label_rows(self._config, model)["Business"]
        self._texts = [f"{number}. " + SENTENCE * 4 for number in range(batch_size)]
        self._noise = SecureNoise()

        width = self._rows.width
        model.keep_apart(  # outside of what is timed: it is done once on a machine
            [
                *(BatchShape(batch_size, width, length) for length in LENGTHS),
                *(BatchShape(batch_size, width + used, 1) for used in range(max(LENGTHS))),
            ]
        )

    def _prefill(self, answer: Sequence[int], *, max_tokens: int = 1) -> tuple[PrivateRows, object]:
        """Every prompt followed by ``answer``, read anew."""
        rows = type(self._rows)(
            self._rows.before, (*self._rows.after, *answer), (*self._rows.public, *answer), RECORD_TOKENS
        )
        private = PrivateRows(
            self._model, rows, self._texts, minibatch_rows=self._config.minibatch_rows, max_tokens=max_tokens
        )
        return private, self._model.start([rows.public], width=len(rows.public))

    def _release(self, private: PrivateRows, public: object) -> None:
        scores = token_scores(self._config, private, public)  # type: ignore[arg-type]
        scale = 2 * self._config.batch_size * GRID * TEMPERATURE
        exponential.sample(scores, temperature=scale, noise=self._noise)

    def cached(self, length: int) -> Timing:
        """Prefill once, one step a token."""
        start = time.perf_counter()
        private, public = self._prefill([], max_tokens=length)
        ready = time.perf_counter()
        for step in range(length):
            if step:
                private.append(NEXT)
                public.append([NEXT])  # type: ignore[attr-defined]
            self._release(private, public)
        return Timing(ready - start, time.perf_counter() - ready)

    def recomputed(self, length: int) -> Timing:
        """Every prompt read anew for every token; the first reading counts as its prefill."""
        points = np.unique(np.linspace(0, length - 1, 5).round().astype(int))
        seconds = []
        for used in points:
            start = time.perf_counter()
            self._release(*self._prefill([NEXT] * int(used)))
            seconds.append(time.perf_counter() - start)
        total = float(np.interp(np.arange(length), points, seconds).sum())
        return Timing(0.0, total)


def table(model: LanguageModel) -> str:
    """The measured table, as text."""
    lines = [
        "  s    T   cached tok/s   recomputed tok/s   ratio   cached prefill   per step",
        "-" * 78,
    ]
    growth = []
    for batch_size in BATCHES:
        bench = Bench(model, batch_size)
        bench.cached(2)  # warm up
        timings = {length: (bench.cached(length), bench.recomputed(length)) for length in LENGTHS}
        for length, (cached, again) in timings.items():
            lines.append(
                f"{batch_size:3d}  {length:3d}   {length / cached.total:12.2f}   {length / again.total:16.2f}   "
                f"{again.total / cached.total:5.1f}   {cached.prefill:12.2f} s   {1000 * cached.steps / length:5.0f} ms"
            )
        short, long = (timings[length] for length in LENGTHS)
        exponents = [math.log(b.steps / a.steps, LENGTHS[1] / LENGTHS[0]) for a, b in zip(short, long, strict=True)]
        growth.append(
            f"s = {batch_size:2d}: time grows as T^{exponents[0]:.2f} cached, T^{exponents[1]:.2f} recomputed"
        )
    return "\n".join([*lines, "", *growth])


def main() -> None:
    """Load, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dtype", default="auto", choices=("auto", "bfloat16", "float32"))
    arguments = parser.parse_args()
    start = time.perf_counter()
    model = load_model(arguments.model, dtype=arguments.dtype)
    print(f"{model.name} ({getattr(model, 'dtype', 'float32')}), loaded in {time.perf_counter() - start:.1f} s")
    print(table(model))


if __name__ == "__main__":
    main()
