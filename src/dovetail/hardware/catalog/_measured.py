"""What one H200 showed, and what is borrowed from it for chips nobody here has measured."""

from __future__ import annotations

from dovetail.hardware.chip import Calibration, EnergyCosts
from dovetail.units import BITS_PER_BYTE, MICRO, PICO

# H200 SXM, PyTorch 2.11, bf16. Tensor: median of 687 model GEMMs above 0.2 TFLOP is 0.69 of peak, best 0.80; 2.5 s of
# back-to-back GEMMs at the power limit hold 0.64-0.68. HBM: 4 GiB copy 4.295 TB/s, add 4.392 TB/s, of 4.8 TB/s. Launch:
# a 1 MiB copy takes 4.3 us and a 4 MiB one 6.4 us; the straight line through both meets zero bytes at 3.6 us.
GH100_CALIBRATION = Calibration(
    tensor_frac=0.69,
    vector_frac=0.80,
    hbm_frac=0.90,
    link_frac=0.80,
    launch_s=3.6 * MICRO,
    fitted_on="one H200 SXM, PyTorch 2.11: bf16 GEMMs, large copies, small copies; vector and link shares not measured",
)
GH100_CALIBRATION_SOURCE = (
    "measured on one H200 SXM (GEMM, copy and launch); estimate: vector_frac 0.80, and link_frac 0.80 as the 360 of "
    "450 GB/s that public nccl-tests all-reduce runs show on eight H100 (recalled)"
)

H200_IDLE_W = 118.3  # measured, clocks up, no work
H200_TDP_W = 700.0
IDLE_FRAC = H200_IDLE_W / H200_TDP_W

# Least squares of (mean watts - idle) on FLOP rate and byte rate over five GEMM rows and two copies: 0.77 pJ/FLOP and
# 116 pJ/byte, errors under 8 %. Left out: 1024^3 (bound by the host) and 128x16384x16384 (clock down to 1176 MHz).
# The byte figure includes L2 and the SMs that move the data; DRAM alone would be near 36 pJ/byte (4.5 pJ/bit).
# Vector: GELU draws (691.9 - 118.3) W less 3.34 TB/s of HBM, over 0.84 Telement/s of about 26 FLOP: 8.5 pJ/FLOP. The
# 66.9 TFLOP/s fp32 peak then costs 569 W, which with idle is the 700 W limit: the two agree.
GH100_ENERGY = EnergyCosts(
    tensor_j_per_flop=0.77 * PICO,
    vector_j_per_flop=8.5 * PICO,
    hbm_j_per_byte=116 * PICO,
    link_j_per_byte=1.3 * BITS_PER_BYTE * PICO,  # NVLink4, about 1.3 pJ/bit (NVIDIA, Hot Chips 34, 2022, recalled)
    idle_w=H200_IDLE_W,
)
GH100_ENERGY_SOURCE = (
    "measured on one H200 SXM: least squares over GEMM and copy power, GELU for vector; "
    "link: NVLink4 at 1.3 pJ/bit (Hot Chips 34, recalled)"
)

# Dynamic energy of logic against 7 nm: Stillmaker & Baas 2017 at 0.8 V gives 0.0943 at 7 nm, 0.1178 at 10 nm, 0.1735 at
# 16 nm and 0.2211 at 20 nm of the 45 nm energy; below 7 nm, an estimate of one full node of gain.
NODE_ENERGY_RATIO = {"4 nm": 0.8, "5 nm": 0.8, "6 nm": 0.95, "7 nm": 1.0, "12 nm": 1.5, "16 nm": 1.84, "22 nm": 2.4}
GEMM_POWER_FRAC = 0.9  # of the H200's power above idle in large GEMMs: 0.77 pJ/FLOP x 663 TFLOP/s of 567 W


