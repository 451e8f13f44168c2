"""Speed of the event engine, each case in a process of its own: `python -m benchmarks.events`.

CPU seconds of building and running (what the case is about), of the whole process with its imports, and peak memory,
beside what ASTRA-sim was recorded at for the same collective or the same number of tasks and messages.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np

from benchmarks.bar import REPOSITORY
from dovetail.accuracy.peer_speeds import peers_of
from dovetail.comm.events.network_graph import LinkGraph, network_graph
from dovetail.comm.events.program import Collective, Compute, Devices, Program, Queueing, Task
from dovetail.comm.events.schedules import algorithms
from dovetail.comm.events.simulate import Engine, simulate
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIBI, KIBI, MEBI, MEGA, MICRO, MILLI, NANO

NUM_GPT_LAYERS = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """ASTRA-sim's CPU seconds and peak memory for the same; from astrasim_scale.csv and astrasim_e2e.csv."""

    cpu_s: float
    memory_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one case took here."""

    cpu_s: float
    process_s: float
    memory_bytes: float
    num_messages: int
    end_s: float
    is_exact: bool


RING_1024 = Peer(cpu_s=peers_of("ring")[0].least_s, memory_bytes=361_740 * KIBI)
HALVING_4096 = Peer(cpu_s=32.79, memory_bytes=5_583_380 * KIBI)
GPT_4096 = Peer(cpu_s=187.5, memory_bytes=2783 * MEBI)
CASES: dict[str, tuple[Engine, Peer]] = {
    "ring-1024": ("all ranks", RING_1024),
    "halving-doubling-4096": ("all ranks", HALVING_4096),
    "gpt-4096": ("all ranks", GPT_4096),
    "all-to-all-1024": ("all ranks", Peer(cpu_s=10.55, memory_bytes=886_980 * KIBI)),
    "gpt-4096-straggler": ("all ranks", GPT_4096),
    "one-rank-ring-1024": ("one rank", RING_1024),
    "one-rank-halving-doubling-4096": ("one rank", HALVING_4096),
    "one-rank-gpt-4096": ("one rank", GPT_4096),
    "messages-ring-256": ("messages", Peer(cpu_s=0.24, memory_bytes=35_472 * KIBI)),
}


def ran(case: str) -> Ran:
    """`case`, measured in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.events", case]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return Ran(**json.loads(done.stdout))


def _dimension(name: str, kind: str, num_devices: int, bandwidth_bytes_per_s: float, latency_s: float) -> Dimension:
    link = Link(bandwidth_bytes_per_s=bandwidth_bytes_per_s, latency_s=latency_s)
    return Dimension(name=name, kind=kind, num_devices=num_devices, link=link)


def built(case: str) -> tuple[LinkGraph, Program]:
    num_devices = next(int(word) for word in case.split("-") if word.isdigit())
    if "gpt" in case:
        inner = _dimension("tp", "switch", 8, 400 * GIBI, 250 * NANO)
        outer = _dimension("dp", "switch", num_devices // 8, 50 * GIBI, MICRO)
        slowdown = np.where(np.arange(num_devices) == 3, 1.2, 1.0)
        devices = Devices(slowdown=slowdown) if "straggler" in case else Devices()
        return network_graph([inner, outer]), gpt_step(NUM_GPT_LAYERS, devices)
    algorithm = "ring" if "ring" in case else "direct" if "all-to-all" in case else "halving-doubling"
    kind = "ring" if "ring" in case else "switch"
    graph = network_graph([_dimension("x", kind, num_devices, 50 * GIBI, 500 * NANO)])
    collective = "all-to-all" if "all-to-all" in case else "all-reduce"
    task = Collective(name="it", collective=collective, payload_bytes=64 * MEBI, algorithms=(("*", algorithm),))
    return graph, Program(tasks=(task,))


def gpt_step(num_layers: int, devices: Devices) -> Program:
    """A step with the tasks of ASTRA-sim's: a layer has 4 computations, 4 all-reduces over tp and 1 over dp."""
    tasks: list[Task] = []
    last: tuple[str, ...] = ()

    def collective(name: str, size_bytes: float, dimension: str, after: tuple[str, ...]) -> None:
        tasks.append(
            Collective(
                name=name,
                collective="all-reduce",
                payload_bytes=size_bytes,
                dimensions=(dimension,),
                after=after,
                sequence=len(tasks),
            )
        )

    for is_forward, layers in ((True, range(num_layers)), (False, reversed(range(num_layers)))):
        for layer in layers:
            for half in ("attention", "mlp"):
                stem = f"{'forward' if is_forward else 'backward'}{layer:04d}-{half}"
                duration_s = 0.5 * MILLI if is_forward else MILLI
                tasks.append(Compute(name=stem, duration_s=duration_s, after=last, sequence=len(tasks)))
                collective(stem + "-tp", 16 * MEBI, "tp", (stem,))
                last = (stem + "-tp",)
            if not is_forward:
                collective(f"gradient{layer:04d}", 64 * MEBI, "dp", last)
    return Program(tasks=tuple(tasks), queueing=Queueing(policy="lifo"), devices=devices)


def measure(case: str) -> None:
    algorithms.names()  # loads them, as any start does
    loaded_s = time.process_time()
    graph, program = built(case)
    timeline = simulate(graph, program, CASES[case][0])
    end_s = time.process_time()
    found = {"cpu_s": end_s - loaded_s, "process_s": end_s, "num_messages": timeline.num_messages}
    found |= {"memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBI}
    print(json.dumps(found | {"end_s": timeline.end_s, "is_exact": timeline.is_exact}))


def main() -> None:
    print(f"{'case':31} {'ASTRA-sim':>20} {'engine':>9} {'process':>9} {'memory':>8} {'messages':>11} {'rate':>8}")
    for case, (_, peer) in CASES.items():
        found = ran(case)
        print(
            f"{case:31} {peer.cpu_s:9.2f} s {peer.memory_bytes / MEBI:5.0f} MiB {found.cpu_s:7.4f} s"
            f" {found.process_s:7.3f} s {found.memory_bytes / MEBI:4.0f} MiB {found.num_messages:11,}"
            f" {found.num_messages / found.cpu_s / MEGA:5.1f} M/s{'' if found.is_exact else '  not exact'}"
        )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        main()
