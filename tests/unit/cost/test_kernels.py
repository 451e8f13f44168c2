from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dovetail.cost.costs import op_costs
from dovetail.cost.kernels import BACKWARD, FORWARD, FUSED_BACKWARD, FUSED_FORWARD, Access, Kernel, launches
from dovetail.cost.op_cost import Setting
from dovetail.hardware.catalog import chips
from dovetail.workload.graph import Ops, Phase
from dovetail.workload.operators import OPERATORS, Operator, Unit
from dovetail.workload.optimizers import update_operator_names
from tests.unit.cost.paper import op, ops_of, paper

TABLES: dict[str, dict[str, Any]] = {
    "forward": FORWARD,
    "backward": BACKWARD,
    "fused": FUSED_FORWARD,
    "fused backward": FUSED_BACKWARD,
}
WORKING = [operator for operator in OPERATORS if operator.unit in (Unit.TENSOR, Unit.VECTOR)]
UPDATES = tuple(sorted(update_operator_names()))
# its forward kernel leaves the gradient where the logits were; and what has no gradient
DONE_BEFORE = ("fused_cross_entropy", "constant")
CATALOGUE = [entry() for _, entry in chips.items()]
OWN = Kernel(reads=3, writes=2)


@pytest.mark.parametrize("table", TABLES)
def test_every_name_of_a_table_is_a_vector_operator(table):
    known = {operator.name for operator in OPERATORS if operator.unit == Unit.VECTOR}
    assert set(TABLES[table]) <= known


def test_an_operator_is_looked_up_fused_then_eager_then_is_one_kernel_of_its_own():
    def found(name: str, is_backward: bool, is_fused: bool):
        return launches(name, OWN, is_backward=is_backward, is_fused=is_fused)

    assert found("softmax", False, True).kernels == FUSED_FORWARD["softmax"]
    assert found("softmax", False, False).kernels == FORWARD["softmax"]
    assert found("gelu", False, True).kernels == FORWARD["gelu"]
    assert found("softmax", True, True) == FUSED_BACKWARD["softmax"]
    assert found("softmax", True, False) == BACKWARD["softmax"]
    assert found("gelu", True, True) == BACKWARD["gelu"]
    for is_backward, is_fused in ((False, False), (False, True), (True, False), (True, True)):
        assert found("relu", is_backward, is_fused).kernels == (OWN,)
    assert found("relu", True, False).num_gradients == 1
    assert found("relu", False, False).num_gradients == 0


def test_a_kernel_moves_something_or_says_what_it_is():
    for table in TABLES.values():
        for entry in table.values():
            for kernel in entry if isinstance(entry, tuple) else entry.kernels:
                moves = kernel.reads + kernel.writes + kernel.side_bytes > 0 or kernel.takes_side
                assert moves or kernel.access in (Access.SMALL, Access.PICK)


def every_row(*, is_fused: bool) -> Ops:
    """Every operator that works, in every direction it has."""
    rows = []
    for operator in WORKING:
        if operator.name in UPDATES:
            phases, more = [Phase.UPDATE], {"side_bytes_per_element": 28.0}
        else:
            phases, more = [Phase.FORWARD, Phase.INPUT_GRAD, Phase.WEIGHT_GRAD, Phase.RECOMPUTE], {}
        rows += [row(operator, phase, is_fused=is_fused, **more) for phase in phases]
    return ops_of(*rows)


def row(operator: Operator, phase: Phase, **more):
    image = {"v": 9} if operator.name == "convolution" else {}
    wide = {"v": 64} if operator.name == "attention" else {}
    return op(operator.name, b=2, m=64, n=64, k=72, phase=phase, **image, **wide, **more)


def dtype_for(chip) -> str:
    known = dict(chip.tensor.rates)
    return "bf16" if "bf16" in known else "fp16"


@pytest.mark.parametrize("is_fused", [False, True])
@pytest.mark.parametrize("chip", CATALOGUE, ids=lambda chip: chip.name)
def test_nothing_is_free_on_any_chip_in_any_direction(chip, is_fused):
    ops = every_row(is_fused=is_fused)
    math = np.full(len(ops), ["fp32", "tf32", "bf16", "fp16"].index(dtype_for(chip)))
    found = op_costs(replace(ops, math=math), chip)
    is_done = np.isin(ops.names, DONE_BEFORE) & ops.is_backward
    free = (found.compute_s <= 0) | (found.energy_j <= 0) | (found.hbm_bytes <= 0)
    assert [ops.names[i] for i in np.flatnonzero(free & ~is_done)] == []
    assert np.all(found.clocked_s <= found.compute_s * (1 + 1e-12))  # style: a tolerance
    assert np.all(found.core_j <= found.energy_j)
    for name in ("compute_s", "clocked_s", "energy_j", "core_j", "flop", "hbm_bytes", "host_s"):
        column = getattr(found, name)
        assert np.all(np.isfinite(column) & (column >= 0)), name


