"""Texts from private prompts by one process on one device, and by workers on several: tokens a second, and efficiency.

    AFFIDAVIT_DEVICE=cuda python -m benchmarks.bench_workers [--workers 2] [--ray] [--model NAME] [--json FILE]
    python -m benchmarks.bench_workers [--model toy --sizes 8 --tokens 16]        on a processor: that it runs

What is timed is ``prism.run``: prompts, sums, draws, kept in a journal on this folder's disk as a run keeps them
(two waits for the disk a token). Every text has exactly s private prompts and T tokens. *Efficiency* is the workers'
rate over the single process's rate times the number of devices; the workers' may be above 1, since a worker computes
one text while another is drawn. What the process that draws is busy for, a token, bounds how many workers it can have.
Loading, and trying that rows stay apart, come before and are not timed; nor is a first round, in which graphs are
recorded.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from affidavit.accountant.plan import Leaf, Plan
from affidavit.accountant.release.journal import NAME, Journal
from affidavit.accountant.release.order import Order
from affidavit.accountant.release.randomness import SecureNoise
from affidavit.generation import prism
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.models.places import accelerators
from affidavit.generation.models.pooled import PooledModel
from affidavit.generation.models.process_link import ProcessLink
from affidavit.generation.models.ray_link import RayLink

SENTENCE = "Shares of the harbour company rose by a tenth after it said that its new ferry would sail in May. "

__all__ = ["main"]


@dataclass(frozen=True)
class _Permit:
    """A permit without a certificate or a ledger: the order of the plan, secure noise, a journal."""

    plan: Plan
    journal: Journal
    relation: str = "zero-out"
    side_by_side: bool = True
    noise: SecureNoise = field(default_factory=SecureNoise)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_order", Order(self.plan))

    def use(self, path: str) -> Leaf:
        leaf: Leaf = self._order.use(path)  # type: ignore[attr-defined]
        return leaf

    def finish(self, path: str) -> None:
        self._order.finish(path)  # type: ignore[attr-defined]


def measured(model: Any, *, size: int, texts: int, tokens: int, minibatch: int) -> tuple[float, float, str]:
    """Tokens a second, this process's milliseconds of processor time a token, and what the receipt says of rows."""
    config = prism.PrismConfig(
        labels=[f"topic {number:02d}" for number in range(texts)],
        batch_size=size,
        max_tokens=tokens,
        minibatch_rows=minibatch,
    )
    records = [Record(f"r{n}", f"{n}. {SENTENCE * 6}", config.labels[n % texts]) for n in range(size * texts)]
    plan = prism.plan(config, relation="zero-out", size=len(records))
    prism.check(config, model, public=())
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        place = Path(folder)
        journal = Journal.begin(place / NAME, home=place, header={"ledger_entry": "0" * 32})
        begun, busy = time.perf_counter(), time.process_time()
        made = prism.run(_Permit(plan, journal), config, records, model, size=len(records))  # type: ignore[arg-type]
        spent, busy = time.perf_counter() - begun, time.process_time() - busy
        journal.close()
    drawn = sum(made.draws_per_node.values())
    if drawn != texts * tokens:
        raise SystemExit(f"{drawn} tokens of {texts * tokens}: a text ended early")
    return drawn / spent, 1000 * busy / drawn, made.versions["rows"]


def main() -> None:
    """One process, then the workers."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ray", action="store_true")
    on_gpu = bool(accelerators())  # a processor shows that it runs
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 128] if on_gpu else [2])
    parser.add_argument("--tokens", type=int, default=64 if on_gpu else 4)
    parser.add_argument("--texts", type=int, default=8 if on_gpu else 2, help="for each worker")
    parser.add_argument("--rounds", type=int, default=3 if on_gpu else 1)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    alone: Any = load_model(asked.model)
    load = {"name": asked.model, "dtype": "auto", "base": None}
    pooled: Any = PooledModel(alone, load=load, workers=asked.workers, link=RayLink if asked.ray else ProcessLink)
    alone.stop_tokens = pooled.stop_tokens = frozenset()  # every text is as long
    devices = max(1, min(asked.workers, len(accelerators())))
    print(f"{asked.model} on {alone.versions.get('device', 'a processor')}; {asked.workers} workers, {devices} devices")
    rows = []
    for size in asked.sizes:
        work = {"size": size, "tokens": asked.tokens, "minibatch": size}
        for model, texts in ((alone, 2), (pooled, 2 * asked.workers)):
            measured(model, texts=texts, **{**work, "tokens": 8})
        texts = asked.texts * asked.workers
        single, several, holder, evidence = [], [], 0.0, ""
        for _ in range(asked.rounds):
            single.append(measured(alone, texts=texts // asked.workers, **work)[0])
            rate, holder, evidence = measured(pooled, texts=texts, **work)
            several.append(rate)
        efficiency = [many / (devices * one) for one, many in zip(single, several, strict=True)]
        print(
            f"s = {size}: one process {', '.join(f'{one:.1f}' for one in single)} tokens/s, "
            f"{asked.workers} workers {', '.join(f'{one:.1f}' for one in several)}; "
            f"efficiency {', '.join(f'{one:.3f}' for one in efficiency)}",
            flush=True,
        )
        print(f"  who draws is busy for {holder:.2f} ms a token; rows {evidence}")
        rows.append(
            {
                "s": size,
                "single": single,
                "workers": several,
                "efficiency": efficiency,
                "holder_ms": holder,
                "rows": evidence,
            }
        )
    if asked.json is not None:
        asked.json.write_text(json.dumps({"versions": dict(alone.versions), "results": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
