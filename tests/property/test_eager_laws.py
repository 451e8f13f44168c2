"""Laws of eager kernels: more elements never take less, operands in order never more than turned, order is nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dovetail.cost.eager.iterator import iteration
from dovetail.cost.eager.times import eager_times
from dovetail.cost.op_cost import Setting
from dovetail.hardware.catalog import chips
from dovetail.workload.dispatched import DispatchedOp, TensorMeta
from tests.unit.cost.eager.dispatched import call, dense, turned

EXAMPLES = settings(max_examples=40, deadline=None)
ROUNDING = 1e-9  # style: a tolerance
GPUS = [chips[name]() for name in ("h200-sxm", "h100-sxm", "a100-80gb-sxm")]
sides = st.integers(1, 4096)
names = st.sampled_from(["add.Tensor", "mul.Tensor", "silu.default", "exp.default", "neg.default", "relu.default"])
dtypes = st.sampled_from(["bf16", "fp32"])
how = st.sampled_from([Setting.STREAM, Setting.KERNEL])


def seconds(op: DispatchedOp, chip=GPUS[0], setting=Setting.KERNEL) -> float:
    return float(eager_times([op], chip, setting).kernel_s[0])


@EXAMPLES
@given(names, sides, sides, st.integers(1, 4), dtypes, st.sampled_from(GPUS), how)
def test_more_rows_never_take_less(name, rows, cols, more, dtype, chip, setting):
    few, many = dense(rows, cols, dtype=dtype), dense(rows * more, cols, dtype=dtype)
    assert seconds(call(name, (few,), few), chip, setting) <= seconds(call(name, (many,), many), chip, setting) * (
        1 + ROUNDING
    )


@EXAMPLES
@given(sides, sides, dtypes)
def test_operands_in_order_never_take_longer_than_the_same_turned(rows, cols, dtype):
    x, out = dense(rows, cols, dtype=dtype), dense(rows, cols, dtype=dtype)
    other = turned(dense(cols, rows, dtype=dtype))
    in_order = seconds(call("add.Tensor", (x, x), out))
    assert in_order <= seconds(call("add.Tensor", (x, other), out)) * (1 + ROUNDING)


@EXAMPLES
@given(st.integers(1, 8192), st.integers(1, 2048), st.integers(1, 2048), st.integers(1, 4))
def test_a_deeper_product_never_takes_less(m, n, k, more):
    def product(depth: int) -> DispatchedOp:
        return call("mm.default", (dense(m, 8 * depth), dense(8 * depth, 8 * n)), dense(m, 8 * n))

    assert seconds(product(k)) <= seconds(product(k * more)) * (1 + ROUNDING)


@EXAMPLES
@given(st.lists(st.tuples(names, sides, sides), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_operators_are_priced_alike_in_any_order_and_company(rows, random):
    ops = [call(name, (dense(m, n),), dense(m, n)) for name, m, n in rows]
    places = list(range(len(ops)))
    random.shuffle(places)
    straight = eager_times(ops, GPUS[0])
    shuffled = eager_times([ops[place] for place in places], GPUS[0])
    for name in ("kernel_s", "launches", "hbm_bytes", "energy_j"):
        assert np.array_equal(getattr(straight, name)[places], getattr(shuffled, name))
    sums = np.bincount(straight.part_op, weights=straight.part_s, minlength=len(ops))
    assert np.allclose(sums, straight.kernel_s)


@EXAMPLES
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_a_tensor_that_is_dense_in_any_order_of_dims_is_walked_as_one(shape, random):
    order = list(range(len(shape)))
    random.shuffle(order)
    stored = dense(*(shape[dim] for dim in order))
    strides = [0] * len(shape)
    for place, dim in enumerate(order):
        strides[dim] = stored.strides[place]
    tensor = TensorMeta(shape=tuple(shape), strides=tuple(strides), dtype="bf16")
    walked = iteration(tensor, (tensor,))
    assert walked.is_contiguous
    assert int(np.prod(walked.extents)) == tensor.num_elements


@EXAMPLES
@given(sides, sides, st.floats(1.0, 4.0))
def test_a_faster_memory_never_hurts(rows, cols, faster):
    chip = GPUS[0]
    better = replace(chip, hbm=replace(chip.hbm, bandwidth_bytes_per_s=chip.hbm.bandwidth_bytes_per_s * faster))
    op = call("add.Tensor", (dense(rows, cols), dense(rows, cols)), dense(rows, cols))
    assert seconds(op, better) <= seconds(op, chip) * (1 + ROUNDING)
