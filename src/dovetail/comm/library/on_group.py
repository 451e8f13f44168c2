"""Collectives of a library on a group of ranks of a cluster whose network names it.

The ranks of a group lie on so many nodes, equally many on each. Inside a node they have its links, between nodes the
ports of their devices. Where a cluster's links are faster or slower than those that the platform's constants were
measured on, rates and hops go with them, in the tuner's own table too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np

from dovetail.comm.library.platforms import (
    ADA_PCIE,
    AMPERE,
    BLACKWELL,
    HOPPER,
    MI300X,
    NetworkConstants,
    Platform,
    ProtocolConstants,
    RingPlatform,
    TunerSteps,
)
from dovetail.comm.library.timing import (
    ALL_TO_ALL,
    OPERATIONS,
    POINT_TO_POINT,
    LibraryGroup,
    LibraryTimes,
    library_group,
)
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.topology import XLA_ICI, Dimension, FittedConstants, Group, Span, num_ranks
from dovetail.units import GIGA, MICRO, Amount

Selection = Literal["tuner", "least"]
Constants = TypeVar("Constants", Platform, RingPlatform, NetworkConstants, ProtocolConstants, TunerSteps)
INFINIBAND_S = 4.0 * MICRO  # of a hop, software included: NCCL's tuner, LL128
MAX_MEASURED_LOCAL, MAX_MEASURED_NODES = 8, 2  # ranks of a node and nodes, in the tables that constants were fitted on
LEAST_BYTES = 1.0  # forms divide by the size
LINK_RATE = "link_bytes_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A collective library on one platform, with the links that its constants were measured on.

    `port_bytes_per_s` is what a device sends inside a node by its data sheet. `link_latency_s` is the latency that
    clusters of the catalogue have for such links (NCCL's tuner, LL128), `network_latency_s` that of EFA, on which the
    steps of a network were measured: a link with twice that has hops and steps that take twice as long. InfiniBand's
    4 us so come to 11 us for a step of Simple, where NCCL's tuner has 14.
    """

    platform: Platform | RingPlatform
    summary: str
    port_bytes_per_s: float
    link_latency_s: float = 1.9 * MICRO
    network_latency_s: float = 15.0 * MICRO  # estimate: public EFA ping-pong figures of 15 to 20 us
    network: NetworkConstants = field(default_factory=NetworkConstants)

    def with_constants(self, constants: FittedConstants) -> Library:
        """This library with constants that were fitted on a cluster's own logs in place of its own.

        Each is a field of the platform, of its protocols or of the network; the number of ranks beside it says of
        which group, where bandwidth depends on that.
        """
        if not constants:
            return self
        platform, network, rates = self.platform, self.network, dict[int, float]()
        for name, num_ranks_of, value in constants:
            if name == LINK_RATE:
                rates[num_ranks_of] = value
            elif name in _names(platform):
                platform = replace(platform, **{name: value})  # type: ignore[arg-type]
            elif isinstance(platform, Platform) and name in _names(platform.protocols):
                platform = replace(platform, protocols=replace(platform.protocols, **{name: value}))
            elif name in _names(network):
                network = replace(network, **{name: value})
            else:
                raise InvalidInput(f"no constant of {platform.name}'s library is named {name[:40]!r}")
        if rates and isinstance(platform, Platform):
            platform = replace(platform, link_bytes_per_s=tuple(sorted(rates.items())))
        return replace(self, platform=platform, network=network)


LIBRARIES = {
    "nccl-a100": Library(
        platform=AMPERE, summary="NCCL on A100 SXM, NVLink 3 and NVSwitch", port_bytes_per_s=300 * GIGA
    ),
    "nccl-h100": Library(
        platform=HOPPER, summary="NCCL on H100 and H200 SXM, NVLink 4 and NVSwitch", port_bytes_per_s=450 * GIGA
    ),
    "nccl-b200": Library(
        platform=BLACKWELL, summary="NCCL on B200, B300, GB200 and GB300, NVLink 5", port_bytes_per_s=900 * GIGA
    ),
    "nccl-l40s": Library(
        platform=ADA_PCIE, summary="NCCL on L40S, PCIe Gen4", port_bytes_per_s=32 * GIGA, link_latency_s=2.5 * MICRO
    ),
    "rccl-mi300x": Library(
        platform=MI300X,
        summary="RCCL between nodes of MI300X; inside one, as links alone",
        port_bytes_per_s=448 * GIGA,
        network_latency_s=INFINIBAND_S,
    ),
}


