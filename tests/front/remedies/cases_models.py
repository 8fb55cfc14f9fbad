"""Models: served, missing, or not the one that was certified; the demo's folder; the device."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cases_runs import FEW_SHOT, with_settings
from remedy_cases import Case, Place

from affidavit.generation.models import load_model

GENERATE = "generate run.toml --certificate certificate.json -o out"
OK = b'{"choices": []}'


def _served(change: Callable[[Place, Any], Any] = lambda *_: None, **model: Any) -> Callable[[Place], None]:
    """A certified run on a local server, and what is wrong with it."""

    def arrange(place: Place) -> None:
        service = place.service()
        with_settings({**FEW_SHOT, "noise_multiplier": 20.0, "max_tokens": 1})(place)
        place.set("run.toml", "model", {"name": service.url, "id": "toy", "retries": 0, **model})
        place.keys()
        place.account(epsilon="500")
        place.must("certify", "run.toml", "-o", "certificate.json")
        change(place, service)

    return arrange


def _fault(status: int, content: bytes = b"{}") -> Callable[[Place, Any], None]:
    return lambda _, service: service.faults.append((status, {}, content))


def _nobody(place: Place, _: Any) -> None:
    place.set("run.toml", "model.name", "http://127.0.0.1:9/v1")
    place.must("certify", "run.toml", "-o", "certificate.json")


def _few(_: Place, service: Any) -> None:
    service.top = 5


def _together(_: Place, service: Any) -> None:
    """A server whose numbers follow from what it was asked before."""
    service.edit = lambda shown: {**shown, next(iter(shown)): -1.0 / len(service.requests)}


def _other_folder(place: Place) -> None:
    """Somebody's folder; and no model, so that the demo ends where it would begin."""
    place.write("demo-run/mine.txt", "")
    place.monkeypatch.setattr("affidavit.demo.load_model", lambda *_, **__: load_model("none"))


def _missing_key(place: Place, _: Any) -> None:
    place.monkeypatch.delenv("SERVER_KEY", raising=False)


def _forget(place: Place) -> None:
    """Nothing: a fault is given once."""


def _device(name: str) -> Callable[[Place], None]:
    def arrange(place: Place) -> None:
        place.keys()
        place.set("run.toml", "model.name", "a-folder")
        place.write("a-folder/config.json", json.dumps({"model_type": "llama"}))
        place.monkeypatch.setenv("AFFIDAVIT_DEVICE", name)

    return arrange


CASES = [
    Case("generation/models/served_requests.py:post", GENERATE, _served(_fault(401)), past=True, then=(0, 3)),
    Case("generation/models/served_requests.py:post", GENERATE, _served(_fault(404)), by_hand=_forget),
    Case("generation/models/served_requests.py:_json", GENERATE, _served(_fault(200, b"<html>")), past=True),
    Case("generation/models/served_answers.py:_scores_of", GENERATE, _served(_fault(200, OK)), by_hand=_forget),
    Case("generation/models/served_requests.py:post#2", GENERATE, _served(_nobody), then=()),
    Case("generation/models/openai_server.py:probe", GENERATE, _served(_few), past=True),
    Case("generation/models/openai_server.py:keep_apart", GENERATE, _served(_together, independent=True), then=(0, 3)),
    Case("generation/models/served_requests.py:__init__", GENERATE, _served(_missing_key, api_key_env="SERVER_KEY")),
    Case("front/demo.py:_prepare_folder", "demo --model toy", _other_folder, past=True),
]
