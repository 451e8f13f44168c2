"""A configuration that is wrong or not modelled is refused in one line that names its key."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.workload.huggingface import model_from_config, readers
from dovetail.workload.layers import Sample
from dovetail.workload.model import Model
from tests.unit.workload.dense_configs import GPT2, LLAMA_2_7B, LLAMA_3_8B, OPT_1_3B, PHI_2, QWEN_2_5_7B, Config
from tests.unit.workload.encoder_configs import BERT_BASE_UNCASED, T5_LARGE
from tests.unit.workload.mixture_configs import DEEPSEEK_V3, GPT_OSS_20B, QWEN_1_5_MOE_A2_7B
from tests.unit.workload.released_configs import RELEASED, error_of, without


def test_a_quantisation_that_is_no_mapping_is_refused():
    error = error_of(LLAMA_3_8B | {"quantization_config": "fp8"})
    assert isinstance(error, InvalidInput)
    assert error.where == "quantization_config"


@pytest.mark.parametrize(
    ("config", "architecture"),
    [
        (LLAMA_3_8B, "GPT2LMHeadModel"),
        (LLAMA_3_8B, "MistralForCausalLM"),
        (QWEN_2_5_7B, "Qwen2MoeForCausalLM"),
        (GPT2, "LlamaForCausalLM"),
        (T5_LARGE, "MT5ForConditionalGeneration"),
    ],
)
def test_a_class_of_another_network_than_the_model_type_is_refused(config, architecture):
    error = error_of(config | {"architectures": [architecture]})
    assert isinstance(error, InvalidInput)
    assert error.where == "architectures.0"
    assert architecture in error.message
    assert config["model_type"] in error.message


@pytest.mark.parametrize("given_type", ["lama", "Mistral-7B", "gpt_neo", "qwen2_5_vl", "x" * 10_000])
def test_an_unknown_model_type_names_the_supported_and_calls_none_of_them_the_same(given_type):
    error = error_of(LLAMA_2_7B | {"model_type": given_type})
    assert isinstance(error, InvalidInput)
    assert error.where == "model_type"
    assert "did you mean" not in str(error)
    assert f"supported: {', '.join(readers.names())}" in str(error)


@pytest.mark.parametrize(("name", "config"), [(name, config) for name, (config, _) in RELEASED.items()])
def test_a_missing_width_or_depth_is_named(name, config):
    required = {"hidden_size", "n_embd", "d_model", "num_hidden_layers", "n_layer", "num_layers", "vocab_size"}
    for key in sorted(required & set(config)):
        error = error_of(without(config, key))
        assert isinstance(error, InvalidInput)
        assert error.where == key
        assert "missing" in error.message


@pytest.mark.parametrize(
    "value",
    ["4096", -1, 0, 1.5, float("nan"), float("inf"), True, [4096], {"a": {"b": 1}}, 10**30, 10**400, "x" * 9_000],
)
@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "head_dim"])
def test_a_value_that_is_no_count_is_refused_at_its_key(key, value):
    error = error_of(LLAMA_3_8B | {key: value})
    assert isinstance(error, InvalidInput)
    assert error.where == key


def test_numbers_that_must_divide_each_other_are_both_shown():
    error = error_of(LLAMA_3_8B | {"num_key_value_heads": 5})
    assert str(error) == "num_key_value_heads=5 must divide num_attention_heads=32 (num_key_value_heads)"


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"hidden_act": "quick_gelu"}, "hidden_act"),
        ({"hidden_act": "relu"}, "hidden_act"),
        ({"vision_config": {"hidden_size": 1024}}, "vision_config"),
        ({"text_config": {"model_type": "llama"}, "model_type": "llava"}, "text_config"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "architectures.0"),
        ({"a_new_idea": 3}, "a_new_idea"),
        ({"add_cross_attention": True}, "add_cross_attention"),
    ],
)
def test_what_is_not_modelled_is_refused_and_not_ignored(changes, where):
    error = error_of(LLAMA_3_8B | changes)
    assert isinstance(error, NotModelled)
    assert error.where == where
    assert where.partition(".")[0] in error.message


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        (BERT_BASE_UNCASED, "position_embedding_type", "relative_key"),
        (BERT_BASE_UNCASED, "is_decoder", True),
        (BERT_BASE_UNCASED, "hidden_act", "relu"),
        (T5_LARGE, "feed_forward_proj", "gated-relu"),
        (OPT_1_3B, "layerdrop", 0.1),
        (OPT_1_3B, "enable_bias", False),
        (PHI_2, "qk_layernorm", True),
        (QWEN_1_5_MOE_A2_7B, "mlp_only_layers", [24]),
        (QWEN_1_5_MOE_A2_7B, "mlp_only_layers", list(range(24))),
        (GPT_OSS_20B, "experts_per_token", 2),
        (DEEPSEEK_V3, "moe_layer_freq", 2),
        (DEEPSEEK_V3, "attention_bias", True),
        (GPT2, "reorder_and_upcast_attn", True),
    ],
)
def test_an_option_of_one_family_that_is_not_modelled_is_refused(config, key, value):
    error = error_of(config | {key: value})
    assert isinstance(error, NotModelled)
    assert error.where == key
    assert key in error.message


@pytest.mark.parametrize("config", [None, 3, "llama", [], [LLAMA_3_8B]])
def test_a_config_that_is_no_mapping_is_refused(config):
    assert isinstance(error_of(config), InvalidInput)


def test_an_empty_config_is_told_what_it_lacks_first():
    assert str(error_of({})) == "model_type is missing (model_type)"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def model_or_error(config: Config) -> Model | DovetailError:
    try:
        return model_from_config(config, "x")
    except DovetailError as error:
        return error


@given(data=st.data())
def test_any_json_at_any_key_gives_a_model_that_builds_or_one_line(data):
    config, _ = data.draw(st.sampled_from(list(RELEASED.values())))
    key = data.draw(st.sampled_from(sorted(config)))
    changed = config | {key: data.draw(JSON | st.integers(min_value=0, max_value=2**21))}
    answer = model_or_error(changed)
    if isinstance(answer, Model):
        assert answer.forward(Sample(batch=1, seq=1, dtype="bf16")).num_parameters > 0
    else:
        assert "\n" not in str(answer)
        assert len(str(answer)) < 500


@pytest.mark.parametrize("value", [-0.1, 1.1, 10**400, -(10**400), float("nan"), float("inf"), "0.1", True])
def test_a_value_that_is_no_fraction_is_refused_at_its_key(value):
    error = error_of(LLAMA_3_8B | {"attention_dropout": value})
    assert isinstance(error, InvalidInput)
    assert error.where == "attention_dropout"
