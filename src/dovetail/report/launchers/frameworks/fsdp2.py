"""FSDP2 by Hugging Face accelerate: its configuration in YAML, and the launcher with a script of one's own.

Keys are those of accelerate/commands/config/config_args.py and accelerate/commands/launch.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.plan import AXES, CONTEXT_COMM_TYPES, Plan, Plans
from dovetail.report.launchers.fallbacks import (
    heaviest_recompute,
    mixed_recompute,
    offered_optimizer,
    plain_order,
    wide_products,
)
from dovetail.report.launchers.frameworks import FrameworkLauncher, launchers
from dovetail.report.launchers.host_ranks import pool_notes
from dovetail.report.launchers.launch import (
    LEARNING_RATE,
    NUM_TIMED_STEPS,
    Launch,
    Missing,
    Part,
    Setting,
    adapter_flags,
    check_chip,
    check_devices,
    decoder_of,
    flag,
    host_note,
    hosts,
    nested,
    parted,
    unknown_choices,
    yaml_text,
)
from dovetail.report.launchers.model_traits import left_out
from dovetail.report.launchers.rules import has_order
from dovetail.workload.graph import BoolArray
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

NAME = "FSDP2"
VERSIONS = {"1.15": "keys of accelerate 1.15, fsdp_version 2"}
CONFIG_NAME = "accelerate.yaml"
OWN_SCRIPT = (
    "train.py is a placeholder for your script: it builds the model from its config.json, prepares it with"
    " Accelerator and trains; it reads the arguments after its name"
)
_SECTION = "parallelism_config"
_METHODS = {"gather": "allgather", "ring": "alltoall"}  # the second shifts parts round


def fsdp2(workload: Workload, cluster: AnyCluster, plan: Plan, version: str) -> Launch:
    """Configuration and launcher; degrees that accelerate lacks raise, other choices without a key are named."""
    check_chip(cluster, NAME)
    check_devices(plan, cluster)
    shape = decoder_of(workload, NAME)
    _check(workload, plan)
    num_hosts, per_host = hosts(cluster)
    flags, settings, missing = parted(
        (
            *_machines(cluster),
            *_precision(workload.precision),
            *_sharding(plan),
            *_degrees(plan),
            *_recompute(plan),
            *_kernels(workload),
            *_script(workload, plan),
            *left_out(shape, "train.py takes it from the model's own config.json"),
            *unknown_choices(plan, NAME),
        )
    )
    ranks = flag(
        "--machine_rank", "$NODE_RANK", "--main_process_ip", "$MASTER_ADDR", "--main_process_port", "$MASTER_PORT"
    )
    launcher = flag("accelerate", "launch", "--config_file", CONFIG_NAME)
    return Launch(
        framework=NAME,
        version=VERSIONS[version],
        command=(launcher, *((ranks,) if num_hosts > 1 else ()), *flags),
        config_name=CONFIG_NAME,
        config=yaml_text(nested(settings)),
        missing=missing,
        notes=(host_note(cluster), *pool_notes(plan, cluster, per_host), OWN_SCRIPT),
    )


def _check(workload: Workload, plan: Plan) -> None:
    for name in ("pipeline_parallel", "expert_parallel"):
        if getattr(plan, name) > 1:
            raise InvalidInput(f"accelerate has no {name}; got {getattr(plan, name)}, so use 1", name)
    if workload.precision.storage == "fp16":
        raise InvalidInput("FSDP2 is written for bf16 or fp32; got fp16", "precision.compute")


def _machines(cluster: AnyCluster) -> Iterator[Setting]:
    num_hosts, per_host = hosts(cluster)
    yield Setting(("compute_environment",), "LOCAL_MACHINE")
    yield Setting(("distributed_type",), "FSDP")
    yield Setting(("num_machines",), num_hosts)
    yield Setting(("num_processes",), num_hosts * per_host)
    yield Setting(("rdzv_backend",), "static")


def _precision(precision: Precision) -> Iterator[Setting | Missing]:
    """Weights are kept in fp32 and gathered in what is computed in."""
    yield Setting(("mixed_precision",), "bf16" if precision.storage == "bf16" else "no")
    if precision.compute in ("fp8", "fp4"):
        why = "narrow products are for the model's own layers to bring"
        yield wide_products(precision, why)
    if precision.compute == "tf32":
        why = "products in tf32 are PyTorch's to allow"
        yield Missing("compute in tf32, written as fp32", why, (("precision.compute", "fp32"),))
    if precision.weights != "fp32":
        kept = (("precision.weights", "fp32"), ("precision.has_master_weights", False))
        yield Missing(
            f"{precision.weights} weights beside master weights", "fp32 ones are kept and gathered narrower", kept
        )
    if precision.moments != "fp32":
        instead = (("precision.moments", "fp32"),)
        yield Missing(f"moments in {precision.moments}", "they are kept as the weights are", instead)
    if precision.gradients != "fp32":
        instead = (("precision.gradients", "fp32"),)
        yield Missing(f"gradients in {precision.gradients}", "they are kept as the weights are", instead)


def _sharding(plan: Plan) -> Iterator[Setting | Missing]:
    if plan.zero_stage < 2 and plan.data_parallel * plan.context_parallel > 1:
        why = "weights, gradients and state are always sharded"
        yield Missing(f"zero_stage {plan.zero_stage}, written as zero_stage 2", why, (("zero_stage", 2),))
    yield Setting(("fsdp_config", "fsdp_version"), 2)
    yield Setting(("fsdp_config", "fsdp_reshard_after_forward"), plan.zero_stage == 3)
    yield Setting(("fsdp_config", "fsdp_auto_wrap_policy"), "TRANSFORMER_BASED_WRAP")
    yield Setting(("fsdp_config", "fsdp_state_dict_type"), "SHARDED_STATE_DICT")
    if plan.offload_optimizer:
        why = "fsdp_offload_params takes parameters and gradients to the host as well"
        yield Missing("offload_optimizer", why, (("offload_optimizer", False),))
    if plan.offload_activations_frac:
        instead = (("offload_activations_frac", 0.0),)
        yield Missing("offload_activations_frac", "activations stay on the device", instead)
    if not plan.overlap.data and plan.data_parallel > 1:
        yield Missing("overlap.data false", "FSDP always overlaps with compute", (("overlap.data", True),))


def _degrees(plan: Plan) -> Iterator[Setting | Missing]:
    yield Setting((_SECTION, "parallelism_config_dp_replicate_size"), 1)
    yield Setting((_SECTION, "parallelism_config_dp_shard_size"), plan.data_parallel)
    yield Setting((_SECTION, "parallelism_config_tp_size"), plan.tensor_parallel)
    yield Setting((_SECTION, "parallelism_config_cp_size"), plan.context_parallel)
    if plan.context_parallel > 1:
        method = _METHODS.get(plan.context_comm_type, "allgather")
        yield Setting((_SECTION, "parallelism_config_cp_comm_strategy"), method)
        if plan.context_comm_type not in _METHODS:
            why = "keys and values are gathered or shifted round, heads stay where they are"
            yield Missing("context_comm_type all-to-all, written as gather", why, (("context_comm_type", "gather"),))
    if plan.tensor_parallel > 1 and plan.sequence_parallel:
        why = "activations between regions are whole on every rank"
        yield Missing("sequence_parallel", why, (("sequence_parallel", False),))
    if plan.tensor_parallel > 1 and plan.overlap.tensor:
        yield Missing("overlap.tensor", "its collectives are waited for", (("overlap.tensor", False),))
    yield from plain_order(plan)


def _recompute(plan: Plan) -> Iterator[Setting | Missing]:
    policy, counts = heaviest_recompute(plan), plan.recompute_layers
    yield from mixed_recompute(plan, "one policy goes for all layers")
    is_none = policy == "none" or (bool(counts) and not any(counts))
    yield Setting(("fsdp_config", "fsdp_activation_checkpointing"), not is_none)
    if counts and any(counts):
        message = f"recompute {policy} of {max(counts)} layers, written as of all"
        yield Missing(message, "it goes for every layer", (("recompute_layers", ()),))
    if not is_none and policy != "full":
        why = "layers are recomputed whole or not at all"
        yield Missing(f"recompute {policy}, written as full", why, (("recompute", ("full",)),))


def _kernels(workload: Workload) -> Iterator[Setting | Missing]:
    if workload.kernels != "eager":
        yield Setting(("dynamo_config", "dynamo_backend"), "INDUCTOR")
    if workload.attention != "flash":
        why = "attention is PyTorch's fused one"
        yield Missing(f"attention {workload.attention}", why, (("workload.attention", "flash"),))


def _script(workload: Workload, plan: Plan) -> Iterator[Part]:
    _, named, missing = offered_optimizer(workload.precision, "fsdp2")
    yield from missing
    yield flag("train.py")
    yield flag("--model", workload.model.name)
    yield flag("--sequence-length", workload.seq)
    yield flag("--per-device-batch-size", plan.microbatch)
    yield flag("--gradient-accumulation-steps", workload.global_batch // (plan.data_parallel * plan.microbatch))
    yield flag("--optimizer", named.name)
    yield flag("--learning-rate", LEARNING_RATE)
    yield flag("--steps", NUM_TIMED_STEPS)
    yield from adapter_flags(workload)
    yield Missing("the model", "train.py is a placeholder for your script")


def _rules(plans: Plans, _: Workload) -> BoolArray:
    """Rules between choices, those of `_check` and `_degrees` as columns."""
    is_alone = plans.data_parallel * plans.context_parallel == 1
    kept = has_order(plans) & (plans.pipeline_parallel == 1) & (plans.expert_parallel == 1)
    kept &= (plans.zero_stage > 1) | is_alone
    kept &= (plans.context_parallel == 1) | (plans.context_comm_type != CONTEXT_COMM_TYPES.index("all-to-all"))
    kept &= ~plans.sequence_parallel | (plans.tensor_parallel == 1)
    return np.asarray(kept)


launchers.register("fsdp2")(
    FrameworkLauncher(
        versions=tuple(VERSIONS),
        write=fsdp2,
        choices={
            "zero_stage": (2, 3),
            "context_comm_type": ("gather", "ring"),
            "schedule": ("1f1b",),
            "recompute": ("none", "full"),
            "axis_order": (AXES,),
            "pipeline_parallel": (1,),
            "expert_parallel": (1,),
            "overlap.data": (True,),
            "overlap.tensor": (False,),
            "offload_optimizer": (False,),
            "offload_activations_frac": (0.0,),
        },
        rules=_rules,
    )
)
