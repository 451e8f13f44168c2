"""What a device holds: recompute by layers, offload, frameworks' own buffers, and what the allocator strands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.evaluate import memory_use
from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.frameworks import frameworks
from dovetail.parallel.memory import ALLOCATOR_RESERVE_FRAC, moments
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import ShardedPlan, shard
from dovetail.workload.graph import Block, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload
from tests.device_memory import block_memory

LLAMA = models["llama3-8b"]().architecture
assert isinstance(LLAMA, Transformer)
SEQ, HIDDEN, FFN, KV, VOCAB = 4096, 4096, 14_336, 1024, 128_256
MIXED = Precision()
FP32_LOSS_FSDP = Precision(weights="fp32", has_master_weights=False, has_persistent_gradients=False)


def cut(plan: Plan, precision: Precision = MIXED, *, num_microbatches: int = 8, **changes: str) -> ShardedPlan:
    batch = plan.data_parallel * plan.microbatch * num_microbatches
    sample = Sample(batch=batch, seq=SEQ, dtype="bf16", **changes)  # type: ignore[arg-type]
    return shard(training_graph(LLAMA.forward(sample), precision), plan)


def begin(plan: Plan, precision: Precision = MIXED, stage: int = 0, in_flight: float = 1.0, **changes: str):
    pieces = cut(plan, precision, **changes)  # type: ignore[arg-type]
    return moments(pieces, stage, precision, in_flight)[0]


def test_layers_that_recompute_leaves_alone_keep_everything() -> None:
    plan = Plan(recompute=("full",))
    none, full = begin(Plan()).activations_bytes, begin(plan).activations_bytes
    for count in (0, 1, 20, 32):
        some = begin(replace(plan, recompute_layers=(count,))).activations_bytes
        assert some == pytest.approx(full + (none - full) * (32 - count) / 32)
    assert begin(replace(plan, recompute_layers=(99,))).activations_bytes == full


def test_recompute_layers_are_counted_stage_by_stage() -> None:
    plan = Plan(pipeline_parallel=4, recompute=("full",), recompute_layers=(8, 4, 0, 0))
    found = cut(plan)
    layers = [[span for span, block in found.held(stage) if block.is_layer] for stage in range(4)]
    assert [sum(span.count for span in spans if span.recompute == "full") for spans in layers] == [8, 4, 0, 0]
    assert [sum(span.count for span in spans) for spans in layers] == [8, 8, 8, 8]


def test_every_second_product_and_attention_are_saved() -> None:
    """q, v of k and v, attention's output and statistics, gate of gate and up, down; and the layer's input."""
    layer = next(block for _, block in cut(Plan(), kernels="eager").held(0) if block.is_layer)
    columns = HIDDEN + HIDDEN + KV + HIDDEN + FFN + HIDDEN
    statistics = 4 * 32
    assert kept_bytes(layer, "selective-op") == pytest.approx(SEQ * (2 * columns + statistics))


def test_recompute_runs_again_only_what_was_not_saved() -> None:
    def again(policy: str) -> dict[str, float]:
        layer = next(block for _, block in cut(Plan(recompute=(policy,))).held(0) if block.is_layer)
        rows = zip(layer.ops.names, layer.ops.flop, strict=True)
        return {name.removesuffix(":again"): flop for name, flop in rows if name.endswith(":again")}

    every, some = again("full"), again("selective-op")
    assert {"q", "attention", "ffn_down"} & set(some) == set()
    assert some["ffn_up"] == pytest.approx(every["ffn_up"] / 2)
    assert some["attention_out"] == every["attention_out"]


def test_an_offloaded_optimizer_is_the_hosts_and_it_has_the_gradients_too() -> None:
    precision = Precision(gradients="bf16")
    here, there = begin(Plan(), precision), begin(Plan(offload_optimizer=True), precision)
    assert there.optimizer_bytes == 0
    assert there.host_bytes == here.optimizer_bytes + here.gradients_bytes > 0
    pieces = cut(Plan(offload_optimizer=True), precision)
    assert moments(pieces, 0, precision, 1.0)[-1].buffers_bytes == 0


def test_offloaded_activations_leave_the_device_but_for_two_layers_on_their_way() -> None:
    here, there = begin(Plan()), begin(Plan(offload_activations_frac=0.5))
    layers = there.host_bytes / 0.5
    assert here.activations_bytes - there.activations_bytes == pytest.approx(0.5 * layers)
    assert there.buffers_bytes - here.buffers_bytes == pytest.approx(2 * 0.5 * layers / 32)


def test_every_moment_of_a_step_has_all_that_is_offloaded_on_the_host() -> None:
    plan = Plan(offload_optimizer=True, offload_activations_frac=0.5)
    pieces = cut(plan)
    assert len({moment.host_bytes for moment in moments(pieces, 0, Precision(), 1.0)}) == 1


def test_transformer_engine_keeps_an_unused_gradient_for_each_shape_of_weight() -> None:
    plain, megatron = begin(Plan()), begin(Plan(framework="megatron-lm"))
    attention = HIDDEN * (HIDDEN + 2 * KV) + HIDDEN * HIDDEN
    expected = 2 * (attention + 3 * HIDDEN * FFN)
    assert megatron.buffers_bytes - plain.buffers_bytes == pytest.approx(expected)


def test_deepspeed_stands_what_stages_hand_on_and_strands_its_buckets() -> None:
    plan = Plan(pipeline_parallel=4, zero_stage=1, data_parallel=2)
    plain = begin(plan, in_flight=4.0)
    deepspeed = begin(replace(plan, framework="deepspeed"), in_flight=4.0)
    handed_on = SEQ * HIDDEN * 2
    assert deepspeed.buffers_bytes - plain.buffers_bytes == pytest.approx((4 + 3) * handed_on)
    assert plain.fragmentation_bytes == 0
    assert deepspeed.fragmentation_bytes == pytest.approx(500_000_000 * (4 + 2))


def test_without_zero_deepspeed_widens_gradients_twice() -> None:
    precision = Precision(gradients="bf16")
    for zero_stage, factor in ((0, 2.0), (1, 1.0)):
        plan = Plan(zero_stage=zero_stage)
        ours, theirs = (
            moments(pieces, 0, precision, 1.0)[-1].buffers_bytes
            for pieces in (cut(plan, precision), cut(replace(plan, framework="deepspeed"), precision))
        )
        assert theirs == pytest.approx(factor * ours)


def test_torchtitan_gathers_the_stages_of_a_pipeline_whole() -> None:
    plan = Plan(pipeline_parallel=4, data_parallel=8, zero_stage=3)
    plain, titan = begin(plan, FP32_LOSS_FSDP), begin(replace(plan, framework="torchtitan"), FP32_LOSS_FSDP)
    parameters = plain.weights_bytes * 8 / 4
    assert titan.buffers_bytes > plain.buffers_bytes
    assert titan.buffers_bytes > parameters * (2 + 4)


def test_eager_logits_are_stranded_when_their_gradient_is_wider() -> None:
    wide, narrow = Precision(loss="fp32"), Precision(loss="bf16")
    assert begin(Plan(), wide, kernels="eager").fragmentation_bytes == SEQ * VOCAB * 2
    assert begin(Plan(), narrow, kernels="eager").fragmentation_bytes == 0
    assert begin(Plan(), wide).fragmentation_bytes == 0


def test_what_is_stranded_is_stated_apart_and_needed_all_the_same() -> None:
    pieces = cut(Plan(), kernels="eager")
    use = memory_use(pieces, Precision(), 1e12)
    fullest = use.fullest
    assert fullest.fragmentation_bytes > 0
    assert use.reserve_bytes == fullest.fragmentation_bytes + ALLOCATOR_RESERVE_FRAC * (
        fullest.total_bytes + fullest.fragmentation_bytes
    )
    assert use.need_bytes == fullest.total_bytes + use.reserve_bytes + use.runtime_bytes


def test_torchtitan_keeps_gathered_inputs_where_others_gather_again() -> None:
    plan = Plan(tensor_parallel=8, sequence_parallel=True)
    pieces = cut(plan)
    layer = next(block for _, block in pieces.held(0) if block.is_layer)
    tables = [
        block_memory(layer, "none", Precision(), frameworks[name], pieces.table.cuts.degrees)
        for name in ("plain", "torchtitan")
    ]
    whole = SEQ * HIDDEN * 2
    assert tables[1].kept_bytes - tables[0].kept_bytes == pytest.approx(2 * (whole - whole / 8))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"offload_activations_frac": 1.5}, "from 0 to 1; got 1.5"),
        ({"framework": "deepsped"}, "did you mean deepspeed"),
        ({"recompute_layers": (3,)}, "set recompute: full"),
        ({"recompute": ("full",), "recompute_layers": (3, 4)}, "give 1, or 1 per stage: 1"),
        ({"recompute": ("full",), "recompute_layers": (-1,)}, "must not be negative"),
    ],
)
def test_bad_choices_are_told_in_one_line(changes: dict[str, object], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        Plan(**changes)  # type: ignore[arg-type]


def test_what_the_loss_kept_is_gone_when_layers_are_recomputed() -> None:
    """Two moments of one pass: a layer's recompute never meets the loss's probabilities."""
    plan = Plan(recompute=("full",))
    pieces = cut(plan)
    tables = {
        block.name: block_memory(block, span.recompute, MIXED, frameworks["plain"], pieces.table.cuts.degrees)
        for span, block in pieces.held(0)
    }
    layer, head = tables["layer"], tables["head"]
    held = begin(plan)
    in_loss = 32 * layer.kept_bytes + head.kept_bytes + head.passing_bytes
    in_layers = 32 * layer.kept_bytes + layer.passing_bytes
    assert held.activations_bytes + held.buffers_bytes == pytest.approx(max(in_loss, in_layers))


def test_what_a_small_loss_kept_is_gone_at_the_peak_of_a_recomputed_layer() -> None:
    plan, small = Plan(recompute=("full",)), replace(LLAMA, vocab=1000)  # type: ignore[type-var]
    pieces = shard(training_graph(small.forward(Sample(batch=8, seq=SEQ, dtype="bf16")), MIXED), plan)
    layer = block_memory(_block(pieces, "layer"), "full", MIXED, frameworks["plain"], pieces.table.cuts.degrees)
    held = moments(pieces, 0, MIXED, 1.0)[0]
    assert held.activations_bytes == pytest.approx(32 * layer.kept_bytes)
    assert held.buffers_bytes == pytest.approx(layer.passing_bytes)


def test_tied_weights_are_held_twice_only_where_their_owner_is_on_another_stage() -> None:
    graph = Workload(model=models["gpt2-345m"](), global_batch=8, seq=1024).training_graph()

    def weights_bytes(plan: Plan) -> float:
        pieces = shard(graph, plan)
        return float(sum(moments(pieces, stage, MIXED, 1.0)[0].weights_bytes for stage in range(pieces.num_stages)))

    tied = sum(
        int(block.ops.weight_elements[block.ops.is_tied & (block.ops.phase == Phase.FORWARD)].sum())
        for block in graph.blocks
    )
    assert weights_bytes(Plan(pipeline_parallel=2)) - weights_bytes(Plan()) == pytest.approx(2 * tied)
    assert tied > 0


def test_gradients_come_with_the_backward_pass_unless_they_stand() -> None:
    pieces = cut(Plan(), FP32_LOSS_FSDP)
    first, late, last, _ = moments(pieces, 0, FP32_LOSS_FSDP, 1.0)
    layer = 2 * HIDDEN * (HIDDEN + KV) + 3 * HIDDEN * FFN + 2 * HIDDEN
    assert first.gradients_bytes == 0
    assert last.gradients_bytes - late.gradients_bytes == pytest.approx(4 * (layer + VOCAB * HIDDEN))
    assert late.activations_bytes == pytest.approx(kept_bytes(_block(pieces, "layer"), "none"))
    standing = cut(Plan())
    assert len({m.gradients_bytes for m in moments(standing, 0, MIXED, 1.0)}) == 1


def test_gradients_narrower_than_master_weights_are_widened_for_the_update() -> None:
    for precision, factor in ((Precision(gradients="bf16"), 4 / 2), (MIXED, 0.0)):
        pieces = cut(Plan(), precision)
        update = moments(pieces, 0, precision, 1.0)[-1]
        assert update.buffers_bytes == pytest.approx(factor * update.gradients_bytes)


def test_of_the_loss_one_microbatch_is_held_and_of_layers_all_that_are_in_flight() -> None:
    pieces = cut(Plan())
    more = begin(Plan(), in_flight=3.0).activations_bytes - begin(Plan()).activations_bytes
    kept = 32 * kept_bytes(_block(pieces, "layer"), "none") + kept_bytes(_block(pieces, "embedding"), "none")
    assert more == pytest.approx(2 * kept)


def _block(pieces: ShardedPlan, name: str) -> Block:
    return next(block for _, block in pieces.held(0) if block.name == name)


@pytest.mark.parametrize(
    ("exchange", "kv_parts", "query_parts"),
    [("gather", 2 * 16, 0.0), ("ring", 4, 0.0), ("all-to-all", 1, 1.0)],  # parts a sixteenth of the sequence
)
def test_attention_holds_what_devices_of_one_sequence_exchange(exchange, kv_parts, query_parts) -> None:
    many = replace(LLAMA, num_kv_heads=32)  # type: ignore[type-var]

    def in_attention(plan: Plan) -> float:
        pieces = shard(training_graph(many.forward(Sample(batch=8, seq=SEQ, dtype="bf16")), MIXED), plan)
        layer = _block(pieces, "layer")
        core = replace(layer, ops=layer.ops.where(layer.ops.is_core | (layer.ops.kind == code_of("context_gather"))))
        memory = block_memory(core, "none", MIXED, frameworks["plain"], pieces.table.cuts.degrees)
        return float(memory.passing_bytes)

    alone, shared = in_attention(Plan()), in_attention(Plan(context_parallel=16, context_comm_type=exchange))
    part_bytes = SEQ // 16 * HIDDEN * 2
    assert shared - alone / 16 == pytest.approx((2 * kv_parts + query_parts) * part_bytes)


def test_both_ends_of_dualpipe_hold_tied_weights_once() -> None:
    tied = replace(LLAMA, is_tied=True)  # type: ignore[type-var]
    graph = training_graph(tied.forward(Sample(batch=8, seq=SEQ, dtype="bf16")), MIXED)
    pieces = shard(graph, Plan(pipeline_parallel=4, schedule="dualpipe"))
    first, last = (moments(pieces, stage, MIXED, 1.0)[0].weights_bytes for stage in (0, 3))
    assert first == last
