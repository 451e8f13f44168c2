"""A chip whose numbers can be worked out by hand, and operators to run on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dovetail.cost.costs import op_costs
from dovetail.cost.limits import op_limits
from dovetail.cost.op_cost import LIMITS, OpCosts, Setting
from dovetail.hardware.catalog import chips
from dovetail.hardware.chip import Calibration, Chip, EnergyCosts, TensorUnits, Tiling, VectorUnits
from dovetail.hardware.memory import Memory
from dovetail.units import GIGA, TERA
from dovetail.workload.graph import Axis, Ops, Phase
from dovetail.workload.operators import OPERATORS, SIDE_BYTES_PER_ELEMENT, Unit, code_of
from dovetail.workload.rows import Row, rows_to_ops

RATE = TERA  # FLOP/s of the whole chip in bf16
UNIT_RATE = RATE / 4
CLOCK_HZ = GIGA
ENDLESS = TERA * TERA
NO_ENERGY = EnergyCosts(
    tensor_j_per_flop=0, vector_j_per_flop=0, sram_j_per_byte=0, hbm_j_per_byte=0, link_j_per_byte=0, idle_w=0
)


def paper(
    *,
    num_units: int = 4,
    tiling: Tiling | None = None,
    rates: tuple[tuple[str, float], ...] = (("bf16", RATE), ("fp8", 2 * RATE)),
    hbm_bytes_per_s: float = ENDLESS,
    sram_bytes: float = ENDLESS,
    sram_bytes_per_s: float = ENDLESS,
    num_cores: int = 2,
    vector_flop_per_s: float = ENDLESS,
    core_buffer_bytes: float = ENDLESS,
    energy: EnergyCosts = NO_ENERGY,
    tdp_w: float = ENDLESS,
    **calibration: Any,
) -> Chip:
    """Four units of 8x8 tiles, fed in groups of four steps; memory and lanes never in the way, nothing waits."""
    return replace(
        chips["h100-sxm"](),
        name="paper",
        clock_hz=CLOCK_HZ,
        tensor=TensorUnits(
            num_units=num_units,
            num_rows=8,
            num_cols=8,
            tiling=tiling or Tiling(tiles=((8, 8),), num_steps=4),
            rates=rates,
        ),
        vector=VectorUnits(num_units=num_cores, num_lanes=128, peak_flop_per_s=vector_flop_per_s),
        core_buffer_bytes=core_buffer_bytes,
        sram=Memory(capacity_bytes=sram_bytes, bandwidth_bytes_per_s=sram_bytes_per_s),
        hbm=Memory(capacity_bytes=ENDLESS, bandwidth_bytes_per_s=hbm_bytes_per_s),
        tdp_w=tdp_w,
        energy=energy,
        calibration=replace(Calibration(fitted_on="nothing"), **calibration),
    )


def op(kind: str, b: int = 1, m: int = 1, n: int = 1, k: int = 1, v: int = 1, **more: Any) -> Row:
    """One operator; vector ones move the side bytes of their table unless told otherwise."""
    code, phase = code_of(kind), more.get("phase", Phase.FORWARD)
    if OPERATORS[code].unit == Unit.VECTOR:
        is_backward = phase in (Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)
        more.setdefault("side_bytes_per_element", float(SIDE_BYTES_PER_ELEMENT[int(is_backward), code]))
    extents = tuple((extent, Axis.NONE) for extent in (b, m, n, k, v))
    return Row(name=kind, kind=kind, inputs=(), extents=extents, **{"dtype": "bf16"} | more)


def costs(row: Row, chip: Chip, setting: Setting = Setting.STREAM) -> OpCosts:
    return op_costs(ops_of(row), chip, setting)


def limit(row: Row, chip: Chip, setting: Setting = Setting.STREAM) -> str:
    """What the row gains most by more of."""
    return LIMITS[int(op_limits(ops_of(row), chip, setting)[0])]


def ops_of(*rows: Row) -> Ops:
    return rows_to_ops(rows)


def time_s(row: Row, chip: Chip, setting: Setting = Setting.STREAM) -> float:
    return float(costs(row, chip, setting).compute_s[0])


def close(expected: float) -> Any:
    """To the last digits of a float."""
    return pytest.approx(expected, rel=1e-9)  # style: a tolerance
