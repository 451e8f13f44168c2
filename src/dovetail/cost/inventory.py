"""What is on a chip's silicon, counted: the input of the area, power and price models, for one chip or for arrays."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.cost.engines import engines_of
from dovetail.cost.node import Amount
from dovetail.errors import NotModelled
from dovetail.hardware.chip import Chip, TensorUnits
from dovetail.hardware.die import HBM_GENERATIONS
from dovetail.hardware.part_energy import slice_bytes

# Bits that a multiplier multiplies, the hidden one included.
SIGNIFICAND = {"fp32": 24, "tf32": 11, "fp16": 11, "bf16": 8, "int8": 8, "fp8": 4, "fp4": 2}
BF16_PRODUCT = SIGNIFICAND["bf16"] ** 2
# Two places on a line are a third of it apart on average. Few cores have the shared memory beside them along all their
# length, so wires run along one axis; a GPU's many cores reach every slice of a cache, so they run along both.
ONE_AXIS, BOTH_AXES = 1 / 3, 2 / 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """Everything built, switched off or not, over all dies of the package; each field a number or an array.

    `multiplier_ratio` is the multiplier array of one multiply-accumulate over bf16's; `adder_ratio` its adder over an
    accumulator of its own. Every memory is in one field: `register_bytes` of lanes, `accumulator_bytes` inside arrays
    that hold their results, `buffer_bytes` of cores with the arrays' own, `vector_memory_bytes` and `sram_bytes`. Of
    the last two, `.._bytes_per_clock` are what their ports deliver. `noc_bytes_per_clock` is what crosses the die, over
    `crossed_frac` of its side. `.._slice_bytes` are the part of a memory that an access goes to, 0 for all of it:
    vector memory is cut into slices beside the lanes, and so is a shared SRAM that is the cores' own buffers.
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
    accumulator_bytes: Amount = 0.0
    vector_memory_bytes: Amount = 0.0
    vector_memory_bytes_per_clock: Amount = 0.0
    sram_bytes_per_clock: Amount = 0.0
    crossed_frac: Amount = ONE_AXIS
    sram_slice_bytes: Amount = 0.0
    vector_memory_slice_bytes: Amount = 0.0


DOT_PRODUCT_ADDER_FRAC = 0.5  # estimate: products added in a tree share one alignment and one rounding
ACCUMULATOR_BYTES = 4  # fp32, of each multiplier of an array that can hold its results


def multiplier_ratio(rates_flop_per_s: tuple[tuple[str, float], ...]) -> float:
    """Multiplier array of one bf16 multiply-accumulate over a plain bf16 one: the widest dtype at its rate decides.

    A dtype of s significand bits at r times the rate needs r x s^2 bit products a clock.
    """
    known = dict(rates_flop_per_s)
    reference = next((known[dtype] for dtype in ("bf16", "fp16", "int8") if dtype in known), max(known.values()))
    return max(SIGNIFICAND[dtype] ** 2 * rate / reference for dtype, rate in rates_flop_per_s) / BF16_PRODUCT


def inventory(chip: Chip) -> Inventory:
    """What `chip` has on its dies, its spare cores and spare SRAM included.

    Raises `NotModelled` for memory that is not stacked: what its PHYs take on a die is not published, and a package
    without an interposer costs something else.
    """
    if not chip.die.has_stacks:
        what = f"area, power at peak and price of a die beside {chip.die.hbm_generation}"
        raise NotModelled(f"{what} are not modelled; they are for {', '.join(HBM_GENERATIONS)}", "die.hbm_generation")
    die, tensor, vector = chip.die, chip.tensor, chip.vector
    built = 1 / (1 - die.spare_core_frac)
    num_cores = vector.num_units * built
    num_macs = tensor.num_units * tensor.num_rows * tensor.num_cols * built
    memory_bytes, memory_bytes_per_s = vector_memory_of(chip)
    holds_results = tensor.tiling.is_array and "output" in tensor.tiling.stationary
    # Where the shared SRAM is the cores' own buffers, only HBM traffic crosses the die.
    crossing = chip.hbm if die.buffered_units == "none" else chip.sram
    endpoint_mm2, endpoint_w = engines_of(chip)
    return Inventory(
        node_m=die.node_m,
        io_node_m=die.io_node_m if die.num_io_dies else die.node_m,
        num_dies=die.num_dies,
        num_io_dies=die.num_io_dies,
        num_macs=num_macs,
        multiplier_ratio=multiplier_ratio(_multiplied(tensor)),
        adder_ratio=DOT_PRODUCT_ADDER_FRAC if die.has_dot_products else 1.0,
        num_lanes=num_cores * vector.num_lanes,
        num_fp64_lanes=num_cores * die.num_fp64_lanes,
        num_schedulers=num_cores * die.num_schedulers,
        register_bytes=num_cores * die.register_bytes,
        buffer_bytes=buffer_bytes(chip) * built,
        sram_bytes=chip.sram.capacity_bytes / (1 - die.spare_sram_frac),
        noc_bytes_per_clock=crossing.bandwidth_bytes_per_s / chip.clock_hz,
        num_hbm_phys=die.num_hbm_stacks + die.num_spare_hbm_phys,
        num_link_lanes=die.num_link_lanes,
        num_pcie_lanes=die.num_pcie_lanes,
        has_spare_cores=float(die.spare_core_frac > 0),
        endpoint_mm2=endpoint_mm2,
        endpoint_w=endpoint_w,
        accumulator_bytes=ACCUMULATOR_BYTES * num_macs if holds_results else 0.0,
        vector_memory_bytes=memory_bytes * built,
        vector_memory_bytes_per_clock=memory_bytes_per_s / chip.clock_hz * built,
        sram_bytes_per_clock=chip.sram.bandwidth_bytes_per_s / chip.clock_hz,
        crossed_frac=BOTH_AXES if die.has_dot_products else ONE_AXIS,
        sram_slice_bytes=float(slice_bytes(chip.sram.capacity_bytes, vector.num_units))
        if die.buffered_units == "none"
        else 0.0,
        vector_memory_slice_bytes=float(slice_bytes(memory_bytes, vector.num_units)),
    )


def _multiplied(tensor: TensorUnits) -> tuple[tuple[str, float], ...]:
    """Rates of the dtypes that the multipliers see: what lanes convert reaches them in another."""
    return tuple((dtype, rate) for dtype, rate in tensor.rates if dtype not in tensor.converted) or tensor.rates


def vector_memory_of(chip: Chip) -> tuple[float, float]:  # style: (bytes, bytes per second)
    """Capacity and bandwidth of the vector memory of the cores in use; nothing of a chip without."""
    memory = chip.vector_memory
    return (0.0, 0.0) if memory is None else (memory.capacity_bytes, memory.bandwidth_bytes_per_s)


def buffer_bytes(chip: Chip) -> float:
    """Core buffers and the arrays' own of the cores in use; a vector unit's buffer may be its vector memory."""
    tensor, owner = chip.tensor, chip.die.buffered_units
    own_bytes = tensor.num_units * tensor.buffer_bytes if tensor.tiling.is_array and owner != "tensor" else 0.0
    if owner == "tensor":
        return tensor.num_units * chip.core_buffer_bytes
    if owner == "vector" and chip.vector_memory is None:
        return own_bytes + chip.vector.num_units * chip.core_buffer_bytes
    return own_bytes
