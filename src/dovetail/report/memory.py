"""Memory of the stages as a table: equal neighbours in one row, and of many stages a row for each stretch."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise

from dovetail.evaluate import MemoryUse
from dovetail.hardware.chip import Chip
from dovetail.parallel.memory import StageMemory
from dovetail.parallel.plan import Plan
from dovetail.report.assumptions import layers_per_stage
from dovetail.report.table import Table
from dovetail.units import GIBI, MEBI, PEBI, TEBI, format_bytes
from dovetail.workload.workload import Workload

MAX_ROWS = 8
KINDS = ("weights", "gradients", "optimizer", "activations", "buffers", "total")
MANY = 10_000  # of a unit: from here on the next one reads better


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRange:
    """Neighbouring stages, `first` to `last`, both included; with one entry for all where they hold the same."""

    first: int
    last: int
    num_layers: tuple[int, ...]
    recompute: tuple[str, ...]
    memory: tuple[StageMemory, ...]

    @property
    def label(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


def memory_table(use: MemoryUse, workload: Workload, plan: Plan) -> Table:
    """What a device holds at its fullest, kind by kind, against what it has."""
    runs = stage_runs(use, layers_per_stage(workload.model.forward(workload.sample).num_layers, plan), plan)
    shown = runs if len(runs) <= MAX_ROWS else _summarised(runs, use)
    has_policies = len(set(plan.recompute)) > 1
    scale_bytes, symbol = unit_of_bytes(use.fullest.total_bytes)
    rows = tuple(_row(run, scale_bytes, has_policies=has_policies) for run in shown)
    return Table(
        title=f"Memory of a device, {symbol}",
        columns=("stage", "layers", *(("recompute",) if has_policies else ()), *KINDS),
        rows=rows,
        align="l" + "r" * len(rows[0]),
        notes=_notes(use, is_whole=shown == runs),
    )


def stage_runs(use: MemoryUse, num_layers: tuple[int, ...], plan: Plan) -> tuple[StageRange, ...]:
    starts = [0]
    for before, after in pairwise(use.stages):
        is_equal = all(
            getattr(before, f.name) == getattr(after, f.name) for f in fields(StageMemory) if f.name != "stage"
        )
        if not is_equal or num_layers[before.stage] != num_layers[after.stage]:
            starts.append(after.stage)
    ends = [*(start - 1 for start in starts[1:]), len(use.stages) - 1]
    return tuple(
        StageRange(
            first=first,
            last=last,
            num_layers=(num_layers[first],),
            recompute=(plan.recompute_of(first),),
            memory=(use.stages[first],),
        )
        for first, last in zip(starts, ends, strict=True)
    )


def _summarised(runs: tuple[StageRange, ...], use: MemoryUse) -> tuple[StageRange, ...]:
    """First, fullest, emptiest and last by themselves, and what lies between them in one row each time."""
    fullest = use.fullest.stage
    emptiest = min(use.stages, key=lambda stage: stage.total_bytes).stage
    places = {0, fullest, emptiest, len(use.stages) - 1}
    rows: list[StageRange] = []
    between: list[StageRange] = []
    for run in runs:
        if not any(run.first <= place <= run.last for place in places):
            between.append(run)
            continue
        rows += [_merged(between), run] if between else [run]
        between = []
    return tuple(rows)


def _merged(runs: list[StageRange]) -> StageRange:
    return StageRange(
        first=runs[0].first,
        last=runs[-1].last,
        num_layers=tuple(count for run in runs for count in run.num_layers),
        recompute=tuple(policy for run in runs for policy in run.recompute),
        memory=tuple(stage for run in runs for stage in run.memory),
    )


def unit_of_bytes(most_bytes: float) -> tuple[float, str]:
    """The unit that all totals are said in."""
    for scale_bytes, symbol in ((MEBI, "MiB"), (GIBI, "GiB"), (TEBI, "TiB")):
        limit = GIBI / MEBI if symbol == "MiB" else MANY
        if most_bytes / scale_bytes < limit:
            return scale_bytes, symbol
    return PEBI, "PiB"


def _row(run: StageRange, scale_bytes: float, *, has_policies: bool) -> tuple[str, ...]:
    held = ([getattr(stage, f"{kind}_bytes") / scale_bytes for stage in run.memory] for kind in KINDS)
    digits = 0 if has_policies else 1  # there is no room for more
    layers = str(min(run.num_layers))
    if len(set(run.num_layers)) > 1:
        layers += f"-{max(run.num_layers)}"
    policies = " ".join(dict.fromkeys(policy.removesuffix("-activation") for policy in run.recompute))
    return run.label, layers, *((policies,) if has_policies else ()), *(_span(numbers, digits) for numbers in held)


def _span(numbers: list[float], digits: int) -> str:
    """One number, or from the least to the most of several."""
    ends = (min(numbers), max(numbers))
    exact = dict.fromkeys(f"{number:.1f}" if number < MANY else f"{number:.1e}" for number in ends)
    return next(iter(exact)) if len(exact) == 1 else "-".join(f"{number:.{digits}f}" for number in ends)


def _verdict(slack_bytes: float) -> str:
    return f"{format_bytes(slack_bytes)} spare" if slack_bytes >= 0 else f"{format_bytes(-slack_bytes)} over"


def _notes(use: MemoryUse, *, is_whole: bool) -> tuple[str, ...]:
    spans = "" if is_whole else "where stages of a row differ, it has the least and the most; --json has each"
    return tuple(note for note in (spans, *memory_notes(use)) if note)


def usable_label(chip: Chip) -> str:
    """What a plan may take of a device's HBM, and of what: "76.0 GiB usable (79.2 GiB less 4 %)"."""
    usable = f"{format_bytes(chip.usable_bytes)} usable"
    if not chip.hbm_reserve_frac:
        return usable
    return f"{usable} ({format_bytes(chip.visible_bytes)} less {100 * chip.hbm_reserve_frac:.2g} %)"


def memory_notes(use: MemoryUse) -> tuple[str, ...]:
    """Sentences: what the fullest stage needs, all counted, and what its host keeps."""
    slack_bytes = use.limit_bytes - use.need_bytes
    verdict = _verdict(slack_bytes)
    need = (
        f"stage {use.fullest.stage} is fullest: with {format_bytes(use.reserve_bytes)} that the allocator reserves and"
        f" {format_bytes(use.runtime_bytes)} of runtime it needs {format_bytes(use.need_bytes)} of"
        f" {format_bytes(use.limit_bytes)} usable: {verdict}"
    )
    host = (
        f"the host keeps {format_bytes(use.host_need_bytes)} for a device, of {format_bytes(use.host_limit_bytes)}:"
        f" {_verdict(use.host_limit_bytes - use.host_need_bytes)}"
        if use.host_need_bytes > 0
        else ""
    )
    return tuple(note for note in (need, host) if note)
