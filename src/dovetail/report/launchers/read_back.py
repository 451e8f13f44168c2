"""The plan that a launch text starts: each framework's words back as choices, and written again as a check."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.parallel.dispatchers import ALL_TO_ALL, DEEPEP
from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import AXES, Overlap, Plan
from dovetail.report.launchers.fallbacks import as_run
from dovetail.report.launchers.frameworks import launchers
from dovetail.report.launchers.frameworks.megatron_bridge import as_megatron_flags
from dovetail.report.launchers.launch import Launch, decoder_of, launch_text
from dovetail.report.launchers.launch_text import LaunchText, TextFlags, launch_text_of
from dovetail.workload.checkpoint_policies import checkpoint_policies
from dovetail.workload.workload import Workload

_TP_PP_DP = ("tp", "cp", "pp", "dp")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack:
    """What a text starts: the framework and its release, the workload as it trains it, and the plan."""

    framework: str
    version: str
    workload: Workload
    plan: Plan


def read_back(text: str, workload: Workload, cluster: AnyCluster) -> ReadBack:
    """What `text` starts for the model of `workload` on `cluster`; batch, length and dtypes are the text's.

    Written again, it must say what it says: raises with the first argument that would be another.
    """
    found = launch_text_of(text)
    _refuse_other_size(found, cluster)
    plan, batch, seq = _READERS[found.framework](found, workload, cluster.num_devices)
    plan = replace(plan, framework=found.framework)
    meant = replace(workload, global_batch=batch or workload.global_batch, seq=seq or workload.seq)
    version, launcher = _version(found)
    trained, run = as_run(meant, plan, launcher(meant, cluster, plan).missing)
    again = launcher(trained, cluster, run)
    theirs, ours = _arguments_of(found), _arguments_of(launch_text_of(launch_text(again)))
    unread = sorted(name for name in found.flags if name in theirs and name not in ours and not _is_aside(name))
    if unread:
        message = f"options of the text that are not read: {', '.join(unread)}"
        raise InvalidInput(f"{message}; correct their spelling, or remove them if they change no step", "launch_text")
    for name, value in ours.items():
        written = f"{name} {value}".strip()
        if name not in theirs:
            raise InvalidInput(f"the text lacks {written!r}, which the plan read from it needs", "launch_text")
        if theirs[name] != value:
            message = f"the text has '{name} {theirs[name]}', where the plan read from it needs {written!r}"
            raise InvalidInput(message, "launch_text")
    return ReadBack(framework=found.framework, version=version, workload=trained, plan=run)


def _version(found: LaunchText) -> tuple[str, Callable[[Workload, AnyCluster, Plan], Launch]]:
    """The release whose words these are."""
    entry = launchers[found.framework]
    version = entry.versions[0]
    if found.framework == "torchtitan" and not found.words:
        version = "0.2.2"
    if "MaxText.train" in found.words:
        version = "2025"
    return version, entry.at(version)


# Options that change no step, as Megatron-LM and TorchTitan name them: logging, checkpoints, data, learning rates.
_ASIDE = ("--log", "--save", "--load", "--tensorboard", "--wandb", "--eval", "--exit", "--data-path", "--data-cache",
          "--split", "--tokenizer", "--vocab", "--merge", "--train-", "--lr", "--min-lr", "--weight-decay",
          "--adam-", "--clip-grad", "--seed",
          "--init-method-std", "--no-save", "--no-load", "--num-workers", "--timing", "--metrics.", "--checkpoint.",
          "--profiling.", "--validation.", "--dataloader.", "--lr_scheduler.", "--job.", "--comm.",
          "--optimizer.lr", "--ckpt", "--distributed-timeout", "--report")  # fmt: skip


def _is_aside(name: str) -> bool:
    return name.startswith(_ASIDE)


def _refuse_other_size(found: LaunchText, cluster: AnyCluster) -> None:
    """A text that starts another number of ranks than the cluster has devices."""
    counts = [found.flags.get(name, ()) for name in ("--nnodes", "--nproc-per-node")]
    if not all(len(count) == 1 and count[0].isdigit() for count in counts):
        return
    num_ranks = int(counts[0][0]) * int(counts[1][0])
    if num_ranks != cluster.num_devices:
        message = f"the text starts {num_ranks:,} ranks, and the cluster has {cluster.num_devices:,} devices"
        raise InvalidInput(f"{message}; name the cluster that it is for", "launch_text")


def _arguments_of(text: LaunchText) -> dict[str, str]:
    """What decides a plan: arguments and settings as words, without who talks to whom and what stands in."""
    passed = {"--node-rank", "--master-addr", "--master-port", "--nnodes", "--nproc-per-node", "--hostfile",
              "--num_nodes", "--num_gpus", "--machine_rank", "--main_process_ip", "--main_process_port"}  # fmt: skip
    found = {name: " ".join(values) for name, values in text.flags.items() if name not in passed}
    return found | text.settings | dict(_flat(text.config, ""))


def _flat(tree: Mapping[str, object], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


Read = tuple[Plan, int, int]  # a plan, its global batch and the length of its samples; 0 where the text has none


def _megatron(found: LaunchText, workload: Workload, num_devices: int) -> Read:
    return _of_megatron(TextFlags(found.flags), workload, num_devices)


def _bridge(found: LaunchText, workload: Workload, num_devices: int) -> Read:
    return _of_megatron(TextFlags(as_megatron_flags(found.settings)), workload, num_devices)


def _of_megatron(flags: TextFlags, workload: Workload, num_devices: int) -> Read:
    shape = decoder_of(workload, "what is read")
    tp, pp = flags.count("--tensor-model-parallel-size"), flags.count("--pipeline-model-parallel-size")
    cp = flags.count("--context-parallel-size")
    dp = _rest(num_devices, tp * pp * cp)
    comm = {"p2p": "ring", "a2a": "all-to-all"}.get(flags.word("--cp-comm-type"), "gather")
    per_chunk, interleave = flags.count("--num-layers-per-virtual-pipeline-stage", 0), 1
    layers: tuple[int, ...] = ()
    if "interleave" in flags:
        interleave = flags.count("interleave")
    elif per_chunk:
        interleave = shape.num_layers // (pp * per_chunk)
    if chunks := _layout(flags.word("--pipeline-model-parallel-layout")):
        interleave, layers = len(chunks) // pp, chunks
    elif "--decoder-first-pipeline-num-layers" in flags:
        first, last = (
            flags.count("--decoder-first-pipeline-num-layers"),
            flags.count("--decoder-last-pipeline-num-layers"),
        )
        layers = (
            (first, *((shape.num_layers - first - last) // (pp - 2),) * (pp - 2), last) if pp > 2 else (first, last)
        )
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel="--sequence-parallel" in flags,
        context_parallel=cp,
        context_comm_type=comm,
        pipeline_parallel=pp,
        interleave=interleave,
        layers_per_stage=layers,
        data_parallel=dp,
        expert_parallel=flags.count("--expert-model-parallel-size"),
        expert_tensor_parallel=flags.count("--expert-tensor-parallel-size"),
        dispatcher=_megatron_dispatcher(flags),
        zero_stage=_megatron_zero(flags),
        microbatch=flags.count("--micro-batch-size"),
        offload_optimizer="--optimizer-cpu-offload" in flags,
        offload_activations_frac=flags.count("--cpu-offloading-num-layers", 0) / shape.num_layers,
        axis_order=_TP_PP_DP if "--use-tp-pp-dp-mapping" in flags else AXES,
        overlap=Overlap(
            data="--overlap-grad-reduce" in flags or dp * cp == 1,
            tensor="--tp-comm-overlap" in flags,
            context=cp == 1 or comm != "gather",
            expert="--overlap-moe-expert-parallel-comm" in flags,
            pipeline=pp == 1 or (interleave > 1 and "--no-overlap-p2p-communication" not in flags),
        ),
    )
    if layers and layers == layers_per_chunk(shape.num_layers, replace(plan, layers_per_stage=())):
        plan = replace(plan, layers_per_stage=())
    policy, counts = _megatron_recompute(flags, interleave)
    plan = replace(plan, recompute=(policy,), recompute_layers=counts)
    return plan, flags.count("--global-batch-size", 0), flags.count("--seq-length", 0)


def _rest(num_devices: int, others: int) -> int:
    if num_devices % others:
        message = f"the text cuts the model over {others} devices, which must divide the cluster's {num_devices}"
        raise InvalidInput(f"{message}; name the cluster that it is for", "launch_text")
    return num_devices // others


def _cut_experts(workload: Workload, tensor_parallel: int) -> int:
    """The degree that experts are cut by where tensor parallelism cuts them too; 1 where a model has none."""
    return tensor_parallel if decoder_of(workload, "what is read").experts is not None else 1


def _layout(word: str) -> tuple[int, ...]:
    """Layers of each chunk of --pipeline-model-parallel-layout."""
    spelt = re.sub(r"\(([^)]*)\)\*(\d+)", lambda found: found.group(1) * int(found.group(2)), word)
    return tuple(chunk.count("t") for chunk in spelt.split("|")) if word else ()


def _megatron_zero(flags: TextFlags) -> int:
    if "--use-megatron-fsdp" in flags:
        return 3 if flags.word("--data-parallel-sharding-strategy") == "optim_grads_params" else 2
    return int("--use-distributed-optimizer" in flags or flags.word("--optimizer").startswith("dist_"))


def _megatron_dispatcher(flags: TextFlags) -> str:
    kind = flags.word("--moe-token-dispatcher-type") or "alltoall"
    return (flags.word("--moe-flex-dispatcher-backend") or DEEPEP) if kind == "flex" else kind


def _megatron_recompute(flags: TextFlags, interleave: int) -> tuple[str, tuple[int, ...]]:
    """The policy, and of how many layers of a stage it goes; none where of all."""
    granularity = flags.word("--recompute-granularity")
    if granularity == "full":
        is_partial = flags.word("--recompute-method") == "block"
        return "full", (flags.count("--recompute-num-layers") * interleave,) if is_partial else ()
    if granularity == "selective":
        return "selective" if "core_attn" in flags.words("--recompute-modules") else "norm-activation", ()
    return "none", ()


def _torchtitan(found: LaunchText, workload: Workload, num_devices: int) -> Read:
    shape = decoder_of(workload, "what is read")
    if found.words:
        flags = TextFlags(found.flags)
        mode = next(
            (word.partition(":")[2] for word in found.words if word.startswith("activation-checkpoint:")), "none"
        )
        parts = [part.split(",") for part in flags.words("--parallelism.module_fqns_per_model_part")]
        asynchronous = "--compile.enable_async_tensor_parallel" in flags
        counts: tuple[int, ...] = ()
    else:
        keys = {f"--{section}.{key}": (str(value),) for section, of in found.config.items() if isinstance(of, Mapping)
                for key, value in of.items() if not isinstance(value, bool | list)}  # fmt: skip
        flags = TextFlags(keys)
        parts = found.at("parallelism", "module_fqns_per_model_part", default=[])
        mode, option = (
            flags.word("--activation_checkpoint.mode"),
            flags.word("--activation_checkpoint.selective_ac_option"),
        )
        asynchronous = bool(found.at("parallelism", "enable_async_tensor_parallel", default=False))
        pp_degree = flags.count("--parallelism.pipeline_parallel_degree")
        counts = (shape.num_layers // pp_degree // int(option),) if option.isdigit() else ()
        mode = "full" if counts else mode
    tp, cp, pp = (flags.count(f"--parallelism.{axis}_parallel_degree") for axis in ("tensor", "context", "pipeline"))
    shard, copies = (
        flags.count("--parallelism.data_parallel_shard_degree"),
        flags.count("--parallelism.data_parallel_replicate_degree"),
    )
    schedule = flags.word("--parallelism.pipeline_parallel_schedule", "1F1B")
    ep = flags.count("--parallelism.expert_parallel_degree")
    interleave = len(parts) // pp if parts else 1
    chunks = tuple(sum(name.startswith("layers.") for name in part) for part in parts)
    reshard = flags.word("--parallelism.fsdp_reshard_after_forward")
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel=tp > 1,
        context_parallel=cp,
        context_comm_type="ring"
        if flags.word("--parallelism.context_parallel_rotate_method") == "alltoall"
        else "gather",
        pipeline_parallel=pp,
        interleave=interleave,
        schedule={"GPipe": "gpipe", "ZBVZeroBubble": "zb-v"}.get(schedule, "1f1b"),
        layers_per_stage=chunks,
        data_parallel=max(shard, copies),
        expert_parallel=ep,
        expert_tensor_parallel=_cut_experts(workload, tp)
        if ep == 1
        else flags.count("--parallelism.expert_tensor_parallel_degree"),
        dispatcher=flags.word("--parallelism.expert_parallel_comm_backend") or ALL_TO_ALL,
        zero_stage={"always": 3, "never": 2}.get(reshard, 0),
        microbatch=flags.count("--parallelism.pipeline_parallel_microbatch_size")
        if pp > 1
        else flags.count("--training.local_batch_size"),
        recompute=({"selective": "selective-op"}.get(mode, mode),),
        recompute_layers=counts,
        overlap=Overlap(tensor=asynchronous),
    )
    if chunks and chunks == layers_per_chunk(shape.num_layers, replace(plan, layers_per_stage=())):
        plan = replace(plan, layers_per_stage=())
    _rest(num_devices, plan.num_devices)
    return plan, flags.count("--training.global_batch_size", 0), flags.count("--training.seq_len", 0)


def _deepspeed(found: LaunchText, _: Workload, num_devices: int) -> Read:
    flags = TextFlags(found.flags)
    is_megatron = "pretrain_gpt.py" in found.words
    tp, pp = flags.count("--tensor-model-parallel-size"), flags.count("--pipeline-model-parallel-size")
    cp, stage = flags.count("--ds-sequence-parallel-size"), int(found.at("zero_optimization", "stage", default=0))
    recompute: tuple[str, ...] = ("none",)
    if found.at("activation_checkpointing", "partition_activations") is not None:
        recompute = (flags.word("--recompute-granularity", "full"),)
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel="--sequence-parallel" in flags,
        context_parallel=cp,
        context_comm_type="all-to-all" if is_megatron and cp > 1 else "gather",
        pipeline_parallel=pp,
        schedule="zb-h1" if "--enable-zbh1-pipeline" in flags else "1f1b",
        data_parallel=_rest(num_devices, tp * pp * cp),
        expert_parallel=flags.count("--moe-expert-parallel-size"),
        expert_tensor_parallel=tp if "--enable-expert-tensor-parallelism" in flags else 1,
        zero_stage=stage,
        microbatch=int(found.at("train_micro_batch_size_per_gpu", default=1)),
        recompute=recompute,
        offload_optimizer=found.at("zero_optimization", "offload_optimizer") is not None,
        offload_activations_frac=float(bool(found.at("activation_checkpointing", "cpu_checkpointing"))),
        overlap=Overlap(data=bool(found.at("zero_optimization", "overlap_comm", default=True)), pipeline=pp == 1),
    )
    return plan, int(found.at("train_batch_size", default=0)), flags.count("--seq-length", 0)


def _fsdp2(found: LaunchText, workload: Workload, num_devices: int) -> Read:
    flags, section = TextFlags(found.flags), "parallelism_config"
    tp, cp, dp = (int(found.at(section, f"{section}_{axis}_size", default=1)) for axis in ("tp", "cp", "dp_shard"))
    _rest(num_devices, tp * cp * dp)
    microbatch = flags.count("--per-device-batch-size")
    plan = Plan(
        tensor_parallel=tp,
        context_parallel=cp,
        context_comm_type="ring" if found.at(section, f"{section}_cp_comm_strategy") == "alltoall" else "gather",
        data_parallel=dp,
        expert_tensor_parallel=_cut_experts(workload, tp),
        zero_stage=3 if found.at("fsdp_config", "fsdp_reshard_after_forward") else 2,
        microbatch=microbatch,
        recompute=("full" if found.at("fsdp_config", "fsdp_activation_checkpointing") else "none",),
    )
    return plan, microbatch * dp * flags.count("--gradient-accumulation-steps"), flags.count("--sequence-length", 0)


def _maxtext(found: LaunchText, workload: Workload, num_devices: int) -> Read:
    said = TextFlags({key: (value,) for key, value in found.settings.items()})
    tp, cp, pp, ep = (said.count(f"ici_{axis}_parallelism") for axis in ("tensor", "context", "pipeline", "expert"))
    shard, copies = said.count("ici_fsdp_parallelism"), said.count("ici_data_parallelism")
    dp = max(shard, copies) * ep
    _rest(num_devices, tp * cp * pp * dp)
    microbatches = said.count("num_pipeline_microbatches" if pp > 1 else "gradient_accumulation_steps")
    each = float(said.word("per_device_batch_size", "1")) * (tp * cp * pp) / (microbatches if pp > 1 else 1)
    policy = said.word("remat_policy", "none")
    places = {key: value for key, value in found.settings.items() if value in ("device", "offload", "remat")}
    recompute = {"full": "nothing_saveable"}.get(policy, policy)
    if policy == "custom":
        recompute = ",".join(f"{tensor}:{place}" for tensor, place in sorted(places.items()))
    elif policy != "none" and recompute not in checkpoint_policies:
        raise InvalidInput(f"no remat_policy is named {policy!r}", "launch_text")
    plan = Plan(
        tensor_parallel=tp,
        sequence_parallel=tp > 1,
        context_parallel=cp,
        pipeline_parallel=pp,
        schedule="gpipe" if pp > 1 else "1f1b",
        data_parallel=dp,
        expert_parallel=ep,
        expert_tensor_parallel=_cut_experts(workload, tp),
        zero_stage=3 if shard > 1 else 0,
        microbatch=round(each),
        recompute=(recompute,),
        offload_optimizer=said.word("optimizer_memory_host_offload") == "true",
        overlap=Overlap(tensor=True),
    )
    return plan, round(each) * microbatches * dp, said.count("max_target_length", 0)


_READERS: dict[str, Callable[[LaunchText, Workload, int], Read]] = {
    "megatron-lm": _megatron,
    "megatron-bridge": _bridge,
    "torchtitan": _torchtitan,
    "deepspeed": _deepspeed,
    "fsdp2": _fsdp2,
    "maxtext": _maxtext,
}
