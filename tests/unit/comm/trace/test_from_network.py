"""A collective asked of a network, written as ASTRA-sim's files: it reads back as the same and takes as long."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from dovetail.comm.astra.dimensions import algorithms_of, devices_of, dimensions_of, queueing_of
from dovetail.comm.endpoint import Grant
from dovetail.comm.events.fed import Endpoint
from dovetail.comm.events.network_graph import network_graph
from dovetail.comm.events.program import Queueing
from dovetail.comm.one_collective import CollectiveJob, Network, network_answer
from dovetail.comm.trace.from_network import astra_job
from dovetail.comm.trace.nodes import Traces
from dovetail.comm.trace.run_astra import run_astra
from dovetail.comm.trace.run_events import Settings, run_events
from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.astra import network_text, parse_network, parse_system, system_text
from dovetail.files.chakra import encoded, read_rank
from dovetail.files.network import load_networks, with_faults

RING = "ring:8@50GB/s,500ns"
PRODUCT = "ring:4@50GB/s,500ns x switch:4@25GB/s,1us x fully-connected:3@10GB/s,700ns"


def ask(collective, topology=RING, size_bytes=3 * 2**20, **more):
    [network] = load_networks(topology)
    return CollectiveJob(collective=collective, payload_bytes=float(size_bytes), network=network, **more)


def read_back(asked):
    """What the written files say: network, system and traces."""
    theirs = astra_job(asked)
    network = network_text(theirs.system.dims)
    system = parse_system(network, system_text(theirs.system), is_congestion_aware=False)
    ranks = tuple(read_rank(io.BytesIO(encoded(nodes)), "some.et", n) for n, nodes in enumerate(theirs.traces.ranks))
    return parse_network(network), system, Traces(ranks=ranks, groups=theirs.traces.groups)


CASES = {
    "all-reduce over a product": ask("all-reduce", PRODUCT, 48 * 2**16, num_chunks=3),
    "all-gather": ask("all-gather", PRODUCT, 48 * 2**16),
    "reduce-scatter, last come first": ask(
        "reduce-scatter", PRODUCT, num_chunks=4, queueing=Queueing(policy="lifo", num_active_chunks=2)
    ),
    "all-to-all": ask("all-to-all", PRODUCT),
    "along one dimension": ask("all-reduce", PRODUCT, dimensions=("y",)),
    "by named algorithms": ask("all-reduce", PRODUCT, algorithms=(("x", "direct"), ("y", "ring"))),
    "broadcast": ask("broadcast", PRODUCT),
    "reduce": ask("reduce"),
    "groups": ask("all-reduce", groups=((0, 1, 2, 3), (4, 5, 6, 7))),
    "groups that leave some out": ask("all-gather", groups=((0, 2), (4, 6))),
    "point to point": ask("point-to-point", groups=((0, 3), (5, 4))),
    "to the neighbour": ask("point-to-point"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_written_files_take_as_long_as_what_was_asked(case):
    asked = CASES[case]
    dims, system, traces = read_back(asked)
    parts = dimensions_of(dims)
    network = Network(name="read back", parts=parts, graph=network_graph(parts))
    settings = Settings(
        queueing=queueing_of(system), devices=devices_of(system), num_chunks=system.num_chunks,
        algorithms=algorithms_of(system, [part.name for part in parts]),
    )  # fmt: skip
    found = run_events(traces, network, settings)
    assert found.end_s == pytest.approx(network_answer(asked).time_s, rel=1e-9)
    assert found.end_s > 0


@pytest.mark.parametrize("case", CASES)
def test_the_written_files_read_back_as_the_same_network_system_and_traces(case):
    asked = CASES[case]
    theirs = astra_job(asked)
    dims, system, traces = read_back(asked)
    assert system == replace(theirs.system, dims=system.dims)
    assert traces == theirs.traces
    for ours, part in zip(dimensions_of(dims), asked.network.parts, strict=True):
        assert (ours.name, ours.kind, ours.num_devices) == (part.name, part.kind, part.num_devices)
        assert ours.link.bandwidth_bytes_per_s == pytest.approx(part.link.bandwidth_bytes_per_s, rel=1e-12)
        assert ours.link.latency_s == pytest.approx(part.link.latency_s, rel=1e-12)


def test_the_compatibility_mode_runs_them_too():
    _, system, traces = read_back(ask("all-reduce", "switch:8@50GB/s,1us", 2**26))
    events = network_answer(ask("all-reduce", "switch:8@50GB/s,1us", 2**26)).time_s
    assert run_astra(traces, system).end_s == pytest.approx(events, rel=0.05)


def test_a_latency_of_whole_nanoseconds_is_written_as_one():
    text = network_text(astra_job(ask("all-reduce", "ring:4@50GB/s,500ns x switch:4@25GB/s,1us")).system.dims)
    assert "latency: [ 500.0, 500.0 ]" in text


UNSAYABLE = {
    "priority": ask("all-reduce", queueing=Queueing(policy="priority")),
    "Themis": ask("all-reduce", is_themis=True),
    "endpoint ace": ask("all-reduce", endpoint=Endpoint(name="ace", grant=Grant(memory_bytes_per_s=1e11, num_sms=1))),
    "is none": ask("all-reduce", "mesh:4@50GB/s,500ns"),
    "in-switch": ask("all-reduce", "switch:4@50GB/s,500ns", algorithms=(("*", "in-switch"),)),
    "not for groups": ask("all-reduce", groups=((0, 1),), algorithms=(("*", "ring"),)),
    "no algorithm for broadcast": ask("broadcast", algorithms=(("*", "ring"),)),
    "from the lowest up": ask("all-reduce", groups=((1, 0),)),
}


@pytest.mark.parametrize("part", UNSAYABLE)
def test_what_the_files_have_no_words_for_is_refused(part):
    with pytest.raises(NotModelled, match=part):
        astra_job(UNSAYABLE[part])


def test_slow_links_are_refused():
    asked = ask("all-reduce")
    with pytest.raises(NotModelled, match="slow and broken"):
        astra_job(replace(asked, network=with_faults(asked.network, "2-3=0.5")))


def test_a_shard_of_half_bytes_is_refused():
    with pytest.raises(InvalidInput, match=r"whole bytes; got 0\.125"):
        astra_job(ask("all-gather", size_bytes=1))
