"""The shape of GPT-2, which its successors share: layer norms, biases, learnt positions, a tied head."""

from __future__ import annotations

from dovetail.workload.transformer import Transformer


def gpt2_like(name: str, num_layers: int, hidden: int, num_heads: int, vocab: int, num_positions: int) -> Transformer:
    """A decoder like GPT-2, with dropout everywhere and a feed-forward of four times its width."""
    return Transformer(
        name=name,
        num_layers=num_layers,
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_width=hidden // num_heads,
        ffn_width=4 * hidden,
        vocab=vocab,
        norm="layernorm",
        norm_has_bias=True,
        activation="gelu",
        qkv_bias=True,
        output_bias=True,
        ffn_bias=True,
        has_rope=False,
        has_dropout=True,
        has_attention_dropout=True,
        is_tied=True,
        num_positions=num_positions,
    )
