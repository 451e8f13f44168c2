"""Decoders with layer norms and biases: GPT-2, GPT-NeoX, OPT, Phi."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.workload.huggingface import Shape, readers
from dovetail.workload.huggingface.fields import Fields
from dovetail.workload.transformer import Transformer

_NUM_UNUSED_OPT_POSITIONS = 2  # the first rows of OPT's table are never looked up


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """What a family calls the things all have."""

    layers: str = "num_hidden_layers"
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    ffn: str = "intermediate_size"


def biased(fields: Fields, name: str, keys: _Keys, *, has_default_ffn: bool = False) -> Transformer:
    """A transformer with layer norms and biases everywhere, before what each family changes."""
    hidden = fields.count(keys.hidden)
    num_heads = fields.divisor(keys.heads, hidden, keys.hidden)
    return Transformer(
        name=name,
        num_layers=fields.layers(keys.layers),
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_width=hidden // num_heads,
        ffn_width=fields.count(keys.ffn, 4 * hidden) if has_default_ffn else fields.count(keys.ffn),
        vocab=fields.count("vocab_size"),
        norm="layernorm",
        norm_has_bias=True,
        qkv_bias=True,
        output_bias=True,
        ffn_bias=True,
    )


PLAIN_KEYS = _Keys()


@readers.register("gpt2")
def gpt2(fields: Fields, name: str) -> Shape:
    keys = _Keys(layers="n_layer", hidden="n_embd", heads="n_head", ffn="n_inner")
    num_positions = fields.positions("n_positions")
    fields.ignore("n_ctx", "scale_attn_weights", "summary_type", "summary_use_proj", "summary_activation")
    fields.ignore("summary_proj_to_labels", "summary_first_dropout")  # of a classifier's head
    shape = replace(
        biased(fields, name, keys, has_default_ffn=True),
        activation=fields.activation("activation_function", "gelu_new"),
        has_rope=False,
        has_dropout=any([fields.is_dropping("resid_pdrop", 0.1), fields.is_dropping("embd_pdrop", 0.1)]),
        has_attention_dropout=fields.is_dropping("attn_pdrop", 0.1),
        is_tied=fields.flag("tie_word_embeddings", True),
        num_positions=num_positions,
    )
    return Shape(transformer=shape, seq=num_positions)


@readers.register("gpt_neox")
def gpt_neox(fields: Fields, name: str) -> Shape:
    shape = biased(fields, name, PLAIN_KEYS)
    has_bias = fields.flag("attention_bias", True)
    shape = replace(
        shape,
        activation=fields.activation("hidden_act", "gelu"),
        qkv_bias=has_bias,
        output_bias=has_bias,
        is_parallel=fields.flag("use_parallel_residual", True),
        rotary_frac=fields.rotary_frac("rotary_pct", 0.25, shape.head_width),
        has_dropout=fields.is_dropping("hidden_dropout"),
        has_attention_dropout=fields.is_dropping("attention_dropout"),
        is_tied=fields.flag("tie_word_embeddings", False),
    )
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))


@readers.register("opt")
def opt(fields: Fields, name: str) -> Shape:
    """Norms before or after the residual add cost the same; only the final norm depends on it."""
    shape = biased(fields, name, _Keys(ffn="ffn_dim"))
    seq, width = fields.positions("max_position_embeddings"), fields.count("word_embed_proj_dim", shape.hidden)
    fields.must_be("enable_bias", True)
    fields.must_be("layer_norm_elementwise_affine", True)
    fields.must_be("layerdrop", 0.0, 0)
    fields.ignore("activation_dropout")  # written by the class and used by no layer
    is_norm_first = fields.flag("do_layer_norm_before", True)
    is_without_final_norm = fields.flag("_remove_final_layer_norm", False)
    shape = replace(
        shape,
        activation=fields.activation("activation_function", "relu"),
        has_rope=False,
        has_dropout=fields.is_dropping("dropout", 0.1),
        has_attention_dropout=fields.is_dropping("attention_dropout"),
        is_tied=fields.flag("tie_word_embeddings", True),
        has_final_norm=is_norm_first and not is_without_final_norm,
        num_positions=seq + _NUM_UNUSED_OPT_POSITIONS,
        embedding_width=0 if width == shape.hidden else width,
    )
    return Shape(transformer=shape, seq=seq)


@readers.register("phi")
def phi(fields: Fields, name: str) -> Shape:
    """Attention beside feed-forward behind one norm, and a bias on the logits."""
    shape = biased(fields, name, PLAIN_KEYS)
    fields.must_be("num_key_value_heads", shape.num_heads)
    fields.must_be("head_dim", shape.head_width)
    fields.must_be("qk_layernorm", False)
    shape = replace(
        shape,
        num_norms=1,
        activation=fields.activation("hidden_act", "gelu_new"),
        head_bias=True,
        is_parallel=True,
        rotary_frac=fields.rotary_frac("partial_rotary_factor", 0.5, shape.head_width),
        has_dropout=any([fields.is_dropping("resid_pdrop"), fields.is_dropping("embd_pdrop")]),
        has_attention_dropout=fields.is_dropping("attention_dropout"),
        is_tied=fields.flag("tie_word_embeddings", False),
    )
    return Shape(transformer=shape, seq=fields.positions("max_position_embeddings"))
