"""Where a model runs: only where one row cannot move another."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from affidavit.accountant.errors import NotSupported, UsageError
from affidavit.generation.models.transformers_model import TransformersModel, device_wanted


class Rows:
    """Logits that are each row's own sum, plus ``leak`` times everybody's."""

    def __init__(self, rows: list[list[int]], leak: float) -> None:
        self._sums = np.array([sum(row) for row in rows], dtype=np.float64)
        self._leak = leak

    @property
    def logits(self) -> np.ndarray:
        return (self._sums + self._leak * self._sums.sum())[:, None]

    def append(self, tokens: list[int]) -> None:
        self._sums += tokens


def model(leak: float) -> SimpleNamespace:
    return SimpleNamespace(
        vocabulary_size=500,
        name="a model",
        versions={"device": "a device"},
        start=lambda rows, width: Rows(rows, leak),  # noqa: ARG005
    )


def test_a_device_that_keeps_rows_apart_is_used() -> None:
    TransformersModel._check_rows_apart(model(0.0))


def test_a_device_that_mixes_rows_is_refused() -> None:
    with pytest.raises(NotSupported, match="depends on the other rows"):
        TransformersModel._check_rows_apart(model(1e-9))


def test_the_processor_is_used_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AFFIDAVIT_DEVICE", raising=False)
    assert device_wanted() == "cpu"
    monkeypatch.setenv("AFFIDAVIT_DEVICE", "cuda")
    assert device_wanted() == "cuda"
    monkeypatch.setenv("AFFIDAVIT_DEVICE", "abacus")
    with pytest.raises(UsageError, match="AFFIDAVIT_DEVICE"):
        device_wanted()
