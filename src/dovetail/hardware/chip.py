"""The accelerator as a value: GPUs, TPUs and template chips are one type with other numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput, NotModelled
from dovetail.hardware.memory import Memory


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorUnits:
    """The matrix engines of a chip.

    One unit is what takes one output tile at a time: a systolic array, or all tensor cores of one GPU SM.
    `num_rows * num_cols` is its multiply-accumulates a clock in bf16 (fp16, or int8 where it has neither);
    `rates` are the datasheet peaks per dtype for the whole chip. Matrices are padded to `tile`: (m, n, k).
    """

    num_units: int
    num_rows: int
    num_cols: int
    tile: tuple[int, int, int]
    rates: tuple[tuple[str, float], ...]  # style: (dtype, FLOP/s) pairs, read through peak_flop_per_s

    def __post_init__(self) -> None:
        for label, count in (("num_units", self.num_units), ("num_rows", self.num_rows), ("num_cols", self.num_cols)):
            if count < 1:
                raise InvalidInput(f"{label} must be at least 1; got {count}", label)
        if min(self.tile) < 1:
            raise InvalidInput(f"tile sizes must be at least 1; got {self.tile}", "tile")
        if not self.rates or any(not rate > 0 for _, rate in self.rates):
            raise InvalidInput(f"every dtype needs a positive peak rate; got {dict(self.rates)}", "rates")

    def peak_flop_per_s(self, dtype: str) -> float:
        for known, rate in self.rates:
            if known == dtype:
                return rate
        known_dtypes = ", ".join(known for known, _ in self.rates)
        raise NotModelled(f"this chip's tensor units have no rate for {dtype}; it has {known_dtypes}")

    def scaled(self, factor: float) -> TensorUnits:
        return replace(self, rates=tuple((dtype, rate * factor) for dtype, rate in self.rates))


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorUnits:
    """The lanes that do everything but matrix products; `peak_flop_per_s` is fp32 over the whole chip."""

    num_units: int
    num_lanes: int
    peak_flop_per_s: float

    def __post_init__(self) -> None:
        for label, count in (("num_units", self.num_units), ("num_lanes", self.num_lanes)):
            if count < 1:
                raise InvalidInput(f"{label} must be at least 1; got {count}", label)
        if not self.peak_flop_per_s > 0:
            raise InvalidInput(f"vector peak must be positive; got {self.peak_flop_per_s:g} FLOP/s", "peak")


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """How far from its datasheet a chip runs: few physical numbers, and what they were fitted on."""

    tensor_frac: float  # sustained share of peak on large matrix products
    vector_frac: float  # sustained share of peak vector rate
    hbm_frac: float  # achievable share of HBM bandwidth
    link_frac: float  # achievable share of link bandwidth in collectives
    launch_s: float  # from one operator's end to the next one's start, queue full
    fitted_on: str

    def __post_init__(self) -> None:
        shares = {
            "tensor_frac": self.tensor_frac,
            "vector_frac": self.vector_frac,
            "hbm_frac": self.hbm_frac,
            "link_frac": self.link_frac,
        }
        for label, share in shares.items():
            if not 0 < share <= 1:
                raise InvalidInput(f"{label} must be above 0 and at most 1; got {share:g}", label)
        if not self.launch_s >= 0:
            raise InvalidInput(f"launch time must not be negative; got {self.launch_s:g} s", "launch")


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyCosts:
    """Joules for doing things, and watts for being on."""

    tensor_j_per_flop: float  # bf16, operand delivery included
    vector_j_per_flop: float
    hbm_j_per_byte: float
    link_j_per_byte: float
    idle_w: float

    def __post_init__(self) -> None:
        for label in ("tensor_j_per_flop", "vector_j_per_flop", "hbm_j_per_byte", "link_j_per_byte", "idle_w"):
            if not getattr(self, label) >= 0:
                raise InvalidInput(f"{label} must not be negative; got {getattr(self, label):g}", label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One accelerator as software addresses it (one GCD pair, one TPU chip, one GPU package).

    `sources` names where each figure comes from, by field path; `facts` holds what is known beyond the
    fields, as (what, value with unit, source).
    """

    name: str
    vendor: str
    year: int
    process: str
    clock_hz: float
    tensor: TensorUnits
    vector: VectorUnits
    core_buffer_bytes: float  # per core: shared memory / VMEM / L2 buffer of a template core
    sram: Memory  # shared by all cores: L2, CMEM, global buffer
    hbm: Memory
    tdp_w: float
    interconnect_bytes_per_s: float  # out of the chip, one direction, scale-up network
    calibration: Calibration
    energy: EnergyCosts
    sources: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str, str], ...] = ()

    def __post_init__(self) -> None:
        for label in ("clock_hz", "core_buffer_bytes", "tdp_w", "interconnect_bytes_per_s"):
            if not getattr(self, label) > 0:
                raise InvalidInput(f"{label} must be positive; got {getattr(self, label):g}", label)

    def peak_flop_per_s(self, dtype: str) -> float:
        return self.tensor.peak_flop_per_s(dtype)
