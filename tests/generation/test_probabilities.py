"""Rows become exact vectors of the simplex over a public vocabulary, each by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.accountant.errors import AffidavitError
from affidavit.generation.probabilities import GRID, on_simplex, scaled_to_best, support, total

ALL = np.arange(5, dtype=np.int64)
LOGITS = st.lists(st.floats(min_value=-1e4, max_value=1e4, width=32) | st.just(-np.inf), min_size=5, max_size=5).map(
    lambda values: np.array(values, dtype=np.float32)
)


def _row(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


@given(LOGITS, LOGITS)
def test_vectors_stay_within_the_stated_distances(first: np.ndarray, second: np.ndarray) -> None:
    """In whole numbers: entries >= 0, sum <= 1, any two at most √2 apart, each at most 1 from nothing."""
    vectors = [on_simplex(row) for row in (first, second)]
    entries = [[int(value) for value in vector] for vector in vectors if vector is not None]
    assert len(entries) == 2
    for vector in entries:
        assert min(vector) >= 0
        assert GRID - 5 <= sum(vector) <= GRID
        assert sum(value**2 for value in vector) <= GRID**2
    assert sum((a - b) ** 2 for a, b in zip(*entries, strict=True)) <= 2 * GRID**2


@given(LOGITS, LOGITS)
def test_scores_move_by_a_width_of_two_at_most(first: np.ndarray, second: np.ndarray) -> None:
    scores = [scaled_to_best(row) for row in (first, second)]
    assert all(score is not None and score.min() >= 0 and score.max() == GRID for score in scores)
    moved = scores[0] - scores[1]  # type: ignore[operator]
    assert moved.max() - moved.min() <= 2 * GRID


def test_probabilities_are_a_softmax_over_the_support() -> None:
    row = _row(1.0, 2.0, 9.0, 3.0, -1.0)
    tokens = np.array([0, 1, 3])
    weights = np.exp([1.0, 2.0, 3.0])
    assert np.allclose(on_simplex(row[tokens]) / GRID, weights / weights.sum(), atol=1e-11)
    assert np.allclose(scaled_to_best(row[tokens]) / GRID, weights / weights.max(), atol=1e-11)


def test_nothing_over_nothing_is_uniform() -> None:
    """A server may return logits for none of the tokens that the public prompt made eligible."""
    row = _row(-np.inf, -np.inf, 5.0, -np.inf, -np.inf)
    tokens = np.array([0, 1, 3])
    assert on_simplex(row[tokens]).tolist() == [GRID // 3] * 3
    assert scaled_to_best(row[tokens]).tolist() == [GRID] * 3


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_unsound_row_contributes_nothing(bad: float) -> None:
    row = _row(0.0, bad, 0.0, 0.0, 0.0)
    assert on_simplex(row) is None
    assert scaled_to_best(row) is None
    assert on_simplex(row[np.array([0, 2])]) is not None


def test_rows_are_computed_alone() -> None:
    rows = np.random.default_rng(1).normal(size=(7, 300)).astype(np.float32)
    tokens = np.arange(0, 300, 3)
    alone = [on_simplex(row.copy()[tokens]) for row in rows]
    together = [on_simplex(row[tokens]) for row in rows]
    assert all(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))


def test_the_support_is_the_best_of_the_public_prompt_with_ties_by_number() -> None:
    public = _row(3.0, 1.0, 3.0, 7.0, 1.0)
    assert support(public, top_k=2).tolist() == [0, 3]
    assert support(public, top_k=4).tolist() == [0, 1, 2, 3]
    assert support(public, top_k=0).tolist() == [0, 1, 2, 3, 4]
    for broken in (_row(0.0, np.nan), _row(-np.inf, -np.inf)):
        with pytest.raises(AffidavitError, match="public prompt"):
            support(broken, top_k=1)


def test_a_token_that_the_public_prompt_rules_out_is_never_eligible() -> None:
    public = _row(-np.inf, 2.0, -np.inf, 1.0, -np.inf)
    assert support(public, top_k=4).tolist() == [1, 3]
    assert support(public, top_k=0).tolist() == [1, 3]


def test_sums_are_exact_in_any_order() -> None:
    rows = list(np.random.default_rng(2).integers(0, GRID, size=(500, 20)))
    assert np.array_equal(total(rows, width=20), total(rows[::-1], width=20))
    assert total(rows, width=20).tolist() == [sum(int(row[i]) for row in rows) for i in range(20)]
    assert total([], width=3).tolist() == [0, 0, 0]
