"""Many prompts with a common beginning: the quick ways agree with one prompt at a time."""

from __future__ import annotations

import numpy as np
import pytest

from affidavit.accountant.errors import UsageError
from affidavit.generation.models.base import LanguageModel, TokenModel, common_prefix
from affidavit.generation.models.counted import CountedModel
from affidavit.generation.models.toy import ToyModel
from support.models import smollm2

BEGINNING = "Say which it is.\n\nArticle: Oil rose on Monday.\nAnswer: Business\n\n"
PROMPTS = [
    f"{BEGINNING}Article: {text}\nAnswer:"
    for text in ("A new browser was released.", "Short", "The ministers met in Paris on Tuesday to talk about trade.")
]
CHOICES = [" World", " Sports", " Educational Institution", " Mean of Transportation"]


@pytest.fixture(scope="module", params=["bfloat16", "float32"])
def smol(request: pytest.FixtureRequest) -> LanguageModel:
    return smollm2(dtype=request.param)


def _tolerance(model: LanguageModel) -> float:
    """The same products summed in another order: 30 layers of float32 (24 bits) or bfloat16 (8 bits)."""
    return 0.002 if getattr(model, "dtype", "") == "float32" else 0.5


@pytest.mark.model
@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[:1], ["One", "Two three"]], ids=["shared", "single", "apart"])
def test_choices_agree_with_one_pair_at_a_time(smol: LanguageModel, prompts: list[str]) -> None:
    quick = smol.choice_log_likelihoods(prompts, CHOICES)
    slow = TokenModel.log_likelihoods(
        smol,
        [prompt for prompt in prompts for _ in CHOICES],
        CHOICES * len(prompts),  # type: ignore[arg-type]
    )
    assert quick.shape == (len(prompts), len(CHOICES))
    assert np.abs(quick.ravel() - np.array(slow)).max() < _tolerance(smol)


@pytest.mark.model
def test_more_prompts_than_a_batch_keep_their_order(smol: LanguageModel) -> None:
    many = [f"{BEGINNING}Article: {'word ' * (n % 7)}{n}\nAnswer:" for n in range(18)]
    together = smol.choice_log_likelihoods(many, CHOICES[:2])
    apart = np.concatenate([smol.choice_log_likelihoods([prompt], CHOICES[:2]) for prompt in many[::3]])
    assert np.abs(together[::3] - apart).max() < _tolerance(smol)


@pytest.mark.model
@pytest.mark.parametrize("smol", ["float32"], indirect=True)  # in bfloat16 near ties may fall either way
def test_continuations_over_a_shared_beginning_are_greedy_text(smol: LanguageModel) -> None:
    quick = smol.continuations(PROMPTS, max_tokens=6, stop="\n")
    assert quick == [text.partition("\n")[0] for text in smol.generate(PROMPTS, max_tokens=6)]


@pytest.mark.model
def test_what_does_not_fit_is_refused(smol: LanguageModel) -> None:
    with pytest.raises(UsageError, match="reads 8192"):
        smol.choice_log_likelihoods(["word " * 9000], CHOICES)
    with pytest.raises(UsageError, match="empty"):
        smol.choice_log_likelihoods(PROMPTS, [""])


def test_the_toy_model_gives_the_same_by_the_general_way() -> None:
    model = ToyModel()
    scores = model.choice_log_likelihoods(PROMPTS, [" World", " market game"])
    for row, prompt in zip(scores, PROMPTS, strict=True):
        assert row.tolist() == model.log_likelihoods([prompt, prompt], [" World", " market game"])
    quick = model.continuations(PROMPTS, max_tokens=5, stop="\n")
    assert quick == [text.partition("\n")[0] for text in model.generate(PROMPTS, max_tokens=5)]


@pytest.mark.parametrize(
    ("rows", "shared"),
    [([[1, 2, 3], [1, 2, 4]], 2), ([[1, 2], [1, 2]], 1), ([[1, 2], [1, 2, 3]], 1), ([[1], [2]], 0), ([], 0), ([[]], 0)],
)
def test_a_common_prefix_leaves_something_of_every_row(rows: list[list[int]], shared: int) -> None:
    assert common_prefix(rows) == shared


def test_calls_are_rows_evaluated() -> None:
    counted = CountedModel(ToyModel())
    decoding = counted.start([[5, 6], [7, 8], [9]], width=2)
    assert counted.calls == 3
    decoding.append([5, 5, 5])
    assert counted.calls == 6
    assert np.array_equal(decoding.logits, _grown().logits)
    text = counted.generate(["the market"], max_tokens=3)
    assert text == ToyModel().generate(["the market"], max_tokens=3)
    assert 7 <= counted.calls <= 9


def _grown():
    decoding = ToyModel().start([[5, 6], [7, 8], [9]], width=2)
    decoding.append([5, 5, 5])
    return decoding
