"""Gemma 3 (Google DeepMind): five layers with a window of 1,024 keys, then one that sees all; the text models.

Without the vision encoder (416,866,032 parameters) and the projection behind it.
"""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

LAYER_TYPES = (("sliding_attention", 5), ("full_attention", 1))  # section 2 of the report; sliding_window_pattern 6
PADDED_VOCAB = 262_208  # vocab_size of the released text_config: 262,144 words, padded


def gemma3(
    name: str,
    num_parameters: int,
    *,
    num_layers: int,
    hidden: int,
    num_heads: int,
    num_kv_heads: int,
    head_width: int,
    ffn_width: int,
) -> Model:
    shape = Transformer(
        name=name,
        num_layers=num_layers,
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_width=head_width,
        ffn_width=ffn_width,
        vocab=PADDED_VOCAB,
        num_norms=4,
        activation="gelu_mul",
        qk_norm=True,
        window=1024,
        layer_types=LAYER_TYPES,
        is_tied=True,
        embedding_kinds=("scale",),
    )
    return Model(
        architecture=shape,
        family="gemma",
        seq=32_768,  # what pre-training has; the last steps stretch it to 131,072
        sample="tokens",
        published_parameters=num_parameters,
        is_exact=True,
        source="Gemma Team 2025, arXiv:2503.19786, table 1, released config.json and weights of the text model",
    )


@models.register("gemma-3-4b")
def gemma3_4b() -> Model:
    return gemma3(
        "gemma-3-4b",
        3_880_263_168,
        num_layers=34,
        hidden=2560,
        num_heads=8,
        num_kv_heads=4,
        head_width=256,
        ffn_width=10_240,
    )


@models.register("gemma-3-12b")
def gemma3_12b() -> Model:
    return gemma3(
        "gemma-3-12b",
        11_766_034_176,
        num_layers=48,
        hidden=3840,
        num_heads=16,
        num_kv_heads=8,
        head_width=256,
        ffn_width=15_360,
    )


@models.register("gemma-3-27b")
def gemma3_27b() -> Model:
    return gemma3(
        "gemma-3-27b",
        27_009_346_304,
        num_layers=62,
        hidden=5376,
        num_heads=32,
        num_kv_heads=16,
        head_width=128,
        ffn_width=21_504,
    )
