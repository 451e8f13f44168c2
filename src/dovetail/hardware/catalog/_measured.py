"""What one H200 showed, and what is borrowed from it for chips nobody here has measured."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.chip import Calibration, EnergyCosts
from dovetail.hardware.families.gpu import GPU_FIT, REFERENCE_CLOCK_HZ
from dovetail.hardware.families.gpu import gpu_calibration as family_calibration
from dovetail.hardware.node_energy import ENERGY_RATIO
from dovetail.hardware.part_energy import (
    ACTIVITY,
    ADD_J,
    HBM_J_PER_BYTE,
    LANE_J,
    MULTIPLY_J,
    SLICE_BYTES,
    access_j_per_byte,
    operand_j,
)
from dovetail.units import BITS_PER_BYTE, PICO


def gpu_calibration(clock_hz: float, fitted_on: str = GPU_FIT, host_slower: float = 1.0) -> Calibration:
    """The shared calibration of GPUs at a part's clock."""
    return replace(family_calibration(clock_hz, host_slower), fitted_on=fitted_on)


GH100_CALIBRATION = gpu_calibration(REFERENCE_CLOCK_HZ)
GH100_CALIBRATION_SOURCE = f"fitted on {GPU_FIT}; estimate: vector_frac; link_frac recalled from public nccl-tests"

H200_IDLE_W = 118.3  # measured, clocks up, no work
H200_TDP_W = 700.0
IDLE_FRAC = H200_IDLE_W / H200_TDP_W

# At full clock and voltage, from thirteen loads of 2.5 s (docs/model/power.md). Copies draw 116.5 pJ/byte above idle;
# of it 30 pJ/byte are laid to the shared SRAM and the way to the cores (CMEM at 7 nm: 15-19 pJ/byte, without that way).
# Large GEMMs slow to 0.774 of full clock at 700 W: 0.98 pJ/FLOP beside their SRAM traffic. GELU: 7.4 pJ a lane slot.
GH100_ENERGY = EnergyCosts(
    tensor_j_per_flop=0.98 * PICO,
    vector_j_per_flop=7.4 * PICO,
    sram_j_per_byte=30 * PICO,
    hbm_j_per_byte=86.5 * PICO,
    link_j_per_byte=1.3 * BITS_PER_BYTE * PICO,  # NVLink4, about 1.3 pJ/bit (NVIDIA, Hot Chips 34, 2022, recalled)
    idle_w=H200_IDLE_W,
    still_frac=0.31,  # one load: products of zeros draw 401 W where those of random data meet the limit
)
GH100_ENERGY_SOURCE = (
    "measured on one H200 SXM: least squares over GEMM and copy power, GELU for vector; "
    "link: NVLink4 at 1.3 pJ/bit (Hot Chips 34, recalled)"
)

# At full clock the H200's products would draw 1.44 times what its limit leaves above idle: 0.98 pJ of 582 W / 857e12/s.
GEMM_POWER_RATIO = 1.44
SUSTAINED_POWER_RATIO = 0.85  # of what the limit leaves above idle: the rest is SRAM and HBM


def borrowed_calibration(
    why: str,
    *,
    tensor_frac: float,
    hbm_frac: float = GH100_CALIBRATION.hbm_frac,
    link_frac: float = GH100_CALIBRATION.link_frac,
    launch_s: float = GH100_CALIBRATION.launch_s,
    family: str = "unmeasured",
) -> Calibration:
    """Shares for a chip that is no GPU and was not measured: it waits for nothing but launches."""
    return Calibration(
        tensor_frac=tensor_frac,
        vector_frac=0.80,  # estimate: no kernel was counted on such a chip
        hbm_frac=hbm_frac,
        link_frac=link_frac,
        launch_s=launch_s,
        fitted_on=f"not fitted: taken from {why}",
        family=family,
    )


def borrowed_gpu_calibration(
    why: str, clock_hz: float, *, tensor_frac: float, hbm_frac: float = GH100_CALIBRATION.hbm_frac
) -> Calibration:
    """The GPUs' calibration at a part's clock, saying that nothing was fitted on this chip."""
    shared = gpu_calibration(clock_hz, f"not fitted: taken from {why}")
    return replace(shared, tensor_frac=tensor_frac, hbm_frac=hbm_frac)


