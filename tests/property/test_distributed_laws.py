"""Laws of steps of many ranks: more is never faster, nothing is lost, and one rank is the eager step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.hardware.clusters import clusters
from dovetail.step.distributed import distributed_step
from dovetail.step.eager import HostPace, eager_step
from dovetail.step.stream_events import Call, RankProgram, played_out
from tests.unit.step.test_distributed import MIB, call, job, product, recorded

CLUSTER = clusters["dgx-h100"].build(64)
SAME = 1e-9
times = st.floats(0.01, 10.0)


@st.composite
def programs(draw: st.DrawFn) -> RankProgram:
    """A stream of kernels beside one of collectives, with waits from each to the other."""
    count = draw(st.integers(1, 14))
    are_calls = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    waits, calls = [], {}
    held = draw(st.sampled_from([0.0, 0.15, 0.5]))
    for place, is_call in enumerate(are_calls):
        others = [other for other in range(place) if are_calls[other] != is_call]
        waits.append(tuple(draw(st.sets(st.sampled_from(others), max_size=2))) if others else ())
        if is_call:
            calls[place] = Call(
                match=(place,), num_recorded=1, kind="all-reduce", time_s=draw(times), slowdown_frac=held
            )
    return RankProgram(
        rank=0,
        host_s=draw(st.lists(st.sampled_from([0.0, 0.5, 3.0]), min_size=count, max_size=count)),
        kernel_s=[0.0 if is_call else draw(times) for is_call in are_calls],
        launches=[1] * count,
        streams=["comm" if is_call else "" for is_call in are_calls],
        waits=waits,
        is_awaited=[False] * count,
        calls=calls,
    )


def end_s(*ranks: RankProgram) -> float:
    return max(one.end_s for one in played_out(ranks))


@given(programs(), st.floats(0.1, 1.0))
def test_a_faster_link_never_makes_a_step_longer(program: RankProgram, scale: float) -> None:
    faster = {place: replace(call, time_s=scale * call.time_s) for place, call in program.calls.items()}
    assert end_s(replace(program, calls=faster)) <= end_s(program) * (1 + SAME)


@given(programs(), st.data())
def test_one_wait_more_never_makes_a_step_shorter(program: RankProgram, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(program.waits) - 1))
    others = [other for other in range(place) if (other in program.calls) != (place in program.calls)]
    if others:
        more = list(program.waits)
        more[place] = tuple({*more[place], data.draw(st.sampled_from(others))})
        assert end_s(replace(program, waits=more)) >= end_s(program) * (1 - SAME)


@given(programs(), st.floats(1.0, 3.0))
def test_a_slower_host_never_makes_a_step_shorter(program: RankProgram, scale: float) -> None:
    slower = replace(program, host_s=[scale * one for one in program.host_s])
    assert end_s(slower) >= end_s(program) * (1 - SAME)


@given(programs())
def test_a_step_is_no_shorter_than_any_of_its_parts_and_no_longer_than_all(program: RankProgram) -> None:
    [found] = played_out([program])
    kernels_s, calls_s = sum(program.kernel_s), sum(call.time_s for call in program.calls.values())
    assert found.end_s >= max(kernels_s, calls_s) * (1 - SAME)
    assert found.end_s <= (sum(program.host_s) + kernels_s + calls_s) * (1 + SAME)
    parts_s = found.compute_s + found.host_s + found.idle_s + sum(found.exposed_s.values())
    assert parts_s == pytest.approx(found.end_s)
    assert found.compute_s >= kernels_s * (1 - SAME)


@given(programs(), programs())
def test_ranks_that_do_not_meet_do_not_change_one_another(one: RankProgram, other: RankProgram) -> None:
    apart = {place: replace(call, match=("other", place)) for place, call in other.calls.items()}
    assert end_s(one, replace(other, rank=1, calls=apart)) == max(end_s(one), end_s(other))


@given(st.lists(st.sampled_from([128, 512, 2048, 8192]), min_size=1, max_size=12), st.sampled_from([0.01, 1.0, 5.0]))
def test_one_rank_without_collectives_is_the_eager_step(sides: list[int], slowdown: float) -> None:
    ops, host = tuple(map(product, sides)), HostPace(slowdown=slowdown)
    found = distributed_step(job(ops), CLUSTER, host).step_s
    assert found == pytest.approx(eager_step(recorded(*ops), CLUSTER.chip, host).step_s, rel=1e-12)


@given(st.floats(1.0, 4.0), st.integers(1, 6))
def test_a_cluster_of_faster_links_never_takes_longer(factor: float, num_layers: int) -> None:
    ops = []
    for _ in range(num_layers):
        ops.append(call("all-gather", tuple(range(64)), 64 * MIB))
        ops.append(product(2048, waits=(len(ops) - 1,)))
    faster = replace(CLUSTER, topology=CLUSTER.topology.with_links_scaled(factor, factor))
    quick = HostPace(slowdown=1e-6)
    slow_s, fast_s = (distributed_step(job(tuple(ops)), one, quick).step_s for one in (CLUSTER, faster))
    assert fast_s <= slow_s * (1 + SAME)
