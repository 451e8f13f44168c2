"""Orders of axes that nest on a network."""

from dataclasses import replace

from dovetail.hardware.clusters import clusters
from dovetail.parallel.placement import nested, placement
from dovetail.parallel.plan import Plan


def test_an_order_that_nests_is_taken_where_the_usual_one_does_not():
    topology = clusters["gb200-nvl72"].build(2496).topology
    plan = Plan(tensor_parallel=4, pipeline_parallel=16, data_parallel=39)
    found = nested(plan, topology)
    assert found.axis_order != plan.axis_order
    assert [span.num_ranks for span in placement(found, topology).data] == [39]
    usual = Plan(tensor_parallel=4, pipeline_parallel=13, data_parallel=48)
    assert nested(usual, topology) == usual
    own = replace(plan, axis_order=("cp", "tp", "dp", "pp"))  # said, so it stays
    assert nested(own, topology) == own
