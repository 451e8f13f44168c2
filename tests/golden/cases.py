"""What goldens are of: a table of questions by topic, each answered in this process by the Python interface.

To add one, add an entry to a table below and run `make bless`. A case keeps its name when options or keys are renamed,
as its recorded figures do: they are named by the paths that `--json` had when the case was first recorded, and what is
called otherwise since stands in benchmarks/data/renames.json.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.hardware.clusters import ClusterEntry

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

Record = dict[str, Any]
Spec = dict[str, Any]

# Of a simulated step: every figure but those that the plan or the question repeat.
STEP_LABELS = (
    "feasible", "step_s", "samples_per_s", "mfu_frac", "hfu_frac", "dropped_frac", "energy_j", "mean_w", "model_flop",
    "hardware_flop", "num_parameters", "num_microbatches", "time.*", "memory.need_bytes", "memory.limit_bytes",
    "memory.reserve_bytes", "memory.runtime_bytes", "memory.host_*", "memory.stages.*.total_bytes",
    "elasticities.*.gain_frac", "goodput.*", "profile.num_*", "profile.*_s",
    "lacking", "need_bytes", "excess_bytes", "stage", "levers.0.*",
)  # fmt: skip
NETWORK_LABELS = (
    "engine", "time_s", "closed_s", "bound_s", "bound_frac", "endpoint_s", "num_*", "bus_bytes_per_s", "dimensions.*",
    "critical_path.0.*", "points.*",
)  # fmt: skip
PLAN_LABELS = (
    "feasible", "num_*", "gap_frac", "proof.*", "best.step_s", "best.energy_j", "best.memory.need_bytes", "best.plan.*",
    "ranking.*.step_s", "ranking.*.figure", "ranking.*.behind_frac", "ranking.*.slowdown_frac", "need_bytes",
    "limit_bytes", "least.*",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question to a command, and which figures of its answer are kept, by patterns of their paths; `*` for all.

    Entries of a list of what there is (`is_catalogue`) are recorded by their names and not by their places.
    """

    topic: str
    name: str
    command: str
    answer: Callable[[], Record]
    labels: tuple[str, ...] = ("*",)
    is_catalogue: bool = False


def cases() -> Iterator[Case]:
    """Every case, topic by topic."""
    for name, spec in steps():
        yield _case("steps", name, "simulate", {"": spec}, STEP_LABELS)
    for name, given in PLANS.items():
        yield _case("plans", name, "plan", given, PLAN_LABELS)
    for name, (command, given) in SEARCHES.items():
        yield _case("searches", name, command, given)
    for name, given in networks():
        yield _case("networks", name, "network", given, NETWORK_LABELS)
    for name, given in operators():
        yield _case("operators", name, "op", given)
    for name, given in SCHEDULES.items():
        yield _case("schedules", name, "schedule", given)
    for name, line in COMMANDS.items():
        command = line.split()[0].strip("-")
        is_catalogue = name in CATALOGUES
        answer = partial(_printed, line)
        yield Case(topic="commands", name=name, command=command, answer=answer, is_catalogue=is_catalogue)


def _case(topic: str, name: str, command: str, given: Record, labels: tuple[str, ...] = ("*",)) -> Case:
    return Case(topic=topic, name=name, command=command, answer=partial(_called, command, given), labels=labels)


def _called(call: str, given: dict[str, Any]) -> Record:
    """What a call of the package answers; what has no name goes first, several as a tuple."""
    import dovetail as dv

    first = given.get("", ())
    first = first if isinstance(first, tuple) else (first,)
    record: Record = getattr(dv, call)(*first, **{key: value for key, value in given.items() if key}).record
    return json.loads(json.dumps(record))  # type: ignore[no-any-return]


