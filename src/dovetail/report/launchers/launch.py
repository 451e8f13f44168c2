"""What starts a run with a framework: flags, settings, and what the framework has no words for."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, chip_names, chips_of, pools_of
from dovetail.parallel.plan import Plan
from dovetail.report.labels import counted
from dovetail.workload.lora import targets_of
from dovetail.workload.recorded.captured import Captured
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_HOST_DEVICES = 8  # of one HGX or UBB baseboard, NVIDIA and AMD; said in what is written, for hosts may differ
_TRAY_DEVICES = {"gb200": 4, "gb300": 4}  # NVIDIA GB200 and GB300 NVL72 data sheets: 18 compute trays of 4 GPUs
NUM_TIMED_STEPS = 50  # a stand-in: long enough to time a step after warm-up
LEARNING_RATE = "1.0e-5"  # a stand-in: low enough for any model's few steps
_NOT_GPUS = ("Google", "AWS")  # their chips run other builds: JAX or XLA, and Neuron
CHOICES = {  # of a plan, that every launcher tells its framework or names as missing
    "tensor_parallel", "sequence_parallel", "context_parallel", "context_comm_type", "pipeline_parallel", "interleave",
    "schedule", "data_parallel", "expert_parallel", "expert_tensor_parallel", "zero_stage", "microbatch", "recompute",
    "recompute_layers", "layers_per_stage", "stage_pools", "offload_optimizer", "offload_activations_frac",
    "axis_order", "overlap", "dispatcher", "framework",
}  # fmt: skip
OVERLAPS = {"data", "tensor", "context", "expert", "pipeline"}
_PLAIN = re.compile(r"[\w@%+=:,./-]+")


@dataclass(frozen=True, slots=True)
class Flag:
    """One argument of a command, with its values."""

    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a configuration file, under the sections that lead to it."""

    path: tuple[str, ...]
    value: Any


@dataclass(frozen=True, slots=True)
class Missing:
    """A choice of the plan or a trait of the model that the framework is not told, and why.

    `instead`: what it runs in its place, as fields of the plan, or under `overlap.`, `workload.` or `precision.`; none
    where the model of a step does not know the difference.
    """

    what: str
    why: str
    instead: tuple[tuple[str, Any], ...] = ()

    @property
    def sentence(self) -> str:
        return f"not expressed: {self.what}, because {self.why}"


Part = Flag | Setting | Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """All it takes to start a run.

    `version`: whose flags these are. `command`: word by word; words that begin with $ are for the shell to fill in.
    `config`: the text of the file `config_name` that the command reads; both empty where flags say everything.
    `setup`: lines of shell that come before the command.
    """

    framework: str
    version: str
    command: tuple[Flag, ...]
    environment: tuple[tuple[str, str], ...] = ()
    config_name: str = ""
    config: str = ""
    setup: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(word for flag in self.command for word in flag.words)

    @property
    def comments(self) -> tuple[str, ...]:
        return (f"{self.framework}: {self.version}", *self.notes, *(one.sentence for one in self.missing))


def flag(name: str, *values: object) -> Flag:
    return Flag((name, *(str(value) for value in values)))


def script(launch: Launch) -> str:
    """A shell script that writes the configuration, if any, and starts the run."""
    lines = ["#!/bin/sh", *(f"# {line}" for line in launch.comments)]
    lines += [f"export {name}={value}" for name, value in launch.environment]
    if launch.config:
        lines += [f"cat > {quoted(launch.config_name)} <<'END'", launch.config.rstrip("\n"), "END"]
    lines += launch.setup
    lines.append(" \\\n  ".join(" ".join(quoted(word) for word in one.words) for one in launch.command))
    return "\n".join(lines) + "\n"


def launch_text(launch: Launch) -> str:
    """What a person saves: a script, or a job's TOML, whose comments say how it is started."""
    if not launch.config_name.endswith(".toml"):
        return script(launch)
    started = " ".join(quoted(word) for word in launch.words)
    return "".join(f"# {line}\n" for line in (*launch.comments, f"start it with: {started}")) + "\n" + launch.config


