from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.parallel.block_memory import kept_bytes
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Need, Ops, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import DTYPES, OPERATORS, Unit, code_of, dtype_code
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_block, training_graph, with_recompute

ROWS, HIDDEN, WIDE = (64, Axis.DATA), (32, Axis.NONE), (128, Axis.TENSOR)


def tiny_block(is_input_data: bool = False):
    build = BlockBuilder("tiny", "bf16", ROWS, HIDDEN, is_input_data=is_input_data)
    x = build.linear(0, ROWS, HIDDEN, WIDE, name="up", bias=True)
    x = build.vector("gelu", (x,), ROWS, WIDE)
    build.linear(x, ROWS, WIDE, HIDDEN, name="down")
    return build.block()


def rows(ops: Ops, phase: Phase) -> list[str]:
    return [name for name, p in zip(ops.names, ops.phase, strict=True) if p == phase]


def test_a_linear_layer_has_both_gradients_and_its_bias_a_third():
    ops = training_block(tiny_block(), Precision()).ops
    assert rows(ops, Phase.INPUT_GRAD) == ["down:dx", "gelu:dx", "up:dx"]
    assert rows(ops, Phase.WEIGHT_GRAD) == ["down:dw", "up:dw", "up:db"]


def test_data_needs_no_gradient():
    ops = training_block(tiny_block(is_input_data=True), Precision()).ops
    assert "up:dx" not in ops.names
    assert "up:dw" in ops.names


def test_gradients_of_a_product_do_the_same_work_as_the_product():
    ops = training_block(tiny_block(), Precision()).ops
    flop = dict(zip(ops.names, ops.flop, strict=True))
    assert flop["up"] == flop["up:dx"] == flop["up:dw"] == 2 * 64 * 32 * 128


def test_gradients_of_a_product_have_its_operands_the_other_way_round():
    ops = training_block(tiny_block(), Precision()).ops
    extents = dict(zip(ops.names, ops.extents.tolist(), strict=True))
    assert extents["up"] == [1, 64, 128, 32, 1]
    assert extents["up:dx"] == [1, 64, 32, 128, 1]
    assert extents["up:dw"] == [1, 32, 128, 64, 1]


def test_a_gradient_waits_for_the_gradient_behind_it():
    ops = training_block(tiny_block(), Precision()).ops
    sources = np.repeat(np.arange(len(ops)), np.diff(ops.edge_start))
    edges = {(ops.names[s], ops.names[t]) for s, t in zip(sources, ops.edge_to, strict=True)}
    assert ("down:dx", "gelu:dx") in edges
    assert ("gelu:dx", "up:dw") in edges
    assert ("up", "up:dx") in edges


def test_edges_of_every_catalogue_graph_run_forward_only():
    for name in models.names():
        model = models[name]()
        graph = training_graph(model.forward(Sample(batch=2, seq=model.seq, dtype="bf16")), Precision())
        for block in graph.blocks:
            sources = np.repeat(np.arange(len(block.ops)), np.diff(block.ops.edge_start))
            assert (sources < block.ops.edge_to).all(), f"{name}: {block.name} has an edge backwards"


def test_recompute_rows_run_only_where_the_policy_says():
    model = models["gpt2-345m"]()
    graph = training_graph(model.forward(Sample(batch=1, seq=1024, dtype="bf16", attention="unfused")), Precision())
    layer = next(block for block in graph.blocks if block.is_layer).ops
    none, selective, full = (with_recompute(layer, policy) for policy in ("none", "selective", "full"))
    assert rows(none, Phase.RECOMPUTE) == []
    assert rows(selective, Phase.RECOMPUTE) == [
        "scores:again",
        "softmax:again",
        "attention_dropout:again",
        "weighted_values:again",
    ]
    assert len(rows(full, Phase.RECOMPUTE)) == len(rows(layer, Phase.FORWARD)) - 1  # all but the input's name


def test_light_recompute_repeats_norms_and_activations_and_keeps_their_inputs():
    layer = next(
        b
        for b in training_graph(
            models["llama3-8b"]().forward(Sample(batch=1, seq=1024, dtype="bf16")), Precision()
        ).blocks
        if b.is_layer
    )
    light = with_recompute(layer.ops, "norm-activation")
    assert rows(light, Phase.RECOMPUTE) == ["norm_1:again", "norm_2:again", "ffn_silu_mul:again"]
    width, tokens = 2 * 4096 + 14336, 1024
    assert kept_bytes(layer, "none") - kept_bytes(layer, "norm-activation") == 2 * tokens * width


def test_the_update_covers_every_parameter_once():
    for name in ("llama3-8b", "mixtral-8x7b", "gpt2-345m", "resnet-50"):
        model = models[name]()
        graph = training_graph(model.forward(Sample(batch=1, seq=model.seq, dtype="bf16")), Precision())
        updated = sum(
            block.repeat * int(block.ops.extents[(block.ops.phase == Phase.UPDATE) & ~block.ops.is_tied, 1].sum())
            for block in graph.blocks
        )
        assert updated == graph.num_parameters


