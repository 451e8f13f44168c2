from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.parallel.check import check_plan
from dovetail.parallel.layout import layers_per_chunk, stage_counts
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.workload.layers import Sample
from dovetail.workload.models import models


def graph_of(name: str, batch: int = 64):
    model = models[name]()
    return model.forward(Sample(batch=batch, seq=model.seq, dtype="bf16"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"tensor_parallel": 0}, "tensor_parallel must be at least 1; got 0"),
        ({"microbatch": -2}, "microbatch must be at least 1; got -2"),
        ({"zero_stage": 4}, "zero_stage must be 0, 1, 2 or 3; got 4"),
        ({"recompute": ("selctive",)}, "did you mean selective or selective-op?"),
        ({"recompute": ("none", "full")}, "recompute has 2 values; give 1"),
        ({"interleave": 2}, "interleave=2 needs pipeline_parallel above 1"),
        (
            {"pipeline_parallel": 2, "layers_per_stage": (4,)},
            "layers_per_stage has 1 values and must have ",
        ),
        (
            {"context_comm_type": "rings"},
            "context_comm_type must be one of gather, ring, all-to-all; got 'rings'; did you mean ring",
        ),
        ({"axis_order": ("tp", "dp", "pp")}, "axis_order must hold each of tp, cp, dp, pp once"),
        (
            {"tensor_parallel": 4, "expert_tensor_parallel": 2},
            "expert_tensor_parallel=2 must be 1 or tensor_parallel=4",
        ),
    ],
)
def test_an_impossible_plan_is_refused_with_rule_and_value(fields, words):
    with pytest.raises(InvalidInput) as error:
        Plan(**fields)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("name", "plan", "words"),
    [
        ("llama3-8b", Plan(tensor_parallel=6), "tensor_parallel=6 must divide num_heads=32; try 4 or 8"),
        ("llama3-8b", Plan(context_parallel=3), "context_parallel=3 must divide seq=8192; try 2 or 4"),
        ("llama3-8b", Plan(pipeline_parallel=64), "must not exceed llama3-8b's 32 layers"),
        ("llama3-8b", Plan(data_parallel=3), "must divide global_batch=64; try global_batch 63, 66"),
        ("llama3-8b", Plan(expert_parallel=2, data_parallel=2), "expert_parallel=2 has nothing to divide in llama3-8b"),
        ("resnet-50", Plan(tensor_parallel=2), "tensor_parallel=2"),
        ("mixtral-8x7b", Plan(data_parallel=16, expert_parallel=16), "must divide num_experts=8"),
        (
            "mixtral-8x7b",
            Plan(data_parallel=2, expert_parallel=4),
            "expert_parallel x expert_tensor_parallel = 4 must divide",
        ),
        ("mixtral-8x7b", Plan(tensor_parallel=2, data_parallel=2, expert_parallel=2), "needs sequence_parallel: true"),
        (
            "llama3-8b",
            Plan(pipeline_parallel=2, layers_per_stage=(20, 20)),
            "layers_per_stage sums to 40 and must be llama3-8b's 32 layers",
        ),
        ("llama3-8b", Plan(pipeline_parallel=4, layers_per_stage=(16, 0, 8, 8)), "stage 1 would hold nothing"),
        ("mixtral-8x7b", Plan(tensor_parallel=8), "needs sequence_parallel: true"),
        (
            "llama3-8b",
            Plan(recompute=("full",), recompute_layers=(33,)),
            "recompute_layers=33 is more than the 32 layers of stage 0; set at most 32, or leave recompute_layers out",
        ),
        (
            "llama3-8b",
            Plan(pipeline_parallel=2, layers_per_stage=(20, 12), recompute=("full",), recompute_layers=(12, 13)),
            "recompute_layers=13 is more than the 12 layers of stage 1",
        ),
        (
            "llama3-8b",
            Plan(pipeline_parallel=2, layers_per_stage=(12, 20), recompute=("full",), recompute_layers=(21,)),
            "recompute_layers=21 is more than the 20 layers of stage 1",
        ),
        (
            "llama3-8b",
            Plan(context_parallel=16, context_comm_type="all-to-all"),
            "tensor x context parallel = 1 x 16 must divide num_kv_heads=8; use a smaller context_parallel, or ring",
        ),
        (
            "gpt3-175b",
            Plan(tensor_parallel=8, context_parallel=8, context_comm_type="all-to-all"),
            "tensor x context parallel = 8 x 8 must divide num_heads=96",
        ),
    ],
)
def test_a_plan_the_model_cannot_have_is_refused_with_the_way_out(name, plan, words):
    with pytest.raises(InvalidInput) as error:
        check_plan(plan, graph_of(name), plan.num_devices)
    assert words in str(error.value)


def test_sequence_parallelism_cuts_what_context_parallelism_leaves_of_a_sequence():
    graph = models["llama3-8b"]().forward(Sample(batch=64, seq=84, dtype="bf16"))
    cut = Plan(tensor_parallel=4, context_parallel=2)
    check_plan(cut, graph, 8)
    check_plan(replace(cut, context_parallel=1, sequence_parallel=True), graph, 4)
    with pytest.raises(InvalidInput, match=r"=8 must divide seq=84; try 7 or 12"):
        check_plan(replace(cut, sequence_parallel=True), graph, 8)