def launch_record(launch: Launch) -> dict[str, Any]:
    """A launch as JSON."""
    return {
        "framework": launch.framework,
        "flags_of": launch.version,
        "environment": dict(launch.environment),
        "command": list(launch.words),
        "config_name": launch.config_name,
        "config": launch.config,
        "setup": list(launch.setup),
        "not_expressed": [{"what": one.what, "why": one.why} for one in launch.missing],
        "notes": list(launch.notes),
    }


def quoted(word: str) -> str:
    """`word` as a shell reads it whole; what begins with $ is still filled in."""
    if _PLAIN.fullmatch(word):
        return word
    if word.startswith("$") and re.fullmatch(r"\$\w+", word):
        return f'"{word}"'
    return "'" + word.replace("'", "'\"'\"'") + "'"


def parted(parts: Iterable[Part]) -> tuple[tuple[Flag, ...], tuple[Setting, ...], tuple[Missing, ...]]:
    """Flags, settings and what is missing, each in the order they came."""
    whole = tuple(parts)
    flags = tuple(part for part in whole if isinstance(part, Flag))
    settings = tuple(part for part in whole if isinstance(part, Setting))
    return flags, settings, tuple(dict.fromkeys(part for part in whole if isinstance(part, Missing)))


def nested(settings: Iterable[Setting]) -> dict[str, Any]:
    """Settings as the tree of sections they describe."""
    tree: dict[str, Any] = {}
    for setting in settings:
        section = tree
        for key in setting.path[:-1]:
            section = section.setdefault(key, {})
        assert setting.path[-1] not in section, f"{'.'.join(setting.path)} is set twice"
        section[setting.path[-1]] = setting.value
    return tree


def json_text(settings: Iterable[Setting]) -> str:
    return json.dumps(nested(settings), indent=2) + "\n"


def toml_text(settings: Iterable[Setting]) -> str:
    """Settings as TOML: a table for each section, in the order they come."""
    return "\n".join(_toml_tables(nested(settings), ())) + "\n"


