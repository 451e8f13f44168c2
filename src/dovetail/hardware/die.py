"""What is on a chip's silicon that software never sees: node, dies, register files, PHYs, lanes and spare cores."""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.units import KIBI, NANO

RETICLE_MM2 = 858.0  # the field of a lithography scanner, 26 mm x 33 mm: no die is larger
BUFFERED_UNITS = ("tensor", "vector", "none")
HBM_GENERATIONS = ("HBM2", "HBM2e", "HBM3", "HBM3e")
MEMORY_TECHNOLOGIES = (*HBM_GENERATIONS, "GDDR6", "GDDR6X", "GDDR7")
_COUNTS = (
    "num_schedulers",
    "num_fp64_lanes",
    "num_hbm_stacks",
    "num_spare_hbm_phys",
    "num_link_lanes",
    "num_pcie_lanes",
    "num_io_dies",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Die:
    """The silicon of one chip, as the area, power and price models need it beside the `Chip`.

    A core is one vector unit with what surrounds it (an SM, a TensorCore). `spare_core_frac` is the share of the cores
    on the die that are switched off in the part sold: 12 of the 144 SMs of GH100; `spare_sram_frac` likewise of the
    shared SRAM. `buffered_units` says who owns a core buffer: every tensor or every vector unit, or none where the
    shared SRAM *is* the core buffers. With I/O dies, shared SRAM, network, PHYs and links lie on them.
    """

    node_m: float = 7 * NANO
    num_dies: int = 1  # equal dies in the package, I/O dies not counted
    num_io_dies: int = 0
    io_node_m: float = 7 * NANO  # of the I/O dies; not read where there are none
    register_bytes: float = 2 * KIBI  # of one core
    num_schedulers: int = 1  # instruction issuers of one core: 4 in an SM, 1 where a sequencer drives the whole core
    num_fp64_lanes: int = 0  # of one core
    has_dot_products: bool = False  # products meet in an adder tree (GPUs); else every multiplier has its accumulator
    buffered_units: str = "vector"
    spare_core_frac: float = 0.0
    spare_sram_frac: float = 0.0
    num_hbm_stacks: int = 1  # or memory chips on the board, where they are not stacked
    num_spare_hbm_phys: int = 0  # on the die without a stack beside them
    hbm_generation: str = "HBM2e"  # one of MEMORY_TECHNOLOGIES
    num_link_lanes: int = 0  # SerDes lanes of the scale-up network, one pair each way
    num_pcie_lanes: int = 16

    area_model: str = "dovetail"  # the model that gives the area: dovetail, or phaze-22nm

    def __post_init__(self) -> None:
        for label in ("node_m", "io_node_m"):
            if not getattr(self, label) > 0:
                raise InvalidInput(f"{label} must be positive; got {getattr(self, label):g}", label)
        if self.num_dies < 1:
            raise InvalidInput(f"num_dies must be at least 1; got {self.num_dies}", "num_dies")
        for label in (*_COUNTS, "register_bytes"):
            if not getattr(self, label) >= 0:
                raise InvalidInput(f"{label} must not be negative; got {getattr(self, label)}", label)
        for label in ("spare_core_frac", "spare_sram_frac"):
            if not 0 <= getattr(self, label) < 1:
                raise InvalidInput(f"{label} must be from 0 to below 1; got {getattr(self, label):g}", label)
        _require_one_of("buffered_units", self.buffered_units, BUFFERED_UNITS)
        _require_one_of("hbm_generation", self.hbm_generation, MEMORY_TECHNOLOGIES)

    @property
    def has_stacks(self) -> bool:
        """Whether memory is HBM, in stacks on an interposer, and not in chips of their own on the board."""
        return self.hbm_generation in HBM_GENERATIONS


def _require_one_of(label: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise InvalidInput(f"{label} must be one of {', '.join(known)}; got {word!r}{did_you_mean(word, known)}", label)
