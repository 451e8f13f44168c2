"""No collective is faster than the ports and links it passes."""

import math
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.comm.events.phases import themis_orders
from dovetail.comm.events.program import Collective, Compute, Devices, Program, Queueing, Task
from dovetail.comm.events.simulate import simulate
from dovetail.comm.events.unit_graphs import clos, dragonfly
from dovetail.comm.one_collective import CollectiveJob, Network, network_answer
from dovetail.hardware.link import Link
from tests.unit.comm.events.networks import (
    PAYLOAD_BYTES,
    dimension,
    dimensions,
    end_s,
    network_graph,
    one,
    port_bytes_per_s,
)

SOON = settings(max_examples=20, deadline=None)
ALGORITHMS = ("", "ring", "direct", "halving-doubling", "double-binary-tree")
CHUNKS = st.integers(1, 4)


def _port_bound_s(collective, parts, payload_bytes=PAYLOAD_BYTES):
    n = math.prod(part.num_devices for part in parts)
    shares = 2.0 if collective == "all-reduce" else 1.0
    return shares * payload_bytes * (n - 1) / n / port_bytes_per_s(parts)


@SOON
@given(
    st.lists(st.tuples(st.sampled_from(("switch", "fat-tree")), st.integers(2, 6)), min_size=1, max_size=3),
    st.sampled_from(("all-reduce", "all-gather", "reduce-scatter")), CHUNKS, CHUNKS,
    st.sampled_from(("one rank", "all ranks", "messages")), st.sampled_from((0.0, 1e-6)),
)  # fmt: skip
def test_switches_that_add_up_beat_neither_their_ports_nor_their_links(
    kinds, collective, num_chunks, num_active, engine, latency_s
):
    rates = (1e11, 5e10, 2e10)
    parts = [
        dimension(name, kind, n, rate, latency_s) for name, (kind, n), rate in zip("xyz", kinds, rates, strict=False)
    ]
    task = one(collective, algorithm="in-switch", num_chunks=num_chunks)
    program = Program(tasks=(task,), queueing=Queueing(num_active_chunks=num_active))
    timeline = simulate(network_graph(parts), program, engine)
    assert timeline.link_busy_s.max() <= timeline.end_s * (1 + 1e-9)
    n = parts[0].num_devices
    share = 1.0 if collective == "all-reduce" or len(parts) == 1 else (n - 1) / n
    assert timeline.end_s >= PAYLOAD_BYTES * share / rates[0] * (1 - 1e-9)


@SOON
@given(dimensions(), st.sampled_from(ALGORITHMS), CHUNKS, CHUNKS, st.sampled_from(("fifo", "lifo", "priority")))
def test_no_all_reduce_beats_its_port_bound(parts, algorithm, num_chunks, num_active, policy):
    if algorithm == "double-binary-tree" and len(parts) > 1:
        algorithm = ""  # sums only; several dimensions need reduce-scatters
    task = one("all-reduce", algorithm=algorithm, num_chunks=num_chunks)
    got = end_s(network_graph(parts), task, policy=policy, num_active_chunks=num_active)
    assert got >= _port_bound_s("all-reduce", parts) * (1 - 1e-9)


@SOON
@given(dimensions(), st.sampled_from(ALGORITHMS[:4]), CHUNKS, CHUNKS)
def test_no_all_to_all_beats_its_port_bound(parts, algorithm, num_chunks, num_active):
    task = one("all-to-all", algorithm=algorithm, num_chunks=num_chunks)
    got = end_s(network_graph(parts), task, num_active_chunks=num_active)
    assert got >= _port_bound_s("all-to-all", parts) * (1 - 1e-9)


@SOON
@given(dimensions(max_dimensions=1), st.sampled_from(ALGORITHMS[:4]), CHUNKS, CHUNKS)
def test_in_one_dimension_chunks_and_active_chunks_never_raise_bandwidth(parts, algorithm, num_chunks, num_active):
    task = one("all-reduce", algorithm=algorithm, num_chunks=num_chunks)
    timeline = simulate(
        network_graph(parts),
        Program(tasks=(task,), queueing=Queueing(num_active_chunks=num_active)),
        "all ranks",
    )
    assert timeline.end_s >= _port_bound_s("all-reduce", parts) * (1 - 1e-9)
    assert timeline.link_busy_s.max() <= timeline.end_s * (1 + 1e-9)


