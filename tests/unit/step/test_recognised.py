"""Plans that recorded steps follow, from their communicators and microbatches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.parallel.plan import Plan
from dovetail.step.recognised import Recognised, recognised_plan
from dovetail.workload.dispatched import DispatchedOp, DispatchedStep, DistributedStep, RankStep, TensorMeta
from tests.unit.step.test_distributed import call, recorded

MIB = 2**20
WEIGHT = TensorMeta(shape=(1000, 64), strides=(64, 1), dtype="bf16")
TOKENS = TensorMeta(shape=(2, 128), strides=(128, 1), dtype="int64")
ROWS = TensorMeta(shape=(256, 64), strides=(64, 1), dtype="bf16")
EMBEDDED = DispatchedOp(name="aten.embedding.default", inputs=(WEIGHT, TOKENS), outputs=(ROWS,))


def mm(phase: str = "forward", module: str = "layers.0.up") -> DispatchedOp:
    return DispatchedOp(name="aten.mm.default", inputs=(ROWS, WEIGHT), outputs=(ROWS,), phase=phase, module=module)


def on(kind: str, phase: str, ranks: tuple[int, ...], group: str = "", **known: Any) -> DispatchedOp:
    return replace(call(kind, ranks, 8 * MIB, group=group, **known), phase=phase)


def found(*ops: DispatchedOp, world_size: int, mesh: tuple[tuple[str, int], ...] = ()) -> Recognised:
    rank = RankStep(rank=0, step=recorded(*ops), num_ranks=world_size)
    return recognised_plan(DistributedStep(world_size=world_size, ranks=(rank,), mesh=mesh))


def plan_of(one: Recognised) -> Plan:
    assert not one.reasons
    [plan] = one.plans
    return plan


EIGHT, FAR = tuple(range(8)), tuple(range(0, 64, 8))
FSDP = (
    on("all-gather", "forward", EIGHT), EMBEDDED, mm(), on("all-gather", "backward", EIGHT), mm("backward"),
    on("reduce-scatter", "backward", EIGHT),
)  # fmt: skip


def test_parameters_gathered_in_both_passes_are_zero_3_and_kept_ones_zero_2() -> None:
    whole = found(*FSDP, world_size=8)
    assert plan_of(whole) == Plan(data_parallel=8, zero_stage=3, microbatch=2, framework="torchtitan")
    assert (whole.batch, whole.seq, whole.num_microbatches, whole.global_batch) == (2, 128, 1, 16)
    kept = tuple(
        op for op in FSDP if op.collective is None or (op.phase, op.collective.kind) != ("backward", "all-gather")
    )
    assert plan_of(found(*kept, world_size=8)).zero_stage == 2


def test_a_data_dim_that_gathers_parameters_shards_them_whatever_its_name() -> None:
    for label in ("dp", "fsdp", "replicate"):
        ops = [
            op if op.collective is None else replace(op, collective=replace(op.collective, group=label)) for op in FSDP
        ]
        assert plan_of(found(*ops, world_size=8, mesh=((label, 8),))).zero_stage == 3


def test_gradients_reduced_alone_are_plain_data_parallelism_and_gathers_of_updates_zero_1() -> None:
    ddp = (EMBEDDED, mm(), mm("backward"), on("all-reduce", "backward", EIGHT))
    assert plan_of(found(*ddp, world_size=8)).zero_stage == 0
    assert plan_of(found(*ddp, on("all-gather", "optimizer", EIGHT), world_size=8)).zero_stage == 1


def test_gradients_that_code_reduces_itself_after_the_backward_pass_are_data_parallelism() -> None:
    scale = DispatchedOp(name="aten.div_.Tensor", inputs=(ROWS,), outputs=(ROWS,))
    by_hand = (EMBEDDED, mm(), mm("backward"), scale, on("all-reduce", "forward", EIGHT))
    plan = plan_of(found(*by_hand, world_size=8))
    assert (plan.data_parallel, plan.tensor_parallel) == (8, 1)
    in_next_forward = (*by_hand[:3], EMBEDDED, mm(), on("all-reduce", "forward", EIGHT), mm("backward"))
    assert dict(found(*in_next_forward, world_size=8).degrees)["tp"] == 8


def test_every_forward_pass_of_a_step_is_a_microbatch() -> None:
    once = (EMBEDDED, mm(), mm("backward"))
    several = found(*once * 4, on("all-reduce", "backward", EIGHT), world_size=8)
    assert several.num_microbatches == 4
    assert several.global_batch == 64


def test_tensor_parallelism_reduces_forward_and_sharding_lies_across_it() -> None:
    ops = (
        on("all-gather", "forward", FAR), EMBEDDED, on("all-gather", "forward", EIGHT), mm(),
        on("reduce-scatter", "forward", EIGHT), on("all-gather", "backward", FAR), mm("backward"),
        on("reduce-scatter", "backward", FAR),
    )  # fmt: skip
    plan = plan_of(found(*ops, world_size=64))
    assert (plan.tensor_parallel, plan.data_parallel, plan.zero_stage) == (8, 8, 3)
    assert plan.sequence_parallel
    assert plan.axis_order.index("tp") < plan.axis_order.index("dp")


def test_names_of_mesh_dims_say_what_a_group_is_whatever_is_called_in_it() -> None:
    ops = (EMBEDDED, on("all-reduce", "forward", EIGHT, "tp"), mm(), on("all-reduce", "backward", FAR, "dp_replicate"))
    plan = plan_of(found(*ops, world_size=64, mesh=(("dp_replicate", 8), ("tp", 8))))
    assert (plan.tensor_parallel, plan.data_parallel, plan.zero_stage) == (8, 8, 0)


def test_context_parallel_ranks_share_their_samples() -> None:
    ops = (
        EMBEDDED, on("all-gather", "forward", (0, 1), "cp"), mm(), on("all-gather", "forward", EIGHT, "dp_shard_cp"),
        on("reduce-scatter", "backward", EIGHT, "dp_shard_cp"),
    )  # fmt: skip
    one = found(*ops, world_size=8, mesh=(("dp_shard", 4), ("cp", 2)))
    plan = plan_of(one)
    assert (plan.context_parallel, plan.data_parallel, plan.context_comm_type) == (2, 4, "gather")
    assert one.seq == 256


def test_sharding_inside_of_replicas_is_no_plan_and_says_so() -> None:
    ops = (*FSDP, on("all-reduce", "backward", FAR, "dp_replicate"))
    one = found(*ops, world_size=64)
    assert not one.plans
    assert one.reasons[0].startswith("parameters are sharded over 8 of 64 data-parallel ranks (HSDP)")


def test_ranks_that_nothing_joins_are_no_plan() -> None:
    one = found(EMBEDDED, mm(), world_size=8)
    assert not one.plans
    assert one.reasons == ("no collective over 8 ranks reduces gradients",)


def test_degrees_that_leave_ranks_over_are_named() -> None:
    ops = (EMBEDDED, on("all-reduce", "forward", (0, 1), "tp"), mm(), on("all-reduce", "backward", (0, 2), "dp"))
    assert found(*ops, world_size=8).reasons == ("dp 2 and tp 2 make 4 of 8 ranks",)


def test_a_forward_pass_run_again_is_full_recompute() -> None:
    forward = tuple(mm(module=f"layers.{layer}.up") for layer in range(4))
    again = tuple(replace(op, phase="backward") for op in reversed(forward))
    ops = (EMBEDDED, *forward, *again, on("all-reduce", "backward", EIGHT))
    step = replace(recorded(*ops), module_calls=(1,) * len(ops))
    one = recognised_plan(DistributedStep(world_size=8, ranks=(RankStep(rank=0, step=step, num_ranks=8),)))
    assert plan_of(one).recompute == ("full",)


def stage(rank: int, other: int, order: str) -> RankStep:
    """A stage of two; `order` has f for a forward and b for a backward pass."""
    ops: list[DispatchedOp] = []
    for letter in order:
        phase = "forward" if letter == "f" else "backward"
        if rank == 0:
            ops += [EMBEDDED] if letter == "f" else [on("recv", phase, (0, 4), "pp", peer=other)]
        ops.append(mm(phase))
        if rank == 0 and letter == "f":
            ops.append(on("send", phase, (0, 4), "pp", peer=other))
    ops.append(on("all-reduce", "backward", tuple(range(rank, rank + 4)), "dp"))
    return RankStep(rank=rank, step=recorded(*ops), num_ranks=4)


@pytest.mark.parametrize(("order", "schedule"), [("ffbfbfbb", "1f1b"), ("ffffbbbb", "gpipe")])
def test_the_order_of_passes_on_the_first_stage_tells_the_schedule(order: str, schedule: str) -> None:
    ranks = (stage(0, 4, order), stage(4, 0, order))
    plan = plan_of(recognised_plan(DistributedStep(world_size=8, ranks=ranks)))
    assert (plan.pipeline_parallel, plan.data_parallel, plan.schedule) == (2, 4, schedule)


def test_parameters_of_stages_add_up_and_those_of_ranks_of_one_stage_do_not() -> None:
    stages = DistributedStep(world_size=8, ranks=(stage(0, 4, "ffbfbfbb"), stage(4, 0, "ffbfbfbb")))
    assert recognised_plan(stages).num_parameters == 2
    same = tuple(RankStep(rank=rank, step=recorded(*FSDP), num_ranks=4) for rank in (0, 4))
    assert recognised_plan(DistributedStep(world_size=8, ranks=same)).num_parameters == 1


def test_another_order_of_passes_is_no_plan() -> None:
    ranks = (stage(0, 4, "fffbfbbb"), stage(4, 0, "fffbfbbb"))
    [reason] = recognised_plan(DistributedStep(world_size=8, ranks=ranks)).reasons
    assert reason.endswith("neither 1F1B nor GPipe")


def test_what_shows_no_samples_is_no_plan() -> None:
    one = found(mm(), on("all-reduce", "backward", EIGHT), world_size=8)
    assert one.reasons == ("no embedding of tokens and no image shows how many samples a microbatch has",)


def test_small_messages_do_not_make_an_axis() -> None:
    tiny = replace(call("all-reduce", FAR, 4), phase="forward")
    one = found(*FSDP, tiny, world_size=8)
    assert [found.role for found in one.communicators] == ["shard"]


def test_an_all_to_all_is_expert_parallelism() -> None:
    plan = plan_of(found(*FSDP, on("all-to-all", "forward", EIGHT, "ep"), world_size=8))
    assert (plan.expert_parallel, plan.data_parallel) == (8, 8)


def test_expert_parallel_ranks_that_reduce_gradients_are_data_parallel_too() -> None:
    wide = replace(on("all-reduce", "backward", EIGHT, "ep"), inputs=(WEIGHT,))
    ops = (EMBEDDED, on("all-to-all", "forward", EIGHT, "ep"), mm(), on("all-to-all", "backward", EIGHT, "ep"), wide)
    one = found(*ops, world_size=8, mesh=(("ep", 8),))
    plan = plan_of(one)
    assert (plan.expert_parallel, plan.data_parallel, plan.zero_stage) == (8, 8, 0)
    assert (one.global_batch, one.gradient_dtype) == (16, "bf16")


def test_dtypes_are_those_of_products_sums_and_updates() -> None:
    wide = replace(WEIGHT, dtype="fp32")
    update = DispatchedOp(name="aten._fused_adamw_.default", inputs=(wide,), outputs=(), phase="optimizer")
    one = found(*FSDP[:-1], replace(FSDP[-1], inputs=(WEIGHT,)), update, world_size=8)
    assert (one.compute_dtype, one.gradient_dtype, one.state_dtype) == ("bf16", "bf16", "fp32")


def test_steps_without_operators_are_no_plan() -> None:
    empty = DispatchedStep(ops=(), module_calls=(), live_bytes=(), state_bytes=0, num_parameters=0)
    assert recognised_plan(DistributedStep(world_size=1, ranks=(RankStep(rank=0, step=empty),))).reasons
