from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.link import Link
from dovetail.hardware.topology import Dimension, Topology, num_ranks
from dovetail.parallel.collectives import OP_COLLECTIVES, op_payload_bytes
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import Plan
from dovetail.parallel.sharding import shard
from dovetail.units import GIGA
from dovetail.workload.graph import Ops, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS, Unit
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph

LINK = Link(bandwidth_bytes_per_s=GIGA, latency_s=0.0)


def topology(*sizes: int) -> Topology:
    return Topology(
        dimensions=tuple(
            Dimension(name=f"d{i}", kind="switch", num_devices=size, link=LINK) for i, size in enumerate(sizes)
        )
    )


class CollectiveCall(NamedTuple):
    """One collective of one microbatch on one device."""

    axis: str
    collective: str
    payload_bytes: float
    phase: Phase


def collective_calls(ops: Ops, plan: Plan) -> tuple[CollectiveCall, ...]:
    """The collectives behind the network rows of `ops`, whose extents are one device's; none for groups of one."""
    place = placement(plan, topology(plan.num_devices))
    rows = np.flatnonzero(ops.unit == Unit.NETWORK)
    found = []
    for row, payload_bytes in zip(rows, op_payload_bytes(ops, rows, plan.context_parallel), strict=True):
        op = OP_COLLECTIVES[OPERATORS[ops.kind[row]].name]
        collective = op.collective(is_sequence_parallel=plan.sequence_parallel)
        if collective and num_ranks(getattr(place, op.group)) > 1:
            found.append(CollectiveCall(op.axis, collective, float(payload_bytes), Phase(int(ops.phase[row]))))
    return tuple(found)


def layer_exchanges(name: str, plan: Plan, seq: int = 1024):
    graph = training_graph(models[name]().forward(Sample(batch=plan.data_parallel, seq=seq, dtype="bf16")), Precision())
    block = [block for _, block in shard(graph, plan).held(0) if block.is_layer][-1]
    return collective_calls(block.ops, plan)


def test_megatron_sends_four_all_reduces_a_layer_without_sequence_parallelism():
    sends = layer_exchanges("gpt3-175b", Plan(tensor_parallel=8))
    assert Counter((s.collective, s.phase) for s in sends) == {
        ("all-reduce", Phase.FORWARD): 2,
        ("all-reduce", Phase.INPUT_GRAD): 2,
    }
    assert {s.payload_bytes for s in sends} == {1024 * 12288 * 2}


def test_full_recompute_adds_the_forward_all_reduces_once_more():
    sends = layer_exchanges("gpt3-175b", Plan(tensor_parallel=8, recompute=("full",)))
    assert Counter(s.phase for s in sends)[Phase.RECOMPUTE] == 2


def test_sequence_parallelism_gathers_and_scatters_in_place_of_all_reduces():
    sends = layer_exchanges("gpt3-175b", Plan(tensor_parallel=8, sequence_parallel=True))
    assert Counter((s.collective, s.phase) for s in sends) == {
        ("all-gather", Phase.FORWARD): 2,
        ("reduce-scatter", Phase.FORWARD): 2,
        ("all-gather", Phase.INPUT_GRAD): 2,
        ("reduce-scatter", Phase.INPUT_GRAD): 2,
        ("all-gather", Phase.WEIGHT_GRAD): 2,  # only the parts were kept
    }


def test_context_parallelism_gathers_keys_and_values_of_the_whole_sequence():
    sends = layer_exchanges("llama3-8b", Plan(context_parallel=4))
    assert {s.axis for s in sends} == {"cp"}
    assert {s.payload_bytes for s in sends} == {1024 * 2 * 8 * 128 * 2}
    assert Counter(s.collective for s in sends) == {"all-gather": 2, "reduce-scatter": 1}


def test_experts_exchange_every_chosen_row_there_and_back_in_both_passes():
    sends = layer_exchanges("mixtral-8x7b", Plan(data_parallel=8, expert_parallel=8))
    assert Counter((s.collective, s.axis, s.phase) for s in sends) == {
        ("all-to-all", "ep", Phase.FORWARD): 2,
        ("all-to-all", "ep", Phase.INPUT_GRAD): 2,
    }
    assert {s.payload_bytes for s in sends} == {2 * 1024 * 4096 * 2}


def test_one_device_sends_nothing():
    assert layer_exchanges("mixtral-8x7b", Plan()) == ()


def test_axes_fill_dimensions_from_the_inside():
    plan = Plan(tensor_parallel=4, context_parallel=2, data_parallel=8, pipeline_parallel=4)
    place = placement(plan, topology(8, 32))
    assert [(s.dimension.name, s.num_ranks, s.stride) for s in place.tensor] == [("d0", 4, 1)]
    assert [(s.dimension.name, s.num_ranks, s.stride) for s in place.context] == [("d0", 2, 4)]
    assert [(s.dimension.name, s.num_ranks, s.stride) for s in place.pipeline] == [("d1", 4, 8)]
    assert num_ranks(place.data) == 16


def test_an_axis_larger_than_a_dimension_reaches_into_the_next():
    place = placement(Plan(tensor_parallel=16, data_parallel=16), topology(8, 32))
    assert [(s.dimension.name, s.num_ranks) for s in place.tensor] == [("d0", 8), ("d1", 2)]


def test_axis_order_decides_what_lies_inside():
    plan = Plan(tensor_parallel=8, data_parallel=8, axis_order=("dp", "tp", "cp", "pp"))
    place = placement(plan, topology(8, 8))
    assert place.data[0].dimension.name == "d0"
    assert place.tensor[0].dimension.name == "d1"


def test_expert_groups_take_the_innermost_ranks_after_expert_tensor_ones():
    plan = Plan(tensor_parallel=2, data_parallel=32, expert_parallel=8, expert_tensor_parallel=2)
    place = placement(plan, topology(8, 8))
    assert [(s.dimension.name, s.num_ranks, s.stride) for s in place.expert_tensor] == [("d0", 2, 1)]
    assert [(s.dimension.name, s.num_ranks) for s in place.expert] == [("d0", 4), ("d1", 2)]
    assert num_ranks(place.expert_data) == 4


def test_an_axis_that_does_not_nest_is_refused():
    with pytest.raises(InvalidInput, match="tp=6 does not nest in network dimensions of 8 x 6 devices"):
        placement(Plan(tensor_parallel=6, data_parallel=8), topology(8, 6))


def test_split_logits_exchange_their_statistics():
    graph = training_graph(models["llama3-8b"]().forward(Sample(batch=1, seq=1024, dtype="bf16")), Precision())
    plan = Plan(tensor_parallel=8)
    head = shard(graph, plan).held(0)[-1][1]
    sends = collective_calls(head.ops, plan)
    assert ("all-reduce", 1024 * 3 * 4) in {(s.collective, s.payload_bytes) for s in sends}
