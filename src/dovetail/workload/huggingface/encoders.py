"""Encoders and encoder-decoders: BERT, T5 and mT5."""

from __future__ import annotations

from dataclasses import replace

from dovetail.errors import NotModelled
from dovetail.workload.huggingface import Shape, readers
from dovetail.workload.huggingface.fields import Fields
from dovetail.workload.huggingface.gpt import PLAIN_KEYS, biased
from dovetail.workload.transformer import Transformer


@readers.register("bert")
def bert(fields: Fields, name: str) -> Shape:
    """Both pre-training heads, whichever of them the class in `architectures` keeps."""
    fields.must_be("position_embedding_type", "absolute")
    fields.must_be("is_decoder", False)
    fields.ignore("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers")
    fields.ignore("pooler_size_per_head", "pooler_type")  # of the original code, used by no layer
    activation = fields.activation("hidden_act", "gelu")
    if activation != "gelu":
        raise NotModelled(f"hidden_act: a head with activation {activation!r} is not modelled", "hidden_act")
    num_positions = fields.positions("max_position_embeddings", 512)
    shape = replace(
        biased(fields, name, PLAIN_KEYS),
        activation=activation,
        head_bias=True,
        is_causal=False,
        has_rope=False,
        has_dropout=fields.is_dropping("hidden_dropout_prob", 0.1),
        has_attention_dropout=fields.is_dropping("attention_probs_dropout_prob", 0.1),
        is_tied=fields.flag("tie_word_embeddings", True),
        has_final_norm=False,
        has_embedding_norm=True,
        num_positions=num_positions,
        num_token_types=fields.count("type_vocab_size", 2),
        head="mlm",
    )
    return Shape(transformer=shape, seq=num_positions)


@readers.register("t5")
def t5(fields: Fields, name: str) -> Shape:
    return _t5(fields, name, is_tied=True, projection="relu")


@readers.register("mt5")
def mt5(fields: Fields, name: str) -> Shape:
    """T5 1.1 in many languages: as T5, but gated and untied where the config does not say."""
    return _t5(fields, name, is_tied=False, projection="gated-gelu")


def _t5(fields: Fields, name: str, *, is_tied: bool, projection: str) -> Shape:
    """Encoder and decoder see samples of one length; a tied head scales what goes into it."""
    num_layers, num_heads = fields.layers("num_layers"), fields.count("num_heads")
    has_dropout, is_tied = fields.is_dropping("dropout_rate", 0.1), fields.flag("tie_word_embeddings", is_tied)
    fields.must_be("is_encoder_decoder", True)
    fields.ignore("relative_attention_max_distance", "dense_act_fn", "is_gated_act")  # the last two are derived
    fields.ignore("scale_decoder_outputs")  # by one number, before the head
    shape = Transformer(
        name=name,
        num_layers=fields.layers("num_decoder_layers", num_layers),
        num_encoder_layers=num_layers,
        hidden=fields.count("d_model"),
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_width=fields.count("d_kv"),
        ffn_width=fields.count("d_ff"),
        vocab=fields.count("vocab_size"),
        activation=_t5_activation(fields, projection),
        has_rope=False,
        has_dropout=has_dropout,
        has_attention_dropout=has_dropout,
        has_ffn_dropout=has_dropout,
        is_tied=is_tied,
        num_relative_buckets=fields.count("relative_attention_num_buckets", 32),
        score_kinds=("add",),
        head_kinds=(*(("dropout",) if has_dropout else ()), *(("scale",) if is_tied else ())),
    )
    return Shape(transformer=shape, seq=fields.positions("n_positions", 512))


def _t5_activation(fields: Fields, default: str) -> str:
    """`feed_forward_proj` is an activation, after 'gated-' when there is a gate (1.1 and later)."""
    written = fields.text("feed_forward_proj", default)
    name = written.removeprefix("gated-")
    inner = Fields({"feed_forward_proj": name})
    return inner.activation("feed_forward_proj", "relu", is_gated=name != written)
