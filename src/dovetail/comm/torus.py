"""What a collective sends on each dimension of an L x V x H torus, and the fastest its links can carry that."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.errors import InvalidInput
from dovetail.units import GIGA


class Work(Enum):
    """What an endpoint does with the bytes of a phase."""

    REDUCE_SCATTER = "reduce-scatter"
    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    ALL_TO_ALL = "all-to-all"


# Per byte sent: the byte itself, and one more where it is a sum. The simulator ACE extends counts so.
NUM_READS = {Work.REDUCE_SCATTER: 2.0, Work.ALL_REDUCE: 1.5, Work.ALL_GATHER: 1.0, Work.ALL_TO_ALL: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One dimension of the torus: `bandwidth_bytes_per_s` is all that one device may send on it."""

    name: str
    num_devices: int
    bandwidth_bytes_per_s: float
    latency_s: float
    is_both_ways: bool
    is_switched: bool = False  # every other device is one hop away
    is_line: bool = False  # a ring without the links that close it

    def __post_init__(self) -> None:
        if self.num_devices < 1:
            raise InvalidInput(f"a torus side needs at least 1 device; got {self.num_devices}", self.name)
        if not self.bandwidth_bytes_per_s > 0:
            raise InvalidInput(
                f"link bandwidth must be positive; got {self.bandwidth_bytes_per_s:g} bytes/s", self.name
            )

    @property
    def ring_frac(self) -> float:
        """Share of a payload that a ring reduce-scatter (or all-gather) sends: (n-1)/n."""
        return (self.num_devices - 1) / self.num_devices

    @property
    def across_frac(self) -> float:
        """What the busiest device sends of an all-to-all, its own and what it hands on.

        Where all are equal: hops of an average byte, what stays at home included. On a line: that in the middle.
        """
        n = self.num_devices
        if self.is_switched:
            return self.ring_frac
        if self.is_line:
            before = (n - 1) // 2
            after = n - 1 - before
            return (n - 1 + 2 * before * after) / n
        hops = (min(d, n - d) if self.is_both_ways else d for d in range(n))
        return sum(hops) / n


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One phase of a collective, per payload byte: what is sent on which side, and in how many dependent steps."""

    side: int
    work: Work
    sent_frac: float
    compute_slowdown_frac: float  # share of the payload this phase starts from
    num_steps: int

    @property
    def num_reads(self) -> float:
        """Memory reads per byte sent when every byte sent is read and every byte to add is read too."""
        return NUM_READS[self.work]


@dataclass(frozen=True, slots=True, kw_only=True)
class Torus:
    """The sides in the order local, vertical, horizontal; `link_frac` is the share of link bandwidth that is had."""

    sides: tuple[Side, ...]
    link_frac: float = 1.0

    @property
    def num_devices(self) -> int:
        count = 1
        for side in self.sides:
            count *= side.num_devices
        return count

    @property
    def shape(self) -> str:
        return "x".join(str(side.num_devices) for side in self.sides)

    def rate_bytes_per_s(self, side: int) -> float:
        return self.sides[side].bandwidth_bytes_per_s * self.link_frac


def ace_torus(
    local: int, vertical: int, horizontal: int, *, clock_hz: float = 1.245 * GIGA, link_frac: float = 1.0
) -> Torus:
    """ACE's network: two one-way local rings of 200 GB/s, a two-way ring of 25 GB/s each way on the other sides."""
    inside = {"bandwidth_bytes_per_s": 400 * GIGA, "latency_s": 90 / clock_hz, "is_both_ways": False}
    between = {"bandwidth_bytes_per_s": 50 * GIGA, "latency_s": 500 / clock_hz, "is_both_ways": True}
    return Torus(
        sides=(
            Side(name="local", num_devices=local, **inside),  # type: ignore[arg-type]
            Side(name="vertical", num_devices=vertical, **between),  # type: ignore[arg-type]
            Side(name="horizontal", num_devices=horizontal, **between),  # type: ignore[arg-type]
        ),
        link_frac=link_frac,
    )


EQUAL_TOLERANCE = 1e-12  # of the busiest side's time, below which another is as busy
ACE_SHAPES = {16: (4, 2, 2), 32: (4, 4, 2), 64: (4, 4, 4), 128: (4, 8, 4)}


def all_reduce_phases(torus: Torus) -> tuple[Phase, ...]:
    """Reduce-scatter on the first side, all-reduce on each further one, all-gather on the first: ACE's hierarchy."""
    first, *others = torus.sides
    n = first.num_devices
    scatter = Phase(
        side=0, work=Work.REDUCE_SCATTER, sent_frac=first.ring_frac, compute_slowdown_frac=1.0, num_steps=n - 1
    )
    inner = tuple(
        Phase(
            side=index,
            work=Work.ALL_REDUCE,
            sent_frac=2 * side.ring_frac / n,
            compute_slowdown_frac=1 / n,
            num_steps=2 * (side.num_devices - 1),
        )
        for index, side in enumerate(others, start=1)
    )
    gather = Phase(side=0, work=Work.ALL_GATHER, sent_frac=first.ring_frac, compute_slowdown_frac=1.0, num_steps=n - 1)
    return (scatter, *inner, gather)


def all_to_all_phases(torus: Torus) -> tuple[Phase, ...]:
    """Dimension-ordered all-to-all: every byte goes its hops on one side, then on the next."""
    return tuple(
        Phase(
            side=index,
            work=Work.ALL_TO_ALL,
            sent_frac=side.across_frac,
            compute_slowdown_frac=1.0,
            num_steps=side.num_devices // 2 if side.is_both_ways else side.num_devices - 1,
        )
        for index, side in enumerate(torus.sides)
    )


def sent_per_byte(phases: tuple[Phase, ...]) -> float:
    """S: bytes one device sends per payload byte, over all phases."""
    return sum(phase.sent_frac for phase in phases)


def reads_per_byte(phases: tuple[Phase, ...]) -> float:
    """Memory reads per payload byte when every phase goes through memory."""
    return sum(phase.sent_frac * phase.num_reads for phase in phases)


def link_s_per_byte(torus: Torus, phases: tuple[Phase, ...]) -> tuple[float, ...]:
    """Time per payload byte that each side's links are busy."""
    busy = [0.0] * len(torus.sides)
    for phase in phases:
        busy[phase.side] += phase.sent_frac / torus.rate_bytes_per_s(phase.side)
    return tuple(busy)


def ideal_injection_bytes_per_s(torus: Torus, phases: tuple[Phase, ...]) -> float:
    """Bytes a device sends per second when its busiest side never idles: S over the time of that side."""
    return sent_per_byte(phases) / max(link_s_per_byte(torus, phases))


def binding_sides(torus: Torus, phases: tuple[Phase, ...]) -> tuple[str, ...]:
    """Names of the sides that no other is slower than."""
    busy = link_s_per_byte(torus, phases)
    return tuple(side.name for side, s in zip(torus.sides, busy, strict=True) if s >= max(busy) * (1 - EQUAL_TOLERANCE))
