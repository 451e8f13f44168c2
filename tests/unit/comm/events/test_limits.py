"""What nobody would wait for is refused at once, with a way out; what costs nothing more is not."""

from __future__ import annotations

import pytest

from dovetail.comm.events.limits import MOST_ONE_BY_ONE, _check, check_one_by_one
from dovetail.comm.events.program import Collective, Program, Queueing
from dovetail.comm.events.simulate import simulate
from dovetail.comm.one_collective import CollectiveJob, network_answer
from dovetail.errors import InvalidInput
from dovetail.files.network import load_networks

RING = "ring:8@50GB/s,500ns"


def answer(topology=RING, collective="all-reduce", payload_bytes=2.0**40, **more):
    [network] = load_networks(topology)
    return network_answer(CollectiveJob(collective=collective, payload_bytes=payload_bytes, network=network, **more))


@pytest.mark.parametrize("topology", [RING, "ring:4@50GB/s,500ns x switch:2@25GB/s,1us"])
@pytest.mark.parametrize("policy", ["fifo", "lifo"])
def test_more_active_chunks_than_there_are_change_nothing(topology, policy):
    times_s = {
        answer(
            topology, payload_bytes=1e6, num_chunks=4, queueing=Queueing(policy=policy, num_active_chunks=count)
        ).time_s
        for count in (100, 10**9)
    }
    assert len(times_s) == 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"num_chunks": 10**9}, "1,000,000,000 chunks"),
        ({"num_chunks": 10**9, "is_themis": True}, "chunks"),
        ({"num_chunks": 10**6}, "chunks"),
        ({"num_chunks": 1000, "payload_bytes": 100.0}, "at least a byte"),
        ({"topology": "dragonfly:16x8x16@50GB/s,500ns", "collective": "all-to-all"}, "one by one"),
        ({"topology": "fat-tree:2048@50GB/s,500ns,leaf=32", "collective": "all-to-all"}, "one by one"),
    ],
)
def test_what_nobody_would_wait_for_is_refused(more, told):
    with pytest.raises(InvalidInput, match=told):
        answer(**more)


def test_the_advice_for_a_long_line_is_one_that_can_be_followed():
    with pytest.raises(InvalidInput) as caught:
        answer("mesh:65536@50GB/s,500ns", "all-to-all", payload_bytes=1e6)
    assert "halving-doubling" not in str(caught.value)


def test_chunks_of_a_program_are_counted_before_they_are_made():
    [network] = load_networks(RING)

    def cut(count, num_chunks):
        tasks = [
            Collective(name=f"t{i}", collective="all-reduce", payload_bytes=1e6, num_chunks=num_chunks)
            for i in range(count)
        ]
        simulate(network.graph, Program(tasks=tuple(tasks)))

    with pytest.raises(InvalidInput, match=r"of one collective .*got 100,000,000"):
        cut(3, 10**8)
    with pytest.raises(InvalidInput, match=r"of all .*got 1,100,000"):
        cut(11, 10**5)


def test_steps_of_many_chunks_are_counted_before_they_are_run():
    [network] = load_networks("ring:1024@50GB/s,500ns")
    task = Collective(name="t", collective="all-reduce", payload_bytes=1e9, num_chunks=10**4)
    with pytest.raises(InvalidInput, match="got 40,920,000"):
        simulate(network.graph, Program(tasks=(task,)))


@pytest.mark.parametrize(
    ("counts", "whose"),
    [([7], ""), ([8], "of one collective"), ([7] * 10, ""), ([7] * 10 + [1], "of all"), ([], "")],
)
def test_one_collective_may_have_so_many_and_all_together_ten_times_that(counts, whose):
    if not whose:
        _check(counts, 7, "chunks")
        return
    with pytest.raises(InvalidInput, match=whose):
        _check(counts, 7, "chunks")


def test_so_many_messages_are_followed_one_by_one_and_no_more():
    check_one_by_one(MOST_ONE_BY_ONE)
    with pytest.raises(InvalidInput, match="5,000,001"):
        check_one_by_one(MOST_ONE_BY_ONE + 1)
