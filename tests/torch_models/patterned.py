"""Decoders whose layers follow a pattern, from the configurations of transformers: Gemma 3 and gpt-oss."""

from __future__ import annotations

from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GptOssConfig, GptOssForCausalLM

from tests.torch_models.built import Build
from tests.torch_models.decoders import language_model


def _gemma3(layers: int, hidden: int, heads: int, kv_heads: int, head: int, ffn: int) -> Build:
    config = Gemma3TextConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=head,
        intermediate_size=ffn,
        vocab_size=262_208,
        sliding_window=1024,
        use_cache=False,
    )
    return language_model(lambda: Gemma3ForCausalLM(config), 32_768)


def _gpt_oss(layers: int, experts: int) -> Build:
    config = GptOssConfig(num_hidden_layers=layers, num_local_experts=experts, use_cache=False)
    return language_model(lambda: GptOssForCausalLM(config), 4096)


BUILDS: dict[str, Build] = {
    "gemma-3-4b": _gemma3(34, 2560, 8, 4, 256, 10_240),
    "gemma-3-12b": _gemma3(48, 3840, 16, 8, 256, 15_360),
    "gemma-3-27b": _gemma3(62, 5376, 32, 16, 128, 21_504),
    "gpt-oss-20b": _gpt_oss(24, 32),
    "gpt-oss-120b": _gpt_oss(36, 128),
}
