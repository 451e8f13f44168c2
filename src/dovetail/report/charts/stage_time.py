"""Where the time of a step goes, a stacked bar for every stage."""

from __future__ import annotations

from dovetail.evaluate import Outcome
from dovetail.report.charts.bars import stacked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import TIME
from dovetail.report.labels import AXIS_LABELS, percent, seconds
from dovetail.report.table import Table
from dovetail.step.stage_steps import StageStep, stage_steps
from dovetail.step.work import COMM_AXES
from dovetail.units import format_rounded_s

LABELS = {
    "compute": "compute",
    "recompute": "recompute",
    "host": "waiting for the host",
    **AXIS_LABELS,
    "offload": "copies to the host",
    "update": "update",
    "idle": "bubble and waiting",
}


def time_by_stage(outcome: Outcome) -> Chart:
    """A bar for every run of stages alike; parts of a bar add up to the step."""
    graph = outcome.workload.training_graph()
    stages = stage_steps(graph, outcome.plan, outcome.cluster, outcome.workload.precision)
    step_s = outcome.step.step_s
    parts = [parts_s(stage) for stage in stages]
    kinds = [kind for kind in TIME if any(part[kind] > 0 for part in parts)]
    labels = [stage_label(stage.label, stage.num_stages) for stage in stages]
    columns = {LABELS[kind]: (TIME[kind], [part[kind] for part in parts]) for kind in kinds}
    slowest = stages[_slowest(outcome, stages)]
    return Chart(
        name="time-by-stage",
        title="Time of one step, by stage",
        alt=_sentence(parts_s(slowest), step_s, stage_label(slowest.label, slowest.num_stages)),
        figure=stacked(labels, columns, "time of one step", tickformat="~s", ticksuffix="s"),
        table=Table(
            title="Time of one step, by stage",
            columns=("", *labels),
            rows=tuple(
                (LABELS[kind], *(f"{seconds(part[kind], step_s)} ({percent(part[kind] / step_s)})" for part in parts))
                for kind in kinds
            ),
            align="l" + "r" * len(stages),
        ),
    )


def _sentence(parts: dict[str, float], step_s: float, slowest: str) -> str:
    """What takes most; recompute is a part of compute, as it is in the table of a step."""
    again_s = parts["recompute"]
    whole = {**parts, "compute": parts["compute"] + again_s}
    most = max(whole, key=lambda kind: whole[kind])
    message = f"Of a step of {format_rounded_s(step_s, 3)}, {LABELS[most]} takes {percent(whole[most] / step_s)}"
    message += f" ({percent(again_s / step_s)} of the step is recompute)" if most == "compute" and again_s > 0 else ""
    return f"{message} on a device of the slowest {slowest}."


def parts_s(stage: StageStep) -> dict[str, float]:
    """Seconds of a stage by kind, in the order that they are stacked in."""
    exposed_s = {axis: comm.exposed_s for axis, comm in zip(COMM_AXES, stage.comm, strict=True)}
    return {
        "compute": stage.compute_s - stage.recompute_s,
        "recompute": stage.recompute_s,
        "host": stage.host_s,
        **exposed_s,
        "offload": stage.offload.exposed_s,
        "update": stage.update_s,
        "idle": stage.idle_s,
    }


def stage_label(label: str, num_stages: int) -> str:
    return f"stage {label}" if num_stages == 1 else f"stages {label}"


def _slowest(outcome: Outcome, stages: tuple[StageStep, ...]) -> int:
    slowest = int(outcome.step.slowest_stage)
    return max(index for index, stage in enumerate(stages) if stage.first_stage <= slowest)