def borrowed_calibration(
    why: str,
    *,
    tensor_frac: float = GH100_CALIBRATION.tensor_frac,
    hbm_frac: float = GH100_CALIBRATION.hbm_frac,
    link_frac: float = GH100_CALIBRATION.link_frac,
    launch_s: float = GH100_CALIBRATION.launch_s,
) -> Calibration:
    """The H200's calibration with what is known otherwise, saying that nothing was fitted on this chip."""
    return Calibration(
        tensor_frac=tensor_frac,
        vector_frac=GH100_CALIBRATION.vector_frac,
        hbm_frac=hbm_frac,
        link_frac=link_frac,
        launch_s=launch_s,
        fitted_on=f"not fitted: taken from {why}",
    )


def idle_estimate_w(tdp_w: float) -> float:
    """Idle power by the H200's share of its TDP (17 %)."""
    return IDLE_FRAC * tdp_w


def power_limited_energy(
    *, tdp_w: float, peak_flop_per_s: float, tensor_frac: float, node: str, link_j_per_byte: float
) -> EnergyCosts:
    """Energy of a chip that, as the H200 does, meets its power limit in large matrix products.

    HBM costs what it does on the H200; vector work scales from it by process node.
    """
    idle_w = idle_estimate_w(tdp_w)
    return EnergyCosts(
        tensor_j_per_flop=GEMM_POWER_FRAC * (tdp_w - idle_w) / (tensor_frac * peak_flop_per_s),
        vector_j_per_flop=GH100_ENERGY.vector_j_per_flop * NODE_ENERGY_RATIO[node] / NODE_ENERGY_RATIO["4 nm"],
        hbm_j_per_byte=GH100_ENERGY.hbm_j_per_byte,
        link_j_per_byte=link_j_per_byte,
        idle_w=idle_w,
    )


POWER_LIMITED_SOURCE = (
    "estimate: tensor energy as if large GEMMs draw 90 % of the power between idle and TDP, as on the H200; HBM and "
    "idle share of TDP as measured on the H200; vector energy scaled from it by node (Stillmaker & Baas 2017)"
)

# 7 nm: bf16 multiply 0.21 + fp32 add 0.38 pJ a MAC (Jouppi et al., ISCA 2021, recalled), so 0.295 pJ/FLOP, and a third
# more for PE registers and buffer reads. Check: TPU v4, (192 - 90) W over 0.8 x 275 TFLOP/s is 0.46 with its HBM.
SYSTOLIC_J_PER_FLOP = 0.40 * PICO
# fp32 operation 0.85 pJ (mean of add 0.38, multiply 1.31) and three 32-bit register accesses at 0.11 pJ/bit (DeepFlow).
LANE_J_PER_FLOP = 11.4 * PICO
HBM2_J_PER_BYTE = 7.03 * BITS_PER_BYTE * PICO  # upper end of 250-450 pJ per 64 bit (Jouppi et al., ISCA 2021, recalled)
# Geometric mean of 1 pJ/bit on package and 13 pJ/bit between nodes (DeepFlow configurations).
BOARD_LINK_J_PER_BYTE = 3.6 * BITS_PER_BYTE * PICO
ETHERNET_J_PER_BYTE = 13 * BITS_PER_BYTE * PICO  # inter-node link, 13 pJ/bit (DeepFlow configurations)


def component_energy(*, node: str, idle_w: float) -> EnergyCosts:
    """Energy of a systolic chip from the published energy of its parts, logic scaled by process node."""
    return EnergyCosts(
        tensor_j_per_flop=SYSTOLIC_J_PER_FLOP * NODE_ENERGY_RATIO[node],
        vector_j_per_flop=LANE_J_PER_FLOP * NODE_ENERGY_RATIO[node],
        hbm_j_per_byte=HBM2_J_PER_BYTE,
        link_j_per_byte=BOARD_LINK_J_PER_BYTE,
        idle_w=idle_w,
    )


COMPONENT_SOURCE = (
    "estimate: 7 nm operation and SRAM energies (Jouppi et al., ISCA 2021, recalled) scaled by node (Stillmaker & Baas "
    "2017); HBM2 7.03 pJ/bit; links 3.6 pJ/bit, between the on-package and inter-node figures of DeepFlow"
)
IDLE_SOURCE = "estimate: the H200's measured idle share of TDP, 118.3 W of 700 W"