def _printed(command: str) -> Record:
    """The JSON and the exit code of a command, run from a folder that has the examples and is thrown away."""
    from dovetail.cli import main

    out, err, here, code = io.StringIO(), io.StringIO(), os.getcwd(), 0
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(EXAMPLES, Path(folder) / "examples")
        os.chdir(folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                # parts of a command that `&&` joins run one after the other; the last one's answer counts
                for words in command.split(" && "):
                    out.truncate(out.seek(0))
                    code = main([*words.split(), "--json"])
        finally:
            os.chdir(here)
    answer = json.loads(out.getvalue())
    return {"exit_code": code, **(answer if isinstance(answer, dict) else {"rows": answer})}


# --- steps ------------------------------------------------------------------------------------------------------------

SCHEDULED = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe")


def _spec(model: str, cluster: Any, plan: Any, batch: int = 0, **workload: Any) -> Spec:
    batched = {"global_batch": batch} if batch else {}
    return {"workload": {"model": model, **batched, **workload}, "cluster": cluster, "plan": plan}


def _plan(**plan: Any) -> Spec:
    return {"zero_stage": 1, **plan}


# A model, a cluster and the degrees that every pipeline schedule is tried with.
PIPELINED: dict[str, Spec] = {
    "llama3-8b h100x64": _spec("llama3-8b", "h100x64", _plan(tp=2, pp=4), 128, seq=4096),
    "llama3-70b h100x128": _spec("llama3-70b", "h100x128", _plan(tp=8, sp=True, pp=4, recompute="full"), 64),
    "gpt3-175b a100x128": _spec(
        "gpt3-175b", "a100x128", _plan(tp=8, sp=True, pp=8, recompute="selective"), 64, attention="unfused"
    ),
    "mixtral-8x7b h200x64": _spec("mixtral-8x7b", "h200x64", _plan(pp=4, ep=8), 128, seq=4096),
    "deepseek-v3 h200x512": _spec("deepseek-v3", "h200x512", _plan(pp=8, ep=64, recompute="full"), 1024),
    "llama2-7b tpu-v4x64": _spec("llama2-7b", "tpu-v4-podx64", _plan(tp=4, pp=4), 32),
    "gpt2-1.5b phaze-flat-1024x64": _spec("gpt2-1.5b", "phaze-flat-1024x64", _plan(pp=8), 256),
    "qwen2.5-72b gb200x144": _spec("qwen2.5-72b", "gb200-nvl72x144", _plan(tp=4, sp=True, pp=4), 72),
    "llama2-70b mi300x64": _spec("llama2-70b", "mi300x-nodesx64", _plan(tp=4, pp=4, recompute="full"), 64),
    "opt-175b trn2x64": _spec("opt-175b", "trn2x64", _plan(tp=16, sp=True, pp=4, recompute="full"), 16, seq=1024),
    "llama3-70b gaudi3x64": _spec("llama3-70b", "gaudi3-nodesx64", _plan(tp=8, pp=4, recompute="full"), 32),
    "palm-540b tpu-v5px512": _spec("palm-540b", "tpu-v5p-podx512", _plan(tp=8, sp=True, pp=16, recompute="full"), 128),
}

LLAMA8 = ("llama3-8b", "h100x64")
LLAMA70 = ("llama3-70b", "h100x128")


def steps() -> Iterator[tuple[str, Spec]]:
    for (name, spec), schedule in product(PIPELINED.items(), SCHEDULED):
        more = {"interleave": 2} if schedule == "interleaved" else {}
        yield f"{schedule}, {name}", {**spec, "plan": {**spec["plan"], "schedule": schedule, **more}}
    yield from _contexts()
    yield from _experts()
    yield from _memory_savers()
    yield from _precisions()
    yield from _catalogues()
    yield from OTHER_STEPS.items()


def _contexts() -> Iterator[tuple[str, Spec]]:
    for exchange, cp in product(("gather", "ring", "all-to-all"), (2, 4, 8)):
        plan = _plan(cp=cp, context_comm_type=exchange, recompute="full")
        yield f"cp {cp} by {exchange}, llama3-8b", _spec(*LLAMA8, plan, 32, seq=32768)
        plan = _plan(tp=1 if cp == 8 else 2, pp=8, cp=cp, context_comm_type=exchange, recompute="full")
        yield f"cp {cp} by {exchange}, llama3-70b", _spec(*LLAMA70, plan, 32, seq=16384)
    for exchange in ("gather", "ring", "all-to-all"):
        plan = _plan(tp=2, cp=4, context_comm_type=exchange, recompute="full", overlap={"context": False})
        yield f"cp 4 by {exchange} without overlap", _spec(*LLAMA8, plan, 16, seq=32768)


ROUTINGS: dict[str, Spec] = {
    "even": {},
    "imbalance 1.3": {"expert_imbalance": 1.3},
    "capacity 1.25": {"capacity_factor": 1.25},
    "capacity 0.8": {"capacity_factor": 0.8},
    "padded to 1.25, imbalance 1.5": {"expert_imbalance": 1.5, "capacity_factor": 1.25, "pads_to_capacity": True},
}


def _experts() -> Iterator[tuple[str, Spec]]:
    for ep in (1, 2, 4, 8):
        yield f"ep {ep}, mixtral", _spec("mixtral-8x7b", "h100x64", _plan(tp=2, pp=4, ep=ep), 256, seq=4096)
    for name, routing in ROUTINGS.items():
        mixtral = _spec("mixtral-8x7b", "h100x64", _plan(pp=4, ep=8), 256, seq=4096, routing=routing)
        yield f"routing {name}, mixtral", mixtral
        plan = _plan(tp=2, sp=True, pp=16, ep=32, expert_tensor_parallel=1, recompute="full")
        yield f"routing {name}, deepseek-v3", _spec("deepseek-v3", "h100x512", plan, 512, routing=routing)
    for once, hidden in product((False, True), repeat=2):
        words = f"{'sent once' if once else 'sent to each expert'}, {'overlapped' if hidden else 'exposed'}"
        plan = _plan(pp=8, ep=64, deduplicated_dispatch=once, recompute="full", overlap={"expert": hidden})
        yield f"deepseek-v3 rows {words}", _spec("deepseek-v3", "h100x512", plan, 1024)
    for etp in (1, 4):
        plan = _plan(tp=4, sp=True, pp=2, ep=4, expert_tensor_parallel=etp)
        yield f"expert tensor parallel {etp}", _spec("mixtral-8x7b", "h200x64", plan, 128, seq=4096)


def _memory_savers() -> Iterator[tuple[str, Spec]]:
    degrees = {"dp": {}, "tp 4": {"tp": 4}, "tp 2 pp 2": {"tp": 2, "pp": 2}}
    for stage, (name, given) in product(range(4), degrees.items()):
        plan = {**given, "zero_stage": stage, "recompute": "full"}
        if name == "dp" and not stage:
            continue  # holds no whole model of this size
        yield f"zero {stage}, llama3-8b, {name}", _spec("llama3-8b", "h200x64", plan, 128)
        yield f"zero {stage}, llama2-7b on TPUs, {name}", _spec("llama2-7b", "tpu-v5p-podx64", plan, 128)
    for policy in ("none", "light", "selective", "alternate", "full"):
        plan = _plan(tp=4, sp=True, pp=4, recompute=policy)
        yield f"recompute {policy}, llama3-70b", _spec("llama3-70b", "h200x64", plan, 32)
        plan = _plan(tp=2, pp=2, recompute=policy)
        yield f"recompute {policy}, gpt2-8.3b unfused", _spec("gpt2-8.3b", "a100x32", plan, 32, attention="unfused")
    for sp, tp in product((False, True), (2, 4, 8)):
        plan = _plan(tp=tp, sp=sp, recompute="selective")
        yield f"tp {tp} {'with' if sp else 'without'} sp", _spec("llama3-8b", "h100x32", plan, 32)
    offloads: dict[str, Spec] = {
        "optimizer": {"offload_optimizer": True},
        "optimizer, zero 3": {"offload_optimizer": True, "zero_stage": 3},
        "a quarter of activations": {"offload_activations_frac": 0.25},
        "all activations": {"offload_activations_frac": 1.0},
        "optimizer and half of activations": {"offload_optimizer": True, "offload_activations_frac": 0.5},
        "activations without overlap": {"offload_activations_frac": 0.5, "overlap": {"host": False}},
    }
    for name, given in offloads.items():
        yield f"offload {name}, dgx-h100", _spec("llama3-8b", "h100x16", _plan(tp=2, **given), 32)
        yield f"offload {name}, gb200", _spec("llama3-70b", "gb200-nvl72x72", _plan(tp=8, sp=True, **given), 72)


def _precisions() -> Iterator[tuple[str, Spec]]:
    for dtype in ("fp32", "tf32", "bf16", "fp16", "fp8"):
        plan = _plan(tp=4, sp=True, recompute="selective")
        yield f"computed in {dtype}, h100", _spec("llama3-8b", "h100x16", plan, 32, precision={"compute": dtype})
    for dtype in ("bf16", "fp8", "fp4"):
        plan = _plan(tp=4, sp=True, pp=2)
        yield f"computed in {dtype}, b200", _spec("llama3-70b", "b200x64", plan, 64, precision={"compute": dtype})
    precisions: dict[str, Spec] = {
        "fp8 with current scales": {"compute": "fp8", "current_scaling": True},
        "fp8 with weights in fp32": {"compute": "fp8", "weights": "fp32"},
        "gradients in bf16": {"gradients": "bf16"},
        "moments in bf16": {"moments": "bf16"},
        "no master weights": {"master_weights": False},
        "standing gradients": {"persistent_gradients": True},
        "gradients added apart": {"unfused_accumulation": True},
        "weights cast at use": {"casts_at_use": True},
        "compute gradients": {"compute_gradients": True},
        "loss in bf16": {"loss": "bf16"},
        "sgd": {"optimizer": "sgd"},
        "sgd with momentum": {"optimizer": "sgd", "momentum": True},
    }
    for name, precision in precisions.items():
        yield f"precision: {name}", _spec("llama3-8b", "h100x32", _plan(tp=4, sp=True), 32, precision=precision)
    for kernels, attention in product(("eager", "classic", "fused", "compiled"), ("flash", "flash-1", "unfused")):
        plan = {"zero_stage": 2, "tp": 2, "microbatch": 2, "recompute": "full"}
        name = f"{kernels} kernels, {attention} attention"
        yield name, _spec("llama2-7b", "a100x16", plan, 64, kernels=kernels, attention=attention)
    for framework in ("plain", "megatron", "deepspeed", "torchtitan"):
        plan = _plan(tp=2, pp=2, framework=framework)
        yield f"framework {framework}", _spec("llama3-8b", "h100x32", plan, 64, kernels="eager")


FEW_BYTES = 2 * 2**40  # clusters with less memory than this need more than ZeRO 1 to hold 7 billion parameters
PUBLISHED = {
    "llama3-405b-128k": ("llama3-405b", "llama3-grandtetonx16384", 128, 131072),
    "llama3-405b-8k": ("llama3-405b", "llama3-grandtetonx8192", 1024, 8192),
    "megatron-175b": ("megatron-175b", "selenex64", 64, 2048),
    "megatron-1t": ("megatron-1t", "selenex512", 512, 2048),
    "megatron-22b": ("megatron-22b", "selenex8", 4, 2048),
    "megatron-530b": ("megatron-530b", "selenex280", 280, 2048),
    "phaze-bert-large": ("bert-large", "phaze-flat-1024x1024", 4096, 512),
    "phaze-gpt2-2.5b": ("gpt2-2.5b", "phaze-flat-1024x1024", 4096, 1024),
    "phaze-llama2-7b": ("llama2-7b", "phaze-flat-1024x1024", 4096, 2048),
    "phaze-opt-350m": ("opt-350m", "phaze-flat-1024x1020", 4080, 2048),
    "tensor-8": ("llama3-8b", "h100x64", 64, 8192),
}


def _num_devices(entry: ClusterEntry) -> int:
    """64, or as many as the family is known for where those are fewer; a whole rack where a rack has more."""
    known = entry.build(entry.default_devices).topology.dimensions
    rack = known[0].num_devices if len(known) > 1 else 1
    return max(min(64, entry.default_devices), rack)


@cache  # asked for twice, and it builds every model
def _catalogues() -> tuple[tuple[str, Spec], ...]:
    return tuple(_entries())


def _entries() -> Iterator[tuple[str, Spec]]:
    import dovetail as dv
    from dovetail.hardware.clusters import clusters

    for entry in dv.models().record["models"]:
        name, big = entry["name"], entry["num_parameters"] > 20e9
        plan = {"tp": 8, "pp": 8, "zero_stage": 1, "recompute": "full"} if big else "zero2"
        images = entry["sample"] != "tokens"
        yield f"model {name}", _spec(name, "h200x512" if big else "h200x8", plan, 512 if big or images else 64)
    for name, family in clusters.items():
        devices = _num_devices(family)
        chip = family.build(devices).chip
        is_small = devices * chip.usable_bytes < FEW_BYTES
        plan = {"zero_stage": 3, "recompute": "full"} if is_small else _plan(tp=2, recompute="selective")
        dtype = {} if "bf16" in dict(chip.tensor.rates) else {"precision": {"compute": chip.tensor.rates[0][0]}}
        yield f"cluster {name}", _spec("llama2-7b", {"name": name, "devices": devices}, plan, 2 * devices, **dtype)
    for name, (model, cluster, batch, seq) in PUBLISHED.items():
        yield f"plan {name}", _spec(model, cluster, name, batch, seq=seq)


def _pools(*pools: Any, bandwidth: str = "25 GB/s") -> Spec:
    return {"parts": list(pools), "between": {"bandwidth": bandwidth, "latency": "8 us"}}


H100_A100 = _pools({"name": "dgx-h100", "devices": 64}, {"name": "dgx-a100", "devices": 64})
THREE = _pools(
    {"name": "dgx-h200", "devices": 32}, {"name": "dgx-h100", "devices": 32}, {"name": "dgx-a100", "devices": 64}
)
_POOLED = {"tp": 8, "sp": True, "zero_stage": 1, "recompute": "full"}
_FAILING = {"failures": "llama3-405b", "restart": "15 min", "checkpoint": {"storage": "2 TB/s"}}
_OWN = {
    "name": "own",
    "chip": {"base": "h100-sxm", "name": "h100-large", "hbm": {"capacity": "141 GiB", "bandwidth": "4.8 TB/s"}},
    "topology": [
        {"name": "nvlink", "kind": "switch", "devices": 8, "bandwidth": "450 GB/s", "latency": "2 us"},
        {"name": "rail", "kind": "fat-tree", "devices": 8, "bandwidth": "400 Gb/s", "latency": "5 us",
         "oversubscription": 4},
    ],
}  # fmt: skip


def _own_network(kind: str, devices: int = 16) -> Spec:
    link = {"name": "links", "kind": kind, "devices": devices, "bandwidth": "100 GB/s", "latency": "1 us"}
    return {"name": kind, "chip": "h100-sxm", "topology": [link]}


OTHER_STEPS: dict[str, Spec] = {
    # pools of several kinds of device
    "pools h100 and a100": _spec("llama3-70b", H100_A100, _plan(**_POOLED, pp=4), 128),
    "pools h100 and a100, layers by stage": _spec(
        "llama3-70b", H100_A100, _plan(**_POOLED, pp=4, layers_per_stage=[29, 29, 11, 11]), 128
    ),
    "pools h100 and a100, the slower first": _spec(
        "llama3-70b", H100_A100,
        _plan(**_POOLED, pp=4, stage_pools=[1, 1, 0, 0], layers_per_stage=[11, 11, 29, 29]), 128,
    ),
    "pools h100 and a100, interleaved": _spec(
        "llama3-70b", H100_A100, _plan(**_POOLED, pp=4, interleave=2), 128
    ),
    "pools h100 and a100, gpipe": _spec("llama3-70b", H100_A100, _plan(**_POOLED, pp=4, schedule="gpipe"), 128),
    "pools h100 and a100, zb-h1": _spec("llama3-70b", H100_A100, _plan(**_POOLED, pp=4, schedule="zb-h1"), 128),
    "pools h100 and a100, zb-v": _spec("llama3-70b", H100_A100, _plan(**_POOLED, pp=4, schedule="zb-v"), 128),
    "pools h100 and a100, cp 2": _spec(
        "llama3-70b", H100_A100, {**_plan(**_POOLED, pp=4), "tp": 4, "cp": 2}, 128
    ),
    "pools of three, llama3-70b": _spec("llama3-70b", THREE, _plan(**_POOLED, pp=4), 128),
    "pools of three, mixtral": _spec(
        "mixtral-8x7b", THREE, _plan(tp=2, pp=4, ep=8, recompute="full"), 256, seq=4096
    ),
    "pools joined by a slow link": _spec(
        "llama3-70b",
        _pools({"name": "dgx-h100", "devices": 64}, {"name": "dgx-a100", "devices": 64}, bandwidth="1 GB/s"),
        _plan(**_POOLED, pp=4), 128,
    ),
    # recompute and layers stage by stage
    "recompute by stage": _spec(
        "llama3-70b", "h100x64",
        _plan(tp=8, sp=True, pp=4, recompute=["full", "selective", "light", "none"]), 32,
    ),
    "recompute of some layers": _spec(
        "llama3-70b", "h100x64", _plan(tp=8, sp=True, pp=4, recompute="full", recompute_layers=[12, 8, 4, 0]), 32
    ),
    "recompute by stage of some layers": _spec(
        "llama3-70b", "h100x64",
        _plan(tp=8, sp=True, pp=4, recompute=["full", "light", "light", "none"], recompute_layers=[9, 7, 5, 0]), 32,
    ),
    "layers by stage": _spec(
        "llama3-70b", "h100x64", _plan(tp=8, sp=True, pp=4, recompute="full", layers_per_stage=[21, 21, 20, 18]), 32
    ),
    "layers by stage, interleaved": _spec(
        "llama3-8b", "h100x64", _plan(tp=4, pp=2, interleave=2, layers_per_stage=[9, 8, 8, 7]), 64
    ),
    # what overlaps and where axes lie
    **{
        f"overlap {name}": _spec("llama3-70b", "h100x128", _plan(tp=8, sp=True, pp=4, overlap=overlap), 64)
        for name, overlap in {
            "of nothing": {"data": False, "tensor": False, "pipeline": False},
            "of tensor parallelism": {"tensor": True},
            "not of data parallelism": {"data": False},
            "not of the pipeline": {"pipeline": False},
        }.items()
    },
    "axes tp-cp-pp-dp": _spec(
        "llama3-8b", "h100x64", _plan(tp=2, pp=4, axis_order=["tp", "cp", "pp", "dp"]), 64
    ),
    "axes dp-tp-cp-pp": _spec(
        "llama3-8b", "h100x64", _plan(tp=2, pp=4, axis_order=["dp", "tp", "cp", "pp"]), 64
    ),
    "microbatch 4": _spec("llama3-8b", "h200x32", _plan(tp=4, sp=True, microbatch=4, recompute="selective"), 64),
    "expert axis of deepseek-v3 with dualpipe and routing overlap": _spec(
        "deepseek-v3", "h200x512",
        _plan(
            pp=8, ep=64, schedule="dualpipe", recompute="full", deduplicated_dispatch=True, overlap={"expert": True}
        ),
        1024,
    ),
    # clusters of one's own, failures, engines of collectives
    "cluster written out": _spec("llama3-8b", _OWN, "zero3", 128),
    **{
        f"network {kind}": _spec("llama3-8b", _own_network(kind), _plan(tp=4), 32)
        for kind in ("ring", "bidirectional-ring", "mesh", "switch", "fully-connected", "fat-tree")
    },
    **{
        f"endpoint {name}": _spec(
            "llama3-8b", {"name": "dgx-h100", "devices": 32, "endpoint": name}, _plan(tp=4, sp=True), 32
        )
        for name in ("sm", "dma", "ace")
    },
    "failures": _spec(
        "llama3-405b", {"name": "llama3-grandteton", "devices": 8192, "reliability": _FAILING}, "llama3-405b-8k", 1024
    ),
    "failures and slow devices": _spec(
        "llama3-70b",
        {"name": "dgx-h100", "devices": 512, "reliability": {
            "failures": {"mtbf": "150 d", "devices": 8}, "restart": "10 min",
            "checkpoint": {"device_storage": "1 GB/s", "asynchronous": True, "interval": "100 steps"},
            "slow_devices": {"speed": 0.9, "count": 2}}},
        _plan(tp=8, sp=True, pp=4), 512,
    ),
    "clusters calibrated": _spec(
        "llama3-8b",
        {"base": "dgx-h100", "devices": 64, "calibration": {"compute": 0.93, "links": 0.85}}, _plan(tp=4, sp=True), 64,
    ),
    # models from elsewhere
    "captured decoder": _spec(str(EXAMPLES / "capture" / "decoder.json"), "h100x64", "zero1", 128),
    "captured decoder, pipeline": _spec(
        str(EXAMPLES / "capture" / "decoder.json"), "h100x64", _plan(pp=2, microbatch=2), 128
    ),
    "captured decoder, zero 3": _spec(
        str(EXAMPLES / "capture" / "decoder.json"), "a100x16", {"zero_stage": 3, "recompute": "full"}, 64
    ),
    "configuration of llama2-13b": _spec(str(EXAMPLES / "llama2-13b.json"), "a100x64", _plan(tp=4, pp=2), 64),
    "model over a base": _spec(
        {"base": "llama3-70b", "name": "half", "num_layers": 40}, "h100x64", _plan(tp=8, sp=True), 64  # type: ignore[arg-type]
    ),
    "profile": {
        **_spec("llama3-8b", "h200x8", _plan(tp=4), 8, seq=4096),
        "profile": {"file": str(EXAMPLES / "llama-2-layers-h200.json.gz"), "chip": "h200-sxm"},
    },
    # what does not fit, with what would make it
    "too large for a device": _spec("llama3-70b", "h100x64", "zero1", 64),
    "too large for the host": _spec(
        "llama3-405b", "h100x8", _plan(tp=8, sp=True, offload_optimizer=True, recompute="full"), 8
    ),
    "too large for a stage": _spec("llama3-70b", "h100x64", _plan(tp=4, pp=4), 64),
}  # fmt: skip

# --- searches ---------------------------------------------------------------------------------------------------------


def _open(model: str, cluster: Any, batch: int, **workload: Any) -> Spec:
    """A spec whose plan is to be found."""
    return {key: value for key, value in _spec(model, cluster, "", batch, **workload).items() if key != "plan"}


PLANS: dict[str, Record] = {
    "llama3-8b h100x8": {"model": "llama3-8b", "cluster": "h100x8", "global_batch": 16, "fix": ["tp=8"]},
    "llama3-8b h100x16 by energy": {
        "model": "llama3-8b", "cluster": "h100x16", "global_batch": 16, "objective": "tokens/J", "fix": ["tp=2,4"],
    },
    "llama3-8b h100x16 by headroom": {
        "model": "llama3-8b", "cluster": "h100x16", "global_batch": 16, "objective": "headroom", "fix": ["tp=4"],
    },
    "llama3-8b h100x16 by cost": {
        "model": "llama3-8b", "cluster": "h100x16", "global_batch": 16, "objective": "tokens/s/$", "fix": ["tp=4"],
    },
    "gpt2-1.5b a100x16 with even stages": {
        "model": "gpt2-1.5b", "cluster": "a100x16", "global_batch": 32, "forbid": ["uneven"], "fix": ["zero_stage=1"],
    },
    "gpt2-1.5b a100x8 with stages that differ": {
        "model": "gpt2-1.5b", "cluster": "a100x8", "global_batch": 16, "fix": ["pp=4", "microbatch=1"],
    },
    "llama2-7b tpu-v4x16": {
        "model": "llama2-7b", "cluster": "tpu-v4-podx16", "global_batch": 32, "fix": ["recompute=full", "pp=1,2"],
    },
    "mixtral h100x32": {
        "model": "mixtral-8x7b", "cluster": "h100x32", "global_batch": 64, "seq": 4096,
        "fix": ["ep=8", "tp=1,2", "microbatch=1"], "forbid": ["uneven"],
    },
    "context parallel by all exchanges": {
        "": {**_open("llama3-8b", "h100x16", 16, seq=32768), "space": {
            "cp": [4], "tp": [1, 2], "context_comm_type": ["gather", "ring", "all-to-all"], "microbatch": 1,
            "recompute": "full", "stages": "even"}},
    },
    "every schedule": {
        "": {**_open("llama3-8b", "h100x16", 32, seq=4096), "space": {
            "schedule": list(SCHEDULED), "pp": 4, "tp": [1, 2], "stages": "even", "microbatch": 1,
            "zero_stage": 1}},
    },
    "offload": {
        "": {**_open("llama3-70b", "h100x16", 16), "space": {
            "tp": 8, "offload_optimizer": [False, True], "offload_activations_frac": [0, 0.5], "microbatch": 1,
            "zero_stage": 1, "recompute": ["none", "full"]}},
    },
    "pools": {
        "": {**_open("llama3-70b", _pools("dgx-h100x16", "dgx-a100x16"), 32), "space": {
            "tp": 8, "sp": True, "cp": 1, "interleave": 1, "microbatch": 1, "zero_stage": 1}},
    },
    "resnet-18 on a torus": {
        "model": "resnet-18", "cluster": "ace-torusx16", "global_batch": 128, "compute": "fp16",
        "fix": ["pp=1", "microbatch=8"],
    },
    "nothing fits": {"model": "llama3-70b", "cluster": "h100x8", "global_batch": 8},
    "in fp8": {"model": "llama3-8b", "cluster": "h100x8", "global_batch": 16, "compute": "fp8", "fix": ["tp=4"]},
}  # fmt: skip

_CHIP = {
    "base": "tpuv4-like", "num_tensor": [2, 4], "num_rows": [128], "num_cols": [128], "num_vector": [2],
    "num_lanes": [128], "sram_mib": [64, 128], "hbm_stacks": [2, 4], "stack_gib": [16],
}  # fmt: skip
_JOINT = {
    "workload": {"model": "gpt2-345m", "global_batch": 64, "seq": 512}, "chip": _CHIP, "devices": [8],
    "space": {"tensor_parallel": [1, 2], "recompute": ["none"], "microbatch": [1, 2], "interleave": 1},
}  # fmt: skip
_MINED = {
    "workload": {"model": "resnet-18", "global_batch": 4},
    "chip": {"base": "tpuv2-like", "sides": [64, 128], "lanes": [64, 128], "counts": [1, 2, 4]},
}
_LANGUAGE = {**_MINED, "workload": {"model": "bert-base", "global_batch": 4, "seq": 128}}

SEARCHES: dict[str, tuple[str, Record]] = {
    "mine resnet-18": ("mine", {"": _MINED}),
    "mine resnet-18 by perf/tdp": ("mine", {"": _MINED, "metric": "perf/tdp"}),
    "mine bert-base by tokens/J": ("mine", {"": _LANGUAGE, "metric": "tokens/J"}),
    "mine bert-base at random": ("mine", {"": _LANGUAGE, "algorithm": "random", "budget": 6}),
    "mine bert-base by annealing": ("mine", {"": _LANGUAGE, "algorithm": "anneal", "budget": 6}),
    "mine bert-base by critical path": ("mine", {"": _LANGUAGE, "algorithm": "critical-path"}),
    "mine bert-base and resnet-18": (
        "mine", {"": {"models": [_LANGUAGE["workload"], _MINED["workload"]], "chip": _MINED["chip"]}},
    ),
    "mine gpt2-345m by stages": (
        "mine", {"": {"workload": {"model": "gpt2-345m", "global_batch": 8, "seq": 256}, "devices": 2,
                      "space": {"pipeline_parallel": 2}, "stages": "pooled", "keep": 2, "chip": _MINED["chip"]}},
    ),
    "codesign": ("codesign", {"": _JOINT}),
    "codesign by perf/tdp": ("codesign", {"": _JOINT, "metric": "perf/tdp", "sensitivity": False}),
    "codesign by $/token": ("codesign", {"": _JOINT, "metric": "$/token", "sensitivity": False}),
    "codesign of two models": (
        "codesign", {"": {**{key: value for key, value in _JOINT.items() if key != "workload"},
                          "models": [_JOINT["workload"], {"model": "bert-base", "global_batch": 64, "seq": 128}],
                          "weights": [2, 1]}, "sensitivity": False},
    ),
    "codesign with endpoints": (
        "codesign", {"": {**_JOINT, "chip": {**_CHIP, "endpoint": ["sm", "dma", "ace"]}}, "sensitivity": False},
    ),
    "codesign on a flat network within limits": (
        "codesign", {"": {**_JOINT, "budget": {"area": "500 mm2", "power": "300 W"}}, "network": "flat",
                     "sensitivity": False},
    ),
    "codesign at random": ("codesign", {"": _JOINT, "algorithm": "random", "budget": 8, "sensitivity": False}),
    "codesign exhaustive and compared": (
        "codesign", {"": _JOINT, "exhaustive": True, "compare": True, "sensitivity": False},
    ),
    "pareto": ("pareto", {"": _JOINT}),
    "pareto of throughput and power": ("pareto", {"": _JOINT, "axes": "throughput,power"}),
    "pareto of energy and cost": ("pareto", {"": _JOINT, "axes": "tokens/J,cost"}),
}  # fmt: skip

# --- networks ---------------------------------------------------------------------------------------------------------

COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "point-to-point")
TOPOLOGIES = {
    "ring": "ring:8@50GB/s,500ns",
    "uniring": "uniring:8@50GB/s,500ns",
    "mesh": "mesh:8@50GB/s,500ns",
    "switch": "switch:8@50GB/s,500ns",
    "fully-connected": "fully-connected:8@50GB/s,500ns",
    "fat-tree": "fat-tree:16@50GB/s,1us,oversubscription=2",
    "torus": "torus:4x4x2@50GB/s,500ns",
    "dragonfly": "dragonfly:5x2x2@50GB/s,500ns",
    "two dimensions": "ring:4@100GB/s,500ns x switch:4@25GB/s,1us",
    "three dimensions": "switch:4@200GB/s,300ns x ring:2@100GB/s,500ns x switch:2@25GB/s,2us",
}


