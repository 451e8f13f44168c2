"""One step as a page: what it comes to, where time and memory go, and what more of each resource would buy."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.accuracy.evidence import GIVEN, Selection, interval_of
from dovetail.accuracy.residuals import Residual
from dovetail.evaluate import Infeasible, Outcome
from dovetail.hardware.heterogeneous import chips_of, devices_label
from dovetail.report.asked import cluster_pair, format_plan, model_pair
from dovetail.report.charts.elasticities import elasticities
from dovetail.report.charts.memory_time import memory_over_time
from dovetail.report.charts.network_use import network_use
from dovetail.report.charts.pipeline import pipeline_timeline
from dovetail.report.charts.published import MeasuredRun, Prediction, published_scatter
from dovetail.report.charts.roofline import operators_roofline
from dovetail.report.charts.stage_memory import memory_by_stage
from dovetail.report.charts.stage_time import time_by_stage
from dovetail.report.charts.topology import step_topology
from dovetail.report.figures import part_text, table_of
from dovetail.report.goodput import NO_BUDGET, Budget, run_of
from dovetail.report.labels import counted, number, percent
from dovetail.report.levers import IN_SPEC, Advice, levers_list, repair_table
from dovetail.report.limits import limited_by
from dovetail.report.memory import fit_phrase, memory_notes, usable_phrase
from dovetail.report.outcome import assumed, headline, outcome_figures, time_table
from dovetail.report.page import Card, Page, Section
from dovetail.report.pages.inputs import plain_inputs
from dovetail.report.plain import Record
from dovetail.report.pools import pools_list
from dovetail.report.table import Table
from dovetail.units import (
    format_bytes,
    format_count,
    format_duration,
    format_energy_j,
    format_rounded_s,
    format_s,
    format_usd,
)


def outcome_page(
    result: Outcome | Infeasible,
    name: str = "",
    residuals: Sequence[Residual] = (),
    budget: Budget = NO_BUDGET,
    runs: Sequence[MeasuredRun] = (),
    selection: Selection = GIVEN,
    advice: Advice = IN_SPEC,
) -> Page:
    """The arguments are those of `report.outcome.outcome_figures`; `runs` are published ones, to lie among."""
    if isinstance(result, Infeasible):
        return _infeasible_page(result, name, advice)
    return Page(
        title=name or _what(result),
        sentence=outcome_sentence(result, residuals, selection),
        cards=(*outcome_cards(result), *_priced(result, budget)),
        asked=asked_pairs(result),
        sections=(
            *outcome_sections(result),
            *sure_sections(result, residuals, runs, selection),
            Section(
                title="Every figure",
                tables=(
                    _untitled(table_of(headline(result, name, residuals, budget, selection))),
                    table_of(time_table(result)),
                ),
                is_folded=True,
            ),
            *assumed_sections(result),
        ),
    )


def asked_pairs(result: Outcome | Infeasible, *, has_plan: bool = True) -> tuple[tuple[str, str], ...]:
    """The job of one step."""
    plan = (("Plan", format_plan(result.plan)),) if has_plan else ()
    limit = f"{format_bytes(result.memory.limit_bytes)} of memory usable per device, {part_text(usable_phrase(result))}"
    return (model_pair(result.workload), cluster_pair(result.cluster), *plan, ("Limit", limit))


def outcome_sections(outcome: Outcome) -> tuple[Section, ...]:
    """The step drawn, and why it takes that long: passes, memory, where time goes, what limits it, the network."""
    network = (*step_topology(outcome), *network_use(outcome))
    return (
        Section(title="The step", charts=pipeline_timeline(outcome)),
        _memory(outcome),
        Section(title="Why it takes that long", charts=(time_by_stage(outcome), elasticities(outcome))),
        *((Section(title="The network", charts=network),) if network else ()),
        Section(title="The operators", charts=(operators_roofline(outcome),)),
    )


def assumed_sections(outcome: Outcome) -> tuple[Section, ...]:
    parts = pools_list(outcome)
    return (
        *((Section(title="Pools of the cluster", tables=(table_of(parts),), is_folded=True),) if parts.title else ()),
        Section(title="What this assumes", tables=(table_of(assumed(outcome)),), is_folded=True),
    )


def sure_sections(
    outcome: Outcome,
    residuals: Sequence[Residual],
    runs: Sequence[MeasuredRun],
    selection: Selection = GIVEN,
) -> tuple[Section, ...]:
    """How far to trust the time: the interval, what it rests on, and where the step lies among published runs."""
    if not residuals or outcome.workload.is_forward_only:
        return ()
    found = interval_of(outcome.workload, outcome.cluster, outcome.plan, outcome.step.step_s, residuals, selection)
    asked = Prediction(name=_what(outcome), step_s=outcome.step.step_s, interval=found)
    charts = (published_scatter(runs, asked),) if runs else ()
    sentence = f"The step takes {found.bounds} in nine of ten runs, {found.grounds}."
    return (Section(title="How sure this is", sentences=(sentence,), charts=charts),)


def outcome_sentence(outcome: Outcome, residuals: Sequence[Residual] = (), selection: Selection = GIVEN) -> str:
    """The answer in one sentence: how long a step takes, how surely, and what limits it."""
    message = f"One training step of {_what(outcome)} takes {format_s(outcome.step.step_s)}"
    if residuals:
        found = interval_of(outcome.workload, outcome.cluster, outcome.plan, outcome.step.step_s, residuals, selection)
        message += f" ({found.bounds} in nine of ten runs)"
    return f"{message} at {percent(outcome.mfu_frac)} model FLOP utilisation; limited by {limited_by(outcome)}."


def outcome_cards(outcome: Outcome) -> tuple[Card, ...]:
    use, sample = outcome.memory, outcome.workload.model.sample
    rate = outcome.tokens_per_s if sample == "tokens" else outcome.samples_per_s
    powers = " or ".join(f"{chip.tdp_w:.0f}" for chip in chips_of(outcome.cluster))
    return (
        Card(
            label="Step",
            value=format_rounded_s(outcome.step.step_s, 3),
            note=counted(outcome.num_microbatches, "microbatch"),
        ),
        Card(label="Throughput", value=f"{number(rate)} {sample}/s", note=f"{outcome.cluster.num_devices:,} devices"),
        Card(label="Utilisation", value=percent(outcome.mfu_frac), note=f"MFU; HFU {percent(outcome.hfu_frac)}"),
        Card(
            label="Memory",
            value=format_bytes(use.need_bytes),
            note=part_text(fit_phrase(outcome)),
        ),
        Card(
            label="Energy",
            value=format_energy_j(outcome.step.energy_j, 1),
            note=f"per step; {outcome.mean_w:.0f} W per device of {powers} W",
        ),
    )


def _priced(outcome: Outcome, budget: Budget) -> tuple[Card, ...]:
    """What a run takes and costs, where that was asked."""
    run = run_of(outcome, budget)
    if run is None:
        return ()
    cost = f", {format_usd(run.expected_usd)}" if run.expected_usd else ""
    noun = f"{format_count(budget.num_tokens)} tokens"
    return (Card(label="Run", value=f"{format_duration(run.expected_s)}{cost}", note=noun),)


def outcome_inputs(result: Outcome | Infeasible) -> Record:
    """Everything that the outcome follows from, as it was understood."""
    return {
        "workload": plain_inputs(result.workload),
        "cluster": plain_inputs(result.cluster),
        "plan": plain_inputs(result.plan),
    }


def _infeasible_page(result: Infeasible, name: str, advice: Advice) -> Page:
    answer, *_ = outcome_figures(result, name, advice=advice)
    use, changes = result.memory, table_of(levers_list(result, advice))
    repair = table_of(repair_table(result, advice))
    over = format_bytes(use.need_bytes - use.limit_bytes)
    sentence = (
        f"{_what(result)} does not fit: stage {use.fullest.stage} needs {format_bytes(use.need_bytes)} of"
        f" {format_bytes(use.limit_bytes)} usable, {over} too much."
    )
    if use.need_bytes <= use.limit_bytes:  # then it is the host's memory that lacks
        need, limit = format_bytes(use.host_need_bytes), format_bytes(use.host_limit_bytes)
        sentence = f"{_what(result)} does not fit: what is kept on the host needs {need} of {limit} per device."
    return Page(
        title=name or _what(result),
        sentence=sentence,
        asked=asked_pairs(result),
        sections=(
            _memory(result),
            Section(title=changes.title, tables=(changes, *((repair,) if repair.notes else ()))),
            Section(title="Every figure", tables=(_untitled(table_of(answer)),), is_folded=True),
            Section(title="What this assumes", tables=(table_of(assumed(result)),), is_folded=True),
        ),
    )


def _memory(result: Outcome | Infeasible) -> Section:
    over_time = memory_over_time(result) if isinstance(result, Outcome) else ()
    return Section(
        title="Memory against the limit",
        charts=(*over_time, memory_by_stage(result)),
        sentences=tuple(f"{one[:1].upper()}{one[1:]}." for one in map(part_text, memory_notes(result.memory))),
    )


def _what(result: Outcome | Infeasible) -> str:
    return f"{result.workload.model.name} on {devices_label(result.cluster)}"


def _untitled(table: Table) -> Table:
    """What stands under the page's own title already says it."""
    return Table(title="The answer", columns=table.columns, rows=table.rows, align=table.align, notes=table.notes)
