"""Qwen 2.5 (Alibaba): a Llama-like decoder with biases on queries, keys and values."""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer


@models.register("qwen2.5-72b")
def qwen2_5_72b() -> Model:
    shape = Transformer(
        name="qwen2.5-72b",
        num_layers=80,
        hidden=8192,
        num_heads=64,
        num_kv_heads=8,
        head_width=128,
        ffn_width=29568,
        vocab=152064,
        qkv_bias=True,
    )
    return Model(
        architecture=shape,
        family="qwen",
        seq=4096,
        sample="tokens",
        published_parameters=72_706_203_648,
        is_exact=True,
        source="Qwen Team 2024, arXiv:2412.15115, released config.json and weights",
    )
