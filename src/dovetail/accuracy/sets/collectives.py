"""Measured collectives, in one node or over several, beside what the library's model takes; by platform."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import Prepared, TableContext, chip_for
from dovetail.accuracy.sets import Format, sets
from dovetail.comm.library.platforms import Platform, RingPlatform, platform_of
from dovetail.comm.library.timing import library_times, operation_of
from dovetail.errors import DovetailError
from dovetail.hardware.chip import Chip
from dovetail.units import GIGA, MICRO, format_bytes
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

ONE_NODE = ("system", "collective", "num_gpus", "size_bytes", "time_us")
NODES = ("cluster", "nodes", "gpus_per_node", "nic_gb_per_s_per_node", "collective", "size_bytes", "time_us")
MAX_SIZE_BYTES = 1e15  # style: a bound; sums of bytes stay exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """Rows of a table as columns, each of a known platform and operation."""

    platforms: list[Platform | RingPlatform]
    operations: list[str]
    num_ranks: IntArray
    num_nodes: IntArray
    nic_bytes_per_s: FloatArray
    size_bytes: FloatArray
    measured_s: FloatArray
    kinds: tuple[str, ...]

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
            platforms=[self.platforms[row] for row in rows],
            operations=[self.operations[row] for row in rows],
            num_ranks=self.num_ranks[kept],
            num_nodes=self.num_nodes[kept],
            nic_bytes_per_s=self.nic_bytes_per_s[kept],
            size_bytes=self.size_bytes[kept],
            measured_s=self.measured_s[kept],
            kinds=tuple(self.kinds[row] for row in rows),
        )


def predicted_s(rows: Collectives, refused: dict[int, str]) -> tuple[FloatArray, tuple[str, ...]]:
    """Seconds of every row and how the library ran it; why not, by row, goes into `refused`."""
    seconds, ran = np.full(len(rows.operations), np.nan), [""] * len(rows.operations)
    keys = list(
        zip(
            (platform.name for platform in rows.platforms),
            rows.operations,
            rows.num_ranks.tolist(),
            rows.num_nodes.tolist(),
            rows.nic_bytes_per_s.tolist(),
            strict=True,
        )
    )
    places: dict[tuple[str, str, int, int, float], list[int]] = {}
    for row, key in enumerate(keys):
        places.setdefault(key, []).append(row)
    for (_, operation, num_ranks, num_nodes, nic_bytes_per_s), own in places.items():
        try:
            times = library_times(
                rows.platforms[own[0]],
                operation,
                num_ranks,
                rows.size_bytes[own],
                num_nodes=num_nodes,
                nic_bytes_per_s=nic_bytes_per_s,
            )
        except DovetailError as error:
            refused |= dict.fromkeys(own, error.message)
            continue
        seconds[own] = times.seconds
        for row, algorithm, protocol in zip(own, times.algorithms, times.protocols, strict=True):
            ran[row] = f"{algorithm}, {protocol}"
    return seconds, tuple(ran)


def prepared_collectives(
    measurements: Measurements, given: TableContext, rows: Collectives, *, is_log: bool = False
) -> tuple[Prepared, ...]:
    """Sets by kind of link; raises `UnreadableRows` for rows that are not modelled.

    No bar holds for a log of the user's own, and `--chip` may say what it was measured on.
    """
    refused: dict[int, str] = {}
    seconds, ran = predicted_s(rows, refused)
    if refused:
        raise measurements.unreadable(refused)
    links = np.array(
        [
            "nodes" if nodes > 1 or isinstance(platform, RingPlatform) else platform.link
            for platform, nodes in zip(rows.platforms, rows.num_nodes, strict=True)
        ]
    )
    known = sorted(set(links.tolist()))
    return tuple(
        _prepared(
            f"{measurements.name}, {link}" if len(known) > 1 else measurements.name,
            rows.where(links == link),
            seconds[links == link],
            tuple(words for words, own in zip(ran, links, strict=True) if own == link),
            given,
            is_log,
            "" if is_log else f"collectives over {link}",
        )
        for link in known
    )


def _prepared(
    name: str,
    rows: Collectives,
    seconds: FloatArray,
    ran: tuple[str, ...],
    given: TableContext,
    is_log: bool,
    promise: str,
) -> Prepared:
    def predicted(_chip: Chip) -> FloatArray:
        return seconds

    return Prepared(
        name=name,
        chip=chip_for(given),
        unit="s",
        kinds=rows.kinds,
        whats=tuple(f"{label} ({how})" for label, how in zip(rows.labels(), ran, strict=True)),
        measured=rows.measured_s,
        predicted=predicted,
        is_of_chip=is_log and given.chip is not None,
        promise=promise,
    )


def columns_of_table(measurements: Measurements, column: str) -> Iterator[tuple[int, Platform | RingPlatform, str]]:
    """Place, platform and operation of each row; raises `UnreadableRows` with the reason of each row without."""
    refused: dict[int, str] = {}
    found = []
    cells = zip(measurements.words(column), measurements.words("collective"), strict=True)
    for row, (product, collective) in enumerate(cells):
        try:
            found.append((row, platform_of(product), operation_of(collective)))
        except DovetailError as error:
            refused[row] = error.message
    if refused:
        raise measurements.unreadable(refused)
    yield from found


def checked_size_bytes(measurements: Measurements) -> FloatArray:
    sizes_bytes = measurements.positive("size_bytes")
    large = {
        int(row): f"size_bytes is at most {MAX_SIZE_BYTES:g}" for row in np.flatnonzero(sizes_bytes > MAX_SIZE_BYTES)
    }
    if large:
        raise measurements.unreadable(large)
    return sizes_bytes


def prepare_one_node(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    known = list(columns_of_table(measurements, "system"))
    count = len(measurements)
    rows = Collectives(
        platforms=[platform for _, platform, _ in known],
        operations=[operation for _, _, operation in known],
        num_ranks=measurements.counts("num_gpus", least=2),
        num_nodes=np.ones(count, dtype=np.int64),
        nic_bytes_per_s=np.zeros(count),
        size_bytes=checked_size_bytes(measurements),
        measured_s=measurements.positive("time_us") * MICRO,
        kinds=tuple(measurements.words("system")),
    )
    return prepared_collectives(measurements, given, rows)


def prepare_nodes(measurements: Measurements, given: TableContext) -> tuple[Prepared, ...]:
    known = list(columns_of_table(measurements, "cluster"))
    nodes = measurements.counts("nodes")
    rows = Collectives(
        platforms=[platform for _, platform, _ in known],
        operations=[operation for _, _, operation in known],
        num_ranks=nodes * measurements.counts("gpus_per_node"),
        num_nodes=nodes,
        nic_bytes_per_s=measurements.positive("nic_gb_per_s_per_node") * GIGA,
        size_bytes=checked_size_bytes(measurements),
        measured_s=measurements.positive("time_us") * MICRO,
        kinds=tuple(measurements.words("source" if measurements.has("source") else "cluster")),
    )
    return prepared_collectives(measurements, given, rows)


sets.register("collectives")(
    Format(
        needed=ONE_NODE, summary=f"medians of nccl-tests in one node: {', '.join(ONE_NODE)}", prepare=prepare_one_node
    )
)
sets.register("collectives-nodes")(
    Format(needed=NODES, summary=f"collectives over several nodes: {', '.join(NODES)}", prepare=prepare_nodes)
)