SUMMARIES = {name: library.summary for name, library in LIBRARIES.items()} | {
    XLA_ICI: "XLA on ICI, by links and the chip's calibration; evidence is whole TPU steps, no collective was measured"
}


def check_library(name: str) -> None:
    """Raises where a network names a library that there is not."""
    if name and name not in SUMMARIES:
        known = ", ".join(SUMMARIES)
        raise InvalidInput(f"library must be one of {known}; got {name!r}{did_you_mean(name, SUMMARIES)}", "library")


def library_of(group: Group) -> str:
    """The library that the network of a group names; none where its dimensions do not all name one."""
    names = {span.dimension.library for span in group}
    return names.pop() if len(names) == 1 else ""


def is_reducing(group: Group) -> bool:
    """Whether switches add for collectives of a group."""
    return bool(group) and all(span.dimension.is_reducing for span in group)


def is_timed_by_library(collective: str, group: Group) -> bool:
    """Whether a library's times of `collective` on `group` are known; else links alone say what it takes."""
    name = library_of(group)
    if name not in LIBRARIES or collective not in (*OPERATIONS, POINT_TO_POINT) or num_ranks(group) < 2:
        return False
    platform = LIBRARIES[name].platform
    if is_reducing(group) and not getattr(platform, "nvls_efficiency_frac", 0.0):
        return False  # nobody measured switches that add there: as links alone
    if isinstance(platform, RingPlatform):
        return collective != ALL_TO_ALL and any(span.dimension.is_network for span in group)
    return True


def why_outside(group: Group) -> str:
    """Why collectives of a group lie outside what was measured; nothing where they do not.

    Measured were 2 to 8 ranks of one node, and two nodes. A cluster fitted on its own logs has other evidence: of its
    nodes, and of its network where constants of that were fitted too.
    """
    name = library_of(group)
    if name not in LIBRARIES:
        return "by links alone"
    fitted = {constant for constant, *_ in group[0].dimension.library_constants}
    library = LIBRARIES[name]
    of_network = _names(library.platform if isinstance(library.platform, RingPlatform) else library.network)
    if num_ranks(group) < 2 or fitted & of_network:
        return ""
    num_nodes = math.prod(span.num_ranks for span in group if span.dimension.is_network)
    num_local = num_ranks(group) // num_nodes
    if num_local > MAX_MEASURED_LOCAL and not fitted:
        return f"over {num_local:,} ranks of a node, measured over {MAX_MEASURED_LOCAL}"
    return f"over {num_nodes:,} nodes, measured over {MAX_MEASURED_NODES}" if num_nodes > MAX_MEASURED_NODES else ""


def library_s(collective: str, payload_bytes: Amount, group: Group, selection: Selection = "tuner") -> Amount:
    """Seconds of `collective` for each payload; see `is_timed_by_library`."""
    found = group_times(collective, payload_bytes, group, selection)
    return found.seconds.reshape(np.shape(payload_bytes))[()]


def group_times(
    collective: str, payload_bytes: Amount, group: Group, selection: Selection = "tuner", algorithm: str = ""
) -> LibraryTimes:
    """Seconds of `collective`, and the algorithm and protocol of each; see `is_timed_by_library`.

    `algorithm`, one of `library_algorithms`, leaves the library that one alone.
    """
    library = library_on(collective, group)
    if algorithm:
        library = library.by(
            next(one for one in library.algorithms if algorithm_name(one) == algorithm_name(algorithm))
        )
    return library_times(library, payload_bytes, selection)


