"""MaxText: overrides of its base.yml, as words of the command.

Keys are those of maxtext/configs/base.yml. All parallelism lies within one slice (ici_*).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, chips_of
from dovetail.hardware.host import Host
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, Plan, Plans
from dovetail.report.labels import counted
from dovetail.report.launchers.fallbacks import (
    heaviest_recompute,
    mixed_recompute,
    offered_optimizer,
    other_recipe,
    plain_order,
    unsent_dispatcher,
    wide_products,
)
from dovetail.report.launchers.frameworks import FrameworkLauncher, launchers
from dovetail.report.launchers.host_ranks import pool_notes
from dovetail.report.launchers.launch import (
    LEARNING_RATE,
    NUM_TIMED_STEPS,
    Flag,
    Launch,
    Missing,
    check_devices,
    check_full_training,
    decoder_of,
    flag,
    host_note,
    hosts,
    parted,
    unknown_choices,
)
from dovetail.report.launchers.model_traits import TRAITS
from dovetail.report.launchers.rules import decoder_shape, has_order, is_schedule
from dovetail.workload.checkpoint_policies import checkpoint_policies, places_of
from dovetail.workload.graph import BoolArray
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

NAME = "MaxText"
VERSIONS = {
    "0.2": "keys of maxtext/configs/base.yml of MaxText 0.2",
    "2025": "keys of MaxText/configs/base.yml, 2025, before releases had numbers",
}
_STARTS = {
    "0.2": ("maxtext.trainers.pre_train.train", "maxtext/configs/base.yml"),
    "2025": ("MaxText.train", "MaxText/configs/base.yml"),
}
NOTE = "dataset, learning rate and steps are placeholders for a timing run; replace them"
START = "one process on every host runs this; TPU slices find each other by themselves"
_MODELS = {  # configs/models
    "llama2-7b": "llama2-7b",
    "llama2-70b": "llama2-70b",
    "llama3-8b": "llama3-8b",
    "llama3-70b": "llama3-70b",
    "llama3-405b": "llama3.1-405b",
    "mixtral-8x7b": "mixtral-8x7b",
    "deepseek-v3": "deepseek3-671b",
    "gemma-3-4b": "gemma3-4b",
    "gemma-3-12b": "gemma3-12b",
    "gemma-3-27b": "gemma3-27b",
}
_DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
# The policy by tensor that keeps no more than one of PyTorch's does, and runs most nearly the same again.
_NEAREST = {
    "selective": ("minimal", "products are kept by name, and norms and activations run again too"),
    "norm-activation": ("minimal_flash", "products and attention are kept by name"),
    "selective-op": ("nothing_saveable", "it picks by tensor, not every second product"),
    "full": ("nothing_saveable", "XLA leaves out what no gradient needs"),
}


def maxtext(workload: Workload, cluster: AnyCluster, plan: Plan, version: str) -> Launch:
    """The command with its overrides; choices without a key are named."""
    check_devices(plan, cluster)
    shape = decoder_of(workload, NAME)
    check_full_training(workload, NAME)
    _check(shape, workload, plan)
    flags, _, missing = parted(
        (*_model(shape), *_hardware(cluster), *_training(workload, plan), *_degrees(plan), *_stages(shape, plan),
         *_experts(shape, workload, plan), *_recompute(plan), *_offload(plan), *_precision(workload.precision),
         *_optimizer(workload.precision), *_overlaps(plan), *_kernels(workload), *unknown_choices(plan, NAME))
    )  # fmt: skip
    return Launch(
        framework=NAME,
        version=VERSIONS[version],
        command=(flag("python3", "-m", *_STARTS[version]), *flags),
        missing=missing,
        notes=(_host_note(cluster), *pool_notes(plan, cluster, hosts(cluster)[1]), START, NOTE),
    )


def _check(shape: Transformer, workload: Workload, plan: Plan) -> None:
    if workload.precision.storage == "fp16":
        raise InvalidInput("MaxText computes in bf16, fp8 or fp32; got fp16", "precision.compute")
    if plan.data_parallel % plan.expert_parallel:
        message = "MaxText's experts lie among data-parallel ranks: expert_parallel="
        rule = f"{message}{plan.expert_parallel} must divide data_parallel={plan.data_parallel}"
        raise InvalidInput(f"{rule}; use a divisor", "expert_parallel")
    if shape.num_layers % plan.pipeline_parallel:
        message = f"MaxText's stages hold as many layers each: pipeline_parallel={plan.pipeline_parallel} must divide"
        raise InvalidInput(f"{message} num_layers={shape.num_layers}; use a divisor", "pipeline_parallel")


def _host_note(cluster: AnyCluster) -> str:
    """Hosts of TPUs are those of the pod, however its torus is cut."""
    if not isinstance(cluster, Cluster) or not isinstance(cluster.host, Host) or cluster.chip.vendor != "Google":
        return host_note(cluster)
    per_host = cluster.host.num_devices
    return f"for {counted(-(-cluster.num_devices // per_host), 'host')} of {per_host} {cluster.chip.name}"


def _set(key: str, value: object) -> Flag:
    return flag(f"{key}={value}")


def _model(shape: Transformer) -> Iterator[Flag | Missing]:
    if shape.name in _MODELS:
        yield _set("model_name", _MODELS[shape.name])
        return
    sizes = {
        "base_emb_dim": shape.hidden, "base_num_query_heads": shape.num_heads, "base_num_kv_heads": shape.num_kv_heads,
        "head_dim": shape.head_width, "base_mlp_dim": shape.ffn_width, "base_num_decoder_layers": shape.num_layers,
        "vocab_size": shape.vocab,
    }  # fmt: skip
    yield from (_set(key, value) for key, value in sizes.items())
    traits = TRAITS.get(shape.name)
    if traits is not None:
        yield _set("rope_max_timescale", f"{traits.rotary_base:.0f}")
        yield _set("normalization_layer_epsilon", f"{traits.norm_epsilon:g}")
    message = f"what {shape.name} has beside these sizes"
    yield Missing(message, "it has no configuration in configs/models; decoder_block says which of its blocks is run")


def _hardware(cluster: AnyCluster) -> Iterator[Flag]:
    yield _set("hardware", "tpu" if all(chip.vendor == "Google" for chip in chips_of(cluster)) else "gpu")


def _training(workload: Workload, plan: Plan) -> Iterator[Flag]:
    """Without a pipeline microbatches are accumulated; a pipeline takes those of a step in one go."""
    others = plan.num_devices // plan.data_parallel
    num_microbatches = workload.global_batch // (plan.data_parallel * plan.microbatch)
    is_piped = plan.pipeline_parallel > 1
    batch = plan.microbatch * (num_microbatches if is_piped else 1) / others
    yield _set("per_device_batch_size", f"{batch:g}")
    yield _set("num_pipeline_microbatches" if is_piped else "gradient_accumulation_steps", num_microbatches)
    yield _set("max_target_length", workload.seq)
    yield _set("steps", NUM_TIMED_STEPS)
    yield _set("dataset_type", "synthetic")
    yield _set("enable_checkpointing", "false")


def _degrees(plan: Plan) -> Iterator[Flag | Missing]:
    """Experts lie among the data-parallel ranks; what they leave over is sharded, or holds copies."""
    rest = plan.data_parallel // plan.expert_parallel if plan.data_parallel % plan.expert_parallel == 0 else 1
    is_sharded = plan.zero_stage > 0
    yield _set("ici_fsdp_parallelism", rest if is_sharded else 1)
    yield _set("ici_data_parallelism", 1 if is_sharded else rest)
    yield _set("ici_tensor_parallelism", plan.tensor_parallel)
    yield _set("ici_context_parallelism", plan.context_parallel)
    yield _set("ici_pipeline_parallelism", plan.pipeline_parallel)
    yield _set("ici_expert_parallelism", plan.expert_parallel)
    if plan.zero_stage and rest == 1 and plan.data_parallel * plan.context_parallel > 1:
        message = f"zero_stage {plan.zero_stage}, written as zero_stage 0"
        yield Missing(message, "weights are sharded over what experts leave of data parallelism", (("zero_stage", 0),))
    elif plan.zero_stage in (1, 2):
        message = f"zero_stage {plan.zero_stage}, written as zero_stage 3"
        yield Missing(message, "weights, gradients and state are sharded the same way", (("zero_stage", 3),))
    if plan.context_parallel > 1 and plan.context_comm_type != "gather":
        message = f"context_comm_type {plan.context_comm_type}, written as gather"
        yield Missing(message, "keys and values are gathered", (("context_comm_type", "gather"),))
    if plan.tensor_parallel > 1 and not plan.sequence_parallel:
        why = "activations between regions are always cut over the tensor axis"
        yield Missing("sequence_parallel false", why, (("sequence_parallel", True),))
    yield from plain_order(plan)


def _stages(shape: Transformer, plan: Plan) -> Iterator[Flag | Missing]:
    if plan.pipeline_parallel == 1:
        return
    yield _set("num_layers_per_pipeline_stage", max(1, shape.num_layers // plan.num_chunks))
    instead = (("schedule", "gpipe"), ("interleave", 1))
    if plan.schedule != "gpipe" or plan.interleave > 1:
        message = f"schedule {plan.schedule}, written as gpipe"
        yield Missing(message, "all forward passes come before the backward ones, which JAX derives from them", instead)
    if len(set(plan.layers_per_stage)) > 1:
        yield Missing("layers_per_stage", "every stage has as many", (("layers_per_stage", ()),))
    elif plan.layers_per_stage:
        yield Missing("layers_per_stage", "layers are always spread evenly", (("layers_per_stage", ()),))


def _experts(shape: Transformer, workload: Workload, plan: Plan) -> Iterator[Flag | Missing]:
    tp = plan.tensor_parallel
    if shape.experts is not None and plan.expert_tensor_parallel != tp:
        message = f"expert_tensor_parallel {plan.expert_tensor_parallel}, written as {tp}"
        yield Missing(message, "the tensor axis cuts experts too", (("expert_tensor_parallel", tp),))
    if workload.routing.capacity_factor:
        yield _set("capacity_factor", f"{workload.routing.capacity_factor:g}")
        yield _set("sparse_matmul", "false")
        if not workload.routing.pads_to_capacity:
            padded = replace(workload.routing, pads_to_capacity=True)
            yield Missing("experts without padding", "they compute their capacity", (("workload.routing", padded),))
    yield from unsent_dispatcher(plan, "maxtext", "rows are sent once for each expert")


def _recompute(plan: Plan) -> Iterator[Flag | Missing]:
    policy, counts = heaviest_recompute(plan), plan.recompute_layers
    yield from mixed_recompute(plan, "one policy goes for all layers")
    if counts and not any(counts):
        yield _set("remat_policy", "none")
        return
    if counts:
        message = f"recompute {policy} of {max(counts)} layers, written as of all"
        yield Missing(message, "one policy goes for all layers", (("recompute_layers", ()),))
    if policy in _NEAREST:
        nearest, why = _NEAREST[policy]
        yield Missing(f"recompute {policy}, written as {nearest}", why, (("recompute", (nearest,)),))
        policy = nearest
    if policy in checkpoint_policies or policy == "none":
        yield _set("remat_policy", "full" if policy == "nothing_saveable" else policy)
        return
    yield _set("remat_policy", "custom")
    yield from (_set(tensor, place) for tensor, place in places_of(policy).items())


def _offload(plan: Plan) -> Iterator[Flag | Missing]:
    if plan.offload_optimizer:
        yield _set("optimizer_memory_host_offload", "true")
    if plan.offload_activations_frac:
        why = "tensors are offloaded by name, with recompute"
        yield Missing("offload_activations_frac", why, (("offload_activations_frac", 0.0),))


def _precision(precision: Precision) -> Iterator[Flag | Missing]:
    is_pure = precision.weights == precision.storage == "bf16" and not precision.has_master_weights
    yield _set("dtype", _DTYPES[precision.storage])
    yield _set("weight_dtype", "bfloat16" if is_pure else "float32")
    if precision.weights != "fp32" and not is_pure:
        kept = (("precision.weights", "fp32"), ("precision.has_master_weights", False))
        yield Missing(f"{precision.weights} weights beside master weights", "fp32 ones are kept and cast for use", kept)
    if precision.compute == "fp8":
        yield _set("quantization", "fp8")
        if precision.recipe != "current":
            yield other_recipe(precision, "current", "quantization fp8 scales by the tensor itself")
    if precision.compute in ("tf32", "fp4"):
        yield wide_products(precision, "it computes in bf16, fp8 or fp32")


def _optimizer(precision: Precision) -> Iterator[Flag | Missing]:
    precision, named, missing = offered_optimizer(precision, "maxtext")
    yield from missing
    yield _set("opt_type", named.name)
    yield _set("learning_rate", LEARNING_RATE)
    if precision.moments != precision.weights and precision.moments in _DTYPES:
        yield _set("mu_dtype", _DTYPES[precision.moments])


def _overlaps(plan: Plan) -> Iterator[Missing]:
    """XLA's scheduler decides what runs beside what."""
    why = "XLA overlaps collectives with products wherever it can"
    for name, degree in (("data", "data_parallel"), ("context", "context_parallel"), ("pipeline", "pipeline_parallel")):
        if getattr(plan, degree) > 1 and not getattr(plan.overlap, name):
            yield Missing(f"overlap.{name} false", why, ((f"overlap.{name}", True),))
    if plan.tensor_parallel > 1 and not plan.overlap.tensor:
        yield Missing("overlap.tensor false", why, (("overlap.tensor", True),))
    if plan.expert_parallel > 1 and plan.overlap.expert:
        yield Missing("overlap.expert", "rows sent to experts are waited for", (("overlap.expert", False),))


