"""Encoders, and encoders before decoders, from the configurations of transformers: BERT, T5, ViT."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from transformers import (
    BertConfig,
    BertForPreTraining,
    MegatronBertConfig,
    MegatronBertForPreTraining,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
)

from tests.torch_models.built import BATCH, Build, Built, indices, numbers, on_meta
from tests.torch_models.decoders import language_model


def _pre_training(make: Callable[[], nn.Module]) -> Build:
    """Both losses of BERT: every position is scored, and the pair of sentences."""

    def build(*, batch: int = BATCH, seq: int = 0) -> Built:
        tokens = indices(batch, seq or 512)
        inputs = {"input_ids": tokens, "labels": tokens.clone(), "next_sentence_label": indices(batch)}
        return on_meta(make), inputs

    return build


def _bert(layers: int, hidden: int, heads: int) -> Build:
    config = BertConfig(
        num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, intermediate_size=4 * hidden
    )
    return _pre_training(lambda: BertForPreTraining(config))


def _megatron_bert() -> nn.Module:
    config = MegatronBertConfig(
        num_hidden_layers=24,
        hidden_size=1024,
        num_attention_heads=16,
        intermediate_size=4096,
        vocab_size=30592,
        pad_token_id=None,  # with one, transformers looks for it among the tokens, to warn
    )
    return MegatronBertForPreTraining(config)


def _t5(heads: int, head_width: int, ffn: int) -> Build:
    config = T5Config(
        num_layers=24,
        num_decoder_layers=24,
        d_model=1024,
        num_heads=heads,
        d_kv=head_width,
        d_ff=ffn,
        vocab_size=32128,
        feed_forward_proj="relu",
        tie_word_embeddings=True,
        use_cache=False,
        decoder_start_token_id=0,
    )
    return language_model(lambda: T5ForConditionalGeneration(config), 512)


def _vit_l_16(*, batch: int = BATCH, seq: int = 0) -> Built:
    config = ViTConfig(
        num_hidden_layers=24, hidden_size=1024, num_attention_heads=16, intermediate_size=4096, num_labels=1000
    )
    images = numbers(batch, 3, 224, 224)
    return on_meta(lambda: ViTForImageClassification(config)), {"pixel_values": images, "labels": indices(batch)}


BUILDS: dict[str, Build] = {
    "bert-base": _bert(12, 768, 12),
    "bert-large": _bert(24, 1024, 16),
    "megatron-bert-336m": _pre_training(_megatron_bert),
    "t5-large": _t5(16, 64, 4096),
    "t5-11b": _t5(128, 128, 65536),
    "vit-l-16": _vit_l_16,
}
