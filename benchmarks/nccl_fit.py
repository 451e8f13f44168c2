"""Constants of collective libraries fitted on measured tables, and errors leaving releases, platforms and sizes out.

`python -m benchmarks.nccl_fit` prints the fit beside what `comm/library/platforms.py` has. Least squares on logarithms
of predicted over measured, constants in logarithms too, rows that are far off counted by their distance and not its
square (pseudo-Huber): some rows of the tables are measured twice as slow as their neighbours. Nothing is random.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.bar import reference_data
from dovetail.accuracy.collective_rows import Collectives, seconds_of
from dovetail.accuracy.library_fit import fit_library
from dovetail.comm.library.on_group import LIBRARIES, Library
from dovetail.comm.library.platforms import (
    ADA_PCIE,
    AMPERE,
    BLACKWELL,
    BLACKWELL_PCIE,
    HOPPER,
    MI300X,
    NVLINK,
    NetworkConstants,
    Platform,
    RingPlatform,
    platform_of,
)
from dovetail.comm.library.timing import ALL_REDUCE, library_times
from dovetail.units import GIGA, MICRO, PERCENT
from dovetail.workload.graph import BoolArray, FloatArray, IntArray

ONE_NODE, SEVERAL_NODES = "third_party/nccl_measured.csv", "published/collectives_multinode.csv"
SHARED = (
    "ll_frac", "ll128_frac", "ll128_hop_ratio", "simple_hop_ratio", "simple_s", "own_chunk_ratio",
    "p2p_s", "p2p_peer_s", "p2p_simple_s", "nvls_s", "nvls_ramp_s", "nvls_ramp_bytes",
)  # fmt: skip
OF_PLATFORM = ("base_s", "hop_s", "channels_s", "chunk_s", "p2p_own_chunk_ratio")
OF_PCIE = ("ll_frac", "simple_hop_ratio", "p2p_s")
OF_PCIE_PLATFORM = ("base_s", "hop_s", "chunk_s")
OF_NETWORK, OF_RING = ("step_s", "fill_s", "fill_bytes"), ("hop_s", "chunk_s", "nic_frac")
GENERATIONS = (AMPERE, HOPPER, BLACKWELL)
FAR_FRAC = 0.12  # an error from which on it counts by its distance
NUDGE = 1e-5  # style: of a constant's logarithm
MAX_ROUNDS = 60
LEAST_GAIN_FRAC = 1e-7  # style: a tolerance
JUMP_FRAC = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Measured collectives of one table as columns."""

    systems: tuple[str, ...]
    releases: tuple[str, ...]
    operations: tuple[str, ...]
    num_ranks: IntArray
    num_nodes: IntArray
    size_bytes: FloatArray
    nic_bytes_per_s: FloatArray
    measured_s: FloatArray

    def is_of(self, column: str, value: str) -> BoolArray:
        return np.array([cell == value for cell in getattr(self, column)], dtype=np.bool_)


