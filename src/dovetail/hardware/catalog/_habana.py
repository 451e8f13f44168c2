"""What the Gaudi parts share: sources, calibration and tile."""

from __future__ import annotations

from dovetail.hardware.catalog._measured import POWER_LIMITED_SOURCE, borrowed_calibration
from dovetail.hardware.chip import Tiling

HOT_CHIPS = "Intel, Gaudi 3 at Hot Chips 2024 (slides)"
GAUDI2_PAPER = "Habana Gaudi 2 white paper (2022)"
GAUDI_TILING = Tiling(tiles=((256, 256),), num_steps=8)
GAUDI_TILE_SOURCE = "estimate: a 256x256 output-stationary engine fed row groups of 8"
GAUDI_CALIBRATION = borrowed_calibration(
    "the H200's; tensor_frac as published Gaudi 2 bf16 GEMMs hold a larger share of a lower peak (recalled)",
    tensor_frac=0.80,
)
GAUDI_CALIBRATION_SOURCE = (
    "estimate: the H200's measured shares; tensor_frac from published Gaudi 2 GEMM rates (recalled)"
)
GAUDI_ENERGY_SOURCE = f"{POWER_LIMITED_SOURCE}; link 13 pJ/bit, Ethernet between nodes (DeepFlow configurations)"
TPC_BUFFER_SOURCE = "80 KB vector local memory of one tensor processor core (Habana TPC documentation, recalled)"
