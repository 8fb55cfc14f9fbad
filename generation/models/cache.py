"""A key-value cache that grows in place.

The cache of ``transformers`` joins old and new states anew at every token, which copies all of it: a third
of the time of a step at 32 rows. This one writes into buffers with room for more, and hands out views.
Imported only where a model decodes, since it needs torch.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

__all__ = ["roomy_cache", "widened"]

_ROOM = 64
"""Tokens of room that a buffer is given when it is full."""


class _RoomyLayer(DynamicLayer):
    """One layer's keys and values, (rows, heads, tokens, width), in buffers longer than they are."""

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,  # noqa: ARG002  the signature of transformers
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append the states; returns views of everything so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self._length = 0
            self._key_room = self._value_room = key_states[:, :, :0]
        start, end = self._length, self._length + key_states.shape[-2]
        if end > self._key_room.shape[-2]:
            self._key_room = _grown(self._key_room, key_states, start, end + _ROOM)
            self._value_room = _grown(self._value_room, value_states, start, end + _ROOM)
        self._key_room[:, :, start:end] = key_states
        self._value_room[:, :, start:end] = value_states
        self._length = end
        self.keys, self.values = self._key_room[:, :, :end], self._value_room[:, :, :end]
        return self.keys, self.values


def _grown(room: torch.Tensor, like: torch.Tensor, used: int, length: int) -> torch.Tensor:
    grown = like.new_zeros((*like.shape[:-2], length, like.shape[-1]))
    grown[:, :, :used] = room[:, :, :used]
    return grown


def roomy_cache() -> Cache:
    """An empty cache for one batch that decodes token by token."""
    return Cache(layer_class_to_replicate=_RoomyLayer)


def widened(cache: Cache, copies: int) -> Cache:
    """A new cache with every row ``copies`` times, next to each other; ``cache`` stays as it is."""
    wide = roomy_cache()
    layers: list[Any] = list(cache.layers)  # the kinds without keys are not made by ``roomy_cache``
    for index, layer in enumerate(layers):
        keys, values = layer.keys, layer.values
        if keys is not None and values is not None:
            wide.update(keys.repeat_interleave(copies, dim=0), values.repeat_interleave(copies, dim=0), index)
    return wide
