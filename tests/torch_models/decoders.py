"""Decoders from the configurations of transformers: Llama, Qwen, GPT-2 and what has its shape, OPT."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from tests.torch_models.built import BATCH, Build, Built, indices, on_meta


def language_model(make: Callable[[], nn.Module], num_positions: int) -> Build:
    """A model whose labels are its tokens: transformers shifts them."""

    def build(*, batch: int = BATCH, seq: int = 0) -> Built:
        tokens = indices(batch, seq or num_positions)
        return on_meta(make), {"input_ids": tokens, "labels": tokens.clone()}

    return build


def _llama(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, seq: int) -> Build:
    config = LlamaConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=ffn,
        vocab_size=vocab,
        max_position_embeddings=seq,
        tie_word_embeddings=False,
        use_cache=False,
    )
    return language_model(lambda: LlamaForCausalLM(config), seq)


def _qwen(layers: int, hidden: int, heads: int, kv_heads: int, ffn: int, vocab: int, seq: int) -> Build:
    config = Qwen2Config(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        intermediate_size=ffn,
        vocab_size=vocab,
        max_position_embeddings=seq,
        tie_word_embeddings=False,
        use_cache=False,
    )
    return language_model(lambda: Qwen2ForCausalLM(config), seq)


def _gpt2(layers: int, hidden: int, heads: int, vocab: int, seq: int) -> Build:
    config = GPT2Config(n_layer=layers, n_embd=hidden, n_head=heads, vocab_size=vocab, n_positions=seq, use_cache=False)
    return language_model(lambda: GPT2LMHeadModel(config), seq)


def _megatron(layers: int, hidden: int, heads: int) -> Build:
    return _gpt2(layers, hidden, heads, 51200, 2048)


def _opt(layers: int, hidden: int, heads: int, *, embedding: int = 0, is_norm_first: bool = True) -> Build:
    config = OPTConfig(
        num_hidden_layers=layers,
        hidden_size=hidden,
        num_attention_heads=heads,
        ffn_dim=4 * hidden,
        word_embed_proj_dim=embedding or hidden,
        do_layer_norm_before=is_norm_first,
        vocab_size=50272,
        max_position_embeddings=2048,
        use_cache=False,
    )
    return language_model(lambda: OPTForCausalLM(config), 2048)


BUILDS: dict[str, Build] = {
    "llama2-7b": _llama(32, 4096, 32, 32, 11008, 32000, 4096),
    "llama2-70b": _llama(80, 8192, 64, 8, 28672, 32000, 4096),
    "llama3-8b": _llama(32, 4096, 32, 8, 14336, 128256, 8192),
    "llama3-70b": _llama(80, 8192, 64, 8, 28672, 128256, 8192),
    "llama3-405b": _llama(126, 16384, 128, 8, 53248, 128256, 8192),
    "qwen2.5-72b": _qwen(80, 8192, 64, 8, 29568, 152064, 4096),
    "gpt2-345m": _gpt2(24, 1024, 16, 50257, 1024),
    "gpt2-1.5b": _gpt2(48, 1600, 25, 50257, 1024),
    "gpt2-2.5b": _gpt2(54, 1920, 20, 51200, 1024),
    "gpt2-8.3b": _gpt2(72, 3072, 24, 51200, 1024),
    "gpt3-175b": _gpt2(96, 12288, 96, 50257, 2048),
    "megatron-1.7b": _megatron(24, 2304, 24),
    "megatron-3.6b": _megatron(30, 3072, 32),
    "megatron-7.5b": _megatron(36, 4096, 32),
    "megatron-18.4b": _megatron(40, 6144, 48),
    "megatron-22b": _megatron(48, 6144, 64),
    "megatron-39.1b": _megatron(48, 8192, 64),
    "megatron-76.1b": _megatron(60, 10240, 80),
    "megatron-145.6b": _megatron(80, 12288, 96),
    "megatron-175b": _megatron(96, 12288, 96),
    "megatron-310.1b": _megatron(96, 16384, 128),
    "megatron-530b": _megatron(105, 20480, 128),
    "megatron-1t": _megatron(128, 25600, 160),
    "opt-350m": _opt(24, 1024, 16, embedding=512, is_norm_first=False),
    "opt-1.3b": _opt(24, 2048, 32),
    "opt-175b": _opt(96, 12288, 96),
}
