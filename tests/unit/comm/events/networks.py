"""Random networks and programs for the laws."""

from __future__ import annotations

from hypothesis import strategies as st

from dovetail.comm.events.network_graph import LinkGraph, network_graph
from dovetail.comm.events.program import Collective, Program, Queueing
from dovetail.comm.events.simulate import Engine, simulate
from dovetail.hardware.link import Link
from dovetail.hardware.topology import DIMENSION_KINDS, Dimension

NAMES = ("x", "y", "z")
PAYLOAD_BYTES = 2.0**24


def dimension(name: str, kind: str, num_devices: int, bandwidth: float = 1e11, latency_s: float = 5e-7) -> Dimension:
    link = Link(bandwidth_bytes_per_s=bandwidth, latency_s=latency_s)
    return Dimension(name=name, kind=kind, num_devices=num_devices, link=link)


@st.composite
def dimensions(draw: st.DrawFn, max_dimensions: int = 3, max_devices: int = 6) -> tuple[Dimension, ...]:
    count = draw(st.integers(1, max_dimensions))
    return tuple(
        dimension(
            name, draw(st.sampled_from(DIMENSION_KINDS)), draw(st.integers(2, max_devices)),
            draw(st.sampled_from((1e10, 5e10, 4e11))), draw(st.sampled_from((0.0, 1e-7, 1e-5))),
        )
        for name in NAMES[:count]
    )  # fmt: skip


def port_bytes_per_s(parts: tuple[Dimension, ...]) -> float:
    return sum(part.link.bandwidth_bytes_per_s for part in parts)


def one(collective: str, payload_bytes: float = PAYLOAD_BYTES, algorithm: str = "", **options: object) -> Collective:
    algorithms = (("*", algorithm),) if algorithm else ()
    return Collective(
        name="it",
        collective=collective,
        payload_bytes=payload_bytes,
        algorithms=algorithms,
        **options,  # type: ignore[arg-type]
    )


def end_s(graph: LinkGraph, *tasks: Collective, engine: Engine = "auto", **queueing: object) -> float:
    program = Program(tasks=tasks, queueing=Queueing(**queueing))  # type: ignore[arg-type]
    return simulate(graph, program, engine).end_s


__all__ = ["NAMES", "PAYLOAD_BYTES", "dimension", "dimensions", "end_s", "network_graph", "one", "port_bytes_per_s"]