def _kernels(workload: Workload) -> Iterator[Flag | Missing]:
    yield _set("attention", "flash" if workload.attention != "unfused" else "dot_product")
    if workload.attention not in ("flash", "unfused"):
        why = "attention is its own flash kernel, or written out"
        yield Missing(f"attention {workload.attention}", why, (("workload.attention", "flash"),))
    if workload.kernels != "compiled":
        yield Missing(f"kernels {workload.kernels}", "XLA compiles the step", (("workload.kernels", "compiled"),))


def _rules(plans: Plans, workload: Workload) -> BoolArray:
    """Rules between choices, those of `_degrees` and `_stages` as columns."""
    shape = decoder_shape(workload)
    cp, pp = plans.context_parallel, plans.pipeline_parallel
    kept = has_order(plans) & is_schedule(plans, "gpipe") & (plans.interleave == 1)
    is_alone = plans.data_parallel * cp == 1
    kept &= (plans.zero_stage == 0) | (
        (plans.zero_stage == 3) & ((plans.data_parallel > plans.expert_parallel) | is_alone)
    )
    kept &= plans.sequence_parallel == (plans.tensor_parallel > 1)
    kept &= (cp == 1) | (plans.context_comm_type == CONTEXT_COMM_TYPES.index("gather"))
    kept &= plans.data_parallel % plans.expert_parallel == 0
    if shape is not None:
        kept &= shape.num_layers % pp == 0
    if shape is not None and shape.experts is not None:
        kept &= plans.expert_tensor_parallel == plans.tensor_parallel
    return np.asarray(kept)


launchers.register("maxtext")(
    FrameworkLauncher(
        versions=tuple(VERSIONS),
        write=maxtext,
        choices={
            "zero_stage": (0, 3),
            "context_comm_type": ("gather",),
            "schedule": ("gpipe",),
            "recompute": ("none", "full"),
            "axis_order": (AXES,),
            "interleave": (1,),
            "overlap.data": (True,),
            "overlap.tensor": (True,),
            "overlap.context": (True,),
            "overlap.expert": (False,),
            "overlap.pipeline": (True,),
            "offload_activations_frac": (0.0,),
        },
        rules=_rules,
        is_for_tpus=True,
    )
)
