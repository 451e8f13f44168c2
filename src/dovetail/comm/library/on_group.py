"""Collectives of a library on a group of ranks of a cluster whose network names it.

The ranks of a group lie on so many nodes, equally many on each. Inside a node they have its links, between nodes the
ports of their devices. Where a cluster's links are faster or slower than those that the platform's constants were
measured on, rates and hops go with them, in the tuner's own table too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
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
from dovetail.comm.library.timing import ALL_TO_ALL, OPERATIONS, LibraryGroup, LibraryTimes, library_group
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.hardware.topology import Group, Span, num_ranks
from dovetail.units import GIGA, MICRO, Amount

Selection = Literal["tuner", "least"]
Constants = TypeVar("Constants", Platform, RingPlatform, NetworkConstants, ProtocolConstants, TunerSteps)
INFINIBAND_S = 4.0 * MICRO  # of a hop, software included: NCCL's tuner, LL128
LEAST_BYTES = 1.0  # forms divide by the size


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A collective library on one platform, with the links that its constants were measured on.

    `port_bytes_per_s` is what a device sends inside a node by its data sheet. `hop_s` is the latency that clusters of
    the catalogue have for such links (NCCL's tuner, LL128), `network_s` that of EFA, on which the steps of a network
    were measured: a link with twice that has hops and steps that take twice as long. InfiniBand's 4 us so come to 11
    us for a step of Simple, where NCCL's tuner has 14.
    """

    platform: Platform | RingPlatform
    summary: str
    port_bytes_per_s: float
    hop_s: float = 1.9 * MICRO
    network_s: float = 15.0 * MICRO  # estimate: public EFA ping-pong figures of 15 to 20 us


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
        platform=ADA_PCIE, summary="NCCL on L40S, PCIe Gen4", port_bytes_per_s=32 * GIGA, hop_s=2.5 * MICRO
    ),
    "rccl-mi300x": Library(
        platform=MI300X,
        summary="RCCL between nodes of MI300X; inside one, as links alone",
        port_bytes_per_s=448 * GIGA,
        network_s=INFINIBAND_S,
    ),
}


def check_library(name: str) -> None:
    """Raises where a network names a library that there is not."""
    if name and name not in LIBRARIES:
        known = ", ".join(LIBRARIES)
        raise InvalidInput(f"library must be one of {known}; got {name!r}{did_you_mean(name, LIBRARIES)}", "library")


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
    if not name or collective not in OPERATIONS or num_ranks(group) < 2:
        return False
    platform = LIBRARIES[name].platform
    if is_reducing(group) and not getattr(platform, "nvls_efficiency_frac", 0.0):
        return False  # nobody measured switches that add there: as links alone
    if isinstance(platform, RingPlatform):
        return collective != ALL_TO_ALL and any(span.dimension.is_network for span in group)
    return True


def library_s(collective: str, payload_bytes: Amount, group: Group, selection: Selection = "tuner") -> Amount:
    """Seconds of `collective` for each payload; see `is_timed_by_library`."""
    found = group_times(collective, payload_bytes, group, selection)
    return found.seconds.reshape(np.shape(payload_bytes))[()]


def group_times(collective: str, payload_bytes: Amount, group: Group, selection: Selection = "tuner") -> LibraryTimes:
    """Seconds of `collective`, and the algorithm and protocol of each; see `is_timed_by_library`."""
    found = _library_group(collective, group)
    if is_reducing(group):
        found = found.in_switch
    return found.times(np.maximum(np.ravel(payload_bytes), LEAST_BYTES), selection)


@lru_cache(maxsize=4096)
def _library_group(collective: str, group: Group) -> LibraryGroup:
    library = LIBRARIES[library_of(group)]
    inside = [span for span in group if not span.dimension.is_network]
    outside = [span for span in group if span.dimension.is_network]
    num_local = math.prod(span.num_ranks for span in inside)
    rates = [s.dimension.link.bandwidth_bytes_per_s / s.dimension.oversubscription for s in inside]
    rate_ratio = min(rates, default=library.port_bytes_per_s) / library.port_bytes_per_s
    step_ratio = max((span.dimension.link.latency_s / library.network_s for span in outside), default=1.0)
    hop_ratio = max((span.dimension.link.latency_s / library.hop_s for span in inside), default=1.0)
    if not outside:
        platform, _ = _scaled(library, rate_ratio, hop_ratio, 1.0)
        return library_group(platform, collective, num_local)
    num_nodes = math.prod(span.num_ranks for span in outside)
    platform, network = _scaled(library, rate_ratio, hop_ratio, step_ratio)
    return library_group(
        platform,
        collective,
        num_local * num_nodes,
        num_nodes=num_nodes,
        nic_bytes_per_s=num_local * _port_bytes_per_s(collective, outside, num_local),
        network=network,
    )


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
    measured = NetworkConstants()
    ranks_ratio = step_ratio * library.network_s / INFINIBAND_S  # of what NCCL's tuner says, not of what was measured
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


def _in_seconds(constants: Constants, ratio: float) -> Constants:
    """`constants` with all that are seconds times `ratio`."""
    times: dict[str, Any] = {
        field.name: _multiplied(getattr(constants, field.name), ratio)
        for field in fields(constants)
        if field.name.endswith("_s") and not field.name.endswith("_per_s")
    }
    return replace(constants, **times)


def _multiplied(value: float | tuple[float, ...], ratio: float) -> float | tuple[float, ...]:
    return tuple(one * ratio for one in value) if isinstance(value, tuple) else value * ratio
