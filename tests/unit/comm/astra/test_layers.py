"""ASTRA-sim 1.0 text workloads."""

from __future__ import annotations

import pytest

from dovetail.comm.astra.layers import layer_workload
from dovetail.comm.astra.steps import CollectiveNode, ComputeNode
from dovetail.comm.astra.system import SWITCH, AstraDim
from dovetail.errors import InvalidInput, NotModelled

DIMS = tuple(AstraDim(kind=SWITCH, num_ranks=n, bytes_per_tick=50.0, latency_ticks=500.0) for n in (4, 8))
LAYER = "conv -1 10 ALLREDUCE 100 20 ALLGATHER 200 30 ALLREDUCE 300 5"


def workload(first, *layers):
    return layer_workload([first, str(len(layers)), *layers])


@pytest.mark.parametrize(
    ("first", "activations", "gradients"),
    [
        ("DATA", (True, True), (True, True)),
        ("HYBRID_DATA_MODEL", (True, False), (False, True)),
        ("HYBRID_MODEL_DATA", (False, True), (True, False)),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 4", (True, False), (False, True)),
        ("HYBRID_TRANSFORMER model_parallel_NPU_group: 32", (True, True), (False, False)),
    ],
)
def test_the_policy_says_which_dimensions_carry_what(first, activations, gradients):
    nodes = workload(first, LAYER, LAYER).nodes(DIMS)
    seen = {node.size_bytes: node.involved for node in nodes if isinstance(node, CollectiveNode)}
    assert seen[100] == seen[200] == activations
    assert seen.get(300, (False, False)) == gradients


def test_the_first_layer_needs_no_input_gradient_and_updates_wait_for_gradients():
    nodes = workload("DATA", LAYER, LAYER).nodes(DIMS)
    assert sum(node.run_ticks for node in nodes if isinstance(node, ComputeNode)) == 2 * (10 + 30 + 5) + 20
    for number, node in enumerate(nodes):
        if isinstance(node, ComputeNode) and node.run_ticks == 5:
            [before] = node.after
            assert isinstance(nodes[before], CollectiveNode)
            assert before < number


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        (["DATA"], InvalidInput, "at least one layer"),
        (["DATA", "2", LAYER], InvalidInput, "promises 2 layers"),
        (["DATA", "x", LAYER], InvalidInput, "line 2"),
        (["DATA", "1", "conv -1 10"], InvalidInput, "line 3: a layer has 12 columns; got 3"),
        (["DATA", "1", LAYER.replace("30", "-30")], InvalidInput, "line 3: compute"),
        (["DATA", "1", LAYER.replace("ALLGATHER", "ALLGATER")], NotModelled, "did you mean ALLGATHER"),
        (["HYBRID_DLRM", "1", LAYER], NotModelled, "HYBRID_DLRM"),
        (["HYBRID_TRANSFORMER", "1", LAYER], InvalidInput, "model_parallel_NPU_group"),
    ],
)
def test_a_broken_workload_says_what_is_wrong(lines, error, words):
    with pytest.raises(error, match=words):
        layer_workload(lines)


def test_a_group_that_fills_no_dimensions_is_refused():
    found = workload("HYBRID_TRANSFORMER model_parallel_NPU_group: 5", LAYER)
    with pytest.raises(InvalidInput, match="5 is no product of first dimensions of 4x8"):
        found.nodes(DIMS)
