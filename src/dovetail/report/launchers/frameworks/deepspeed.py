"""DeepSpeed: its configuration in JSON, and the launcher; with model parallelism the arguments of Megatron-DeepSpeed.

Keys are those of deepspeed/runtime/config.py and deepspeed/runtime/zero/config.py, arguments those of Megatron-
DeepSpeed's megatron/arguments.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, Plan, Plans
from dovetail.report.labels import in_a_row
from dovetail.report.launchers.decoder_flags import megatron_deepspeed_shape
from dovetail.report.launchers.fallbacks import (
    heaviest_recompute,
    kept_weights,
    mixed_recompute,
    offered_optimizer,
    plain_order,
    unsent_dispatcher,
    wide_products,
)
from dovetail.report.launchers.frameworks import FrameworkLauncher, launchers
from dovetail.report.launchers.host_ranks import HOSTFILE, pool_notes
from dovetail.report.launchers.launch import (
    LEARNING_RATE,
    NUM_TIMED_STEPS,
    Flag,
    Launch,
    Missing,
    Part,
    Setting,
    adapter_flags,
    check_chip,
    check_devices,
    check_full_training,
    decoder_of,
    flag,
    host_note,
    hosts,
    json_text,
    parted,
    unknown_choices,
)
from dovetail.report.launchers.rules import decoder_shape, has_order, is_schedule, overlaps_or_alone
from dovetail.units import MEGA
from dovetail.workload.graph import BoolArray
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

NAME = "DeepSpeed"
VERSIONS = {"0.19": "keys of DeepSpeed 0.19"}
MEGATRON_VERSION = "arguments of Megatron-DeepSpeed's main branch"
CONFIG_NAME = "ds_config.json"
OWN_SCRIPT = "train.py is a placeholder for your script: it builds the model and calls deepspeed.initialize"
STAND_INS = "data, tokenizer, learning rate and steps are placeholders for a timing run; replace them"
HOSTS = "HOSTS names the hosts, with spaces between, as ssh reaches them; the launcher runs on one of them"
_NUM_BUCKET = int(500 * MEGA)  # elements; the default of deepspeed/runtime/zero/config.py, 5e8
_NUM_PREFETCH = int(50 * MEGA)  # elements; the default of deepspeed/runtime/zero/config.py, 5e7


def deepspeed(workload: Workload, cluster: AnyCluster, plan: Plan, version: str) -> Launch:
    """Configuration and launcher; choices that cannot run together raise, others without a key are named."""
    check_chip(cluster, NAME)
    check_devices(plan, cluster)
    _check(workload, plan)
    is_megatron = plan.num_devices > plan.data_parallel or plan.expert_parallel > 1
    shape = decoder_of(workload, "Megatron-DeepSpeed") if is_megatron else None
    if is_megatron:
        check_full_training(workload, "Megatron-DeepSpeed")
    rest = _own_script(workload, plan) if shape is None else _megatron(shape, workload, plan)
    flags, settings, missing = parted(
        (*_batch(workload, plan), *_zero(plan), *_precision(workload.precision), *_checkpointing(plan), *rest,
         *unknown_choices(plan, NAME))
    )  # fmt: skip
    num_hosts, per_host = hosts(cluster)
    numbered = pool_notes(plan, cluster, per_host, numbering=HOSTFILE)
    hostfile = ("--hostfile", "hostfile") if num_hosts > 1 else ()
    launcher = flag("deepspeed", *hostfile, "--num_nodes", num_hosts, "--num_gpus", per_host)
    setup = (f'for host in $HOSTS; do echo "$host slots={per_host}"; done > hostfile',) if num_hosts > 1 else ()
    return Launch(
        framework=NAME,
        version=f"{VERSIONS[version]}; {MEGATRON_VERSION}" if is_megatron else VERSIONS[version],
        command=(launcher, *flags, flag("--deepspeed"), flag("--deepspeed_config", CONFIG_NAME)),
        config_name=CONFIG_NAME,
        config=json_text(settings),
        setup=setup,
        missing=missing,
        notes=(host_note(cluster), *((HOSTS,) if setup else ()), *numbered, STAND_INS if is_megatron else OWN_SCRIPT),
    )


def _check(workload: Workload, plan: Plan) -> None:
    tp, cp = plan.tensor_parallel, plan.context_parallel
    if plan.zero_stage > 1 and plan.pipeline_parallel > 1:
        message = f"DeepSpeed's pipeline goes with ZeRO-1 at most; got zero_stage={plan.zero_stage}"
        raise InvalidInput(f"{message} with pipeline_parallel={plan.pipeline_parallel}; use zero_stage 1", "zero_stage")
    shape = workload.model.architecture
    is_mixture = isinstance(shape, Transformer) and shape.experts is not None
    if is_mixture and plan.zero_stage == 3 and plan.expert_parallel > 1:
        message = "DeepSpeed's experts go with ZeRO-2 at most; got zero_stage=3"
        raise InvalidInput(f"{message} with expert_parallel={plan.expert_parallel}; use zero_stage 2", "zero_stage")
    if is_mixture and plan.pipeline_parallel > 1:
        message = f"Megatron-DeepSpeed has no pipeline for experts; got pipeline_parallel={plan.pipeline_parallel}"
        raise InvalidInput(f"{message}; use 1", "pipeline_parallel")
    if cp > 1 and isinstance(shape, Transformer) and shape.num_heads % (tp * cp):
        message = f"DeepSpeed-Ulysses deals heads out: tensor x context parallel = {tp * cp} must divide"
        raise InvalidInput(f"{message} num_heads={shape.num_heads}; use a smaller context_parallel", "context_parallel")


def _batch(workload: Workload, plan: Plan) -> Iterator[Setting]:
    yield Setting(("train_batch_size",), workload.global_batch)
    yield Setting(("train_micro_batch_size_per_gpu",), plan.microbatch)
    yield Setting(("gradient_accumulation_steps",), plan.num_microbatches(workload.global_batch))


def _zero(plan: Plan) -> Iterator[Setting | Missing]:
    stage = plan.zero_stage
    yield Setting(("zero_optimization", "stage"), stage)
    yield Setting(("zero_optimization", "overlap_comm"), plan.overlap.data)
    yield Setting(("zero_optimization", "reduce_bucket_size"), _NUM_BUCKET)
    if stage in (1, 2):
        yield Setting(("zero_optimization", "allgather_bucket_size"), _NUM_BUCKET)
    if stage == 3:
        yield Setting(("zero_optimization", "stage3_prefetch_bucket_size"), _NUM_PREFETCH if plan.overlap.data else 0)
    if plan.offload_optimizer and stage > 0 and plan.pipeline_parallel == 1:
        yield Setting(("zero_optimization", "offload_optimizer"), {"device": "cpu", "pin_memory": True})
    elif plan.offload_optimizer:
        yield Missing("offload_optimizer", "it goes with ZeRO and without a pipeline", (("offload_optimizer", False),))


def _precision(precision: Precision) -> Iterator[Setting | Missing]:
    if precision.storage in ("bf16", "fp16"):
        yield Setting((precision.storage, "enabled"), True)
    if precision.compute in ("fp8", "fp4"):
        why = "float8 products are for the model's own layers to bring"
        yield wide_products(precision, why)
    if precision.compute == "tf32":
        why = "products in tf32 are PyTorch's to allow"
        yield Missing("compute in tf32, written as fp32", why, (("precision.compute", "fp32"),))
    yield Setting(("data_types", "grad_accum_dtype"), precision.gradients)
    if precision.moments != "fp32":
        instead = (("precision.moments", "fp32"),)
        yield Missing(f"moments in {precision.moments}", "they are kept in fp32 beside master weights", instead)
    yield from kept_weights(precision)


def _checkpointing(plan: Plan) -> Iterator[Setting | Missing]:
    """How checkpoints are kept; which layers make one is said to Megatron-DeepSpeed or done by one's own script."""
    offloaded_frac = plan.offload_activations_frac
    is_offloaded = offloaded_frac == 1 and heaviest_recompute(plan) == "full"
    if heaviest_recompute(plan) != "none":
        yield Setting(("activation_checkpointing", "partition_activations"), is_offloaded)
        yield Setting(("activation_checkpointing", "cpu_checkpointing"), is_offloaded)
    if offloaded_frac and not is_offloaded:
        yield Missing(
            f"offload_activations_frac {offloaded_frac:g}",
            "the checkpoints of full recompute go, all of them",
            (("offload_activations_frac", 0.0),),
        )
    yield from mixed_recompute(plan, "one policy goes for all stages")


