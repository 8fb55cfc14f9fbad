"""Clipping and exact sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from affidavit.generation.aggregate import GRID, blend, clip_to_grid, grid_bound, total

LOGITS = arrays.arrays(np.float32, (4, 7), elements=st.floats(-60.0, 60.0, width=32))


@given(LOGITS, st.sampled_from([0.3, 1.0, 10.0, 999.9]))
@settings(max_examples=100, deadline=None)
def test_clipping_is_equation_two_on_the_grid(logits: np.ndarray, clip: float) -> None:
    grid, sound = clip_to_grid(logits, clip=clip)
    exact = logits.astype(np.float64)
    exact = np.maximum(-clip, exact - exact.max(axis=1, keepdims=True) + clip)
    tolerance = 0.5 / GRID + 2.0**-22 * (clip + 120.0)  # half a grid step, and float32's rounding
    assert sound.all()
    assert np.abs(grid / GRID - exact).max() <= tolerance
    assert np.abs(grid).max() <= grid_bound(clip) <= clip * GRID


@given(LOGITS, LOGITS)
@settings(max_examples=60, deadline=None)
def test_one_row_moves_the_blend_by_the_stated_width(logits: np.ndarray, other: np.ndarray) -> None:
    """Width 2C for a row that is added or removed, 4C for one that is replaced; here with s = 3 and 4 rows."""
    clip, size = 2.0, 3
    grid, _ = clip_to_grid(logits, clip=clip)
    replaced, _ = clip_to_grid(other, clip=clip)
    kept = total([grid], vocabulary=7, batch_size=size, clip=clip)
    without = total([grid[1:]], vocabulary=7, batch_size=size, clip=clip)
    swapped = total([grid[1:], replaced[:1]], vocabulary=7, batch_size=size, clip=clip)
    public = grid[0]
    for changed, width in ((without, 2), (swapped, 4)):
        moved = blend(kept, public, batch_size=size) - blend(changed, public, batch_size=size)
        assert moved.max() - moved.min() <= width * grid_bound(clip)


def test_the_widths_are_attained() -> None:
    one = np.array([[0.0, -100.0, -100.0]], dtype=np.float32)
    two = np.array([[-100.0, 0.0, -100.0]], dtype=np.float32)
    first, second = (
        total([clip_to_grid(row, clip=1.5)[0]], vocabulary=3, batch_size=8, clip=1.5) for row in (one, two)
    )
    assert np.ptp(first) == 2 * grid_bound(1.5)
    assert np.ptp(first - second) == 4 * grid_bound(1.5)


def test_sums_do_not_depend_on_order_or_partition() -> None:
    rng = np.random.default_rng(0)
    grid, _ = clip_to_grid(rng.normal(0, 20, (64, 300)).astype(np.float32), clip=10.0)
    whole = total([grid], vocabulary=300, batch_size=64, clip=10.0)
    shuffled = grid[rng.permutation(64)]
    parts = total([shuffled[:7], shuffled[7:40], shuffled[40:]], vocabulary=300, batch_size=64, clip=10.0)
    assert np.array_equal(whole, parts)


def test_an_empty_batch_and_an_overfull_one_stay_in_bounds() -> None:
    assert not total([], vocabulary=5, batch_size=2, clip=1.0).any()
    row = np.array([[0.0, -50.0]], dtype=np.float32)
    grid, _ = clip_to_grid(np.repeat(row, 9, axis=0), clip=1.0)
    assert total([grid], vocabulary=2, batch_size=4, clip=1.0).tolist() == [4 * GRID, -4 * GRID]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_unsound_row_contributes_nothing_and_moves_no_other(bad: float) -> None:
    logits = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32)
    clean, _ = clip_to_grid(logits, clip=3.0)
    logits[1, 2] = bad
    grid, sound = clip_to_grid(logits, clip=3.0)
    assert sound.tolist() == [True, False, True]
    assert not grid[1].any()
    assert np.array_equal(grid[[0, 2]], clean[[0, 2]])


def test_a_banned_token_is_clipped_to_the_floor() -> None:
    grid, sound = clip_to_grid(np.array([[0.0, -np.inf]], dtype=np.float32), clip=3.0)
    assert sound.all()
    assert grid.tolist() == [[3 * GRID, -3 * GRID]]
