from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import TableContext, chip_in_name
from dovetail.accuracy.readings import hidden_s, quantising_s
from dovetail.accuracy.sets import prepared
from dovetail.hardware.catalog import chips
from dovetail.units import MICRO
from tests.unit.accuracy.tables import table

SHAPES = [(m, n, k) for m in (512, 2048, 8192) for n in (64, 768, 4096) for k in (256, 1024, 3072)]


def timed(name: str, header: str, rows: Sequence[tuple[object, ...]], predicted_s) -> Measurements:
    """A table of products that took just as long as `predicted_s` says."""
    lines = [",".join(map(str, (*row, f"{s / MICRO:.6f}"))) for row, s in zip(rows, predicted_s, strict=True)]
    return table("\n".join((header, *lines)), name)


def one(name: str, header: str, rows: Sequence[tuple[object, ...]]):
    return prepared(timed(name, header, rows, [1e-3] * len(rows)), TableContext())[0]  # style: any


@pytest.mark.parametrize(
    ("name", "chip"),
    [
        ("fp32_linear_a100-40gb-sxm", "a100-40gb-sxm"),
        ("gemm_A100_40GB_SXM", "a100-40gb-sxm"),
        ("b200_gemm_fp8", "b200"),
        ("gb200_gemm", "gb200"),
        ("mine_h200", "h200-sxm"),
        ("mine_h100", ""),  # two chips begin so
        ("mine", ""),
    ],
)
def test_the_chip_of_a_table_is_in_its_files_name(name, chip):
    assert chip_in_name(name) == chip


def test_a_chip_that_is_given_goes_before_the_files_name():
    rows = table("m,n,k,time_us\n64,64,64,9", "gemm_b200")
    assert prepared(rows, TableContext())[0].chip.name == "b200"
    assert prepared(rows, TableContext(chip=chips["l40s"]()))[0].chip.name == "l40s"


def test_a_table_with_n_and_k_exchanged_is_read_as_it_was_run_and_says_so():
    swapped = [("80", m, k, n) for m, n, k in SHAPES]
    right = one("bmm_v100-32gb-sxm", "b,m,n,k,dtype,time_us", [("80", m, n, k, "fp32") for m, n, k in SHAPES])
    times_s = right.predicted(right.chip)
    rows = [(b, m, n, k, "fp32") for b, m, n, k in swapped]
    [found] = prepared(timed("bmm_v100-32gb-sxm", "b,m,n,k,dtype,time_us", rows, times_s), TableContext())
    assert found.predicted(found.chip) == pytest.approx(found.measured, rel=1e-3)
    assert "n and k exchanged: 0.0 % off; as documented they would be" in found.note
    assert found.name == "bmm_v100-32gb-sxm"


def test_a_table_that_is_as_documented_stays_so():
    rows = [(m, n, k, "fp32") for m, n, k in SHAPES]
    right = one("gemm_v100-32gb-sxm", "m,n,k,dtype,time_us", rows)
    [found] = prepared(
        timed("gemm_v100-32gb-sxm", "m,n,k,dtype,time_us", rows, right.predicted(right.chip)), TableContext()
    )
    assert not found.note


def test_few_rows_decide_nothing():
    rows = [(b, m, k, n, "fp32") for b, m, n, k in [(80, *shape) for shape in SHAPES[:5]]]
    assert not one("bmm_v100-32gb-sxm", "b,m,n,k,dtype,time_us", rows).note


def test_activations_quantised_within_the_call_are_found_by_their_time():
    rows = [(m, n, k, "fp8") for m, n, k in SHAPES]
    plain = one("gemm_b200", "m,n,k,dtype,time_us", rows)
    m, n, k = (np.array(column) for column in zip(*SHAPES, strict=True))
    times_s = plain.predicted(plain.chip) + quantising_s(m, k, plain.chip) - hidden_s(m, n, plain.chip)
    [found] = prepared(timed("gemm_b200", "m,n,k,dtype,time_us", rows, times_s), TableContext())
    assert "activations quantised within the call and scales hidden" in found.note


def test_quantising_reads_twice_and_writes_once_at_one_streams_pace():
    chip = chips["b200"]()
    more_s = quantising_s(np.array([2048]), np.array([8192]), chip) - quantising_s(
        np.array([1024]), np.array([8192]), chip
    )
    assert more_s[0] == pytest.approx(5 * 1024 * 8192 / (148 * 29.1e9))