@pytest.mark.parametrize("unit", [Unit.NONE, Unit.NETWORK])
def test_names_and_exchanges_are_no_work_of_a_chip(unit):
    rows = [op(operator.name, m=64, n=64, k=64) for operator in OPERATORS if operator.unit == unit]
    found = op_costs(ops_of(*rows), chips["h200-sxm"](), Setting.ALONE)
    assert not found.compute_s.any()
    assert not found.energy_j.any()


def test_fused_never_moves_more_than_eager_nor_launches_more():
    eager, fused = (every_row(is_fused=is_fused) for is_fused in (False, True))
    chip = paper(launch_s=1.0)
    before, after = op_costs(eager, chip), op_costs(fused, chip)
    assert np.all(after.hbm_bytes <= before.hbm_bytes)
    more = after.compute_s > before.compute_s + 0.5
    # a norm's backward and a sum hand their parts over to one small kernel more
    assert {eager.names[i] for i in np.flatnonzero(more)} <= {"layernorm", "rmsnorm", "bias_grad"}


def test_fused_is_never_slower_on_a_gpu_where_rows_are_many():
    rows = [
        op(operator.name, m=16384, n=4096, k=32000, v=64, phase=phase)
        for operator in WORKING
        for phase in (Phase.FORWARD, Phase.INPUT_GRAD)
        if operator.unit == Unit.VECTOR and operator.name not in UPDATES
    ]
    eager = ops_of(*rows)
    fused = replace(eager, is_fused=np.ones(len(eager), dtype=np.bool_))
    chip = chips["h200-sxm"]()
    slower = op_costs(fused, chip).compute_s > op_costs(eager, chip).compute_s
    assert [eager.names[i] for i in np.flatnonzero(slower)] == []


# Tensors of the operator's size that must be read and written, by what the operator is: y = f(x), dx = g(dy, x or y).
# Where a gradient is also summed into weights, its inputs are read once more for that.
LEAST_FORWARD = {
    "silu_mul": (2, 1),  # gate and up
    "gelu_mul": (2, 1),
    "bias_add": (1, 1),
    "transpose": (1, 1),
    "layernorm": (1, 1),
    "rmsnorm": (1, 1),
    "softmax": (1, 1),
    "bias_grad": (1, 0),
}
LEAST_BACKWARD = {
    "silu_mul": (3, 2),  # dy, gate and up; their two gradients
    "gelu_mul": (3, 2),
    "layernorm": (2 + 2, 1),  # dy and x; again for the weights
    "rmsnorm": (2 + 2, 1),
    "softmax": (2, 1),  # dy and y
    "cross_entropy": (1, 1),
    "bias_grad": (1, 0),
}
# What backward gives: a gradient an input that has one, weights and biases among them.
GRADIENTS = {
    "gelu": 1,
    "dropout": 1,
    "layernorm": 3,  # x, weight and bias
    "rmsnorm": 2,  # x and weight
    "softmax": 1,
    "silu_mul": 2,  # gate and up
    "gelu_mul": 2,
    "cross_entropy": 1,
    "embedding": 1,
    "bias_grad": 1,
    "amax": 0,  # of a tensor that is quantised, which is no operator of autograd's
    "expert_bias": 1,
}


def passes(kernels: tuple[Kernel, ...]) -> tuple[float, float]:
    return sum(kernel.reads for kernel in kernels), sum(kernel.writes for kernel in kernels)


def test_a_fused_operator_moves_each_tensor_once():
    assert {name: passes(FUSED_FORWARD[name]) for name in LEAST_FORWARD} == LEAST_FORWARD
    assert {name: passes(entry.kernels) for name, entry in FUSED_BACKWARD.items()} == LEAST_BACKWARD


def test_gradients_by_kernels_of_their_own_move_no_less_than_by_a_fused_one():
    for name, entry in FUSED_BACKWARD.items():
        assert sum(passes(BACKWARD[name].kernels)) >= sum(passes(entry.kernels)), name


def test_every_input_that_has_a_gradient_gets_one():
    assert {name: entry.num_gradients for name, entry in BACKWARD.items()} == GRADIENTS
    assert all(entry.num_gradients == GRADIENTS[name] for name, entry in FUSED_BACKWARD.items())
