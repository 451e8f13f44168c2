"""T5 1.0 (Google): encoder and decoder, no biases, relative positions, ReLU, one embedding for stacks and head.

A sample is as many tokens into the encoder as out of the decoder; pre-training as published had 512 in and 114 out.
"""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer


def _t5(name: str, num_heads: int, head_width: int, ffn_width: int) -> Transformer:
    return Transformer(
        name=name,
        num_layers=24,
        num_encoder_layers=24,
        hidden=1024,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_width=head_width,
        ffn_width=ffn_width,
        vocab=32128,
        activation="relu",
        has_rope=False,
        has_dropout=True,
        has_attention_dropout=True,
        has_ffn_dropout=True,
        is_tied=True,
        num_relative_buckets=32,
        score_kinds=("add",),
        head_kinds=("dropout", "scale"),
    )


def _entry(architecture: Transformer, published_parameters: int) -> Model:
    return Model(
        architecture=architecture,
        family="t5",
        seq=512,
        sample="tokens",
        published_parameters=published_parameters,
        is_exact=True,
        source="Raffel et al. 2020, arXiv:1910.10683, released config.json and weights",
    )


@models.register("t5-large")
def t5_large() -> Model:
    return _entry(_t5("t5-large", 16, 64, 4096), 737_668_096)


@models.register("t5-11b")
def t5_11b() -> Model:
    return _entry(_t5("t5-11b", 128, 128, 65536), 11_307_321_344)
