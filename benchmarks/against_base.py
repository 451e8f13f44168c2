"""Today's speed and memory beside 0.1's, in the same run: `python -m benchmarks.against_base [--record]`.

The wheel of 0.1 is built from its commit. Each operation runs in a fresh process of either package, in pairs, one
after the other and the other way round the next time, so that whatever else the machine does disturbs both. A pair
gives a ratio, above 1 where today's is faster or smaller; the median of all pairs counts. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.bar import REPOSITORY
from benchmarks.replay import DATA, wheel_of
from benchmarks.stamp import result_file, stamp

WHAT = "against-base"
BASE = DATA / "speed_base.json"
SCRIPT = Path(__file__).with_name("timed_operation.py")
# Operations of `dovetail validate --all`, with the things they are counted in.
OPERATIONS = {
    "plans": "plans",
    "operators": "operator and chip pairs",
    "events": "events of a ring of 1,024",
    "codesign": "searches of PHAZE's space",
}
HELP = "help"
NUM_PAIRS = 5
SIDES = ("base", "now")

Measured = dict[str, float]  # cpu_s, num_done and peak_bytes of an operation; cpu_s and wall_s of --help
Pair = dict[str, Measured]  # by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A package to time: where it lies, and the module that lists its operations, if not today's."""

    package: Path
    operations: str = ""

    def measured(self, name: str, folder: Path) -> Measured:
        """One operation, or `--help`, in a process of its own that is run in `folder`."""
        words = ["-m", "dovetail", "--help"] if name == HELP else [str(SCRIPT), name, *filter(None, [self.operations])]
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("DOVETAIL_", "PYTHON"))}
        environment = kept | {"PYTHONPATH": str(self.package), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        before_s, began_s = _children_s(), time.perf_counter()
        ran = subprocess.run(  # -P: modules beside the script are not on the path
            [sys.executable, "-P", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        wall_s, cpu_s = time.perf_counter() - began_s, _children_s() - before_s
        if ran.returncode:
            raise RuntimeError(f"{name} ended with {ran.returncode}: {ran.stderr[-400:]}")
        if name == HELP:
            return {"cpu_s": cpu_s, "wall_s": wall_s}
        found: Measured = json.loads(ran.stdout.splitlines()[-1])
        return found


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def base_facts() -> dict[str, Any]:
    """What is known of 0.1: its commit, the module with its operations, and its size."""
    found: dict[str, Any] = json.loads(BASE.read_text(encoding="utf-8"))
    return found


def pairs(name: str, sides: Mapping[str, Side], folder: Path, num_pairs: int) -> Iterator[Pair]:
    """Both sides, one after the other; who goes first alternates."""
    for place in range(num_pairs):
        order = SIDES if place % 2 == 0 else tuple(reversed(SIDES))
        found = {side: sides[side].measured(name, folder) for side in order}
        yield {side: found[side] for side in SIDES}


def speed_ratio(pair: Pair) -> float:
    """How many times as fast today's side is: by what a run does in a CPU second."""
    base, now = (pair[side]["num_done"] / pair[side]["cpu_s"] for side in SIDES)
    return now / base


def memory_ratio(pair: Pair) -> float:
    """How many times as small its peak memory is."""
    return pair["base"]["peak_bytes"] / pair["now"]["peak_bytes"]


def summary(found: Sequence[Pair]) -> dict[str, Any]:
    """Medians over the pairs of one operation, and each of its ratios."""
    speeds, memories = [speed_ratio(pair) for pair in found], [memory_ratio(pair) for pair in found]
    best = {side: max(pair[side]["num_done"] / pair[side]["cpu_s"] for pair in found) for side in SIDES}
    return {
        "speed_ratio": statistics.median(speeds),
        "best_speed_ratio": best["now"] / best["base"],  # of the runs that were disturbed least
        "memory_ratio": statistics.median(memories),
        "speed_ratios": speeds,
        "memory_ratios": memories,
        **{
            side: {
                "per_cpu_s": statistics.median(pair[side]["num_done"] / pair[side]["cpu_s"] for pair in found),
                "num_done": found[0][side]["num_done"],
                "peak_bytes": statistics.median(pair[side]["peak_bytes"] for pair in found),
            }
            for side in SIDES
        },
    }


def help_summary(found: Sequence[Pair]) -> dict[str, Any]:
    return {
        side: {key: statistics.median(pair[side][key] for pair in found) for key in ("wall_s", "cpu_s")}
        for side in SIDES
    }


def compared(num_pairs: int, names: Sequence[str] = (*OPERATIONS, HELP)) -> dict[str, Any]:
    """The record of a run: commits, how busy the machine was before it, and what each operation came to."""
    base = base_facts()
    result = {**stamp(), "base": base["commit"], "base_version": base["version"], "num_pairs": num_pairs}
    result["load_per_core"] = os.getloadavg()[0] / (os.cpu_count() or 1)
    with tempfile.TemporaryDirectory(prefix="dovetail-against-base-") as name:
        folder = Path(name)
        no_bytecode = shutil.ignore_patterns("__pycache__")  # a copy, so that nobody edits what is being timed
        today = shutil.copytree(REPOSITORY / "src", folder / "today", ignore=no_bytecode)
        with wheel_of(base["commit"], folder) as (package, _):
            sides = {"base": Side(package=package, operations=base["operations"]), "now": Side(package=today)}
            for side in sides.values():
                side.measured(HELP, folder)  # leaves its bytecode for the others
            found = {one: list(pairs(one, sides, folder, num_pairs)) for one in names}
    result["operations"] = {one: summary(found[one]) for one in names if one != HELP}
    return result | ({HELP: help_summary(found[HELP])} if HELP in found else {})


def record_name(names: Sequence[str]) -> str:
    """What a record is called: of everything, or of some operations alone."""
    return "-".join((WHAT, *sorted(names)))


def table(result: Mapping[str, Any]) -> str:
    """Speeds, memory and ratios in lines."""
    lines = [f"{result['commit']} beside {result['base_version']} ({result['base'][:7]}), {result['num_pairs']} pairs"]
    for name, one in result["operations"].items():
        base, now = one["base"], one["now"]
        lines.append(
            f"{OPERATIONS[name]:26} {now['per_cpu_s']:14,.4g} per CPU-s, was {base['per_cpu_s']:,.4g}:"
            f" {one['speed_ratio']:.3f}, of the best runs {one['best_speed_ratio']:.3f}; memory"
            f" {now['peak_bytes'] / 2**20:.0f} MiB, was {base['peak_bytes'] / 2**20:.0f}: {one['memory_ratio']:.3f}"
        )
    if HELP in result:
        base, now = (result[HELP][side] for side in SIDES)
        lines.append(f"--help {now['wall_s']:.3f} s ({now['cpu_s']:.3f} CPU-s), was {base['wall_s']:.3f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.against_base", description="today's speed beside 0.1's")
    parser.add_argument("names", nargs="*", metavar="name", help=f"only these of: {', '.join((*OPERATIONS, HELP))}")
    parser.add_argument("--pairs", type=int, default=NUM_PAIRS, metavar="N", help=f"pairs of each; {NUM_PAIRS} if none")
    parser.add_argument("--record", action="store_true", help="keep the result under benchmarks/results, for the bars")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in (*OPERATIONS, HELP)]:
        parser.error(
            f"nothing is compared by the name of {', '.join(unknown)}; known: {', '.join((*OPERATIONS, HELP))}"
        )
    if options.pairs < 1:
        parser.error(f"--pairs must be at least 1; got {options.pairs}")
    result = compared(options.pairs, options.names or (*OPERATIONS, HELP))
    if options.record:
        result_file(record_name(options.names)).write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=2) if options.json else table(result))


if __name__ == "__main__":
    main()
