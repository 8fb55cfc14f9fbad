"""Runs on vLLM, over a small random model: few-shot and AdaDPSyn, which need its log-probabilities, at both end points.

vLLM needs an environment of its own (its torch is not ours): ``AFFIDAVIT_VLLM`` names its program; tests/README.md says
how it was made on a machine without a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from support.served import Served, free_port, prepare, serving, whole_run

PROGRAM = os.environ.get("AFFIDAVIT_VLLM")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="AFFIDAVIT_VLLM names the program of an installed vLLM"),
]
GENERATORS: dict[str, dict[str, Any]] = {
    "few-shot": {
        "mechanism": "gaussian", "noise_multiplier": 1.0, "subsets": 4, "top_k": 10, "sampling": "poisson",
        "max_tokens": 3, "max_record_tokens": 12, "minibatch_rows": 4,
    },
    "adadpsyn": {
        "radius_noise_multiplier": 20.0, "mean_noise_multiplier": 2.0, "count_noise_multiplier": 20.0, "subsets": 4,
        "top_k": 10, "sampling": "poisson", "max_tokens": 2, "max_record_tokens": 12, "minibatch_rows": 4,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder, port = tmp_path_factory.mktemp("vllm"), free_port()
    command = [str(PROGRAM), "serve", str(folder / "model"), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--dtype", "float32", "--max-model-len", "4096", "--max-logprobs", "20", "--enforce-eager"]
    around = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    with serving(command, folder, port=port, environment=around) as found:
        yield found


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("kind", GENERATORS)
def test_certified_generated_and_verified(
    kind: str, endpoint: str, independent: bool, empty_workplace: Any, served: Served
) -> None:
    """Declared independent, it must pass the trial: on this processor it does."""
    settings = {"kind": kind, "labels": ["north", "south"], **GENERATORS[kind]}
    prepare(empty_workplace, served, settings, endpoint=endpoint, independent=independent)
    said = whole_run(empty_workplace, served)
    tried = "declared independent, and 8 public prompts were answered alike alone and at once"
    assert said == "each prompt in a request of its own, " + (tried if independent else "one at a time")
