"""Runs on a server that we did not write: `transformers serve`, over a small random model, at both end points.

It shows text alone and no log-probabilities, so it writes for ``ksa`` and ``sga``; what needs more is refused there
before anything is charged, and runs on vLLM (``test_vllm_server.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest

from affidavit.accountant.errors import ModelUnavailable
from affidavit.generation.models import load_model
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.served_requests import ServerSettings
from support.served import RECORDS, WORDS, Served, free_port, prepare, serving, whole_run

SERVE = "import sys; from transformers.cli.transformers import main; sys.argv[0] = 'transformers'; main()"
GENERATORS: dict[str, dict[str, Any]] = {
    "ksa": {
        "labels": ["north", "south"], "mechanism": "joint-exponential", "keywords": 2, "keyword_epsilon": 2.0,
        "use_public": True, "subsets": 6, "sampling": "disjoint", "max_answer_tokens": 3, "max_tokens": 3,
        "max_record_tokens": 12, "minibatch_rows": 4,
    },
    "sga": {
        "queries": ["which way"], "ensemble": 4, "shots": 1, "candidates": 2, "selection": "generate",
        "embedding": "toy", "max_tokens": 3, "max_record_tokens": 12, "minibatch_rows": 4,
        "dpm": {
            "dimensions": 3, "radius": 0.8, "interval": 0.2, "levels": 2, "smallest": 2.0, "split_range": 1.0,
            "count_noise_multiplier": 2.0, "centre_noise_multiplier": 2.0,
        },
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, port = tmp_path_factory.mktemp("served"), free_port()
    command = [sys.executable, "-c", SERVE, "serve", "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with serving([*command, str(folder / "model")], folder, port=port, environment={}) as found:
        yield found


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("kind", GENERATORS)
def test_certified_generated_and_verified(kind: str, endpoint: str, empty_workplace: Any, served: Served) -> None:
    prepare(empty_workplace, served, {"kind": kind, **GENERATORS[kind]}, endpoint=endpoint)
    assert whole_run(empty_workplace, served) == "each prompt in a request of its own, one at a time"


def test_a_server_without_log_probabilities_is_refused_where_they_are_needed(served: Served) -> None:
    for endpoint in ("completions", "chat"):
        settings = ServerSettings(url=served.url, model=served.model, top_logprobs=5, retries=0, endpoint=endpoint)  # type: ignore[arg-type]
        with pytest.raises(ModelUnavailable, match="no log-probabilities") as refused:
            load_model(served.url, server=settings)
        assert "text only" in refused.value.hint


def test_the_beginning_of_an_answer_is_gone_on_with_or_said_by_the_user(served: Served) -> None:
    model = load_model(
        served.url, server=ServerSettings(url=served.url, model=served.model, top_logprobs=0, endpoint="chat")
    )
    first, again = (model.generate([RECORDS[1]], max_tokens=4, template="chat") for _ in range(2))
    assert first == again
    assert set(first[0].split()) <= {*WORDS, "<s>"}


def test_declared_independent_it_is_tried_by_its_words(served: Served) -> None:
    settings = ServerSettings(url=served.url, model=served.model, top_logprobs=0, independent=True)
    model = load_model(served.url, server=settings)
    model.keep_apart([BatchShape(4, 12, 3)])
    assert model.versions["rows"].endswith("8 public prompts were answered alike alone and at once")
