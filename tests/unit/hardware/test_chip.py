from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.chip import Calibration, Chip, EnergyCosts, TensorUnits, Tiling, VectorUnits
from dovetail.hardware.die import Die
from dovetail.hardware.memory import Memory

TILING = Tiling(tiles=((8, 4),), stationary=("output",), num_steps=4)
TENSOR = TensorUnits(num_units=2, num_rows=4, num_cols=4, tiling=TILING, rates=(("bf16", 64.0), ("fp8", 128.0)))
VECTOR = VectorUnits(num_units=2, num_lanes=4, peak_flop_per_s=16.0)
CALIBRATION = Calibration(
    tensor_frac=0.7, vector_frac=0.8, hbm_frac=0.9, link_frac=0.8, launch_s=0.0, fitted_on="not fitted: a test"
)
ENERGY = EnergyCosts(
    tensor_j_per_flop=1.0,
    vector_j_per_flop=2.0,
    sram_j_per_byte=0.5,
    hbm_j_per_byte=3.0,
    link_j_per_byte=4.0,
    idle_w=5.0,
)
CHIP = Chip(
    name="toy",
    vendor="test",
    year=2025,
    process="none",
    clock_hz=1.0,
    tensor=TENSOR,
    vector=VECTOR,
    core_buffer_bytes=8.0,
    sram=Memory(capacity_bytes=16.0, bandwidth_bytes_per_s=4.0),
    hbm=Memory(capacity_bytes=32.0, bandwidth_bytes_per_s=2.0),
    tdp_w=10.0,
    interconnect_bytes_per_s=1.0,
    calibration=CALIBRATION,
    energy=ENERGY,
    die=Die(),
    sources=(),
)


def test_a_peak_is_found_by_dtype() -> None:
    assert CHIP.peak_flop_per_s("fp8") == 128.0


def test_a_dtype_without_a_rate_is_not_modelled_and_the_known_ones_are_named() -> None:
    with pytest.raises(NotModelled, match="no rate for int4; it has bf16, fp8"):
        CHIP.peak_flop_per_s("int4")


def test_scaling_tensor_units_scales_every_rate_and_nothing_else() -> None:
    twice = TENSOR.scaled(2.0)
    assert twice.rates == (("bf16", 128.0), ("fp8", 256.0))
    assert replace(twice, rates=TENSOR.rates) == TENSOR


def test_a_calibration_that_says_nothing_is_that_of_a_design_on_paper() -> None:
    paper = Calibration(fitted_on="not fitted: a design on paper")
    labels = {"fitted_on", "family"}
    numbers = {field.name: getattr(paper, field.name) for field in fields(paper) if field.name not in labels}
    nothing = {name for name in numbers if name.endswith("_s")} | {"clock_spread_frac", "overlap_frac"}
    nothing |= {name for name in numbers if name.endswith("_slots")}
    assert all(value == (0.0 if name in nothing else 1.0) for name, value in numbers.items())


@pytest.mark.parametrize(
    ("value", "change", "message", "where"),
    [
        (TENSOR, {"num_units": 0}, "num_units must be at least 1; got 0", "num_units"),
        (TENSOR, {"num_rows": -1}, "num_rows must be at least 1; got -1", "num_rows"),
        (TENSOR, {"num_cols": 0}, "num_cols must be at least 1; got 0", "num_cols"),
        (TILING, {"tiles": ()}, "tile sizes must be at least 1; got none, steps of 4", "tiles"),
        (
            TILING,
            {"tiles": ((8, 4), (8, 0))},
            "tile sizes must be at least 1; got 8x4, 8x0, steps of 4",
            "tiles",
        ),
        (TILING, {"num_steps": 0}, "tile sizes must be at least 1; got 8x4, steps of 0", "tiles"),
        (
            TILING,
            {"stationary": ("output", "weights")},
            "stationary must be output or weight or input; got weights; did you mean weight?",
            "stationary",
        ),
        (
            TILING,
            {"stationary": ()},
            "stationary must be output or weight or input; got nothing; known: input, output, weight",
            "stationary",
        ),
        (TILING, {"fill": "hiden"}, "fill must be hidden or load or whole; got hiden; did you mean hidden?", "fill"),
        (TILING, {"staging_bytes": -1.0}, "staging must not be negative; got -1 bytes", "staging"),
        (TILING, {"staging_bytes": float("nan")}, "staging must not be negative; got nan bytes", "staging"),
        (TENSOR, {"rates": ()}, "every dtype needs a positive peak rate; got {}", "rates"),
        (TENSOR, {"rates": (("bf16", 0.0),)}, "every dtype needs a positive peak rate; got {'bf16': 0.0}", "rates"),
        (VECTOR, {"num_lanes": 0}, "num_lanes must be at least 1; got 0", "num_lanes"),
        (VECTOR, {"peak_flop_per_s": 0.0}, "vector peak must be positive; got 0 FLOP/s", "peak"),
        (VECTOR, {"peak_flop_per_s": float("nan")}, "vector peak must be positive; got nan FLOP/s", "peak"),
        (CALIBRATION, {"tensor_frac": 0.0}, "tensor_frac must be from 1e-06 to 1; got 0", "tensor_frac"),
        (CALIBRATION, {"hbm_frac": 1.5}, "hbm_frac must be from 1e-06 to 1; got 1.5", "hbm_frac"),
        (
            CALIBRATION,
            {"clock_spread_frac": -0.1},
            "clock_spread_frac must be from 0 to 0.2; got -0.1",
            "clock_spread_frac",
        ),
        (CALIBRATION, {"stream_frac": 0.0}, "stream_frac must be from 1e-06 to 1; got 0", "stream_frac"),
        (CALIBRATION, {"launch_s": -1.0}, "launch time must not be negative; got -1 s", "launch"),
        (CALIBRATION, {"host_op_s": -1.0}, "host_op time must not be negative; got -1 s", "host_op"),
        (CALIBRATION, {"wait_s": float("nan")}, "wait time must not be negative; got nan s", "wait"),
        (CALIBRATION, {"sram_reuse": 0.5}, "sram_reuse must be at least 1; got 0.5", "sram_reuse"),
        (ENERGY, {"sram_j_per_byte": -1.0}, "sram_j_per_byte must not be negative; got -1", "sram_j_per_byte"),
        (ENERGY, {"idle_w": -5.0}, "idle_w must not be negative; got -5", "idle_w"),
        (ENERGY, {"hbm_j_per_byte": float("nan")}, "hbm_j_per_byte must not be negative; got nan", "hbm_j_per_byte"),
        (CHIP, {"clock_hz": 0.0}, "clock_hz must be positive; got 0", "clock_hz"),
        (CHIP, {"tdp_w": -1.0}, "tdp_w must be positive; got -1", "tdp_w"),
        (CHIP, {"core_buffer_bytes": 0.0}, "core_buffer_bytes must be positive; got 0", "core_buffer_bytes"),
        (
            CHIP,
            {"interconnect_bytes_per_s": 0.0},
            "interconnect_bytes_per_s must be positive; got 0",
            "interconnect_bytes_per_s",
        ),
    ],
)
def test_an_impossible_figure_is_refused_with_the_rule_the_value_and_the_place(
    value: Any, change: dict[str, Any], message: str, where: str
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        replace(value, **change)
    assert refusal.value.message == message
    assert refusal.value.where == where
