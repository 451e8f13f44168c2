"""Placements small enough to work out by hand, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.search.planners.placement.chain import Chain
from dovetail.search.planners.placement.placed import best_placement, placement_of
from dovetail.search.planners.placement.problem import LayerRun, Placement, PlacementProblem, Unplaced, Variant
from dovetail.search.planners.placement.reach import is_greedy_exact

LAYER = LayerRun(
    num_layers=4,
    forward_s=1.0,
    backward_s=2.0,
    weight_bytes=10.0,
    activation_bytes=5.0,
    incoming_bytes=1.0,
    is_sharded=False,
)
CHAIN = Variant(tensor_parallel=1, num_microbatches=8, runs=(LAYER,))
PROBLEM = PlacementProblem(variants=(CHAIN,), num_devices=4, memory_bytes=1e6, link_bytes_per_s=1e9, recompute="never")


def placed(problem):
    found = best_placement(problem)
    assert isinstance(found, Placement)
    return found


def test_with_room_and_a_fast_link_copies_beat_stages():
    found = placed(PROBLEM)
    assert (len(found.stages), found.data_parallel) == (1, 4)
    assert found.batch_s == pytest.approx(12 * 2, rel=1e-6)


def test_with_a_slow_link_stages_beat_copies():
    found = placed(replace(PROBLEM, link_bytes_per_s=5.0))
    assert found.data_parallel == 1
    assert [stage.num_layers for stage in found.stages] == [1, 1, 1, 1]
    assert found.batch_s == pytest.approx((3 + 2 / 5) * (8 + 3))


def test_the_first_stage_gets_fewer_layers_when_it_must_hold_more():
    """Stage by stage from the end a layer needs 2 x 10 + 5 times the microbatches under way: 25, 30 and 35 bytes."""
    chain = replace(CHAIN, runs=(replace(LAYER, num_layers=7),), num_microbatches=100)
    found = placed(replace(PROBLEM, variants=(chain,), num_devices=3, memory_bytes=80.0))
    assert [stage.num_layers for stage in found.stages] == [2, 2, 3]


def test_recompute_is_chosen_where_memory_asks_for_it_and_nowhere_else():
    chain = replace(CHAIN, runs=(replace(LAYER, num_layers=8, activation_bytes=20.0),), num_microbatches=100)
    problem = replace(PROBLEM, variants=(chain,), memory_bytes=130.0)
    assert isinstance(best_placement(problem), Unplaced)
    found = placed(replace(problem, recompute="per-stage"))
    assert [stage.recomputes for stage in found.stages] == [True, True, False, False]
    assert found.pace_s == pytest.approx(8, rel=1e-6)


def test_a_stage_without_sharded_layers_takes_one_device():
    free = replace(LAYER, num_layers=1, is_sharded=False, forward_s=0.0, backward_s=0.0)
    sharded = replace(LAYER, is_sharded=True, num_layers=2, weight_bytes=30.0)
    variant = Variant(tensor_parallel=2, num_microbatches=4, runs=(free, sharded))
    problem = replace(PROBLEM, variants=(variant,), num_devices=3, memory_bytes=140.0)
    assert not is_greedy_exact(Chain(problem, variant))
    assert [stage.num_devices for stage in placed(problem).stages] == [1, 2]


def test_what_fits_nowhere_is_an_answer():
    found = best_placement(replace(PROBLEM, memory_bytes=10.0))
    assert isinstance(found, Unplaced)
    assert "4 devices" in found.reason


def test_long_chains_place_every_layer_once():
    layer = replace(LAYER, incoming_bytes=0.001)
    chain = replace(CHAIN, runs=(replace(layer, num_layers=1, weight_bytes=0.0), replace(layer, num_layers=5000)))
    found = placed(replace(PROBLEM, variants=(chain,), num_devices=2048, memory_bytes=200.0, recompute="always"))
    assert sum(stage.num_layers for stage in found.stages) == 5001
    firsts = [stage.first_layer for stage in found.stages]
    assert firsts == sorted(set(firsts))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"variants": ()}, "at least one variant"),
        ({"recompute": "sometimes"}, "never, always, per-stage"),
        ({"memory_bytes": 0.0}, "must be positive"),
        ({"num_devices": 0}, "at least 1"),
    ],
)
def test_an_impossible_problem_is_refused(change, said):
    with pytest.raises(InvalidInput, match=said):
        replace(PROBLEM, **change)


@pytest.mark.parametrize("label", ["forward_s", "weight_bytes", "incoming_bytes"])
@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_run_with_an_impossible_quantity_is_refused(label, value):
    with pytest.raises(InvalidInput, match=label):
        replace(LAYER, **{label: value})


@pytest.mark.parametrize(
    ("ends", "copies", "said"),
    [
        ((2, 3), 1, "must end in order and at layer 4"),
        ((3, 3, 4), 1, "must end in order"),
        ((), 1, "must end in order"),
        ((1, 2, 4), 2, "needs 6 devices and there are 4"),
    ],
)
def test_a_cut_that_cannot_be_is_refused(ends, copies, said):
    with pytest.raises(InvalidInput, match=said):
        placement_of(PROBLEM, CHAIN, copies, ends)


def test_a_cut_that_does_not_fit_is_refused():
    with pytest.raises(InvalidInput, match="stage 0 of the cut does not fit"):
        placement_of(replace(PROBLEM, memory_bytes=30.0), CHAIN, 1, (2, 3, 4))
