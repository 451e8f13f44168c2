"""Networks: links written one by one, and the files of ASTRA-sim."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.fuzz.case import Seed, seed
from benchmarks.fuzz.inputs import add
from benchmarks.fuzz.inputs.et import plain_rank

LINKS = """\
name: own
nodes: [a, b, c, d]
switches: 1
links:
  - {source: a, target: b, bandwidth: 50 GB/s, latency: 500 ns}
  - {source: b, target: c, bandwidth: 50 GB/s, latency: 500 ns}
  - {source: c, target: d, bandwidth: 50 GB/s, latency: 500 ns}
  - {source: d, target: a, bandwidth: 50 GB/s, latency: 500 ns}
  - {source: a, target: 4, bandwidth: 25 GB/s, latency: 1 us}
  - {source: 4, target: c, bandwidth: 25 GB/s, latency: 1 us, one_way: true}
"""
THEIRS = "topology: [ Switch, Ring ]\nnpus_count: [ 2, 2 ]\nbandwidth: [ 400.0, 50.0 ]\nlatency: [ 250.0, 1000.0 ]\n"
SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 2,
    "all-reduce-implementation": ["halvingDoubling", "ring"],
    "all-gather-implementation": ["direct", "ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
}
WORKLOAD = """\
HYBRID_TRANSFORMER model_parallel_NPU_group: 2
2
attention -1 200000 ALLREDUCE 1048576 200000 ALLGATHER 1048576 200000 ALLTOALL 4194304 1000
mlp -1 200000 ALLREDUCE 1048576 200000 NONE 0 200000 REDUCESCATTER 4194304 1000
"""
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all", "broadcast", "point-to-point")


@add("network", "link files of network and trace, and ASTRA-sim's network, system and workload files")
def networks(_folder: Path) -> tuple[Seed, ...]:
    ranks = {f"it.{rank}.et": plain_rank() for rank in range(4)}
    theirs: dict[str, str | bytes] = {"net.yml": THEIRS, "system.json": json.dumps(SYSTEM), **ranks}
    run = "trace run it --topology net.yml --system system.json --json"
    asked = "network %s --size 1MiB --topology net.yaml --json"
    own = ("net.yml", "system.json")
    return (
        seed(
            {"net.yaml": LINKS},
            *(asked % name for name in COLLECTIVES),
            "network all-reduce --size 1MiB..4MiB --topology net.yaml",
        ),
        seed({"net.yaml": LINKS, **ranks}, "trace run it --topology net.yaml --json", broken=("net.yaml",)),
        seed(theirs, run, f"{run} --engine astra-sim", f"{run} --engine astra-sim --congestion-aware", broken=own),
        seed({"w.txt": WORKLOAD, "net.yml": THEIRS}, "trace import w.txt it --topology net.yml --json"),
        seed({"w.txt": WORKLOAD}, "trace import w.txt it --topology ring:2@50GB/s,500ns --json"),
    )
