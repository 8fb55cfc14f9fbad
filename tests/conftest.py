"""What every run of the tests has alike: hypothesis' examples, the entropy, what may be skipped; and a local server.

The server answers as an OpenAI-compatible one of the toy model would, with faults where a test asks.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from support import postgresql as postgres
from support.real_data import skip_without_data
from support.skips import pytest_make_collect_report, pytest_runtest_makereport  # noqa: F401 (hooks)

if TYPE_CHECKING:
    import numpy as np

# The same examples in every run, and no time limits: neither chance nor a slow moment of the machine is a finding.
# `pytest --hypothesis-profile=explore` looks at new ones.
SLOW_MACHINE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", SLOW_MACHINE, derandomize=False)
settings.register_profile("repeat", SLOW_MACHINE, derandomize=True)
settings.load_profile("repeat")


SLOW_SECONDS = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A limit ends what hangs, and no test that takes long on a busy machine."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.timeout(SLOW_SECONDS))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Real data are needed only where a test says so."""
    skip_without_data(item)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[postgres.Server]:
    """A PostgreSQL server, started for the tests that ask for it; in CI it has to be there."""
    found = postgres.programs() if importlib.util.find_spec("psycopg") else None
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(postgres.HOW)
    with postgres.running(found) as server:
        yield server


class ReplayedRandom(random.SystemRandom):
    """``random.SystemRandom`` on what ``os.urandom`` gives now, which the original reads once and for all."""

    def random(self) -> float:
        return (int.from_bytes(os.urandom(7), "big") >> 3) * 2.0**-53

    def getrandbits(self, k: int) -> int:
        return int.from_bytes(os.urandom((k + 7) // 8), "big") >> -k % 8


@pytest.fixture
def same_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system's entropy, replayed: for a test whose outcome is a matter of chance.

    What is tested still draws as in production (``SecureNoise``, ``SystemRandom``); only the bytes are the same in
    every run. Keys, salts and ids (``secrets``) stay fresh.
    """
    import numpy as np

    monkeypatch.setattr(os, "urandom", np.random.Generator(np.random.Philox(2026)).bytes)
    monkeypatch.setattr(random, "SystemRandom", ReplayedRandom)


class Service:
    """The service: ``faults`` (status, headers, content) are given out first, then answers; requests are remembered.

    ``top``: how many tokens are shown; ``edit``: changes what is shown; ``echo``: whether given text is scored.
    ``refuses``: which prompts it answers with status 400, as a server does that reads fewer tokens. ``most``: how many
    requests were answered at once.
    """

    def __init__(self) -> None:
        from affidavit.generation.models.toy import ToyModel

        self.toy = ToyModel()
        self.url = ""
        self.requests: list[tuple[str, dict[str, Any], str | None]] = []
        self.faults: list[tuple[int, dict[str, str], bytes]] = []
        self.top = 20
        self.echo = True
        self.edit: Callable[[dict[str, float]], dict[str, float]] = lambda shown: shown
        self.refuses: Callable[[str], bool] = lambda _: False
        self.most = self.now = 0
        self.lock = threading.Lock()

    def reply(self, path: str, body: dict[str, Any], key: str | None) -> tuple[int, dict[str, str], bytes]:
        with self.lock:
            self.requests.append((path, body, key))
            fault = self.faults.pop(0) if self.faults else None
            self.now += 1
            self.most = max(self.most, self.now)
        try:
            if fault is None and self.refuses(prompt_of(body)):
                fault = (400, {}, b'{"error": "maximum context length"}')
            return fault or (200, {}, json.dumps(self.answer(path, body)).encode())
        finally:
            with self.lock:
                self.now -= 1

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        if path == "/v1/chat/completions":
            user, *begun = body["messages"]
            assert len(begun) == body.get("continue_final_message", False) != body.get("add_generation_prompt", True)
            head, tail = self.toy.frame("chat")
            prompt = head + user["content"] + tail + "".join(message["content"] for message in begun)
            (text,) = self.toy.generate([user["content"]], max_tokens=body["max_tokens"], template="chat")
            choice: dict[str, Any] = {"message": {"role": "assistant", "content": text}}
            if body.get("logprobs"):
                shown = self.edit(self.likely(prompt, min(self.top, body["top_logprobs"])))
                likely = [{"token": name, "logprob": value, "bytes": None} for name, value in shown.items()]
                choice["logprobs"] = {"content": [{**likely[0], "top_logprobs": likely}]}
            return {"choices": [choice]}
        if body.get("echo"):
            return {"choices": [{"text": body["prompt"], "logprobs": self.echoed(body["prompt"])}]}
        choice = {"finish_reason": "length"}
        (choice["text"],) = self.toy.generate([body["prompt"]], max_tokens=body["max_tokens"])
        for stop in body.get("stop", []):
            choice["text"] = choice["text"].partition(stop)[0]
        if "logprobs" in body:
            shown = self.edit(self.likely(body["prompt"], min(self.top, body["logprobs"])))
            choice["logprobs"] = {"top_logprobs": [shown]}
        return {"choices": [choice]}

    def likely(self, prompt: str, count: int) -> dict[str, float]:
        """The likeliest tokens that are text of their own, as a server would name them."""
        values = self._scores(prompt)
        names = {0: "<|im_end|>"} | {token: self.toy.decode([token]) for token in range(3, len(values))}
        named = {name: float(values[token]) for token, name in names.items() if "\ufffd" not in name}
        return dict(sorted(named.items(), key=lambda item: -item[1])[:count])

    def echoed(self, text: str) -> dict[str, Any] | None:
        if not self.echo:
            return None
        decode, tokens = self.toy.decode, self.toy.encode(text)
        values: list[float | None] = [None]
        values += [float(self._scores(decode(tokens[:n]))[tokens[n]]) for n in range(1, len(tokens))]
        return {
            "tokens": [decode([token]) for token in tokens],
            "token_logprobs": values,
            "text_offset": [len(decode(tokens[:count])) for count in range(len(tokens))],
        }

    def _scores(self, prompt: str) -> np.ndarray:
        import numpy as np

        logits = self.toy.start([self.toy.encode(prompt)], width=10_000).logits[0].astype(np.float64)
        return logits - np.logaddexp.reduce(logits)


def prompt_of(body: dict[str, Any]) -> str:
    """The text of a request, whatever its end point."""
    return str(body.get("prompt", "")) or "".join(message["content"] for message in body["messages"])


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A running ``Service`` at ``service.url``, reached without the proxy that the environment may name."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    state = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, content = state.reply(self.path, body, self.headers.get("Authorization"))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
