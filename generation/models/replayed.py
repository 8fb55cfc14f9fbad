"""Decoding on an accelerator: the step of one token, recorded once as a CUDA graph and replayed.

A step of a small model is a thousand kernels of a few microseconds, and starting them one by one takes longer than
running them. A ``Step`` keeps everything that they read and write in buffers of its own (the cache as long as it may
become, the mask, the place of the next token), so that one recording serves every token of every batch of its shape.
What does not change from token to token is the shape: all steps of a batch run the same kernels, whatever it holds.

Each step has a stream of its own: the minibatches of a batch, and its public prompt, are computed side by side.
On a processor nothing is recorded and the same step is computed plainly, which is how tests see it.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol, cast

import torch
from transformers.cache_utils import Cache, DynamicLayer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from affidavit.generation.models.base import Logits

__all__ = ["Forward", "Replayed", "Steps", "replayable"]

_ROOM = 64
"""Tokens of room behind a prompt, and the step by which lengths grow: few shapes, so few recordings."""

_MOST_IDLE = 16
"""Recorded steps that are kept for the next batch; the one not used for longest goes."""


class Forward(Protocol):
    """The model's logits, shape (rows, keep, vocabulary)."""

    def __call__(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, *, cache: object, keep: int
    ) -> torch.Tensor: ...


def replayable(config: Any) -> bool:
    """Whether every layer attends to everything before, so that one mask and one place serve all of them."""
    kinds = getattr(config, "layer_types", None)
    if kinds is not None:
        return set(kinds) == {"full_attention"}
    return getattr(config, "sliding_window", None) is None or getattr(config, "use_sliding_window", True) is False


