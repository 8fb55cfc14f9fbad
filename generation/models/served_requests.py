"""Requests to an OpenAI-compatible server: where it is, and POST with retries.

A busy or silent server is asked again, after a wait that doubles or that it asks for; any other refusal is
final. Nothing of a request, and no key, is ever part of an error or a log.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from affidavit.accountant.errors import ModelUnavailable, UsageError
from affidavit.accountant.extras import require
from affidavit.accountant.remedies import setting

__all__ = ["Endpoint", "Requests", "ServerSettings"]

_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT_S = 30.0
_PARALLEL = 8

Endpoint: TypeAlias = Literal["completions", "chat"]


_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where a model is served. ``top_logprobs``: how many tokens the server gives, 0 for text alone; times in seconds.

    ``independent``: whoever wrote the run file declares that the server's answer to a prompt does not depend on what
    it answers at the same time; without that, one prompt is asked at a time.
    """

    url: str
    model: str
    api_key_env: str | None = None
    top_logprobs: int = 20
    context_length: int = 4096
    timeout_s: float = 60.0
    retries: int = 4
    endpoint: Endpoint = "completions"
    independent: bool = False

    @property
    def digest(self) -> str:
        """SHA-256 of the address and the id: it identifies the service, not the weights."""
        return hashlib.sha256(f"affidavit openai server 1\0{self.url.rstrip('/')}\0{self.model}".encode()).hexdigest()


class Requests:
    """POST with retries; answers in the order of the bodies."""

    def __init__(self, settings: ServerSettings, sleep: Callable[[float], None]) -> None:
        require("server", purpose="a served model")
        import httpx2

        headers = {}
        if settings.api_key_env is not None:
            key = os.environ.get(settings.api_key_env, "")
            if not key:
                raise UsageError(
                    f"the environment variable {settings.api_key_env} is not set",
                    hint=f"Set it to the key of {settings.url}: `export {settings.api_key_env}=secret`",
                )
            headers["Authorization"] = f"Bearer {key}"
        self._settings = settings
        self._sleep = sleep
        self._errors = (httpx2.RequestError, httpx2.InvalidURL)
        self._client = httpx2.Client(headers=headers, timeout=settings.timeout_s)

    def each(
        self,
        path: str,
        bodies: Sequence[Mapping[str, Any]],
        read: Callable[[Any], _Read],
        *,
        otherwise: tuple[_Read] | None,
        alone: bool = False,
    ) -> list[_Read]:
        """What ``read`` makes of each answer. One request at a time, unless the server is declared independent.

        ``alone``: one at a time all the same.

        ``otherwise``, for private prompts: holds what counts where one is refused, or its answer is not what was asked
        for. Whether that happens may follow from a record, so it must not end a run. None: it ends it, by an error.
        """

        def asked(body: Mapping[str, Any]) -> _Read:
            if otherwise is None:
                return read(self.post(path, body))
            try:
                return read(self.post(path, body))
            except Exception:  # whatever a private prompt or its answer does, the neighbour's run would go on
                return otherwise[0]

        if alone or not self._settings.independent or len(bodies) < 2:
            return [asked(body) for body in bodies]
        with ThreadPoolExecutor(max_workers=_PARALLEL) as pool:
            return list(pool.map(asked, bodies))

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The server's answer as JSON. Raises ``ModelUnavailable``; a message never holds a part of a request."""
        settings = self._settings
        url = settings.url.rstrip("/") + path
        problem = "no answer"
        for attempt in range(settings.retries + 1):
            wait = min(_LONGEST_WAIT_S, 0.5 * 2.0**attempt)
            try:
                response = self._client.post(url, json={"model": settings.model, **body})
            except self._errors as error:
                problem = type(error).__name__
            else:
                if response.status_code == 200:
                    return _json(response, url)
                problem = f"status {response.status_code}"
                if response.status_code not in _RETRIED:
                    raise ModelUnavailable(f"{url}: {problem}", hint=_advice(response.status_code, settings))
                wait = _retry_after(response.headers.get("retry-after"), wait)
            if attempt < settings.retries:
                self._sleep(wait)
        raise ModelUnavailable(
            f"{url}: {problem}, {settings.retries + 1} times",
            hint=_patience(settings),
        )


def _patience(settings: ServerSettings) -> str:
    """Longer than it was waited for, as far as a run file may say."""
    longer, more = min(3600.0, 2.0 * settings.timeout_s), min(20, settings.retries + 4)
    return (
        f"Start the server, or wait longer: {setting('model.timeout_s', longer)} and {setting('model.retries', more)}"
    )


def _json(response: Any, url: str) -> Any:
    try:
        return response.json()
    except ValueError:
        raise ModelUnavailable(
            f"{url}: not JSON",
            hint='Name an OpenAI-compatible server, up to its /v1: `model.name = "http://localhost:8000/v1"`',
        ) from None


def _advice(status: int, settings: ServerSettings) -> str:
    if status in (401, 403):
        return 'Name the environment variable that holds the key, such as `model.api_key_env = "OPENAI_API_KEY"`.'
    if status == 404:
        return "[model] name is the address up to and with /v1, id one of the models that it serves."
    return (
        f"The server refused the request. It may give fewer than {settings.top_logprobs} log-probabilities "
        "(top_logprobs), serve no model of this id, or read fewer tokens."
    )


def _retry_after(header: str | None, otherwise: float) -> float:
    try:
        asked = float(header or "")
    except ValueError:
        return otherwise
    return min(_LONGEST_WAIT_S, asked) if asked >= 0.0 else otherwise
