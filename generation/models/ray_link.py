"""A worker in a Ray actor, on this machine or another one of a cluster.

Ray may keep what passes through it: arguments and results in its object store, which spills to disks, and on the wire
between machines, which is not encrypted by itself. So messages are sealed: keys are agreed on by X25519 (RFC 7748) and
HKDF for each actor, and each message is AES-GCM with its place in the order as the nonce. Ray then holds ciphertext
alone, whose keys are in two processes and end with them; a message that came a second time would not open. That keeps
text from whoever reads Ray's files, not from whoever may start tasks in the cluster: those run code where they like.

Nothing is done again by Ray (no restarts, no retries): a worker that is lost is replaced by whoever holds the permit.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
from collections import deque
from collections.abc import Callable
from typing import Any

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from affidavit.accountant.extras import require
from affidavit.generation.models.worker import ANSWERED, Answer, Worker

__all__ = ["RayLink"]


class RayLink:
    """See ``pooled.Link``. On a GPU each actor has one of its own."""

    kind = "Ray actors"

    def __init__(self, load: dict[str, Any], share: int, number: int = 0) -> None:  # noqa: ARG002  Ray places it
        self._ray = _cluster()
        device = os.environ.get("AFFIDAVIT_DEVICE", "cpu")
        actor = self._ray.remote(_Actor).options(
            max_restarts=0,
            max_task_retries=0,
            num_cpus=1 if "RAY_ADDRESS" in os.environ else 0,
            num_gpus=0 if device == "cpu" else 1,
        )
        own = X25519PrivateKey.generate()
        self._actor = actor.remote(load, share, device)
        self._hello = self._actor.hello.remote(own.public_key().public_bytes_raw())
        self._own = own
        self._sealed: tuple[_Sealed, _Sealed] | None = None
        self._asked: deque[Any] = deque()
        self.pid = 0
        self.alive = True

    def send(self, message: tuple[Any, ...]) -> None:
        if self._sealed is None:
            theirs, self.pid = self._got(self._hello)
            self._sealed = _agreed(self._own, theirs)
        sealed = self._sealed[0].shut(message)
        result = self._given(lambda: self._actor.do.remote(sealed))
        if message[0] in ANSWERED:
            self._asked.append(result)

    def receive(self) -> Answer:
        answer: Answer = self._sealed[1].open(self._got(self._asked.popleft()))  # type: ignore[index]  # it was sent
        return answer

    def end(self) -> None:
        self.alive = False
        with contextlib.suppress(EOFError):
            self._given(lambda: self._ray.kill(self._actor))

    def _got(self, reference: Any) -> Any:
        return self._given(lambda: self._ray.get(reference))

    def _given(self, ask: Callable[[], Any]) -> Any:
        """Whatever Ray says against it means that the worker is lost."""
        try:
            if self._ray.is_initialized():  # it would begin a cluster of its own
                return ask()
        except Exception:  # Ray raises a bare one where an actor is not known any more
            self.alive = False
        raise EOFError


class _Actor:
    """What Ray runs: a worker behind sealed messages."""

    def __init__(self, load: dict[str, Any], share: int, device: str) -> None:
        os.environ["AFFIDAVIT_DEVICE"] = device  # another machine does not have ours
        self._worker = Worker(load, share)

    def hello(self, theirs: bytes) -> tuple[bytes, int]:
        own = X25519PrivateKey.generate()
        self._in, self._out = _agreed(own, theirs)
        return own.public_key().public_bytes_raw(), os.getpid()

    def do(self, sealed: bytes) -> bytes | None:
        command, *given = self._in.open(sealed)
        answer = self._worker.answer(command, *given)
        return self._out.shut(answer) if command in ANSWERED else None


class _Sealed:
    """Messages one way, in their order."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)
        self._count = 0

    def shut(self, message: object) -> bytes:
        return self._cipher.encrypt(self._nonce(), pickle.dumps(message, pickle.HIGHEST_PROTOCOL), None)

    def open(self, sealed: bytes) -> Any:
        return pickle.loads(self._cipher.decrypt(self._nonce(), sealed, None))  # noqa: S301 - shut by who has the key

    def _nonce(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(12, "big")


def _agreed(own: X25519PrivateKey, theirs: bytes) -> tuple[_Sealed, _Sealed]:
    """Messages to the worker, and back."""
    secret = own.exchange(X25519PublicKey.from_public_bytes(theirs))
    keys = HKDF(algorithm=SHA256(), length=64, salt=None, info=b"affidavit worker 1").derive(secret)
    return _Sealed(keys[:32]), _Sealed(keys[32:])


def _cluster() -> Any:
    """Ray, connected to the cluster that ``RAY_ADDRESS`` names, else to one of this machine's own.

    Its own counts no processors: whoever asks for workers said how many, and may ask for more of them later.
    """
    require("cluster", purpose="a worker in a Ray actor")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # read by Ray: it reports nothing to its makers
    import ray

    if not ray.is_initialized():
        named = os.environ.get("RAY_ADDRESS")
        own = {} if named else {"num_cpus": 1, "include_dashboard": False}
        ray.init(address=named or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    return ray
