"""ASTRA-sim's answers as a table."""

from __future__ import annotations

import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import prepared
from dovetail.accuracy.validation import validation
from dovetail.errors import DovetailError

NETWORK = "topology: [ Ring ]; npus_count: [ 8 ]; bandwidth: [ 50.0 ]; latency: [ 500.0 ];"
SYSTEM = '{"all-reduce-implementation": ["ring"], "local-mem-bw": 1600, "endpoint-delay": 10}'
CONFIGURATION = {"backend": "unaware", "topology_yaml": NETWORK, "system_json": SYSTEM, "sim_time_ns": "43025"}
ROW = {"collective": "all_reduce", "comm_size_bytes": "1048576", **CONFIGURATION}
STEP = {"workload": "gpt_like_2layers_tp8_dp1", "nodes_per_npu": "18", **CONFIGURATION}


def one(row, **changes):
    """A table of one row; cells hold commas."""
    cells = row | changes
    return Measurements(name="mine", shown="mine.csv", columns=tuple(cells), rows=(tuple(cells.values()),), lines=(2,))


def test_a_collective_is_met_to_the_nanosecond_and_its_bar_is_judged():
    [found] = validation(list(prepared(one(ROW), TableContext()))).sets
    [judged] = found.scored[0].judged
    assert judged.bar.promise == "astra-sim collectives"
    assert judged.measured_frac == pytest.approx(0.0, abs=1e-12)
    [missed] = validation(list(prepared(one(ROW, sim_time_ns="44000"), TableContext()))).sets
    assert not missed.scored[0].judged[0].holds


def test_a_step_has_as_many_nodes_as_the_table_says():
    with pytest.raises(DovetailError, match="has 18 nodes per rank; the table has 17"):
        prepared(one(STEP, nodes_per_npu="17"), TableContext())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backend": "fast"}, "backend is unaware or aware"),
        ({"topology_yaml": NETWORK.replace("Ring", "Rign")}, "Rign"),
        ({"topology_yaml": NETWORK.replace("npus_count: [ 8 ]; ", "")}, "exactly"),
        ({"system_json": "x"}, "not JSON"),
        ({"system_json": "3"}, "not a table"),
        ({"comm_size_bytes": "-3"}, "must be above 0"),
        ({"collective": "gossip"}, "gossip"),
    ],
)
def test_a_broken_row_is_refused_with_its_place(changes, words):
    with pytest.raises(DovetailError, match=words) as caught:
        prepared(one(ROW, **changes), TableContext())
    assert "mine.csv:2" in str(caught.value)


@pytest.mark.parametrize("names", ['["ring", 3]', '[3, "ring"]', '"ring"'])
def test_every_algorithm_of_a_system_is_a_name(names):
    with pytest.raises(DovetailError, match="must be a list with an algorithm a dimension"):
        prepared(one(ROW, system_json=SYSTEM.replace('["ring"]', names)), TableContext())
