"""The model of a run: a family by its name, cut to the row's layers and widths."""

from __future__ import annotations

from dataclasses import replace

from dovetail.accuracy.runs.row import Row
from dovetail.errors import NotModelled
from dovetail.workload.experts import Experts
from dovetail.workload.gpt2 import gpt2_like
from dovetail.workload.latent import LatentAttention
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

GPT2_VOCAB = 50_257  # the tokenizer of GPT-2, which Megatron's recipes use by default
PADDED_TO = 128  # Megatron pads the vocabulary to this many words a tensor rank (--make-vocab-size-divisible-by)
FUSED_CLAMP_SINCE = (26, 6)  # container
DEEPSEEK_LATENT = LatentAttention(query_rank=1536, kv_rank=512, nope_width=128, rotary_width=64, value_width=128)
# Released config.json of each: experts, chosen, width of one, width of the shared one, dense layers before them.
GROUPS = {"deepseekv3": (8, 4), "deepseek-v3": (8, 4), "deepseekv2": (8, 3)}  # n_group and topk_group of the same
EXPERTS = {
    "deepseekv3": (256, 8, 2048, 2048, 3),
    "deepseek-v3": (256, 8, 2048, 2048, 3),
    "deepseekv2": (160, 6, 1536, 3072, 1),
    "kimi": (384, 8, 2048, 2048, 1),
    "qwen3_30b": (128, 8, 768, 0, 0),
    "qwen3_235b": (128, 8, 1536, 0, 0),
    "gpt oss 120b": (128, 4, 2880, 0, 0),
    "mixtral": (8, 2, 14336, 0, 0),
}
DENSE_FFN = {"deepseekv3": 18_432, "deepseek-v3": 18_432, "deepseekv2": 12_288, "kimi": 18_432}
HEAD_WIDTH = {"qwen3": 128, "gpt oss": 64, "deepseek": 192, "kimi": 192}


def model_of(row: Row) -> Transformer:
    """The model that a row names, in its row's size."""
    name = row.word("model").lower()
    family = next((known for known in EXPERTS if known in name), "")
    if family:
        return _mixture(row, family)
    if "nemotron_3" in name or "v4" in name:
        raise NotModelled("state-space and hybrid models are not modelled")
    if "llama" in name:
        return _llama(row)
    if "mpt" in name:
        return _mpt(row)
    if "nemotron" in name:
        return _nemotron(row)
    return _gpt(row)


def _shaped(shape: Transformer, row: Row) -> Transformer:
    """`shape` in a row's own widths and depth; what the row leaves out is as GPT-2 has it."""
    hidden, heads = row.count("hidden"), row.count("heads")
    return replace(
        shape,
        name=row.word("model"),
        num_layers=row.count("layers"),
        hidden=hidden,
        num_heads=heads,
        num_kv_heads=row.count("kv_heads", heads),
        head_width=hidden // heads,
        ffn_width=row.count("ffn", 4 * hidden),
        vocab=row.count("vocab", padded_vocab(row)),
    )


def padded_vocab(row: Row, words: int = GPT2_VOCAB) -> int:
    step = PADDED_TO * max(1, row.count("TP", 1))
    return -(-words // step) * step


def _gpt(row: Row) -> Transformer:
    layers, hidden, heads, seq = (row.count(column) for column in ("layers", "hidden", "heads", "seq"))
    vocab = padded_vocab(row, row.count("vocab", GPT2_VOCAB))
    shape = gpt2_like(row.word("model"), layers, hidden, heads, vocab, seq)
    return replace(shape, ffn_width=row.count("ffn", 4 * hidden))


def _llama(row: Row) -> Transformer:
    shape = models["llama3-8b"]().architecture
    assert isinstance(shape, Transformer)
    return _shaped(shape, row)


def _mpt(row: Row) -> Transformer:
    """MPT: no biases, no dropout, ALiBi inside the attention kernel, tied head (llm-foundry, mpt configurations)."""
    shape = _gpt(row)
    return replace(
        shape,
        norm_has_bias=False,
        qkv_bias=False,
        output_bias=False,
        ffn_bias=False,
        has_dropout=False,
        has_attention_dropout=False,
        num_positions=0,
        vocab=row.count("vocab"),
    )


def _nemotron(row: Row) -> Transformer:
    """Nemotron: squared ReLU, rotary positions, no biases (arXiv:2402.16819)."""
    shape = _llama(row)
    return replace(shape, norm="layernorm", activation="gelu")


def _mixture(row: Row, family: str) -> Transformer:
    num_experts, num_experts_per_token, width, shared_width, num_dense = EXPERTS[family]
    num_groups, num_groups_per_token = GROUPS.get(family, (1, 1))
    shape = _llama(row)
    is_latent = "deepseek" in family or "kimi" in family
    has_bias = "gpt oss" in family  # attention_bias of the released config.json; experts and sinks of the weights
    return replace(
        shape,
        num_kv_heads=shape.num_heads if is_latent else shape.num_kv_heads,
        head_width=next((w for known, w in HEAD_WIDTH.items() if known in family), shape.head_width),
        ffn_width=DENSE_FFN.get(family, width),
        experts=Experts(
            num_experts=num_experts,
            num_experts_per_token=num_experts_per_token,
            width=width,
            num_groups=num_groups,
            num_groups_per_token=num_groups_per_token,
            shared_width=shared_width,
            has_bias=has_bias,
        ),
        qkv_bias=has_bias,
        output_bias=has_bias,
        has_attention_sinks=has_bias,
        num_dense_layers=min(num_dense, shape.num_layers - 1),
        latent=DEEPSEEK_LATENT if is_latent else None,
        qk_norm="qwen3" in family,
        activation=_activation(row, family),
        window=128 if "gpt oss" in family else 0,
        layer_types=(("sliding_attention", 1), ("full_attention", 1)) if "gpt oss" in family else (),
    )


def _activation(row: Row, family: str) -> str:
    """GPT-OSS clamps its gate; estimate: unfused until the containers of mid-2026."""
    return "clamped_silu_mul" if "gpt oss" in family and row.container < FUSED_CLAMP_SINCE else "silu_mul"