def test_one_count_of_recomputed_layers_goes_for_stages_with_fewer_too():
    plan = Plan(pipeline_parallel=2, layers_per_stage=(20, 12), recompute=("full",), recompute_layers=(16,))
    check_plan(plan, graph_of("llama3-8b"), 2)
    assert [shard(graph_of("llama3-8b"), plan).spans(stage)[-1].recompute for stage in (0, 1)] == ["none", "full"]


def test_a_ring_over_a_window_is_refused():
    model = models["llama3-8b"]()
    windowed = replace(model, architecture=replace(model.architecture, window=1024))  # type: ignore[type-var]
    graph = windowed.forward(Sample(batch=8, seq=8192, dtype="bf16"))
    with pytest.raises(InvalidInput, match="llama3-8b has layers that attend to a window"):
        check_plan(Plan(context_parallel=2, context_comm_type="ring"), graph, 2)
    check_plan(Plan(context_parallel=2, context_comm_type="all-to-all"), graph, 2)


def test_a_ring_needs_the_sums_that_fused_attention_keeps():
    model = models["llama3-8b"]()
    graph = model.forward(Sample(batch=8, seq=1024, dtype="bf16", attention="unfused"))
    with pytest.raises(InvalidInput, match="use attention: flash, or gather"):
        check_plan(Plan(context_parallel=2, context_comm_type="ring"), graph, 2)
    check_plan(Plan(context_parallel=2, context_comm_type="all-to-all"), graph, 2)


def test_a_plan_for_another_number_of_devices_says_what_would_fill_the_cluster():
    with pytest.raises(InvalidInput, match="must equal the cluster's 64 devices; try data_parallel=8"):
        check_plan(Plan(tensor_parallel=8, data_parallel=2), graph_of("llama3-8b"), 64)


def test_an_uneven_rest_of_layers_goes_to_the_middle():
    assert layers_per_chunk(126, Plan(pipeline_parallel=16)) == (7,) + (8,) * 14 + (7,)


def test_interleaved_chunks_go_round_the_stages():
    counts = stage_counts(graph_of("llama3-8b"), Plan(pipeline_parallel=4, interleave=2))
    assert counts.tolist() == [[1, 0, 0, 0], [8, 8, 8, 8], [0, 0, 0, 1]]


def test_zero_bubble_v_brings_the_model_back_to_the_first_stage():
    counts = stage_counts(
        graph_of("llama3-8b"),
        Plan(pipeline_parallel=4, interleave=2, schedule="zb-v", layers_per_stage=(1, 2, 3, 4, 4, 5, 6, 7)),
    )
    assert counts.tolist() == [[1, 0, 0, 0], [8, 8, 8, 8], [1, 0, 0, 0]]


def test_dualpipe_holds_every_layer_on_two_stages():
    plan = Plan(pipeline_parallel=4, schedule="dualpipe", layers_per_stage=(5, 8, 9, 10))
    assert stage_counts(graph_of("llama3-8b"), plan).tolist() == [[1, 0, 0, 1], [15, 17, 17, 15], [1, 0, 0, 1]]
    assert plan.num_copies == 2


def test_uneven_stages_hold_what_they_are_given():
    plan = Plan(pipeline_parallel=2, layers_per_stage=(10, 22))
    assert stage_counts(graph_of("llama3-8b"), plan).tolist() == [[1, 0], [10, 22], [0, 1]]


def test_blocks_of_several_kinds_are_cut_in_model_order():
    counts = stage_counts(graph_of("deepseek-v3"), Plan(pipeline_parallel=4, layers_per_stage=(2, 20, 20, 19)))
    assert counts.tolist() == [[1, 0, 0, 0], [2, 1, 0, 0], [0, 19, 20, 19], [0, 0, 0, 1]]


def test_recomputed_layers_are_counted_over_all_kinds_of_layers_of_a_stage():
    """Three dense layers and 58 of experts: all of them, or the first so many."""
    graph = graph_of("deepseek-v3")

    def recomputed(**more) -> list[int]:
        held = shard(graph, Plan(recompute=("full",), **more)).held(0)
        return [span.count for span, block in held if span.recompute == "full" and block.is_layer]

    assert recomputed() == [3, 58]
    assert recomputed(recompute_layers=(60,)) == [3, 57]
    assert recomputed(recompute_layers=(2,)) == [2]


def test_one_count_of_recomputed_layers_is_held_against_the_stage_that_has_most():
    graph = graph_of("llama3-8b")  # 32 layers
    plan = Plan(pipeline_parallel=3, layers_per_stage=(10, 12, 10), recompute=("full",), recompute_layers=(12,))
    check_plan(plan, graph, 3)
    with pytest.raises(InvalidInput, match="recompute_layers=13 is more than the 12 layers of stage 1"):
        check_plan(replace(plan, recompute_layers=(13,)), graph, 3)
    with pytest.raises(InvalidInput, match="recompute_layers=11 is more than the 10 layers of stage 2"):
        check_plan(replace(plan, recompute_layers=(10, 12, 11)), graph, 3)


def test_a_stage_may_hold_a_single_layer_but_not_nothing():
    plan = Plan(pipeline_parallel=3, layers_per_stage=(16, 1, 15))
    check_plan(plan, graph_of("llama3-8b"), 3)
    with pytest.raises(InvalidInput, match="stage 1 would hold nothing"):
        check_plan(replace(plan, layers_per_stage=(16, 0, 16)), graph_of("llama3-8b"), 3)
