"""Minutes for generators that sample afresh for every token, and for those that ask for whole answers."""

from __future__ import annotations

from typing import Any

import pytest

from affidavit.estimate import minutes_to_run
from affidavit.runfile import parse_run


def _minutes(model: str = "smollm2-135m", **changes: Any) -> float | None:
    """``None`` as a change takes the key out."""
    table = {
        "kind": "few-shot",
        "labels": ["a", "b"],
        "noise_multiplier": 1.0,
        "subsets": 32,
        "max_tokens": 20,
        "max_record_tokens": 64,
        **changes,
    }
    generator = {key: value for key, value in table.items() if value is not None}
    run = {
        "relation": "substitution",
        "unit": "record",
        "budget": {"epsilon": 1.0, "delta": 1e-4},
        "data": {"name": "d", "path": "d.jsonl", "size": 2000, "public": "p.jsonl"},
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


QUESTION = {"kind": "ksa-answers", "labels": None, "queries": ["why", "how"], "top_k": 40, "noise_multiplier": None}


def test_keywords_are_counted_in_whole_answers() -> None:
    """2 texts and 2 topics x 32 prompts of 64 + 48 tokens and 24 written; 20 tokens a text."""
    keywords = {"kind": "ksa", "noise_multiplier": None, "use_public": True, "top_k": 40}
    read, written = 112 * 0.55e-3, 24 * 3.5e-3
    assert _minutes(**keywords) == pytest.approx((5.0 + 4 * 32 * (read + written) + 2 * 20 * 3.5e-3) / 60)
    assert _minutes(**{**keywords, "use_public": False}) == pytest.approx(
        (5.0 + 2 * 32 * (read + written) + 2 * 20 * 3.5e-3) / 60
    )
    longer = (5.0 + 2 * 32 * ((112 + 24) * 0.55e-3 + written) + 2 * 20 * 3.5e-3) / 60
    assert _minutes(**QUESTION) == pytest.approx(longer), "answers are shown with their questions"


def test_an_ensemble_answers_as_often_from_public_records() -> None:
    """3 queries x 2 x 16 rows (12 fill a minibatch of 16) of 2 shots of 84 tokens, a query and 48, and 20 written."""
    asked = {"queries": ["a", "b", "c"], "ensemble": 12, "shots": 2, "labels": None, "subsets": None}
    other = {"kind": "sga", "noise_multiplier": None, "embedding": "toy"}
    rows = 32 * ((2 * 84 + 64 + 48) * 0.55e-3 + 20 * 3.5e-3)
    assert _minutes(**asked, **other) == pytest.approx((5.0 + 3 * rows) / 60)