@cache
def rows_of(path: str) -> Rows | None:
    """A table as columns, or None where this machine has none."""
    file = reference_data(path)
    if file is None:
        return None
    with file.open(encoding="utf-8") as stream:
        cells = list(csv.DictReader(stream))
    nodes = np.array([int(row.get("nodes", 1)) for row in cells])
    ranks = np.array([int(row.get("num_gpus") or int(row["nodes"]) * int(row["gpus_per_node"])) for row in cells])
    return Rows(
        systems=tuple(row.get("system") or row["cluster"] for row in cells),
        releases=tuple(row.get("nccl_version") or row["library"] for row in cells),
        operations=tuple(row["collective"].replace("_", "-") for row in cells),
        num_ranks=ranks,
        num_nodes=nodes,
        size_bytes=np.array([float(row["size_bytes"]) for row in cells]),
        nic_bytes_per_s=np.array([float(row.get("nic_gb_per_s_per_node", 0)) * GIGA for row in cells]),
        measured_s=np.array([float(row["time_us"]) * MICRO for row in cells]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Platforms by name and the network, as they are or as they were fitted."""

    platforms: Mapping[str, Platform | RingPlatform] = field(
        default_factory=lambda: {one.name: one for one in (*GENERATIONS, ADA_PCIE, MI300X)}
    )
    network: NetworkConstants = field(default_factory=NetworkConstants)

    def predicted_s(self, rows: Rows) -> FloatArray:
        """Seconds of every row; those of one system, operation and cluster in one call."""
        found = np.zeros(len(rows.measured_s))
        kinds = list(zip(rows.systems, rows.operations, rows.num_nodes, rows.nic_bytes_per_s, strict=True))
        for kind in sorted(set(kinds)):
            own = np.array([other == kind for other in kinds])
            system, operation, nodes, nic_bytes_per_s = kind
            times = library_times(
                self.platforms[platform_of(system).name],
                operation,
                rows.num_ranks[own],
                rows.size_bytes[own],
                num_nodes=int(nodes),
                nic_bytes_per_s=float(nic_bytes_per_s),
                network=self.network,
            )
            found[own] = times.seconds
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What is fitted: constants out of a vector of logarithms, and the vector to begin with."""

    begin: FloatArray
    labels: tuple[str, ...]
    constants: Callable[[FloatArray], Constants]


def _named(names: Sequence[str], values: Sequence[float]) -> dict[str, Any]:
    """The first of `values` by the fields that they are of."""
    return dict(zip(names, values, strict=False))


def nvlink_fit() -> Fit:
    """Constants that NVLink platforms share, then those of each generation."""
    begin = [getattr(NVLINK, name) for name in SHARED]
    begin += [getattr(one, name) for one in GENERATIONS for name in OF_PLATFORM]
    labels = SHARED + tuple(f"{one.name} {name}" for one in GENERATIONS for name in OF_PLATFORM)

    def constants(logs: FloatArray) -> Constants:
        values = [float(value) for value in np.exp(logs)]
        shared = replace(NVLINK, **_named(SHARED, values))
        platforms = dict(Constants().platforms)
        for index, one in enumerate(GENERATIONS):
            own = values[len(SHARED) + index * len(OF_PLATFORM) :]
            platforms[one.name] = replace(one, protocols=shared, **_named(OF_PLATFORM, own))
        return Constants(platforms=platforms)

    return Fit(begin=np.log(begin), labels=labels, constants=constants)


def pcie_fit() -> Fit:
    ranks = tuple(num_ranks for num_ranks, _ in ADA_PCIE.link_bytes_per_s)
    begin = [getattr(ADA_PCIE.protocols, name) for name in OF_PCIE]
    begin += [getattr(ADA_PCIE, name) for name in OF_PCIE_PLATFORM]
    begin += [rate for _, rate in ADA_PCIE.link_bytes_per_s]
    labels = (*OF_PCIE, *OF_PCIE_PLATFORM, *(f"bytes/s of {count} ranks" for count in ranks))

    def constants(logs: FloatArray) -> Constants:
        values = [float(value) for value in np.exp(logs)]
        protocols = replace(ADA_PCIE.protocols, **_named(OF_PCIE, values))
        own = _named(OF_PCIE_PLATFORM, values[len(OF_PCIE) :])
        rates = tuple(zip(ranks, values[-len(ranks) :], strict=True))
        fitted = replace(ADA_PCIE, protocols=protocols, link_bytes_per_s=rates, **own)
        return Constants(platforms=dict(Constants().platforms) | {fitted.name: fitted})

    return Fit(begin=np.log(begin), labels=labels, constants=constants)


def nodes_fit() -> Fit:
    """The network under NCCL and the ring of RCCL, each of which has rows of its own."""
    begin = [getattr(NetworkConstants(), name) for name in OF_NETWORK] + [getattr(MI300X, name) for name in OF_RING]

    def constants(logs: FloatArray) -> Constants:
        values = [float(value) for value in np.exp(logs)]
        ring = replace(MI300X, **_named(OF_RING, values[len(OF_NETWORK) :]))
        network = replace(NetworkConstants(), **_named(OF_NETWORK, values))
        return Constants(platforms=dict(Constants().platforms) | {ring.name: ring}, network=network)

    labels = (*(f"network {name}" for name in OF_NETWORK), *(f"MI300X {name}" for name in OF_RING))
    return Fit(begin=np.log(begin), labels=labels, constants=constants)


def fitted(fit: Fit, rows: Rows, kept: BoolArray) -> FloatArray:
    """The logarithms of the constants that err least on the rows that are kept (Levenberg and Marquardt)."""

    def left(logs: FloatArray) -> FloatArray:
        found: FloatArray = np.log(fit.constants(logs).predicted_s(rows) / rows.measured_s)[kept]
        return found

    def loss(errors: FloatArray) -> float:
        return float((np.sqrt(1 + (errors / FAR_FRAC) ** 2) - 1).sum())

    point, damping = fit.begin, 0.01
    errors = left(point)
    for _ in range(MAX_ROUNDS):
        slopes = np.stack([(left(point + NUDGE * axis) - errors) / NUDGE for axis in np.eye(len(point))], axis=1)
        weights = 1 / np.sqrt(1 + (errors / FAR_FRAC) ** 2)
        normal, pull = slopes.T @ (slopes * weights[:, None]), slopes.T @ (weights * errors)
        scale = np.diag(np.diag(normal) + NUDGE)
        before, tried = loss(errors), errors
        while damping < 1 / NUDGE:
            step = np.clip(np.linalg.solve(normal + damping * scale, -pull), -0.5, 0.5)
            tried = left(point + step)
            if loss(tried) < before:
                point, damping = point + step, damping / 5
                break
            damping *= 4
        else:
            break
        errors = tried
        if before - loss(errors) < LEAST_GAIN_FRAC * before:
            break
    return point


def mape_frac(constants: Constants, rows: Rows, chosen: BoolArray) -> float:
    return float(np.abs(constants.predicted_s(rows) / rows.measured_s - 1)[chosen].mean())


def nvlink_rows(rows: Rows) -> BoolArray:
    return np.array([platform_of(system) in GENERATIONS for system in rows.systems])


def releases_left_out(rows: Rows) -> Iterator[tuple[str, int, float]]:
    """Errors on each release of a platform that has several, by constants fitted without it."""
    fit, nvlink = nvlink_fit(), nvlink_rows(rows)
    of_platforms = sorted({pair for pair, is_ours in zip(_releases(rows), nvlink, strict=True) if is_ours})
    for system, release in of_platforms:
        if sum(other == system for other, _ in of_platforms) == 1:
            continue
        out = rows.is_of("systems", system) & rows.is_of("releases", release)
        point = fitted(fit, rows, nvlink & ~out)
        yield f"{system} {release}", int(out.sum()), mape_frac(fit.constants(point), rows, out)


def _releases(rows: Rows) -> list[tuple[str, str]]:
    return list(zip(rows.systems, rows.releases, strict=True))


def platforms_left_out(rows: Rows) -> Iterator[tuple[str, float]]:
    """Errors on each NVLink generation by shared constants fitted on the others, its own being their geometric mean."""
    fit, nvlink = nvlink_fit(), nvlink_rows(rows)
    for index, one in enumerate(GENERATIONS):
        out = np.array([platform_of(system) == one for system in rows.systems])
        point = fitted(fit, rows, nvlink & ~out)
        own = point[len(SHARED) :].reshape(len(GENERATIONS), len(OF_PLATFORM))
        own[index] = np.delete(own, index, axis=0).mean(axis=0)
        yield one.name, mape_frac(fit.constants(point), rows, out)


POINTS = (
    ("all-gather", 2, 2048.0), ("all-gather", 8, 2048.0), ("all-gather", 8, 131072.0), ("all-gather", 8, 8192.0),
    ("all-to-all", 2, 2.0**27),
)  # fmt: skip
PCIE_POINTS = tuple(("all-gather", num_ranks, 2.0**27) for num_ranks in (2, 4, 8))


def calibrated_platforms(rows: Rows, num_points: int) -> Iterator[tuple[str, float]]:
    """Errors on each NVLink generation by shared constants fitted on the others and its own calibrated on few points.

    Its constants begin as the geometric mean of the others'; the points are not counted in the error.
    """
    fit, nvlink = nvlink_fit(), nvlink_rows(rows)
    for index, one in enumerate(GENERATIONS):
        own = np.array([platform_of(system) == one for system in rows.systems])
        point = fitted(fit, rows, nvlink & ~own)
        theirs = point[len(SHARED) :].reshape(len(GENERATIONS), len(OF_PLATFORM))
        theirs[index] = np.delete(theirs, index, axis=0).mean(axis=0)
        begin = next(library for library in LIBRARIES.values() if library.platform is one)
        library = replace(begin, platform=fit.constants(point).platforms[one.name])
        yield one.name, _calibrated_error(library, rows, own, POINTS[:num_points])


def calibrated_pcie(rows: Rows) -> float:
    """The error on L40S, begun with the bandwidths of RTX PRO 6000, by one large all-gather per number of ranks."""
    begin = LIBRARIES["nccl-l40s"]
    library = replace(begin, platform=replace(ADA_PCIE, link_bytes_per_s=BLACKWELL_PCIE.link_bytes_per_s))
    return _calibrated_error(library, rows, ~nvlink_rows(rows), PCIE_POINTS)


def _calibrated_error(library: Library, rows: Rows, own: BoolArray, points: Sequence[tuple[str, int, float]]) -> float:
    keys = zip(rows.operations, rows.num_ranks.tolist(), rows.size_bytes.tolist(), strict=True)
    is_point = own & np.array([key in points for key in keys])
    found = library.with_constants(fit_library(library, _collectives(rows, is_point)).fitted)
    others = _collectives(rows, own & ~is_point)
    seconds, _ = seconds_of(found.platform, found.network, others)
    return float(np.abs(seconds / others.measured_s - 1).mean())


def _collectives(rows: Rows, chosen: BoolArray) -> Collectives:
    places = np.flatnonzero(chosen).tolist()
    return Collectives(
        products=tuple(rows.systems[place] for place in places),
        operations=tuple(rows.operations[place] for place in places),
        num_ranks=rows.num_ranks[chosen],
        num_nodes=rows.num_nodes[chosen],
        nic_bytes_per_s=rows.nic_bytes_per_s[chosen],
        size_bytes=rows.size_bytes[chosen],
        measured_s=rows.measured_s[chosen],
        kinds=tuple(rows.systems[place] for place in places),
    )


def sizes_left_out(fit: Fit, rows: Rows, of: BoolArray) -> float:
    """The mean error where every size in turn is left out of the rows that are fitted."""
    found = np.zeros(len(rows.size_bytes))
    for size_bytes in sorted(set(rows.size_bytes[of])):
        out = of & (rows.size_bytes == size_bytes)
        point = fitted(fit, rows, of & ~out)
        found[out] = np.abs(fit.constants(point).predicted_s(rows) / rows.measured_s - 1)[out]
    return float(found[of].mean())


def jumps(size_bytes: FloatArray, seconds: FloatArray) -> set[int]:
    """Places in a row of sizes where time is more than 30 % above the time before and what the added bytes take.

    Added bytes take what they take between the two largest sizes, where bandwidth alone counts: that is in proportion.
    """
    s_per_byte = (seconds[-1] - seconds[-2]) / (size_bytes[-1] - size_bytes[-2])
    proportional_s = seconds[:-1] + s_per_byte * np.diff(size_bytes)
    return {int(place) for place in np.flatnonzero(seconds[1:] > (1 + JUMP_FRAC) * proportional_s)}


def jumps_predicted(constants: Constants, rows: Rows) -> tuple[int, int]:
    """How many measured jumps of NVLink platforms have a predicted one within one row, and how many there are."""
    predicted_s, nvlink = constants.predicted_s(rows), nvlink_rows(rows)
    keys = list(zip(rows.systems, rows.releases, rows.operations, rows.num_ranks.tolist(), strict=True))
    num_found = num_jumps = 0
    for key in sorted({key for key, is_ours in zip(keys, nvlink, strict=True) if is_ours}):
        own = np.flatnonzero([other == key for other in keys])
        own = own[np.argsort(rows.size_bytes[own], kind="stable")]
        measured = jumps(rows.size_bytes[own], rows.measured_s[own])
        ours = jumps(rows.size_bytes[own], predicted_s[own])
        num_jumps += len(measured)
        num_found += sum(bool({place - 1, place, place + 1} & ours) for place in measured)
    return num_found, num_jumps


def _print_fit(fit: Fit, rows: Rows, of: BoolArray, what: str) -> FloatArray:
    point = fitted(fit, rows, of)
    print(
        f"{what}: {mape_frac(fit.constants(point), rows, of) * PERCENT:.2f} % of {int(of.sum())} rows fitted;", end=" "
    )
    print(f"{mape_frac(Constants(), rows, of) * PERCENT:.2f} % as shipped")
    for label, value, shipped in zip(fit.labels, np.exp(point), np.exp(fit.begin), strict=True):
        print(f"  {label:32} {value:.4g}  (shipped {shipped:.4g})")
    return point


def _by_system(constants: Constants, rows: Rows) -> Sequence[str]:
    return [
        f"{system} {mape_frac(constants, rows, rows.is_of('systems', system)) * PERCENT:.2f} %"
        for system in sorted(set(rows.systems))
    ]


def main() -> None:
    rows, nodes = rows_of(ONE_NODE), rows_of(SEVERAL_NODES)
    if rows is None or nodes is None:
        print("the tables are not shipped; name their folder in DOVETAIL_REFERENCE_DATA")
        return
    nvlink = nvlink_rows(rows)
    point = _print_fit(nvlink_fit(), rows, nvlink, "NVLink")
    print("  " + ", ".join(_by_system(nvlink_fit().constants(point), rows)))
    print("  jumps predicted: {} of {}".format(*jumps_predicted(nvlink_fit().constants(point), rows)))
    for name, count, error in releases_left_out(rows):
        print(f"  without {name} ({count} rows): {error * PERCENT:.2f} %")
    for name, error in platforms_left_out(rows):
        print(f"  without {name}: {error * PERCENT:.1f} %")
    for num_points in (1, 3, 5):
        listed = ", ".join(f"{name} {error * PERCENT:.1f} %" for name, error in calibrated_platforms(rows, num_points))
        print(f"  a platform left out and calibrated on {num_points} points: {listed}")
    print(f"  a size left out: {sizes_left_out(nvlink_fit(), rows, nvlink) * PERCENT:.2f} %")
    print(f"L40S calibrated on 3 points: {calibrated_pcie(rows) * PERCENT:.1f} %")
    _print_fit(pcie_fit(), rows, ~nvlink, "PCIe")
    print(f"  a size left out: {sizes_left_out(pcie_fit(), rows, ~nvlink) * PERCENT:.2f} %")
    everything = np.ones(len(nodes.measured_s), dtype=np.bool_)
    _print_fit(nodes_fit(), nodes, everything, "several nodes")
    print("  " + ", ".join(_by_system(Constants(), nodes)))
    print(f"  a size left out: {sizes_left_out(nodes_fit(), nodes, everything) * PERCENT:.2f} %")
    least = Constants().platforms["H100"]
    print(f"  32 nodes of 8 H100, 16 GiB: {bus_bytes_per_s(least, 32) / GIGA:.0f} GB/s bus bandwidth")


def bus_bytes_per_s(platform: Platform | RingPlatform, num_nodes: int, size_bytes: float = 2.0**34) -> float:
    """Bus bandwidth of an all-reduce over nodes of 8 with 400 GB/s of NICs: what each rank would send on a ring."""
    num_ranks = 8 * num_nodes
    times = library_times(platform, ALL_REDUCE, num_ranks, size_bytes, num_nodes=num_nodes, nic_bytes_per_s=400 * GIGA)
    return 2 * (num_ranks - 1) / num_ranks * size_bytes / float(times.seconds[0])


if __name__ == "__main__":
    main()
