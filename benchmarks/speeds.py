"""Time the commonest commands and calls and keep what they took: `python -m benchmarks.speeds [--json] [name ...]`.

Commands run in a fresh process each, calls warm in this one. All are timed in CPU seconds, of which the least of
several runs says most on a machine that does other things too. A run of everything is written to benchmarks/results, a
file a commit and machine, and printed beside the newest earlier one of the same machine; with names, nothing is
written.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.bar import REPOSITORY
from benchmarks.speeds_kept import Speeds, Timed, about_now, as_json, earlier_speeds, gains, table, write_speeds
from dovetail.api.appraised import is_installed
from dovetail.api.timed import networking, planning
from dovetail.api.timed.operation import Operation, Run, warm
from dovetail.evaluate import evaluate
from dovetail.files.job import load_spec
from dovetail.step.step_events import step_events

EXAMPLE = "examples/llama3-70b-512xh100.yaml"
COMMANDS = {
    "help": ("--help",),
    "version": ("--version",),
    "simulate": ("simulate", EXAMPLE),
    "plan": ("plan", EXAMPLE),
    "op": ("op", "matmul", "4096", "4096", "4096", "--chip", "h200"),
    "network": ("network", "all-reduce", "--size", "64 MiB", "--topology", "ring:8@50GB/s,500ns"),
    "codesign": ("codesign", "examples/codesign-two-models.yaml"),
}
FIRST = "simulate-first"  # as in a fresh clone: nothing of ours is compiled to bytecode yet
SLOW = ("plan", "codesign", FIRST)
NUM_RUNS, NUM_SLOW_RUNS, LEAST_RUNS = 5, 2, 3
NUM_PLANS = 1_000  # that a call of many is told for
EXIT_OK = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Something to time: `timed_s` gives the seconds of each of several runs."""

    name: str
    what: str
    timed_s: Callable[[], Iterable[float]]


def command_speeds() -> Iterator[Speed]:
    for name, words in COMMANDS.items():
        runs = partial(_warm_command_s, words, NUM_SLOW_RUNS if name in SLOW else NUM_RUNS)
        yield Speed(name=name, what=f"dovetail {' '.join(words)}", timed_s=runs)
    words = COMMANDS["simulate"]
    what = f"dovetail {' '.join(words)}, without bytecode of ours"
    yield Speed(name=FIRST, what=what, timed_s=partial(_first_command_s, words, NUM_SLOW_RUNS))


def _warm_command_s(words: Sequence[str], num_runs: int) -> list[float]:
    """Of runs after a first one, which leaves its bytecode for them."""
    with _bare_source() as source:
        return [command_s(words, source, keeps_bytecode=True) for _ in range(num_runs + 1)][1:]


def _first_command_s(words: Sequence[str], num_runs: int) -> list[float]:
    """Of runs that compile what they import of ours, and leave nothing."""
    with _bare_source() as source:
        return [command_s(words, source, keeps_bytecode=False) for _ in range(num_runs)]


@contextmanager
def _bare_source() -> Iterator[Path]:
    """A copy of the package without any bytecode, for as long as it is needed."""
    with tempfile.TemporaryDirectory() as folder:
        yield shutil.copytree(REPOSITORY / "src", Path(folder) / "src", ignore=shutil.ignore_patterns("__pycache__"))


def command_s(words: Sequence[str], source: Path, *, keeps_bytecode: bool) -> float:
    """CPU seconds of one command of the package in `source`, in a process of its own."""
    own = {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    if not keeps_bytecode:
        own["PYTHONDONTWRITEBYTECODE"] = "1"
    around = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "dovetail", *words]
    before_s = _children_s()
    ran = subprocess.run(command, cwd=REPOSITORY, env=around | own, capture_output=True, check=False)
    if ran.returncode != EXIT_OK:
        raise RuntimeError(f"dovetail {' '.join(words)} ended with {ran.returncode}: {ran.stderr.decode()[-400:]}")
    return _children_s() - before_s


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def call_speeds() -> Iterator[Speed]:
    """Calls that programs make often: some of `dovetail validate --all`, a step by events, a spec evaluated."""
    known = {one.name: one for one in (*planning.OPERATIONS, *networking.OPERATIONS)}
    spec = Operation(name="evaluate-spec", what=f"read {EXAMPLE} and evaluate it", made=_evaluated_spec)
    events = Operation(name="step-events", what="the step of that, event by event", made=_step_events)
    chosen = (*(known[name] for name in ("evaluate", "step")), spec, events)
    for one in (*chosen, *(known[name] for name in ("plan-search", "ring-closed", "ring"))):
        if not one.needs or is_installed(one.needs):
            yield Speed(name=one.name, what=one.what, timed_s=partial(_call_s, one, 1))
    many = known["plans"]
    yield Speed(name="plans-1000", what=f"1,000 {many.what}", timed_s=partial(_call_s, many, NUM_PLANS))


def _call_s(operation: Operation, num_wanted: int) -> Iterator[float]:
    """Seconds of so many of what the operation counts, in each of its runs."""
    run = operation.made()
    for _ in range(max(operation.num_runs, LEAST_RUNS)):
        began_s = time.process_time()
        num_done = run()
        yield (time.process_time() - began_s) / num_done * num_wanted


def _evaluated_spec() -> Run:
    def run() -> float:
        job = load_spec(str(REPOSITORY / EXAMPLE))
        evaluate(job.workload, job.cluster, job.plan)
        return 1.0

    return warm(run)


def _step_events() -> Run:
    job = load_spec(str(REPOSITORY / EXAMPLE))
    graph = job.workload.training_graph()

    def run() -> float:
        step_events(graph, job.plan, job.cluster, job.workload.precision)
        return 1.0

    return warm(run)


def measured(speeds: Iterable[Speed]) -> Iterator[Timed]:
    for one in speeds:
        found = list(one.timed_s())
        yield Timed(name=one.name, what=one.what, cpu_s=min(found), num_runs=len(found))


def main(arguments: Sequence[str] | None = None, speeds: Sequence[Speed] | None = None) -> None:
    every = [*command_speeds(), *call_speeds()] if speeds is None else list(speeds)
    names = [one.name for one in every]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speeds", description="time commands and calls")
    parser.add_argument("names", nargs="*", metavar="name", help=f"only these of: {', '.join(names)}")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in names]:
        parser.error(f"nothing is timed by the name of {', '.join(unknown)}; known: {', '.join(names)}")
    now = Speeds(about=about_now(), timed=())
    chosen = [one for one in every if not options.names or one.name in options.names]
    now = replace(now, timed=tuple(measured(chosen)))
    earlier = earlier_speeds(now)
    if not options.names:
        write_speeds(now)
    print(json.dumps(_told(now, earlier), indent=1) if options.json else table(now, earlier))


def _told(now: Speeds, earlier: Sequence[Speeds]) -> Mapping[str, object]:
    """The file's JSON, and how many times as fast each is as in the earlier file."""
    faster = gains(now.cpu_s, earlier[0].cpu_s) if earlier else {}
    return {**as_json(now), "earlier": [one.about for one in earlier], "gains": faster}


if __name__ == "__main__":
    main()
