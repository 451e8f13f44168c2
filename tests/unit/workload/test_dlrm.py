from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.errors import InvalidInput
from dovetail.workload.graph import Axis, Block, Graph
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS, Unit, code_of
from dovetail.workload.optimizer import Precision
from dovetail.workload.recommender import Recommender
from dovetail.workload.training import training_graph

ROWS = Sample(batch=512, seq=1, dtype="fp16")  # rows a device in ACE (Rashidi et al. 2021)
SMALL = Recommender(name="x", bottom=(5, 6, 4), top=(12, 7, 1), num_tables=2, num_table_rows=10, feature_width=4)


def forward_graph() -> Graph:
    return models["dlrm"]().forward(ROWS)


def dense_weights(block: Block) -> int:
    return block.repeat * int(block.ops.weight_elements[block.ops.kind == code_of("linear")].sum())


def test_the_dense_networks_have_the_gradients_of_the_published_workload():
    num_weights = sum(dense_weights(block) for block in forward_graph().blocks)
    assert num_weights == 57_411_584
    assert 2 * num_weights == 114_823_168  # bytes of fp16 gradients in ASTRA-sim's DLRM workload, which has no biases
    assert not any(block.ops.bias_elements.any() for block in forward_graph().blocks)


def test_the_dense_networks_have_the_published_shapes():
    blocks = forward_graph().blocks
    ops = blocks[0].ops
    bottom = [tuple(ops.extents[i, [3, 2]].tolist()) for i in np.flatnonzero(ops.kind == code_of("linear"))]
    assert bottom == [(1600, 1024), *[(1024, 1024)] * 5, (1024, 64)]
    top = [(block.name, block.repeat, *block.ops.extents[1, [3, 2]].tolist()) for block in blocks[1:]]
    assert top == [("top_0", 1, 4160, 2048), ("top_1", 10, 2048, 2048), ("head", 1, 2048, 1)]


def test_the_exchange_carries_every_looked_up_row_of_a_sample():
    ops = forward_graph().blocks[0].ops
    row = ops.names.index("combine")
    assert OPERATORS[ops.kind[row]].unit == Unit.NETWORK
    assert 2 * ops.output_elements[row] == 4_194_304  # bytes: ASTRA-sim's DLRM all-to-all at 512 rows a device


def test_tables_are_split_by_table_and_serve_all_ranks():
    graph = forward_graph()
    ops = graph.blocks[0].ops
    row = ops.names.index("tables")
    assert ops.weight_elements[row] == 64 * 64 * 10**6
    assert ops.weight_split[row] == Axis.EXPERT
    assert ops.splits[row, 1] == Axis.EXPERT | Axis.EXPERT_DATA
    assert ops.output_elements[row] == ROWS.batch * 64 * 64
    assert {rule.axis: rule.count for rule in graph.rules}[Axis.EXPERT] == 64


def test_the_exchange_and_the_bottom_network_do_not_wait_for_each_other():
    block = forward_graph().blocks[0].ops
    reached = {block.names.index("combine")}
    for row in range(len(block)):
        if row in reached:
            reached.update(block.edge_to[block.edge_start[row] : block.edge_start[row + 1]].tolist())
    assert {block.names[row] for row in reached} == {"combine", "join"}


def test_gradients_of_looked_up_rows_are_exchanged_back_to_their_tables():
    step = training_graph(forward_graph(), Precision(compute="fp16"))
    ops = step.blocks[0].ops
    exchanged = ops.names.index("combine:dx")
    assert ops.kind[exchanged] == code_of("dispatch")
    assert "tables:dw" in [ops.names[i] for i in ops.edge_to[ops.edge_start[exchanged] : ops.edge_start[exchanged + 1]]]


def test_dense_features_get_no_gradient():
    names = training_graph(forward_graph(), Precision()).blocks[0].ops.names
    assert "bottom_0:dx" not in names
    assert "bottom_0:dw" in names


@pytest.mark.parametrize(
    ("label", "widths", "message"),
    [
        ("bottom", (5, 6, 3), "must end in feature_width=4.*got 3"),
        ("top", (11, 7, 1), r"\(2 tables \+ 1\) x 4 = 12; got 11"),
    ],
)
def test_networks_that_do_not_fit_the_features_are_refused(label, widths, message):
    with pytest.raises(InvalidInput, match=message):
        replace(SMALL, **{label: widths})


def test_a_small_recommender_counts_its_parameters():
    graph = SMALL.forward(Sample(batch=3, seq=1, dtype="fp32"))
    assert graph.num_parameters == 2 * 10 * 4 + (5 * 6 + 6 * 4) + (12 * 7 + 7 * 1)
    assert graph.num_layers == 1
