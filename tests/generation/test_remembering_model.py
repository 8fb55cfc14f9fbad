"""Remembered rows are the model's own, bit for bit, and a thousand trials cost what a few do."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Leaf
from affidavit.accountant.release.randomness import NoiseSource, SeededNoise
from affidavit.accountant.validate import Relation
from affidavit.generation import prism
from affidavit.generation.dataset import Record
from affidavit.generation.models.base import LanguageModel
from affidavit.generation.models.counted import CountedModel
from affidavit.generation.models.remembering import RememberingModel
from affidavit.generation.models.toy import ToyModel

LABELS = ["Sports", "Business"]


@dataclass(slots=True)
class _Trial:
    """A permit for one trial."""

    plan: object
    relation: Relation
    noise: NoiseSource
    uses: dict[str, int] = field(default_factory=dict)

    def use(self, path: str) -> Leaf:
        from affidavit.accountant.plan import leaves

        self.uses[path] = self.uses.get(path, 0) + 1
        return {where: leaf for where, leaf, _ in leaves(self.plan)}[path]  # type: ignore[arg-type]

    def finish(self, path: str) -> None:
        """Nothing is counted here."""


def _records(count: int = 12) -> list[Record]:
    return [Record(f"id{i}", f"the team number {i} won the match on day {i * 7}", LABELS[i % 2]) for i in range(count)]


def _config(max_tokens: int) -> prism.PrismConfig:
    return prism.PrismConfig(
        labels=LABELS, batch_size=4, max_tokens=max_tokens, max_record_tokens=20, minibatch_rows=4, temperature=2.0
    )


def _trial(model: LanguageModel, records: list[Record], *, max_tokens: int, seed: int) -> list[tuple[int, ...]]:
    config = _config(max_tokens)
    plan = prism.plan(config, relation="zero-out", size=12)
    permit = _Trial(plan, "zero-out", SeededNoise(seed))
    done = prism.run(permit, config, records, model, size=12)  # type: ignore[arg-type]
    return [sample.tokens for sample in done.samples]


@pytest.mark.parametrize("max_tokens", [1, 6])
def test_text_is_the_same_with_and_without_a_memory(max_tokens: int) -> None:
    plain, remembering = ToyModel(), RememberingModel(ToyModel())
    for seed in range(8):
        records = _records()[seed % 3 :]
        expected = _trial(plain, records, max_tokens=max_tokens, seed=seed)
        assert _trial(remembering, records, max_tokens=max_tokens, seed=seed) == expected


def test_rows_come_back_bit_for_bit_whatever_is_missing() -> None:
    model, remembering = ToyModel(), RememberingModel(ToyModel())
    rows = [model.encode(f"the order {i} is late") for i in range(4)]
    for chosen in ([0, 1, 0, 1], [1, 2, 3, 0], [3, 3, 2, 0]):
        batch = [rows[i] for i in chosen]
        one, other = model.start(batch, width=20), remembering.start(batch, width=20)
        for token in (300, 301, 302):
            assert np.array_equal(one.logits, other.logits)
            one.append([token + i for i in chosen])
            other.append([token + i for i in chosen])
        assert np.array_equal(one.logits, other.logits)
    # Rows appended to alike are one row: 4 rows at each of 4 lengths, and no more.
    assert remembering.computed == 16


def test_hundreds_of_trials_cost_the_model_what_ten_do() -> None:
    """PRISM's own release, one record in and out by turns: after ten trials every row has been met."""
    counted = CountedModel(ToyModel())
    remembering = RememberingModel(counted)
    records = _records()
    for trial in range(10):
        _trial(remembering, records[trial % 2 :], max_tokens=1, seed=trial)
    after_ten = counted.calls
    assert remembering.computed <= len(records) + 2 * len(LABELS)  # a dummy row and a public one for each label
    for trial in range(10, 300):
        _trial(remembering, records[trial % 2 :], max_tokens=1, seed=trial)
    assert counted.calls == after_ten
    assert remembering.asked > 50 * remembering.computed


def test_the_memory_is_bounded() -> None:
    model = RememberingModel(ToyModel(), most_rows=3)
    rows = [model.encode(f"number {i}") for i in range(6)]
    expected = ToyModel().start(rows, width=12).logits
    for _ in range(3):
        assert np.array_equal(model.start(rows, width=12).logits, expected)
    assert model.computed == 6 + 3 + 3  # the three that were used last are at hand each time
    with pytest.raises(UsageError, match="0 rows"):
        RememberingModel(ToyModel(), most_rows=0)
    with pytest.raises(UsageError, match="width"):
        model.start([[1, 2, 3]], width=2)


def test_everything_else_is_the_models() -> None:
    plain, model = ToyModel(), RememberingModel(ToyModel())
    assert (model.name, model.digest, model.stop_tokens) == (plain.name, plain.digest, plain.stop_tokens)
    assert model.generate(["the order"], max_tokens=3) == plain.generate(["the order"], max_tokens=3)
    assert model.log_likelihoods(["the"], [" order"]) == plain.log_likelihoods(["the"], [" order"])
    assert model.frame("chat") == plain.frame("chat")
    assert model.decode(model.encode("the order")) == "the order"
