"""gpt-oss (OpenAI): a window of 128 keys in every other layer, attention sinks, four of 32 or 128 experts."""

from __future__ import annotations

from dovetail.workload.experts import Experts
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

LAYER_TYPES = (("sliding_attention", 1), ("full_attention", 1))  # layer_types of the released config.json


def gpt_oss(name: str, num_parameters: int, num_layers: int, num_experts: int) -> Model:
    shape = Transformer(
        name=name,
        num_layers=num_layers,
        hidden=2880,
        num_heads=64,
        num_kv_heads=8,
        head_width=64,
        ffn_width=2880,
        vocab=201_088,
        activation="clamped_silu_mul",
        qkv_bias=True,
        output_bias=True,
        window=128,
        layer_types=LAYER_TYPES,
        has_attention_sinks=True,
        experts=Experts(num_experts=num_experts, num_experts_per_token=4, width=2880, has_bias=True),
    )
    return Model(
        architecture=shape,
        family="gpt-oss",
        seq=4096,  # initial_context_length of the released config.json; yarn stretches it to 131,072
        sample="tokens",
        published_parameters=num_parameters,
        is_exact=True,
        source="OpenAI 2025, arXiv:2508.10925, table 1, released config.json and weights",
    )


@models.register("gpt-oss-20b")
def gpt_oss_20b() -> Model:
    return gpt_oss("gpt-oss-20b", 20_914_757_184, num_layers=24, num_experts=32)


@models.register("gpt-oss-120b")
def gpt_oss_120b() -> Model:
    return gpt_oss("gpt-oss-120b", 116_829_156_672, num_layers=36, num_experts=128)