def networks() -> Iterator[tuple[str, Record]]:
    for (name, topology), collective in product(TOPOLOGIES.items(), COLLECTIVES):
        for engine in ("events", "closed"):
            if (name in ("dragonfly", "fat-tree", "torus") and engine == "closed") or name == "dragonfly":
                continue  # the closed form has no switches inside a dimension
            yield f"{collective}, {name}, {engine}", {
                "": collective, "size": "16 MiB", "topology": topology, "engine": engine,
            }  # fmt: skip
    for collective in ("broadcast", "reduce"):
        yield f"{collective}, ring, events", {"": collective, "size": "4 MiB", "topology": TOPOLOGIES["ring"]}
        yield f"{collective}, switch, events", {"": collective, "size": "4 MiB", "topology": TOPOLOGIES["switch"]}
    for algorithm, topology in ALGORITHMS:
        given = {"": "all-reduce", "size": "16 MiB", "topology": TOPOLOGIES[topology], "algorithm": algorithm}
        yield f"all-reduce by {algorithm}, {topology}", given
    for name, given in OTHER_NETWORKS.items():
        yield name, {"": "all-reduce", "size": "16 MiB", "topology": TOPOLOGIES["two dimensions"], **given}


ALGORITHMS = (
    ("ring", "ring"), ("ring", "switch"), ("direct", "switch"), ("direct", "fully-connected"),
    ("halving-doubling", "switch"), ("halving-doubling", "ring"), ("double-binary-tree", "switch"),
    ("in-switch", "switch"), ("direct", "ring"), ("ring", "mesh"),
)  # fmt: skip
OTHER_NETWORKS: dict[str, Record] = {
    "chunks": {"chunks": 8, "active": 2},
    "chunks, last in first out": {"chunks": 8, "active": 2, "policy": "lifo"},
    "chunks by priority": {"chunks": 8, "policy": "priority"},
    "chunks by themis": {"chunks": 8, "themis": True},
    "groups": {"topology": TOPOLOGIES["ring"], "groups": "0-3;4-7"},
    "along one dimension": {"dims": "x"} | {"topology": "ring:4@100GB/s,500ns x switch:4@25GB/s,1us"},
    "slow link": {"topology": TOPOLOGIES["ring"], "slow": "2-3=0.5"},
    "sizes": {"size": "1MiB..16MiB"},
    "catalogue cluster": {"topology": "h100x16"},
    "catalogue cluster in closed form": {"topology": "h100x16", "engine": "closed"},
    **{
        f"endpoint {name}": {"topology": TOPOLOGIES["torus"], "endpoint": name, "memory": "450 GB/s"}
        for name in ("ace", "copy-engine", "near-memory", "sm-ring")
    },
    "endpoint ideal": {"topology": TOPOLOGIES["torus"], "endpoint": "ideal"},
    "endpoint sm-ring with 6 SMs": {"topology": TOPOLOGIES["torus"], "endpoint": "sm-ring", "sms": "6@40GB/s"},
}

