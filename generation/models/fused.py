"""Fewer kernels for the same step, on an accelerator: a small model's step is a thousand of a few microseconds each.

A norm becomes one kernel. Of attention, the three projections become one product, and queries and keys are turned by
their positions together (Su et al., "RoFormer", 2021: x cos + (−x₂, x₁) sin for halves x₁, x₂). Only a module whose own
result this reproduces, up to the rounding of its dtype, is replaced: variants that scale by one plus their weight, that
norm their queries or pair other coordinates stay as they are. All of it reduces within a row.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

__all__ = ["fuse_attention", "fuse_norms"]

_TRIED_ROWS = 4
_TRIED_TOKENS = 6
_PROJECTIONS = ("q_proj", "k_proj", "v_proj")


def fuse_norms(model: nn.Module) -> int:
    """Replace the root-mean-square norms of ``model`` that ``rms_norm`` reproduces; how many."""
    replaced = 0
    for module in model.modules():
        weight, epsilon = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
        if not isinstance(weight, nn.Parameter) or weight.dim() != 1 or not isinstance(epsilon, float):
            continue
        fused = partial(_norm, weight, epsilon)
        states = _numbers(_TRIED_ROWS, weight.shape[0], like=weight)
        tried = _both(module, fused, partial(_of, states))
        if tried is not None and bool(
            ((tried[0] - tried[1]).abs() <= 4.0 * _eps(weight) * (tried[0].abs() + 1e-6)).all()
        ):
            module.forward = fused
            replaced += 1
    return replaced


def fuse_attention(model: nn.Module) -> int:
    """Replace the attentions of ``model`` that ``_Attention`` reproduces; how many."""
    known: dict[Any, bool] = {}
    replaced = 0
    found: list[Any] = [module for module in model.modules() if _may_be_attention(module)]
    for module in found:
        kind = (type(module), module.head_dim, module.q_proj.weight.shape, module.k_proj.weight.shape)
        if kind not in known:
            known[kind] = _attends_alike(module)
        if known[kind]:
            fused = _Attention(module)
            fused.share_weights()
            module.forward = fused
            replaced += 1
    return replaced


def _norm(weight: torch.Tensor, epsilon: float, states: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(states, weight.shape, weight, epsilon)


def _may_be_attention(module: nn.Module) -> bool:
    """Four plain projections and nothing else, with what tells how to read them."""
    children = dict(module.named_children())
    return (
        set(children) == {*_PROJECTIONS, "o_proj"}
        and all(type(child) is nn.Linear for child in children.values())
        and len({children[name].bias is None for name in _PROJECTIONS}) == 1
        and all(hasattr(module, name) for name in ("head_dim", "scaling", "num_key_value_groups", "layer_idx"))
        and getattr(getattr(module, "config", None), "_attn_implementation", None) == "sdpa"
    )


class _Attention:
    """Attention of one layer from one product for queries, keys and values."""

    def __init__(self, module: Any) -> None:
        parts = [getattr(module, name) for name in _PROJECTIONS]
        self._module = module
        self._weight = torch.cat([part.weight.detach() for part in parts])
        self._bias = None if parts[0].bias is None else torch.cat([part.bias.detach() for part in parts])
        self._heads = [part.out_features // module.head_dim for part in parts]
        half = module.head_dim // 2
        self._sign = torch.ones_like(self._weight[0, :1]).repeat(module.head_dim)
        self._sign[:half] = -1.0

    def share_weights(self) -> None:
        """Let the module's projections be views of the joint one, so that nothing is held twice."""
        place = 0
        for name in _PROJECTIONS:
            part = getattr(self._module, name)
            part.weight = nn.Parameter(self._weight[place : place + part.out_features], requires_grad=False)
            if self._bias is not None:
                part.bias = nn.Parameter(self._bias[place : place + part.out_features], requires_grad=False)
            place += part.out_features

    def __call__(
        self,
        hidden_states: torch.Tensor,
        position_embeddings: tuple[torch.Tensor, torch.Tensor],
        attention_mask: torch.Tensor | None = None,
        cache: Any = None,
        past_key_values: Any = None,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, None]:
        module, (queries, keys, _) = self._module, self._heads
        shape = hidden_states.shape[:-1]
        joint = nn.functional.linear(hidden_states, self._weight, self._bias)
        joint = joint.view(*shape, -1, module.head_dim).transpose(1, 2)
        turned, value = joint[:, : queries + keys], joint[:, queries + keys :]
        cos, sin = position_embeddings
        swapped = turned.roll(module.head_dim // 2, dims=-1)
        turned = torch.addcmul(turned * cos.unsqueeze(1), swapped, (sin * self._sign).unsqueeze(1))
        query, key = turned[:, :queries], turned[:, queries:]
        held = cache if cache is not None else past_key_values
        if held is not None:
            key, value = held.update(key, value, module.layer_idx)
        return module.o_proj(self._attend(query, key, value, attention_mask, **kwargs).reshape(*shape, -1)), None

    def _attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, **kwargs: Any
    ) -> torch.Tensor:
        """Of one token, the heads that share keys are read as its tokens: nothing of the cache is copied."""
        module, (queries, keys, _) = self._module, self._heads
        if query.shape[2] == 1 and (mask is None or mask.shape[1] == 1):
            packed = query.reshape(query.shape[0], keys, queries // keys, module.head_dim)
            return nn.functional.scaled_dot_product_attention(packed, key, value, attn_mask=mask, scale=module.scaling)
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        found: torch.Tensor = sdpa_attention_forward(module, query, key, value, mask, scaling=module.scaling, **kwargs)[
            0
        ]
        return found


def _attends_alike(module: Any) -> bool:
    """Whether a copy in float32 makes the same of rows with positions of their own, each token of what is before it."""
    from transformers import DynamicCache

    plain = copy.deepcopy(module).float()
    argument = "cache" if "cache" in inspect.signature(plain.forward).parameters else "past_key_values"
    like = plain.q_proj.weight
    states = _numbers(_TRIED_ROWS, _TRIED_TOKENS, plain.q_proj.in_features, like=like)
    places = torch.arange(_TRIED_ROWS, device=like.device)[:, None] + torch.arange(_TRIED_TOKENS, device=like.device)
    speeds = 0.7 ** torch.arange(plain.head_dim // 2, device=like.device)
    angles = (places[..., None] * speeds).repeat(1, 1, 2)
    later = torch.ones((_TRIED_TOKENS, _TRIED_TOKENS), device=like.device).triu(1).bool()
    mask = torch.zeros_like(later, dtype=like.dtype).masked_fill(later, torch.finfo(like.dtype).min)
    mask = mask.expand(_TRIED_ROWS, 1, -1, -1)
    last = _TRIED_TOKENS - 1

    def attended(way: Callable[..., Any]) -> torch.Tensor:
        """All tokens but the last together, and the last by itself."""
        cache, found = DynamicCache(), []
        for tokens in (slice(0, last), slice(last, None)):
            turn = angles[:, tokens].cos(), angles[:, tokens].sin()
            seen = mask[:, :, tokens, : tokens.stop]
            found.append(way(states[:, tokens], position_embeddings=turn, attention_mask=seen, **{argument: cache})[0])
        return torch.cat(found, dim=1)

    tried = _both(plain, _Attention(plain), attended)
    return tried is not None and bool((tried[0] - tried[1]).abs().max() <= 1e-4 * tried[0].abs().max())


def _of(states: torch.Tensor, way: Callable[..., Any]) -> torch.Tensor:
    found: torch.Tensor = way(states)
    return found


def _numbers(*shape: int, like: torch.Tensor) -> torch.Tensor:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3.0
    return numbers.to(device=like.device, dtype=like.dtype)


def _eps(like: torch.Tensor) -> float:
    return torch.finfo(like.dtype).eps


def _both(
    module: nn.Module, fused: Callable[..., Any], tried: Callable[[Callable[..., Any]], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor] | None:
    """What both make of what is tried; None where the module takes something else, or makes another shape."""
    with torch.inference_mode():
        try:
            own, other = tried(module), tried(fused)
        except (RuntimeError, TypeError):
            return None
    return (own, other) if own.shape == other.shape and own.dtype == other.dtype else None
