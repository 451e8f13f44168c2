"""ASTRA-sim compatibility against every recorded run, and its engines against each other."""

from __future__ import annotations

import csv
from dataclasses import replace
from random import Random

import pytest

from dovetail.comm.astra.described import NETWORK_BYTES_PER_TICK
from dovetail.comm.astra.engine import Issue, collective_ticks, simulate
from dovetail.comm.astra.steps import CollectiveNode, ComputeNode, gpt_like_step, step_ticks
from dovetail.comm.astra.system import (
    ALGORITHMS,
    COLLECTIVES,
    FULLY_CONNECTED,
    OPTIMIZATIONS,
    POLICIES,
    RING,
    SWITCH,
    AstraDim,
    AstraSystem,
)
from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.astra import parse_network, parse_system
from dovetail.files.measurements import shipped_folder

DATA = shipped_folder("astra-sim")


def rows(name):
    with (DATA / f"astra_{name}.csv").open() as file:
        return list(csv.DictReader(file))


def system_of(row):
    return parse_system(
        row["topology_yaml"],
        row["system_json"],
        is_congestion_aware=row["backend"] == "aware",
        num_queues=int(row.get("queues_per_dim", 1)),
    )


def dim(kind=RING, num_ranks=8, bandwidth=50.0, latency=500.0):
    return AstraDim(
        kind=kind, num_ranks=num_ranks, bytes_per_tick=bandwidth * NETWORK_BYTES_PER_TICK, latency_ticks=latency
    )


def system(*dims, collective="all_reduce", algorithms=("ring",), **options):
    return AstraSystem(dims=dims, algorithms={collective: tuple(algorithms)}, **options)


def test_every_recorded_collective_is_reproduced_to_the_nanosecond():
    found = {True: 0, False: 0}
    for row in rows("collectives"):
        ticks = collective_ticks(system_of(row), row["collective"], int(row["comm_size_bytes"]))
        assert ticks == int(row["sim_time_ns"]), row["case"]
        found[bool(row["closed_form_ns"])] += 1
    assert found == {True: 382, False: 8}


def test_every_recorded_training_step_is_reproduced_to_the_nanosecond():
    recorded = rows("steps")
    for row in recorded:
        nodes = gpt_like_step(row["workload"]).nodes()
        assert len(nodes) == int(row["nodes_per_npu"])
        assert step_ticks(system_of(row), nodes) == int(row["sim_time_ns"]), row["workload"]
    assert len(recorded) == 13


