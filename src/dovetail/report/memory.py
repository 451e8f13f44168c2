"""Memory of the stages as a table: equal neighbours in one row, and of many stages those that matter."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

from dovetail.evaluate import MemoryUse
from dovetail.plan.memory import StageMemory
from dovetail.plan.plan import Plan
from dovetail.report.assumptions import layers_per_stage
from dovetail.report.table import Table
from dovetail.units import GIBI, format_bytes
from dovetail.workload.workload import Workload

MAX_ROWS = 8
KINDS = ("weights", "gradients", "optimizer", "activations", "buffers", "total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Neighbouring stages that hold the same: `first` to `last`, both included."""

    first: int
    last: int
    num_layers: int
    recompute: str
    memory: StageMemory

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def memory_table(use: MemoryUse, workload: Workload, plan: Plan) -> Table:
    """GiB a device holds at its fullest, kind by kind, against what it has."""
    runs = stage_runs(use, layers_per_stage(workload.model.forward(workload.sample).num_layers, plan), plan)
    shown = runs if len(runs) <= MAX_ROWS else _telling(runs, use)
    has_policies = len(set(plan.recompute)) > 1
    rows = tuple(_row(run, has_policies=has_policies) for run in shown)
    return Table(
        title="Memory of a device, GiB",
        columns=("stage", "layers", *(("recompute",) if has_policies else ()), *KINDS),
        rows=rows,
        align="l" + "r" * len(rows[0]),
        notes=_notes(use, len(use.stages) - sum(run.last - run.first + 1 for run in shown)),
    )


def stage_runs(use: MemoryUse, num_layers: tuple[int, ...], plan: Plan) -> tuple[Run, ...]:
    starts = [0]
    for before, after in pairwise(use.stages):
        is_equal = all(
            getattr(before, f.name) == getattr(after, f.name) for f in fields(StageMemory) if f.name != "stage"
        )
        if not is_equal or num_layers[before.stage] != num_layers[after.stage]:
            starts.append(after.stage)
    ends = [*(start - 1 for start in starts[1:]), len(use.stages) - 1]
    return tuple(
        Run(
            first=first,
            last=last,
            num_layers=num_layers[first],
            recompute=plan.recompute_of(first),
            memory=use.stages[first],
        )
        for first, last in zip(starts, ends, strict=True)
    )


def _telling(runs: tuple[Run, ...], use: MemoryUse) -> tuple[Run, ...]:
    """First, fullest, emptiest and last, in order."""
    fullest = use.fullest.stage
    emptiest = min(use.stages, key=lambda stage: stage.total_bytes).stage
    places = {0, fullest, emptiest, len(use.stages) - 1}
    return tuple(run for run in runs if any(run.first <= place <= run.last for place in places))


def _row(run: Run, *, has_policies: bool) -> tuple[str, ...]:
    numbers = (f"{getattr(run.memory, f'{kind}_bytes') / GIBI:.1f}" for kind in KINDS)
    return run.label, str(run.num_layers), *((run.recompute,) if has_policies else ()), *numbers


def _notes(use: MemoryUse, num_hidden: int) -> tuple[str, ...]:
    slack_bytes = use.limit_bytes - use.need_bytes
    verdict = f"{format_bytes(slack_bytes)} spare" if use.fits else f"{format_bytes(-slack_bytes)} over"
    need = (
        f"stage {use.fullest.stage} is fullest: with {format_bytes(use.reserve_bytes)} that the allocator reserves and"
        f" {format_bytes(use.runtime_bytes)} of runtime it needs {format_bytes(use.need_bytes)} of"
        f" {format_bytes(use.limit_bytes)}: {verdict}"
    )
    hidden = f"{num_hidden} more stages lie between; --json has all" if num_hidden else ""
    return tuple(note for note in (hidden, need) if note)
