"""Energy of a systolic chip from the published energy of its parts, logic scaled by process node."""

from __future__ import annotations

from dovetail.hardware.chip import Chip, EnergyCosts
from dovetail.hardware.energy_models import BOARD_LINK_J_PER_BYTE, EnergyModel, energy_models, energy_ratio
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
from dovetail.hardware.template import has_local_sram

COMPONENT_SOURCE = (
    "estimate: 7 nm operation and SRAM energies (Jouppi et al., ISCA 2021, recalled; AccelForge), at the activity that "
    "TDPs show, scaled by node (Stillmaker & Baas 2017); HBM 4.5 pJ/bit (DeepFlow); links 3.6 pJ/bit, between the "
    "on-package and inter-node figures of DeepFlow"
)


def component_energy(chip: Chip, idle_w: float) -> EnergyCosts:
    """Of its arrays, lanes and memories.

    An SRAM that all cores share, as CMEM or a global buffer, is as far away as it is large; where it is the cores' own
    vector memory, it lies in slices beside their lanes.
    """
    busy = ACTIVITY * energy_ratio(chip)
    slice_j_per_byte = busy * float(access_j_per_byte(SLICE_BYTES))
    shared_j_per_byte = busy * float(access_j_per_byte(chip.sram.capacity_bytes))
    num_macs = chip.tensor.num_rows * chip.tensor.num_cols
    return EnergyCosts(
        tensor_j_per_flop=busy * float(MULTIPLY_J + ADD_J + operand_j(num_macs)) / 2,
        vector_j_per_flop=busy * LANE_J / 2,
        vector_memory_j_per_byte=slice_j_per_byte,
        sram_j_per_byte=slice_j_per_byte if has_local_sram(chip) else shared_j_per_byte,
        hbm_j_per_byte=HBM_J_PER_BYTE,
        link_j_per_byte=BOARD_LINK_J_PER_BYTE,
        idle_w=idle_w,
    )


energy_models.register("components")(
    EnergyModel(
        name="components",
        summary="systolic arrays: published energies of multipliers, lanes and memories, scaled by node",
        energy=component_energy,
        source=COMPONENT_SOURCE,
        is_idle_by_area=True,
    )
)
