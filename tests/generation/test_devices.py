"""Where a model runs: only where one row cannot move another."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from affidavit.accountant.errors import NotSupported, UsageError
from affidavit.generation.models.transformers_model import TransformersModel, device_wanted


class Rows:
    """Logits that are each row's own sum, plus ``leak`` times everybody's and ``place`` times its place."""

    def __init__(self, rows: list[list[int]], leak: float, place: float) -> None:
        self._sums = np.array([sum(row) for row in rows], dtype=np.float64)
        self._leak, self._place = leak, place

    @property
    def logits(self) -> np.ndarray:
        places = self._place * np.arange(len(self._sums))
        return (self._sums + self._leak * self._sums.sum() + places)[:, None]

    def append(self, tokens: list[int]) -> None:
        self._sums += tokens


class Processor(TransformersModel):
    """A model that mixes rows by ``leak`` as long as more than ``sound`` threads compute."""

    def __init__(self, *, leak: float = 0.0, place: float = 0.0, threads: int = 1, sound: int = 0) -> None:
        self.vocabulary_size, self.name, self.device, self.versions = 500, "a model", "cpu", {}
        self._leak, self._place, self._sound, self.threads = leak, place, sound, threads
        self._torch = SimpleNamespace(get_num_threads=lambda: self.threads, set_num_threads=self._set)

    def _set(self, threads: int) -> None:
        self.threads = threads

    def start(self, rows: list[list[int]], *, width: int) -> Rows:  # type: ignore[override]  # noqa: ARG002
        mixed = self.threads > self._sound
        return Rows(rows, self._leak * mixed, self._place * mixed)


def test_a_processor_that_keeps_rows_apart_is_used_as_it_is() -> None:
    model = Processor(threads=8)
    model._keep_rows_apart()
    assert (model.threads, model.versions) == (8, {})


@pytest.mark.parametrize("fault", [{"leak": 1e-9}, {"place": 1e-9}])
def test_where_several_threads_mix_rows_one_computes(fault: dict[str, float]) -> None:
    model = Processor(**fault, threads=8, sound=1)
    model._keep_rows_apart()
    assert model.threads == 1
    assert model.versions["threads"].startswith("1,")


@pytest.mark.parametrize("fault", [{"leak": 1e-9}, {"place": 1e-9}])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_what_mixes_rows_all_the_same_is_refused(fault: dict[str, float], device: str) -> None:
    model = Processor(**fault, threads=8)
    model.device = device  # type: ignore[assignment]
    with pytest.raises(NotSupported, match="depends on the other rows") as refusal:
        model._keep_rows_apart()
    assert ("AFFIDAVIT_DEVICE" in refusal.value.hint) == (device == "cuda")


def test_the_processor_is_used_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AFFIDAVIT_DEVICE", raising=False)
    assert device_wanted() == "cpu"
    monkeypatch.setenv("AFFIDAVIT_DEVICE", "cuda")
    assert device_wanted() == "cuda"
    monkeypatch.setenv("AFFIDAVIT_DEVICE", "abacus")
    with pytest.raises(UsageError, match="AFFIDAVIT_DEVICE"):
        device_wanted()
