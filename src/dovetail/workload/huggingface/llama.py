"""Llama and the decoders made like it: Mistral, Qwen 2 and 3, Phi-3, Gemma 1 and 2."""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import NotModelled
from dovetail.workload.huggingface import Shape, readers
from dovetail.workload.huggingface.fields import Fields
from dovetail.workload.transformer import Transformer

_CAP = ("scale", "tanh", "scale")  # cap * tanh(x / cap)


def llama_like(
    fields: Fields, name: str, *, num_kv_heads: int = 0, head_width: int = 0, is_tied: bool = False
) -> Transformer:
    """The fields all these families share; the arguments are what absent keys stand for.

    0 for `num_kv_heads`: as many as heads; 0 for `head_width`: the hidden width over the heads.
    """
    hidden, num_heads = fields.count("hidden_size"), fields.count("num_attention_heads")
    if not head_width and fields.config.get("head_dim") is None:
        head_width = hidden // fields.divisor("num_attention_heads", hidden, "hidden_size")
    if not num_kv_heads or "num_key_value_heads" in fields.config:
        num_kv_heads = num_heads
    return Transformer(
        name=name,
        num_layers=fields.count("num_hidden_layers"),
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=fields.divisor("num_key_value_heads", num_heads, "num_attention_heads", num_kv_heads),
        head_width=fields.count("head_dim", head_width),
        ffn_width=fields.count("intermediate_size"),
        vocab=fields.count("vocab_size"),
        activation=fields.activation("hidden_act", "silu", is_gated=True),
        has_attention_dropout=fields.is_dropping("attention_dropout"),
        is_tied=fields.flag("tie_word_embeddings", is_tied),
    )


def with_attention_bias(fields: Fields, shape: Transformer) -> Transformer:
    has_bias = fields.flag("attention_bias", False)
    return replace(shape, qkv_bias=has_bias, output_bias=has_bias)


def with_window(fields: Fields, shape: Transformer, default: int = 0, every: int = 1) -> Transformer:
    """The window of `sliding_window`, in one of `every` layers unless `layer_types` says otherwise."""
    fields.ignore("sliding_window")
    is_off = fields.config.get("sliding_window", default) in (None, 0)  # null says that there is none
    window = 0 if is_off else fields.positions("sliding_window", default)
    kinds = fields.texts("layer_types")
    if kinds:
        every = _window_every(kinds, shape.num_layers)
    return replace(shape, window=window, window_every=every) if window and every else shape


def _window_every(kinds: tuple[str, ...], num_layers: int) -> int:
    """1 when all layers have the window, 2 when every other has it, 0 when none has."""
    patterns = {1: ("sliding_attention",), 2: ("sliding_attention", "full_attention"), 0: ("full_attention",)}
    for every, pattern in patterns.items():
        if kinds == (pattern * num_layers)[:num_layers]:
            return every
    raise NotModelled("layers must see all keys, a window, or alternate between a window and all keys", "layer_types")


@readers.register("llama")
def llama(fields: Fields, name: str) -> Shape:
    shape = with_attention_bias(fields, llama_like(fields, name))
    shape = replace(shape, ffn_bias=fields.flag("mlp_bias", False))
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings", 2048))


@readers.register("mistral")
def mistral(fields: Fields, name: str) -> Shape:
    shape = with_window(fields, llama_like(fields, name, num_kv_heads=8), default=4096)
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


def with_qwen_window(fields: Fields, shape: Transformer) -> Transformer:
    """Qwen's window is off unless asked for, and then in the layers from `max_window_layers` on."""
    is_on = fields.flag("use_sliding_window", False)
    first = fields.count("max_window_layers", shape.num_layers, least=0)
    if is_on and not fields.texts("layer_types") and 0 < first < shape.num_layers:
        raise NotModelled(f"a window from layer {first} of {shape.num_layers} on is not modelled", "max_window_layers")
    if is_on and first < shape.num_layers:
        return with_window(fields, shape, default=4096)
    fields.ignore("sliding_window")
    if "sliding_attention" in fields.texts("layer_types"):
        raise NotModelled("a window in some layers while use_sliding_window is false is not modelled", "layer_types")
    return shape


@readers.register("qwen2")
def qwen2(fields: Fields, name: str) -> Shape:
    shape = replace(llama_like(fields, name, num_kv_heads=32), qkv_bias=True)
    fields.must_be("use_mrope", False)
    return Shape(transformer=with_qwen_window(fields, shape), seq=fields.positions("max_position_embeddings"))


def qwen3_like(fields: Fields, name: str, *, num_kv_heads: int, head_width: int) -> Transformer:
    """Each head's queries and keys are normalised."""
    shape = llama_like(fields, name, num_kv_heads=num_kv_heads, head_width=head_width)
    shape = with_attention_bias(fields, shape)
    return with_qwen_window(fields, replace(shape, qk_norm=True))


@readers.register("qwen3")
def qwen3(fields: Fields, name: str) -> Shape:
    shape = qwen3_like(fields, name, num_kv_heads=32, head_width=128)
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


@readers.register("phi3")
def phi3(fields: Fields, name: str) -> Shape:
    shape = with_window(fields, llama_like(fields, name))
    fields.must_be("attention_bias", False)
    shape = replace(
        shape,
        has_dropout=any([fields.is_dropping("resid_pdrop"), fields.is_dropping("embd_pdrop")]),
        rotary_frac=fields.rotary_frac("partial_rotary_factor", 1.0, shape.head_width),
    )
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


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
    shape = with_window(fields, _gemma_like(fields, name, 4), default=4096, every=2)
    fields.ignore("query_pre_attn_scalar", "sliding_window_size")  # what scores are divided by; an unused copy
    shape = replace(
        shape,
        num_norms=4,
        score_kinds=_CAP if fields.is_capping("attn_logit_softcapping", 50.0) else (),
        logit_kinds=_CAP if fields.is_capping("final_logit_softcapping", 30.0) else (),
    )
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))
