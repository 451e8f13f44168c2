"""What is timed of the network: a ring all-reduce on 1,024 devices, in closed form and message by message."""

from __future__ import annotations

from functools import partial

from dovetail.api.timed.operation import Operation, Run, warm
from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.events.program import Collective, Program
from dovetail.comm.events.simulate import simulate
from dovetail.comm.one_collective import CollectiveJob, Network, network_answer
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension
from dovetail.units import GIBI, MEBI, NANO

NUM_RANKS = 1024
PAYLOAD_BYTES = 64 * MEBI
NUM_CLOSED = 20  # closed forms in a run, as one alone is too short to time


def _ring() -> Network:
    """What ASTRA-sim was run on."""
    link = Link(bandwidth_bytes_per_s=50 * GIBI, latency_s=500 * NANO)
    dimension = Dimension(name="x", kind="ring", num_devices=NUM_RANKS, link=link)
    return Network(name="ring", parts=(dimension,), graph=network_graph([dimension]))


def _closed() -> Run:
    job = CollectiveJob(collective="all-reduce", payload_bytes=PAYLOAD_BYTES, network=_ring(), engine="closed")

    def run() -> float:
        for _ in range(NUM_CLOSED):
            network_answer(job)
        return float(NUM_CLOSED)

    return warm(run)


def _by_events(*, has_messages: bool) -> Run:
    """Every message of every rank, whatever their symmetry; a run counts these, or itself."""
    task = Collective(name="it", collective="all-reduce", payload_bytes=PAYLOAD_BYTES, algorithms=(("*", "ring"),))

    def run() -> float:
        found = simulate(_ring().graph, Program(tasks=(task,)), "all ranks")
        return float(found.num_messages) if has_messages else 1.0

    return warm(run)


OPERATIONS = (
    Operation(name="ring-closed", what="ring all-reduce of 1,024, closed", made=_closed),
    Operation(name="ring", what="the same by events", made=partial(_by_events, has_messages=False)),
    Operation(name="events", what="messages of that", made=partial(_by_events, has_messages=True), item="events"),
)
