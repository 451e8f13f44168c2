"""What the Trainium parts share: sources, calibration and tile."""

from __future__ import annotations

from dovetail.hardware.catalog._measured import borrowed_calibration
from dovetail.hardware.chip import Tiling

CHIP_PAGE = "AWS Neuron documentation, chip architecture page"
NKI_GUIDE = "AWS Neuron documentation, NKI architecture guide"
# A moving tile streams past a stationary 128x128 one; short ones wait for the 64-cycle initiation interval.
TRAINIUM_TILING = Tiling(tiles=((128, 128),), stationary=("weight", "input"), num_steps=64)
TRAINIUM_TILE_SOURCE = f"{NKI_GUIDE}: stationary tile 128x128, moving tile costs at least 64 cycles"
TRAINIUM_CALIBRATION = borrowed_calibration(
    "the H200's; tensor_frac from the NKI guide's matrix product, near the peak once operands are in SBUF",
    tensor_frac=0.80,
)
TRAINIUM_CALIBRATION_SOURCE = (
    "estimate: the H200's measured shares; tensor_frac after the NKI guide's tuned matrix products"
)
