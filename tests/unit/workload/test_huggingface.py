"""Released configurations give the released parameter counts, and say what was left out or chosen."""

from __future__ import annotations

import copy

import pytest

from dovetail.workload.huggingface import model_from_config, readers
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from tests.messages import holds
from tests.unit.workload.dense_configs import (
    GEMMA_2_9B,
    LLAMA_2_7B,
    LLAMA_3_8B,
    MISTRAL_7B,
    OPT_1_3B,
    OPT_350M,
    QWEN_2_5_7B,
)
from tests.unit.workload.encoder_configs import BERT_BASE_UNCASED, T5_LARGE
from tests.unit.workload.mixture_configs import DEEPSEEK_V2_LITE, DEEPSEEK_V3, DEEPSEEK_V3_QUANTISED, MIXTRAL_8X7B
from tests.unit.workload.released_configs import RELEASED, transformer_of

SMALL = Sample(batch=1, seq=128, dtype="bf16")


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_config_gives_the_released_parameter_count(name):
    config, num_parameters = RELEASED[name]
    assert model_from_config(config, name).forward(SMALL).num_parameters == num_parameters


@pytest.mark.parametrize(
    ("registered", "config"),
    [
        ("llama2-7b", LLAMA_2_7B),
        ("llama3-8b", LLAMA_3_8B),
        ("mixtral-8x7b", MIXTRAL_8X7B),
        ("deepseek-v3", DEEPSEEK_V3),
        ("opt-350m", OPT_350M),
        ("opt-1.3b", OPT_1_3B),
        ("bert-base", BERT_BASE_UNCASED),
        ("t5-large", T5_LARGE),
    ],
)
def test_the_catalogue_and_the_released_config_describe_one_network(registered, config):
    assert model_from_config(config, registered).architecture == models[registered]().architecture


def test_every_model_type_has_a_released_config_to_be_held_to():
    assert {config["model_type"] for config, _ in RELEASED.values()} == set(readers.names())


def test_the_model_is_named_as_asked_and_says_what_it_does_not_know():
    model = model_from_config(MISTRAL_7B, "my-mistral")
    assert model.name == "my-mistral"
    assert model.family == "mistral"
    assert model.published_parameters == 0
    assert not model.is_exact


def test_a_sample_is_as_long_as_the_config_allows_up_to_what_runs_commonly_use():
    assert model_from_config(LLAMA_2_7B, "x").seq == 4096
    assert model_from_config(LLAMA_2_7B, "x").notes == ()
    assert model_from_config(LLAMA_3_8B, "x").seq == 8192
    assert model_from_config(LLAMA_3_8B, "x").notes == ()
    long = model_from_config(QWEN_2_5_7B, "x")
    assert long.seq == 8192
    [note] = long.notes
    assert holds(note, "131,072", "8,192", "seq")


def test_released_weights_in_another_format_are_trained_all_the_same_and_that_is_told():
    model = model_from_config(DEEPSEEK_V3_QUANTISED, "x")
    assert model.architecture == model_from_config(DEEPSEEK_V3, "x").architecture
    assert model.notes[:2] == (
        "the multi-token-prediction module is left out",
        "released weights are quantised (fp8); trained here in the workload's precision",
    )


@pytest.mark.parametrize(
    ("quantised", "told"),
    [
        ({"quant_method": "compressed-tensors"}, ("released weights are quantised (compressed-tensors); trained",)),
        ({"bits": 4}, ("released weights are quantised; trained",)),
        ({"quant_method": "a\nb"}, ("released weights are quantised; trained",)),
        ({}, ()),
        (None, ()),
    ],
)
def test_how_weights_were_quantised_is_named_where_it_is_known(quantised, told):
    notes = model_from_config(LLAMA_3_8B | {"quantization_config": quantised}, "x").notes
    assert tuple(note[: len(start)] for note, start in zip(notes, told, strict=True)) == told


def test_without_a_further_module_nothing_is_told_of_it():
    assert "multi-token" not in " ".join(model_from_config(DEEPSEEK_V2_LITE, "x").notes)


@pytest.mark.parametrize(
    "key",
    [
        "unsloth_version",
        "unsloth_fixed",
        "is_llama_config",
        "transformers_version",
        "_name_or_path",
        "auto_map",
        "torch_dtype",
        "dtype",
        "use_cache",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "mask_token_id",
        "initializer_range",
        "pretraining_tp",
        "rope_interleaved",
        "_attn_implementation_autoset",
        "_commit_hash",
        "forced_eos_token_id",
    ],
)
def test_a_key_that_only_describes_software_is_no_matter(key):
    assert transformer_of(LLAMA_3_8B | {key: "2025.1"}) == transformer_of(LLAMA_3_8B)


def test_reading_a_config_leaves_it_as_it_was():
    config = copy.deepcopy(GEMMA_2_9B)
    model_from_config(config, "x")
    assert config == GEMMA_2_9B
