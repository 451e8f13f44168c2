"""Mixtures of experts from the configurations of transformers, with the experts' products as one grouped kernel.

Experts one after another read on the host how many rows each has got, which no tensor without memory can say.
"""

from __future__ import annotations

from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, MixtralConfig, MixtralForCausalLM

from tests.torch_models.built import Build
from tests.torch_models.decoders import language_model

_GROUPED = "grouped_mm"


def _mixtral_8x7b() -> MixtralForCausalLM:
    config = MixtralConfig(
        num_hidden_layers=32,
        hidden_size=4096,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=14336,
        vocab_size=32000,
        num_local_experts=8,
        num_experts_per_tok=2,
        sliding_window=None,
        max_position_embeddings=32768,
        tie_word_embeddings=False,
        use_cache=False,
        experts_implementation=_GROUPED,
    )
    return MixtralForCausalLM(config)


def _deepseek_v3() -> DeepseekV3ForCausalLM:
    config = DeepseekV3Config(
        num_hidden_layers=61,
        hidden_size=7168,
        num_attention_heads=128,
        intermediate_size=18432,
        moe_intermediate_size=2048,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
        first_k_dense_replace=3,
        q_lora_rank=1536,
        kv_lora_rank=512,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        vocab_size=129280,
        num_mtp_layers=0,
        max_position_embeddings=4096,
        tie_word_embeddings=False,
        use_cache=False,
        experts_implementation=_GROUPED,
    )
    return DeepseekV3ForCausalLM(config)


BUILDS: dict[str, Build] = {
    "mixtral-8x7b": language_model(_mixtral_8x7b, 32768),
    "deepseek-v3": language_model(_deepseek_v3, 4096),
}
