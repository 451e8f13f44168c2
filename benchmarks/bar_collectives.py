"""Collectives as libraries run them: errors on measured tables, and with releases, platforms and sizes left out."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator

import numpy as np

from benchmarks.against_base import OPERATIONS, WHAT, base_facts, record_name
from benchmarks.bar import Bar, reference_data
from benchmarks.joint_gains import WHAT as JOINT
from benchmarks.nccl_fit import (
    ONE_NODE,
    SEVERAL_NODES,
    Constants,
    Rows,
    jumps_predicted,
    mape_frac,
    nodes_fit,
    nvlink_rows,
    platforms_left_out,
    releases_left_out,
    rows_of,
    sizes_left_out,
)
from benchmarks.stamp import newest_result
from benchmarks.weak_scaling import JOBS, points
from dovetail.comm.astra.engine import collective_ticks
from dovetail.files.astra import parse_system
from dovetail.hardware.clusters import clusters
from dovetail.units import format_s

ISSUE = 23
ABSENT = "the measured tables are not shipped; name their folder in DOVETAIL_REFERENCE_DATA"
UNEVEN = "astrasim/astrasim_uneven_splits.csv"
MAX_NVLINK_FRAC, MAX_PLATFORM_FRAC, MAX_RELEASE_FRAC, MAX_NEW_FRAC, MAX_PCIE_FRAC = 0.06, 0.09, 0.07, 0.22, 0.12
MIN_JUMPS_FRAC = 0.7
MAX_NODES_FRAC, MAX_NODES_SIZE_FRAC = 0.08, 0.12
MIN_SPEED_RATIO = 0.8
SEARCHES = ("plans", "codesign")
NEVER_WORSE_FRAC = -1e-9  # style: a tolerance; sums in another order differ by less


def bars() -> Iterator[Bar]:
    rows, nodes = rows_of(ONE_NODE), rows_of(SEVERAL_NODES)
    if rows is None:
        yield Bar(name="collectives in one node", issue=ISSUE, bar="MAPE 6 %", measured="-", holds=None, note=ABSENT)
    else:
        yield from one_node(rows)
    if nodes is None:
        yield Bar(name="collectives over nodes", issue=ISSUE, bar="MAPE 8 %", measured="-", holds=None, note=ABSENT)
    else:
        yield from several_nodes(nodes)
    yield uneven_splits()
    yield from scaling()
    yield racks()
    yield from joint()
    yield from searches()


def one_node(rows: Rows) -> Iterator[Bar]:
    shipped, nvlink = Constants(), nvlink_rows(rows)
    yield _at_most("NVLink collectives", MAX_NVLINK_FRAC, mape_frac(shipped, rows, nvlink), f"{nvlink.sum():,} rows")
    by_platform = {
        system: mape_frac(shipped, rows, rows.is_of("systems", system))
        for system in sorted({name for name, is_ours in zip(rows.systems, nvlink, strict=True) if is_ours})
    }
    worst = max(by_platform, key=lambda system: by_platform[system])
    yield _at_most("NVLink collectives, the worst platform", MAX_PLATFORM_FRAC, by_platform[worst], worst)
    releases = list(releases_left_out(rows))
    mean = sum(count * error for _, count, error in releases) / sum(count for _, count, _ in releases)
    yield _at_most("NVLink collectives, a release left out", MAX_RELEASE_FRAC, mean, f"{len(releases)} releases")
    platforms = dict(platforms_left_out(rows))
    listed = ", ".join(f"{name} {error:.0%}" for name, error in platforms.items())
    mean = sum(platforms.values()) / len(platforms)
    yield _at_most("NVLink collectives, a platform left out", MAX_NEW_FRAC, mean, listed)
    yield _at_most("PCIe collectives", MAX_PCIE_FRAC, mape_frac(shipped, rows, ~nvlink), f"{(~nvlink).sum()} rows")
    found, num_jumps = jumps_predicted(shipped, rows)
    yield Bar(
        name="upward jumps of time predicted within a row",
        issue=ISSUE,
        bar=f">= {MIN_JUMPS_FRAC:.0%}",
        measured=f"{found / num_jumps:.0%}, {found} of {num_jumps}",
        holds=found >= MIN_JUMPS_FRAC * num_jumps,
    )


def several_nodes(rows: Rows) -> Iterator[Bar]:
    everything = np.ones(len(rows.measured_s), dtype=np.bool_)
    error = mape_frac(Constants(), rows, everything)
    yield _at_most("collectives over nodes", MAX_NODES_FRAC, error, f"{len(everything)} rows")
    left_out = sizes_left_out(nodes_fit(), rows, everything)
    yield _at_most("collectives over nodes, a size left out", MAX_NODES_SIZE_FRAC, left_out, f"{len(everything)} rows")


def uneven_splits() -> Bar:
    """ASTRA-sim where splits do not divide the size."""
    name, told = "ASTRA-sim collectives of uneven splits", "all exact"
    file = reference_data(UNEVEN)
    if file is None:
        return Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=ABSENT)
    with file.open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    num_exact = 0
    for row in rows:
        is_aware = row["backend"] == "aware"
        system = parse_system(row["topology_yaml"], row["system_json"], is_congestion_aware=is_aware, num_queues=1)
        ticks = collective_ticks(system, row["collective"], int(row["comm_size_bytes"]))
        num_exact += ticks == int(row["sim_time_ns"])
    return Bar(
        name=name, issue=ISSUE, bar=told, measured=f"{num_exact} of {len(rows)}", holds=num_exact == len(rows) > 0
    )


def scaling() -> Iterator[Bar]:
    """Weak scaling to a million devices: every point answers, and none is faster than with fewer devices."""
    for job in JOBS:
        found = points(job)
        steps_s = [one.step_s for one in found]
        first, last = found[0], found[-1]
        ends = " to ".join(format_s(one.step_s) for one in (first, last))
        yield Bar(
            name=f"weak scaling, {job.name}",
            issue=ISSUE,
            bar="never faster on more",
            measured=f"{first.num_devices:,} to {last.num_devices:,}: {ends}, latency {last.latency_frac:.0%}",
            holds=steps_s == sorted(steps_s),
        )


def racks() -> Bar:
    """GB200 racks in parts."""
    shapes = [[d.num_devices for d in clusters["gb200-nvl72"].build(n).topology.dimensions] for n in (64, 128)]
    return Bar(
        name="64 and 128 devices on GB200 racks",
        issue=ISSUE,
        bar="answer",
        measured=" and ".join(" x ".join(map(str, shape)) for shape in shapes),
        holds=shapes == [[64], [64, 2]],
    )


def joint() -> Iterator[Bar]:
    """Chip, plan, topology and endpoint together beside each alone, of a record of `benchmarks.joint_gains`."""
    name, told = "joint search beside chip, plan, topology or endpoint alone", "never worse, 8 models"
    file = newest_result(JOINT)
    if file is None:
        why = "not recorded: python -m benchmarks.joint_gains --record"
        yield Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=why)
        return
    result = json.loads(file.read_text(encoding="utf-8"))
    for cost, rows in result["costs"].items():
        over = [row["joint_over_best_alone_frac"] for row in rows]
        gaps = [row["gap_frac"] for row in rows]
        yield Bar(
            name=f"{name}, equal {cost}",
            issue=ISSUE,
            bar=told,
            measured=f"{min(over):+.1%} to {max(over):+.1%} over the best alone, gap at most {max(gaps):.1%}",
            holds=len(rows) == 8 and min(over) >= NEVER_WORSE_FRAC,
            note=f"{len(rows)} models, {result['cpu_s']:.0f} CPU-s, {result['commit']}",
        )


def searches() -> Iterator[Bar]:
    """Planner and joint search beside 0.1's in the same run, of the youngest record of `benchmarks.against_base`."""
    version, told = base_facts()["version"], f">= {MIN_SPEED_RATIO:g} of 0.1's"
    files = [file for file in (newest_result(record_name(SEARCHES)), newest_result(WHAT)) if file]
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    result = max(results, key=lambda one: str(one["date"]), default=None)
    for one in SEARCHES:
        name = f"{OPERATIONS[one]} per CPU-s beside {version}"
        if result is None:
            why = f"not recorded: python -m benchmarks.against_base {' '.join(SEARCHES)} --record"
            yield Bar(name=name, issue=ISSUE, bar=told, measured="-", holds=None, note=why)
            continue
        found = result["operations"][one]
        ratio, now, base = found["speed_ratio"], found["now"]["per_cpu_s"], found["base"]["per_cpu_s"]
        yield Bar(
            name=name,
            issue=ISSUE,
            bar=told,
            measured=f"{ratio:.3f} ({now:,.4g} against {base:,.4g})",
            holds=ratio >= MIN_SPEED_RATIO,
            note=f"{result['num_pairs']} pairs, {result['commit']}",
        )


def _at_most(name: str, limit_frac: float, error_frac: float, what: str) -> Bar:
    return Bar(
        name=name,
        issue=ISSUE,
        bar=f"MAPE <= {limit_frac:.0%}",
        measured=f"{error_frac:.1%} ({what})",
        holds=error_frac <= limit_frac,
    )
