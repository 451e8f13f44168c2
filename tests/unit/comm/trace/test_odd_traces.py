"""Traces that do not fit together, each told truly, and ranks that are slower than others."""

from __future__ import annotations

import re

import pytest

from dovetail.comm.astra.dimensions import astra_dims_of, plain_system
from dovetail.comm.trace.nodes import TraceNode, Traces, check_count
from dovetail.comm.trace.run_astra import run_astra
from dovetail.comm.trace.run_events import Settings, run_events
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.files.network import load_networks

[NETWORK] = load_networks("ring:2@100GB/s,1us")
[FOUR] = load_networks("ring:4@100GB/s,1us")
SYSTEM = plain_system(astra_dims_of(NETWORK.parts), is_congestion_aware=False)
ENGINES = {
    "events": lambda *ranks: run_events(Traces(ranks=ranks), NETWORK),
    "astra-sim": lambda *ranks: run_astra(Traces(ranks=ranks), SYSTEM),
}
both = pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)


def send(id_, target, size_bytes=8, after=()):
    return TraceNode(id=id_, name="s", kind="send", target=target, size_bytes=size_bytes, after=after)


def receive(id_, source, size_bytes=8, after=()):
    return TraceNode(id=id_, name="r", kind="receive", source=source, size_bytes=size_bytes, after=after)


def collective(id_, kind="all-reduce", size_bytes=1024, after=()):
    return TraceNode(id=id_, name="c", kind="collective", collective=kind, size_bytes=size_bytes, after=after)


def compute(id_, duration_s=1e-3, after=()):
    return TraceNode(id=id_, name="k", duration_s=duration_s, after=after)


@both
@pytest.mark.parametrize("late", [0, 1])
def test_a_message_of_another_size_than_is_waited_for_is_refused(run, late):
    one = (compute(0), send(1, 1, 1, after=(0,) if late else ()))
    two = (compute(0), receive(1, 0, 2, after=() if late else (0,)))
    with pytest.raises(InvalidInput) as caught:
        run(one, two)
    for word in ("rank 0", "rank 1", "sends 1 bytes", "waits for 2 bytes", "node "):
        assert word in str(caught.value)


@both
def test_receives_that_wait_for_each_other_are_not_said_to_lack_a_send(run):
    with pytest.raises(InvalidInput) as caught:
        run((receive(0, 1), send(1, 1, after=(0,))), (receive(0, 0), send(1, 0, after=(0,))))
    assert "never sends it" not in str(caught.value)
    assert re.search("wait", str(caught.value))


@both
def test_a_receive_without_any_send_is_told_so(run):
    with pytest.raises(InvalidInput, match="rank 1, which never sends it"):
        run((receive(0, 1),), (compute(0),))


@both
def test_sizes_in_a_message_are_those_of_the_trace(run):
    with pytest.raises(InvalidInput) as caught:
        run((collective(0),), (collective(0, "all-gather"),))
    assert "1024" in str(caught.value)
    assert "2048" not in str(caught.value)


@pytest.mark.parametrize(("kind", "is_modelled"), [("barrier", False), ("gather", False), ("broadcast", True)])
def test_the_other_engine_is_named_only_where_it_models_the_collective(kind, is_modelled):
    with pytest.raises(NotModelled) as caught:
        ENGINES["astra-sim"]((collective(0, kind),), (collective(0, kind),))
    assert ("--engine events" in str(caught.value)) == is_modelled


def test_a_rank_at_half_speed_computes_twice_as_long_and_the_others_wait_for_it():
    nodes = (compute(0), collective(1, after=(0,)), compute(2, after=(1,)))
    traces = Traces(ranks=(nodes,) * 4)
    plain = run_events(traces, FOUR)
    slow = run_events(traces, FOUR, Settings().with_speeds({2: 0.5}, 4))
    assert [one.compute_s for one in slow.ranks] == pytest.approx([2e-3, 2e-3, 4e-3, 2e-3])
    by_rank = [one.end_s for one in slow.ranks]
    assert by_rank[2] == pytest.approx(plain.end_s + 2e-3)
    assert by_rank[0] == pytest.approx(plain.end_s + 1e-3)  # waits for the reduction, not for the last kernel


def test_a_chunk_holds_at_least_a_byte():
    traces = Traces(ranks=((collective(0, size_bytes=4),),) * 4)
    ends_s = {run_events(traces, FOUR, Settings(num_chunks=count)).end_s for count in (4, 64)}
    assert len(ends_s) == 1
    assert run_events(traces, FOUR).end_s not in ends_s


@pytest.mark.parametrize("speeds", [{4: 0.5}, {0: 0.0}, {0: float("nan")}, {0: float("inf")}])
def test_a_speed_that_cannot_be_is_refused(speeds):
    with pytest.raises(DovetailError, match="--slow-ranks"):
        Settings().with_speeds(speeds, 4)


@pytest.mark.parametrize(("num_ranks", "words"), [(1, ("2", "1")), (3, ("2", "3"))])
def test_there_is_a_trace_for_every_device_and_for_nothing_else(num_ranks, words):
    check_count(Traces(ranks=((compute(0),),) * 2), (2,))
    with pytest.raises(InvalidInput, match=f"{words[0]} devices.*{words[1]} ranks"):
        check_count(Traces(ranks=((compute(0),),) * num_ranks), (2,))


def test_the_last_rank_of_a_group_may_be_the_last_device_and_none_beyond():
    ranks = ((compute(0),),) * 6
    check_count(Traces(ranks=ranks, groups={"all": (0, 3, 5)}), (2, 3))
    with pytest.raises(InvalidInput, match=r"rank 6.* 6 devices"):
        check_count(Traces(ranks=ranks, groups={"all": (0, 3, 6)}), (2, 3))


def test_the_peer_of_a_message_is_another_device_of_the_network():
    for peer in (1, 2):
        ranks = ((send(0, peer),), (compute(0),), (receive(0, 0),))
        check_count(Traces(ranks=ranks), (3,))
    for node in (send(7, 0), send(7, 3), receive(7, 0), receive(7, 3)):
        with pytest.raises(
            InvalidInput, match=f"rank below 3; got {node.target if node.kind == 'send' else node.source}"
        ):
            check_count(Traces(ranks=((node,), (compute(0),), (compute(0),))), (3,))
