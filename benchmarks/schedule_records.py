"""Exact schedules of long runs, recorded: `python -m benchmarks.schedule_records [--wall-s 60] [name ...]`.

Layers of states are counted and not timed, so another machine finds the same; CP-SAT's share of the time depends on
the machine. Names are blocks ("inception-v3 mixed_7a"), `random:SEED`, or nothing for every block that a second leaves
open. A record that is there already is replaced where the new one is better, on either side.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.bar import REPOSITORY
from benchmarks.operator_graphs import catalogue_blocks, random_graph
from dovetail.hardware.catalog import chips
from dovetail.opsched.exact import Limit, exact_schedule
from dovetail.opsched.problem import CoreProblem, CoreSchedule
from dovetail.opsched.work import core_problem, work_of
from dovetail.workload.optimizer import Precision

RECORDS = REPOSITORY / "benchmarks" / "results" / "schedules.json"
CHIPS = ("wham-tpuv2", "phaze-tpuv4")
RANDOM = "random:"
SMALL, SMALL_GAP, LARGE_GAP = 70, 0.01, 0.05
GAP = 0.9 * SMALL_GAP  # at which a record is good enough to stop
QUICK_S, WALL_S, NUM_WORKERS = 1.0, 60.0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The best makespan and bound known of a problem, and the longest run: its limit and the CPU seconds it took."""

    num_operators: int
    makespan_beats: int
    bound_beats: int
    wall_s: float
    cpu_s: float

    @property
    def gap_frac(self) -> float:
        return 1.0 - self.bound_beats / self.makespan_beats


def records(path: Path = RECORDS) -> dict[str, Record]:
    """Every record by the name of its problem; none where nothing was recorded."""
    if not path.exists():
        return {}
    return {name: Record(**fields) for name, fields in json.loads(path.read_text()).items()}


def most_gap(num_operators: int) -> float:
    """The gap that the bar asks for."""
    return SMALL_GAP if num_operators <= SMALL else LARGE_GAP


def problems(names: Sequence[str]) -> Iterator[tuple[str, CoreProblem]]:
    """The problems of `names`, or of every block on every chip, those that cost the same once."""
    for name in names:
        if name.startswith(RANDOM):
            yield name, random_graph(int(name.removeprefix(RANDOM)))
    if names and all(name.startswith(RANDOM) for name in names):
        return
    blocks = dict(catalogue_blocks())
    for chip_name in CHIPS:
        seen: set[bytes] = set()
        for block, ops in blocks.items():
            if names and block not in names and f"{block} on {chip_name}" not in names:
                continue
            problem = core_problem(work_of(ops, Precision()), chips[chip_name]())
            key = problem.modes.beats.tobytes() + problem.dag.edge_to.tobytes()
            if key not in seen:
                seen.add(key)
                yield f"{block} on {chip_name}", problem


def better(old: Record, new: Record) -> Record:
    """Both records' best, under the limit and the cost of the longer run."""
    return replace(
        max(old, new, key=lambda record: record.wall_s),
        makespan_beats=min(old.makespan_beats, new.makespan_beats),
        bound_beats=max(old.bound_beats, new.bound_beats),
    )


def long_run(problem: CoreProblem, wall_s: float) -> Record:
    began_s = time.process_time()
    found = exact_schedule(problem, Limit(wall_s=wall_s, num_workers=NUM_WORKERS, gap_frac=GAP))
    return record_of(found, wall_s, time.process_time() - began_s)


def record_of(found: CoreSchedule, wall_s: float, cpu_s: float) -> Record:
    return Record(
        num_operators=len(found.problem),
        makespan_beats=found.makespan_beats,
        bound_beats=found.bound_beats,
        wall_s=wall_s,
        cpu_s=round(cpu_s, 1),
    )


def is_closed(name: str, problem: CoreProblem) -> bool:
    """Whether a record, or else a second, is enough for the bar."""
    known, most = records(), most_gap(len(problem))
    return (name in known and known[name].gap_frac <= most) or long_run(problem, QUICK_S).gap_frac <= most


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.schedule_records", description="record long runs")
    parser.add_argument("names", nargs="*", metavar="name", help="blocks, or random:SEED; all open blocks if none")
    parser.add_argument("--wall-s", type=float, default=WALL_S, help="seconds for each problem (60)")
    options = parser.parse_args(arguments)
    chosen = dict(problems(options.names))
    if options.names and not chosen:
        parser.error(f"nothing is named {', '.join(options.names)}; say 'MODEL BLOCK' or 'random:SEED'")
    for name, problem in chosen.items():
        if not options.names and is_closed(name, problem):
            continue
        found = long_run(problem, options.wall_s)
        known = records()
        known[name] = better(known[name], found) if name in known else found
        RECORDS.write_text(json.dumps({key: asdict(known[key]) for key in sorted(known)}, indent=1) + "\n")
        best = known[name]
        print(f"{name}: {best.makespan_beats} beats, gap {best.gap_frac:.2%}, {found.cpu_s:g} CPU-s", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