def _own_script(workload: Workload, plan: Plan) -> Iterator[Part]:
    yield flag("train.py")
    yield from adapter_flags(workload)
    _, named, missing = offered_optimizer(workload.precision, "deepspeed")
    yield from missing
    yield Setting(("optimizer", "type"), named.name)
    yield Setting(("optimizer", "params", "lr"), float(LEARNING_RATE))
    yield Missing("the model", "train.py is a placeholder for your script")
    policy, counts = heaviest_recompute(plan), plan.recompute_layers
    if policy != "none":
        layers = f" of {max(counts)} layers" if counts else ""
        message = "the script makes its checkpoints itself, with deepspeed.checkpointing.checkpoint"
        yield Missing(f"recompute {policy}{layers}", message)


def _megatron(shape: Transformer, workload: Workload, plan: Plan) -> Iterator[Part]:
    yield flag("pretrain_gpt.py")
    yield from _degrees(plan)
    yield from _stages(shape, plan)
    yield flag("--micro-batch-size", plan.microbatch)
    yield flag("--global-batch-size", workload.global_batch)
    yield flag("--zero-stage", plan.zero_stage)
    yield from _recompute(plan)
    if workload.precision.storage in ("bf16", "fp16"):
        yield flag(f"--{workload.precision.storage}")
    _, named, missing = offered_optimizer(workload.precision, "megatron-deepspeed")
    yield from missing
    yield flag("--optimizer", named.name)
    yield from megatron_deepspeed_shape(shape, workload)
    if workload.kernels not in ("fused", "deepspeed"):
        why = "Megatron-DeepSpeed runs its own fused ones"
        yield Missing(f"kernels {workload.kernels}", why, (("workload.kernels", "fused"),))
    yield flag("--tokenizer-type", "NullTokenizer")
    yield flag("--vocab-size", shape.vocab)
    yield flag("--data-path", "$DATA_PATH")
    yield flag("--lr", LEARNING_RATE)
    yield flag("--train-iters", NUM_TIMED_STEPS)
    yield flag("--log-interval", 1)


