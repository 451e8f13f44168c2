"""TorchTitan: arguments of its configuration from 0.3 on, and before that the TOML of its job configuration.

Keys of 0.3 are those of torchtitan/config/configs.py and torchtitan/trainer.py, of 0.2 those of
torchtitan/config/job_config.py; schedules are those of torch.distributed.pipelining.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.dispatchers import ALL_TO_ALL, dispatchers
from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, Plan, Plans
from dovetail.report.launchers.fallbacks import (
    heaviest_recompute,
    mixed_recompute,
    offered_optimizer,
    ordinal,
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
    Setting,
    check_chip,
    check_devices,
    check_full_training,
    decoder_of,
    flag,
    host_note,
    hosts,
    parted,
    toml_text,
    torchrun,
    unknown_choices,
)
from dovetail.report.launchers.rules import decoder_shape, has_order, is_schedule
from dovetail.workload.checkpoint_policies import is_by_tensor
from dovetail.workload.graph import BoolArray
from dovetail.workload.kernel_sets import kernel_sets
from dovetail.workload.optimizer import Precision
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

NAME = "TorchTitan"
TOML_VERSION = "0.2.2"
VERSIONS = {
    "0.3.0": "arguments of TorchTitan 0.3",
    TOML_VERSION: "keys of the 0.2 job configuration, the last one in TOML",
}
NOTE = "dataset, learning rate and steps are placeholders for a timing run; replace them"
FLAVORS = {  # torchtitan/models/*/__init__.py
    "llama3-8b": ("llama3", "8B"),
    "llama3-70b": ("llama3", "70B"),
    "llama3-405b": ("llama3", "405B"),
    "deepseek-v3": ("deepseek_v3", "671B"),
}
CONFIGS = {  # torchtitan/models/*/config_registry.py
    "llama3-8b": ("llama3", "llama3_8b"),
    "llama3-70b": ("llama3", "llama3_70b"),
    "deepseek-v3": ("deepseek_v3", "deepseek_v3_671b"),
    "qwen3-1.7b": ("qwen3", "qwen3_1_7b"),
    "qwen3-14b": ("qwen3", "qwen3_14b"),
    "qwen3-32b": ("qwen3", "qwen3_32b"),
    "qwen3-30b-a3b": ("qwen3", "qwen3_30b_a3b"),
}
FLOAT8_CONFIGS = {  # of the same files, with a float8 converter
    "llama3-405b": ("llama3", "llama3_405b"),
    "deepseek-v3": ("deepseek_v3", "deepseek_v3_671b_float8"),
}
_NEEDS_CONFIG = "shapes are functions of a config registry; write one and name it with --module and --config"
_OWN_OPTIMIZER = "the optimizer is the configuration's own, AdamW, and so is its learning rate"
_SCHEDULES = {"gpipe": "GPipe", "zb-v": "ZBVZeroBubble", "interleaved": "Interleaved1F1B"}


def torchtitan(workload: Workload, cluster: AnyCluster, plan: Plan, version: str) -> Launch:
    """The job's TOML; degrees that cannot run together raise, other choices without a key are named."""
    check_chip(cluster, NAME)
    check_devices(plan, cluster)
    shape = decoder_of(workload, NAME)
    check_full_training(workload, NAME)
    _check(workload.precision, plan)
    settings_of = _settings_0_2 if version == TOML_VERSION else _settings
    _, settings, missing = parted((*settings_of(shape, workload, plan), *unknown_choices(plan, NAME)))
    notes = (host_note(cluster), *pool_notes(plan, cluster, hosts(cluster)[1]), NOTE)
    if version != TOML_VERSION:
        return Launch(
            framework=NAME,
            version=VERSIONS[version],
            command=(*torchrun(cluster), flag("-m", "torchtitan.train"), *_arguments(shape, workload, settings)),
            missing=missing,
            notes=(*notes, _OWN_OPTIMIZER),
        )
    name = re.sub(r"[^\w.-]", "-", shape.name) + ".toml"
    return Launch(
        framework=NAME,
        version=VERSIONS[version],
        command=(*torchrun(cluster), flag("-m", "torchtitan.train"), flag("--job.config_file", name)),
        config_name=name,
        config=toml_text(settings),
        missing=missing,
        notes=notes,
    )


