"""Small joint questions: a few layers of a model, a few systems, a few plans; what joint searches are checked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.search.codesign.networks import networks
from dovetail.search.codesign.question import Budget, Case, JointQuestion, system_space
from dovetail.search.codesign.systems import check_knobs
from dovetail.search.metrics import metrics
from dovetail.search.planners.plan_space import PlanSpace
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

PLANS = PlanSpace(
    tensor_parallel=(1, 2),
    sequence_parallel=(False, True),
    context_parallel=(1,),
    interleave=(1,),
    zero_stage=(1,),
    microbatch=(1, 2),
    recompute=("none", "full"),
    axis_order=(("tp", "cp", "pp", "dp"),),
)
# Values a random space draws from; every device count is one that all the models can be cut for.
VALUES: dict[str, tuple[int, ...]] = {
    "num_tensor": (1, 2, 4, 16),
    "num_rows": (16, 64, 128, 256),
    "num_cols": (16, 64, 128, 256),
    "num_vector": (1, 2, 8),
    "num_lanes": (16, 64, 256),
    "dataflow": (1, 2, 6, 7),
    "register_bytes_per_lane": (12, 128),
    "vmem_mib": (1, 4, 16),
    "sram_mib": (8, 16, 32, 128),
    "sram_bytes_per_clock": (512, 4096),
    "hbm_stacks": (1, 2, 4, 8),
    "stack_gib": (1, 2, 4, 16),
    "clock_mhz": (500, 700, 1050, 1400),
    "core_buffer_kib": (4, 64, 1024, 65_536),
    "endpoint": (1, 2, 3),
    "link_gb_per_s": (50, 300),
    "num_devices": (4, 8),
}
# With buffers of the tensor cores' own, with a shared one that is cut into buffers, and with vector memory.
BASES = ("tpuv4-like", "tpuv2-like", "tpu-v4")
CASES = ("dense", "tied", "experts", "vision")


@cache
def workload(name: str) -> Workload:
    """Short ones, so that a search takes a moment: untied and dense, tied, with experts, and of images."""
    if name == "vision":
        return Workload(model=models["resnet-18"](), global_batch=16, seq=1)
    catalogued, num_layers, seq = {
        "dense": ("llama2-7b", 6, 512),
        "tied": ("gpt2-345m", 5, 256),
        "experts": ("mixtral-8x7b", 4, 256),
    }[name]
    model = models[catalogued]()
    fewer: dict[str, Any] = {"num_layers": num_layers}
    if name != "tied":
        fewer["vocab"] = 8000
    short = replace(model, architecture=replace(model.architecture, **fewer))  # type: ignore[type-var]
    return Workload(model=short, global_batch=16, seq=seq)


def question(
    names: tuple[str, ...],
    values: Mapping[str, Sequence[float]],
    *,
    base: str = "tpuv4-like",
    network: str = "torus",
    metric: str = "throughput",
    budget: Budget | None = None,
    weights: tuple[float, ...] = (),
    plans: PlanSpace = PLANS,
) -> JointQuestion:
    """Of `names` in `CASES`; a knob that `values` leaves out is as the base has it, but links are fast; 8 devices.

    Knobs of what the base has not are left out.
    """
    chip, values = chips[base](), {"link_gb_per_s": (300,), **known_to(base, values)}
    return JointQuestion(
        cases=tuple(
            Case(workload=workload(name), plans=plans, weight=weight)
            for name, weight in zip(names, weights or (1.0,) * len(names), strict=True)
        ),
        base=chip,
        network=networks[network].build,
        space=system_space(chip, 8, values),
        budget=budget or Budget(),
        metric=metrics[metric],
        reference_losses=(1.0,) * len(names),
    )


def known_to(base: str, values: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """Those knobs that systems built on `base` have."""
    return {name: some for name, some in values.items() if _is_known_to(base, name, some)}


def _is_known_to(base: str, name: str, values: Sequence[float]) -> bool:
    try:
        check_knobs(chips[base](), {name: tuple(values)})
    except InvalidInput:
        return False
    return True


def some_values(rng: Random, num_turned: int, most: int = 3) -> dict[str, tuple[int, ...]]:
    """Two or more values for some of the knobs."""
    turned = rng.sample(sorted(VALUES), num_turned)
    return {
        name: tuple(sorted(rng.sample(VALUES[name], rng.randint(2, min(most, len(VALUES[name])))))) for name in turned
    }
