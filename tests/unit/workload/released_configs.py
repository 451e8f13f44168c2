"""Every released configuration with its parameter count, and what is read from one or refused of it."""

from __future__ import annotations

from typing import Any

import pytest

from dovetail.errors import DovetailError
from dovetail.workload.huggingface import model_from_config
from dovetail.workload.transformer import Transformer
from tests.unit.workload.dense_configs import (
    GEMMA_2_9B,
    GEMMA_3_1B,
    GEMMA_3_27B,
    GEMMA_7B,
    GPT2,
    GPT_NEOX_20B,
    LLAMA_2_7B,
    LLAMA_3_8B,
    MISTRAL_7B,
    OPT_1_3B,
    OPT_350M,
    PHI_2,
    PHI_3_MINI_4K,
    QWEN_2_5_7B,
    QWEN_3_8B,
    QWEN_7B,
    Config,
)
from tests.unit.workload.encoder_configs import BERT_BASE_UNCASED, MT5_SMALL, T5_1_1_LARGE, T5_LARGE
from tests.unit.workload.mixture_configs import (
    DEEPSEEK_MOE_16B,
    DEEPSEEK_V2_LITE,
    DEEPSEEK_V3,
    DEEPSEEK_V3_QUANTISED,
    GPT_OSS_20B,
    GPT_OSS_120B,
    MIXTRAL_8X7B,
    PHI_3_5_MOE,
    QWEN_1_5_MOE_A2_7B,
    QWEN_3_30B_A3B,
)

# Counts of the weights as released on Hugging Face, tied ones once; DeepSeek-V3's without its multi-token module.
RELEASED: dict[str, tuple[Config, int]] = {
    "llama-2-7b": (LLAMA_2_7B, 6_738_415_616),
    "llama-3-8b": (LLAMA_3_8B, 8_030_261_248),
    "mistral-7b-v0.1": (MISTRAL_7B, 7_241_732_096),
    "mixtral-8x7b": (MIXTRAL_8X7B, 46_702_792_704),
    "qwen2.5-7b": (QWEN_2_5_7B, 7_615_616_512),
    "qwen1.5-moe-a2.7b": (QWEN_1_5_MOE_A2_7B, 14_315_784_192),
    "qwen3-8b": (QWEN_3_8B, 8_190_735_360),
    "qwen3-30b-a3b": (QWEN_3_30B_A3B, 30_532_122_624),
    "gpt-neox-20b": (GPT_NEOX_20B, 20_554_567_680),
    "opt-1.3b": (OPT_1_3B, 1_315_758_080),
    "opt-350m": (OPT_350M, 331_196_416),
    "gpt2": (GPT2, 124_439_808),
    "bert-base-uncased": (BERT_BASE_UNCASED, 110_106_428),
    "t5-large": (T5_LARGE, 737_668_096),
    "t5-v1.1-large": (T5_1_1_LARGE, 783_150_080),
    "gemma-7b": (GEMMA_7B, 8_537_680_896),
    "gemma-2-9b": (GEMMA_2_9B, 9_241_705_984),
    "phi-2": (PHI_2, 2_779_683_840),
    "phi-3-mini-4k": (PHI_3_MINI_4K, 3_821_079_552),
    "deepseek-v2-lite": (DEEPSEEK_V2_LITE, 15_706_484_224),
    "deepseek-v3": (DEEPSEEK_V3, 671_026_419_200),
    "deepseek-v3-fp8": (DEEPSEEK_V3_QUANTISED, 671_026_419_200),
    "deepseek-moe-16b": (DEEPSEEK_MOE_16B, 16_375_728_128),
    "qwen-7b": (QWEN_7B, 7_721_324_544),
    "gemma-3-1b": (GEMMA_3_1B, 999_885_952),
    "gemma-3-27b": (GEMMA_3_27B, 27_009_346_304),
    "gpt-oss-20b": (GPT_OSS_20B, 20_914_757_184),
    "gpt-oss-120b": (GPT_OSS_120B, 116_829_156_672),
    "mt5-small": (MT5_SMALL, 300_176_768),
    "phi-3.5-moe": (PHI_3_5_MOE, 41_873_153_344),
}


def transformer_of(config: Config) -> Transformer:
    architecture = model_from_config(config, "x").architecture
    assert isinstance(architecture, Transformer)
    return architecture


def error_of(config: Any) -> DovetailError:
    with pytest.raises(DovetailError) as caught:
        model_from_config(config, "x")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return caught.value


def without(config: Config, key: str) -> Config:
    return {k: v for k, v in config.items() if k != key}
