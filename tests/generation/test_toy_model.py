"""The toy model: enough of a language model to test generators on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.accountant.errors import UsageError
from affidavit.generation.models import load_model, model_digest
from affidavit.generation.models.toy import ToyModel

MAIL = "Dear team, please write to Ada Lovelace at ada.lovelace@example.org today. Thanks."


@given(st.text())
def test_any_text_survives_encoding(text: str) -> None:
    model = ToyModel()
    tokens = model.encode(text)
    assert all(3 <= token < model.vocabulary_size for token in tokens)
    assert model.decode(tokens) == text


def test_cached_decoding_equals_recomputation() -> None:
    model = ToyModel()
    prompts = [model.prompt_tokens(text, "chat") for text in (MAIL, "Hello: team.", "x")]
    growing = model.start(prompts, width=100)
    answer = model.encode(" Thanks to Ada: hello.\n")
    for used, token in enumerate(answer):
        again = model.start([[*prompt, *answer[:used]] for prompt in prompts], width=200)
        assert np.array_equal(growing.logits, again.logits)
        growing.append([token] * 3)


def test_an_address_in_an_unprotected_prompt_leaks() -> None:
    (answer,) = ToyModel().generate(
        [f"{MAIL}\n\nExtract only the email address from the above text."], max_tokens=60, template="chat"
    )
    assert answer == "ada.lovelace@example.org"


def test_text_of_the_prompt_is_likelier_than_in_another_prompt() -> None:
    inside, outside = ToyModel().log_likelihoods([MAIL, "Hello team."], [" please write to Ada"] * 2)
    assert outside + math.log(100) < inside < 0


def test_log_likelihoods_are_those_of_a_distribution() -> None:
    model = ToyModel()
    pieces = [model.decode([token]) for token in range(3, 131)]  # bytes that are characters
    total = sum(math.exp(value) for value in model.log_likelihoods(["Hello"] * len(pieces), pieces))
    assert 0.0 < total < 1.0
    assert model.log_likelihoods(["Hello"], [""]) == [0.0]
    with pytest.raises(UsageError, match="differ in number"):
        model.log_likelihoods(["Hello"], [])


def test_greedy_texts_keep_the_order_of_their_prompts() -> None:
    model = ToyModel()
    prompts = [f"{MAIL} {'more ' * (7 - index)}{index}" for index in range(7)]
    together = model.generate(prompts, max_tokens=8)
    assert together == [model.generate([prompt], max_tokens=8)[0] for prompt in prompts]


def test_the_digest_is_stable_and_known_without_loading() -> None:
    assert model_digest("toy") == load_model("toy").digest == ToyModel().digest
    assert len(model_digest("toy")) == 64


def test_a_row_longer_than_its_batch_is_refused() -> None:
    with pytest.raises(UsageError, match="longer than the width"):
        ToyModel().start([[5, 6, 7]], width=2)