# --- operators --------------------------------------------------------------------------------------------------------

CHIPS = ("h100-sxm", "h200-sxm", "a100-80gb-sxm", "b200", "tpu-v4", "mi300x", "trainium2")
ROWS = ("layernorm", "rmsnorm", "softmax", "gelu", "silu_mul", "relu", "add", "dropout", "rope", "cross_entropy")


def operators() -> Iterator[tuple[str, Record]]:
    for chip in CHIPS:
        yield f"product, {chip}", {"": ("matmul", "4096x4096x4096"), "chip": chip}
        yield f"small product, {chip}", {"": ("matmul", "64x4096x128"), "chip": chip}
        yield f"norm, {chip}", {"": ("rmsnorm", "8192x4096"), "chip": chip}
        yield f"attention, {chip}", {
            "": "attention", "heads": 32, "kv_heads": 8, "seq": 4096, "head_dim": 128, "causal": True, "chip": chip,
        }  # fmt: skip
    for kind in ROWS:
        yield f"{kind}, h200", {"": (kind, "8192x8192"), "chip": "h200"}
    for dtype in ("fp32", "tf32", "fp16", "fp8", "int8"):
        yield f"product in {dtype}", {"": ("matmul", "4096x4096x4096"), "chip": "h200", "dtype": dtype}
    for one in ("input-grad", "weight-grad"):
        yield f"{one} of a product", {"": ("linear", "4096x1024x8192"), "chip": "h200", "direction": one}
    yield "input-grad of attention", {
        "": "attention", "heads": 16, "seq": 2048, "head_dim": 128, "chip": "h200", "direction": "input-grad",
    }  # fmt: skip
    for setting in ("alone", "kernel", "stream"):
        yield f"product {setting}", {"": ("matmul", "2048x2048x2048"), "chip": "h200", "setting": setting}
    convolution = {"": ("convolution", "64x128x56"), "kernel": 3, "batch": 32}
    yield "convolution, h200", {**convolution, "chip": "h200"}
    yield "convolution with stride, tpu-v4", {**convolution, "stride": 2, "chip": "tpu-v4"}
    yield "adam, h200", {"": ("adam", "1024x1048576"), "chip": "h200"}
    yield "sgd, h200", {"": ("sgd", "1024x1048576"), "chip": "h200"}
    yield "embedding, h200", {"": ("embedding", "8192x4096"), "table_rows": 128256, "chip": "h200"}
    yield "fused layernorm, h200", {"": ("layernorm", "8192x8192"), "chip": "h200", "fused": True}
    yield "product compared", {"": ("matmul", "4096x4096x4096"), "chip": "h200", "compare": True}


