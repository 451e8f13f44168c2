"""DeepSeek-V3 (DeepSeek-AI): latent attention, and after three dense layers eight of 256 experts beside a shared one.

Without the multi-token-prediction module, which training added at the end of the stack and which the published count
of 671B leaves out as well.
"""

from __future__ import annotations

from dovetail.workload.experts import Experts
from dovetail.workload.latent import LatentAttention
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer


@models.register("deepseek-v3")
def deepseek_v3() -> Model:
    shape = Transformer(
        name="deepseek-v3",
        num_layers=61,
        hidden=7168,
        num_heads=128,
        num_kv_heads=128,
        head_width=192,
        ffn_width=18432,
        vocab=129280,
        experts=Experts(num_experts=256, num_experts_per_token=8, width=2048, shared_width=2048, router_bias=True),
        num_dense_layers=3,
        latent=LatentAttention(query_rank=1536, kv_rank=512, nope_width=128, rotary_width=64, value_width=128),
    )
    return Model(
        architecture=shape,
        family="deepseek",
        seq=4096,
        sample="tokens",
        published_parameters=671_026_419_200,
        is_exact=True,
        source="DeepSeek-AI 2024, arXiv:2412.19437, section 4.2, released config.json and weights of the main model",
    )
