"""ASTRA-sim's own words for a network and a system -> an `AstraSystem`. Unknown keys are refused.

Its network files count a GB as 2^30 bytes, its system files as 10^9; both per 10^9 ticks of one nanosecond.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from dovetail.comm.astra.system import COLLECTIVES, TICK_S, AstraDim, AstraSystem
from dovetail.errors import InvalidInput, NotModelled, did_you_mean, shown
from dovetail.units import GIBI

NETWORK_KEYS = ("topology", "npus_count", "bandwidth", "latency")
NETWORK_BYTES_PER_TICK = GIBI * TICK_S  # of one network GB/s; ASTRA-sim's NetworkFunction.cc
MEMORY_BYTES_PER_TICK = 1.0  # of one local-mem-bw GB/s; ASTRA-sim's Sys.cc
# Keys ASTRA-sim reads that leave the time of a collective alone (roofline, traces, the shared bus that is off).
UNUSED_KEYS = frozenset(
    {"boost-mode", "peak-perf", "roofline-enabled", "trace-enabled", "replay-only", "track-local-mem",
     "local-reduction-delay", "L", "o", "g", "G"}
)  # fmt: skip
TAKEN_KEYS = frozenset(
    {"scheduling-policy", "collective-optimization", "endpoint-delay", "active-chunks-per-dimension",
     "preferred-dataset-splits", "local-mem-bw"}
)  # fmt: skip
IMPLEMENTATIONS = {f"{name.replace('_', '-')}-implementation": name for name in COLLECTIVES}
MAX_DIMS = 32


def dims_of(table: Mapping[str, Any]) -> tuple[AstraDim, ...]:
    """The dimensions a network file describes: one list for each of its four keys."""
    if set(table) != set(NETWORK_KEYS):
        found = ", ".join(sorted(map(str, table)))[:200]
        raise InvalidInput(f"a network file has exactly {', '.join(NETWORK_KEYS)}; got {found or 'nothing'}")
    columns = [table[key] if isinstance(table[key], list | tuple) else [table[key]] for key in NETWORK_KEYS]
    lengths = [len(column) for column in columns]
    if len(set(lengths)) != 1 or not 1 <= lengths[0] <= MAX_DIMS:
        raise InvalidInput(f"{', '.join(NETWORK_KEYS)} must be equally long, 1 to {MAX_DIMS} each; got {lengths}")
    return tuple(_dim(*row) for row in zip(*columns, strict=True))


def _dim(kind: Any, num_ranks: Any, bandwidth: Any, latency: Any) -> AstraDim:
    return AstraDim(
        kind=str(kind),
        num_ranks=_whole("npus_count", num_ranks),
        latency_ticks=_number("latency", latency),
        bytes_per_tick=_number("bandwidth", bandwidth) * NETWORK_BYTES_PER_TICK,
    )


def _number(key: str, value: Any) -> float:
    """A finite number, also as the text that YAML makes of 1e3; true and false are none."""
    number = math.nan
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
    if not math.isfinite(number):
        raise InvalidInput(f"{key} must be a finite number; got {_shown(value)}")
    return number


def _whole(key: str, value: Any) -> int:
    if not _number(key, value).is_integer():
        raise InvalidInput(f"{key} must be a whole number; got {_shown(value)}")
    return value if isinstance(value, int) else int(float(value))


def _names(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        raise InvalidInput(f'{key} must be a list with an algorithm a dimension, as in ["ring"]; got {_shown(value)}')
    return tuple(value)


def _shown(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "nothing" if value is None else str(value).lower()
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def system_of(
    dims: tuple[AstraDim, ...], table: Mapping[str, Any], *, is_congestion_aware: bool = False, num_queues: int = 1
) -> AstraSystem:
    """The configuration a system file describes, on the network `dims`."""
    for key in table:
        if key not in IMPLEMENTATIONS and key not in TAKEN_KEYS | UNUSED_KEYS:
            raise NotModelled(
                f"no system option is named {shown(key)}{did_you_mean(str(key), TAKEN_KEYS | set(IMPLEMENTATIONS))}"
            )
    if "local-mem-bw" not in table:
        raise InvalidInput("the system file must give local-mem-bw: reductions are charged against it")
    counts = {
        key: _whole(key, table.get(key, default))
        for key, default in (
            ("preferred-dataset-splits", 1), ("active-chunks-per-dimension", 1), ("endpoint-delay", 10),
        )
    }  # fmt: skip
    return AstraSystem(
        dims=dims,
        algorithms={name: _names(key, table[key]) for key, name in IMPLEMENTATIONS.items() if key in table},
        num_chunks=counts["preferred-dataset-splits"],
        num_queues=num_queues,
        num_active_chunks=counts["active-chunks-per-dimension"],
        policy=str(table.get("scheduling-policy", "LIFO")),
        optimization=str(table.get("collective-optimization", "baseline")),
        endpoint_ticks=counts["endpoint-delay"],
        is_congestion_aware=is_congestion_aware,
        memory_bytes_per_tick=_number("local-mem-bw", table["local-mem-bw"]) * MEMORY_BYTES_PER_TICK,
    )
