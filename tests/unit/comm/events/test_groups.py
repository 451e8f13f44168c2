"""Groups that fill part of a dimension use its links as well as these allow, all of them at once."""

from __future__ import annotations

import numpy as np
import pytest

from dovetail.comm.one_collective import CollectiveJob, Network, network_answer
from dovetail.units import GIGA, MEGA, MICRO, NANO
from tests.unit.comm.events.networks import dimension, network_graph


def answer(collective, parts, payload_bytes=64 * MEGA, graph=None, **options):
    network = Network(name="it", parts=tuple(parts), graph=graph or network_graph(parts))
    return network_answer(CollectiveJob(collective=collective, payload_bytes=payload_bytes, network=network, **options))


def strided(num_devices, num_ranks, stride):
    grid = np.arange(num_devices).reshape(-1, num_ranks, stride).transpose(0, 2, 1).reshape(-1, num_ranks)
    return tuple(tuple(int(device) for device in row) for row in grid)


def test_opposite_devices_of_a_ring_go_both_ways_round():
    part = dimension("x", "bidirectional-ring", 8, 50 * GIGA, 0.0)
    found = answer("all-gather", (part,), groups=strided(8, 2, 4))
    assert found.time_s == pytest.approx(64 * MEGA / 2 * 2 / (25 * GIGA))  # two messages a link each way
    assert found.loads[0].mean_frac == pytest.approx(1.0)


FIVE_BY_TWO = (
    dimension("x", "bidirectional-ring", 5, 100 * GIGA, 2 * MICRO),
    dimension("y", "bidirectional-ring", 2, 25 * GIGA, 100 * NANO),
)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_every_group_along_a_dimension_has_a_root_of_its_own(collective):
    graph = network_graph(FIVE_BY_TWO)
    slow = graph.with_link_scaled(1, 6, 0.1).with_link_scaled(6, 1, 0.1)
    even, uneven = (answer(collective, FIVE_BY_TWO, MEGA, graph=one, dimensions=("y",)) for one in (graph, slow))
    assert even.time_s == pytest.approx(MEGA / (25 * GIGA) + 100 * NANO)
    assert uneven.time_s == pytest.approx(MEGA / (2.5 * GIGA) + 100 * NANO)
    assert (even.timeline[0].link_busy_s > 0).sum() == even.num_groups == 5


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
def test_several_groups_broadcast_at_once(collective):
    along = answer(collective, FIVE_BY_TWO, MEGA, dimensions=("y",))
    rows = tuple((device, device + 5) for device in range(5))
    assert answer(collective, FIVE_BY_TWO, MEGA, groups=rows).time_s == pytest.approx(along.time_s)
    alone = answer(collective, FIVE_BY_TWO, MEGA, groups=rows[:1])
    assert alone.time_s == pytest.approx(along.time_s)
    turned = tuple(row[::-1] if row[0] % 2 else row for row in rows)  # roots that do not lie alike
    assert answer(collective, FIVE_BY_TWO, MEGA, groups=turned).time_s == pytest.approx(along.time_s)


def test_a_broadcast_over_two_dimensions_reaches_every_device_of_every_group():
    parts = (dimension("x", "switch", 3), dimension("y", "switch", 2), dimension("z", "switch", 4))
    found = answer("broadcast", parts, dimensions=("x", "z"))
    targets = found.job.network.graph.target[found.timeline[0].link_busy_s > 0]
    assert set(targets[targets < 24].tolist()) == set(range(24)) - {0, 3}