@SOON
@given(
    dimensions(), CHUNKS, st.sampled_from(("all-reduce", "all-to-all", "all-gather", "reduce-scatter", "broadcast")),
    st.booleans(), st.sampled_from(("auto", "all ranks")),
)  # fmt: skip
def test_no_link_is_busy_for_longer_than_the_run(parts, num_chunks, collective, in_switch, engine):
    is_switched = all(part.kind in ("switch", "fat-tree") for part in parts) and collective != "all-to-all"
    algorithms = (("*", "in-switch"),) if in_switch and is_switched else ()
    tasks = tuple(
        Collective(
            name=f"t{i}", collective=collective, payload_bytes=PAYLOAD_BYTES, num_chunks=num_chunks,
            algorithms=algorithms,
        )
        for i in range(3)
    )  # fmt: skip
    program = Program(tasks=tasks, queueing=Queueing(num_active_chunks=2))
    timeline = simulate(network_graph(parts), program, engine)
    assert timeline.link_busy_s.max() <= timeline.end_s * (1 + 1e-9)


def test_in_switch_reduction_sends_and_receives_every_byte_once():
    parts = (dimension("x", "switch", 8, latency_s=0.0),)
    assert end_s(network_graph(parts), one("all-reduce", algorithm="in-switch")) == PAYLOAD_BYTES / 1e11


@SOON
@given(st.integers(2, 8), st.integers(2, 8), CHUNKS)
def test_independent_collectives_on_disjoint_dimensions_overlap(num_x, num_y, num_chunks):
    parts = (dimension("x", "switch", num_x), dimension("y", "bidirectional-ring", num_y))
    graph = network_graph(parts)
    tasks = [
        Collective(name=d, collective="all-reduce", payload_bytes=PAYLOAD_BYTES, dimensions=(d,), num_chunks=num_chunks)
        for d in ("x", "y")
    ]
    alone = [end_s(graph, task) for task in tasks]
    assert end_s(graph, *tasks) == max(alone)
    assert math.isclose(end_s(graph, *tasks, engine="all ranks"), max(alone), rel_tol=1e-9)


@SOON
@given(st.integers(2, 8), st.integers(1, 3))
def test_collectives_that_share_links_share_their_bandwidth(num_devices, num_active):
    graph = network_graph((dimension("x", "ring", num_devices, latency_s=0.0),))
    tasks = [Collective(name=n, collective="all-reduce", payload_bytes=PAYLOAD_BYTES) for n in ("a", "b")]
    both = end_s(graph, *tasks, num_active_chunks=num_active)
    assert math.isclose(both, 2 * end_s(graph, tasks[0]), rel_tol=1e-9)


@SOON
@given(dimensions(max_dimensions=2), st.integers(0, 2**32 - 1), st.sampled_from(("fifo", "lifo", "priority")))
def test_the_order_tasks_are_listed_in_does_not_matter(parts, seed, policy):
    rng = random.Random(seed)
    graph = network_graph(parts)
    tasks: list[Task] = [Compute(name="c0", duration_s=1e-4), Compute(name="c1", duration_s=1e-4, stream="other")]
    for i in range(5):
        after = tuple(rng.sample([t.name for t in tasks], k=rng.randint(0, 2)))
        names = tuple(rng.sample([p.name for p in parts], k=rng.randint(1, len(parts))))
        tasks.append(
            Collective(
                name=f"k{i}",
                collective=rng.choice(("all-reduce", "all-to-all")),
                payload_bytes=PAYLOAD_BYTES,
                dimensions=names,
                after=after,
                priority=rng.randint(0, 2),
                num_chunks=rng.randint(1, 3),
            )
        )
    shuffled = rng.sample(tasks, k=len(tasks))
    slowdown = np.linspace(1, 1.3, graph.num_devices)
    queueing, devices = Queueing(policy=policy), Devices(slowdown=slowdown)
    first = simulate(graph, Program(tasks=tuple(tasks), queueing=queueing, devices=devices))
    second = simulate(graph, Program(tasks=tuple(shuffled), queueing=queueing, devices=devices))
    assert first.spans_s == second.spans_s


@SOON
@given(st.sampled_from((1.0, 2.0, 4.0)), st.integers(1, 3), st.sampled_from(("ring", "direct", "halving-doubling")))
def test_a_clos_obeys_the_bandwidth_between_its_leaves(oversubscription, num_spines, algorithm):
    link = Link(bandwidth_bytes_per_s=1e10, latency_s=1e-7)
    graph = network_graph([clos("x", 8, 4, num_spines, link, oversubscription)])
    got = end_s(graph, one("all-to-all", algorithm=algorithm))
    crossing_bytes = 4 * 4 * PAYLOAD_BYTES / 8  # every device of a leaf to every one of the other
    assert got >= crossing_bytes / (4e10 / oversubscription) * (1 - 1e-9)


