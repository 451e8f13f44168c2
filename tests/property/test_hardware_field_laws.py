"""Every number of the hardware moves something that is predicted, and what must help never hurts.

The laws run over `dataclasses.fields` of all that a cluster is made of: a number moves a prediction, or stands in
`MOVES_NOTHING` with a reason, or fails by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from dovetail.cost.area import silicon
from dovetail.cost.costs import op_costs
from dovetail.cost.inventory import inventory
from dovetail.cost.op_cost import Setting
from dovetail.cost.price import price
from dovetail.cost.tdp import tdp
from dovetail.errors import InvalidInput
from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.hardware.reliability import (
    Checkpoints,
    Failures,
    Reliability,
    Replacement,
    SharedBandwidth,
    SlowDevices,
    TimedInterval,
)
from dovetail.parallel.plan import Plan
from dovetail.units import GIGA, MICRO
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.unit.cost.paper import op, ops_of

NUM_DEVICES = 16
SOMETIMES = Failures(mtbf_s=1e6, num_devices=NUM_DEVICES)  # style: any
RELIABILITY = Reliability(
    failures=SOMETIMES,
    restart_s=600.0,
    checkpoints=Checkpoints(
        writes=(SharedBandwidth(bandwidth_bytes_per_s=10 * GIGA),), interval=TimedInterval(interval_s=1800.0)
    ),
    slow_devices=SlowDevices(speed_frac=0.9, num_devices=2, replacement=Replacement(onsets=SOMETIMES, detect_s=3600.0)),
)
STEPS = (
    ("llama3-8b", {"tensor_parallel": 2, "sequence_parallel": True, "pipeline_parallel": 2, "data_parallel": 4}),
    ("gpt2-345m", {"context_parallel": 4, "context_comm_type": "ring", "data_parallel": 4}),
    ("resnet-50", {"data_parallel": 16}),
    (
        "gpt2-345m",
        {
            "data_parallel": 16,
            "recompute": ("full",),
            "offload_optimizer": True,
            "offload_activations_frac": 1.0,
            "zero_stage": 1,
        },
    ),
)
FACTORS = (4.0, 0.25, 0.8)  # either way: some have a bound, and some are hidden by others unless they change by much
OF_ARRAYS = "of systolic arrays: test_every_number_of_an_array_moves_an_operator"
ON_ARRAYS: dict[str, dict[str, Any]] = {
    "tensor.tiling.num_loaded_rows": {"num_loaded_rows": 64},
    "tensor.buffer_bytes": {"buffer_bytes": 1024.0},
    "calibration.conversion_slots": {"conversion_slots": 4.0},
    "calibration.conversion_result_slots": {"conversion_result_slots": 4.0},
    "calibration.visits_ratio": {"visits_ratio": 3.0},
    "calibration.overlap_frac": {"overlap_frac": 1.0},
    "energy.vector_memory_j_per_byte": {"vector_memory_j_per_byte": 1e-9},  # style: any
}
MOVES_NOTHING = {
    **{f"chip.{path}": OF_ARRAYS for path in ON_ARRAYS},
    "chip.year": "says when it was sold",
    "chip.calibration.link_frac": "of networks that name no collective library",
    "chip.calibration.exchange_s": "of networks that name no collective library",
    "topology.dimensions.0.jitter_s": "the largest of a group's dimensions counts; the network's moves a step",
    "chip.tensor.tiling.num_cluster_units": "of compute beside collectives, which `dovetail network` times",
    "chip.tensor.tiling.num_groups": "of compute beside collectives, which `dovetail network` times",
    "chip.tensor.tiling.tiles": "the best is taken, and not each of them is the best somewhere here",
    "chip.calibration.write_frac": "of kernels that only write, which these models have none of",
    "chip.calibration.lanes_frac": "of products in fp32, which these steps have none of: test_lane_products",
    "chip.tensor.rates": "of dtypes that these steps do not compute in",
    "chip.calibration.host_rerun_s": "of eager blocks that are recomputed; these are compiled",
    "chip.calibration.host_slowdown": "of steps recorded from code: tests/unit/step/test_eager.py",
    "chip.energy.still_frac": "of loads without toggling operands, which only measurements have",
    "chip.die.io_node_m": "not read where there are no I/O dies",
    "topology.dimensions.0.num_devices": "a cluster of another size takes another plan",
    "topology.dimensions.1.num_devices": "a cluster of another size takes another plan",
    "reliability.slow_devices.num_devices": "not read where they are replaced: onsets say how many there are",
    "own_runs": "of the interval of a prediction, not of the prediction",
}


@cache
def cluster() -> Cluster:
    built = clusters["dgx-h200"].build(NUM_DEVICES)
    return replace(built, topology=built.topology.with_jitter(MICRO), reliability=RELIABILITY)


@cache
def workload_of(name: str) -> Workload:
    model = models[name]()
    if name != "resnet-50":
        model = replace(model, architecture=replace(model.architecture, num_layers=2))  # type: ignore[type-var]
    return Workload(model=model, global_batch=64, seq=model.seq if name == "resnet-50" else 1024)


@cache
def graph_of(name: str) -> Graph:
    return workload_of(name).training_graph()


def steps(of: Cluster) -> Iterator[Outcome]:
    for name, degrees in STEPS:
        found = evaluate(workload_of(name), of, Plan(**degrees), has_changes=False)
        assert isinstance(found, Outcome), "a step does not fit"
        yield found


def of_step(found: Outcome) -> list[float]:
    step, memory = found.step, found.memory
    runs = [getattr(found.goodput, field.name) for field in fields(found.goodput)]
    return [
        *(step.step_s, step.energy_j, step.offload.hidden_s, memory.limit_bytes, memory.host_limit_bytes),
        *(float(each) for each in runs if isinstance(each, (int, float))),
    ]


def predictions(of: Cluster) -> Iterator[float]:
    """Of the chip's silicon, power and price, of operators by themselves, and of steps: what takes longest is last."""
    chip = of.chip
    for value in (silicon(inventory(chip)), tdp(chip), price(chip)):
        yield from (float(np.sum(getattr(value, field.name))) for field in fields(value))
    for name in ("gpt2-345m", "resnet-50"):
        costs = op_costs(graph_of(name).blocks[1].ops, chip, Setting.ALONE)
        yield from (float(costs.compute_s.sum()), float(costs.energy_j.sum()), float(costs.host_s.sum()))
        yield float(op_costs(graph_of(name).blocks[1].ops, chip, Setting.KERNEL).compute_s.sum())
    for found in steps(of):
        yield from of_step(found)


