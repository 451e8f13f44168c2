"""Chakra traces of all ranks, and the process groups that they name."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add
from dovetail.comm.trace.nodes import TraceNode
from dovetail.files.chakra import encoded

RUN = "trace run it --topology ring:2@50GB/s,500ns --json"
GROUPS = '{"all": [0, 1], "first": [0]}'


def _rank(rank: int) -> bytes:
    """Compute, collectives of a group and of all, and a message to the other rank."""
    other = 1 - rank
    nodes = (
        TraceNode(id=1, name="load", kind="compute", duration_s=1e-6, is_cpu=True),
        TraceNode(id=2, name="gemm", kind="compute", after=(1,), duration_s=5e-6, num_ops=10**9, tensor_bytes=10**6),
        TraceNode(
            id=3, name="sum", kind="collective", after=(2,), collective="all-reduce", size_bytes=2**16, group="all"
        ),
        TraceNode(id=4, name="all", kind="collective", after=(3,), collective="all-gather", size_bytes=2**12),
        TraceNode(
            id=5 + rank, name="send", kind="send", after=(4,), source=rank, target=other, size_bytes=64, tag=rank
        ),
        TraceNode(
            id=6 - rank, name="receive", kind="receive", after=(4,), source=other, target=rank, size_bytes=64, tag=other
        ),
    )
    return encoded(nodes)


def plain_rank() -> bytes:
    """Compute and one sum over all ranks, as many as there are."""
    summed = TraceNode(id=2, name="sum", kind="collective", after=(1,), collective="all-reduce", size_bytes=2**16)
    return encoded((TraceNode(id=1, name="gemm", kind="compute", duration_s=5e-6), summed))


@add("et", "Chakra .et traces of all ranks, and --groups, by both engines")
def traces(_folder: Path) -> tuple[Seed, ...]:
    files: dict[str, str | bytes] = {"it.0.et": _rank(0), "it.1.et": _rank(1), "groups.json": GROUPS}
    astra = f"{RUN} --engine astra-sim"
    commands = (
        f"{RUN} --groups groups.json",
        f"{astra} --groups groups.json",
        f"{astra} --groups groups.json --congestion-aware",
    )
    plain = plain_rank()
    return (
        seed(files, *commands),
        seed(files, *commands, broken=("it.0.et",)),
        seed({"it.0.et": plain, "it.1.et": plain}, RUN, astra, broken=("it.0.et",)),
    )
