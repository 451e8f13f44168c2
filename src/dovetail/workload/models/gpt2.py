"""GPT-2 (OpenAI), and the shape that its successors share: layer norms, biases, learnt positions, a tied head.

The released names are older than the released weights: the "345M" model has 355 million parameters.
"""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

_GPT2 = "Radford et al. 2019, released weights and config.json (gpt2-medium, gpt2-xl)"


def gpt2_like(name: str, num_layers: int, hidden: int, num_heads: int, vocab: int, num_positions: int) -> Transformer:
    """A decoder in the manner of GPT-2, with dropout everywhere and a feed-forward of four times its width."""
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


def _entry(architecture: Transformer, published_parameters: int) -> Model:
    return Model(
        architecture=architecture,
        family="gpt2",
        seq=1024,
        sample="tokens",
        published_parameters=published_parameters,
        is_exact=True,
        source=_GPT2,
    )


@models.register("gpt2-345m")
def gpt2_345m() -> Model:
    return _entry(gpt2_like("gpt2-345m", 24, 1024, 16, 50257, 1024), 354_823_168)


@models.register("gpt2-1.5b")
def gpt2_1_5b() -> Model:
    return _entry(gpt2_like("gpt2-1.5b", 48, 1600, 25, 50257, 1024), 1_557_611_200)