def _settings_0_2(shape: Transformer, workload: Workload, plan: Plan) -> Iterator[Setting | Missing]:
    yield from _job(workload)
    yield from _model(shape, workload)
    yield from _optimizer(workload.precision)
    yield from _training(workload, plan)
    yield Setting(("training", "dataset"), "c4_test")
    yield from _data(plan)
    yield from _degrees(plan)
    yield from _rotation(plan)
    yield from _stages(shape, plan)
    yield from _experts(shape, workload, plan)
    yield from _expert_keys(plan)
    if plan.tensor_parallel > 1:
        yield Setting(("parallelism", "enable_async_tensor_parallel"), plan.overlap.tensor)
    yield from _overlaps(plan)
    yield from _recompute(shape, plan)
    yield from _compile(workload, plan)
    yield from _precision(workload.precision, plan)
    yield from _float8(workload.precision, plan)
    yield from _offload(plan)


def _settings(shape: Transformer, workload: Workload, plan: Plan) -> Iterator[Setting | Missing]:
    """Keys of 0.3; `activation_checkpoint` is a subcommand there, and the model is a function of its registry."""
    if shape.name not in _configs(workload):
        sizes = f"{shape.num_layers} layers of {shape.hidden}, {shape.num_heads} heads, vocabulary {shape.vocab}"
        yield Missing(f"the shape of {shape.name} ({sizes})", _NEEDS_CONFIG)
    yield from (part for part in _optimizer(workload.precision) if isinstance(part, Missing))
    yield from _training(workload, plan)
    yield Setting(("dataloader", "dataset"), "c4_test")
    if plan.pipeline_parallel > 1 or plan.expert_parallel > 1:
        yield Setting(("training", "disable_cuda_graphs"), True)  # they take neither pipelines nor plain all-to-all
    yield from _data(plan)
    yield from _degrees(plan)
    if plan.context_parallel > 1 and plan.context_comm_type == "ring":
        why = "keys and values are gathered, and nothing chooses otherwise"
        yield Missing("context_comm_type ring, written as gather", why, (("context_comm_type", "gather"),))
    yield from _stages(shape, plan)
    yield from _experts(shape, workload, plan)
    if shape.experts is not None:  # also where it is 1: configurations have degrees of their own
        yield Setting(("parallelism", "expert_parallel_degree"), plan.expert_parallel)
    if plan.expert_parallel > 1 and plan.expert_tensor_parallel > 1:
        why = "experts lie whole on ranks of data and tensor parallelism"
        message = f"expert_tensor_parallel {plan.expert_tensor_parallel}, written as 1"
        yield Missing(message, why, (("expert_tensor_parallel", 1),))
    if plan.dispatcher != ALL_TO_ALL and plan.expert_parallel > 1:
        why = "which all-to-all is used is set in the model's configuration"
        yield Missing(f"dispatcher {plan.dispatcher}, written as {ALL_TO_ALL}", why, (("dispatcher", ALL_TO_ALL),))
    yield from _overlaps(plan)
    yield from _whole_recompute(plan)
    yield from _compile(workload, plan)
    is_asynchronous = (
        plan.tensor_parallel > 1 and plan.overlap.tensor
    )  # said also where not: configurations may have it
    yield Setting(("compile", "enable_async_tensor_parallel"), is_asynchronous)
    yield from _precision(workload.precision, plan)
    if workload.precision.compute == "fp8" and shape.name not in FLOAT8_CONFIGS:
        why = "float8 is set in the model's configuration, as a converter"
        yield wide_products(workload.precision, why)
    else:
        yield from _scaling(workload.precision, has_blocks=False)
    yield from _offload(plan)


def _configs(workload: Workload) -> dict[str, tuple[str, str]]:
    """Configurations of models, by name, that compute as the workload does."""
    return CONFIGS | (FLOAT8_CONFIGS if workload.precision.compute == "fp8" else {})