def library_times(library: LibraryGroup, payload_bytes: Amount, selection: Selection = "tuner") -> LibraryTimes:
    """Seconds for each payload, and the algorithm and protocol of each."""
    return library.times(np.maximum(np.ravel(payload_bytes), LEAST_BYTES), selection)


def algorithm_name(word: str) -> str:
    """A library's algorithm as an option names it, however it is written: `NVLSTree` and `NVLS tree` are nvls-tree."""
    return re.sub("[ _-]+", "", word.lower()).replace("nvlstree", "nvls-tree")


def library_algorithms(collective: str, group: Group) -> tuple[str, ...]:
    """Algorithms of the library that `collective` has a time by on `group`; see `is_timed_by_library`."""
    return tuple(algorithm_name(one) for one in library_on(collective, group).algorithms)


def library_on(collective: str, group: Group) -> LibraryGroup:
    """What a library's times of `collective` on `group` are computed by; see `is_timed_by_library`."""
    found = _library_group(collective, group)
    return found.in_switch if is_reducing(group) else found


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryChoice:
    """How a library runs one collective; `num_channels` is 0 where that is not known."""

    algorithm: str
    protocol: str
    num_channels: int
    time_s: float


def library_choice(collective: str, payload_bytes: float, group: Group, algorithm: str = "") -> LibraryChoice:
    """Algorithm, protocol and channels that the library selects, and its seconds; see `group_times`."""
    found = group_times(collective, payload_bytes, group, algorithm=algorithm)
    size_bytes = max(payload_bytes, LEAST_BYTES)
    return LibraryChoice(
        algorithm=found.algorithms[0],
        protocol=found.protocols[0],
        num_channels=_library_group(collective, group).num_channels(int(found.selected[0]), size_bytes),
        time_s=float(found.seconds[0]),
    )


def constants_on(group: Group) -> tuple[Platform | RingPlatform, NetworkConstants]:
    """The constants of the library that a group's network names, with its own links and fitted constants."""
    return _constants_on(library_of(group), tuple(span.dimension for span in group))


@lru_cache(maxsize=256)
def _constants_on(name: str, dimensions: tuple[Dimension, ...]) -> tuple[Platform | RingPlatform, NetworkConstants]:
    library = LIBRARIES[name].with_constants(dimensions[0].library_constants)
    return _scaled(library, *_ratios(library, dimensions))


def constants_of_links(name: str, dimensions: Sequence[Dimension], constants: FittedConstants) -> FittedConstants:
    """Constants that were fitted on a cluster, as they would be on the links that the library was measured on."""
    if name not in LIBRARIES:
        raise InvalidInput(f"{name} has no constants of its own: links and the chip's calibration are all", "library")
    library = LIBRARIES[name].with_constants(constants)
    rate_ratio, hop_ratio, step_ratio = _ratios(library, dimensions)
    is_ring = isinstance(library.platform, RingPlatform)

    def ratio(constant: str) -> float:
        if constant.endswith("bytes_per_s"):
            return rate_ratio
        if not constant.endswith("_s"):
            return 1.0
        return step_ratio if is_ring or constant in _names(library.network) else hop_ratio

    return tuple((constant, count, value / ratio(constant)) for constant, count, value in constants)


def _ratios(library: Library, dimensions: Sequence[Dimension]) -> tuple[float, float, float]:
    """Bandwidth in a node, latency in it and latency between nodes, over those that the library was measured on."""
    inside = [one for one in dimensions if not one.is_network]
    outside = [one for one in dimensions if one.is_network]
    rates = [one.link.bandwidth_bytes_per_s / one.oversubscription for one in inside]
    return (
        min(rates, default=library.port_bytes_per_s) / library.port_bytes_per_s,
        max((one.link.latency_s / library.link_latency_s for one in inside), default=1.0),
        max((one.link.latency_s / library.network_latency_s for one in outside), default=1.0),
    )


