"""How fast searches converge: `python -m benchmarks.convergence [--models ...] [--tables FOLDER]`.

Every algorithm through one interface, from ten seeds, until a design is within 1 % of the proven best or the budget of
evaluations is spent. CPU seconds are those of a whole search: load building, the algorithm's own thinking (bounds
too, where it asks for them), and scheduling what it asks for. All designs of a model are scheduled
once into a table that searches then look up; a look-up is charged what the same call of the scheduler costs, measured
for calls of one design and of several. `check` in the results compares that with searches that did schedule. What
Numba compiles is compiled before anything is timed. Writes benchmarks/results/convergence.json.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import pickle
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.bar import REPOSITORY
from benchmarks.bar_mining import LIMITS, tasks
from dovetail.hardware.catalog import chips
from dovetail.search.algorithms import Scored, Search, algorithms
from dovetail.search.ask_tell import NUM_IDLE
from dovetail.search.designs import design_space
from dovetail.search.metrics import metrics
from dovetail.search.mining.answers import question_over_base
from dovetail.search.mining.bounds import JobBounds
from dovetail.search.mining.score import Question, scored
from dovetail.search.mining.task import Task
from dovetail.search.space import Point

RESULTS = REPOSITORY / "benchmarks" / "results" / "convergence.json"
WITHIN_FRAC = 0.01
BUDGET = 500  # evaluations; a search that needs more counts as if it had reached the best then
NUM_SEEDS = 10
GRID = (1, 2, 3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, 500)  # evaluations at which curves are kept
OURS = ("exact", "critical-path")  # draw nothing at random: one seed says all
BASELINES = ("bayes", "anneal", "genetic", "random", "grid", "tpe", "nsga2")
SLOW = ("tpe", "nsga2")  # Optuna's samplers think longer than schedules take
FEW = ("resnet-18", "bert-base", "gpt2-1.5b")  # models that slow searches are run for
NUM_TIMED = 24  # designs that the cost of an evaluation is measured on
NUM_TOGETHER = 16  # in one call, against one
NUM_AT_ONCE = 512  # designs of a table scheduled in one call

Answers = Callable[[list[Point]], tuple[list[Scored], float]]  # with the CPU seconds it took


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """CPU seconds of a call of the scheduler: of any, of the first design inside limits, and of each further one."""

    beyond_s: float
    first_s: float
    further_s: float

    def call_s(self, num_inside: int) -> float:
        return self.beyond_s + (self.first_s + (num_inside - 1) * self.further_s if num_inside else 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A search until it was near enough, or ended: how long, its best loss, and what that was at GRID."""

    num_evaluated: int
    loss: float
    is_reached: bool
    thinking_s: float
    answering_s: float
    curve: tuple[float, ...]


def question_for(task: Task) -> Question:
    base, metric = chips["tpuv2-like"](), metrics["throughput"]
    return question_over_base([task], base, design_space(), LIMITS, metric)[0]


def search_of(name: str, question: Question, seed: int) -> Search:
    """Bounds are tabled when they are first asked for, so that they count as the algorithm's own time."""
    return algorithms[name].search(question.space, Random(seed), lambda points: JobBounds(question)(points))


def followed(search: Search, answers: Answers, num_most: int, target: float) -> Run:
    """Runs `search` until a loss is at most `target`, `num_most` points are answered, or it has nothing to ask."""
    told: dict[Point, Scored] = {}
    bests: list[float] = []
    thinking_s, answering_s, num_idle, wanted = 0.0, 0.0, 0, None
    while num_idle < NUM_IDLE and len(bests) < num_most and (not bests or bests[-1] > target):
        began_s = time.process_time()
        try:
            wanted = next(search) if wanted is None else search.send([told[point] for point in wanted])
        except StopIteration:
            break
        finally:
            thinking_s += time.process_time() - began_s
        fresh = [point for point in dict.fromkeys(wanted) if point not in told][: num_most - len(bests)]
        found, took_s = answers(fresh) if fresh else ([], 0.0)
        answering_s += took_s
        num_idle = 0 if fresh else num_idle + len(wanted)
        told |= {one.point: one for one in found}
        for one in found:
            bests.append(min(one.loss, bests[-1] if bests else math.inf))
            if bests[-1] <= target:
                break
    curve = tuple(bests[min(place, len(bests)) - 1] for place in GRID)
    return Run(
        num_evaluated=len(bests),
        loss=bests[-1],
        is_reached=bests[-1] <= target,
        thinking_s=thinking_s,
        answering_s=answering_s,
        curve=curve,
    )


