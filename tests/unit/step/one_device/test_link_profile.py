"""How busy links are over an iteration: a hold of a link counts in the parts of the iteration that it falls into."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dovetail.comm.endpoint.chunk_network import ChunkNetwork, Station
from dovetail.step.one_device.ace_loop import NUM_PARTS, _profile_frac

PART_S, RATE = 1e-3, 4e9  # lengths of a part; bytes/s of a side


def profile(*spans: tuple[int, float, float], start_s: float = 0.0) -> tuple[float, ...]:
    network = ChunkNetwork(station=Station(num_servers=2, crews=(1,), slots=(1,)), now_s=start_s + NUM_PARTS * PART_S)
    network.spans = list(spans)
    torus = cast("Any", SimpleNamespace(sides=(2,), rate_bytes_per_s=lambda _: RATE))
    return _profile_frac(network, torus, start_s, RATE)


@pytest.mark.parametrize("start_s", [0.0, 0.25])
def test_a_hold_over_three_parts_is_shared_by_the_time_in_each(start_s):
    found = profile((0, start_s + 0.5 * PART_S, start_s + 2.25 * PART_S), start_s=start_s)
    assert found[:4] == pytest.approx((0.5, 1.0, 0.25, 0.0), abs=1e-6)
    assert sum(found) == pytest.approx(1.75)


def test_what_ends_after_the_iteration_is_of_the_next_one_and_servers_that_are_no_links_are_left_out():
    end_s = NUM_PARTS * PART_S
    found = profile((0, end_s - 0.5 * PART_S, end_s + 0.5 * PART_S), (1, 0.0, end_s))
    assert found[0] == pytest.approx(0.5)
    assert found[-1] == pytest.approx(0.5)
    assert sum(found) == pytest.approx(1.0)
