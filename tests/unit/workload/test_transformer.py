"""One description of a transformer gives the rows that each family needs, and no others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.experts import Experts
from dovetail.workload.graph import Axis, Block, Graph
from dovetail.workload.latent import LatentAttention
from dovetail.workload.layers import Sample, causal_pairs_frac
from dovetail.workload.operators import code_of
from dovetail.workload.shape_rules import ACTIVATIONS, ELEMENT_WISE
from dovetail.workload.transformer import Transformer

SHAPE = Transformer(
    name="tiny", num_layers=3, hidden=64, num_heads=8, num_kv_heads=4, head_width=8, ffn_width=96, vocab=1000
)
SAMPLE = Sample(batch=2, seq=32, dtype="bf16")
UNFUSED = replace(SAMPLE, attention="unfused")
EXPERTS = Experts(num_experts=8, num_experts_per_token=2, width=48, shared_width=24)


def graph(sample: Sample = SAMPLE, **changes: Any) -> Graph:
    return replace(SHAPE, **changes).forward(sample)


def kinds(block: Block) -> Counter[str]:
    names = {code_of(name): name for name in ("gather", "reduce", "dropout", "add", "layernorm", "rmsnorm", "tanh")}
    return Counter(names[kind] for kind in block.ops.kind.tolist() if kind in names)


def row(block: Block, name: str) -> int:
    assert block.ops.names.count(name) == 1, (name, block.ops.names)
    return block.ops.names.index(name)


def test_layers_are_stored_once_and_repeated():
    blocks = graph().blocks
    assert [(block.name, block.repeat) for block in blocks] == [("embedding", 1), ("layer", 3), ("head", 1)]
    assert graph().num_layers == 3


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"hidden": 0}, "hidden"),
        ({"num_kv_heads": 3}, "num_kv_heads"),
        ({"head": "classifier"}, "head"),
        ({"num_dense_layers": 3}, "num_dense_layers"),
        ({"num_norms": 7}, "num_norms"),
        ({"num_norms": 0}, "num_norms"),
        ({"num_norms": 1}, "num_norms"),
        ({"num_norms": 4, "is_parallel": True}, "num_norms"),
        ({"rotary_frac": 5}, "rotary_frac"),
        ({"rotary_frac": 0.0}, "rotary_frac"),
        ({"rotary_frac": -0.5}, "rotary_frac"),
        ({"rotary_frac": float("nan")}, "rotary_frac"),
        ({"rotary_frac": 0.01}, "rotary_frac"),
        ({"layer_types": (("sliding_attention", 1),)}, "layer_types"),
        ({"window": 8, "layer_types": (("sliding", 1),)}, "layer_types"),
        ({"window": 8, "layer_types": (("dense", 1),)}, "layer_types"),
        ({"window": 8, "layer_types": (("sliding_attention", 0), ("full_attention", 1))}, "layer_types"),
        ({"mlp_layer_types": (("dense", 1), ("sparse", 1))}, "mlp_layer_types"),
        ({"window": 8, "is_causal": False}, "window"),
        ({"head_width": 0}, "head_width"),
    ],
)
def test_an_impossible_shape_is_refused_where_it_is_wrong(changes, where):
    with pytest.raises(InvalidInput) as caught:
        replace(SHAPE, **changes)
    assert caught.value.where == where


@pytest.mark.parametrize(
    "label",
    [
        "window",
        "num_positions",
        "num_token_types",
        "embedding_width",
        "num_relative_buckets",
        "num_encoder_layers",
        "num_dense_layers",
    ],
)
def test_a_count_that_may_be_none_is_not_negative(label):
    with pytest.raises(InvalidInput, match=f"{label} must not be negative; got -1") as caught:
        graph(SAMPLE, **{label: -1})
    assert caught.value.where == label


@pytest.mark.parametrize(
    "name", ["adam", "embedding", "cross_entropy", "softmax", "attention", "matmul", "batchnorm", "router", "selu"]
)
@pytest.mark.parametrize("label", ["activation", "norm"])
def test_an_operator_that_is_no_activation_is_none_and_the_same_goes_for_norms(label, name):
    with pytest.raises(InvalidInput, match=f"no {label} is named '{name}'") as caught:
        replace(SHAPE, **{label: name})
    assert caught.value.where == label


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"activation": "gelu_mull"}, "no activation is named 'gelu_mull'; did you mean gelu_mul or silu_mul or gelu?"),
        ({"activation": "SwiGLU"}, "no activation is named 'SwiGLU'; here it is called silu_mul"),
        (
            {"activation": "adam"},
            "no activation is named 'adam'; known: clamped_silu_mul, gelu, gelu_mul, relu, silu, silu_mul",
        ),
        ({"norm": "rms_norm"}, "no norm is named 'rms_norm'; did you mean rmsnorm?"),
    ],
)
def test_a_name_is_looked_for_among_those_that_can_stand_there(changes, told):
    with pytest.raises(InvalidInput) as caught:
        replace(SHAPE, **changes)
    assert caught.value.message == told


@pytest.mark.parametrize("label", ["embedding_kinds", "score_kinds", "head_kinds", "logit_kinds"])
@pytest.mark.parametrize("name", ["softmax", "adam", "linear", "embedding", "thing"])
def test_only_element_wise_operators_stand_between_others(label, name):
    with pytest.raises(InvalidInput, match=f"no element-wise operator is named '{name}'") as caught:
        graph(SAMPLE, **{label: ("scale", name)})
    assert caught.value.where == label


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("kernels", ["eager", "fused"])
def test_every_activation_that_is_allowed_can_be_built(name, kernels):
    assert graph(replace(SAMPLE, kernels=kernels), activation=name).num_parameters > 0


def test_every_element_wise_operator_that_is_allowed_can_be_built():
    kinds_everywhere = dict.fromkeys(("embedding_kinds", "score_kinds", "head_kinds", "logit_kinds"), ELEMENT_WISE)
    assert graph(UNFUSED, **kinds_everywhere).num_parameters == graph().num_parameters


LATENT = LatentAttention(query_rank=24, kv_rank=16, nope_width=8, rotary_width=4, value_width=6)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"is_parallel": True, "experts": EXPERTS}, "is_parallel"),
        ({"is_parallel": True, "num_encoder_layers": 2}, "is_parallel"),
        ({"experts": EXPERTS, "num_dense_layers": 1, "num_encoder_layers": 2}, "num_dense_layers"),
        ({"window": 8, "num_encoder_layers": 2}, "window"),
        ({"has_dropout": True, "experts": EXPERTS}, "has_dropout"),
        ({"has_ffn_dropout": True, "experts": EXPERTS}, "has_ffn_dropout"),
        ({"ffn_bias": True, "experts": EXPERTS}, "ffn_bias"),
        ({"qk_norm": True, "latent": LATENT}, "qk_norm"),
        ({"qkv_bias": True, "latent": LATENT}, "qkv_bias"),
        ({"num_norms": 4, "experts": EXPERTS}, "num_norms"),
        ({"num_norms": 4, "has_dropout": True}, "num_norms"),
    ],
)
def test_what_no_layer_is_written_for_is_refused_and_not_left_out(changes, where):
    with pytest.raises(NotModelled) as caught:
        replace(SHAPE, **changes)
    assert caught.value.where == where


def test_a_gate_needs_a_shared_expert():
    with pytest.raises(InvalidInput, match="shared_gate needs a shared expert"):
        Experts(num_experts=8, num_experts_per_token=2, width=48, shared_gate=True)


def test_the_part_of_a_latent_key_that_turns_is_said_by_its_width():
    with pytest.raises(InvalidInput, match="rotary_width"):
        replace(SHAPE, latent=LATENT, rotary_frac=0.5)


def test_a_sequence_longer_than_the_learnt_positions_is_refused():
    with pytest.raises(InvalidInput, match="seq=32 exceeds the 31 "):
        graph(num_positions=31)
    graph(num_positions=32)


def test_tied_weights_count_once_and_untied_ones_twice():
    assert graph().num_parameters - graph(is_tied=True).num_parameters == 1000 * 64


def test_biases_are_counted_where_asked_for():
    plain = graph().num_parameters
    assert graph(qkv_bias=True).num_parameters - plain == 3 * (64 + 2 * 32)
    assert graph(output_bias=True).num_parameters - plain == 3 * 64
    assert graph(ffn_bias=True).num_parameters - plain == 3 * (2 * 96 + 64)
    assert graph(head_bias=True).num_parameters - plain == 1000


def test_no_window_means_half_of_the_pairs():
    assert causal_pairs_frac(4096) == causal_pairs_frac(4096, 4096) == causal_pairs_frac(100, 4096) == 0.5


def test_a_narrower_window_never_means_more_work():
    shares = [causal_pairs_frac(512, window) for window in range(1, 600)]
    assert shares == sorted(shares)


@pytest.mark.parametrize("window", [1, 7, 100, 511])
def test_the_share_inside_a_window_is_the_count_of_its_pairs(window):
    seq = 512
    pairs = sum(min(query + 1, window) for query in range(seq)) - 0.5 * window  # half the diagonal that fills up
    assert causal_pairs_frac(seq, window) == pytest.approx(pairs / seq**2)


def test_a_window_cuts_the_work_of_attention_and_not_what_it_reads():
    whole, windowed = graph().blocks[1].ops, graph(window=8).blocks[1].ops
    attention = whole.kind == code_of("attention")
    assert windowed.flop[attention] == pytest.approx(whole.flop[attention] * causal_pairs_frac(32, 8) / 0.5)
    assert (windowed.read_bytes == whole.read_bytes).all()


def test_parallel_branches_behind_one_norm_open_and_close_one_region():
    serial, shared = graph().blocks[1], graph(is_parallel=True, num_norms=1).blocks[1]
    assert (kinds(serial)["gather"], kinds(serial)["reduce"], kinds(serial)["rmsnorm"]) == (2, 2, 2)
    assert (kinds(shared)["gather"], kinds(shared)["reduce"], kinds(shared)["rmsnorm"]) == (1, 1, 1)


def test_parallel_branches_with_a_norm_each_open_two_regions_and_close_one():
    block = graph(is_parallel=True).blocks[1]
    assert (kinds(block)["gather"], kinds(block)["reduce"], kinds(block)["rmsnorm"]) == (2, 1, 2)


def test_four_norms_a_layer_put_two_before_the_residual_adds():
    assert kinds(graph(num_norms=4).blocks[1])["rmsnorm"] == 4


def test_dropout_stands_where_it_is_asked_for():
    embedding, layer, head = (kinds(block)["dropout"] for block in graph(UNFUSED, has_dropout=True).blocks)
    assert (embedding, layer, head) == (1, 2, 0)
    assert kinds(graph(UNFUSED, has_attention_dropout=True).blocks[1])["dropout"] == 1
    assert kinds(graph(UNFUSED, has_ffn_dropout=True).blocks[1])["dropout"] == 1


def test_fused_attention_drops_and_caps_scores_on_chip():
    changes: dict[str, Any] = {"has_attention_dropout": True, "score_kinds": ("scale", "tanh", "scale")}
    assert kinds(graph(**changes).blocks[1])["dropout"] == 0
    assert kinds(graph(**changes).blocks[1])["tanh"] == 0
    assert kinds(graph(UNFUSED, **changes).blocks[1])["tanh"] == 1


def test_capped_logits_cost_a_tanh_over_the_vocabulary():
    head = graph(logit_kinds=("scale", "tanh", "scale")).blocks[-1]
    assert head.ops.extents[row(head, "logit_1_tanh")].tolist() == [1, 2 * 32, 1000, 1, 1]


def test_turning_half_of_a_key_does_half_the_work_and_leaves_the_tensor_whole():
    whole, half = graph().blocks[1], graph(rotary_frac=0.5).blocks[1]
    for name in ("rope_q", "rope_k"):
        assert half.ops.flop[row(half, name)] == whole.ops.flop[row(whole, name)] / 2
        assert half.ops.output_elements[row(half, name)] == whole.ops.output_elements[row(whole, name)]


def test_norms_on_queries_and_keys_have_a_weight_for_each_column_of_a_head():
    assert graph(qk_norm=True).num_parameters - graph().num_parameters == 3 * 2 * 8


def test_an_encoder_gives_the_decoder_something_to_attend_to():
    blocks = graph(num_encoder_layers=2).blocks
    assert [(block.name, block.repeat) for block in blocks[1:3]] == [("encoder", 2), ("decoder", 3)]
    encoder, decoder = blocks[1], blocks[2]
    attention = code_of("attention")
    assert encoder.ops.work_frac[encoder.ops.kind == attention].tolist() == [1.0]
    assert decoder.ops.work_frac[decoder.ops.kind == attention].tolist() == [0.5, 1.0]
    assert decoder.boundary_activation_elements == 2 * encoder.boundary_activation_elements


def test_both_stacks_of_an_encoder_decoder_look_up_tokens_and_end_in_a_norm():
    embedding, *_, head = graph(num_encoder_layers=2).blocks
    assert np.count_nonzero(embedding.ops.kind == code_of("embedding")) == 2
    assert kinds(head)["rmsnorm"] == 2
    tables = graph(num_encoder_layers=2, num_relative_buckets=32).blocks[0].num_parameters - embedding.num_parameters
    assert tables == 2 * 32 * 8


def test_an_embedding_of_its_own_width_is_projected_in_and_out():
    narrow = graph(embedding_width=16, is_tied=True)
    assert narrow.num_parameters - graph(is_tied=True).num_parameters == 1000 * (16 - 64) + 2 * 16 * 64


def test_the_first_layers_of_a_mixture_may_be_dense():
    blocks = graph(experts=EXPERTS, num_dense_layers=1).blocks
    assert [(block.name, block.repeat) for block in blocks[1:3]] == [("dense_layer", 1), ("expert_layer", 2)]


def test_an_expert_works_on_its_share_of_the_chosen_rows():
    layer = graph(experts=EXPERTS).blocks[1]
    assert layer.ops.extents[row(layer, "expert_up")].tolist() == [8, 2 * 32 * 2 // 8, 2 * 48, 64, 1]


def test_plans_may_divide_only_widths_that_layers_have():
    def labels(**changes: Any) -> set[str]:
        return {rule.label for rule in graph(**changes).rules if rule.axis == Axis.TENSOR}

    assert labels() == {"num_heads", "ffn_width"}
    assert labels(experts=EXPERTS) == {"num_heads", "shared expert width"}
    assert labels(experts=replace(EXPERTS, shared_width=0)) == {"num_heads"}
    assert labels(experts=EXPERTS, num_dense_layers=1) == {"num_heads", "ffn_width", "shared expert width"}


@pytest.mark.parametrize("query_rank", [0, 24])
def test_latent_attention_has_the_weights_of_its_low_rank_products(query_rank):
    latent = LatentAttention(query_rank=query_rank, kv_rank=16, nope_width=8, rotary_width=4, value_width=6)
    queries = 64 * 24 + 24 + 24 * 8 * 12 if query_rank else 64 * 8 * 12
    keys_and_values = 64 * (16 + 4) + 16 + 16 * 8 * (8 + 6)
    plain = 64 * 8 * (8 + 4 + 4)
    added = queries + keys_and_values + 8 * 6 * 64 - plain - 64 * 64
    assert graph(latent=latent).num_parameters - graph().num_parameters == 3 * added


def test_latent_attention_gives_every_head_a_key_and_a_value():
    latent = LatentAttention(query_rank=24, kv_rank=16, nope_width=8, rotary_width=4, value_width=6)
    block = graph(latent=latent).blocks[1]
    assert block.ops.extents[row(block, "attention")].tolist() == [2 * 8, 32, 32, 12, 6]
    assert graph(latent=latent).num_kv_heads == 8
