"""Memory of a device of every stage at its fullest, by kind, against what a device has."""

from __future__ import annotations

from dovetail.evaluate import Infeasible, MemoryUse, Outcome
from dovetail.parallel.memory import StageMemory
from dovetail.report.assumptions import layers_per_stage
from dovetail.report.charts.bars import stacked
from dovetail.report.charts.chart import Chart, Figure
from dovetail.report.charts.palette import MEMORY
from dovetail.report.charts.stage_time import stage_label
from dovetail.report.memory import StageRange, stage_runs, unit_of_bytes
from dovetail.report.table import Table
from dovetail.units import format_bytes

LABELS = {"optimizer": "optimizer state", "reserve": "allocator's reserve"}


def memory_by_stage(result: Outcome | Infeasible) -> Chart:
    """A bar for every run of stages that hold the same, a line where memory ends."""
    use, workload, plan = result.memory, result.workload, result.plan
    num_layers = layers_per_stage(workload.model.forward(workload.sample).num_layers, plan)
    runs = stage_runs(use, num_layers, plan)
    scale_bytes, symbol = unit_of_bytes(max(use.need_bytes, use.limit_bytes))
    held = [held_bytes(run.memory[0], use) for run in runs]
    kinds = [kind for kind in MEMORY if any(one[kind] > 0 for one in held)]
    labels = [stage_label(run.label, run.last - run.first + 1) for run in runs]
    columns = {LABELS.get(kind, kind): (MEMORY[kind], [one[kind] / scale_bytes for one in held]) for kind in kinds}
    figure = stacked(labels, columns, f"memory per device, {symbol}", hover=f"%{{x:.2f}} {symbol}")
    limits = [use.limits_bytes[run.first if len(use.limits_bytes) > 1 else 0] / scale_bytes for run in runs]
    _mark_limits(figure, limits, symbol)
    return Chart(
        name="memory-by-stage",
        title="Memory per device, by stage",
        alt=_sentence(use),
        figure=figure,
        table=_table(runs, labels, held, kinds, limits, scale_bytes, symbol),
    )


def held_bytes(stage: StageMemory, use: MemoryUse) -> dict[str, float]:
    """What a device of `stage` holds by kind, in the order that it is stacked in."""
    kinds = ("weights", "gradients", "optimizer", "activations", "buffers", "reserve")
    return {kind: float(getattr(stage, f"{kind}_bytes")) for kind in kinds} | {"runtime": use.runtime_bytes}


def _mark_limits(figure: Figure, limits: list[float], symbol: str) -> None:
    """A line across all bars where stages have the same memory, else across each its own."""
    spans = [(0, len(limits))] if len(set(limits)) == 1 else [(at, at + 1) for at in range(len(limits))]
    name = f"limit, {limits[0]:.1f} {symbol}" if len(spans) == 1 else "limit of each"
    figure["layout"]["shapes"] = [
        {
            "type": "line",
            "name": name,
            "showlegend": low == 0,
            "x0": limits[low],
            "x1": limits[low],
            "y0": low - 0.5,
            "y1": high - 0.5,
            "line": {"width": 2, "dash": "dash"},
        }
        for low, high in spans
    ]
    figure["layout"]["xaxis"]["range"] = [0, 1.04 * max(max(limits), *_totals(figure))]


def _totals(figure: Figure) -> list[float]:
    return [sum(bars) for bars in zip(*(trace["x"] for trace in figure["data"]), strict=True)]


def _sentence(use: MemoryUse) -> str:
    slack_bytes = use.limit_bytes - use.need_bytes
    verdict = f"{format_bytes(slack_bytes)} to spare" if slack_bytes >= 0 else f"{format_bytes(-slack_bytes)} too much"
    return (
        f"A device of stage {use.fullest.stage}, which has least to spare, needs {format_bytes(use.need_bytes)} of"
        f" {format_bytes(use.limit_bytes)} usable: {verdict}."
    )


def _table(
    runs: tuple[StageRange, ...],
    labels: list[str],
    held: list[dict[str, float]],
    kinds: list[str],
    limits: list[float],
    scale_bytes: float,
    symbol: str,
) -> Table:
    rows = tuple(
        (
            label,
            str(run.num_layers[0]),
            *(f"{one[kind] / scale_bytes:.2f}" for kind in kinds),
            f"{sum(one.values()) / scale_bytes:.2f}",
            f"{limit:.2f}",
        )
        for run, label, one, limit in zip(runs, labels, held, limits, strict=True)
    )
    columns = ("", "layers", *(LABELS.get(kind, kind) for kind in kinds), "in all", "limit")
    return Table(
        title=f"Memory per device at its fullest, {symbol}", columns=columns, rows=rows, align="l" + "r" * len(rows[0])
    )