@lru_cache(maxsize=4096)
def _library_group(collective: str, group: Group) -> LibraryGroup:
    inside = [span for span in group if not span.dimension.is_network]
    outside = [span for span in group if span.dimension.is_network]
    num_local = math.prod(span.num_ranks for span in inside)
    platform, network = constants_on(group)
    if collective == POINT_TO_POINT:
        return _send_group(platform, network, outside)
    if not outside:
        return library_group(platform, collective, num_local)
    num_nodes = math.prod(span.num_ranks for span in outside)
    return library_group(
        platform,
        collective,
        num_local * num_nodes,
        num_nodes=num_nodes,
        nic_bytes_per_s=num_local * _port_bytes_per_s(collective, outside, num_local),
        network=network,
    )


def _send_group(platform: Platform | RingPlatform, network: NetworkConstants, outside: list[Span]) -> LibraryGroup:
    """A message to the neighbour in a group: between nodes where neighbours lie on two, as all wait for that."""
    if not outside:
        return library_group(platform, POINT_TO_POINT, 2)
    rates = [one.dimension.link.bandwidth_bytes_per_s / one.dimension.oversubscription for one in outside]
    return library_group(platform, POINT_TO_POINT, 2, num_nodes=2, nic_bytes_per_s=min(rates), network=network)


def _port_bytes_per_s(collective: str, outside: list[Span], num_local: int) -> float:
    """What the port of one device carries of a collective, as its slowest tier lets it.

    Rings and trees pass a tier once for all nodes of the group below it. Of an all-to-all, all that is bound for
    elsewhere passes it.
    """
    num_all, num_below, least = num_local * math.prod(span.num_ranks for span in outside), num_local, math.inf
    for span in outside:
        dimension = span.dimension
        rate = dimension.link.bandwidth_bytes_per_s / dimension.oversubscription
        if collective == ALL_TO_ALL:
            rate *= (num_all - num_local) / (num_all - num_below)
        else:
            rate *= num_below / num_local
        least = min(least, rate)
        num_below *= span.num_ranks
    return least


def _scaled(
    library: Library, rate_ratio: float, hop_ratio: float, step_ratio: float
) -> tuple[Platform | RingPlatform, NetworkConstants]:
    """The constants of a library where links are faster or slower than those they were measured on.

    All seconds go with the links' latency, and all rates with their bandwidth: a cluster of half the pace takes twice
    as long.
    """
    measured = library.network
    ranks_ratio = (
        step_ratio * library.network_latency_s / INFINIBAND_S
    )  # of what NCCL's tuner says, not of what was measured
    network = replace(_in_seconds(measured, step_ratio), pat_rank_s=measured.pat_rank_s * ranks_ratio)
    platform = library.platform
    if isinstance(platform, RingPlatform):
        return _in_seconds(platform, step_ratio), network
    one, two, more = (cap * rate_ratio for cap in platform.ll_cap_bytes_per_s)
    scaled = replace(
        _in_seconds(platform, hop_ratio),
        link_bytes_per_s=tuple((count, rate * rate_ratio) for count, rate in platform.link_bytes_per_s),
        tuner_bytes_per_s=platform.tuner_bytes_per_s * rate_ratio,
        ll_cap_bytes_per_s=(one, two, more),
        tuner=_in_seconds(platform.tuner, hop_ratio),
        protocols=_in_seconds(platform.protocols, hop_ratio),
    )
    return scaled, network


def _names(constants: object) -> frozenset[str]:
    return frozenset(one.name for one in fields(constants))  # type: ignore[arg-type]


def _in_seconds(constants: Constants, ratio: float) -> Constants:
    """`constants` with all that are seconds times `ratio`."""
    times: dict[str, Any] = {
        one.name: _multiplied(getattr(constants, one.name), ratio)
        for one in fields(constants)
        if one.name.endswith("_s") and not one.name.endswith("_per_s")
    }
    return replace(constants, **times)


def _multiplied(value: float | tuple[float, ...], ratio: float) -> float | tuple[float, ...]:
    return tuple(one * ratio for one in value) if isinstance(value, tuple) else value * ratio
