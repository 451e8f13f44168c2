"""NVIDIA H200 SXM 141 GB: the H100's GH100 die with six stacks of HBM3e."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips, device_names
from dovetail.hardware.catalog import h100_sxm as h100
from dovetail.hardware.catalog._measured import GH100_CALIBRATION_SOURCE, GH100_ENERGY_SOURCE
from dovetail.hardware.catalog._nvidia import H200_DATASHEET, HBM_BINARY
from dovetail.hardware.chip import Chip
from dovetail.hardware.memory import Memory
from dovetail.units import GIBI, TERA

DIE = replace(h100.DIE, num_hbm_stacks=6, num_spare_hbm_phys=0, hbm_generation="HBM3e")
OWN_SOURCES = {
    "year": "general availability; announced November 2023 (H200 datasheet)",
    "hbm.capacity_bytes": f"{H200_DATASHEET}; {HBM_BINARY}",
    "hbm.bandwidth_bytes_per_s": H200_DATASHEET,
    "hbm_visible_frac": "measured: total_memory of one H200 SXM, 150,109,880,320 bytes (torch 2.11, driver 580)",
    "tdp_w": H200_DATASHEET,
    "interconnect_bytes_per_s": f"{H200_DATASHEET}: NVLink4, 900 GB/s both ways",
    "die": f"the H100's GH100 die; {H200_DATASHEET}: six stacks of HBM3e",
    "calibration": GH100_CALIBRATION_SOURCE,
    "energy": GH100_ENERGY_SOURCE,
}
SOURCES = tuple((field, OWN_SOURCES.get(field, source)) for field, source in h100.SOURCES)
FACTS = (
    *h100.FACTS,
    ("sustained bf16 GEMM clock at the power limit", "1412 to 1787 MHz", "measured on one H200 SXM, PyTorch 2.11"),
    ("bf16 GEMM 8192^3, burst and sustained", "781 and 663 TFLOP/s", "measured on one H200 SXM, PyTorch 2.11"),
)


@chips.register("h200-sxm")
@device_names("NVIDIA H200")
def h200_sxm() -> Chip:
    """The one chip here whose calibration and energy were measured on the part itself."""
    return replace(
        h100.h100_sxm(),
        name="h200-sxm",
        year=2024,
        hbm=Memory(capacity_bytes=141 * GIBI, bandwidth_bytes_per_s=4.8 * TERA),
        hbm_visible_frac=150_109_880_320 / (141 * GIBI),
        die=DIE,
        sources=SOURCES,
        facts=FACTS,
    )
