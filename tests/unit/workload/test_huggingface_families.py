"""What each family of Hugging Face's means by its keys: defaults, dropout, and the layers that have a window."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.graph import Phase
from dovetail.workload.huggingface import model_from_config
from dovetail.workload.layers import Sample
from dovetail.workload.operators import code_of
from tests.unit.workload.dense_configs import (
    GEMMA_2_9B,
    GEMMA_3_1B,
    GEMMA_7B,
    GPT2,
    LLAMA_2_7B,
    LLAMA_3_8B,
    MISTRAL_7B,
    OPT_1_3B,
    QWEN_2_5_7B,
    QWEN_7B,
    Config,
)
from tests.unit.workload.encoder_configs import MT5_SMALL
from tests.unit.workload.mixture_configs import QWEN_1_5_MOE_A2_7B
from tests.unit.workload.released_configs import error_of, transformer_of, without


def test_absent_keys_take_the_defaults_of_their_family():
    assert transformer_of(LLAMA_2_7B).num_kv_heads == 32
    assert not transformer_of(LLAMA_2_7B).is_tied
    assert transformer_of(without(MISTRAL_7B, "num_key_value_heads")).num_kv_heads == 8
    assert transformer_of(MISTRAL_7B | {"num_key_value_heads": None}).num_kv_heads == 32
    assert transformer_of(without(MISTRAL_7B, "sliding_window")).window == 4096
    assert transformer_of(MISTRAL_7B | {"sliding_window": None}).window == 0
    assert transformer_of(GEMMA_7B).is_tied
    assert transformer_of(GPT2).ffn_width == 4 * 768
    assert transformer_of(GPT2 | {"n_inner": 1000}).ffn_width == 1000


def test_dropout_is_what_the_config_says():
    assert transformer_of(GPT2).has_dropout
    assert transformer_of(GPT2).has_attention_dropout
    assert transformer_of(OPT_1_3B).has_dropout
    assert not transformer_of(OPT_1_3B).has_attention_dropout
    assert not transformer_of(GPT2 | {"resid_pdrop": 0.0, "embd_pdrop": 0.0}).has_dropout
    assert not transformer_of(LLAMA_3_8B).has_dropout


def work_frac(config: Config, seq: int) -> float:
    layer = model_from_config(config, "x").forward(Sample(batch=1, seq=seq, dtype="bf16")).blocks[1]
    [share] = layer.ops.work_frac[layer.ops.kind == code_of("attention")]
    return float(share)


@pytest.mark.parametrize("seq", [1024, 4096])
def test_a_window_no_shorter_than_the_sequence_changes_nothing(seq):
    assert work_frac(MISTRAL_7B, seq) == 0.5


@pytest.mark.parametrize("seq", [4097, 8192, 32768])
def test_beyond_the_window_only_the_pairs_inside_it_are_worked_on(seq):
    pairs = sum(min(query + 1, 4096) for query in range(seq))
    assert work_frac(MISTRAL_7B, seq) == pytest.approx(pairs / seq**2, rel=1.5 / seq + 1e-9)


def test_layer_types_say_which_layers_have_the_window():
    kinds = {"all": ["sliding_attention"] * 42, "none": ["full_attention"] * 42}
    every_other = (("sliding_attention", 1), ("full_attention", 1))
    assert transformer_of(GEMMA_2_9B).layer_types == every_other
    written_out = ["sliding_attention", "full_attention"] * 21
    assert transformer_of(GEMMA_2_9B | {"layer_types": written_out}) == transformer_of(GEMMA_2_9B)
    all_sliding = transformer_of(GEMMA_2_9B | {"layer_types": kinds["all"]})
    assert (all_sliding.window, all_sliding.layer_types) == (4096, ())
    assert transformer_of(GEMMA_2_9B | {"layer_types": kinds["none"]}).window == 0
    odd = [*kinds["all"][:40], *kinds["none"][:2]]
    found = transformer_of(GEMMA_2_9B | {"layer_types": odd})
    assert found.layer_types == (("sliding_attention", 40), ("full_attention", 2))
    assert isinstance(error_of(GEMMA_2_9B | {"layer_types": ["chunked_attention"] * 42}), NotModelled)
    assert isinstance(error_of(GEMMA_2_9B | {"layer_types": kinds["all"][:41]}), InvalidInput)


def test_all_but_the_last_of_every_six_layers_of_gemma_3_have_the_window():
    kinds = ["full_attention" if (layer + 1) % 6 == 0 else "sliding_attention" for layer in range(26)]
    assert transformer_of(GEMMA_3_1B).layer_types == (("sliding_attention", 5), ("full_attention", 1))
    written_out = without(GEMMA_3_1B, "sliding_window_pattern") | {"layer_types": kinds}
    assert transformer_of(written_out) == transformer_of(GEMMA_3_1B)
    graph = transformer_of(GEMMA_3_1B).forward(Sample(batch=1, seq=2048, dtype="bf16"))
    assert [block.repeat for block in graph.blocks] == [1, 22, 4, 1]
    assert graph.layer_runs == ((0, 5), (1, 1)) * 4 + ((0, 2),)
    assert transformer_of(GEMMA_3_1B | {"sliding_window_pattern": 1}).window == 0


def test_the_first_qwen_counts_gate_and_product_as_one_width():
    assert transformer_of(QWEN_7B).ffn_width == 11008
    assert model_from_config(QWEN_7B, "x").seq == 8192
    assert isinstance(error_of(QWEN_7B | {"no_bias": False}), NotModelled)


def test_mt5_is_gated_and_untied_where_the_config_does_not_say():
    bare = without(without(MT5_SMALL, "feed_forward_proj"), "tie_word_embeddings")
    assert transformer_of(bare) == transformer_of(MT5_SMALL)


def test_qwen_uses_its_window_only_when_told_to():
    assert transformer_of(QWEN_2_5_7B).window == 0
    on = QWEN_2_5_7B | {"use_sliding_window": True}
    assert transformer_of(on).window == 0
    assert transformer_of(on | {"max_window_layers": 0}).window == 131072
    behind = transformer_of(on | {"max_window_layers": 14})
    assert behind.layer_types == (("full_attention", 14), ("sliding_attention", 14))


def test_the_capped_scores_of_gemma_2_show_when_attention_is_not_fused():
    sample = Sample(batch=1, seq=128, dtype="bf16", attention="unfused")
    layer = model_from_config(GEMMA_2_9B, "x").forward(sample).blocks[1]
    forward = layer.ops.kind[layer.ops.phase == Phase.FORWARD]
    assert list(forward).count(code_of("tanh")) == 1


def test_the_first_layers_of_a_mixture_may_be_dense():
    assert transformer_of(QWEN_1_5_MOE_A2_7B | {"mlp_only_layers": [1, 0]}).num_dense_layers == 2
    every_other = transformer_of(QWEN_1_5_MOE_A2_7B | {"decoder_sparse_step": 2})
    assert every_other.mlp_layer_types == (("dense", 1), ("sparse", 1))
    fourth = transformer_of(QWEN_1_5_MOE_A2_7B | {"mlp_only_layers": [3]})
    assert fourth.mlp_layer_types == (("sparse", 3), ("dense", 1), ("sparse", 20))