def test_a_dragonfly_sends_all_that_leaves_a_group_over_its_one_global_link():
    link, slow = Link(bandwidth_bytes_per_s=1e11, latency_s=1e-7), Link(bandwidth_bytes_per_s=1e10, latency_s=1e-6)
    graph = network_graph([dragonfly("x", 3, 2, 2, link, slow)])
    assert graph.num_devices == 12
    got = end_s(graph, one("all-to-all", algorithm="direct"))
    assert got >= 4 * 4 * PAYLOAD_BYTES / 12 / 1e10


def test_themis_orders_use_idle_dimensions():
    parts = tuple(dimension(n, "switch", 4, latency_s=0.0) for n in ("x", "y", "z"))
    graph = network_graph(parts)
    plain = one("all-reduce", num_chunks=12)
    themis = one("all-reduce", num_chunks=12, orders=themis_orders(plain, graph))
    assert end_s(graph, themis) < 0.7 * end_s(graph, plain)
    assert end_s(graph, themis) >= _port_bound_s("all-reduce", parts)


def test_themis_counts_one_port_at_the_ends_of_a_line():
    parts = (dimension("x", "switch", 2), dimension("y", "mesh", 4))
    graph = network_graph(parts)
    plain = one("all-reduce", 1e9, num_chunks=16)
    themis = one("all-reduce", 1e9, num_chunks=16, orders=themis_orders(plain, graph))
    assert end_s(graph, themis, num_active_chunks=4) <= end_s(graph, plain, num_active_chunks=4)


def test_themis_keeps_the_order_there_is_where_none_is_better():
    graph = network_graph((dimension("x", "switch", 8, 4e11), dimension("y", "switch", 8, 1e9)))
    assert themis_orders(one("all-reduce", num_chunks=4), graph) == ()


def asked(collective, parts, **options):
    network = Network(name="random", parts=tuple(parts), graph=network_graph(parts))
    return CollectiveJob(collective=collective, payload_bytes=PAYLOAD_BYTES, network=network, **options)


EVERY = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "reduce", "point-to-point")


@SOON
@given(
    dimensions(), st.sampled_from(EVERY), st.sampled_from(ALGORITHMS[:4]), CHUNKS, CHUNKS,
    st.sampled_from(("fifo", "lifo", "priority")), st.booleans(),
)  # fmt: skip
def test_no_collective_beats_the_bound_it_is_shown_beside(
    parts, collective, algorithm, num_chunks, num_active, policy, is_themis
):
    found = network_answer(
        asked(
            collective,
            parts,
            algorithms=(("*", algorithm),) if algorithm else (),
            num_chunks=num_chunks,
            queueing=Queueing(policy=policy, num_active_chunks=num_active),
            is_themis=is_themis,
        )
    )
    assert found.time_s >= found.bound_s * (1 - 1e-9)
    assert found.bus_bytes_per_s <= port_bytes_per_s(parts) * (1 + 1e-9)
    assert all(load.mean_frac * (1 - 1e-9) <= load.most_frac <= 1 + 1e-9 for load in found.loads)


@SOON
@given(dimensions(), st.sampled_from(EVERY[:4]))
def test_no_closed_form_beats_the_bound(parts, collective):
    found = network_answer(asked(collective, parts, engine="closed"))
    assert found.time_s >= found.bound_s * (1 - 1e-9)


@SOON
@given(dimensions(max_dimensions=2), st.data())
def test_no_group_beats_the_bound_of_its_ports_whatever_links_are_slow(parts, data):
    graph = network_graph(parts)
    link = data.draw(st.sampled_from([int(i) for i in np.flatnonzero(graph.is_alive)]))
    slow = graph.with_link_scaled(int(graph.source[link]), int(graph.target[link]), 0.3)
    group = data.draw(st.permutations(range(graph.num_devices)))[: max(2, graph.num_devices // 2)]
    network = Network(name="random", parts=tuple(parts), graph=slow)
    found = network_answer(
        CollectiveJob(
            collective=data.draw(st.sampled_from(EVERY)),
            payload_bytes=PAYLOAD_BYTES,
            network=network,
            groups=(tuple(group),),
        )
    )
    assert found.time_s >= found.bound_s * (1 - 1e-9)


@SOON
@given(st.sampled_from(EVERY), st.integers(1, 4), st.sampled_from((1.0, 2.0, 3.0)), CHUNKS)
def test_no_clos_or_dragonfly_beats_the_bound(collective, num_spines, oversubscription, num_chunks):
    link = Link(bandwidth_bytes_per_s=1e10, latency_s=1e-7)
    for part in (clos("x", 8, 4, num_spines, link, oversubscription), dragonfly("x", 3, 2, 2, link, link)):
        found = network_answer(asked(collective, (part,), num_chunks=num_chunks))
        assert found.time_s >= found.bound_s * (1 - 1e-9)
