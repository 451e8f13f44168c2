"""Mixtral (Mistral AI): a Llama-like decoder whose feed-forward is two of eight experts."""

from __future__ import annotations

from dovetail.workload.experts import Experts
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer


@models.register("mixtral-8x7b")
def mixtral_8x7b() -> Model:
    shape = Transformer(
        name="mixtral-8x7b",
        num_layers=32,
        hidden=4096,
        num_heads=32,
        num_kv_heads=8,
        head_width=128,
        ffn_width=14336,
        vocab=32000,
        experts=Experts(num_experts=8, num_experts_per_token=2, width=14336),
    )
    return Model(
        architecture=shape,
        family="mixtral",
        seq=32768,
        sample="tokens",
        published_parameters=46_702_792_704,
        is_exact=True,
        source="Jiang et al. 2024, arXiv:2401.04088, table 1, released config.json and weights",
    )
