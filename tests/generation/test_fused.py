"""Only norms and attentions that the fewer kernels reproduce are replaced by them."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from affidavit.generation.models.fused import fuse_attention, fuse_norms  # noqa: E402


class Plain(torch.nn.Module):  # type: ignore[misc, name-defined]
    """x / rms(x) times the weight, or times one plus it."""

    def __init__(self, size: int, *, offset: float = 0.0, dtype: object = torch.float32) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, size).to(dtype))
        self.variance_epsilon = 1e-5
        self.offset = offset

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        wide = states.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (self.offset + self.weight) * scaled.to(states.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_plain_norm_is_replaced_and_computes_the_same(dtype: object) -> None:
    model = torch.nn.Sequential(Plain(48, dtype=dtype), torch.nn.Linear(48, 48).to(dtype), Plain(48, dtype=dtype))
    states = torch.randn((3, 48)).to(dtype)
    before = model(states)
    assert fuse_norms(model) == 2
    assert torch.allclose(before, model(states), atol=1e-6 if dtype == torch.float32 else 0.1)
    rows = torch.randn((5, 48)).to(dtype)
    assert torch.equal(model[0](rows)[:4], model[0](torch.cat([rows[:4], rows[:1] * 9]))[:4])


def test_other_norms_stay_as_they_are() -> None:
    class More(Plain):
        def forward(self, states: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
            return super().forward(states) * gate

    model = torch.nn.Sequential(Plain(8, offset=1.0), More(8), torch.nn.LayerNorm(8))
    assert fuse_norms(model) == 0


def test_the_norms_of_a_llama_are_replaced() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2
    )
    model = transformers.LlamaForCausalLM(config).eval()
    tokens = torch.tensor([[1, 2, 3]])
    before = model(tokens).logits
    assert fuse_norms(model) == 5
    assert torch.allclose(before, model(tokens).logits, atol=1e-5)


def _causal(kind: str, **settings: object) -> object:
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": 60, "hidden_size": 48, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 6, "num_key_value_heads": 2}
    config = getattr(transformers, f"{kind}Config")(**sizes, **heads, **settings)
    torch.manual_seed(1)
    return getattr(transformers, f"{kind}ForCausalLM")(config).eval()


@pytest.mark.parametrize("kind", ["Llama", "Qwen2", "Mistral"])
def test_attention_from_one_product_is_the_same_with_and_without_a_cache(kind: str) -> None:
    model = _causal(kind)
    for name, one in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.normal_(one)
    tokens = torch.arange(14).reshape(2, 7) + 3
    mask = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7])
    places = (mask.cumsum(dim=1) - 1).clamp(min=0)
    held = sum(one.numel() for one in model.parameters())

    def steps() -> torch.Tensor:
        with torch.inference_mode():
            whole = model(input_ids=tokens, attention_mask=mask, position_ids=places).logits[:, 2:]
            first = model(
                input_ids=tokens[:, :5], attention_mask=mask[:, :5], position_ids=places[:, :5], use_cache=True
            )
            rest = model(
                input_ids=tokens[:, 5:],
                attention_mask=mask,
                position_ids=places[:, 5:],
                past_key_values=first.past_key_values,
            )
        return torch.cat([whole, rest.logits], dim=1)

    before = steps()
    assert fuse_attention(model) == 2
    assert torch.allclose(before, steps(), atol=1e-5)
    assert sum(one.numel() for one in model.parameters()) == held
    layer = model.model.layers[0].self_attn
    assert layer.q_proj.weight.untyped_storage().data_ptr() == layer.v_proj.weight.untyped_storage().data_ptr()


def test_other_attentions_stay_as_they_are() -> None:
    assert fuse_attention(_causal("Qwen3")) == 0  # norms its queries
    assert fuse_attention(_causal("Cohere")) == 0  # turns neighbouring coordinates, not halves
