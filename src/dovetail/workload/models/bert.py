"""BERT (Google) with both heads of its pre-training, masked tokens and next sentence.

BERT normalises after each residual add. Where a norm stands does not change what it costs, so the layers are those of
the other families; there is no final norm. Every position is scored, as in the released code's fixed-length batches.
"""

from __future__ import annotations

from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer


def _bert(name: str, num_layers: int, hidden: int, num_heads: int) -> Transformer:
    return Transformer(
        name=name,
        num_layers=num_layers,
        hidden=hidden,
        num_heads=num_heads,
        num_kv_heads=num_heads,
        head_width=hidden // num_heads,
        ffn_width=4 * hidden,
        vocab=30522,
        norm="layernorm",
        norm_has_bias=True,
        activation="gelu",
        qkv_bias=True,
        output_bias=True,
        ffn_bias=True,
        head_bias=True,
        is_causal=False,
        has_rope=False,
        has_dropout=True,
        has_attention_dropout=True,
        is_tied=True,
        has_final_norm=False,
        has_embedding_norm=True,
        num_positions=512,
        num_token_types=2,
        head="mlm",
    )


def _entry(architecture: Transformer, published_parameters: int) -> Model:
    return Model(
        architecture=architecture,
        family="bert",
        seq=512,
        sample="tokens",
        published_parameters=published_parameters,
        is_exact=True,
        source="Devlin et al. 2018, arXiv:1810.04805, released config.json and weights (uncased, for pre-training)",
    )


@models.register("bert-base")
def bert_base() -> Model:
    return _entry(_bert("bert-base", 12, 768, 12), 110_106_428)


@models.register("bert-large")
def bert_large() -> Model:
    return _entry(_bert("bert-large", 24, 1024, 16), 336_226_108)
