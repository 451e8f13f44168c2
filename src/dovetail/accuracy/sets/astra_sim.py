"""What ASTRA-sim answers for collectives and training steps, against our compatibility mode."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.comm.astra.described import dims_of, system_of
from dovetail.comm.astra.engine import collective_ticks
from dovetail.comm.astra.steps import gpt_like_step, step_ticks
from dovetail.comm.astra.system import TICK_S, AstraSystem
from dovetail.errors import DovetailError, InvalidInput
from dovetail.hardware.chip import Chip
from dovetail.units import NANO
from dovetail.workload.graph import FloatArray

CONFIGURATION = ("backend", "topology_yaml", "system_json", "sim_time_ns")
COLLECTIVES = ("collective", "comm_size_bytes", *CONFIGURATION)
STEPS = ("workload", "nodes_per_npu", *CONFIGURATION)
BACKENDS = ("unaware", "aware")


def prepare_collectives(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    names = measurements.words("collective")
    payloads = [int(payload) for payload in measurements.positive("comm_size_bytes")]
    systems = _systems(measurements)
    ticks = [
        _placed(measurements, row, lambda row=row: collective_ticks(systems[row], names[row], payloads[row]))
        for row in range(len(measurements))
    ]
    whats = [f"{size:,} bytes on {_words(system)}" for size, system in zip(payloads, systems, strict=True)]
    return (_prepared(measurements, given, tuple(names), tuple(whats), ticks, "astra-sim collectives"),)


def prepare_steps(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    names = measurements.words("workload")
    systems = _systems(measurements)

    def ticks_of(row: int) -> int:
        nodes, published = gpt_like_step(names[row]).nodes(), measurements.counts("nodes_per_npu")[row]
        if len(nodes) != published:
            raise InvalidInput(f"{names[row]} has {len(nodes)} nodes per rank; the table has {published}")
        return step_ticks(systems[row], nodes)

    ticks = [_placed(measurements, row, lambda row=row: ticks_of(row)) for row in range(len(measurements))]
    whats = [f"{name} on {_words(system)}" for name, system in zip(names, systems, strict=True)]
    return (_prepared(measurements, given, ("step",) * len(names), tuple(whats), ticks, "astra-sim steps"),)


def _prepared(
    table: Measurements,
    given: TableContext,
    kinds: tuple[str, ...],
    whats: tuple[str, ...],
    ticks: list[int],
    promise: str,
) -> Prepared:
    predicted_s = np.array(ticks) * TICK_S

    def predicted(_chip: Chip) -> FloatArray:
        return predicted_s

    return Prepared(
        name=table.name,
        chip=chip_for(given),
        unit="s",
        kinds=kinds,
        whats=whats,
        measured=table.positive("sim_time_ns") * NANO,
        predicted=predicted,
        is_of_chip=False,
        promise=promise,
    )


def _systems(measurements: Measurements) -> list[AstraSystem]:
    """The configuration of every row; equal cells are read once."""
    queues = measurements.counts("queues_per_dim") if measurements.has("queues_per_dim") else [1] * len(measurements)
    cells = zip(*(measurements.words(column) for column in CONFIGURATION[:3]), queues, strict=True)
    known: dict[tuple[str, str, str, int], AstraSystem] = {}
    found = []
    for row, (backend, network, system, num_queues) in enumerate(cells):
        key = (backend, network, system, int(num_queues))
        if key not in known:
            known[key] = _placed(measurements, row, lambda key=key: _system(*key))
        found.append(known[key])
    return found


def _system(backend: str, network: str, system: str, num_queues: int) -> AstraSystem:
    if backend not in BACKENDS:
        raise InvalidInput(f"backend is {' or '.join(BACKENDS)}; got {backend[:40]!r}")
    try:
        table = json.loads(system)
    except (ValueError, RecursionError):
        raise InvalidInput("system_json is not JSON") from None
    if not isinstance(table, dict):
        raise InvalidInput("system_json is not a table")
    dims = dims_of(_network_table(network))
    return system_of(dims, table, is_congestion_aware=backend == "aware", num_queues=num_queues)


def _network_table(text: str) -> dict[str, list[str]]:
    """The lists of a network file as one line holds them: `topology: [ Ring ]; npus_count: [ 8 ]; ...`."""
    parts = [part.partition(":") for part in text.split(";") if part.strip()]
    return {key.strip(): [word.strip() for word in words.strip(" []").split(",")] for key, _, words in parts}


def _words(system: AstraSystem) -> str:
    return "x".join(f"{dim.kind}{dim.num_ranks}" for dim in system.dims)


def _placed(measurements: Measurements, row: int, value: Any) -> Any:
    """`value()`; what it refuses is refused with the row's place."""
    try:
        return value()
    except DovetailError as error:
        raise type(error)(error.message, f"{measurements.shown}:{measurements.lines[row]}") from None


sets.register("astra-collectives")(
    Format(
        needed=COLLECTIVES,
        summary="collectives that ASTRA-sim timed: collective, comm_size_bytes, backend, topology_yaml, system_json",
        prepare=prepare_collectives,
    )
)
sets.register("astra-steps")(
    Format(
        needed=STEPS,
        summary="training steps that ASTRA-sim timed: workload, nodes_per_npu, backend, topology_yaml, system_json",
        prepare=prepare_steps,
    )
)