# --- schedules of operators on cores ----------------------------------------------------------------------------------

SCHEDULES: dict[str, Record] = {
    "resnet-18 stem, tpuv2-like": {"": "resnet-18", "chip": "tpuv2-like", "block": "stem"},
    "bert-base, tpuv2-like": {"": "bert-base", "chip": "tpuv2-like", "seq": 128},
    "bert-base, tpuv4-like": {"": "bert-base", "chip": "tpuv4-like", "seq": 128, "batch": 4},
    "llama3-8b, tpuv4-like": {"": "llama3-8b", "chip": "tpuv4-like", "seq": 1024},
    "llama3-8b, tpuv4-like, full recompute": {"": "llama3-8b", "chip": "tpuv4-like", "seq": 1024, "recompute": "full"},
    "gpt2-345m head, nvdla-like": {"": "gpt2-345m", "chip": "nvdla-like", "block": "head", "seq": 256},
    "mixtral, tpu-v5p": {"": "mixtral-8x7b", "chip": "tpu-v5p", "seq": 512},
}

# --- the JSON of every command ----------------------------------------------------------------------------------------

# Cases that list what is registered: one that is added shows as one entry, and moves no physics.
CATALOGUES = ("op list", "models", "chips", "clusters", "plans", "methods")
COMMANDS: dict[str, str] = {
    "version": "--version",
    "simulate": "simulate examples/llama3-70b-512xh100.yaml --tokens 15T",
    "simulate, a plan that does not fit": "simulate --model llama3-70b --cluster h100x8 --plan zero1",
    "simulate, bad input": "simulate examples/llama3-70b-512xh100.yaml --seq 0",
    "plan": "plan --model llama3-8b --cluster h100x8 --global-batch 8 --fix tp=8 --top 2",
    "plan, nothing fits": "plan --model llama3-70b --cluster h100x8 --fix tp=8 --fix zero_stage=1 --global-batch 8",
    "launch megatron-lm": "launch examples/llama3-70b-512xh100.yaml --framework megatron-lm",
    "launch torchtitan": "launch examples/my-cluster.yaml --framework torchtitan",
    "launch deepspeed": "launch examples/my-cluster.yaml --framework deepspeed",
    "op": "op matmul 4096x4096x4096 --chip h200 --compare",
    "op list": "op list",
    "network": "network all-reduce --size 64MiB --topology ring:4@50GB/s,500ns",
    "network, sizes": "network all-reduce --size 1MiB..4MiB --topology ring:4@50GB/s,500ns",
    "trace run": "network all-gather --size 1MB --topology ring:4@50GB/s,500ns --astra-sim run"
    " && trace run run --topology run.network.yml --system run.system.json",
    "models": "models",
    "chips": "chips",
    "clusters": "clusters",
    "plans": "plans",
    "methods": "methods",
    "show chip": "show h100-sxm",
    "show template": "show tpuv4-like",
    "show model": "show mixtral-8x7b",
    "show cluster": "show tpu-v4-pod",
    "show plan": "show megatron-175b --kind plan",
    "show file": "show examples/my-cluster.yaml",
    "validate array-sims": "validate array-sims",
    "validate astra-sim": "validate astra-sim",
    "validate dies": "validate dies",
    "calibrate": "calibrate --runs examples/nemo-runs-dgx-h100.csv --out own.yaml",
    "reproduce phaze-dp": "reproduce phaze-dp",
    "schedule": "schedule resnet-18 --chip tpuv2-like --block stem",
    "completion": "completion bash",
}