def _arguments(shape: Transformer, workload: Workload, settings: tuple[Setting, ...]) -> Iterator[Flag]:
    """Settings as arguments: switches by their name, lists of lists in words, and the subcommand last."""
    module, config = _configs(workload).get(shape.name, (shape.name, shape.name))
    yield flag("--module", module)
    yield flag("--config", config)
    mode = "none"
    for setting in settings:
        section, key, value = setting.path[0], setting.path[-1], setting.value
        if section == "activation_checkpoint":
            mode = value
        elif isinstance(value, bool):
            yield flag(f"--{section}.{key}" if value else f"--{section}.no-{key.replace('_', '-')}")
        elif isinstance(value, list):
            yield flag(f"--{section}.{key}", *(",".join(part) for part in value))
        else:
            yield flag(f"--{section}.{key}", value)
    yield flag(f"activation-checkpoint:{mode}")


def _whole_recompute(plan: Plan) -> Iterator[Setting | Missing]:
    """Of all layers or of none, whole or by operator."""
    policy, counts = heaviest_recompute(plan), plan.recompute_layers
    yield from mixed_recompute(plan, "one mode goes for all stages")
    mode = {"none": "none", "selective-op": "selective"}.get(policy, "full")
    if counts and not any(counts):
        mode = "none"
    elif counts:
        message = f"recompute {policy} of {max(counts)} layers per stage, written as of all"
        yield Missing(message, "one mode goes for all layers", (("recompute_layers", ()),))
    if policy in ("selective", "norm-activation"):
        mode = "selective"
        message = f"recompute {policy}, written as op-level selective, which keeps less"
        why = "it picks by operator: every second product is kept"
        yield Missing(message, why, (("recompute", ("selective-op",)),))
    if is_by_tensor(policy):
        why = "it picks by operator or by layer, not by tensor"
        yield Missing(f"recompute {policy}, written as full", why, (("recompute", ("full",)),))
    yield Setting(("activation_checkpoint", "mode"), mode)


def _check(precision: Precision, plan: Plan) -> None:
    if precision.storage == "fp16":
        raise InvalidInput("TorchTitan computes in bf16, fp8 or fp32; got fp16", "precision.compute")
    others = plan.num_devices // plan.data_parallel * plan.expert_parallel
    if plan.zero_stage == 0 and plan.data_parallel > 1 and others > 1:
        message = "TorchTitan replicates over data_parallel ranks only without any other parallelism"
        raise InvalidInput(f"{message}; got zero_stage=0 beside others, so use zero_stage 2 or 3", "zero_stage")


def _job(workload: Workload) -> Iterator[Setting]:
    yield Setting(("job", "description"), f"{workload.model.name}, planned by Dovetail")


def _model(shape: Transformer, workload: Workload) -> Iterator[Setting | Missing]:
    name, flavor = FLAVORS.get(shape.name, (shape.name, shape.name))
    if shape.name not in FLAVORS:
        sizes = f"{shape.num_layers} layers of {shape.hidden}, {shape.num_heads} heads, vocabulary {shape.vocab}"
        message = f"the shape of {shape.name} ({sizes})"
        yield Missing(
            message, "shapes are flavors in its code; register this one and name it in experimental.custom_import"
        )
    yield Setting(("model", "name"), name)
    yield Setting(("model", "flavor"), flavor)
    if workload.precision.compute == "fp8":
        kind = "mx" if workload.precision.recipe == "mxfp8" else "float8"
        yield Setting(("model", "converters"), [f"quantize.linear.{kind}"])


def _optimizer(precision: Precision) -> Iterator[Setting | Missing]:
    precision, named, missing = offered_optimizer(precision, "torchtitan")
    yield from missing
    yield Setting(("optimizer", "name"), named.name)
    yield Setting(("optimizer", "lr"), float(LEARNING_RATE))
    if precision.moments not in ("fp32", precision.weights):
        instead = (("precision.moments", precision.weights),)
        yield Missing(f"moments in {precision.moments}", "they are kept as the weights are", instead)


def _training(workload: Workload, plan: Plan) -> Iterator[Setting]:
    """A pipeline takes all microbatches of a step in one go; without one they are accumulated."""
    local = workload.global_batch // plan.data_parallel if plan.pipeline_parallel > 1 else plan.microbatch
    yield Setting(("training", "local_batch_size"), local)
    yield Setting(("training", "global_batch_size"), workload.global_batch)
    yield Setting(("training", "seq_len"), workload.seq)
    yield Setting(("training", "steps"), NUM_TIMED_STEPS)