def random_system(rng):
    collective = rng.choice(COLLECTIVES)
    known = ["ring", "direct"] + ["halvingDoubling"] * (collective != "all_to_all")
    dims = [
        dim(
            rng.choice((RING, SWITCH, FULLY_CONNECTED)),
            rng.choice((1, 2, 4, 8)),
            rng.choice((25.0, 50.0, 400.0)),
            rng.choice((0.0, 17.5, 500.0, 20000.0)),
        )
        for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    algorithms = [rng.choice(known) for _ in dims]
    if collective == "all_reduce" and rng.random() < 0.25:
        algorithms[-1] = "doubleBinaryTree"
    made = system(
        *dims,
        collective=collective,
        algorithms=algorithms,
        num_chunks=rng.choice((1, 3, 4, 7)),
        num_active_chunks=rng.choice((1, 1, 2, 3)),
        num_queues=rng.choice((1, 1, 2)),
        policy=rng.choice(POLICIES),
        optimization="localBWAware",
        is_congestion_aware=rng.random() < 0.5,
    )
    trees = [a for a in algorithms[:-1] if a == "doubleBinaryTree"]
    return (made, collective) if made.num_ranks <= 64 and not trees else random_system(rng)


@pytest.mark.parametrize("seed", range(60))
def test_one_representative_rank_gives_the_answer_of_all_ranks(seed):
    rng = Random(seed)
    made, collective = random_system(rng)
    issues = [
        Issue(collective=collective, size_bytes=rng.choice((2**16, 2**20 + 1024, 2**24)), release_ticks=release)
        for release in (0, rng.choice((0, 700, 30_000)))
    ]
    assert simulate(made, issues) == simulate(made, issues, "ranks")


@pytest.mark.parametrize("kind", [RING, SWITCH, FULLY_CONNECTED])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("is_aware", [False, True])
def test_closed_forms_agree_with_the_messages_of_all_ranks(kind, algorithm, is_aware):
    for collective in COLLECTIVES if algorithm in ("ring", "direct") else ("all_reduce",):
        made = system(dim(kind, 16), collective=collective, algorithms=[algorithm], is_congestion_aware=is_aware)
        issues = [Issue(collective=collective, size_bytes=3 * 2**20)]
        assert simulate(made, issues, "closed") == simulate(made, issues, "ranks")


def test_more_active_chunks_multiply_bandwidth_unless_congestion_is_modelled():
    base = system(dim(latency=0.0), num_chunks=8, endpoint_ticks=0)
    slow, fast = (collective_ticks(replace(base, num_active_chunks=n), "all_reduce", 2**26) for n in (1, 8))
    assert fast < slow / 7
    aware = replace(base, is_congestion_aware=True)
    slow, fast = (collective_ticks(replace(aware, num_active_chunks=n), "all_reduce", 2**26) for n in (1, 8))
    assert fast > 0.9 * slow


def test_lifo_lets_the_later_collective_overtake_and_fifo_does_not():
    issues = [
        Issue(collective="all_reduce", size_bytes=2**26),
        Issue(collective="all_reduce", size_bytes=2**20, release_ticks=10),
    ]
    first, second = simulate(system(dim(), num_chunks=4, policy="LIFO"), issues)
    assert second < first
    first, second = simulate(system(dim(), num_chunks=4, policy="FIFO"), issues)
    assert first < second


def test_baseline_reduces_the_whole_chunk_on_every_dimension():
    whole = system(dim(), dim(), algorithms=["ring"] * 2, optimization="baseline")
    split = replace(whole, optimization="localBWAware")
    one = collective_ticks(system(dim()), "all_reduce", 2**26)
    assert collective_ticks(whole, "all_reduce", 2**26) == 2 * one
    assert collective_ticks(split, "all_reduce", 2**26) < 1.3 * one
    assert set(OPTIMIZATIONS) == {"baseline", "localBWAware"}


def test_independent_collectives_of_a_step_do_not_overlap():
    made = system(dim(), dim(), algorithms=["ring"] * 2, optimization="localBWAware")
    nodes = [CollectiveNode(collective="all_reduce", size_bytes=2**20, involved=(d == 0, d == 1)) for d in (0, 1)]
    assert step_ticks(made, nodes) == 2 * step_ticks(made, nodes[:1])
    assert step_ticks(made, [nodes[0], ComputeNode(run_ticks=5)]) == step_ticks(made, nodes[:1])


def test_a_cycle_and_a_missing_node_are_named():
    made = system(dim())
    with pytest.raises(InvalidInput, match="node 0 waits"):
        step_ticks(made, [ComputeNode(run_ticks=1, after=(1,)), ComputeNode(run_ticks=1, after=(0,))])
    with pytest.raises(InvalidInput, match="node 0 depends on node 7"):
        step_ticks(made, [ComputeNode(run_ticks=1, after=(7,))])


def test_network_files_are_read_with_lines_or_semicolons():
    lines = "topology: [ Ring, Switch ]\nnpus_count: [ 8, 4 ]\nbandwidth: [ 50.0, 25.0 ]\nlatency: [ 500.0, 1000 ]\n"
    assert parse_network(lines) == parse_network(lines.replace("\n", "; ")) == (dim(), dim(SWITCH, 4, 25.0, 1000.0))


ONE_RING = "topology: [ Ring ]; npus_count: [8]; bandwidth: [1]; latency: [1]"
PLAIN = '{"local-mem-bw": 1}'


@pytest.mark.parametrize(
    ("network", "config", "error", "words"),
    [
        (ONE_RING.replace("Ring", "Torus"), PLAIN, NotModelled, "Torus"),
        (ONE_RING.replace("[8]", "[8, 8]"), PLAIN, InvalidInput, "equally"),
        (ONE_RING.replace("bandwidth: [1]", "bandwidth: [0]"), PLAIN, InvalidInput, "bandwidth must be from"),
        (ONE_RING.replace("[8]", "[many]"), PLAIN, InvalidInput, "npus_count must be a finite number"),
        (ONE_RING.replace("; latency: [1]", ""), PLAIN, InvalidInput, "exactly"),
        ("topology: [", PLAIN, InvalidInput, "not YAML"),
        (ONE_RING, "{", InvalidInput, "not JSON"),
        (ONE_RING, "{}", InvalidInput, "local-mem-bw"),
        (ONE_RING, '{"speed": 1}', NotModelled, "'speed'"),
        (ONE_RING, '{"local-mem-bw": "fast"}', InvalidInput, "local-mem-bw must be a finite number"),
        (ONE_RING, '{"local-mem-bw": 1, "all-reduce-implementation": ["rign"]}', NotModelled, "did you mean ring"),
    ],
)
def test_a_broken_file_says_what_is_wrong(network, config, error, words):
    with pytest.raises(error, match=words):
        parse_system(network, config, is_congestion_aware=False)


def test_what_astra_sim_cannot_do_is_refused():
    with pytest.raises(NotModelled, match="all_to_all"):
        collective_ticks(system(dim(), collective="all_to_all", algorithms=["halvingDoubling"]), "all_to_all", 2**20)
    with pytest.raises(InvalidInput, match="power of two"):
        collective_ticks(system(dim(num_ranks=6), algorithms=["halvingDoubling"]), "all_reduce", 2**20)
    with pytest.raises(InvalidInput, match="cannot be cut"):
        collective_ticks(system(dim(), num_chunks=8), "all_reduce", 4)


@pytest.mark.parametrize("option", ["num_chunks", "num_active_chunks", "num_queues"])
def test_a_system_has_one_of_everything_at_least(option):
    system(dim(), **{option: 1})
    with pytest.raises(InvalidInput, match="1 to"):
        system(dim(), **{option: 0})


@pytest.mark.parametrize("endpoint_ticks", [0, 1])
@pytest.mark.parametrize("kind", [RING, SWITCH, FULLY_CONNECTED])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_messages_that_leave_at_once_find_every_link_free(endpoint_ticks, kind, collective):
    """Three messages of 4096 ticks of link: a ring sends two one way, of which one goes two hops, and a switch all
    three through one port. An all-reduce sends back what it has summed, which is left to the messages of all ranks.
    """
    made = AstraSystem(
        dims=(AstraDim(kind=kind, num_ranks=4, bytes_per_tick=1.0, latency_ticks=100.0),),
        algorithms={collective: ("direct",)},
        endpoint_ticks=endpoint_ticks,
        memory_bytes_per_tick=4096.0,
        is_congestion_aware=True,
    )
    size_bytes = 4096 if collective == "all_gather" else 4 * 4096
    one, reduce_ticks = 4096 + 100, 3
    once = {RING: 4096 + 2 * one, SWITCH: 2 * 4096 + 2 * one, FULLY_CONNECTED: one}[kind]
    adds = collective in ("all_reduce", "reduce_scatter")
    expected = endpoint_ticks + once + endpoint_ticks + adds * reduce_ticks
    if collective != "all_reduce":
        assert collective_ticks(made, collective, size_bytes) == expected
    issues = [Issue(collective=collective, size_bytes=size_bytes)]
    assert simulate(made, issues, "closed") == simulate(made, issues, "ranks")


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [
        ("num_chunks", 1, 100_000),
        ("num_active_chunks", 1, 10**9),
        ("num_queues", 1, 10**9),
        ("endpoint_ticks", 0, 10**12),
        ("memory_bytes_per_tick", 1e-9, 1e12),
        ("num_ranks", 1, 10**9),
        ("bytes_per_tick", 1e-9, 1e12),
        ("latency_ticks", 0, 10**12),
    ],
)
def test_figures_of_a_system_lie_within_their_bounds(field, least, most):
    made = dim() if hasattr(dim(), field) else system(dim())
    for value in (least, most):
        assert getattr(replace(made, **{field: value}), field) == value
    for value in (least - 1e-10 if isinstance(least, float) else least - 1, most + 1):
        with pytest.raises(InvalidInput):
            replace(made, **{field: value})
