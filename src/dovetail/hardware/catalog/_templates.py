"""What the template chips share: they exist on paper, so their calibration is the model itself."""

from __future__ import annotations

from dovetail.hardware.catalog._measured import borrowed_calibration
from dovetail.hardware.chip import TensorUnits, Tiling, VectorUnits

WHAM = "WHAM (published constants): 700 MHz, 700 GB/s HBM, 606.68 mm2, TPUv2's 280 W"
TEMPLATE_CALIBRATION = borrowed_calibration(
    "no chip: a template is judged against other templates, so arithmetic and links run at their peaks",
    tensor_frac=1.0,
    hbm_frac=0.90,
    link_frac=1.0,
    launch_s=0.0,
    family="paper",
)
ON_PAPER_SOURCE = "a chip on paper has no driver and no ECC that would keep any of it"
TEMPLATE_CALIBRATION_SOURCE = "estimate: a paper design runs at its peak; HBM at the H200's measured share"


def template_tiling(num_rows: int, num_cols: int) -> Tiling:
    """An array that holds weights or inputs, double-buffered, while rows stream past in groups of 8."""
    return Tiling(tiles=((num_rows, num_cols),), stationary=("weight", "input"), num_steps=8)


def template_tensor(
    num_units: int, num_rows: int, num_cols: int, clock_hz: float, dtypes: tuple[str, ...]
) -> TensorUnits:
    """Arrays that do one multiply-accumulate per element and clock, equally fast in each of `dtypes`."""
    peak_flop_per_s = 2 * num_units * num_rows * num_cols * clock_hz
    return TensorUnits(
        num_units=num_units,
        num_rows=num_rows,
        num_cols=num_cols,
        tiling=template_tiling(num_rows, num_cols),
        rates=tuple((dtype, peak_flop_per_s) for dtype in dtypes),
    )


def template_vector(num_units: int, num_lanes: int, clock_hz: float) -> VectorUnits:
    return VectorUnits(num_units=num_units, num_lanes=num_lanes, peak_flop_per_s=2 * num_units * num_lanes * clock_hz)
