"""Published runs beside what we say of them: seconds of a step, and whether it fits; settings are built once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dovetail.accuracy.jobs import why_not
from dovetail.accuracy.runs.jobs import PublishedRun, run_of
from dovetail.accuracy.runs.row import Row
from dovetail.errors import DovetailError, InvalidInput, NotModelled
from dovetail.evaluate import check_formats, memory_use
from dovetail.parallel.check import check_plan
from dovetail.parallel.placement import placement
from dovetail.parallel.plan import columns_of
from dovetail.parallel.sharding import shard
from dovetail.step.pipelines import check_schedule
from dovetail.step.step import step_times
from dovetail.workload.graph import Graph
from dovetail.workload.layers import Sample
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from dovetail.workload.transformer import Transformer

MICROBATCHES = (1, 2, 4, 8)  # tried where a publisher does not state which
READ_OFF = "figure_approx"  # quality of rows that were read off a figure
NUM_GRAPHS = 64  # kept: a publisher runs one model on many clusters
UNSTATED = ("micro_batch",)  # what a row may lack and still be compared, apart from the complete ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A run and what we say of it."""

    run: PublishedRun
    step_s: float
    fits: bool
    is_complete: bool = True  # else the microbatch is not stated, and the best of a few was taken


def timed_rows(rows: Iterable[Row]) -> tuple[list[Timed], Counter[str]]:
    """Every run that can be expressed, in the order of the rows of each setting, and why the others cannot."""
    complete: list[PublishedRun] = []
    others: list[Timed] = []
    skipped: Counter[str] = Counter()
    for row in rows:
        if row.word("quality") == READ_OFF:
            skipped["rows read off a figure"] += 1
            continue
        try:
            if row.lacking == UNSTATED:
                others.append(_best_microbatch(row))
            else:
                complete.append(run_of(row))
        except DovetailError as error:  # a table of runs holds more models and machines than we know
            skipped[why_not(error)] += 1
    found: list[Timed] = []
    for group in _by_setting(complete):
        try:
            check_dtypes(group[0])
            graph = _graph(group[0])
        except DovetailError as error:  # of the model, its numbers and the chip, which all of them share
            skipped[why_not(error)] += len(group)
            continue
        checked = []
        for run in group:
            try:
                _check(run, graph)
                checked.append(run)
            except DovetailError as error:
                skipped[why_not(error)] += 1
        found += timed_together(checked, graph)
    return found + others, skipped


def timed(run: PublishedRun) -> Timed:
    """One run; `InvalidInput` where its plan cannot cut the model."""
    check_dtypes(run)
    graph = _graph(run)
    _check(run, graph)
    return timed_together([run], graph)[0]


def check_dtypes(run: PublishedRun) -> None:
    """Raises `NotModelled` where the chip has no rate for the products of a run."""
    chip = run.cluster.chip
    if run.precision.compute not in dict(chip.tensor.rates):
        raise NotModelled(f"{chip.name} has no rate for {run.precision.compute}")
    check_formats(run.precision, run.cluster)


def timed_together(runs: Sequence[PublishedRun], graph: Graph) -> list[Timed]:
    """Runs that differ by their plan alone, each of which can cut `graph`."""
    if not runs:
        return []
    cluster, precision = runs[0].cluster, runs[0].precision
    times = step_times(graph, columns_of([run.plan for run in runs]), cluster, precision).step_s
    fits = [memory_use(shard(graph, run.plan), precision, cluster.chip.visible_bytes).fits for run in runs]
    return [Timed(run=run, step_s=float(s), fits=fit) for run, s, fit in zip(runs, times, fits, strict=True)]


def _by_setting(runs: Iterable[PublishedRun]) -> list[list[PublishedRun]]:
    found: dict[object, list[PublishedRun]] = defaultdict(list)
    for run in runs:
        found[run.setting].append(run)
    return list(found.values())


def _graph(run: PublishedRun) -> Graph:
    return _graph_of(run.model, run.sample, run.precision)


@lru_cache(maxsize=NUM_GRAPHS)
def _graph_of(model: Transformer, sample: Sample, precision: Precision) -> Graph:
    return training_graph(model.forward(sample), precision)


def _check(run: PublishedRun, graph: Graph) -> None:
    check_plan(run.plan, graph, run.cluster.num_devices)
    check_schedule(run.plan, run.plan.num_microbatches(graph.batch))
    placement(run.plan, run.cluster.topology)


def _best_microbatch(row: Row) -> Timed:
    """Publishers who do not say the microbatch show what they tuned: the fastest of a few that fits."""
    tried = []
    for size in MICROBATCHES:
        try:
            found = timed(run_of(Row(cells={**row.cells, "micro_batch": str(size)})))
        except InvalidInput:  # the batch does not divide
            continue
        tried.append((not found.fits, found.step_s, size, found))
    if not tried:
        raise NotModelled("incomplete: micro_batch not given, and none of a few divides the batch")
    best = min(tried, key=lambda found: found[:3])[3]
    return Timed(run=best.run, step_s=best.step_s, fits=best.fits, is_complete=False)
