"""Laws of narrow formats: fewer bytes are never more traffic, and a narrower product never takes longer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.costs import op_costs
from dovetail.hardware.catalog import chips
from dovetail.workload.experts import Experts
from dovetail.workload.graph import Ops, Phase
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS
from dovetail.workload.optimizer import Precision
from dovetail.workload.scaling_recipes import scaling_recipes
from dovetail.workload.workload import Workload


def mixture_ops(rows: int, width: int, precision: Precision) -> Ops:
    """The operators of a layer of 8 experts, two of which each token chooses, with so many rows each."""
    model = models["mixtral-8x7b"]()
    experts = Experts(num_experts=8, num_experts_per_token=2, width=width)
    narrow = replace(model.architecture, num_layers=1, experts=experts)  # type: ignore[type-var]
    workload = Workload(model=replace(model, architecture=narrow), global_batch=1, seq=4 * rows, precision=precision)
    return next(block.ops for block in workload.training_graph().blocks if block.is_layer)


@settings(max_examples=15, deadline=None)
@given(rows=st.sampled_from((16, 64, 256, 1024, 4096)), width=st.sampled_from((256, 768, 2048)))
def test_narrow_products_of_experts_move_and_take_no_more_than_wide_ones(rows, width):
    """Of each grouped product alone; what is cast for it comes on top."""
    chip = chips["b200"]()
    found = {}
    for compute in ("bf16", "mxfp8"):
        ops = mixture_ops(rows=rows, width=width, precision=Precision(compute=compute))
        costs = op_costs(ops, chip)
        is_product = np.array([OPERATORS[code].name == "expert_linear" for code in ops.kind])
        found[compute] = costs.hbm_bytes[is_product], costs.compute_s[is_product]
    (wide_bytes, wide_s), (narrow_bytes, narrow_s) = found["bf16"], found["mxfp8"]
    assert (narrow_bytes <= wide_bytes * (1 + 1e-12)).all()
    assert (narrow_s <= 1.1 * wide_s).all()  # tiles of narrow operands are filled a little less


@given(st.sampled_from(scaling_recipes.names()), st.sampled_from(scaling_recipes.names()))
def test_a_narrower_recipe_writes_no_more(first, second):
    one, other = scaling_recipes[first], scaling_recipes[second]
    if one.element_bytes <= other.element_bytes:
        assert one.written_bytes <= other.written_bytes


@given(st.sampled_from(scaling_recipes.names()))
def test_casts_of_a_layer_follow_from_its_products(name):
    """Every narrow product has its output gradient cast once, whatever the recipe."""
    workload = Workload(model=models["mixtral-8x7b"](), global_batch=8, seq=512)
    graph = replace(workload, precision=Precision(compute=name)).training_graph()
    ops = next(block.ops for block in graph.blocks if block.is_layer)
    is_cast = np.array([OPERATORS[code].name == "quantize" for code in ops.kind])
    is_narrow = np.array([OPERATORS[code].name in ("linear", "expert_linear") for code in ops.kind])
    is_narrow &= (ops.phase == Phase.FORWARD) & (np.array(ops.names) != "router_gate")
    assert (is_cast & (ops.phase == Phase.INPUT_GRAD)).sum() == is_narrow.sum()
