"""What is on a chip's silicon, counted: the input of the area, power and price models, for one chip or for arrays."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cost.engines import engines_of
from dovetail.cost.node import Amount
from dovetail.errors import NotModelled
from dovetail.hardware.chip import Chip
from dovetail.hardware.die import HBM_GENERATIONS

# Bits that a multiplier multiplies, the hidden one included.
SIGNIFICAND = {"fp32": 24, "tf32": 11, "fp16": 11, "bf16": 8, "int8": 8, "fp8": 4, "fp4": 2}
BF16_PRODUCT = SIGNIFICAND["bf16"] ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything built, switched off or not, over all dies of the package; each field a number or an array.

    `multiplier_ratio` is the multiplier array of one multiply-accumulate over bf16's; `adder_ratio` its adder over an
    accumulator of its own. `num_cores` counts vector units, `num_units` tensor units.
    """

    node_m: Amount
    io_node_m: Amount
    num_dies: Amount
    num_io_dies: Amount
    num_macs: Amount
    multiplier_ratio: Amount
    adder_ratio: Amount
    num_lanes: Amount
    num_fp64_lanes: Amount
    num_schedulers: Amount
    register_bytes: Amount
    buffer_bytes: Amount
    sram_bytes: Amount
    noc_bytes_per_clock: Amount
    num_hbm_phys: Amount
    num_link_lanes: Amount
    num_pcie_lanes: Amount
    has_spare_cores: Amount  # style: 1 or 0, so that arrays of chips may mix both
    endpoint_mm2: Amount = 0.0  # engines that run collectives, on the node that has the links
    endpoint_w: Amount = 0.0
    accumulator_bytes: Amount = 0.0  # in the PEs of arrays that can hold results still


ACCUMULATOR_BYTES = 4.0  # fp32, of each PE that can hold results still, beside its operand registers
DOT_PRODUCT_ADDER_FRAC = 0.5  # estimate: products added in a tree share one alignment and one rounding


def multiplier_ratio(rates_flop_per_s: tuple[tuple[str, float], ...]) -> float:
    """Multiplier array of one bf16 multiply-accumulate over a plain bf16 one: the widest dtype at its rate decides.

    A dtype of s significand bits at r times the rate needs r x s^2 bit products a clock.
    """
    known = dict(rates_flop_per_s)
    reference = next((known[dtype] for dtype in ("bf16", "fp16", "int8") if dtype in known), max(known.values()))
    return max(SIGNIFICAND[dtype] ** 2 * rate / reference for dtype, rate in rates_flop_per_s) / BF16_PRODUCT


def inventory(chip: Chip) -> Inventory:
    """What `chip` has on its dies, its spare cores and spare SRAM included.

    Raises `NotModelled` for memory that is not stacked: nobody has published what its PHYs take on a die, and a package
    without an interposer costs something else.
    """
    if not chip.die.has_stacks:
        what = f"area, power at peak and price of a die beside {chip.die.hbm_generation}"
        raise NotModelled(f"{what} are not modelled; they are for {', '.join(HBM_GENERATIONS)}", "die.hbm_generation")
    die, tensor, vector = chip.die, chip.tensor, chip.vector
    built = 1 / (1 - die.spare_core_frac)
    num_cores = vector.num_units * built
    num_buffers = {"tensor": tensor.num_units, "vector": vector.num_units, "none": 0}[die.buffered_units] * built
    has_accumulators = tensor.tiling.is_array and die.buffered_units != "tensor"
    accumulator_bytes = tensor.num_units * built * tensor.buffer_bytes if has_accumulators else 0.0
    # vector memory is the vector cores' own buffers where these have some, and else beside all of them
    is_apart = chip.vector_memory is not None and die.buffered_units != "vector"
    vector_memory_bytes = chip.vector_memory.capacity_bytes * built if chip.vector_memory and is_apart else 0.0
    holds_results = tensor.tiling.is_array and "output" in tensor.tiling.stationary
    num_macs = tensor.num_units * tensor.num_rows * tensor.num_cols * built
    # Where the shared SRAM is the cores' own buffers, only HBM traffic crosses the die.
    crossing = chip.hbm if die.buffered_units == "none" else chip.sram
    endpoint_mm2, endpoint_w = engines_of(chip)
    return Inventory(
        node_m=die.node_m,
        io_node_m=die.io_node_m if die.num_io_dies else die.node_m,
        num_dies=die.num_dies,
        num_io_dies=die.num_io_dies,
        num_macs=num_macs,
        multiplier_ratio=multiplier_ratio(tensor.rates),
        adder_ratio=DOT_PRODUCT_ADDER_FRAC if die.has_dot_products else 1.0,
        num_lanes=num_cores * vector.num_lanes,
        num_fp64_lanes=num_cores * die.num_fp64_lanes,
        num_schedulers=num_cores * die.num_schedulers,
        register_bytes=num_cores * die.register_bytes,
        buffer_bytes=num_buffers * chip.core_buffer_bytes + vector_memory_bytes + accumulator_bytes,
        sram_bytes=chip.sram.capacity_bytes / (1 - die.spare_sram_frac),
        noc_bytes_per_clock=crossing.bandwidth_bytes_per_s / chip.clock_hz,
        num_hbm_phys=die.num_hbm_stacks + die.num_spare_hbm_phys,
        num_link_lanes=die.num_link_lanes,
        num_pcie_lanes=die.num_pcie_lanes,
        has_spare_cores=float(die.spare_core_frac > 0),
        endpoint_mm2=endpoint_mm2,
        endpoint_w=endpoint_w,
        accumulator_bytes=ACCUMULATOR_BYTES * num_macs if holds_results else 0.0,
    )
