"""An answer as tables: what it comes to, where the time goes, what memory holds, what limits it, what it assumes."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.accuracy.evidence import CONFIDENCE_FRAC, interval_of
from dovetail.accuracy.residuals import Residual
from dovetail.evaluate import PERTURBATION_FRAC, Infeasible, Outcome
from dovetail.hardware.heterogeneous import chips_of, devices_label
from dovetail.report.assumptions import assumptions
from dovetail.report.goodput import budget_rows, goodput_rows
from dovetail.report.labels import AXIS_LABELS, counted, gain, number, percent, plan_in_brief, seconds
from dovetail.report.levers import excess_rows, levers_table
from dovetail.report.limits import limited_by
from dovetail.report.measured import measured_tables
from dovetail.report.memory import memory_table
from dovetail.report.pools import pool_tables, stage_label
from dovetail.report.table import Table, bar
from dovetail.step.step import Step
from dovetail.step.work import COMM_AXES
from dovetail.units import format_bytes, format_count, format_energy_j, format_s

SHOWN_FRAC = 0.0005  # what would show as 0.0 % is left out
LIMIT_LABELS = ("the tensor units", "the vector units", "HBM", "latency and idle units", "launches")


def tables(
    result: Outcome | Infeasible, name: str = "", residuals: Sequence[Residual] = (), num_tokens: float = 0.0
) -> tuple[Table, ...]:
    """Everything a person wants to know of `result`, most wanted first; `name` is what the job is called.

    `residuals` are what the interval of the step's time rests on; without them, none is shown. `num_tokens` are those
    to train on, whose time is told; 0 for none.
    """
    if isinstance(result, Infeasible):
        return (
            Table(title=f"Does not fit: {_title(result, name)}", rows=(*_question_rows(result), *excess_rows(result))),
            *pool_tables(result),
            memory_table(result.memory, result.workload, result.plan),
            levers_table(result),
            assumptions_table(result),
        )
    return (
        headline_table(result, name, residuals, num_tokens),
        time_table(result.step, stage_label(result, int(result.step.slowest_stage))),
        *pool_tables(result),
        memory_table(result.memory, result.workload, result.plan),
        limits_table(result),
        *measured_tables(result),
        assumptions_table(result),
    )


def headline_table(
    outcome: Outcome, name: str = "", residuals: Sequence[Residual] = (), num_tokens: float = 0.0
) -> Table:
    use, chips, sample = outcome.memory, chips_of(outcome.cluster), outcome.workload.model.sample
    throughput = f"{number(outcome.samples_per_s)} {sample if sample != 'tokens' else 'samples'}/s"
    num_units = outcome.tokens_per_step if sample == "tokens" else outcome.workload.global_batch
    a_unit_j = outcome.step.energy_j / num_units
    if sample == "tokens":
        a_device = number(outcome.tokens_per_s / outcome.cluster.num_devices)
        throughput = f"{number(outcome.tokens_per_s)} tokens/s, {throughput}; {a_device} tokens/s per device"
    energy = f"{format_energy_j(outcome.step.energy_j, 1)} per step"
    energy += f", {format_energy_j(a_unit_j, 1)} per {sample.removesuffix('s')}"
    power = f"{outcome.mean_w:.0f} W per device of {' or '.join(f'{chip.tdp_w:.0f}' for chip in chips)} W"
    if outcome.step.clock_frac < 1:
        power += f", clock at {percent(outcome.step.clock_frac, 0)}"
    utilisation = f"MFU {percent(outcome.mfu_frac)}, HFU {percent(outcome.hfu_frac)}"
    rows = (
        *_question_rows(outcome),
        ("step time", f"{format_s(outcome.step.step_s)}, {counted(outcome.num_microbatches, 'microbatch')}"),
        *_interval_rows(outcome, residuals),
        ("throughput", throughput),
        ("utilisation", f"{utilisation} of {outcome.workload.precision.compute} peak"),
        *_dropped_rows(outcome),
        ("energy", f"{energy}; {power}"),
        ("memory", f"{format_bytes(use.need_bytes)} of {format_bytes(use.limit_bytes)} usable on the fullest device"),
        ("limited by", limited_by(outcome)),
        *goodput_rows(outcome),
        *budget_rows(outcome, num_tokens),
    )
    return Table(title=_title(outcome, name), rows=rows)


def _dropped_rows(outcome: Outcome) -> tuple[tuple[str, str], ...]:
    """What a capacity of experts drops, and what is counted all the same."""
    if not outcome.dropped_frac:
        return ()
    is_even = outcome.workload.routing.expert_imbalance == 1
    counted_in = "throughput counts all tokens, MFU leaves out those beyond a capacity below 1"
    share = f"{'' if is_even else 'at least '}{percent(outcome.dropped_frac)} of what is routed to experts"
    return (("dropped", f"{share}; {counted_in}"),)


def _interval_rows(outcome: Outcome, residuals: Sequence[Residual]) -> tuple[tuple[str, str], ...]:
    if not residuals:
        return ()
    found = interval_of(outcome.workload, outcome.cluster, outcome.plan, outcome.step.step_s, residuals)
    return ((f"{percent(CONFIDENCE_FRAC, 0)} interval", f"{found.bounds}, {found.evidence}"),)


def _title(result: Outcome | Infeasible, name: str) -> str:
    what = f"{result.workload.model.name} on {devices_label(result.cluster)}"
    return f"{name}: {what}" if name else what


def _question_rows(result: Outcome | Infeasible) -> tuple[tuple[str, str], ...]:
    workload = result.workload
    each = f" x {workload.seq:,} {workload.model.sample}" if workload.seq > 1 else f" {workload.model.sample}"
    num_parameters = workload.model.forward(workload.sample).num_parameters
    batch = f"{workload.global_batch:,}{each} per step"
    precision = workload.precision
    return (
        ("model", f"{format_count(num_parameters)} parameters, {batch}, {precision.compute}, {precision.optimizer}"),
        ("plan", plan_in_brief(result.plan)),
    )


def time_table(step: Step, slowest: str) -> Table:
    """Seconds by kind, on a device of the slowest stage, which is `slowest`; what is hidden is shown, not counted."""
    rows = [_time_row("compute", step.compute_s, step)]
    if step.recompute_s > 0:
        rows.append(_time_row("  of it recompute", step.recompute_s, step))
    if step.host_s > 0:
        rows.append(_time_row("waiting for the host", step.host_s, step))
    for axis, comm in zip(COMM_AXES, step.comm, strict=True):
        if comm.exposed_s > 0 or comm.hidden_s > 0:
            rows.append(_time_row(f"{AXIS_LABELS[axis]} ({axis})", comm.exposed_s, step, comm.hidden_s))
    if step.offload.exposed_s > 0 or step.offload.hidden_s > 0:
        rows.append(_time_row("copies to the host", step.offload.exposed_s, step, step.offload.hidden_s))
    if step.bubble_s > 0:
        rows.append(_time_row("pipeline bubble", step.bubble_s, step))
    rows += [
        _time_row("update", step.update_s, step),
        ("step", seconds(step.step_s, step.step_s), percent(1.0), "", ""),
    ]
    waits = [
        f"{words} {percent(s / step.compute_s)}"
        for words, s in zip(LIMIT_LABELS, step.limits_s, strict=True)
        if step.compute_s > 0 and s / step.compute_s >= SHOWN_FRAC
    ]
    return Table(
        title=f"Where the time goes, on a device of {slowest}",
        columns=("", "time", "share", "", "hidden"),
        rows=tuple(rows),
        align="lrrlr",
        notes=(f"what bounds compute: {', '.join(waits)}",) if waits else (),
    )


def _time_row(label: str, part_s: float, step: Step, hidden_s: float = 0.0) -> tuple[str, ...]:
    share = part_s / step.step_s
    hidden = seconds(hidden_s, step.step_s) if hidden_s > 0 else ""
    return label, seconds(part_s, step.step_s), percent(share), bar(share), hidden


def limits_table(outcome: Outcome) -> Table:
    most = max((e.gain_frac for e in outcome.elasticities), default=0.0)
    rows = tuple(
        (e.resource, gain(e.gain_frac), bar(e.gain_frac / most) if most > 0 and e.gain_frac > 0 else "")
        for e in outcome.elasticities
    )
    return Table(
        title="What limits it",
        columns=(f"with {percent(PERTURBATION_FRAC, 0)} more", "throughput", ""),
        rows=rows,
        align="lrl",
    )


def assumptions_table(result: Outcome | Infeasible) -> Table:
    return Table(title="What this assumes", notes=tuple(f"- {sentence}" for sentence in assumptions(result)))