def _data(plan: Plan) -> Iterator[Setting | Missing]:
    """ZeRO-3 shards and gathers for each pass; ZeRO-2 keeps what it gathered from forward to backward."""
    is_sharded = plan.zero_stage > 0
    yield Setting(("parallelism", "data_parallel_replicate_degree"), 1 if is_sharded else plan.data_parallel)
    yield Setting(("parallelism", "data_parallel_shard_degree"), plan.data_parallel if is_sharded else 1)
    if is_sharded:
        policy = "always" if plan.zero_stage == 3 else "never"
        yield Setting(("parallelism", "fsdp_reshard_after_forward"), policy)
    if plan.zero_stage == 1:
        message = "gradients and parameters are sharded with the optimizer state"
        yield Missing("zero_stage 1, written as zero_stage 2", message, (("zero_stage", 2),))
    if plan.zero_stage == 0 and plan.context_parallel > 1:
        stage = 2 if plan.pipeline_parallel > 1 else 3  # the default of fsdp_reshard_after_forward
        message = "parameters are sharded over the context-parallel ranks too"
        yield Missing(f"zero_stage 0, written as zero_stage {stage}", message, (("zero_stage", stage),))


def _degrees(plan: Plan) -> Iterator[Setting | Missing]:
    yield Setting(("parallelism", "tensor_parallel_degree"), plan.tensor_parallel)
    yield Setting(("parallelism", "context_parallel_degree"), plan.context_parallel)
    yield Setting(("parallelism", "pipeline_parallel_degree"), plan.pipeline_parallel)
    if plan.context_parallel > 1 and plan.context_comm_type == "all-to-all":
        why = "keys and values are gathered, heads stay where they are"
        yield Missing("context_comm_type all-to-all, written as gather", why, (("context_comm_type", "gather"),))
    if plan.tensor_parallel > 1 and not plan.sequence_parallel:
        why = "tensor parallelism always cuts the sequence between its regions"
        yield Missing("sequence_parallel false", why, (("sequence_parallel", True),))
    yield from plain_order(plan)


def _rotation(plan: Plan) -> Iterator[Setting]:
    if plan.context_parallel > 1:
        method = "alltoall" if plan.context_comm_type == "ring" else "allgather"  # the first shifts parts round
        yield Setting(("parallelism", "context_parallel_rotate_method"), method)


def _stages(shape: Transformer, plan: Plan) -> Iterator[Setting | Missing]:
    if plan.pipeline_parallel == 1:
        return
    plain = "Interleaved1F1B" if plan.interleave > 1 else "1F1B"
    schedule = plain if plan.schedule == "1f1b" else _SCHEDULES.get(plan.schedule, "")
    if not schedule:
        schedule = plain
        message = f"schedule {plan.schedule}, written as {plain}"
        yield Missing(message, "torch.distributed.pipelining has none like it", (("schedule", "1f1b"),))
    yield Setting(("parallelism", "pipeline_parallel_schedule"), schedule)
    yield Setting(("parallelism", "pipeline_parallel_microbatch_size"), plan.microbatch)
    yield Setting(("parallelism", "module_fqns_per_model_part"), _modules(layers_per_chunk(shape.num_layers, plan)))


def _modules(chunks: tuple[int, ...]) -> list[list[str]]:
    """The modules of each chunk in model order, under the names its decoders give them."""
    parts: list[list[str]] = []
    begin = 0
    for count in chunks:
        parts.append([f"layers.{layer}" for layer in range(begin, begin + count)])
        begin += count
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "output"]
    return parts


def _experts(shape: Transformer, workload: Workload, plan: Plan) -> Iterator[Missing]:
    tp = plan.tensor_parallel
    if shape.experts is not None and plan.expert_parallel == 1 and plan.expert_tensor_parallel != tp:
        message = f"expert_tensor_parallel {plan.expert_tensor_parallel}, written as {tp}"
        why = "without expert parallelism tensor parallelism cuts experts too"
        yield Missing(message, why, (("expert_tensor_parallel", tp),))
    if workload.routing.capacity_factor:
        instead = (("workload.routing", replace(workload.routing, capacity_factor=0.0, pads_to_capacity=False)),)
        yield Missing(f"capacity_factor {workload.routing.capacity_factor:g}", "experts take all that come", instead)


