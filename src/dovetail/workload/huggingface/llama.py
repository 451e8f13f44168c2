"""Llama and the decoders made like it: Mistral, Qwen 1 to 3, Phi-3."""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.huggingface import Shape, readers
from dovetail.workload.huggingface.fields import Fields, shown
from dovetail.workload.layer_types import Pattern, shortest_pattern
from dovetail.workload.transformer import Transformer

_LAYER_TYPES = ("full_attention", "sliding_attention")
_ALL_SLIDING = (("sliding_attention", 1),)


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
        num_layers=fields.layers("num_hidden_layers"),
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


def with_window(
    fields: Fields, shape: Transformer, default: int = 0, layer_types: Pattern = _ALL_SLIDING
) -> Transformer:
    """The window of `sliding_window`, in all layers or as `layer_types`, which the config may state, has it."""
    fields.ignore("sliding_window")
    is_off = fields.config.get("sliding_window", default) in (None, 0)  # null says that there is none
    window = 0 if is_off else fields.positions("sliding_window", default)
    if names := fields.texts("layer_types"):
        layer_types = _layer_types(names, shape.num_layers)
    if not window or all(name == "full_attention" for name, _ in layer_types):
        return shape
    is_mixed = any(name == "full_attention" for name, _ in layer_types)
    return replace(shape, window=window, layer_types=layer_types if is_mixed else ())


def _layer_types(names: tuple[str, ...], num_layers: int) -> Pattern:
    if len(names) != num_layers:
        raise InvalidInput(f"layer_types must name {num_layers} layers; got {len(names)}", "layer_types")
    for name in names:
        if name not in _LAYER_TYPES:
            raise NotModelled(
                f"layer_types: {shown(name)} is not modelled; known: {', '.join(_LAYER_TYPES)}", "layer_types"
            )
    return shortest_pattern(names)


@readers.register("llama")
def llama(fields: Fields, name: str) -> Shape:
    shape = with_attention_bias(fields, llama_like(fields, name))
    shape = replace(shape, ffn_bias=fields.flag("mlp_bias", False))
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings", 2048))


@readers.register("mistral")
def mistral(fields: Fields, name: str) -> Shape:
    shape = with_window(fields, llama_like(fields, name, num_kv_heads=8), default=4096)
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


@readers.register("qwen")
def qwen(fields: Fields, name: str) -> Shape:
    """The first Qwen: `intermediate_size` counts the gate and the product together, and biases are on qkv only."""
    fields.must_be("no_bias", True)
    fields.must_be("rotary_pct", 1.0, 1)
    fields.must_be("emb_dropout_prob", 0.0, 0)  # after the embedding and nowhere else
    # what is written under other names, and how the released code runs it
    fields.ignore("max_position_embeddings", "scale_attn_weights", "use_dynamic_ntk", "use_logn_attn", "tokenizer_type")
    fields.ignore("bf16", "fp16", "fp32", "onnx_safe", "softmax_in_fp32", "use_cache_quantization", "use_cache_kernel")
    shape = llama_like(fields, name)
    fields.must_be("kv_channels", shape.head_width)
    fields.must_be("num_key_value_heads", shape.num_heads)
    ffn_width = fields.count("intermediate_size", least=2) // 2
    shape = replace(
        shape,
        ffn_width=ffn_width,
        qkv_bias=True,
        has_attention_dropout=fields.is_dropping("attn_dropout_prob"),
    )
    return Shape(transformer=shape, seq=fields.positions("seq_length", 8192))


def with_qwen_window(fields: Fields, shape: Transformer) -> Transformer:
    """Qwen's window is off unless configured, and then in the layers from `max_window_layers` on."""
    is_on = fields.flag("use_sliding_window", False)
    first = fields.count("max_window_layers", shape.num_layers, least=0)
    if is_on and first < shape.num_layers:
        behind = ("sliding_attention", shape.num_layers - first)
        return with_window(fields, shape, default=4096, layer_types=(("full_attention", first), behind)[not first :])
    fields.ignore("sliding_window")
    if "sliding_attention" in fields.texts("layer_types"):
        raise NotModelled("layer_types: a window while use_sliding_window is false is not modelled", "layer_types")
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
