"""Kernels that Inductor generates: bytes, lanes or atomic additions, whichever takes longest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.cost.eager.launches import VectorKernel
from dovetail.cost.eager.operators.fused import LOAD_SLOTS, MERGE_SLOTS, OUTER_FRAC, SPECIAL_SLOTS, fused, slots
from dovetail.cost.eager.times import eager_times
from dovetail.files.chip_names import chip_named
from dovetail.workload.compiled import FUSED, FusedKernel, fused_kernel
from dovetail.workload.dispatched import DispatchedOp

ELEMENTS = 2**26
STREAM = FusedKernel(
    kernel="triton_poi_fused_add_0",
    num_rows=ELEMENTS,
    num_cols=1,
    read_bytes=2 * ELEMENTS,
    written_bytes=2 * ELEMENTS,
    num_plain=ELEMENTS,
    num_loads=ELEMENTS,
)


def op_of(kernel: FusedKernel) -> DispatchedOp:
    return DispatchedOp(name=FUSED, inputs=(), outputs=(), arguments=kernel.arguments, is_compiled=True)


def seconds(kernel: FusedKernel) -> float:
    return float(eager_times([op_of(kernel)], chip_named("h200")).kernel_s[0])


def test_what_an_operator_says_of_a_kernel_comes_back():
    assert fused_kernel(op_of(STREAM)) == STREAM


def test_a_stream_takes_as_long_as_its_bytes():
    moved_bytes_per_s = STREAM.moved_bytes / seconds(STREAM)
    peak = chip_named("h200").hbm.bandwidth_bytes_per_s
    assert 0.75 * peak < moved_bytes_per_s < peak


def test_slots_add_up_by_kind():
    assert slots(STREAM) == ELEMENTS * (1 + LOAD_SLOTS)
    assert slots(replace(STREAM, num_special=ELEMENTS)) == ELEMENTS * (1 + LOAD_SLOTS + SPECIAL_SLOTS)


@pytest.mark.parametrize("kind", ["num_curves", "num_angles", "num_random", "num_online", "num_unaligned"])
def test_enough_of_any_function_outlasts_the_bytes(kind):
    counts: dict[str, Any] = {kind: 8 * ELEMENTS}
    assert seconds(replace(STREAM, **counts)) > 1.5 * seconds(STREAM)


def test_a_sum_down_columns_goes_slower_than_one_along_rows():
    along = replace(STREAM, num_rows=2**13, num_cols=2**13, written_bytes=0)
    down = replace(along, strided_bytes=along.read_bytes)
    assert down.is_outer
    assert not along.is_outer
    assert seconds(down) == pytest.approx(seconds(along) / OUTER_FRAC, rel=0.02)


def test_threads_merge_running_variances_of_rows_that_do_not_stay_in_registers():
    looped = replace(STREAM, num_rows=2**13, num_cols=2**13, num_welford=3 * ELEMENTS)
    held = replace(looped, is_persistent=True)
    assert slots(looped) - slots(replace(looped, num_welford=0)) > MERGE_SLOTS * 2**13
    assert slots(held) == slots(replace(held, num_welford=0))


def test_atomic_additions_take_a_sector_each():
    wide = replace(STREAM, atomic_bytes=4 * ELEMENTS, atomic_table_bytes=4 * ELEMENTS)
    [kernel] = fused(op_of(wide))
    assert isinstance(kernel, VectorKernel)
    assert kernel.sram_bytes == 32 * ELEMENTS
    assert seconds(wide) > seconds(STREAM)


def test_atomic_additions_into_few_lines_wait_for_each_other():
    wide = replace(STREAM, atomic_bytes=4 * ELEMENTS, atomic_table_bytes=4 * ELEMENTS)
    narrow = replace(wide, atomic_table_bytes=2**11)
    assert seconds(narrow) > 100 * seconds(wide)
