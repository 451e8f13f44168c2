from __future__ import annotations

import numpy as np
import pytest

from dovetail.cost.costs import op_costs
from dovetail.cost.op_cost import Setting
from dovetail.hardware.catalog import chips
from dovetail.units import MICRO
from dovetail.workload.graph import Phase
from tests.unit.cost.paper import close, costs, limit, op, ops_of, paper, time_s

KERNEL_S, GRADIENT_S, AUTOGRAD_S, OP_S = 2 * MICRO, 30 * MICRO, 500 * MICRO, 7000 * MICRO
HOST = paper(host_kernel_s=KERNEL_S, host_gradient_s=GRADIENT_S, host_autograd_s=AUTOGRAD_S, host_op_s=OP_S)


def attention(phase: Phase):
    return op("attention", b=2, m=128, n=128, k=64, v=64, phase=phase)


def host_s(row) -> float:
    return float(costs(row, HOST).host_s[0])


@pytest.mark.parametrize(
    ("row", "num_gradients", "num_kernels"),
    [
        (op("relu", m=8, n=8, phase=Phase.INPUT_GRAD), 1, 1),
        (op("mul", m=8, n=8, phase=Phase.INPUT_GRAD), 1, 1),
        (op("layernorm", m=8, n=8, phase=Phase.INPUT_GRAD), 3, 2),
        (op("layernorm", m=8, n=8, phase=Phase.INPUT_GRAD, is_fused=True), 3, 3),
        (op("rmsnorm", m=8, n=8, phase=Phase.INPUT_GRAD), 2, 2),
        (op("silu_mul", m=8, n=8, phase=Phase.INPUT_GRAD), 2, 2),
        (op("silu_mul", m=8, n=8, phase=Phase.INPUT_GRAD, is_fused=True), 2, 1),
        (op("embedding", m=8, n=8, k=8, phase=Phase.WEIGHT_GRAD), 1, 2),
        (attention(Phase.INPUT_GRAD), 3, 4),
    ],
)
def test_alone_a_gradient_waits_for_autograd_to_hand_it_out(row, num_gradients, num_kernels):
    floor_s = AUTOGRAD_S + num_gradients * GRADIENT_S + num_kernels * KERNEL_S
    found = costs(row, HOST, Setting.ALONE)
    assert found.compute_s[0] == close(floor_s)
    assert limit(row, HOST, Setting.ALONE) == "launch"
    assert time_s(row, HOST, Setting.KERNEL) < floor_s / 2


@pytest.mark.parametrize("phase", [Phase.FORWARD, Phase.RECOMPUTE, Phase.UPDATE])
def test_alone_nothing_but_gradients_waits_for_the_host(phase):
    for row in (op("relu", m=8, n=8, phase=phase), op("linear", m=8, n=8, k=8, phase=phase), attention(phase)):
        assert time_s(row, HOST, Setting.ALONE) == time_s(row, HOST, Setting.KERNEL)


def test_a_product_is_measured_without_autograd():
    for phase in (Phase.INPUT_GRAD, Phase.WEIGHT_GRAD):
        row = op("linear", m=8, n=8, k=8, phase=phase)
        assert time_s(row, HOST, Setting.ALONE) == time_s(row, HOST, Setting.KERNEL)


def test_a_gradient_longer_than_its_floor_takes_its_own_time():
    chip = paper(hbm_bytes_per_s=1.0, host_autograd_s=AUTOGRAD_S, alone_s=MICRO)
    row = op("relu", m=8, n=8, phase=Phase.INPUT_GRAD)
    assert time_s(row, chip, Setting.ALONE) == close(time_s(row, chip) + MICRO)


def test_an_eager_operator_of_a_layer_costs_its_host_the_same_whatever_it_launches():
    for row in (op("relu", m=8, n=8), op("silu_mul", m=8, n=8), op("linear", m=8, n=8, k=8), attention(Phase.FORWARD)):
        assert host_s(row) == close(OP_S)


def test_a_gradient_costs_its_host_its_node_its_tensors_and_its_kernels():
    assert host_s(op("layernorm", m=8, n=8, phase=Phase.INPUT_GRAD)) == close(
        AUTOGRAD_S + 3 * GRADIENT_S + 2 * KERNEL_S
    )
    assert host_s(op("linear", m=8, n=8, k=8, phase=Phase.INPUT_GRAD)) == close(AUTOGRAD_S + GRADIENT_S + KERNEL_S)
    assert host_s(attention(Phase.INPUT_GRAD)) == close(AUTOGRAD_S + 3 * GRADIENT_S + 4 * KERNEL_S)


def test_the_gradient_of_a_weight_comes_out_of_the_node_of_its_input():
    assert host_s(op("linear", m=8, n=8, k=8, phase=Phase.WEIGHT_GRAD)) == close(GRADIENT_S + KERNEL_S)


def test_compiled_operators_cost_their_host_no_more_than_their_kernels():
    shape = {"m": 8, "n": 8, "is_fused": True, "is_compiled": True}
    compiled = [op("silu_mul", **shape), op("silu_mul", **shape, phase=Phase.INPUT_GRAD)]
    assert [host_s(row) for row in compiled] == [close(KERNEL_S), close(KERNEL_S)]
    beside_eager = op_costs(ops_of(*compiled, op("relu", m=8, n=8)), HOST).host_s
    assert beside_eager.tolist() == [close(KERNEL_S), close(KERNEL_S), close(OP_S)]


def test_hand_fused_operators_cost_their_host_what_eager_ones_do():
    assert host_s(op("silu_mul", m=8, n=8, is_fused=True)) == close(OP_S)


def test_the_hosts_time_does_not_depend_on_the_size_of_the_work():
    rows = [op("layernorm", m=size, n=size, phase=Phase.INPUT_GRAD) for size in (8, 512, 8192)]
    assert np.ptp(op_costs(ops_of(*rows), chips["h200-sxm"]()).host_s) == 0
