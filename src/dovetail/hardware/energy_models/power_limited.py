"""Energy of a chip that meets its power limit in large matrix products."""

from __future__ import annotations

from dovetail.errors import InvalidInput
from dovetail.hardware.chip import Chip, EnergyCosts
from dovetail.hardware.energy_models import (
    BOARD_LINK_J_PER_BYTE,
    H200_IDLE_W,
    EnergyModel,
    energy_models,
    energy_ratio,
)
from dovetail.hardware.node_energy import ENERGY_RATIO
from dovetail.units import BITS_PER_BYTE, PICO

# At full clock and voltage, from thirteen loads of 2.5 s (docs/model/power.md). Copies draw 116.5 pJ/byte above idle;
# of it 30 pJ/byte are laid to the shared SRAM and the way to the cores (CMEM at 7 nm: 15-19 pJ/byte, without that way).
# Large GEMMs slow to 0.774 of full clock at 700 W: 1.01 pJ/FLOP beside their SRAM traffic. GELU: 7.4 pJ a lane slot.
GH100_ENERGY = EnergyCosts(
    tensor_j_per_flop=1.01 * PICO,
    vector_j_per_flop=7.4 * PICO,
    sram_j_per_byte=30 * PICO,
    hbm_j_per_byte=86.5 * PICO,
    link_j_per_byte=1.3 * BITS_PER_BYTE * PICO,  # NVLink4, about 1.3 pJ/bit (NVIDIA, Hot Chips 34, 2022, recalled)
    idle_w=H200_IDLE_W,
    still_frac=0.30,  # one load: products of zeros draw 401 W where those of random data meet the limit
)
SUSTAINED_POWER_RATIO = 0.85  # of what the limit leaves above idle: the rest is SRAM and HBM
POWER_LIMITED_SOURCE = (
    "estimate: tensor energy as if large GEMMs met the power limit at the rate they are stated to hold; HBM and "
    "idle share of TDP as measured on the H200; vector energy scaled from it by node (Stillmaker & Baas 2017)"
)
COUNTED = (
    "bf16",
    "fp16",
    "int8",
)  # of these the first that a chip has is the dtype that its multipliers are counted in


def power_limited_energy(chip: Chip, idle_w: float) -> EnergyCosts:
    """Products draw what is left of the limit at the share of peak that the chip's calibration has.

    HBM costs what it does on the H200; vector work and SRAM scale from it by process node.
    """
    known = dict(chip.tensor.rates)
    rate_flop_per_s = next((known[dtype] for dtype in COUNTED if dtype in known), 0.0)
    if not rate_flop_per_s:
        raise InvalidInput(f"energy by the power limit needs a rate for {' or '.join(COUNTED)}", "tensor.rates")
    sustained_flop_per_s = chip.calibration.tensor_frac * rate_flop_per_s
    return EnergyCosts(
        tensor_j_per_flop=SUSTAINED_POWER_RATIO * (chip.tdp_w - idle_w) / sustained_flop_per_s,
        vector_j_per_flop=GH100_ENERGY.vector_j_per_flop * energy_ratio(chip) / ENERGY_RATIO[4],
        sram_j_per_byte=GH100_ENERGY.sram_j_per_byte * energy_ratio(chip) / ENERGY_RATIO[4],
        hbm_j_per_byte=GH100_ENERGY.hbm_j_per_byte,
        link_j_per_byte=BOARD_LINK_J_PER_BYTE,
        idle_w=idle_w,
    )


energy_models.register("power-limited")(
    EnergyModel(
        name="power-limited",
        summary="GPUs and the like: large products draw what the power limit leaves at the rate they hold",
        energy=power_limited_energy,
        source=POWER_LIMITED_SOURCE,
    )
)
