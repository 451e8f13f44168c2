"""Traces by both engines: recorded steps to the nanosecond, agreement where both apply, and faults by name."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import pytest

from dovetail.comm.astra.dimensions import astra_dims_of, dimensions_of, plain_system
from dovetail.comm.astra.steps import gpt_like_step
from dovetail.comm.events.recording import Watch
from dovetail.comm.trace.from_layers import trace_of
from dovetail.comm.trace.nodes import TraceNode, Traces, check_rank
from dovetail.comm.trace.run_astra import run_astra
from dovetail.comm.trace.run_events import run_events
from dovetail.comm.trace.waits import WAITS
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.astra import parse_system
from dovetail.files.chakra import encoded, read_rank
from dovetail.files.measurements import shipped_folder
from dovetail.files.network import load_networks
from dovetail.hardware.topology import Dimension

[NETWORK] = load_networks("ring:4@100GB/s,1us")
SYSTEM = plain_system(astra_dims_of(NETWORK.parts), is_congestion_aware=False)
ENGINES = {
    "events": lambda traces: run_events(traces, NETWORK),
    "astra-sim": lambda traces: run_astra(traces, SYSTEM),
}
both = pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)


def compute(id_, after=(), duration_s=1e-3):
    return TraceNode(id=id_, name=f"c{id_}", duration_s=duration_s, after=after)


def reduce(id_, after=(), size_bytes=4 * 10**6, **more):
    return TraceNode(
        id=id_, name="ar", kind="collective", collective="all-reduce", size_bytes=size_bytes, after=after, **more
    )


def send(id_, target, after=(), tag=0):
    return TraceNode(id=id_, name="s", kind="send", target=target, tag=tag, size_bytes=10**6, after=after)


def receive(id_, source, after=(), tag=0):
    return TraceNode(id=id_, name="r", kind="receive", source=source, tag=tag, size_bytes=10**6, after=after)


def ranks(*four, **more):
    return Traces(ranks=tuple(four), **more)


def test_every_recorded_step_is_reproduced_from_its_trace():
    with (shipped_folder("astra-sim") / "astra_steps.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            system = parse_system(
                row["topology_yaml"], row["system_json"], is_congestion_aware=row["backend"] == "aware"
            )
            nodes = trace_of(gpt_like_step(row["workload"]).nodes())
            again = read_rank(io.BytesIO(encoded(nodes)), "step.0.et", 0)
            found = run_astra(Traces(ranks=(again,) * system.num_ranks), system)
            assert round(found.end_s * 1e9) == int(row["sim_time_ns"]), row["workload"]


def test_a_network_keeps_its_links_on_the_way_to_astra_sim_and_back():
    [network] = load_networks("ring:8@50GB/s,500ns x switch:4@25GB/s,1us x fully-connected:4@30GB/s,2us")
    there = astra_dims_of(network.parts)
    assert [dim.latency_ticks for dim in there] == pytest.approx([500, 500, 2000])
    assert [dim.bytes_per_tick for dim in there] == pytest.approx([25, 25, 10])
    for ours, theirs in zip(network.parts, dimensions_of(there), strict=True):
        assert isinstance(ours, Dimension)
        assert (theirs.kind, theirs.num_devices) == (ours.kind, ours.num_devices)
        assert theirs.link.bandwidth_bytes_per_s == pytest.approx(ours.link.bandwidth_bytes_per_s)
        assert theirs.link.latency_s == pytest.approx(ours.link.latency_s)


@both
def test_ranks_that_do_the_same_end_together_and_hide_what_they_can(run):
    nodes = (compute(0), reduce(1, after=(0,)), compute(2, after=(0,)), compute(3, after=(1, 2)))
    found = run(ranks(*(nodes,) * 4))
    assert len({one.end_s for one in found.ranks}) == 1
    assert found.end_s == pytest.approx(3e-3)
    assert found.ranks[0].exposed_s == pytest.approx(0.0, abs=1e-12)


@both
def test_one_rank_stands_for_all_as_well_as_all_do(run):
    nodes = (compute(0), reduce(1, after=(0,)), reduce(2, after=(1,), size_bytes=8 * 10**6))
    alike = run(ranks(*(nodes,) * 4))
    apart = run(ranks(nodes, nodes, nodes, (*nodes, TraceNode(id=9, kind="metadata", after=(2,)))))
    assert [one.end_s for one in apart.ranks] == pytest.approx([alike.end_s] * 4, rel=1e-6)


@both
def test_everybody_waits_for_a_straggler(run):
    quick, slow = ((compute(0, duration_s=s), reduce(1, after=(0,))) for s in (1e-3, 5e-3))
    alone = run(ranks(*(quick,) * 4)).end_s
    found = run(ranks(quick, quick, slow, quick))
    assert found.end_s == pytest.approx(alone + 4e-3, rel=1e-6)
    assert found.ranks[0].exposed_s > 4e-3


@both
def test_a_send_meets_its_receive(run):
    last = (compute(0),)
    found = run(ranks((compute(0), send(1, 1, after=(0,))), (receive(0, 0), compute(1, after=(0,))), last, last))
    assert found.ranks[1].end_s > 2e-3 + 1e-6
    assert found.ranks[2].end_s == pytest.approx(1e-3)


@both
def test_groups_are_named_in_a_file(run):
    inner = (reduce(0, group="all"),)
    found = run(ranks(*(inner,) * 4, groups={"all": (0, 1, 2, 3)}))
    assert found.end_s == pytest.approx(run(ranks(*((reduce(0),),) * 4)).end_s)


IDLE = (compute(0),)
FAULTS = {
    "a send nobody receives": ((IDLE, (send(7, 2),), IDLE, IDLE), {}, ("rank 1", "7", "never receives")),
    "a receive nobody sends": ((IDLE, (receive(7, 2),), IDLE, IDLE), {}, ("rank 1", "7", "never sends")),
    "another tag": ((IDLE, (send(7, 2),), (receive(8, 1, tag=5),), IDLE), {}, ("rank", "never")),
    "a member that never joins": (((reduce(5),), (reduce(5),), (reduce(5),), IDLE), {}, ("5", "rank 3", "never joins")),
    "an unknown group": (((reduce(5, group="tp"),), IDLE, IDLE, IDLE), {}, ("rank 0", "node 5", "'tp'")),
    "a group without oneself": (
        ((reduce(5, group="tp"),), IDLE, IDLE, IDLE), {"groups": {"tp": (1, 2)}}, ("node 5", "does not have rank 0"),
    ),
    "a group with a missing device": (
        ((reduce(5, group="tp"),), IDLE, IDLE, IDLE), {"groups": {"tp": (0, 9)}}, ("rank 9", "4 devices"),
    ),
    "a peer that is not there": ((IDLE, (send(7, 12),), IDLE, IDLE), {}, ("rank 1", "node 7", "12")),
    "itself as peer": ((IDLE, (send(7, 1),), IDLE, IDLE), {}, ("rank 1", "node 7")),
    "too few ranks": ((IDLE, IDLE), {}, ("4 devices", "2 ranks")),
    "two sizes": (((reduce(5),), (reduce(5, size_bytes=9),), (reduce(5),), (reduce(5),)), {}, ("rank 1", "asks for")),
    "waiting for each other": (
        ((receive(0, 1), send(1, 1, after=(0,))), (receive(0, 0), send(1, 0, after=(0,))), IDLE, IDLE), {}, ("rank 0",),
    ),
}  # fmt: skip


@both
@pytest.mark.parametrize("case", FAULTS)
def test_what_never_ends_names_rank_and_node(run, case):
    given, more, words = FAULTS[case]
    with pytest.raises(InvalidInput) as caught:
        run(ranks(*given, **more))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@both
def test_what_is_not_modelled_is_not_free(run):
    for node in (replace(reduce(4), collective="gather"), TraceNode(id=4, kind="load", tensor_bytes=5)):
        with pytest.raises(NotModelled, match="rank 0, node 4"):
            run(ranks(*((node,),) * 4))


def test_astra_sim_runs_one_collective_at_a_time_and_events_share_the_links():
    [torus] = load_networks("switch:4@100GB/s,1us x switch:4@100GB/s,1us")
    nodes = tuple(reduce(number, involved=(number == 0, number == 1)) for number in (0, 1))
    traces = Traces(ranks=(nodes,) * 16)
    alone = Traces(ranks=(nodes[:1],) * 16)
    system = plain_system(astra_dims_of(torus.parts), is_congestion_aware=False)
    assert run_astra(traces, system).end_s == pytest.approx(2 * run_astra(alone, system).end_s)
    assert run_events(traces, torus).end_s == pytest.approx(run_events(alone, torus).end_s)


def test_the_critical_path_ends_last_and_has_no_gap_where_nothing_waits():
    nodes = (compute(0), reduce(1, after=(0,)), compute(2, after=(1,)), compute(3, duration_s=1e-6))
    found = run_events(ranks(*(nodes,) * 4), NETWORK)
    assert [one.task.split()[0] for one in found.critical][-3:] == ["0", "1", "2"]
    assert found.critical[-1].end_s == found.end_s


def test_a_cycle_is_told_with_its_nodes():
    with pytest.raises(DovetailError, match=r"4 -> 5 -> 6 -> 4 \(rank 2, node 4"):
        check_rank((compute(4, (5,)), compute(5, (6,)), compute(6, (4,)), compute(7, (4,))), 2)
    with pytest.raises(
        DovetailError, match=r"(?<!4 -> )5 -> 6 -> 5 \(rank 0, node 5"
    ):  # what leads into it is no part of it
        check_rank((compute(4, (5,)), compute(5, (6,)), compute(6, (5,))), 0)


def test_ranks_are_alike_only_where_they_name_no_group_and_no_partner():
    """A group or a partner means another rank to each of them, whatever their nodes say."""
    for node in (reduce(1, group="0"), send(1, 1), receive(1, 1)):
        assert not ranks(*((compute(0), node),) * 4).are_identical
    assert ranks(*((compute(0), reduce(1)),) * 4).are_identical
    assert not ranks(*((compute(0),),) * 3, (compute(0, duration_s=2e-3),)).are_identical


def test_astra_sim_says_when_every_node_began_and_ended():
    late = (compute(0, duration_s=3e-3), compute(1, after=(0,)), reduce(2, after=(0,)))
    soon = (compute(0), compute(1, after=(0,)), reduce(2, after=(0,)))
    found = run_astra(ranks(late, soon, soon, soon), SYSTEM, Watch())
    [record] = found.record
    slices = [(one.device, one.begin_s, one.end_s) for one in record.streams]
    assert slices == sorted(slices)
    nodes = [one for one in record.streams if one.stream != WAITS]
    of = {(one.device, one.task): one for one in nodes}
    assert len(of) == len(nodes) == 12
    for rank, first_s in enumerate((3e-3, 1e-3, 1e-3, 1e-3)):
        assert (of[rank, "0 c0"].begin_s, of[rank, "0 c0"].end_s) == pytest.approx((0.0, first_s))
        assert (of[rank, "1 c1"].begin_s, of[rank, "1 c1"].end_s) == pytest.approx((first_s, first_s + 1e-3))
        assert of[rank, "2 ar"].begin_s == pytest.approx(first_s)  # and then waits for the last
        assert of[rank, "2 ar"].end_s == pytest.approx(3e-3 + 131_695e-9)  # as ASTRA-sim times 4 MB on this ring
        waits = [(one.begin_s, one.end_s) for one in record.streams if one.stream == WAITS and one.device == rank]
        is_late = rank == 0  # it computes until after the collective has ended
        assert waits == ([] if is_late else [pytest.approx((2e-3, 3e-3 + 131_695e-9))])


def test_astra_sim_records_the_ranks_asked_for_or_one_that_stands_for_all():
    alike = ranks(*((compute(0), reduce(1, after=(0,))),) * 4)
    [one] = run_astra(alike, SYSTEM, Watch(devices=(2,))).record
    assert (one.devices, one.num_identical) == ((0,), 4)
    assert [found.task for found in one.streams if found.stream != WAITS] == ["0 c0", "1 ar"]
    others = ranks(*((compute(0), reduce(1, after=(0,))),) * 3, (compute(0, duration_s=2e-3), reduce(1, after=(0,))))
    [some] = run_astra(others, SYSTEM, Watch(devices=(3, 1))).record
    assert (some.devices, some.num_identical) == ((1, 3), 1)
    assert {one.device for one in some.streams} == {1, 3}
