"""Minutes for generators that sample afresh for every token."""

from __future__ import annotations

from typing import Any

import pytest

from affidavit.estimate import minutes_to_run
from affidavit.runfile import parse_run


def _minutes(model: str = "smollm2-135m", **changes: Any) -> float | None:
    generator = {
        "kind": "few-shot",
        "labels": ["a", "b"],
        "noise_multiplier": 1.0,
        "subsets": 32,
        "max_tokens": 20,
        "max_record_tokens": 64,
        **changes,
    }
    run = {
        "relation": "substitution",
        "unit": "record",
        "budget": {"epsilon": 1.0, "delta": 1e-4},
        "data": {"name": "d", "path": "d.jsonl", "size": 2000},
        "model": {"name": model},
        "generator": generator,
    }
    return minutes_to_run(parse_run(run))


def test_fresh_prompts_are_paid_for_every_token() -> None:
    """2 texts x 20 tokens x 32 prompts of 64 + 48 tokens (and 10 written) at 0.55 ms, and the public steps."""
    expected = (5.0 + 2 * (20 * 32 * 122 * 0.55e-3 + 20 * 3.5e-3)) / 60
    assert _minutes() == pytest.approx(expected)
    assert _minutes(sampling="without-replacement") == pytest.approx(expected)


def test_kept_prompts_are_read_once() -> None:
    """At rate 1 every record of the label is kept: 1,000 of them in 32 minibatches of 32."""
    expected = (5.0 + 2 * (1024 * (112 * 0.55e-3 + 20 * 3.5e-3) + 20 * 3.5e-3)) / 60
    assert _minutes(sampling="fixed-groups", subsets=1000) == pytest.approx(expected)


def test_more_of_anything_takes_longer() -> None:
    base = _minutes(sampling="fixed-groups")
    assert base is not None
    for changes in ({"subsets": 64}, {"max_tokens": 40}, {"samples_per_label": 2}, {"max_record_tokens": 128}):
        longer = _minutes(sampling="fixed-groups", **changes)
        assert longer is not None
        assert longer > base


def test_other_models_are_not_guessed() -> None:
    assert _minutes(model="toy") is None
