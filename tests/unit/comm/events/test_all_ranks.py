"""Clocks of all ranks: who is asked when a moment is wanted, and what counts as out of turn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.comm.events.all_ranks import AllRanks
from dovetail.comm.events.phases import Phases
from dovetail.comm.events.program import Collective, Compute, Devices, Program, Queueing
from dovetail.comm.events.ranks import TOLERANCE_S
from dovetail.comm.events.simulate import simulate
from tests.unit.comm.events.networks import dimension, network_graph

FOUR = network_graph((dimension("x", "switch", 4, 1e11, 0.0),))
PAIR = Collective(name="pair", collective="all-gather", payload_bytes=1e6, groups=((1, 2),))
ALL = Collective(name="all", collective="all-gather", payload_bytes=1e6)


def ranks() -> AllRanks:
    return AllRanks(FOUR, Devices())


def test_first_and_last_are_of_the_ranks_concerned():
    clocks = np.array([1.0, 3.0, 2.0, 4.0, 9.0])  # the last is the switch's, which nobody asks about
    [[pair], [everybody]] = (Phases(FOUR).of_chunk(task, 0) for task in (PAIR, ALL))
    assert (ranks().first_s(clocks, pair), ranks().last_s(clocks, pair)) == (2.0, 3.0)
    assert (ranks().first_s(clocks, everybody), ranks().last_s(clocks, everybody)) == (1.0, 4.0)
    assert (ranks().first_s(clocks, None), ranks().last_s(clocks)) == (1.0, 4.0)
    assert (ranks().earliest_s(clocks, ()), ranks().earliest_s(clocks, (1, 3))) == (1.0, 3.0)


@pytest.mark.parametrize("policy", ["fifo", "lifo", "priority"])
def test_a_group_neither_waits_for_nor_ends_with_a_device_that_is_not_of_it(policy):
    tasks = (Compute(name="late", duration_s=1.0, devices=(3,)), replace(PAIR, after=("late",)))
    timeline = simulate(FOUR, Program(tasks=tasks, queueing=Queueing(policy=policy)), "all ranks")
    [(begin_s, end_s)] = timeline.visits_s.values()
    assert begin_s == 0.0
    assert end_s == pytest.approx(1e6 / 2 / 1e11)


@pytest.mark.parametrize(("ahead_s", "num_wrong"), [(0.0, 0), (TOLERANCE_S, 0), (2 * TOLERANCE_S, 2)])
def test_a_task_that_is_ready_before_one_that_ran_is_counted_but_for_rounding(ahead_s, num_wrong):
    clocks, task = ranks(), Compute(name="a", duration_s=1.0, devices=(0, 2))
    later = clocks.begin()
    later[:] = ahead_s
    clocks.after_compute(later, task)
    clocks.after_compute(clocks.begin(), task)
    assert clocks.num_out_of_order == num_wrong


def test_streams_of_a_device_are_served_one_by_one_and_other_devices_not_at_all():
    clocks = AllRanks(FOUR, Devices(slowdown=np.array([1.0, 2.0, 1.0, 1.0])))
    both = Compute(name="a", duration_s=3.0, devices=(0, 1))
    assert clocks.after_compute(clocks.begin(), both).tolist() == [3.0, 6.0, 0.0, 0.0, 0.0]
    assert clocks.after_compute(clocks.begin(), both).tolist() == [6.0, 12.0, 0.0, 0.0, 0.0]
    other = Compute(name="b", duration_s=3.0, stream="other")
    assert clocks.after_compute(clocks.begin(), other).tolist() == [3.0, 6.0, 3.0, 3.0, 0.0]
