"""Measured seconds go before predicted ones where an operator is the same, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dovetail.accuracy.columns import attention_ops, bare_ops, product_ops
from dovetail.cost.costs import op_costs
from dovetail.cost.overrides import measured_run_s, op_key
from dovetail.hardware.catalog import chips
from dovetail.hardware.measured import Measured, MeasuredOp
from dovetail.units import MICRO
from dovetail.workload.graph import Axis, Phase
from dovetail.workload.operators import code_of
from dovetail.workload.rows import Row, rows_to_ops

CHIP = chips["h200-sxm"]()
TOOK_S = 123 * MICRO


def one(count):
    return np.array([count], dtype=np.int64)


def product(m=2048, n=1024, k=4096, *, phase=Phase.FORWARD, dtype="bf16", batch=1, kind="linear"):
    return product_ops(batch, one(m), one(n), one(k), kind=kind, phase=int(phase), dtypes=[dtype])


def measured(**changes):
    said = {"kind": "linear", "phase": "forward", "dtype": "bf16", "extents": (1, 2048, 1024, 4096, 1)}
    return MeasuredOp(**{"time_s": TOOK_S, **said, **changes})


def found(ops, *measurements):
    return float(measured_run_s(ops, Measured(source="trace", ops=measurements))[0])


def test_the_same_product_is_measured_and_its_transpose_too():
    assert found(product(), measured()) == TOOK_S
    assert found(product(1024, 2048), measured()) == TOOK_S
    assert found(product(phase=Phase.RECOMPUTE), measured()) == TOOK_S


@pytest.mark.parametrize(
    "other",
    [
        product(2048, 4096, 1024),
        product(2049),
        product(dtype="fp16"),
        product(phase=Phase.INPUT_GRAD),
        product(batch=2, kind="matmul"),
    ],
)
def test_another_shape_dtype_pass_or_batch_is_not_measured(other):
    assert np.isnan(found(other, measured()))


def test_of_several_runs_the_mean_is_taken():
    twice = (measured(num_runs=3), measured(time_s=2 * TOOK_S, stream="7"))
    assert found(product(), *twice) == pytest.approx(5 / 4 * TOOK_S)


def test_attention_has_its_mask_and_vector_operators_their_rows_and_columns():
    heads = {"kv_frac": np.ones(1), "phase": one(Phase.FORWARD), "dtypes": ["bf16"]}
    causal = attention_ops(one(32), one(512), one(64), work_frac=np.array([0.5]), **heads)
    whole = attention_ops(one(32), one(512), one(64), work_frac=np.array([1.0]), **heads)
    known = measured(kind="attention", extents=(32, 512, 512, 64, 64), work_frac=0.5)
    assert found(causal, known) == TOOK_S
    assert np.isnan(found(whole, known))
    rows = bare_ops(kind=code_of("rmsnorm"), phase=0, dtypes=["bf16"], extents=(4, 256, 512, 1, 1))
    norm = measured(kind="rmsnorm", extents=(1, 1024, 512, 1, 1))
    assert found(rows, norm) == TOOK_S
    assert np.isnan(found(rows, replace(norm, kind="layernorm")))


def test_a_convolution_backwards_is_two_rows_and_so_is_matched_with_none():
    assert op_key(measured(kind="convolution", phase="backward")) == ()


def test_no_clock_stretches_or_saves_anything_of_a_measured_row():
    ops, chip = product(), replace(CHIP, measured=Measured(source="trace", ops=(measured(),)))
    before, after = op_costs(ops, CHIP), op_costs(ops, chip)
    assert after.compute_s[0] == TOOK_S
    assert after.clocked_s[0] == after.core_j[0] == 0 < before.clocked_s[0]
    for name in ("energy_j", "flop", "hbm_bytes", "host_s"):
        assert getattr(after, name)[0] == getattr(before, name)[0]


def test_a_measured_row_spends_no_more_than_the_power_limit_grants():
    short = measured(time_s=float(op_costs(product(), CHIP).compute_s[0]) / 2)
    cost = op_costs(product(), replace(CHIP, measured=Measured(source="trace", ops=(short,))))
    granted_w = CHIP.tdp_w - CHIP.energy.idle_w
    assert cost.energy_j[0] / cost.compute_s[0] == pytest.approx(granted_w)


@pytest.mark.parametrize("changes", [{"time_s": 0.0}, {"phase": "sideways"}, {"extents": (1, 2)}, {"num_runs": 0}])
def test_a_measured_operator_that_cannot_be_is_refused(changes):
    with pytest.raises(Exception, match=r"must be|has 5|at least once"):
        measured(**changes)


def test_a_product_is_known_by_what_it_multiplies_and_a_vector_operator_by_what_it_stores():
    """Rows kept in bf16 and multiplied in fp8: a profile names the kernel by its operands."""
    extents = tuple((extent, Axis.NONE) for extent in (1, 2048, 1024, 4096, 1))
    mixed = rows_to_ops([Row(name="up", kind="linear", inputs=(), extents=extents, dtype="bf16", math="fp8")])
    assert found(mixed, measured(dtype="fp8")) == TOOK_S
    assert np.isnan(found(mixed, measured(dtype="bf16")))
    rows = tuple((extent, Axis.NONE) for extent in (1, 1024, 512, 1, 1))
    norm = rows_to_ops([Row(name="norm", kind="rmsnorm", inputs=(), extents=rows, dtype="bf16", math="fp32")])
    said = measured(kind="rmsnorm", extents=(1, 1024, 512, 1, 1))
    assert found(norm, said) == TOOK_S
    assert np.isnan(found(norm, replace(said, dtype="fp32")))
