"""One collective asked and answered: what is shown beside its time is true."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dovetail.comm.endpoint import Grant
from dovetail.comm.endpoint.ace_engine import AceDesign, engine_payload_bytes_per_s
from dovetail.comm.events.bounds import bus_share, port_bound_s
from dovetail.comm.events.engine import Simulation
from dovetail.comm.events.fed import Endpoint
from dovetail.comm.events.program import Program
from dovetail.comm.one_collective import CollectiveJob, Network, group_rows, network_answer
from dovetail.comm.torus import ace_torus, all_reduce_phases
from dovetail.errors import InvalidInput, NotModelled
from tests.unit.comm.events.networks import PAYLOAD_BYTES, dimension, network_graph, one

RING = (dimension("x", "bidirectional-ring", 8, latency_s=0.0),)
TWO = (dimension("x", "switch", 4), dimension("y", "bidirectional-ring", 3))


def asked(collective="all-reduce", parts=RING, **options):
    network = Network(name="it", parts=parts, graph=network_graph(parts))
    return CollectiveJob(collective=collective, payload_bytes=PAYLOAD_BYTES, network=network, **options)


def test_a_ring_without_latency_reaches_its_bound_and_fills_its_links():
    found = network_answer(asked())
    assert found.time_s == pytest.approx(2 * 7 / 8 * PAYLOAD_BYTES / 1e11)
    assert found.bound_frac == pytest.approx(1.0)
    assert found.bus_bytes_per_s == pytest.approx(1e11)
    [load] = found.loads
    assert (load.dimension, load.num_devices) == ("x", 8)
    assert load.mean_frac == pytest.approx(1.0)


def test_the_closed_form_stands_beside_events_where_it_applies():
    assert network_answer(asked(parts=TWO)).closed_form_s[0] == pytest.approx(network_answer(asked(parts=TWO)).time_s)
    assert network_answer(asked(parts=TWO, engine="closed")).engine == "closed form"
    assert network_answer(asked(algorithms=(("*", "direct"),))).closed_form_s == ()
    assert network_answer(asked("broadcast")).closed_form_s == ()


def test_point_to_point_goes_from_the_first_of_a_group_to_the_second():
    found = network_answer(asked("point-to-point", groups=((0, 2, 5),)))
    assert found.num_ranks == 2
    assert found.time_s == pytest.approx(PAYLOAD_BYTES / 5e10)  # one of two ports
    assert network_answer(asked("point-to-point")).closed_form_s[0] == pytest.approx(PAYLOAD_BYTES / 5e10)


def test_the_neighbour_of_a_device_alone_in_its_first_dimension_is_along_the_next():
    parts = (dimension("x", "switch", 1), dimension("y", "bidirectional-ring", 8))
    found = network_answer(asked("point-to-point", parts=parts))
    assert found.closed_form_s[0] == pytest.approx(found.time_s)
    assert found.time_s > 0


def test_in_switch_reduction_is_held_to_its_own_bound():
    found = network_answer(asked(parts=(dimension("x", "switch", 8, latency_s=0.0),), algorithms=(("*", "in-switch"),)))
    assert found.bound_frac == pytest.approx(1.0)
    assert found.bound_s == pytest.approx(PAYLOAD_BYTES / 1e11)


def test_the_slower_of_links_and_endpoint_sets_the_time():
    quick, slow = (
        network_answer(asked(endpoint=Endpoint(name="sm-ring", grant=Grant(memory_bytes_per_s=rate))))
        for rate in (1e12, 1e9)
    )
    assert quick.time_s == network_answer(asked()).time_s > quick.endpoint_s > 0
    assert slow.time_s == slow.endpoint_s
    assert slow.endpoint_s == pytest.approx(1000 * quick.endpoint_s)
    assert slow.loads[0].most_frac < 0.1
    ace = network_answer(asked(endpoint=Endpoint(name="ace", grant=Grant(memory_bytes_per_s=1e9))))
    assert ace.endpoint_s == pytest.approx(PAYLOAD_BYTES / 1e9)  # read once, written once


@pytest.mark.parametrize("collective", ["broadcast", "point-to-point"])
def test_endpoints_are_never_free_where_they_are_not_modelled(collective):
    with pytest.raises(NotModelled, match="endpoints are modelled for"):
        network_answer(asked(collective, endpoint=Endpoint(name="ace")))
    with pytest.raises(NotModelled, match="needs switches"):
        network_answer(asked(endpoint=Endpoint(name="in-switch")))


def test_groups_along_a_dimension_differ_in_nothing_else():
    assert group_rows(asked(parts=TWO, dimensions=("x",))).tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    assert group_rows(asked(parts=TWO, dimensions=("y",)))[0].tolist() == [0, 4, 8]
    assert sorted(group_rows(asked(parts=TWO)).ravel()) == list(range(12))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": ((0, 9),)}, "names device 9, but the network has 8 devices"),
        ({"groups": ((0, 1), (2,))}, "equally many devices; that of device 2 has 1"),
        ({"groups": ((0, 1), (1, 2))}, "in two groups"),
        ({"engine": "closed", "num_chunks": 2}, "closed form is of one chunk"),
        ({"engine": "closed", "groups": ((0, 1),)}, "no closed form covers this all-reduce"),
    ],
)
def test_what_cannot_be_answered_is_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        network_answer(asked(**options))


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(InvalidInput, match="did you mean all-reduce"):
        asked("all-reduc")
    with pytest.raises(InvalidInput, match="groups or dimensions"):
        asked(groups=((0, 1),), dimensions=("x",))
    with pytest.raises(InvalidInput, match="no dimension is named 'q'"):
        asked(dimensions=("q",))


def test_what_would_take_minutes_is_refused():
    line, star = (dimension("x", "mesh", 40_000),), (dimension("x", "switch", 40_000),)
    with pytest.raises(InvalidInput, match="chains of more than"):
        network_answer(asked("broadcast", parts=line))
    with pytest.raises(InvalidInput, match="would simulate"):
        network_answer(asked(parts=star, groups=(tuple(range(40_000)),)))
    assert network_answer(asked(parts=star)).engine == "one rank"


@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "all-to-all"])
@pytest.mark.parametrize("kind", ["ring", "bidirectional-ring", "switch", "fully-connected"])
@pytest.mark.parametrize("algorithm", ["", "direct", "halving-doubling"])
def test_one_device_knows_how_busy_the_links_of_all_are(collective, kind, algorithm):
    graph = network_graph((dimension("x", kind, 8), dimension("y", "switch", 2)))
    program = Program(tasks=(one(collective, algorithm=algorithm, num_chunks=2),))
    simulation = Simulation(graph, program, "auto")
    quick, full = simulation.run(), Simulation(graph, program, "all ranks").run()
    if quick.engine == "one rank":
        assert np.allclose(quick.link_busy_s, full.link_busy_s, rtol=1e-9, atol=0)


def test_the_share_of_a_bus_is_what_nccl_counts():
    assert bus_share("all-reduce", 8) == 1.75
    assert bus_share("all-to-all", 8) == 0.875
    assert bus_share("broadcast", 8) == 1.0


def test_one_device_alone_is_bound_by_nothing():
    graph = network_graph((dimension("x", "switch", 1),))
    assert port_bound_s("all-reduce", 1e6, np.array([[0]]), graph) == 0.0
    assert math.isclose(network_answer(asked(parts=(dimension("x", "switch", 1),))).time_s, 0.0)


SWITCH = (dimension("x", "switch", 8, latency_s=0.0),)
GIVEN = Grant(memory_bytes_per_s=1e13)


def test_an_in_switch_endpoint_sends_through_switches_that_add():
    implied = network_answer(asked(parts=SWITCH, endpoint=Endpoint(name="in-switch", grant=GIVEN)))
    named = network_answer(asked(parts=SWITCH, algorithms=(("*", "in-switch"),)))
    assert implied.time_s == pytest.approx(named.time_s)
    assert implied.time_s < 0.6 * network_answer(asked(parts=SWITCH)).time_s
    across = network_answer(asked("all-to-all", parts=SWITCH, endpoint=Endpoint(name="in-switch", grant=GIVEN)))
    assert across.time_s == pytest.approx(network_answer(asked("all-to-all", parts=SWITCH)).time_s)


def test_an_in_switch_endpoint_refuses_another_algorithm_and_devices_joined_without_a_switch():
    end = Endpoint(name="in-switch", grant=GIVEN)
    with pytest.raises(InvalidInput, match="in-switch endpoint sends by in-switch"):
        network_answer(asked(parts=SWITCH, endpoint=end, algorithms=(("*", "ring"),)))
    with pytest.raises(NotModelled, match="needs switches"):
        network_answer(asked(parts=(dimension("x", "fully-connected", 4),), endpoint=end))


def test_the_middle_of_a_line_hands_on_more_of_an_all_to_all_than_a_ring_does():
    end = Endpoint(name="sm-ring", grant=Grant(memory_bytes_per_s=1e9))
    line, ring = (
        network_answer(asked("all-to-all", parts=(dimension("x", kind, 8, latency_s=0.0),), endpoint=end)).endpoint_s
        for kind in ("mesh", "bidirectional-ring")
    )
    assert ring == pytest.approx(2 * PAYLOAD_BYTES / 1e9)
    passing = sum(1 for s in range(8) for d in range(8) if s != d and (min(s, d) < 3 < max(s, d) or s == 3))
    assert line == pytest.approx(passing / 8 * PAYLOAD_BYTES / 1e9)


def test_ace_on_a_long_way_is_held_up_by_its_partitions_and_fsms():
    rings = [(dimension("x", "bidirectional-ring", 8, latency_s=latency_s),) for latency_s in (0.0, 1e-5)]
    near, far = (network_answer(asked(parts=parts, endpoint=Endpoint(name="ace", grant=GIVEN))) for parts in rings)
    assert near.endpoint_s < near.time_s  # chunks leave as fast as links take them
    assert far.endpoint_s == pytest.approx(PAYLOAD_BYTES / (16 * 65536 / (14 * 1e-5 + 65536 * 1.75 / 1e11)))


def test_ace_is_held_up_by_its_sram_banks_on_quick_links():
    parts = (dimension("x", "bidirectional-ring", 8, latency_s=0.0, bandwidth=1e14),)
    found = network_answer(asked(parts=parts, endpoint=Endpoint(name="ace", grant=Grant(memory_bytes_per_s=1e15))))
    through = 1 + 1 + 1.75 + 1.5 * 1.75  # in, out, what arrives, and reads of what is sent
    assert found.endpoint_s == pytest.approx(PAYLOAD_BYTES * through / (4 * 256 * 1.245e9))


def test_ace_on_the_papers_torus_passes_what_the_engine_of_the_training_runs_passes():
    sides = ace_torus(4, 8, 4).sides
    kinds = ("ring", "bidirectional-ring", "bidirectional-ring")
    parts = tuple(
        dimension(side.name, kind, side.num_devices, side.bandwidth_bytes_per_s, side.latency_s)
        for side, kind in zip(sides, kinds, strict=True)
    )
    found = network_answer(asked(parts=parts, endpoint=Endpoint(name="ace", grant=Grant(memory_bytes_per_s=128e9))))
    torus = ace_torus(4, 8, 4)
    passed = engine_payload_bytes_per_s(AceDesign(), torus, all_reduce_phases(torus), 128e9)
    assert PAYLOAD_BYTES / found.endpoint_s == pytest.approx(min(128e9, passed), rel=0.2)


def test_long_chains_are_refused_on_a_line_and_from_one_root_but_not_where_one_device_stands_for_all():
    line, ring = ((dimension("x", kind, 3000),) for kind in ("mesh", "bidirectional-ring"))
    by_ring = {"algorithms": (("*", "ring"),)}
    for collective, parts in (("all-reduce", line), ("broadcast", ring), ("reduce", ring)):
        with pytest.raises(InvalidInput, match="chains of more than 2,048 devices are not simulated; got 3,000"):
            network_answer(asked(collective, parts=parts, **by_ring))
    assert network_answer(asked(parts=ring, **by_ring)).engine == "one rank"
