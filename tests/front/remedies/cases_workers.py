"""Several processes that compute private rows, and what they may not do."""

from __future__ import annotations

import os
import signal

from remedy_cases import Api, Case, Place

from affidavit.generation.models.pooled import PooledModel
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.toy import ToyModel


def _no_number(place: Place) -> None:
    place.certified()
    place.monkeypatch.setenv("AFFIDAVIT_WORKERS", "two")


def _computed(*, dies: bool = False, row: tuple[object, ...] = (5, 6, 7)) -> object:
    model = PooledModel(ToyModel(), load={"name": "toy", "dtype": "auto", "base": None}, workers=1)
    away = model.start_apart([row], width=8, steps=2)  # type: ignore[list-item]
    (worker,) = model._workers
    if dies:
        post = worker.post

        def dying(command: str, *given: object, life: int | None = None) -> object:
            os.kill(worker.pid, signal.SIGKILL)
            return post(command, *given, life=life)

        worker.post = dying  # type: ignore[method-assign]
    return away.logits


def _apart(*, other: bool) -> None:
    model = PooledModel(ToyModel(), load={"name": "toy", "dtype": "auto", "base": None}, workers=1)
    if other:
        model.digest = "0" * 64
    model.keep_apart([BatchShape(2, 8, 2)])


CASES = [
    Case("generation/models/pooled.py:workers_wanted",
         "generate run.toml --certificate certificate.json -o out", _no_number),
]  # fmt: skip
API = [
    Api("generation/models/member.py:insist", _computed, {"dies": True}, by_hand={"dies": False}),
    Api("generation/models/pooled.py:keep_apart", _apart, {"other": True}, by_hand={"other": False}),
    Api("generation/models/member.py:_answer", _computed, {"row": ("a word",)}, by_hand={"row": (5,)}),
]
