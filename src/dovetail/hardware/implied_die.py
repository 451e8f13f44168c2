"""The die that a chip's other figures suggest, for people who describe a chip and not its silicon."""

from __future__ import annotations

import math
import re

from dovetail.hardware.chip import Chip
from dovetail.hardware.die import Die
from dovetail.units import BITS_PER_BYTE, GIGA, KIBI, NANO

IMPLIED_SOURCE = "estimate: implied by the other figures of the chip, as docs/reference/spec-file.md says"
# Figures of a die that are implied; all others are those of any die unless given.
IMPLIED = {
    "node_m",
    "register_bytes",
    "num_schedulers",
    "has_dot_products",
    "buffered_units",
    "num_hbm_stacks",
    "hbm_generation",
    "num_link_lanes",
}
STACK_BYTES_PER_S = 600 * GIGA  # one HBM stack, between HBM2e's 460 GB/s and HBM3's 820 GB/s
LANE_BYTES_PER_S = 100 * GIGA / BITS_PER_BYTE  # one SerDes lane of 2020 to 2024
MANY_CORES = 16  # from as many cores on, each with its own tensor and vector unit, a chip is taken for a GPU
NODES = re.compile(r"(\d+) ?nm|\bN(\d+)|\b(\d+)N")  # "7 nm", "N7", "4N"
DEFAULT_NODE, SMALLEST_NODE, LARGEST_NODE = 7, 3, 28


def implied_die(chip: Chip) -> Die:
    """A die for `chip` from its process, bandwidths, year and number of cores: one piece of silicon without spares."""
    tensor, vector = chip.tensor, chip.vector
    is_gpu = tensor.num_units == vector.num_units >= MANY_CORES
    # the shared SRAM is the cores' own buffers where both come to the same
    is_all_buffers = math.isclose(vector.num_units * chip.core_buffer_bytes, chip.sram.capacity_bytes, rel_tol=0.01)
    return Die(
        node_m=_node(chip.process) * NANO,
        register_bytes=256 * KIBI if is_gpu else 128.0 * vector.num_lanes,  # 32 registers of 4 bytes a lane
        num_schedulers=4 if is_gpu else 1,
        has_dot_products=is_gpu,
        buffered_units="none" if is_all_buffers else "vector",
        num_hbm_stacks=max(1, round(chip.hbm.bandwidth_bytes_per_s / STACK_BYTES_PER_S)),
        hbm_generation=_generation(chip.year),
        num_link_lanes=math.ceil(chip.interconnect_bytes_per_s / LANE_BYTES_PER_S),
    )


def _node(process: str) -> int:
    match = NODES.search(process)
    size = int(next(group for group in match.groups() if group)[:4]) if match else DEFAULT_NODE
    return min(max(size, SMALLEST_NODE), LARGEST_NODE)


def _generation(year: int) -> str:
    starts = ((2024, "HBM3e"), (2022, "HBM3"), (2020, "HBM2e"))
    return next((generation for start, generation in starts if year >= start), "HBM2")