def _expert_keys(plan: Plan) -> Iterator[Setting | Missing]:
    if plan.expert_parallel > 1:
        yield Setting(("parallelism", "expert_parallel_degree"), plan.expert_parallel)
        yield Setting(("parallelism", "expert_tensor_parallel_degree"), plan.expert_tensor_parallel)
        yield from unsent_dispatcher(plan, "torchtitan", "rows go by NCCL's all-to-all or by DeepEP")
        told = dispatchers[plan.dispatcher].launch.get("torchtitan", (("", "standard"),))
        yield Setting(("parallelism", "expert_parallel_comm_backend"), told[0][1])


def _overlaps(plan: Plan) -> Iterator[Missing]:
    overlap = plan.overlap
    if overlap.expert and plan.expert_parallel > 1:
        why = "its all-to-all is waited for, except in DualPipeV"
        yield Missing("overlap.expert", why, (("overlap.expert", False),))
    if not overlap.data and plan.data_parallel > 1:
        yield Missing("overlap.data false", "FSDP and DDP always overlap with compute", (("overlap.data", True),))
    if not overlap.pipeline and plan.pipeline_parallel > 1:
        why = "transfers always overlap with compute"
        yield Missing("overlap.pipeline false", why, (("overlap.pipeline", True),))


def _recompute(shape: Transformer, plan: Plan) -> Iterator[Setting | Missing]:
    policy, counts = heaviest_recompute(plan), plan.recompute_layers
    yield from mixed_recompute(plan, "one mode goes for all stages")
    mode, option = {"none": ("none", ""), "full": ("full", "")}.get(policy, ("selective", "op"))
    if is_by_tensor(policy):
        mode, option = "full", ""
        why = "it picks by operator or by layer, not by tensor"
        yield Missing(f"recompute {policy}, written as full", why, (("recompute", ("full",)),))
    if policy in ("selective", "norm-activation"):
        message = f"recompute {policy}, written as op-level selective, which keeps less"
        yield Missing(
            message, "it picks by operator: every second product is kept", (("recompute", ("selective-op",)),)
        )
    if counts and not any(counts):
        mode, option = "none", ""
    elif counts and policy != "full":
        message = f"recompute {policy} of {max(counts)} layers per stage, written as of all"
        yield Missing(message, "only whole layers are recomputed every n-th", (("recompute_layers", ()),))
    elif counts:
        per_stage = shape.num_layers // plan.pipeline_parallel
        every = max(1, per_stage // max(counts))
        mode, option = "selective", str(every)
        if per_stage // every != max(counts):
            message = f"recompute full of {max(counts)} layers per stage, written as of every {ordinal(every)}"
            yield Missing(message, "every n-th is recomputed", (("recompute_layers", (per_stage // every,)),))
    yield Setting(("activation_checkpoint", "mode"), mode)
    if option:
        yield Setting(("activation_checkpoint", "selective_ac_option"), option)


def _compile(workload: Workload, plan: Plan) -> Iterator[Setting | Missing]:
    """Kernels are fused by compiling; float8 and asynchronous tensor parallelism count on it."""
    needs = workload.precision.compute == "fp8" or (plan.overlap.tensor and plan.tensor_parallel > 1)
    yield Setting(("compile", "enable"), workload.kernels != "eager" or needs)
    if workload.kernels == "eager" and needs:
        why = "float8 and asynchronous tensor parallelism are compiled"
        yield Missing("kernels eager", why, (("workload.kernels", "compiled"),))
    if kernel_sets[workload.kernels].framework not in ("", NAME):
        why = "its layers are compiled"
        yield Missing(f"kernels {workload.kernels}", why, (("workload.kernels", "torchtitan"),))
    if workload.attention != "flash":
        why = "attention is PyTorch's fused one"
        yield Missing(f"attention {workload.attention}", why, (("workload.attention", "flash"),))


def _precision(precision: Precision, plan: Plan) -> Iterator[Setting | Missing]:
    is_pure = precision.weights == precision.storage == "bf16" and not precision.has_master_weights
    yield Setting(("training", "dtype"), "bfloat16" if is_pure else "float32")
    yield Setting(("training", "mixed_precision_param"), "bfloat16" if precision.storage == "bf16" else "float32")
    yield Setting(("training", "mixed_precision_reduce"), "float32")
    is_gathered = plan.zero_stage in (1, 2)  # fp32 parts beside narrow copies that stay: master weights in all but name
    if precision.weights != "fp32" and not is_pure and not (is_gathered and precision.has_master_weights):
        kept = (("precision.weights", "fp32"), ("precision.has_master_weights", False))
        message = f"{precision.weights} weights beside master weights"
        yield Missing(message, "fp32 ones are kept and gathered narrower", kept)
    if precision.gradients != "fp32":
        instead = (("precision.gradients", "fp32"),)
        yield Missing(f"gradients in {precision.gradients}", "they are reduced in fp32", instead)
    if precision.compute == "tf32":
        why = "products in tf32 are PyTorch's to allow"
        yield Missing("compute in tf32, written as fp32", why, (("precision.compute", "fp32"),))


def _scaling(precision: Precision, *, has_blocks: bool) -> Iterator[Missing]:
    """Recipes of torchao: by the tensor itself, and, in releases that are told by a file, blocks of 32."""
    if precision.compute == "fp4":
        yield wide_products(precision, "it computes in bf16, fp8 or fp32")
    elif precision.compute == "fp8" and precision.recipe not in ("current", *(("mxfp8",) if has_blocks else ())):
        yield other_recipe(precision, "current", "torchao scales by the tensor itself, or by blocks of 32")


def _float8(precision: Precision, plan: Plan) -> Iterator[Setting | Missing]:
    yield from _scaling(precision, has_blocks=True)
    if precision.recipe == "mxfp8":
        yield Setting(("quantize", "linear", "mx", "recipe_name"), "mxfp8_cublas")
        yield Setting(("quantize", "linear", "mx", "filter_fqns"), ["output"])
    elif precision.compute == "fp8":
        is_narrow = plan.zero_stage > 0 and plan.data_parallel > 1
        yield Setting(("quantize", "linear", "float8", "enable_fsdp_float8_all_gather"), is_narrow)
        yield Setting(("quantize", "linear", "float8", "precompute_float8_dynamic_scale_for_fsdp"), is_narrow)
        yield Setting(("quantize", "linear", "float8", "filter_fqns"), ["output"])


def _offload(plan: Plan) -> Iterator[Missing]:
    if plan.offload_optimizer:
        why = "enable_cpu_offload takes parameters and gradients to the host as well"
        yield Missing("offload_optimizer", why, (("offload_optimizer", False),))
    if plan.offload_activations_frac:
        why = "activations stay on the device"
        yield Missing("offload_activations_frac", why, (("offload_activations_frac", 0.0),))


def _rules(plans: Plans, workload: Workload) -> BoolArray:
    """Rules between choices, those of `_check`, `_data`, `_degrees` and `_overlaps` as columns."""
    zero, others = plans.zero_stage, plans.num_devices // plans.data_parallel * plans.expert_parallel
    is_alone = plans.data_parallel == 1
    kept = has_order(plans) & is_schedule(plans, *_SCHEDULES, "1f1b")
    kept &= (zero > 1) | ((zero == 0) & (is_alone | (others == 1)) & (plans.context_parallel == 1))
    kept &= plans.sequence_parallel == (plans.tensor_parallel > 1)
    kept &= (plans.context_parallel == 1) | (plans.context_comm_type == CONTEXT_COMM_TYPES.index("gather"))
    shape = decoder_shape(workload)
    if shape is not None and shape.experts is not None:
        cut = np.where(plans.expert_parallel == 1, plans.tensor_parallel, 1)
        kept &= plans.expert_tensor_parallel == cut
    return np.asarray(kept)


launchers.register("torchtitan")(
    FrameworkLauncher(
        versions=tuple(VERSIONS),
        write=torchtitan,
        choices={
            "zero_stage": (0, 2, 3),
            "context_comm_type": ("gather",),
            "schedule": ("1f1b", "interleaved", "gpipe", "zb-v"),
            "recompute": ("none", "selective-op", "full"),
            "axis_order": (AXES,),
            "overlap.data": (True,),
            "overlap.expert": (False,),
            "overlap.pipeline": (True,),
            "offload_optimizer": (False,),
            "offload_activations_frac": (0.0,),
        },
        rules=_rules,
        partial_recompute=(TOML_VERSION,),
    )
)
