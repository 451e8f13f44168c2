"""Megatron-LM: torchrun and the arguments of pretrain_gpt.py.

Names and rules between them are those of megatron/training/arguments.py and megatron/core/transformer/
transformer_config.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.dispatchers import ALL_TO_ALL, dispatchers
from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, Plan, Plans
from dovetail.report.launchers.decoder_flags import megatron_shape
from dovetail.report.launchers.fallbacks import (
    heaviest_recompute,
    nested_order,
    offered_optimizer,
    unsent_dispatcher,
)
from dovetail.report.launchers.frameworks import FrameworkLauncher, launchers
from dovetail.report.launchers.host_ranks import pool_notes
from dovetail.report.launchers.launch import (
    LEARNING_RATE,
    NUM_TIMED_STEPS,
    Flag,
    Launch,
    Missing,
    check_chip,
    check_devices,
    check_full_training,
    decoder_of,
    flag,
    host_note,
    hosts,
    parted,
    torchrun,
    unknown_choices,
)
from dovetail.report.launchers.precision_flags import MEGATRON_LM, precision_flags, sharding_flags
from dovetail.report.launchers.recompute_flags import recompute_flags
from dovetail.report.launchers.rules import decoder_shape, has_order, is_schedule, num_microbatches
from dovetail.workload.graph import BoolArray
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

NAME = "Megatron-LM"
VERSIONS = {"0.16": "arguments of Megatron Core 0.16"}
NOTE = "data, tokenizer, learning rate and steps are placeholders for a timing run; replace them"
_CONTEXT_TYPES = {"gather": "all_gather", "ring": "p2p", "all-to-all": "a2a"}


def megatron_lm(workload: Workload, cluster: AnyCluster, plan: Plan, version: str) -> Launch:
    """Arguments for one run; degrees that cannot run together raise, other choices without a flag are named."""
    check_chip(cluster, NAME)
    check_devices(plan, cluster)
    shape = decoder_of(workload, NAME)
    check_full_training(workload, NAME)
    _check(shape, workload, plan)
    flags, _, missing = parted(
        (*_degrees(shape, plan), *_stages(shape, plan), *_batch(workload, plan),
         *sharding_flags(workload.precision, plan), *_overlaps(shape, plan), *recompute_flags(shape, plan),
         *_offload(shape, plan), *precision_flags(workload.precision, plan), *_kernels(workload),
         *megatron_shape(shape, workload), *_stand_ins(shape), *unknown_choices(plan, NAME))
    )  # fmt: skip
    named = offered_optimizer(workload.precision, MEGATRON_LM)[1]
    newer = (f"the optimizer {named.name} is in Megatron-LM since {named.since}",) if named.since else ()
    return Launch(
        framework=NAME,
        version=VERSIONS[version],
        command=(*torchrun(cluster), flag("pretrain_gpt.py"), *flags),
        environment=_environment(plan, flags),
        missing=missing,
        notes=(host_note(cluster), *pool_notes(plan, cluster, hosts(cluster)[1], plan.axis_order), *newer, NOTE),
    )


def _check(shape: Transformer, workload: Workload, plan: Plan) -> None:
    tp, cp, kv = plan.tensor_parallel, plan.context_parallel, shape.heads.num_kv_heads
    if kv % tp:
        message = f"Megatron-LM cuts key-value heads: tensor_parallel={tp} must divide num_kv_heads={kv}"
        raise InvalidInput(f"{message}; use at most {kv}", "tensor_parallel")
    if cp > 1 and workload.seq % (2 * cp):
        message = (
            f"Megatron-LM deals a sequence out in halves: 2 x context_parallel={cp} must divide seq={workload.seq}"
        )
        raise InvalidInput(f"{message}; use another length", "context_parallel")
    if plan.zero_stage > 1 and plan.pipeline_parallel > 1:
        message = f"Megatron-FSDP takes no pipeline; got zero_stage={plan.zero_stage}"
        raise InvalidInput(f"{message} with pipeline_parallel={plan.pipeline_parallel}; use zero_stage 1", "zero_stage")
    if shape.experts is not None and tp > 1 and not plan.sequence_parallel:
        message = f"Megatron-LM trains experts under tensor_parallel={tp} with sequence parallelism only"
        raise InvalidInput(f"{message}; set sequence_parallel: true", "sequence_parallel")
    if plan.expert_parallel > 1 and workload.precision.compute == "fp16":
        raise InvalidInput("Megatron-LM has no expert parallelism in fp16; compute in bf16", "expert_parallel")
    num_microbatches = plan.num_microbatches(workload.global_batch)
    if plan.interleave > 1 and num_microbatches % plan.pipeline_parallel:
        message = f"interleaved 1F1B goes round {plan.pipeline_parallel} stages with as many microbatches at a time"
        raise InvalidInput(f"{message}, and a step has {num_microbatches}; use a multiple", "interleave")


def _degrees(shape: Transformer, plan: Plan) -> Iterator[Flag | Missing]:
    yield flag("--tensor-model-parallel-size", plan.tensor_parallel)
    yield flag("--pipeline-model-parallel-size", plan.pipeline_parallel)
    yield flag("--context-parallel-size", plan.context_parallel)
    if plan.context_parallel > 1:
        yield flag("--cp-comm-type", _CONTEXT_TYPES[plan.context_comm_type])
        if plan.context_comm_type != "all-to-all" and plan.overlap.context != (plan.context_comm_type == "ring"):
            instead = (("overlap.context", plan.context_comm_type == "ring"),)
            message = f"overlap.context {str(plan.overlap.context).lower()}"
            yield Missing(message, "a ring overlaps with attention, and a gather runs before it", instead)
    if plan.sequence_parallel and plan.tensor_parallel > 1:
        yield flag("--sequence-parallel")
    if plan.expert_parallel > 1:
        yield flag("--expert-model-parallel-size", plan.expert_parallel)
    if shape.experts is not None:
        yield flag("--expert-tensor-parallel-size", plan.expert_tensor_parallel)
        yield from _dispatcher(plan)
    yield from _order(plan)


def _dispatcher(plan: Plan) -> Iterator[Flag | Missing]:
    told = dispatchers[plan.dispatcher].launch.get(MEGATRON_LM)
    if told is None:
        yield from unsent_dispatcher(plan, MEGATRON_LM, "its dispatchers are alltoall, allgather and flex")
        told = dispatchers[ALL_TO_ALL].launch[MEGATRON_LM]
    yield from (flag(name, *([value] if value else [])) for name, value in told)


def _order(plan: Plan) -> Iterator[Flag | Missing]:
    order = nested_order(plan)
    known = {
        way: tuple(axis for axis in way if axis in order)
        for way in (("tp", "cp", "dp", "pp"), ("tp", "cp", "pp", "dp"))
    }
    if order == known["tp", "cp", "dp", "pp"]:
        return
    if order == known["tp", "cp", "pp", "dp"]:
        yield flag("--use-tp-pp-dp-mapping")
    else:
        message = f"axis_order {', '.join(plan.axis_order)}"
        yield Missing(message, "ranks go tp, cp, dp, pp or tp, cp, pp, dp", (("axis_order", AXES),))


def _stages(shape: Transformer, plan: Plan) -> Iterator[Flag | Missing]:
    """Where layers lie: evenly, with other first and last stages, or written out chunk by chunk."""
    if plan.pipeline_parallel == 1:
        return
    if plan.schedule not in ("1f1b", "interleaved"):
        instead = "interleaved 1F1B" if plan.interleave > 1 else "1F1B"
        message = f"schedule {plan.schedule}, written as {instead}"
        yield Missing(message, "1F1B is the only one, plain or interleaved", (("schedule", "1f1b"),))
    chunks = layers_per_chunk(shape.num_layers, plan)
    first, middle, last = chunks[0], set(chunks[1:-1]), chunks[-1]
    if len(set(chunks)) == 1:
        if plan.interleave > 1:
            yield flag("--num-layers-per-virtual-pipeline-stage", first)
    elif plan.interleave == 1 and len(middle) < 2 and min(first, last) > 0:
        yield flag("--decoder-first-pipeline-num-layers", first)
        yield flag("--decoder-last-pipeline-num-layers", last)
    else:
        yield flag("--pipeline-model-parallel-layout", layout(chunks))


def layout(chunks: tuple[int, ...]) -> str:
    """Chunks as --pipeline-model-parallel-layout has them: E embedding, t a layer, L the loss, | the end of a chunk."""
    middle = "".join(
        f"({'t' * count}|)*{num}" if num > 1 else f"{'t' * count}|"
        for count, num in ((count, len(list(same))) for count, same in groupby(chunks[1:-1]))
    )
    return f"E{'t' * chunks[0]}|{middle}{'t' * chunks[-1]}L"


def _batch(workload: Workload, plan: Plan) -> Iterator[Flag]:
    yield flag("--micro-batch-size", plan.microbatch)
    yield flag("--global-batch-size", workload.global_batch)


def _overlaps(shape: Transformer, plan: Plan) -> Iterator[Flag | Missing]:
    overlap = plan.overlap
    if overlap.data and plan.data_parallel * plan.context_parallel > 1:
        yield flag("--overlap-grad-reduce")
        if plan.zero_stage:
            yield flag("--overlap-param-gather")
    if overlap.tensor and plan.tensor_parallel > 1:
        if plan.sequence_parallel:
            yield flag("--tp-comm-overlap")
        else:
            why = "products overlap with collectives under sequence parallelism only"
            yield Missing("overlap.tensor", why, (("overlap.tensor", False),))
    if overlap.expert and plan.expert_parallel > 1 and shape.experts is not None:
        yield from _expert_overlap(plan)
    if plan.pipeline_parallel == 1:
        return
    if overlap.pipeline and plan.interleave == 1:
        why = "transfers overlap with compute in interleaved 1F1B only"
        yield Missing("overlap.pipeline", why, (("overlap.pipeline", False),))
    elif not overlap.pipeline and plan.interleave > 1:
        yield from _exposed_transfers(plan)


def _expert_overlap(plan: Plan) -> Iterator[Flag | Missing]:
    if plan.pipeline_parallel > 1 and plan.interleave == 1:
        yield Missing("overlap.expert", "under a pipeline it needs interleaved 1F1B", (("overlap.expert", False),))
    elif heaviest_recompute(plan) in ("selective-op", "full"):
        yield Missing("overlap.expert", "it does not go with full recompute", (("overlap.expert", False),))
    else:
        yield flag("--overlap-moe-expert-parallel-comm")


def _exposed_transfers(plan: Plan) -> Iterator[Flag | Missing]:
    if plan.pipeline_parallel > 2:
        yield flag("--no-overlap-p2p-communication")
    else:
        why = "interleaved 1F1B on 2 stages always overlaps its transfers"
        yield Missing("overlap.pipeline false", why, (("overlap.pipeline", True),))


def _offload(shape: Transformer, plan: Plan) -> Iterator[Flag | Missing]:
    if not plan.offload_activations_frac:
        return
    if plan.pipeline_parallel > 1 or heaviest_recompute(plan) != "none":
        why = "activations are offloaded without pipeline and recompute only"
        yield Missing("offload_activations_frac", why, (("offload_activations_frac", 0.0),))
        return
    wanted = plan.offload_activations_frac * shape.num_layers
    num_layers = min(round(wanted), shape.num_layers - 1)
    if num_layers != wanted:
        message = f"offload_activations_frac {plan.offload_activations_frac:g}, written as {num_layers} layers"
        why = f"whole layers are offloaded, at most all but one of {shape.num_layers}"
        yield Missing(message, why, (("offload_activations_frac", num_layers / shape.num_layers),))
    if num_layers:
        yield flag("--cpu-offloading-num-layers", num_layers)


def _kernels(workload: Workload) -> Iterator[Missing]:
    if workload.kernels not in ("fused", "megatron-lm"):
        why = "Megatron-LM runs its own fused ones"
        yield Missing(f"kernels {workload.kernels}", why, (("workload.kernels", "fused"),))


def _stand_ins(shape: Transformer) -> Iterator[Flag]:
    yield flag("--mock-data")
    yield flag("--tokenizer-type", "NullTokenizer")
    yield flag("--vocab-size", shape.vocab)
    yield flag("--lr", LEARNING_RATE)
    yield flag("--train-iters", NUM_TIMED_STEPS)
    yield flag("--log-interval", 1)
    yield flag("--eval-iters", 0)


def _environment(plan: Plan, flags: tuple[Flag, ...]) -> tuple[tuple[str, str], ...]:
    """One queue to the device keeps collectives in order with products; FSDP and expert overlap need several."""
    is_ordered = plan.tensor_parallel > 1 or plan.context_parallel > 1
    is_free = any(one.words[0] in ("--use-megatron-fsdp", "--overlap-moe-expert-parallel-comm") for one in flags)
    return (("CUDA_DEVICE_MAX_CONNECTIONS", "1"),) if is_ordered and not is_free else ()


def megatron_rules(plans: Plans, workload: Workload) -> BoolArray:
    """Rules between choices, those of `_check`, `_order`, `_stages` and `_overlaps` as columns.

    Interleaved transfers that are waited for (--no-overlap-p2p-communication) never gain, and are left out.
    """
    shape = decoder_shape(workload)
    tp, cp, pp = plans.tensor_parallel, plans.context_parallel, plans.pipeline_parallel
    is_piped, is_interleaved = pp > 1, plans.interleave > 1
    comm, gather = plans.context_comm_type, CONTEXT_COMM_TYPES.index("gather")
    has_experts = shape is not None and shape.experts is not None
    kept = has_order(plans) | has_order(plans, ("tp", "cp", "pp", "dp"))
    kept &= is_schedule(plans, "1f1b", "interleaved")
    kept &= (plans.zero_stage < 2) | ~is_piped
    kept &= (cp == 1) | (workload.seq % (2 * cp) == 0)
    kept &= ~is_interleaved | (num_microbatches(plans, workload) % pp == 0)
    kept &= plans.overlaps("context") == ((cp == 1) | (comm != gather))
    kept &= plans.overlaps("pipeline") == (~is_piped | is_interleaved)
    kept &= ~plans.overlaps("tensor") | (tp == 1) | plans.sequence_parallel
    kept &= ~plans.overlaps("expert") | (plans.expert_parallel == 1)
    if shape is not None:
        kept &= shape.heads.num_kv_heads % tp == 0
    if has_experts:
        kept &= (tp == 1) | plans.sequence_parallel
    if workload.precision.compute == "fp16":
        kept &= plans.expert_parallel == 1
    if plans.offload_optimizer:
        kept &= plans.zero_stage == 1
    return np.asarray(kept)


megatron_choices = {
    "schedule": ("1f1b", "interleaved"),
    "recompute": ("none", "selective", "norm-activation", "full"),
    "axis_order": (AXES, ("tp", "cp", "pp", "dp")),
    "overlap.context": (True, False),
    "overlap.pipeline": (True, False),
}

launchers.register("megatron-lm")(
    FrameworkLauncher(
        versions=tuple(VERSIONS),
        write=megatron_lm,
        choices=megatron_choices,
        rules=megatron_rules,
        partial_recompute=tuple(VERSIONS),
    )
)