def yaml_text(tree: dict[str, Any], indent: str = "") -> str:
    """Sections and values as YAML; JSON's scalars are YAML's too."""
    lines = []
    for key, value in tree.items():
        if isinstance(value, dict):
            lines.append(f"{indent}{key}:\n{yaml_text(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)


def _toml_tables(tree: dict[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    values = {key: value for key, value in tree.items() if not isinstance(value, dict)}
    if values and path:
        yield f"[{'.'.join(path)}]"
    for key, value in values.items():
        yield f"{key} = {_toml_value(value)}"
    if values:
        yield ""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _toml_tables(value, (*path, key))


def _toml_value(value: Any) -> str:
    """JSON's numbers, strings, booleans and lists are TOML's too."""
    return json.dumps(value)


def hosts(cluster: AnyCluster) -> tuple[int, int]:
    """Hosts, and devices on each, of which all must have as many."""
    found = [_hosts(part) for part in pools_of(cluster)]
    if len({per_host for _, per_host in found}) > 1:
        message = f"hosts of {' and '.join(str(per_host) for _, per_host in found)} devices"
        raise InvalidInput(f"{message} cannot be started together; launchers want as many on each")
    return sum(num_hosts for num_hosts, _ in found), found[0][1]


def _hosts(cluster: Cluster) -> tuple[int, int]:
    """Of equal devices: the part of the innermost dimension that one baseboard or tray holds.

    PCIe does not leave a host, so a dimension of that name further out is inside it too.
    """
    inner, *outer = cluster.topology.dimensions
    innermost = inner.num_devices * math.prod(one.num_devices for one in outer if one.name == "pcie")
    most = min(innermost, _TRAY_DEVICES.get(cluster.chip.name, MAX_HOST_DEVICES))
    per_host = next(count for count in range(most, 0, -1) if innermost % count == 0)
    return cluster.num_devices // per_host, per_host


def host_note(cluster: AnyCluster) -> str:
    num_hosts, per_host = hosts(cluster)
    chips = " or ".join(chip.name for chip in chips_of(cluster))
    return f"for {counted(num_hosts, 'host')} of {per_host} {chips}; change these where hosts differ"


def torchrun(cluster: AnyCluster) -> tuple[Flag, ...]:
    num_hosts, per_host = hosts(cluster)
    flags = (flag("torchrun", "--nnodes", num_hosts, "--nproc-per-node", per_host),)
    if num_hosts == 1:
        return flags
    rank = flag("--node-rank", "$NODE_RANK", "--master-addr", "$MASTER_ADDR", "--master-port", "$MASTER_PORT")
    return (*flags, rank)


def decoder_of(workload: Workload, framework: str) -> Transformer:
    """The decoder to train, or an error that says what the model is instead."""
    shape = workload.model.architecture
    if isinstance(shape, Transformer) and shape.is_causal and not shape.num_encoder_layers and shape.head == "lm":
        return shape
    what = "captured, which has no sizes by name" if isinstance(shape, Captured) else "not a transformer"
    if isinstance(shape, Transformer):
        what = "an encoder and a decoder" if shape.num_encoder_layers else "an encoder"
    raise NotModelled(f"launching {framework} is written for decoders, and {shape.name} is {what}; name a decoder")


def check_chip(cluster: AnyCluster, framework: str) -> None:
    for chip in chips_of(cluster):
        if chip.vendor in _NOT_GPUS:
            message = f"{framework} does not run on chips of {chip.vendor} such as {chip.name}"
            raise InvalidInput(f"{message}; name a cluster of GPUs")
    if len({chip.vendor for chip in chips_of(cluster)}) > 1:
        message = f"{framework} does not run on chips of several vendors, {chip_names(cluster)}"
        raise InvalidInput(f"{message}, in one job; name a cluster of one vendor's")


def check_full_training(workload: Workload, framework: str) -> None:
    """Raises where a workload has adapters, of a framework that is not told of any."""
    if workload.lora.is_used:
        message = f"launching {framework} with low-rank adapters is not written"
        raise NotModelled(f"{message}; take megatron-bridge or fsdp2", "lora")


def adapter_flags(workload: Workload) -> Iterator[Flag]:
    """Adapters as words for one's own script: the rank and modules of peft.LoraConfig."""
    if workload.lora.is_used:
        yield flag("--lora-rank", workload.lora.rank)
        yield flag("--lora-target-modules", ",".join(targets_of(workload.lora, workload.model.architecture)))


def check_devices(plan: Plan, cluster: AnyCluster) -> None:
    if plan.num_devices != cluster.num_devices:
        raise InvalidInput(
            f"the plan is for {plan.num_devices:,} devices, and there are {cluster.num_devices:,}; make them equal"
        )


def unsaid(value: DataclassInstance, said: Collection[str], why: str) -> Iterator[Missing]:
    """What `value` chooses otherwise than its defaults under names that are not in `said`: nothing goes silently."""
    for one in fields(value):
        chosen = getattr(value, one.name)
        if one.name not in said and chosen != _default(one):
            yield Missing(f"{one.name} {_shown(chosen)}".rstrip(), why)


def unknown_choices(plan: Plan, framework: str) -> Iterator[Missing]:
    """Choices that a plan has learnt to make since launchers were written."""
    why = f"{framework} has no switch for it that launchers know of"
    yield from unsaid(plan, CHOICES, why)
    yield from (Missing(f"overlap.{one.what}", why) for one in unsaid(plan.overlap, OVERLAPS, why))


def _default(one: Field[Any]) -> object:
    if one.default is not MISSING:
        return one.default
    return one.default_factory() if one.default_factory is not MISSING else MISSING


def _shown(value: object) -> str:
    if is_dataclass(value):
        return ""
    if isinstance(value, tuple):
        return ", ".join(str(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)
