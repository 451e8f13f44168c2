"""The NPU of the ACE paper (ISCA 2021): a V100-class training chip on a torus."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips
from dovetail.hardware.catalog import v100_32gb_sxm as v100
from dovetail.hardware.catalog._measured import BOARD_LINK_J_PER_BYTE, borrowed_calibration, power_limited_energy
from dovetail.hardware.catalog._templates import ON_PAPER_SOURCE
from dovetail.hardware.chip import Chip, TensorUnits, VectorUnits
from dovetail.units import GIGA, TERA

ACE = "ACE (Rashidi et al., ISCA 2021), recalled and cross-checked by its own identities"
CALIBRATION = borrowed_calibration(
    "the ACE paper's model: compute at its peak, links at 94 % of theirs; HBM as on the H200",
    tensor_frac=1.0,
    link_frac=0.94,
    launch_s=0.0,
    family="paper",
)
ENERGY = power_limited_energy(
    tdp_w=v100.TDP_W,
    peak_flop_per_s=120 * TERA,
    tensor_frac=CALIBRATION.tensor_frac,
    node="12 nm",
    link_j_per_byte=BOARD_LINK_J_PER_BYTE,
    gemm_power_ratio=0.6,  # the paper's NPU knows no power limit
)
OWN_SOURCES = {
    "year": ACE,
    "clock_hz": f"{ACE}: 1245 MHz",
    "tensor": f"{ACE}: 120 TFLOP/s fp16 on 80 SMs",
    "vector": "estimate: 64 fp32 lanes an SM, as on the V100, at this clock",
    "core_buffer_bytes": "estimate: the V100's; the paper gives none",
    "sram.capacity_bytes": "estimate: the V100's; the paper gives none",
    "sram.bandwidth_bytes_per_s": "estimate: the V100's; the paper gives none",
    "hbm.capacity_bytes": "estimate: the V100's 32 GiB; the paper gives none",
    "hbm.bandwidth_bytes_per_s": f"{ACE}: 900 GB/s",
    "hbm_visible_frac": ON_PAPER_SOURCE,
    "tdp_w": "estimate: the V100's; the paper gives none",
    "interconnect_bytes_per_s": f"{ACE}: NPU-to-network bus of 500 GB/s, which is 2 x 200 + 2 x 2 x 25 of its links",
    "die": "estimate: the V100's; the paper gives none",
    "calibration": f"{ACE}: link efficiency 94 %; estimate: the rest as fitted_on says",
    "energy": "estimate: as a V100 that meets its power limit at 120 TFLOP/s",
}
ARRAY_SOURCE = "estimate: 600 MACs an SM and clock give 120 TFLOP/s at 1245 MHz to 0.4 %; the paper gives no array"
SOURCES = (
    *((field, OWN_SOURCES.get(field, source)) for field, source in v100.SOURCES),
    ("tensor.num_rows", ARRAY_SOURCE),
    ("tensor.num_cols", ARRAY_SOURCE),
)
FACTS = (("memory read by one SM", "64 bytes a clock, 80 GB/s", ACE),)


@chips.register("ace-npu")
def ace_npu() -> Chip:
    """120 TFLOP/s, 80 SMs, 900 GB/s: what drives the torus in the ACE reproduction."""
    num_sms, clock_hz = 80, 1.245 * GIGA
    base = v100.v100_32gb_sxm()
    return replace(
        base,
        name="ace-npu",
        vendor="template",
        year=2021,
        clock_hz=clock_hz,
        tensor=TensorUnits(
            num_units=num_sms, num_rows=20, num_cols=30, tiling=base.tensor.tiling, rates=(("fp16", 120 * TERA),)
        ),
        vector=VectorUnits(num_units=num_sms, num_lanes=64, peak_flop_per_s=2 * num_sms * 64 * clock_hz),
        hbm_visible_frac=1.0,
        interconnect_bytes_per_s=500 * GIGA,
        calibration=CALIBRATION,
        energy=ENERGY,
        sources=SOURCES,
        facts=FACTS,
    )