def numbers(value: Any, path: str = "") -> Iterator[str]:
    """Paths to all numbers of a value, through its own values and tuples of them."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path
    elif is_dataclass(value):
        for field in fields(value):
            yield from numbers(getattr(value, field.name), f"{path}.{field.name}" if path else field.name)
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from numbers(each, f"{path}.{index}")


def with_number(value: Any, path: list[str], factor: float) -> Any:
    """The value with one number changed: times `factor`, by one at least where it is a count."""
    if not path:
        if isinstance(value, int):
            return max(value + 1, round(value * factor)) if factor > 1 else max(1, value - 1)
        return value * factor if value else factor * 1e-4  # style: seconds, a share
    name, *rest = path
    if isinstance(value, tuple):
        index = int(name)
        return (*value[:index], with_number(value[index], rest, factor), *value[index + 1 :])
    return replace(value, **{name: with_number(getattr(value, name), rest, factor)})


PATHS = list(numbers(cluster()))
LISTED = [path for path in PATHS if any(path == name or path.startswith(f"{name}.") for name in MOVES_NOTHING)]


@cache
def as_they_are() -> tuple[float, ...]:
    return tuple(predictions(cluster()))


@cache
def steps_as_they_are() -> tuple[float, ...]:
    return tuple(each.step.step_s for each in steps(cluster()))


def moves(path: str) -> bool:
    for factor in FACTORS:
        try:
            changed = with_number(cluster(), path.split("."), factor)
        except InvalidInput:
            continue  # beyond a bound: the other way then
        if any(one != other for one, other in zip(predictions(changed), as_they_are(), strict=True)):
            return True  # by the first that moves
    return False


@pytest.mark.parametrize("path", [path for path in PATHS if path not in LISTED])
def test_every_number_of_a_cluster_moves_a_prediction(path: str) -> None:
    assert moves(path), f"{path} moves nothing that is predicted; use it, or give a reason in MOVES_NOTHING"


def test_the_reasons_are_of_numbers_that_there_are() -> None:
    gone = [name for name in MOVES_NOTHING if not any(path.startswith(name) for path in PATHS)]
    assert not gone, f"no number of a cluster is called {gone}"


MORE_IS_FASTER = ("_bytes_per_s", "_flop_per_s", ".tdp_w", ".core_buffer_bytes", ".capacity_bytes")
LESS_IS_FASTER = (".latency_s", "_s", ".oversubscription", ".clock_spread_frac")
OF_A_RUN = "reliability."  # of many steps, not of one


def direction(path: str) -> int:
    """1 where more of it never takes longer, -1 where less, 0 where neither is a law."""
    if path.startswith((OF_A_RUN, "own_runs")):
        return 0
    if path.endswith(MORE_IS_FASTER) or (path.startswith("chip.calibration.") and path.endswith("_frac")):
        return -1 if path.endswith("clock_spread_frac") else 1
    return -1 if path.endswith(LESS_IS_FASTER) else 0


@pytest.mark.parametrize("path", [path for path in PATHS if direction(path)])
def test_a_better_number_never_makes_a_step_longer(path: str) -> None:
    try:
        better = with_number(cluster(), path.split("."), 1.25 ** direction(path))
    except InvalidInput:
        return  # as good as it can be
    for before_s, after in zip(steps_as_they_are(), steps(better), strict=True):
        assert after.step.step_s <= before_s * (1 + 1e-12), path  # style: a tolerance


def _array_costs(chip: Chip) -> list[float]:
    """Time and energy of products, in fp16 too, and of attention, on a TPU v4."""
    rows = (
        op("linear", m=96, n=4096, k=4096),
        op("linear", m=4096, n=4096, k=4096, dtype="fp16", math="fp16"),
        op("attention", b=64, m=1024, n=1024, k=128, v=128),
    )
    found = op_costs(ops_of(*rows), chip)
    return [*found.compute_s.tolist(), *found.energy_j.tolist()]


@pytest.mark.parametrize("path", ON_ARRAYS)
def test_every_number_of_an_array_moves_an_operator(path):
    chip = chips["tpu-v4"]()
    first, *rest = path.split(".")
    part = getattr(chip, first)
    changed = (
        replace(part, tiling=replace(part.tiling, **ON_ARRAYS[path]))
        if len(rest) > 1
        else replace(part, **ON_ARRAYS[path])
    )
    assert _array_costs(replace(chip, **{first: changed})) != _array_costs(chip)
