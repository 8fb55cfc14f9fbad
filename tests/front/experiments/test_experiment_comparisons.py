"""Paired differences: the estimate against simulation, the family's correction, and what a table says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from affidavit.experiments.comparing import comparisons, holm
from affidavit.experiments.running import CellResult
from affidavit.experiments.tables import comparisons_csv, markdown, summaries


def _cell(method: str, seed: int, right: Any, *, epsilon: float = 4.0, shots: int = 4, model: str = "m") -> CellResult:
    values = tuple(float(value) for value in right)
    return CellResult(
        cell=f"{method}{seed}", dataset="news", method=method, epsilon=epsilon, seed=seed, metric="accuracy",
        scores={shots: {"accuracy": float(np.mean(values))}}, epsilon_upper=epsilon, delta=1e-4, relation="zero-out",
        values={}, texts=4, tokens=8, calls=8, seconds=1.0, model=model, beside="public", right={shots: values},
    )  # fmt: skip


def test_a_difference_is_that_of_paired_seeds_and_examples() -> None:
    public = [_cell("public", seed, [0, 1, 0, 1], epsilon=0.0) for seed in (0, 1)]
    mine = [_cell("prism", 0, [1, 1, 0, 1]), _cell("prism", 1, [1, 1, 1, 1]), _cell("prism", 9, [0, 0, 0, 0])]
    (found,) = comparisons([*public, *mine])
    assert (found.method, found.beside, found.seeds, found.examples) == ("prism", "public", 2, 4)
    assert found.difference == pytest.approx(0.375)
    # Seeds differ by .25 and .5, examples by 1, 0, .5 and 0.
    seeds, examples = np.var([0.25, 0.5], ddof=1) / 2, np.var([1, 0, 0.5, 0], ddof=1) / 4
    assert found.error == pytest.approx(math.sqrt(seeds + examples))
    assert found.low < found.difference < found.high
    assert found.errors == pytest.approx(found.difference / found.error)


def test_no_difference_is_found_five_times_in_a_hundred_at_most() -> None:
    """Where both methods are alike, with noise from seeds and examples, the intervals hold zero often enough."""
    noise = np.random.default_rng(4)
    outside = 0
    for _ in range(400):
        hard = noise.normal(0.0, 1.0, size=60)
        cells = []
        for method, epsilon in (("public", 0.0), ("prism", 4.0)):
            ease = hard + noise.normal(0.0, 0.4, size=60)
            for seed in range(5):
                right = ease + noise.normal(0.0, 0.5) + noise.normal(0.0, 1.0, size=60) > 0.0
                cells.append(_cell(method, seed, right, epsilon=epsilon))
        (found,) = comparisons(cells)
        outside += not found.low <= 0.0 <= found.high
    assert outside <= 400 * 0.05 + 3 * math.sqrt(400 * 0.05 * 0.95)


@pytest.mark.parametrize(
    ("given", "adjusted"),
    [
        ((0.01, 0.04, 0.03, 0.005), (0.03, 0.06, 0.06, 0.02)),
        ((0.5, 0.9), (1.0, 1.0)),
        ((0.02,), (0.02,)),
        ((), ()),
    ],
)
def test_holms_procedure(given: tuple[float, ...], adjusted: tuple[float, ...]) -> None:
    assert holm(given) == pytest.approx(adjusted)


def test_a_family_is_a_data_set_model_and_number_of_demonstrations() -> None:
    def pair(method: str, **where: Any) -> list[CellResult]:
        return [
            _cell(method, seed, [1, 1, seed, 0], epsilon=0.0 if method == "public" else 4.0, **where) for seed in (0, 1)
        ]

    cells = [*pair("public"), *pair("a"), *pair("b"), *pair("public", model="n"), *pair("a", model="n")]
    found = comparisons(cells)
    assert [(one.model, one.method) for one in found] == [("m", "a"), ("m", "b"), ("n", "a")]
    assert {one.p_holm for one in found} == {1.0}  # nothing differs
    assert comparisons(pair("a")) == ()


def test_a_table_marks_what_is_left_after_the_correction() -> None:
    noise = np.random.default_rng(1)
    public = [_cell("public", seed, noise.random(200) < 0.3, epsilon=0.0) for seed in range(5)]
    better = [_cell("better", seed, noise.random(200) < 0.7) for seed in range(5)]
    same = [_cell("same", seed, noise.random(200) < 0.3) for seed in range(5)]
    cells = [*public, *better, *same]
    compared = comparisons(cells)
    text = markdown(summaries(cells), compared)
    assert "Difference to public" in text
    marked = [line for line in text.splitlines() if line.endswith("* |")]
    assert len(marked) == 1
    assert marked[0].startswith("| better | 4 |")
    head, *lines = comparisons_csv(compared).splitlines()
    assert head.startswith("dataset,model,method,epsilon,shots,beside")
    assert len(lines) == 2