def test_eight_bit_math_changes_products_with_weights_and_no_stored_tensor():
    block = training_block(tiny_block(), Precision(compute="fp8"))
    wide = training_block(tiny_block(), Precision(compute="bf16"))
    added = np.isin(block.ops.kind, (code_of("quantize"), code_of("amax")))
    same = block.ops.where(~added)
    assert same.names == wide.ops.names
    assert np.array_equal(same.read_bytes, wide.ops.read_bytes)
    is_product = same.kind == code_of("linear")
    assert (same.math[is_product] != wide.ops.math[is_product]).all()
    assert (same.math[~is_product] == wide.ops.math[~is_product]).all()


@pytest.mark.parametrize("compute", ["fp8", "fp4"])
def test_what_narrow_products_read_is_cast_both_ways_and_nothing_of_it_is_kept(compute):
    ops = training_block(tiny_block(), Precision(compute=compute)).ops
    casts = ops.where(ops.kind == code_of("quantize"))
    products = [name for name, kind in zip(ops.names, ops.kind, strict=True) if kind == code_of("linear")]
    forward = [name for name in products if ":" not in name]
    of_weights = [name for name, phase in zip(casts.names, casts.phase, strict=True) if phase == Phase.UPDATE]
    assert of_weights == ["weights:quantize"]  # once per step, for all microbatches
    assert sorted(casts.names) == sorted([f"{name}:quantize" for name in forward for _ in range(3)] + of_weights)
    in_passes = {Phase.FORWARD, Phase.RECOMPUTE, Phase.INPUT_GRAD}
    assert {Phase(phase) for phase in casts.phase} == in_passes | {Phase.UPDATE}
    assert (casts.need == Need.NONE).all()
    assert casts.kept_bytes_per_element.sum() == casts.weight_elements.sum() == 0


def test_scales_of_the_moment_need_a_sweep_before_every_cast():
    scaled = training_block(tiny_block(), Precision(compute="fp8", recipe="current")).ops
    in_passes = scaled.where(scaled.phase != Phase.UPDATE)  # casts of weights count their sweeps in their bytes
    assert (in_passes.kind == code_of("amax")).sum() == (in_passes.kind == code_of("quantize")).sum() > 0
    delayed = training_block(tiny_block(), Precision(compute="fp8")).ops
    assert (delayed.kind == code_of("amax")).sum() == 0


def test_embedding_and_head_stay_as_wide_as_they_are_stored():
    head = training_block(replace(tiny_block(), is_layer=False), Precision(compute="fp8")).ops
    assert (head.kind == code_of("quantize")).sum() == 0
    assert {DTYPES[code] for code in head.math[head.kind == code_of("linear")]} == {"bf16"}


def test_weights_cast_at_use_are_cast_for_every_pass_and_their_gradients_twice():
    plain = training_block(tiny_block(), Precision(weights="fp32")).ops
    ops = training_block(tiny_block(), Precision(weights="fp32", has_autocast_weights=True)).ops
    casts = ops.where(ops.kind == code_of("cast"))
    assert (plain.kind == code_of("cast")).sum() == 0
    num_products = ((ops.kind == code_of("linear")) & (ops.phase == Phase.FORWARD)).sum()
    counts = [(casts.phase == phase).sum() for phase in (Phase.FORWARD, Phase.RECOMPUTE, Phase.WEIGHT_GRAD)]
    assert counts == [num_products, num_products, 2 * num_products]
    assert (casts.need == Need.NONE).all()


def test_gradients_added_by_a_kernel_of_their_own_are_written_and_read_once_more():
    together = training_block(tiny_block(), Precision()).ops
    apart = training_block(tiny_block(), Precision(has_unfused_accumulation=True)).ops
    row = together.names.index("up:dw")
    assert (apart.write_bytes - together.write_bytes)[row] == 32 * 128 * (2 + 2)


def test_a_second_forward_pass_ends_early_only_where_the_framework_stops_it():
    whole = training_block(tiny_block(), Precision()).ops
    early = training_block(replace(tiny_block(), stops_early=True), Precision()).ops
    again = [name for name in whole.names if name.endswith(":again")]
    shorter = [name for name in early.names if name.endswith(":again")]
    assert shorter == again[: len(shorter)]
    assert len(shorter) < len(again)


def test_names_of_tensors_and_network_points_are_never_work():
    for name in models.names():
        model = models[name]()
        graph = training_graph(model.forward(Sample(batch=2, seq=model.seq, dtype="bf16")), Precision())
        for block in graph.blocks:
            idle = np.isin(block.ops.unit, (Unit.NONE, Unit.NETWORK))
            assert block.ops.flop[idle].sum() == 0
            assert block.ops.read_bytes[idle].sum() + block.ops.write_bytes[idle].sum() == 0
            working = ~idle & (block.ops.phase == Phase.FORWARD)
            assert (block.ops.read_bytes[working] + block.ops.write_bytes[working] > 0).all()


