"""Gemma 1, 2 and 3, the text models."""

from __future__ import annotations

from dataclasses import replace

from dovetail.workload.huggingface import Shape, readers
from dovetail.workload.huggingface.fields import Fields
from dovetail.workload.huggingface.llama import llama_like, with_attention_bias, with_window
from dovetail.workload.transformer import Transformer

_EVERY_OTHER = (("sliding_attention", 1), ("full_attention", 1))
_CAP = ("scale", "tanh", "scale")  # cap * tanh(x / cap)


def _gemma_like(fields: Fields, name: str, num_kv_heads: int) -> Transformer:
    """The feed-forward is gated by a GELU, `hidden_activation` before `hidden_act`; the embedding is scaled."""
    shape = llama_like(fields, name, num_kv_heads=num_kv_heads, head_width=256, is_tied=True)
    shape = with_attention_bias(fields, shape)
    activation = fields.activation("hidden_activation", "gelu_pytorch_tanh", is_gated=True)
    return replace(shape, activation=activation, embedding_kinds=("scale",))


@readers.register("gemma")
def gemma(fields: Fields, name: str) -> Shape:
    return Shape(transformer=_gemma_like(fields, name, 16), seq=fields.positions("max_position_embeddings"))


@readers.register("gemma2")
def gemma2(fields: Fields, name: str) -> Shape:
    """Four norms a layer, a window in every other layer, scores and logits capped by a tanh."""
    shape = with_window(fields, _gemma_like(fields, name, 4), default=4096, layer_types=_EVERY_OTHER)
    fields.ignore("query_pre_attn_scalar", "sliding_window_size")  # what scores are divided by; an unused copy
    shape = replace(
        shape,
        num_norms=4,
        score_kinds=_CAP if fields.is_capping("attn_logit_softcapping", 50.0) else (),
        logit_kinds=_CAP if fields.is_capping("final_logit_softcapping", 30.0) else (),
    )
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


@readers.register("gemma3_text")
def gemma3_text(fields: Fields, name: str) -> Shape:
    """As Gemma 2 without the caps, with norms on queries and keys, and all keys in the last of every six layers."""
    shape = _gemma_like(fields, name, 4)
    period = fields.count("sliding_window_pattern", fields.count("_sliding_window_pattern", 6))
    layer_types = (("sliding_attention", period - 1), ("full_attention", 1))[period == 1 :]
    shape = with_window(fields, shape, default=4096, layer_types=layer_types)
    fields.must_be("use_bidirectional_attention", False)
    fields.ignore("query_pre_attn_scalar")
    shape = replace(
        shape,
        num_norms=4,
        qk_norm=True,
        score_kinds=_CAP if fields.is_capping("attn_logit_softcapping", None) else (),
        logit_kinds=_CAP if fields.is_capping("final_logit_softcapping", None) else (),
    )
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings", 131072))