def _degrees(plan: Plan) -> Iterator[Flag | Missing]:
    yield flag("--tensor-model-parallel-size", plan.tensor_parallel)
    yield flag("--pipeline-model-parallel-size", plan.pipeline_parallel)
    if plan.pipeline_parallel == 1:
        yield flag("--no-pipeline-parallel")
    if plan.context_parallel > 1:
        yield flag("--ds-sequence-parallel-size", plan.context_parallel)
        if plan.context_comm_type != "all-to-all":
            message = f"context_comm_type {plan.context_comm_type}, written as all-to-all"
            why = "context parallelism is Ulysses: heads are dealt out all to all"
            yield Missing(message, why, (("context_comm_type", "all-to-all"),))
    if plan.sequence_parallel and plan.context_parallel > 1:
        why = "it does not go with ds-sequence-parallel-size"
        yield Missing("sequence_parallel", why, (("sequence_parallel", False),))
    elif plan.sequence_parallel and plan.tensor_parallel > 1:
        yield flag("--sequence-parallel")
    if plan.expert_parallel > 1:
        yield flag("--moe-expert-parallel-size", plan.expert_parallel)
    if plan.expert_tensor_parallel > 1:
        yield flag("--enable-expert-tensor-parallelism")
    yield from unsent_dispatcher(plan, "deepspeed", "a row goes to each of its experts")
    yield from _waits(plan)
    yield from plain_order(plan)


def _waits(plan: Plan) -> Iterator[Missing]:
    """Communication that is waited for whatever the plan says."""
    overlap = plan.overlap
    asked = {"tensor": plan.tensor_parallel > 1, "expert": plan.expert_parallel > 1}
    for axis, is_used in asked.items():
        if is_used and getattr(overlap, axis):
            yield Missing(f"overlap.{axis}", "its collectives are waited for", ((f"overlap.{axis}", False),))
    if overlap.pipeline and plan.pipeline_parallel > 1:
        why = "the pipeline engine waits for its transfers"
        yield Missing("overlap.pipeline", why, (("overlap.pipeline", False),))


