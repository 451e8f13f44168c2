"""Collectives over the GPUs of this machine, in the columns of tables of nccl-tests: one process for each GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dovetail.measuring.row_files import Key
from dovetail.measuring.tables import MeasuredRow, MeasuredTable, tables, time_us, words
from dovetail.measuring.torch_gpu import nccl_version

OPERATIONS = ("all_gather", "all_reduce", "alltoall", "reduce_scatter")
RANKS = (2, 4, 8)
SIZES_BYTES = tuple(512 * 4**power for power in range(11))  # to 512 MiB; of the whole message, as nccl-tests count


def rows(gpu: Any) -> tuple[Key, ...]:
    system = gpu.name.lower().replace(",", " ").replace(" ", "_")
    return tuple(
        words(system, nccl_version(gpu), operation, ranks, size)
        for ranks in RANKS
        if ranks <= gpu.num_gpus
        for operation in OPERATIONS
        for size in SIZES_BYTES
    )


def measure(gpu: Any, keys: Sequence[Key]) -> Iterator[MeasuredRow]:
    """All rows over so many ranks by the same processes."""
    from dovetail.measuring.torch_collectives import collective_times

    for ranks in RANKS:
        own = [key for key in keys if int(key[3]) == ranks]
        if own:
            calls = [(key[2], int(key[4])) for key in own]
            for place, seconds, why_not in collective_times(ranks, calls, is_cpu=gpu.is_cpu):
                cells = (time_us(seconds),) if not why_not else ()
                yield MeasuredRow(key=own[place], cells=cells, why_not=why_not)


def _why_not(gpu: Any) -> str:
    return "" if gpu.num_gpus > 1 else "collectives need several GPUs, and here is one"


tables.register("collectives")(
    MeasuredTable(
        group="collectives",
        file="collectives/nccl.csv",
        columns=("system", "nccl_version", "collective", "num_gpus", "size_bytes", "time_us"),
        num_keys=5,
        rows=rows,
        measure=measure,
        why_not=_why_not,
        row_s=0.3,
        num_quick=20,
    )
)
