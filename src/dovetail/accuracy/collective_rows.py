"""Measured collectives as columns, whatever table or log they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.comm.library.platforms import NetworkConstants, Platform, RingPlatform
from dovetail.comm.library.timing import library_times, operation_of
from dovetail.errors import DovetailError
from dovetail.units import GIGA, MICRO, format_bytes
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

ONE_NODE = ("system", "collective", "num_gpus", "size_bytes", "time_us")
NODES = ("cluster", "nodes", "gpus_per_node", "nic_gb_per_s_per_node", "collective", "size_bytes", "time_us")
LOG = ("log_collective", "log_ranks", "log_nodes", "log_nics", "buffers", "size_bytes", "time_us")
MAX_SIZE_BYTES = 1e15  # style: a bound; sums of bytes stay exact


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Collectives:
    """Rows of a table as columns, each of a known operation; `products` are GPUs as the table names them."""

    products: tuple[str, ...]
    operations: tuple[str, ...]
    num_ranks: IntArray
    num_nodes: IntArray
    nic_bytes_per_s: FloatArray
    size_bytes: FloatArray
    measured_s: FloatArray
    kinds: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.measured_s)

    def labels(self) -> tuple[str, ...]:
        """What each row is, in words."""
        return tuple(
            f"{operation} of {format_bytes(size_bytes)} over {num_ranks} ranks"
            + (f" on {num_nodes} nodes" if num_nodes > 1 else "")
            for operation, size_bytes, num_ranks, num_nodes in zip(
                self.operations, self.size_bytes, self.num_ranks, self.num_nodes, strict=True
            )
        )

    def where(self, kept: BoolArray) -> Collectives:
        rows = [int(row) for row in np.flatnonzero(kept)]
        return Collectives(
            products=tuple(self.products[row] for row in rows),
            operations=tuple(self.operations[row] for row in rows),
            num_ranks=self.num_ranks[kept],
            num_nodes=self.num_nodes[kept],
            nic_bytes_per_s=self.nic_bytes_per_s[kept],
            size_bytes=self.size_bytes[kept],
            measured_s=self.measured_s[kept],
            kinds=tuple(self.kinds[row] for row in rows),
        )


def joined(parts: tuple[Collectives, ...]) -> Collectives:
    return Collectives(
        products=tuple(one for part in parts for one in part.products),
        operations=tuple(one for part in parts for one in part.operations),
        num_ranks=np.concatenate([part.num_ranks for part in parts]),
        num_nodes=np.concatenate([part.num_nodes for part in parts]),
        nic_bytes_per_s=np.concatenate([part.nic_bytes_per_s for part in parts]),
        size_bytes=np.concatenate([part.size_bytes for part in parts]),
        measured_s=np.concatenate([part.measured_s for part in parts]),
        kinds=tuple(one for part in parts for one in part.kinds),
    )


def seconds_of(
    platform: Platform | RingPlatform,
    network: NetworkConstants,
    rows: Collectives,
    refused: dict[int, str] | None = None,
) -> tuple[FloatArray, tuple[str, ...]]:
    """Seconds of every row by one platform's constants, and how the library ran it.

    Why a row is not modelled goes into `refused`, by row; without it, that raises.
    """
    seconds, ran = np.full(len(rows), np.nan), [""] * len(rows)
    keys = zip(
        rows.operations, rows.num_ranks.tolist(), rows.num_nodes.tolist(), rows.nic_bytes_per_s.tolist(), strict=True
    )
    places: dict[tuple[str, int, int, float], list[int]] = {}
    for row, key in enumerate(keys):
        places.setdefault(key, []).append(row)
    for (operation, num_ranks, num_nodes, nic_bytes_per_s), own in places.items():
        try:
            times = library_times(
                platform, operation, num_ranks, rows.size_bytes[own],
                num_nodes=num_nodes, nic_bytes_per_s=nic_bytes_per_s, network=network,
            )  # fmt: skip
        except DovetailError as error:
            if refused is None:
                raise
            refused |= dict.fromkeys(own, error.message)
            continue
        seconds[own] = times.seconds
        for row, algorithm, protocol in zip(own, times.algorithms, times.protocols, strict=True):
            ran[row] = f"{algorithm}, {protocol}"
    return seconds, tuple(ran)


def reader_of(measurements: Measurements) -> Callable[[Measurements], Collectives] | None:
    """What reads the rows of a table of collectives; none for a table of something else."""
    for needed, read in ((LOG, log_rows), (NODES, nodes_rows), (ONE_NODE, one_node_rows)):
        if measurements.has(*needed):
            return read
    return None


def one_node_rows(measurements: Measurements) -> Collectives:
    count = len(measurements)
    return Collectives(
        products=tuple(measurements.words("system")),
        operations=_operations(measurements),
        num_ranks=measurements.counts("num_gpus", least=2),
        num_nodes=np.ones(count, dtype=np.int64),
        nic_bytes_per_s=np.zeros(count),
        size_bytes=checked_size_bytes(measurements),
        measured_s=measurements.positive("time_us") * MICRO,
        kinds=tuple(measurements.words("system")),
    )


def nodes_rows(measurements: Measurements) -> Collectives:
    nodes = measurements.counts("nodes")
    return Collectives(
        products=tuple(measurements.words("cluster")),
        operations=_operations(measurements),
        num_ranks=nodes * measurements.counts("gpus_per_node"),
        num_nodes=nodes,
        nic_bytes_per_s=measurements.positive("nic_gb_per_s_per_node") * GIGA,
        size_bytes=checked_size_bytes(measurements),
        measured_s=measurements.positive("time_us") * MICRO,
        kinds=tuple(measurements.words("source" if measurements.has("source") else "cluster")),
    )


def log_rows(measurements: Measurements) -> Collectives:
    """The rows of a log, all of one collective; by buffers, out-of-place and in-place."""
    return Collectives(
        products=tuple(measurements.words("log_platform")),
        operations=tuple(measurements.words("log_collective")),
        num_ranks=measurements.counts("log_ranks"),
        num_nodes=measurements.counts("log_nodes"),
        nic_bytes_per_s=measurements.numbers("log_nics"),
        size_bytes=checked_size_bytes(measurements),
        measured_s=measurements.positive("time_us") * MICRO,
        kinds=tuple(measurements.words("buffers")),
    )


def _operations(measurements: Measurements) -> tuple[str, ...]:
    """The operation of each row; raises `UnreadableRows` with the reason of each row without."""
    refused: dict[int, str] = {}
    found = []
    for row, collective in enumerate(measurements.words("collective")):
        try:
            found.append(operation_of(collective))
        except DovetailError as error:
            refused[row] = error.message
    if refused:
        raise measurements.unreadable(refused)
    return tuple(found)


def checked_size_bytes(measurements: Measurements) -> FloatArray:
    sizes_bytes = measurements.positive("size_bytes")
    large = {
        int(row): f"size_bytes is at most {MAX_SIZE_BYTES:g}" for row in np.flatnonzero(sizes_bytes > MAX_SIZE_BYTES)
    }
    if large:
        raise measurements.unreadable(large)
    return sizes_bytes