def _stages(shape: Transformer, plan: Plan) -> Iterator[Flag | Missing]:
    if plan.pipeline_parallel == 1:
        return
    if plan.schedule == "zb-h1" and not plan.sequence_parallel:
        yield flag("--enable-zbh1-pipeline")
    elif plan.schedule not in ("1f1b", "interleaved"):
        message = f"schedule {plan.schedule}, written as 1F1B"
        yield Missing(message, "the pipeline engine runs 1F1B, or ZB-H1 without sp", (("schedule", "1f1b"),))
    if plan.interleave > 1:
        instead = (("interleave", 1), ("layers_per_stage", ()))
        message = f"interleave {plan.interleave}, written as 1"
        yield Missing(message, "the pipeline engine gives a stage one chunk", instead)
    chunks = layers_per_chunk(shape.num_layers, plan)
    if len(set(chunks)) > 1:
        message = f"layers_per_stage {in_a_row(chunks)}, written as even"
        yield Missing(message, "the pipeline engine spreads transformer layers evenly", (("layers_per_stage", ()),))


def _recompute(plan: Plan) -> Iterator[Flag | Missing]:
    policy, counts = heaviest_recompute(plan), plan.recompute_layers
    if policy == "none":
        return
    if counts:
        message = f"recompute {policy} of {max(counts)} layers, written as of all"
        yield Missing(message, "it goes for every layer", (("recompute_layers", ()),))
    if policy == "selective":
        yield flag("--recompute-granularity", "selective")
        return
    if policy != "full":
        message = f"recompute {policy}, written as full, which keeps less"
        yield Missing(message, "selective and full are all there is", (("recompute", ("full",)),))
    yield flag("--deepspeed-activation-checkpointing")
    yield flag("--recompute-granularity", "full")
    yield flag("--recompute-method", "uniform")
    yield flag("--recompute-num-layers", 1)


def _rules(plans: Plans, workload: Workload) -> BoolArray:
    """Rules between choices, those of `_check`, `_degrees`, `_waits` and `_stages` as columns."""
    shape = decoder_shape(workload)
    tp, cp, pp, ep = plans.tensor_parallel, plans.context_parallel, plans.pipeline_parallel, plans.expert_parallel
    is_piped = pp > 1
    has_experts = shape is not None and shape.experts is not None
    kept = has_order(plans) & is_schedule(plans, "1f1b", "interleaved") & (plans.interleave == 1)
    kept &= (plans.zero_stage < 2) | ~is_piped
    kept &= (cp == 1) | (plans.context_comm_type == CONTEXT_COMM_TYPES.index("all-to-all"))
    kept &= (cp == 1) | ~plans.sequence_parallel
    kept &= overlaps_or_alone(plans, "tensor", "tensor_parallel", is_on=False)
    kept &= overlaps_or_alone(plans, "expert", "expert_parallel", is_on=False)
    kept &= overlaps_or_alone(plans, "pipeline", "pipeline_parallel", is_on=False)
    if shape is not None:
        kept &= (cp == 1) | (shape.num_heads % (tp * cp) == 0)
        kept &= shape.num_layers % pp == 0
    if has_experts:
        kept &= ~is_piped & ((plans.zero_stage < 3) | (ep == 1))
    if plans.offload_optimizer:
        kept &= (plans.zero_stage > 0) & ~is_piped
    return np.asarray(kept)


launchers.register("deepspeed")(
    FrameworkLauncher(
        versions=tuple(VERSIONS),
        write=deepspeed,
        choices={
            "context_comm_type": ("all-to-all",),
            "schedule": ("1f1b", "interleaved"),
            "recompute": ("none", "selective", "full"),
            "axis_order": (AXES,),
            "interleave": (1,),
            "overlap.tensor": (False,),
            "overlap.expert": (False,),
            "overlap.pipeline": (False,),
        },
        rules=_rules,
    )
)
