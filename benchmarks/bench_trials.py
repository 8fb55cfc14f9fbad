"""What an audited trial costs once the clean outputs of its records are remembered.

    python -m benchmarks.bench_trials [--model NAME] [--records N] [--trials N] [--tokens N]

PRISM's own release, one record in and out by turns, as the per-run game of an audit makes it. Printed: rows
that the model computed, seconds a trial with a memory and without one (timed over fewer trials), and their ratio.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from affidavit.accountant.release.randomness import SecureNoise
from affidavit.generation import prism
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.models.base import LanguageModel
from affidavit.generation.models.counted import CountedModel
from affidavit.generation.models.remembering import RememberingModel
from affidavit.trial import TrialPermit

SENTENCE = "Shares of the harbour company rose by a tenth after it said that its new ferry would sail in May. "
PLAIN_TRIALS = 6


class Bench:
    """One generator on one set of records."""

    def __init__(self, *, records: int, tokens: int) -> None:
        self._size = records
        self._records = [Record(f"id{i}", f"{i}. {SENTENCE * 2}", "Business") for i in range(records)]
        self._config = prism.PrismConfig(
            labels=["Business"],
            task="ag-news",
            batch_size=records,
            max_tokens=tokens,
            max_record_tokens=48,
            minibatch_rows=min(32, records),
            temperature=1.0,
        )

    def seconds(self, model: LanguageModel, *, trials: int) -> float:
        """A trial's mean time, one record left out of every other one."""
        start = time.perf_counter()
        for trial in range(trials):
            self._release(model, self._records[trial % 2 :])
        return (time.perf_counter() - start) / trials

    def _release(self, model: LanguageModel, records: Sequence[Record]) -> None:
        plan = prism.plan(self._config, relation="zero-out", size=self._size)
        permit = TrialPermit(plan, "zero-out", SecureNoise())
        prism.run(permit, self._config, records, model, size=self._size)


def main() -> None:
    """Time both and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="toy")
    parser.add_argument("--records", type=int, default=32)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=1)
    asked = parser.parse_args()
    model = load_model(asked.model)
    bench = Bench(records=asked.records, tokens=asked.tokens)
    counted = CountedModel(model)
    remembering = RememberingModel(counted)
    plain = bench.seconds(model, trials=PLAIN_TRIALS)
    quick = bench.seconds(remembering, trials=asked.trials)
    print(f"{model.name}: {asked.trials} trials, {asked.records} records, {asked.tokens} tokens each")
    print(f"rows wanted {remembering.asked:,}, computed {remembering.computed:,} ({counted.calls:,} model calls)")
    print(f"a trial: {plain:.4f} s without memory, {quick:.4f} s with, {plain / quick:.1f} times as fast")


if __name__ == "__main__":
    main()
