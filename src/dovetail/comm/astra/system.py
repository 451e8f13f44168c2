"""The inputs of ASTRA-sim, as one frozen value: network dimensions, algorithms, chunking and endpoint.

ASTRA-sim counts integer nanoseconds and truncates after every transfer, so this package counts them too:
a `_ticks` is one of its ticks (1 ns), and answers leave as seconds through `TICK_S`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dovetail.errors import InvalidInput, NotModelled, did_you_mean, shown
from dovetail.units import NANO

TICK_S = NANO  # the one border between its ticks and our seconds

RING, SWITCH, FULLY_CONNECTED = "Ring", "Switch", "FullyConnected"
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
ALGORITHMS = ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
POLICIES = ("LIFO", "FIFO")
OPTIMIZATIONS = ("baseline", "localBWAware")
MIN_BYTES_PER_TICK, MAX_BYTES_PER_TICK = TICK_S, 1e12  # style: bounds, 1 byte/s to a zettabyte/s
MAX_TICKS = 10**12  # style: a bound, a quarter of an hour
MAX_RANKS = 10**9  # style: a bound on one dimension, so that products stay exact
MAX_CHUNKS = 10**5  # style: a bound; each is followed by itself
MAX_ACTIVE = 10**9  # style: a bound; as many as there are is as good


@dataclass(frozen=True, slots=True, kw_only=True)
class AstraDim:
    """One dimension of ASTRA-sim's network: a basic topology joining `num_ranks` ranks."""

    kind: str
    num_ranks: int
    bytes_per_tick: float
    latency_ticks: float

    def __post_init__(self) -> None:
        if self.kind not in (RING, SWITCH, FULLY_CONNECTED):
            raise NotModelled(
                f"no ASTRA-sim topology is named {shown(self.kind)}"
                + did_you_mean(self.kind, (RING, SWITCH, FULLY_CONNECTED))
            )
        _check_within("npus_count", self.num_ranks, 1, MAX_RANKS)
        _check_within("bandwidth", self.bytes_per_tick, MIN_BYTES_PER_TICK, MAX_BYTES_PER_TICK, " bytes/ns")
        _check_within("latency", self.latency_ticks, 0, MAX_TICKS, " ns")

    def num_hops(self, distance: int) -> int:
        """Links between two ranks `distance` apart: the shorter way round a ring, up and down a switch."""
        if self.kind == RING:
            return min(distance, self.num_ranks - distance)
        return 2 if self.kind == SWITCH else 1

    def link_busy_ticks(self, message_bytes: int) -> int:
        """Ticks one link is held by a message (congestion-aware back end)."""
        return int(message_bytes / self.bytes_per_tick)

    def link_ticks(self, message_bytes: int) -> int:
        """Ticks from entering one link to leaving it (congestion-aware back end)."""
        return int(self.latency_ticks + message_bytes / self.bytes_per_tick)

    def path_ticks(self, distance: int, message_bytes: int, is_congestion_aware: bool) -> int:
        """Ticks of one message alone: latency per hop, bytes charged once (unaware) or at every hop (aware)."""
        hops = self.num_hops(distance)
        if is_congestion_aware:
            return hops * self.link_ticks(message_bytes)
        return int(hops * self.latency_ticks + message_bytes / self.bytes_per_tick)


@dataclass(frozen=True, slots=True, kw_only=True)
class AstraSystem:
    """A whole ASTRA-sim configuration: network dimensions, algorithms, chunking and endpoint."""

    dims: tuple[AstraDim, ...]
    algorithms: dict[str, tuple[str, ...]]
    num_chunks: int = 1
    num_active_chunks: int = 1
    num_queues: int = 1
    policy: str = "LIFO"
    optimization: str = "baseline"
    endpoint_ticks: int = 10
    memory_bytes_per_tick: float = 1600.0
    is_congestion_aware: bool = False

    def __post_init__(self) -> None:
        _check_within("preferred-dataset-splits", self.num_chunks, 1, MAX_CHUNKS)
        _check_within("active-chunks-per-dimension", self.num_active_chunks, 1, MAX_ACTIVE)
        _check_within("queues of a dimension", self.num_queues, 1, MAX_ACTIVE)
        _check_within("endpoint-delay", self.endpoint_ticks, 0, MAX_TICKS, " ns")
        rate = self.memory_bytes_per_tick
        _check_within("local-mem-bw", rate, MIN_BYTES_PER_TICK, MAX_BYTES_PER_TICK, " bytes/ns")
        for label, value, known in (
            ("scheduling-policy", self.policy, POLICIES),
            ("collective-optimization", self.optimization, OPTIMIZATIONS),
        ):
            if value not in known:
                raise NotModelled(f"no {label} is named {shown(value)}" + did_you_mean(value, known), label)
        for collective, names in self.algorithms.items():
            _check_algorithms(collective, names, len(self.dims))

    @property
    def num_ranks(self) -> int:
        product = 1
        for dim in self.dims:
            product *= dim.num_ranks
        return product

    @property
    def num_servers(self) -> int:
        """Chunks a queue of a dimension runs at once."""
        return -(-self.num_active_chunks // self.num_queues)

    def algorithm(self, collective: str, dim: int) -> str:
        if collective not in self.algorithms:
            raise InvalidInput(f"the system file names no implementation for {collective}")
        return self.algorithms[collective][dim]

    def reduction_ticks(self, message_bytes: int) -> int:
        """Ticks to fold a received message in: two reads and a write of local memory, each truncated."""
        return 3 * int(message_bytes / self.memory_bytes_per_tick)


def _check_within(key: str, value: float, least: float, most: float, unit: str = "") -> None:
    if not least <= value <= most:  # nor where it is no number
        raise InvalidInput(f"{key} must be from {least:g} to {most:g}{unit}; got {str(value)[:40]}")


def _check_algorithms(collective: str, names: tuple[str, ...], num_dims: int) -> None:
    key = f"{collective.replace('_', '-')}-implementation"
    if len(names) != num_dims:
        raise InvalidInput(f"{key} names {len(names)} algorithms for {num_dims} dimensions; name one each")
    for name in names:
        if name not in ALGORITHMS:
            raise NotModelled(f"no ASTRA-sim algorithm is named {name!r}" + did_you_mean(name, ALGORITHMS), key)
