"""The order in which a dimension serves waiting chunks: what has begun ends, then the newest or the oldest comes."""

from __future__ import annotations

import pytest

from dovetail.comm.events.program import Collective, Compute, Program, Queueing
from dovetail.comm.events.simulate import Engine, simulate
from tests.unit.comm.events.networks import PAYLOAD_BYTES, dimension, network_graph

ENGINES: tuple[Engine, ...] = ("one rank", "all ranks", "messages")
SERVICE_S = PAYLOAD_BYTES * 3 / 4 / 1e11  # of an all-gather over four ports of 100 GB/s


def gathers(num_chunks: int = 1) -> tuple[Collective | Compute, ...]:
    """Three all-gathers that come a tenth of a service apart, so that two wait while the first is served."""
    tasks: list[Collective | Compute] = []
    for index in range(3):
        if index:
            before = (f"c{index - 1}",) if index > 1 else ()
            tasks.append(Compute(name=f"c{index}", duration_s=SERVICE_S / 10, after=before))
        after = (f"c{index}",) if index else ()
        tasks.append(
            Collective(
                name=f"k{index}",
                collective="all-gather",
                payload_bytes=PAYLOAD_BYTES,
                num_chunks=num_chunks,
                after=after,
                sequence=index,
            )
        )
    return tuple(tasks)


def ends_s(policy: str, engine: Engine, num_chunks: int = 1) -> dict[str, float]:
    graph = network_graph((dimension("x", "switch", 4, latency_s=0.0),))
    queueing = Queueing(policy=policy, num_active_chunks=1)  # type: ignore[arg-type]
    spans = simulate(graph, Program(tasks=gathers(num_chunks), queueing=queueing), engine).spans_s
    return {name: spans[name][1] for name in ("k0", "k1", "k2")}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("policy", "order"), [("fifo", ("k0", "k1", "k2")), ("lifo", ("k0", "k2", "k1"))])
def test_of_two_that_wait_lifo_serves_the_newest_and_fifo_the_oldest(policy, order, engine):
    ends = ends_s(policy, engine)
    for place, name in enumerate(order, start=1):
        assert ends[name] == pytest.approx(place * SERVICE_S, rel=1e-6), name


@pytest.mark.parametrize("engine", ENGINES)
def test_under_lifo_a_new_collective_overtakes_the_chunks_of_an_old_one_that_wait(engine):
    ends = ends_s("lifo", engine, num_chunks=4)
    chunk_s = SERVICE_S / 4
    # the first chunk of k0 has begun; then all of k2, then of k1, then the three chunks left of k0
    assert ends["k2"] == pytest.approx(5 * chunk_s, rel=1e-6)
    assert ends["k1"] == pytest.approx(9 * chunk_s, rel=1e-6)
    assert ends["k0"] == pytest.approx(12 * chunk_s, rel=1e-6)
    assert ends_s("fifo", engine, num_chunks=4)["k0"] == pytest.approx(4 * chunk_s, rel=1e-6)
