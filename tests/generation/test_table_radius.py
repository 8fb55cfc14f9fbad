"""The radii of ``benchmarks.table_radius``: closed cases, and what a run on the toy model measures."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.release.randomness import SeededNoise
from affidavit.experiments.gridfile import parse_grid
from affidavit.generation.models import load_model
from affidavit.mechanisms.good_radius import average_coverage

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def table() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("benchmarks.table_radius")


def test_the_exact_radius_is_where_the_search_would_end(table: Any) -> None:
    """L(r) of the mechanism reaches t at it, and not below it."""
    rng = np.random.default_rng(5)
    for count in (5, 10, 17):
        points = rng.dirichlet(np.ones(6), size=count)
        volume = int(np.ceil(0.8 * count))
        radius = table.good_radius(points)
        steps = np.rint(points * 2.0**26).astype(np.int64)
        squared = np.square(steps[:, None] - steps[None]).sum(axis=2)
        assert average_coverage(squared, radius=radius + 1e-6, volume=volume) >= volume
        assert average_coverage(squared, radius=radius - 1e-6, volume=volume) < volume
    assert table.good_radius(np.eye(1)) == 0.0
    assert table.good_radius(np.eye(5)) == pytest.approx(np.sqrt(2.0)), "four corners of five lie √2 apart"


def test_the_paper_s_search_has_eight_answers(table: Any) -> None:
    """Three halvings of √2/2 at tolerance 0.1: middles of eighths."""
    answers = sorted({table.on_the_grid(radius) for radius in np.linspace(0.0, 0.8, 200)})
    assert answers == pytest.approx([np.sqrt(0.5) * (2 * n + 1) / 16 for n in range(8)])
    assert table.on_the_grid(0.05) < 0.05 < table.on_the_grid(0.09)


def test_pooled_is_the_least_that_holds_four_fifths(table: Any) -> None:
    assert table.pooled([0.5, 0.1, 0.2, 0.3, 0.4]) == 0.4
    assert table.pooled([0.1] * 4 + [9.0]) == 0.1


def test_a_run_looks_at_every_token(table: Any, tmp_path: Path) -> None:
    words = ["where is the mill", "who won the race", "how far is the harbour", "what is the price of corn"]
    lines = [
        {"id": f"r{n}", "text": f"{words[n % 4]} {n} {words[n % 3]}", "label": "HUM" if n % 2 else "NUM"}
        for n in range(200)
    ]
    for name in ("train", "test"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    trec = {"name": "trec", "task": "trec", "path": "train.jsonl", "size": 200, "test": "test.jsonl"}
    grid = parse_grid(
        {
            "relation": "zero-out", "delta": 1e-4, "epsilon": [4.0], "model": {"name": "toy"},
            "datasets": [{**trec, "labels": ["NUM", "HUM"], "texts": {"max_record_tokens": 12}}],
            "methods": [{"name": "zero-shot", "baseline": "zero-shot"}],
        },
        folder=tmp_path,
    )  # fmt: skip
    run = table.measured(grid, grid.datasets[0], load_model("toy"), tokens=3, noise=0.5, drawn=SeededNoise(3))
    assert 2 <= len(run.exact) == len(run.searched) <= 6
    assert min(run.exact) >= 0.0, "the toy model may begin alike after every prompt"
    assert 0.0 < max(run.exact) < np.sqrt(2.0)
    assert len(run.away) > len(run.exact)
    shown = table.line("trec", [run, run])
    assert shown.startswith(f"| trec | 20 x 2 | {2 * len(run.exact)} | ")
    assert "± 0.00" in shown