def _energy_ratio(node: str) -> float:
    """Of logic on a node such as "7 nm", against 7 nm."""
    return ENERGY_RATIO[int(node.removesuffix(" nm"))]


def idle_estimate_w(tdp_w: float) -> float:
    """Idle power by the H200's share of its TDP (17 %)."""
    return IDLE_FRAC * tdp_w


def power_limited_energy(
    *,
    tdp_w: float,
    peak_flop_per_s: float,
    tensor_frac: float,
    node: str,
    link_j_per_byte: float,
    gemm_power_ratio: float = SUSTAINED_POWER_RATIO,
) -> EnergyCosts:
    """Energy of a chip that meets its power limit in large matrix products.

    A `tensor_frac` from published rates is what the limit left, and its products draw what is left of the limit; one
    that holds at full clock comes with the H200's ratio, GEMM_POWER_RATIO.

    HBM costs what it does on the H200; vector work scales from it by process node.
    """
    idle_w = idle_estimate_w(tdp_w)
    return EnergyCosts(
        tensor_j_per_flop=gemm_power_ratio * (tdp_w - idle_w) / (tensor_frac * peak_flop_per_s),
        vector_j_per_flop=GH100_ENERGY.vector_j_per_flop * _energy_ratio(node) / ENERGY_RATIO[4],
        sram_j_per_byte=GH100_ENERGY.sram_j_per_byte * _energy_ratio(node) / ENERGY_RATIO[4],
        hbm_j_per_byte=GH100_ENERGY.hbm_j_per_byte,
        link_j_per_byte=link_j_per_byte,
        idle_w=idle_w,
    )


POWER_LIMITED_SOURCE = (
    "estimate: tensor energy as if large GEMMs met the power limit at the rate they are said to hold; HBM and "
    "idle share of TDP as measured on the H200; vector energy scaled from it by node (Stillmaker & Baas 2017)"
)

# Geometric mean of 1 pJ/bit on package and 13 pJ/bit between nodes (DeepFlow configurations).
BOARD_LINK_J_PER_BYTE = 3.6 * BITS_PER_BYTE * PICO
ETHERNET_J_PER_BYTE = 13 * BITS_PER_BYTE * PICO  # inter-node link, 13 pJ/bit (DeepFlow configurations)


def component_energy(
    *, node: str, idle_w: float, shared_sram_bytes: float = 0.0, num_macs_per_unit: int = 128 * 128
) -> EnergyCosts:
    """Energy of a systolic chip from the published energy of its parts, logic scaled by process node.

    `shared_sram_bytes` is the capacity of an SRAM that all cores share, as CMEM or a global buffer; 0 where it is the
    cores' own vector memory, in slices beside their lanes.
    """
    busy = ACTIVITY * _energy_ratio(node)
    slice_j_per_byte = busy * float(access_j_per_byte(SLICE_BYTES))
    return EnergyCosts(
        tensor_j_per_flop=busy * float(MULTIPLY_J + ADD_J + operand_j(num_macs_per_unit)) / 2,
        vector_j_per_flop=busy * LANE_J / 2,
        vector_memory_j_per_byte=slice_j_per_byte,
        sram_j_per_byte=busy * float(access_j_per_byte(shared_sram_bytes)) if shared_sram_bytes else slice_j_per_byte,
        hbm_j_per_byte=HBM_J_PER_BYTE,
        link_j_per_byte=BOARD_LINK_J_PER_BYTE,
        idle_w=idle_w,
    )


COMPONENT_SOURCE = (
    "estimate: 7 nm operation and SRAM energies (Jouppi et al., ISCA 2021, recalled; AccelForge), at the activity that "
    "TDPs show, scaled by node (Stillmaker & Baas 2017); HBM 4.5 pJ/bit (DeepFlow); links 3.6 pJ/bit, between the "
    "on-package and inter-node figures of DeepFlow"
)
IDLE_SOURCE = "estimate: the H200's measured idle share of TDP, 118.3 W of 700 W"
