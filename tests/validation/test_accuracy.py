"""Every documented bar that shipped data can show; and that no constant of the model knows a row."""

from __future__ import annotations

import ast
from dataclasses import fields

import numpy as np
import pytest

from dovetail.accuracy.bars import BARS, Bar
from dovetail.accuracy.compared import Compared, score
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Calibration, EnergyCosts
from tests.shipped_accuracy import ShippedSet, shipped_accuracy
from tests.source_tree import source_modules

ELSEWHERE = (
    "published gemm",
    "tpu gemm",
    "tpu gemm, tiles known",
    "phaze area",
    "collectives over NVLink",
    "collectives over PCIe",
)  # their tables do not ship: other projects' measurements
RECORDED = ("h200 code", "h200 code memory", "fp32 passes")
# nor do hf_steps.csv and the fp32 steps of others: they are recorded with transformers, which takes minutes;
# `benchmarks.bars` shows them
NOT_SHIPPED = ELSEWHERE + RECORDED


def shipped_sets() -> tuple[ShippedSet, ...]:
    return shipped_accuracy().sets


def rows_of(promise: str) -> list[tuple[str, tuple[Compared, ...]]]:
    """The sets that a promise is made of, each with its rows predicted."""
    return [(one.name, one.rows) for one in shipped_sets() if one.promise == promise]


def named(bar: Bar) -> str:
    return " ".join(word for word in (bar.promise, bar.kind, bar.statistic) if word)


@pytest.mark.parametrize("bar", [bar for bar in BARS if bar.promise not in NOT_SHIPPED], ids=named)
def test_a_documented_bar_holds_on_shipped_data(bar):
    found = rows_of(bar.promise)
    assert found, f"no shipped table shows {bar.promise}"
    for name, rows in found:
        scored = score(tuple(row for row in rows if not bar.kind or row.kind == bar.kind))
        measured = f"{bar.measured_frac(scored):.2%} of {scored.num_rows} rows of {name}"
        assert scored.num_rows > 0
        assert bar.holds(scored), f"{bar.statistic} <= {bar.limit_frac:.1%}; got {measured}"


def test_only_tables_of_others_and_recorded_steps_are_left_to_the_reference_data():
    shown = {one.promise for one in shipped_sets()}
    assert {bar.promise for bar in BARS} - shown == set(NOT_SHIPPED)


@pytest.mark.parametrize("kind", ["forward", "input-grad", "weight-grad"])
def test_no_layout_of_a_product_is_left_far_off(kind):
    """The bar is on the whole set; a layout alone may not hide behind the others."""
    for promise in ("h200 gemm model shapes", "h200 gemm random shapes"):
        for _, rows in rows_of(promise):
            scored = score(tuple(row for row in rows if row.kind == kind))
            assert scored.mape_frac < 0.10
            assert abs(scored.bias_frac) < 0.06


# No constant is fitted to a row: the model has far fewer numbers than there are rows, and none of them is a table of
# shapes.

MODEL = ("dovetail.cost", "dovetail.hardware")
MOST_NUMBERS_OF_A_TABLE = 24


def model_modules():
    return [module for module in source_modules() if module.name.startswith(MODEL)]


def test_the_calibration_of_a_chip_is_a_handful_of_numbers():
    # but for its family, the words of what it was fitted on, and the spread of chips, which no row of one can fit
    of_arrays = {"conversion_slots", "conversion_result_slots", "visits_ratio", "overlap_frac"}  # the TPUs' own fits
    # fitted on 2,217 products of tables that do not ship; fitted by users to steps on hosts of their own
    of_others = {"lanes_frac", "host_slowdown"}
    num_numbers = len(fields(Calibration)) - 3 - len(of_arrays | of_others) + len(fields(EnergyCosts)) - 1
    num_rows = sum(len(one.rows) for one in shipped_sets())
    assert num_numbers <= 30
    assert num_rows > 50 * num_numbers


def test_gpus_share_one_set_of_constants():
    """Waits scale with the clock alone, shares not at all; a part differs by its datasheet, and its host by its age."""
    names = ("a100-80gb-sxm", "h100-sxm", "h200-sxm", "b200")
    parts = [chips[name]() for name in names]
    for field in fields(Calibration):
        if field.name in ("fitted_on", "family", "host_slowdown"):
            continue
        if field.name.startswith("host_"):  # of the A100's years: slower, all by one factor
            older, *others = (getattr(part.calibration, field.name) for part in parts)
            assert others == [others[0]] * len(others)
            assert older == pytest.approx(1.35 * others[0])
            continue
        values = [getattr(part.calibration, field.name) for part in parts]
        in_clocks = [value * part.clock_hz for value, part in zip(values, parts, strict=True)]
        is_same = np.ptp(values) <= 1e-9 * max(values) or np.ptp(in_clocks) <= 1e-9 * max(in_clocks)  # style: tolerance
        assert is_same, field.name


def test_the_model_reads_no_measurement():
    for module in model_modules():
        imported = {node.module for node in ast.walk(module.tree) if isinstance(node, ast.ImportFrom) and node.module}
        assert not any(name.startswith(("dovetail.accuracy", "dovetail.files")) for name in imported), module.name


def test_the_model_holds_no_table_of_shapes():
    """No literal list or dict of numbers is long enough to be one, but process nodes and PHAZE's buffers."""
    known = {"dovetail.cost.node", "dovetail.cost.phaze_area"}
    of_operators = {"dovetail.cost.kernels", "dovetail.cost.mapping.vector_slots"}  # by operator, whatever its shape
    for module in model_modules():
        if module.name in known:
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.List | ast.Tuple | ast.Dict | ast.Set):
                numbers = [
                    n for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, int | float)
                ]
                numbers = [n for n in numbers if not isinstance(n.value, bool)]
                assert module.name in of_operators or len(numbers) <= MOST_NUMBERS_OF_A_TABLE, (
                    f"{module.path}:{node.lineno}"
                )
