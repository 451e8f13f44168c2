"""The accelerator as a value: GPUs, TPUs and template chips are one type with other numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.hardware.die import Die
from dovetail.hardware.endpoints import SM_DRIVEN, Endpoint, endpoint_named, endpoints
from dovetail.hardware.measured import NOT_MEASURED, Measured
from dovetail.hardware.memory import MAX_RESERVE_FRAC, PLAN_RESERVE_FRAC, PLAN_RESERVE_SOURCE, Memory
from dovetail.units import KIBI

STATIONARY = ("output", "weight", "input")
FILLS = ("hidden", "load", "whole")
LEAST_FRAC = 1e-6  # style: a bound; a chip that reaches less of a peak has another
MAX_CLOCK_SPREAD_FRAC = 0.2  # more, and the slowest of a thousand would be at half the pace of the mean


HEADROOM_GIVEN = "the requested headroom"
HEADROOM_TO_FIT = "so that plans fit with"  # and how likely


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How a product C[m,n] = A[m,k] B[k,n] is cut into what one unit does in one go.

    A unit holds a tile of one operand still (`stationary`: of C, B or A) and lets the third extent stream past it.

    Systolic arrays (`is_array`, which any that hold B or A are) are mapped: `stationary` lists their dataflows, one
    where it is fixed, and tiles follow from their memories (`cost.mapping`). `fill` is how often the fill and drain of
    an array shows: once a product ("hidden": double-buffered operands), for every tile in its buffer ("load"), or for
    every pass ("whole": what SCALE-Sim counts). An array loads `num_loaded_rows` rows of what it holds per clock.

    GPUs take the best of all `tiles` (rows x cols of the tile held), in groups of `num_steps`. One that stages operands
    in a buffer its software manages loads `staging_bytes` before the first product; one whose cores write their own
    results cannot multiply meanwhile (`is_output_hidden` false). Kernels of products run as clusters of
    `num_cluster_units` units, each of which must lie in one of the chip's `num_groups` groups of units.
    """

    tiles: tuple[tuple[int, int], ...]
    stationary: tuple[str, ...] = ("output",)
    num_steps: int = 1
    fill: str = "hidden"
    staging_bytes: float = 0.0
    is_output_hidden: bool = True
    num_cluster_units: int = 1
    num_groups: int = 1
    is_array: bool = False
    num_loaded_rows: int = 1

    def __post_init__(self) -> None:
        if self.stationary != ("output",):
            object.__setattr__(self, "is_array", True)
        if self.num_loaded_rows < 1:
            raise InvalidInput(f"num_loaded_rows must be at least 1; got {self.num_loaded_rows}", "num_loaded_rows")
        if self.num_cluster_units < 1 or self.num_groups < 1:
            got = f"{self.num_cluster_units} units a cluster in {self.num_groups} groups"
            raise InvalidInput(f"a cluster needs at least one unit and one group; got {got}", "num_cluster_units")
        if not self.tiles or min(min(tile) for tile in self.tiles) < 1 or self.num_steps < 1:
            got = ", ".join("x".join(map(str, tile)) for tile in self.tiles) or "none"
            raise InvalidInput(f"tile sizes must be at least 1; got {got}, steps of {self.num_steps}", "tiles")
        for label, words, known in (("stationary", self.stationary, STATIONARY), ("fill", (self.fill,), FILLS)):
            unknown = [word for word in words if word not in known]
            if unknown or not words:
                got = ", ".join(unknown) or "nothing"
                hint = did_you_mean(got, known)
                raise InvalidInput(f"{label} must be {' or '.join(known)}; got {got}{hint}", label)
        if not self.staging_bytes >= 0:
            raise InvalidInput(f"staging must not be negative; got {self.staging_bytes:g} bytes", "staging")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorUnits:
    """The matrix engines of a chip.

    One unit is what takes one tile at a time: a systolic array, or all tensor cores of one GPU SM.
    `num_rows * num_cols` is its multiply-accumulates a clock in bf16 (fp16, or int8 where it has neither);
    `rates` are the datasheet peaks per dtype for the whole chip; `tiling` is how products are cut for a unit. Operands
    in a dtype of `converted` pass the vector lanes on their way to an array, each time a tile asks for them.
    """

    num_units: int
    num_rows: int
    num_cols: int
    tiling: Tiling
    rates: tuple[tuple[str, float], ...]  # style: (dtype, FLOP/s) pairs, read through peak_flop_per_s
    # of each array: its accumulators; not read on GPUs, nor where it owns a core buffer
    buffer_bytes: float = 128 * KIBI
    converted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for label, count in (("num_units", self.num_units), ("num_rows", self.num_rows), ("num_cols", self.num_cols)):
            if count < 1:
                raise InvalidInput(f"{label} must be at least 1; got {count}", label)
        if not self.rates or any(not rate > 0 for _, rate in self.rates):
            raise InvalidInput(f"every dtype needs a positive peak rate; got {dict(self.rates)}", "rates")
        if not self.buffer_bytes > 0:
            raise InvalidInput(f"the buffer of an array must be positive; got {self.buffer_bytes:g} bytes", "buffer")
        for dtype in self.converted:
            self.peak_flop_per_s(dtype)

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
    """How far from its datasheet a chip runs: few physical numbers, and what they were fitted on.

    Defaults are those of a design on paper: nothing is lost, and nothing waits.
    """

    tensor_frac: float = 1.0  # share of peak that the main loop of a large product reaches at full clock
    vector_frac: float = 1.0  # sustained share of peak vector rate
    hbm_frac: float = 1.0  # achievable share of HBM bandwidth, several streams
    link_frac: float = 1.0  # achievable share of link bandwidth in collectives
    exchange_s: float = 0.0  # a collective's start and end beside its hops
    launch_s: float = 0.0  # a kernel's start and end
    alone_s: float = 0.0  # further, for an operator on its own: an idle queue and cold caches
    fill_s: float = 0.0  # start and end of a tile beside what its tiling says
    tile_step_s: float = 0.0  # least time of one group of steps of a tile, and of a dependent step of a row kernel
    split_s: float = 0.0  # summing a contraction that several units shared
    sram_reuse: float = 1.0  # uses of an operand byte for each time it leaves the shared SRAM
    stream_frac: float = 1.0  # of hbm_frac: a kernel with a single input stream
    write_frac: float = 1.0  # of hbm_frac: a kernel that only writes
    conversion_slots: float = (
        0.0  # arrays: lane clocks of an operand in a converted dtype, each time a tile asks for it
    )
    conversion_result_slots: float = 0.0  # arrays: and of a result
    visits_ratio: float = 1.0  # arrays: how often the compiler's tiles ask for an operand, over those of the mapper
    overlap_frac: float = 0.0  # arrays: of the shorter of products and softmax in attention, what the longer hides
    lanes_frac: float = 1.0  # GPUs: share of peak that the main loop of an fp32 product reaches on the vector lanes
    wait_s: float = 0.0  # one memory round trip or barrier of a row of a norm, softmax or loss
    clock_spread_frac: float = 0.0  # standard deviation of the pace of equal devices, of its mean
    power_loop_s: float = 0.0  # how long a kernel runs until half of the power limit's effect shows
    host_kernel_s: float = 0.0  # host: each kernel queued by autograd
    host_gradient_s: float = 0.0  # host: each gradient tensor made
    host_autograd_s: float = 0.0  # host: handing a backward pass to its thread
    host_exchange_s: float = 0.0  # host: each collective called
    host_op_s: float = 0.0  # host: each operator of a layer run eagerly, forward
    host_call_s: float = 0.0  # host: a forward pass entered, beside its operators
    host_backward_s: float = 0.0  # host: a backward pass entered
    host_rerun_s: float = 0.0  # host: each eager block that is recomputed: its random state, and autograd entered again
    host_slowdown: float = 1.0  # host: of code recorded operator by operator, over the host that its paces are of
    fitted_on: str
    family: str = ""  # of `families`: whose error on chips that it was not fitted on is this one's; empty for none

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "clock_spread_frac":
                if not 0 <= value <= MAX_CLOCK_SPREAD_FRAC:
                    bound = f"from 0 to {MAX_CLOCK_SPREAD_FRAC:g}"
                    raise InvalidInput(f"clock_spread_frac must be {bound}; got {value:g}", field.name)
            elif field.name == "overlap_frac":
                if not 0 <= value <= 1:
                    raise InvalidInput(f"overlap_frac must be from 0 to 1; got {value:g}", field.name)
            elif field.name.endswith("_frac") and not LEAST_FRAC <= value <= 1:
                raise InvalidInput(f"{field.name} must be from {LEAST_FRAC:g} to 1; got {value:g}", field.name)
            elif field.name == "host_slowdown" and not 0 < value < float("inf"):
                raise InvalidInput(f"a host is a positive number of times as slow; got {value:g}", field.name)
            if field.name.endswith("_s") and not value >= 0:
                label = field.name.removesuffix("_s")
                raise InvalidInput(f"{label} time must not be negative; got {value:g} s", label)
            if field.name.endswith("_slots") and not value >= 0:
                raise InvalidInput(f"{field.name} must not be negative; got {value:g}", field.name)
        for label in ("sram_reuse", "visits_ratio"):
            if not getattr(self, label) >= 1:
                raise InvalidInput(f"{label} must be at least 1; got {getattr(self, label):g}", label)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyCosts:
    """Joules for doing things, and watts for being on."""

    tensor_j_per_flop: float  # bf16, operand delivery included
    vector_j_per_flop: float
    sram_j_per_byte: float  # from the shared SRAM to a core or to vector memory, and back
    hbm_j_per_byte: float  # between HBM and the shared SRAM
    link_j_per_byte: float
    idle_w: float
    vector_memory_j_per_byte: float = 0.0  # from vector memory to an array and back, on a chip that has it
    still_frac: float = 1.0  # share of the cores' energy that is drawn even where no operand ever toggles

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) >= 0:
                raise InvalidInput(f"{field.name} must not be negative; got {getattr(self, field.name):g}", field.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One accelerator as software addresses it (one GCD pair, one TPU chip, one GPU package).

    `sources` names where each figure comes from, by field path; `facts` holds what is known beyond the
    fields, as (what, value with unit, source). Of HBM a plan may take `usable_bytes`, and every verdict on memory
    compares with that: what the framework sees of the capacity, less a reserve.
    """

    name: str
    vendor: str
    year: int
    process: str
    clock_hz: float
    tensor: TensorUnits
    vector: VectorUnits
    core_buffer_bytes: float  # per core: shared memory / VMEM / L2 buffer of a template core
    sram: Memory  # shared by all cores: L2, CMEM, global buffer; VMEM where that is the largest on-chip memory
    hbm: Memory
    tdp_w: float
    interconnect_bytes_per_s: float  # out of the chip, one direction, scale-up network
    calibration: Calibration
    energy: EnergyCosts
    die: Die
    sources: tuple[tuple[str, str], ...]
    facts: tuple[tuple[str, str, str], ...] = ()
    endpoint: str = SM_DRIVEN  # who runs its collectives, of `endpoints`; watts of its engines are in energy.idle_w
    hbm_visible_frac: float = 1.0  # of HBM, what the framework sees: torch's total_memory; ECC and driver have the rest
    hbm_reserve_frac: float = PLAN_RESERVE_FRAC  # of what it sees, what a plan must leave free
    vector_memory: Memory | None = None  # of all cores, between arrays and the shared SRAM: VMEM beside a CMEM
    measured: Measured = NOT_MEASURED  # times of operators that go before predictions; of this very chip, unaltered

    def __post_init__(self) -> None:
        for label in ("clock_hz", "core_buffer_bytes", "tdp_w", "interconnect_bytes_per_s"):
            if not getattr(self, label) > 0:
                raise InvalidInput(f"{label} must be positive; got {getattr(self, label):g}", label)
        if not 0 < self.hbm_visible_frac <= 1:
            rule = f"hbm_visible_frac must be above 0 and at most 1; got {self.hbm_visible_frac:g}"
            raise InvalidInput(rule, "hbm_visible_frac")
        if not 0 <= self.hbm_reserve_frac <= MAX_RESERVE_FRAC:
            rule = f"hbm_reserve_frac must be from 0 to {MAX_RESERVE_FRAC:g}; got {self.hbm_reserve_frac:g}"
            raise InvalidInput(rule, "hbm_reserve_frac")
        if self.endpoint not in endpoints:  # an alias is kept as the name that it stands for
            object.__setattr__(self, "endpoint", endpoint_named(self.endpoint, "endpoint").name)
        if self.vector_memory is not None and not self.energy.vector_memory_j_per_byte > 0:
            raise InvalidInput("a chip with vector memory needs energy.vector_memory_j_per_byte above 0", "energy")
        if not self.tdp_w > self.energy.idle_w:
            message = f"tdp must be above what the chip draws idle, {self.energy.idle_w:g} W; got {self.tdp_w:g} W"
            raise InvalidInput(f"{message}; lower energy.idle or raise tdp", "tdp")

    def peak_flop_per_s(self, dtype: str) -> float:
        return self.tensor.peak_flop_per_s(dtype)

    @property
    def visible_bytes(self) -> float:
        """HBM as the framework sees it: `torch.cuda.get_device_properties().total_memory`, or XLA's HBM."""
        return self.hbm.capacity_bytes * self.hbm_visible_frac

    @property
    def usable_bytes(self) -> float:
        """HBM that a plan may take: what the framework sees, less the reserve."""
        return self.visible_bytes * (1 - self.hbm_reserve_frac)

    def with_headroom(self, headroom_frac: float, source: str = HEADROOM_GIVEN) -> Chip:
        """This chip where plans leave `headroom_frac` of what the framework sees of HBM free, and nothing else."""
        if not 0 <= headroom_frac <= MAX_RESERVE_FRAC:
            message = f"headroom must be from 0 to {100 * MAX_RESERVE_FRAC:.0f} %; got {100 * headroom_frac:g} %"
            raise InvalidInput(message, "headroom")
        others = (one for one in self.sources if one[0] != "hbm_reserve_frac")
        sources = (*others, ("hbm_reserve_frac", source))
        return replace(self, hbm_reserve_frac=headroom_frac, sources=sources)

    @property
    def is_headroom_given(self) -> bool:
        """Whether a user said what plans leave free."""
        return ("hbm_reserve_frac", HEADROOM_GIVEN) in self.sources

    @property
    def headroom_reason(self) -> str:
        """Why a plan leaves memory free, after "is kept free"."""
        source = dict(self.sources).get("hbm_reserve_frac", PLAN_RESERVE_SOURCE)
        if source.startswith(HEADROOM_TO_FIT):
            return source
        known = {HEADROOM_GIVEN: "as requested", PLAN_RESERVE_SOURCE: "for our error in memory"}
        return known.get(source, f"by the entry of {self.name}")

    @property
    def endpoint_kind(self) -> Endpoint:
        return endpoints[self.endpoint]