def scheduled(question: Question) -> Answers:
    """Schedules what is asked."""

    def answers(points: list[Point]) -> tuple[list[Scored], float]:
        began_s = time.process_time()
        found = scored(question, points)
        return found, time.process_time() - began_s

    return answers


def looked_up(table: dict[Point, Scored], calls: Calls) -> Answers:
    """Looks up what is asked, at the cost of scheduling it."""

    def answers(points: list[Point]) -> tuple[list[Scored], float]:
        found = [table[point] for point in points]
        return found, calls.call_s(sum(math.isfinite(one.loss) for one in found))

    return answers


def table_of(question: Question, folder: Path | None, name: str) -> dict[Point, Scored]:
    """What every design comes to; kept in `folder`, if any."""
    path = folder / f"table-{name}.pkl" if folder else None
    if path and path.exists():
        return {one.point: one for one in pickle.loads(path.read_bytes())}
    points = list(question.space.points())
    parts = [points[start : start + NUM_AT_ONCE] for start in range(0, len(points), NUM_AT_ONCE)]
    found = [one for part in parts for one in scored(question, part)]
    if path:
        path.write_bytes(pickle.dumps(found))
    return {one.point: one for one in found}


def calls_of(question: Question, table: dict[Point, Scored]) -> Calls:
    """Measured on designs drawn at random; the median of calls."""
    rng, answers = Random(0), scheduled(question)
    inside = rng.sample([point for point, one in table.items() if math.isfinite(one.loss)], NUM_TIMED)
    beyond = rng.sample([point for point, one in table.items() if math.isinf(one.loss)], NUM_TIMED)
    beyond_s = statistics.median(answers([point])[1] for point in beyond)
    alone_s = statistics.median(answers([point])[1] for point in inside)
    together_s = statistics.median(answers(rng.sample(inside, NUM_TOGETHER))[1] for _ in range(NUM_TIMED // 4))
    return Calls(
        beyond_s=beyond_s,
        first_s=alone_s - beyond_s,
        further_s=(together_s - alone_s) / (NUM_TOGETHER - 1),
    )


def load_s(task: Task) -> float:
    """CPU seconds of load building, which every search begins with; the median of three.

    The reference that losses are told over is not part of it: with one model no search depends on it.
    """
    base = chips["tpuv2-like"]()
    return statistics.median(_timed_s(lambda: task.job(base)) for _ in range(3))


def _timed_s(act: Callable[[], object]) -> float:
    began_s = time.process_time()
    act()
    return time.process_time() - began_s


def measured(task: Task, folder: Path | None, names: Sequence[str]) -> dict[str, Any]:
    """The searches `names` of one model."""
    question, prepare_s = question_for(task), load_s(task)
    table = table_of(question, folder, task.name)
    best = min(one.loss for one in table.values())
    calls = calls_of(question, table)
    answers = looked_up(table, calls)
    searches = {}
    for name in (name for name in names if name not in SLOW or task.name in FEW):
        seeds = range(1 if name in OURS else NUM_SEEDS)
        target = best * (1 + WITHIN_FRAC)
        runs = [_run(name, question, seed, scheduled(question) if name in OURS else answers, target) for seed in seeds]
        searches[name] = [_record(run, prepare_s, best) for run in runs]
    proof = followed(search_of("exact", question, 0), scheduled(question), question.space.num_points, -math.inf)
    assert proof.loss == best, task.name
    return {
        "load_s": _short(prepare_s),
        "calls": {key: _short(value) for key, value in asdict(calls).items()},
        "num_inside": sum(math.isfinite(one.loss) for one in table.values()),
        "num_near": sum(one.loss <= best * (1 + WITHIN_FRAC) for one in table.values()),
        "proof": {
            "num_evaluated": proof.num_evaluated,
            "cpu_s": _short(prepare_s + proof.thinking_s + proof.answering_s),
        },
        "searches": searches,
    }


def _run(name: str, question: Question, seed: int, answers: Answers, target: float) -> Run:
    """Ours schedule truly, three times, the median of which counts; they are too short to look up."""
    runs = [
        followed(
            search_of(name, question, seed), answers, question.space.num_points if name in OURS else BUDGET, target
        )
        for _ in range(3 if name in OURS else 1)
    ]
    return sorted(runs, key=lambda run: run.thinking_s + run.answering_s)[len(runs) // 2]


def _record(run: Run, prepare_s: float, best: float) -> dict[str, Any]:
    return {
        "num_evaluated": run.num_evaluated,
        "is_reached": run.is_reached,
        "cpu_s": _short(prepare_s + run.thinking_s + run.answering_s),
        "thinking_s": _short(run.thinking_s),
        "curve": [_short(loss / best) if math.isfinite(loss) else None for loss in run.curve],
    }


def _short(amount: float) -> float:
    return float(f"{amount:.4g}")


def checked(models: Sequence[Task], folder: Path | None) -> Iterator[dict[str, Any]]:
    """The same searches scheduled truly and looked up: CPU seconds of both."""
    for task in models:
        question = question_for(task)
        table = table_of(question, folder, task.name)
        looking = looked_up(table, calls_of(question, table))
        for name in ("bayes", "genetic", "anneal"):
            runs = [
                followed(search_of(name, question, 0), answers, 100, -math.inf)
                for answers in (scheduled(question), looking)
            ]
            true_s, replayed_s = (run.thinking_s + run.answering_s for run in runs)
            assert runs[0].curve == runs[1].curve, (task.name, name)
            yield {"model": task.name, "algorithm": name, "true_s": _short(true_s), "replayed_s": _short(replayed_s)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.convergence", description=__doc__)
    every = {task.name: task for task in tasks()}
    parser.add_argument("--models", nargs="*", default=list(every), choices=list(every), help="measure only these")
    searches = (*OURS, *BASELINES)
    parser.add_argument("--searches", nargs="*", default=searches, choices=searches, help="measure only these")
    parser.add_argument("--tables", type=Path, help="a folder to keep what all designs come to, and to find it again")
    parser.add_argument("--check", action="store_true", help="compare looked-up searches with scheduled ones instead")
    options = parser.parse_args()
    question = question_for(every["resnet-18"])
    followed(search_of("exact", question, 0), scheduled(question), 16, -math.inf)  # compiled before it is timed
    chosen = [every[name] for name in options.models]
    if options.check:
        write_results(list(every), {}, list(checked(chosen, options.tables)))
        return
    for task in chosen:
        found = measured(task, options.tables, options.searches)
        write_results(list(every), {task.name: found}, [])
        mean_s = {name: statistics.mean(run["cpu_s"] for run in runs) for name, runs in found["searches"].items()}
        print(task.name, ", ".join(f"{name} {cpu_s:.2f} s" for name, cpu_s in mean_s.items()), flush=True)


def write_results(names: list[str], models: dict[str, Any], check: list[dict[str, Any]]) -> None:
    """Into RESULTS, beside what other runs left there; models in the order of `names`. One run writes at a time."""
    with RESULTS.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = json.loads(file.read() or '{"models": {}, "check": []}')
        for name, found in models.items():
            before = known["models"].get(name, {"searches": {}})
            known["models"][name] = before | found | {"searches": before["searches"] | found["searches"]}
        facts = {"within_frac": WITHIN_FRAC, "budget": BUDGET, "num_seeds": NUM_SEEDS, "grid": GRID}
        ordered = {name: known["models"][name] for name in names if name in known["models"]}
        file.truncate(0)
        file.write(json.dumps(facts | {"check": check or known["check"], "models": ordered}, indent=1) + "\n")


if __name__ == "__main__":
    main()
