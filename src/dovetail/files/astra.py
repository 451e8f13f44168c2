"""ASTRA-sim's network YAML and system JSON, both ways, and its 1.0 text workloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from dovetail.comm.astra.described import (
    IMPLEMENTATIONS,
    MEMORY_BYTES_PER_TICK,
    NETWORK_BYTES_PER_TICK,
    dims_of,
    system_of,
)
from dovetail.comm.astra.layers import LayerWorkload, layer_workload
from dovetail.comm.astra.system import AstraDim, AstraSystem
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.entry import described
from dovetail.files.text import one_line, read_text


def parse_network(text: str) -> tuple[AstraDim, ...]:
    """The dimensions of an ASTRA-sim network YAML; semicolons may stand for line ends."""
    try:
        table = yaml.safe_load("\n".join(part.strip() for part in text.split(";")) if ";" in text else text)
    except (yaml.YAMLError, ValueError, RecursionError) as broken:
        reason = "a number in it has thousands of digits, or it nests too deep"
        if isinstance(broken, yaml.YAMLError):
            reason = str(broken).splitlines()[0] if str(broken) else type(broken).__name__
        raise InvalidInput(f"the network file is not YAML: {reason}") from None
    if not isinstance(table, dict):
        raise InvalidInput(f"a network file is a table; got {described(table)}")
    return dims_of(table)


def network_text(dims: tuple[AstraDim, ...]) -> str:
    """The network YAML that `parse_network` reads back as `dims`."""
    columns = {
        "topology": [dim.kind for dim in dims],
        "npus_count": [str(dim.num_ranks) for dim in dims],
        "bandwidth": [repr(dim.bytes_per_tick / NETWORK_BYTES_PER_TICK) for dim in dims],
        "latency": [repr(dim.latency_ticks) for dim in dims],
    }
    return "".join(f"{key}: [ {', '.join(words)} ]\n" for key, words in columns.items())


def parse_system(network: str, system: str, *, is_congestion_aware: bool, num_queues: int = 1) -> AstraSystem:
    """The configuration given by the texts of an ASTRA-sim network YAML and system JSON."""
    dims = parse_network(network)
    return system_of(dims, _system_table(system), is_congestion_aware=is_congestion_aware, num_queues=num_queues)


def system_text(system: AstraSystem) -> str:
    """The system JSON that, with the network, `parse_system` reads back as `system`."""
    table: dict[str, Any] = {
        "scheduling-policy": system.policy,
        "endpoint-delay": system.endpoint_ticks,
        "active-chunks-per-dimension": system.num_active_chunks,
        "preferred-dataset-splits": system.num_chunks,
        "collective-optimization": system.optimization,
        "local-mem-bw": system.memory_bytes_per_tick / MEMORY_BYTES_PER_TICK,
    }
    table |= {key: list(system.algorithms[name]) for key, name in IMPLEMENTATIONS.items() if name in system.algorithms}
    return json.dumps(table, indent=2) + "\n"


def _system_table(text: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except json.JSONDecodeError as broken:
        raise InvalidInput(f"the system file is not JSON: {broken}") from None
    except (ValueError, RecursionError):  # Python reads no longer numbers
        raise InvalidInput("a system file has numbers of fewer than 4,000 digits, and no deep nesting") from None
    if not isinstance(table, dict):
        raise InvalidInput(f"a system file is a table; got {described(table)}")
    return table


def load_network(file: Path) -> tuple[AstraDim, ...]:
    try:
        return parse_network(read_text(file, "--topology"))
    except DovetailError as error:
        raise _placed(error, file) from None


def load_system(dims: tuple[AstraDim, ...], file: Path, *, is_congestion_aware: bool) -> AstraSystem:
    """The configuration of the system JSON in `file` on the network `dims`."""
    try:
        return system_of(dims, _system_table(read_text(file, "--system")), is_congestion_aware=is_congestion_aware)
    except DovetailError as error:
        raise _placed(error, file) from None


def load_workload(file: Path) -> LayerWorkload:
    """The layers of an ASTRA-sim 1.0 text workload."""
    try:
        return layer_workload(read_text(file, "").splitlines())
    except DovetailError as error:
        raise _placed(error, file) from None


def _placed(error: DovetailError, file: Path) -> DovetailError:
    where = ": ".join(part for part in (one_line(str(file)), error.where) if part)
    return error if error.where.startswith(("--", one_line(str(file)))) else type(error)(error.message, where)