def test_a_gelu_keeps_its_input_and_a_relu_its_output():
    for kind, kept in (("gelu", [True, True, True]), ("relu", [True, False, True])):
        build = BlockBuilder("tiny", "bf16", ROWS, HIDDEN)
        x = build.linear(0, ROWS, HIDDEN, WIDE, name="up")
        x = build.vector(kind, (x,), ROWS, WIDE)
        build.linear(x, ROWS, WIDE, HIDDEN, name="down")
        need = build.block().ops.need
        assert [bool(n) for n in need[:3]] == kept


def test_a_gather_keeps_the_parts_and_not_the_whole():
    build = BlockBuilder("tiny", "bf16", ROWS, HIDDEN)
    x = build.vector("rmsnorm", (0,), ROWS, HIDDEN)
    x = build.collective("gather", x, ROWS, HIDDEN)
    build.linear(x, ROWS, HIDDEN, WIDE, name="up")
    need = build.block().ops.need
    assert need[1] == Need.OUTSIDE
    assert need[2] == Need.NONE


def test_every_network_operator_has_a_backward_that_exists():
    for operator in OPERATORS:
        if operator.unit == Unit.NETWORK and operator.conjugate:
            assert OPERATORS[code_of(operator.conjugate)].conjugate == operator.name


@pytest.mark.parametrize(
    ("precision", "held", "moved"),
    [
        (Precision(), 18, 4 + 2 * 12 + 2),
        (Precision(gradients="bf16"), 16, 2 + 2 * 12 + 2),
        (Precision(optimizer="sgd"), 14, 4 + 2 * 8 + 2),
        (Precision(optimizer="sgd", has_momentum=False, has_master_weights=False, gradients="bf16"), 4, 2 + 0 + 4),
    ],
)
def test_bytes_a_parameter_follow_the_conventions(precision: Precision, held: float, moved: float):
    assert precision.weight_bytes + precision.gradient_bytes + precision.optimizer_bytes == held
    assert precision.update_bytes == moved


def test_an_update_moves_the_optimizers_bytes_for_every_parameter():
    block = training_block(tiny_block(), Precision())
    ops = block.ops
    moved = (ops.read_bytes + ops.write_bytes)[ops.phase == Phase.UPDATE].sum()
    assert moved == Precision().update_bytes * block.num_parameters


def test_fused_attention_is_needed_by_itself_and_by_the_projection_after_it():
    layer = next(b for b in models["llama3-8b"]().forward(Sample(batch=1, seq=1024, dtype="bf16")).blocks if b.is_layer)
    need = dict(zip(layer.ops.names, layer.ops.need.tolist(), strict=True))
    assert need["attention"] == Need.OUTSIDE | Need.CORE
    assert need["rope_q"] == Need.CORE
    assert need["attention_out"] == Need.NONE


def test_tf32_takes_products_of_all_kinds_and_fp8_only_those_with_weights():
    def maths(compute: str) -> dict[str, int]:
        precision = (
            Precision(compute=compute, weights="fp32", has_master_weights=False)
            if compute == "tf32"
            else Precision(compute=compute)
        )
        sample = Sample(batch=1, seq=1024, dtype=precision.storage)
        graph = training_graph(models["llama3-8b"]().forward(sample), precision)
        ops = next(b for b in graph.blocks if b.is_layer).ops
        return dict(zip(ops.names, ops.math.tolist(), strict=True))

    assert maths("tf32")["attention"] == maths("tf32")["q"] == dtype_code("tf32")
    assert maths("fp8")["q"] == dtype_code("fp8")
    assert maths("fp8")["attention"] == dtype_code("bf16")


def test_standing_gradients_are_read_and_written_in_their_dtype():
    standing = training_block(tiny_block(), Precision()).ops
    fresh = training_block(tiny_block(), Precision(has_persistent_gradients=False)).ops
    row = standing.names.index("up:dw")
    extra = (standing.write_bytes - fresh.write_bytes)[row]
    assert extra == 32 * 128 * (4 + 4 - 2)


def test_grouped_queries_read_each_key_and_value_head_once():
    build = BlockBuilder("a", "bf16", ROWS, HIDDEN)
    heads, seq = (32, Axis.NONE), (1024, Axis.NONE)
    build.attention((0,), heads, seq, seq, 128, 128, kv_frac=8 / 32, work_frac=0.5)
    ops = build.block().ops
    assert ops.read_bytes[1] == 2 * 1024 * 128 * (32 + 2 * 8)


def test_the_backward_pass_of_a_gated_activation_reads_three_tensors_and_writes_two():
    build = BlockBuilder("a", "bf16", ROWS, HIDDEN)
    build.vector("silu_mul", (0,), ROWS, WIDE)
    ops = training_block(build.block(is_layer=False), Precision()).ops
    backward = ops.phase == Phase.INPUT_GRAD
    assert ops.read_bytes[backward].sum() == 3 * 64 * 128 * 2
    assert ops.write_bytes[backward].sum() == 2 * 64 * 128 * 2