class _PlacedLayer(DynamicLayer):
    """Keys and values in buffers of a fixed length; a token's states go to ``place``, a number on the device."""

    def hold(self, like_keys: torch.Tensor, like_values: torch.Tensor, length: int, place: torch.Tensor) -> None:
        self.lazy_initialization(like_keys, like_values)
        self.keys = like_keys.new_zeros((*like_keys.shape[:2], length, like_keys.shape[-1]))
        self.values = like_values.new_zeros((*like_values.shape[:2], length, like_values.shape[-1]))
        self._place = place

    def load(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Begin with these states. All else becomes zero: a masked value counts 0 times, and 0 x NaN is NaN."""
        for buffer, states in zip(self._buffers(), (keys, values), strict=True):
            buffer.zero_()
            buffer[:, :, : states.shape[2]].copy_(states)

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,  # noqa: ARG002  the signature of transformers
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the states of one token; returns the whole buffers."""
        kept, seen = self._buffers()
        kept.index_copy_(2, self._place, key_states)
        seen.index_copy_(2, self._place, value_states)
        return kept, seen

    def _buffers(self) -> tuple[torch.Tensor, torch.Tensor]:
        keys: Any = self.keys
        values: Any = self.values
        return keys, values

    def first(self, used: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The states of the first ``used`` tokens."""
        keys, values = self._buffers()
        return keys[:, :, :used], values[:, :, :used]


class _Step:
    """The buffers of ``rows`` rows of at most ``length`` tokens, and the recorded step over them."""

    def __init__(self, forward: Forward, like: Cache, rows: int, length: int, vocabulary: int) -> None:
        first, _ = _states(like.layers[0])
        device = first.device
        self.length = length
        self._forward = forward
        self._ids = torch.zeros((rows, 1), dtype=torch.long, device=device)
        self._positions = torch.zeros((rows, 1), dtype=torch.long, device=device)
        self._place = torch.zeros(1, dtype=torch.long, device=device)
        self._mask = torch.full((rows, 1, 1, length), torch.finfo(first.dtype).min, dtype=first.dtype, device=device)
        self.logits = torch.zeros((rows, vocabulary), dtype=torch.float32, device=device)
        self._cache = Cache(layer_class_to_replicate=_PlacedLayer)
        self._layers: list[_PlacedLayer] = []
        for layer in like.layers:
            held = _PlacedLayer()
            held.hold(*_states(layer), length, self._place)
            self._layers.append(held)
        cast("Any", self._cache).layers = list(self._layers)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None

    def record(self) -> None:
        """Once plainly, so that libraries set up what they need, then into the graph. No-op on a processor."""
        if self._stream is None:
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._compute()
        torch.cuda.current_stream().wait_stream(self._stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            self._compute()
        self._graph = graph

    def load(
        self, states: Sequence[tuple[torch.Tensor, torch.Tensor]], mask: torch.Tensor, after: torch.Tensor
    ) -> None:
        """``states``: keys and values of every layer; ``mask``: which tokens of each row there are, (rows, tokens);
        ``after``: the position of each row's next token, (rows, 1)."""
        self._ahead()
        for layer, (keys, values) in zip(self._layers, states, strict=True):
            layer.load(keys, values)
        used = mask.shape[1]
        self._mask.fill_(torch.finfo(self._mask.dtype).min)
        self._mask[:, 0, 0, :used].masked_fill_(mask.bool(), 0.0)
        self._positions.copy_(after)
        self._place.fill_(used)

    def states(self, used: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """What ``load`` takes: the states of the first ``used`` tokens."""
        return [layer.first(used) for layer in self._layers]

    def present(self, used: int) -> torch.Tensor:
        """Which of the first ``used`` tokens of each row there are, and the position after them."""
        return self._mask[:, 0, 0, :used] == 0.0

    @property
    def after(self) -> torch.Tensor:
        """The position of each row's next token."""
        return self._positions

    def run(self, tokens: Sequence[int]) -> None:
        """One more token for every row; ``logits`` are those after it, once ``wait`` was called."""
        fed = torch.tensor(tokens, dtype=torch.long).reshape(-1, 1)
        if self._stream is None or self._graph is None:
            self._ids.copy_(fed)
            self._compute()
            return
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            self._ids.copy_(fed)
            self._graph.replay()

    def wait(self) -> None:
        """What follows on the current stream waits for the step."""
        if self._stream is not None:
            torch.cuda.current_stream().wait_stream(self._stream)

    _ahead = wait

    def _compute(self) -> None:
        self._mask.index_fill_(3, self._place, 0.0)
        logits = self._forward(self._ids, self._mask, self._positions, cache=self._cache, keep=1)
        self.logits.copy_(logits[:, -1])
        self._place.add_(1)
        self._positions.add_(1)


class Steps:
    """The recorded steps of one model: those in use belong to their batch, the others wait for the next."""

    def __init__(self, forward: Forward, vocabulary: int) -> None:
        self._forward = forward
        self._vocabulary = vocabulary
        self._idle: deque[tuple[tuple[int, int], _Step]] = deque()

    def take(self, like: Cache, rows: int, tokens: int) -> _Step:
        """A step for ``rows`` rows with room behind ``tokens`` tokens. Runs under ``inference_mode``."""
        length = -(-(tokens + _ROOM) // _ROOM) * _ROOM
        for index, (shape, step) in enumerate(self._idle):
            if shape == (rows, length):
                del self._idle[index]
                return step
        step = _Step(self._forward, like, rows, length, self._vocabulary)
        step.record()
        return step

    def give_back(self, step: _Step) -> None:
        """The batch is done."""
        self._idle.append(((step.logits.shape[0], step.length), step))
        if len(self._idle) > _MOST_IDLE:
            self._idle.popleft()


class Replayed:
    """A batch that was prefilled into ``cache`` and goes on by recorded steps.

    ``mask`` (rows, tokens) tells which tokens there are, ``after`` (rows, 1) the position of the next, ``logits``
    (rows, vocabulary) the prefill's.
    """

    def __init__(
        self, steps: Steps, cache: Cache, *, mask: torch.Tensor, after: torch.Tensor, logits: torch.Tensor
    ) -> None:
        self._steps = steps
        self._first: torch.Tensor | None = logits
        self._used = mask.shape[1]
        with torch.inference_mode():
            self._take(cache, [_states(layer) for layer in cache.layers], mask, after)

    def _take(
        self, like: Cache, states: Sequence[tuple[torch.Tensor, torch.Tensor]], mask: torch.Tensor, after: torch.Tensor
    ) -> None:
        step = self._steps.take(like, mask.shape[0], self._used)
        step.load(states, mask, after)
        self._step = step
        self._returns: weakref.finalize[Any, Any] = weakref.finalize(self, self._steps.give_back, step)
        self._returns.atexit = False

    @property
    def device_logits(self) -> torch.Tensor:
        """Next-token logits (rows, vocabulary), float32, where they were computed; until the next ``append``."""
        if self._first is not None:
            return self._first
        self._step.wait()
        return self._step.logits

    @property
    def logits(self) -> Logits:
        return cast("NDArray[np.float32]", self.device_logits.cpu().numpy().copy())

    def append(self, tokens: Sequence[int]) -> None:
        with torch.inference_mode():
            if self._used == self._step.length:
                self._lengthen()
            self._step.run(tokens)
        self._first = None
        self._used += 1

    def _lengthen(self) -> None:
        """Go on with a longer step; the full one is free."""
        full, returns = self._step, self._returns
        full.wait()
        self._take(full._cache, full.states(self._used), full.present(self._used), full.after)
        returns()


def _states(layer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    return layer.keys, layer.values
