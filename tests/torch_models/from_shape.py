"""Any decoder of the catalogue in PyTorch, from its shape and layer pattern: for models without a module of their own.

It has the parameters that papers say such layers have, counted by PyTorch, and no forward pass.
"""

from __future__ import annotations

from torch import nn

from dovetail.workload.layer_types import layers_of, shape_of_layer
from dovetail.workload.transformer import Transformer
from tests.torch_models.built import BATCH, Build, Built, indices, on_meta

# Fields that need a module of one's own where they are not as here.
PLAIN = {
    "num_encoder_layers": 0, "embedding_width": 0, "num_relative_buckets": 0, "num_token_types": 0, "latent": None,
    "head": "lm",
}  # fmt: skip


def strange_fields(shape: Transformer) -> list[str]:
    """What a decoder from its shape would lack."""
    return [field for field, value in PLAIN.items() if getattr(shape, field) != value]


def of_shape(shape: Transformer) -> Build:
    """Builds the decoder of a shape; refuses shapes that it does not know."""
    strange = strange_fields(shape)
    if strange:
        what = f"{shape.name} has {', '.join(strange)}, which no module of tests/torch_models/from_shape.py has"
        raise NotImplementedError(f"{what}: write one for it, or say there what its parameters are")

    def build(*, batch: int = BATCH, seq: int = 0) -> Built:
        tokens = indices(batch, seq or 128)
        return on_meta(lambda: _Decoder(shape)), {"input_ids": tokens, "labels": tokens.clone()}

    return build


def _norm(shape: Transformer, width: int = 0) -> nn.Module:
    if shape.norm_has_bias:
        return nn.LayerNorm(width or shape.hidden)
    return nn.RMSNorm(width or shape.hidden)


class _Decoder(nn.Module):
    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.vocab, shape.hidden)
        self.positions = nn.Embedding(shape.num_positions, shape.hidden)
        self.layers = nn.ModuleList(_Layer(shape_of_layer(shape, types)) for types in layers_of(shape))
        self.norms = nn.ModuleList(_norm(shape) for has in (shape.has_embedding_norm, shape.has_final_norm) if has)
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=shape.head_bias)
        if shape.is_tied:
            self.head.weight = self.embedding.weight


class _Layer(nn.Module):
    """A layer all of one type."""

    def __init__(self, shape: Transformer) -> None:
        super().__init__()
        self.norms = nn.ModuleList(_norm(shape) for _ in range(shape.num_norms))
        num_columns = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_width
        self.qkv = nn.Linear(shape.hidden, num_columns, bias=shape.qkv_bias)
        self.qk_norms = nn.ModuleList(_norm(shape, shape.head_width) for _ in range(2 * shape.qk_norm))
        self.sinks = nn.Embedding(shape.num_heads, 1) if shape.has_attention_sinks else nn.Identity()
        self.output = nn.Linear(shape.num_heads * shape.head_width, shape.hidden, bias=shape.output_bias)
        if shape.experts is None:
            self.mlp: nn.Module = _mlp(shape, shape.ffn_width, has_bias=shape.ffn_bias)
        else:
            self.mlp = _mixture(shape)


def _mlp(shape: Transformer, width: int, *, has_bias: bool) -> nn.Module:
    num_up = 2 if shape.activation.endswith("_mul") else 1
    up = nn.Linear(shape.hidden, num_up * width, bias=has_bias)
    return nn.Sequential(up, nn.Linear(width, shape.hidden, bias=has_bias))


def _mixture(shape: Transformer) -> nn.Module:
    experts = shape.experts
    assert experts is not None
    router = nn.Linear(shape.hidden, experts.num_experts, bias=experts.router_bias or experts.has_bias)
    each = [_mlp(shape, experts.width, has_bias=experts.has_bias) for _ in range(experts.num_experts)]
    shared = [_mlp(shape, experts.shared_width, has_bias=False)] if experts.shared_width else []
    gate = [nn.Linear(shape.hidden, 1, bias=False)] if experts.shared_gate else []
    return nn.ModuleList([router, *each, *shared, *gate])
