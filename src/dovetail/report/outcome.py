"""One training step as an answer: what it comes to, where the time goes, what memory holds, what limits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from dovetail import __version__
from dovetail.accuracy.evidence import CONFIDENCE_FRAC, GIVEN, Selection, interval_of
from dovetail.accuracy.residuals import Residual
from dovetail.comm.library.on_group import why_outside
from dovetail.cost.op_cost import LIMITS
from dovetail.evaluate import PERTURBATION_FRAC, Infeasible, Outcome
from dovetail.hardware.heterogeneous import chip_names, chips_of, devices_label
from dovetail.hardware.topology import Group, num_ranks
from dovetail.parallel.placement import Placement
from dovetail.parallel.plan import Plan
from dovetail.report.assumptions import assumptions
from dovetail.report.figures import (
    Entry,
    Figure,
    FigureList,
    FigureRow,
    Figures,
    FigureTable,
    Part,
    Phrase,
    Sentences,
    TextOnly,
    joined,
    labelled,
    phrase,
)
from dovetail.report.goodput import NO_BUDGET, Budget, budget_rows, goodput_rows, price_rows
from dovetail.report.labels import (
    AXIS_LABELS,
    compute_in_brief,
    counted,
    gain,
    number,
    percent,
    plan_in_brief,
    seconds,
)
from dovetail.report.levers import IN_SPEC, Advice, excess_rows, levers_list, repair_table
from dovetail.report.limits import limited_by
from dovetail.report.measured import measured_tables
from dovetail.report.memory import memory_tables, room_rows
from dovetail.report.plain import Record
from dovetail.report.pools import pools_list, stage_label
from dovetail.report.table import bar
from dovetail.step.called import step_collectives
from dovetail.step.step import assembly_of
from dovetail.step.work import COMM_AXES
from dovetail.units import format_count, format_energy_j, format_s
from dovetail.workload.workload import Workload

SHOWN_FRAC = 0.0005  # what would show as 0.0 % is left out
LIMIT_LABELS = ("the tensor units", "the vector units", "on-chip memory", "HBM", "latency", "launches")


def outcome_figures(
    result: Outcome | Infeasible,
    name: str = "",
    residuals: Sequence[Residual] = (),
    budget: Budget = NO_BUDGET,
    selection: Selection = GIVEN,
    advice: Advice = IN_SPEC,
) -> Figures:
    """Everything known of `result`, most wanted first; `name` is what the job is called.

    `residuals` are what the interval of the step's time rests on; without them, none is told. `budget` says what to
    train on in all and what devices cost, whose time and price are reported. `selection` is what a search chose the
    plan among, `advice` the form of what would make a plan fit.
    """
    memory = memory_tables(result.memory, result.workload, result.plan)
    if result.workload.is_forward_only:  # published runs are of training
        residuals = ()
    if isinstance(result, Infeasible):
        return (
            _excess(result, name, advice),
            pools_list(result),
            *memory,
            levers_list(result, advice),
            repair_table(result, advice),
            _question(result),
            assumed(result),
        )
    return (
        headline(result, name, residuals, budget, selection),
        time_table(result),
        pools_list(result),
        *memory,
        _elasticities(result),
        *measured_tables(result),
        FigureTable(rows=(Figure("placement", placement_record(result.placement)),)),
        *(() if result.workload.is_forward_only else (_collectives(result),)),
        _question(result),
        assumed(result),
    )


def _collectives(outcome: Outcome) -> FigureTable:
    return FigureTable(rows=(Figure("collectives", lambda: collective_records(outcome)),))


def collective_records(outcome: Outcome) -> list[Record]:
    """The collectives that a device of the slowest stage calls, and how the library of the network runs each."""
    workload = outcome.workload
    assembly = assembly_of(workload.training_graph(), outcome.plan, outcome.cluster, workload.precision)
    return [
        {
            "axis": one.axis,
            "collective": one.collective,
            "size_bytes": one.payload_bytes,
            "num_ranks": one.num_ranks,
            "num_calls": one.num_calls or None,
            "time_s": one.time_s,
            "algorithm": one.algorithm or None,
            "protocol": one.protocol or None,
            "num_channels": one.num_channels or None,
        }
        for one in step_collectives(assembly, int(outcome.step.slowest_stage))
    ]


_AXIS_GROUPS = {"tp": "tensor", "cp": "context", "dp": "data", "pp": "pipeline", "ep": "expert"}


def headline(
    outcome: Outcome,
    name: str = "",
    residuals: Sequence[Residual] = (),
    budget: Budget = NO_BUDGET,
    selection: Selection = GIVEN,
) -> FigureTable:
    """What a step comes to, a row for each thing that one asks first."""
    step, workload = outcome.step, outcome.workload
    return FigureTable(
        title=_title(outcome, name),
        rows=(
            Figure("name", name),
            Figure("feasible", True),
            *_question_rows(
                outcome, Figure("num_parameters", outcome.num_parameters, format_count(outcome.num_parameters))
            ),
            phrase(
                "{}, {}",
                Figure("step_s", step.step_s, format_s(step.step_s)),
                Figure("num_microbatches", outcome.num_microbatches, counted(outcome.num_microbatches, "microbatch")),
                label="step time",
            ),
            *_interval_rows(outcome, residuals, selection),
            _throughput(outcome),
            phrase(
                "MFU {}, HFU {} of {} peak{}",
                Figure("mfu_frac", outcome.mfu_frac, percent(outcome.mfu_frac)),
                Figure("hfu_frac", outcome.hfu_frac, percent(outcome.hfu_frac)),
                labelled("workload.precision.compute", workload.precision.compute),
                _palm(outcome),
                label="utilisation",
            ),
            *_dropped_rows(outcome),
            *_energy_rows(outcome),
            *room_rows(outcome),
            labelled("limited_by", limited_by(outcome), "limited by"),
            *goodput_rows(outcome),
            *price_rows(outcome, budget),
            *budget_rows(outcome, budget),
            Figure("num_samples", workload.global_batch),
            Figure("model_flop", outcome.model_flop),
            Figure("palm_mfu_frac", outcome.palm_mfu_frac),
            Figure("palm_flop", outcome.palm_flop),
            Figure("hardware_flop", outcome.hardware_flop),
            Figure("elasticity_step_frac", PERTURBATION_FRAC),
        ),
    )


def _palm(outcome: Outcome) -> Part:
    """MFU by PaLM's count, where that is another."""
    if outcome.palm_flop == outcome.model_flop:
        return ""
    return phrase(
        "; {} as PaLM counts it", Figure("palm_mfu_frac", outcome.palm_mfu_frac, percent(outcome.palm_mfu_frac))
    )


def _throughput(outcome: Outcome) -> Phrase:
    sample = outcome.workload.model.sample
    samples = Figure("samples_per_s", outcome.samples_per_s, number(outcome.samples_per_s))
    if sample != "tokens":
        return phrase("{} {}/s", samples, sample, label="throughput")
    per_device = outcome.tokens_per_s / outcome.cluster.num_devices
    return phrase(
        "{} tokens/s, {} samples/s; {} tokens/s per device",
        Figure("tokens_per_s", outcome.tokens_per_s, number(outcome.tokens_per_s)),
        samples,
        TextOnly("tokens_per_s per device", number(per_device)),
        label="throughput",
    )


def _energy_rows(outcome: Outcome) -> Iterator[Entry]:
    """Of a step, of what samples are made of, and the power that it is drawn at."""
    energy_j, sample, clock_frac = outcome.step.energy_j, outcome.workload.model.sample, outcome.step.clock_frac
    sample_j = energy_j / outcome.workload.global_batch
    each = Figure("energy_j_per_sample", sample_j, format_energy_j(sample_j, 1))
    if sample == "tokens":
        yield each
        yield Figure("num_tokens", outcome.tokens_per_step)
        token_j = energy_j / outcome.tokens_per_step
        each = Figure("energy_j_per_token", token_j, format_energy_j(token_j, 1))
    tdp = " or ".join(f"{chip.tdp_w:.0f}" for chip in chips_of(outcome.cluster))
    clock = Figure("time.clock_frac", clock_frac, percent(clock_frac, 0))
    yield phrase(
        "{} per step, {} per {}; {} W per device of {} W{}",
        Figure("energy_j", energy_j, format_energy_j(energy_j, 1)),
        each,
        sample.removesuffix("s"),
        Figure("mean_w", outcome.mean_w, f"{outcome.mean_w:.0f}"),
        TextOnly("tdp_w", tdp),
        phrase(", clock at {}", clock) if clock_frac < 1 else "",
        label="energy",
    )


def _dropped_rows(outcome: Outcome) -> Iterator[Entry]:
    """What a capacity of experts drops, and what is counted all the same."""
    if not outcome.workload.routing.capacity_factor:
        return
    is_even = outcome.workload.routing.expert_imbalance == 1
    yield phrase(
        "{}{} of what is routed to experts; throughput counts all tokens, MFU leaves out those beyond a capacity"
        " below 1",
        "" if is_even else "at least ",
        Figure("dropped_frac", outcome.dropped_frac, percent(outcome.dropped_frac)),
        label="dropped",
        is_shown=bool(outcome.dropped_frac),
    )


def _interval_rows(outcome: Outcome, residuals: Sequence[Residual], selection: Selection) -> Iterator[Entry]:
    """Where the step's time lies, as published runs of its class say; nothing where there are none to ask."""
    if not residuals:
        return
    found = interval_of(outcome.workload, outcome.cluster, outcome.plan, outcome.step.step_s, residuals, selection)
    lower, _, upper = found.bounds.partition(" to ")
    yield FigureRow(
        (
            phrase("{} interval", Figure("interval.confidence_frac", CONFIDENCE_FRAC, percent(CONFIDENCE_FRAC, 0))),
            phrase(
                "{} to {}, {}",
                Figure("interval.lower_s", found.lower_s, lower),
                Figure("interval.upper_s", found.upper_s, upper),
                Figure("interval.sentence", found.sentence, found.grounds),
            ),
        )
    )
    yield Figure("interval.num_runs", found.num_rows)
    yield Figure("interval.num_near", selection.num_near)
    yield Figure("interval.shift_frac", selection.shift_frac)
    yield Figure("interval.given_upper_s", found.given_upper_s)
    outside = outside_evidence(outcome, found.lacking)
    yield Figure("outside_evidence", outside)
    if found.lacking and len(outside) > 1:
        yield TextOnly("outside_evidence", f"outside: {'; '.join(outside)}", "evidence")


def outside_evidence(outcome: Outcome, lacking: str) -> list[str]:
    """In what a step lies outside what was measured: runs like it, then collectives of each axis."""
    groups = {axis: getattr(outcome.placement, kind) for axis, kind in _AXIS_GROUPS.items()}
    found = {axis: why_outside(group) for axis, group in groups.items() if num_ranks(group) > 1}
    return [*([lacking] if lacking else []), *(f"{axis} {why}" for axis, why in found.items() if why)]


def _title(result: Outcome | Infeasible, name: str) -> Phrase:
    devices = devices_label(result.cluster)
    num_devices = Figure("cluster.num_devices", result.cluster.num_devices, devices)
    what = phrase(
        "{} on {}",
        labelled("workload.model", result.workload.model.name),
        TextOnly("devices of every pool", devices) if len(chips_of(result.cluster)) > 1 else num_devices,
    )
    return phrase("{}: {}", labelled("name", name), what) if name else what


def _question_rows(result: Outcome | Infeasible, num_parameters: Part) -> tuple[Entry, ...]:
    workload = result.workload
    batch = Figure("workload.global_batch", workload.global_batch, f"{workload.global_batch:,}")
    each: Part = phrase(" x {}", Figure("workload.seq", workload.seq, f"{workload.seq:,}")) if workload.seq > 1 else ""
    return (
        phrase(
            "{} parameters{}, {}{} {} per step, {}, {}",
            num_parameters,
            _adapters(workload),
            batch,
            each,
            labelled("workload.sample", workload.model.sample),
            Figure("workload.precision.compute", workload.precision.compute, compute_in_brief(workload.precision)),
            "forward only"
            if workload.is_forward_only
            else labelled("workload.precision.optimizer", workload.precision.optimizer),
            label="model",
        ),
        Figure("plan", plan_record(result.plan), plan_in_brief(result.plan), "plan"),
    )


def _adapters(workload: Workload) -> Part:
    """How many of the parameters are trained, where that is not all."""
    if not workload.lora.is_used:
        return ""
    num_trained = workload.forward_graph().num_trained
    return phrase(
        ", of which {} are trained (LoRA of rank {})",
        Figure("num_trained", num_trained, format_count(num_trained)),
        Figure("workload.lora.rank", workload.lora.rank, str(workload.lora.rank)),
    )


def time_table(outcome: Outcome) -> FigureTable:
    """Seconds by kind, on a device of the slowest stage; what is hidden is shown, not counted.

    `compute_s` has recompute in it, and `recompute_s` says how much.
    """
    step = outcome.step
    slowest = int(step.slowest_stage)

    def time(key: str, part_s: float, *, blank: bool = False) -> Figure:
        return Figure(f"time.{key}", part_s, "" if blank else seconds(part_s, step.step_s))

    def row(label: str, part: Figure, hidden: Part = "", *, is_shown: bool = True) -> FigureRow:
        share = part.value / step.step_s
        bars = (TextOnly("share of the step", percent(share)), TextOnly("bar", bar(share)))
        return FigureRow((label, part, *bars, hidden), is_shown=is_shown)

    def overlapped(label: str, key: str, exposed_s: float, hidden_s: float) -> FigureRow:
        hidden = time(f"{key}.hidden_s", hidden_s, blank=not hidden_s > 0)
        is_shown = exposed_s > 0 or hidden_s > 0
        return row(label, time(f"{key}.exposed_s", exposed_s), hidden, is_shown=is_shown)

    return FigureTable(
        title=phrase(
            "Where the time goes, on a device of {}",
            Figure("time.slowest_stage", step.slowest_stage, stage_label(outcome, slowest)),
        ),
        columns=("", "time", "share", "", "hidden"),
        align="lrrlr",
        rows=(
            row("compute", time("compute_s", step.compute_s)),
            row("  of it recompute", time("recompute_s", step.recompute_s), is_shown=bool(step.recompute_s > 0)),
            row("waiting for the host", time("host_s", step.host_s), is_shown=bool(step.host_s > 0)),
            *(
                overlapped(f"{AXIS_LABELS[axis]} ({axis})", f"communication.{axis}", comm.exposed_s, comm.hidden_s)
                for axis, comm in zip(COMM_AXES, step.comm, strict=True)
            ),
            overlapped("copies to the host", "offload", step.offload.exposed_s, step.offload.hidden_s),
            row("pipeline bubble", time("bubble_s", step.bubble_s), is_shown=bool(step.bubble_s > 0)),
            row("update", time("update_s", step.update_s), is_shown=not outcome.workload.is_forward_only),
            FigureRow(
                (
                    "step",
                    Figure("step_s", step.step_s, seconds(step.step_s, step.step_s)),
                    TextOnly("share of the step", percent(1.0)),
                    "",
                    "",
                )
            ),
            Figure("time.clock_frac", step.clock_frac),
            *(Figure(f"time.compute_by_limit.{limit}_s", s) for limit, s in zip(LIMITS, step.limits_s, strict=True)),
        ),
        notes=tuple(_bounds_of_compute(outcome)),
    )


def _bounds_of_compute(outcome: Outcome) -> Iterator[Phrase]:
    step = outcome.step
    waits = [
        phrase("{} {}", label, TextOnly("share of compute", percent(s / step.compute_s)))
        for label, s in zip(LIMIT_LABELS, step.limits_s, strict=True)
        if step.compute_s > 0 and s / step.compute_s >= SHOWN_FRAC
    ]
    if waits:
        yield phrase("what bounds compute: {}", joined(", ", waits))


def _elasticities(outcome: Outcome) -> FigureList:
    most = max((e.gain_frac for e in outcome.elasticities), default=0.0)
    more = Figure("elasticity_step_frac", PERTURBATION_FRAC, percent(PERTURBATION_FRAC, 0))

    return FigureList(
        key="elasticities",
        title="What limits it",
        items=outcome.elasticities,
        figures=lambda e: (
            labelled("resource", e.resource, phrase("with {} more", more)),
            Figure("gain_frac", e.gain_frac, gain(e.gain_frac), "throughput"),
            TextOnly("bar", bar(e.gain_frac / most) if most > 0 and e.gain_frac > 0 else "", "", "l"),
        ),
    )


def _question(result: Outcome | Infeasible) -> FigureTable:
    """What was asked."""
    cluster = result.cluster
    return FigureTable(
        rows=(
            Figure("plan", plan_record(result.plan)),
            Figure("workload", workload_record(result.workload)),
            Figure("cluster", {"name": cluster.name, "num_devices": cluster.num_devices}),
            Figure("chip", chip_names(cluster)),
            Figure("version", __version__),
        )
    )


def assumed(result: Outcome | Infeasible) -> FigureTable:
    """What was taken for granted in the answer."""
    return FigureTable(title="What this assumes", notes=(Sentences("assumptions", assumptions(result)),))


def _excess(result: Infeasible, name: str, advice: Advice) -> FigureTable:
    """Need against limit of a plan that does not fit."""
    workload = result.workload
    num_parameters = workload.forward_graph().num_parameters
    return FigureTable(
        title=phrase("Does not fit: {}", _title(result, name)),
        rows=(
            Figure("name", name),
            Figure("feasible", False),
            *_question_rows(result, TextOnly("num_parameters", format_count(num_parameters))),
            *excess_rows(result, advice=advice),
        ),
    )


def plain(value: Any) -> Any:
    """A dataclass as JSON has it: tuples become lists."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def plan_record(plan: Plan) -> Record:
    fields: Record = plain(asdict(plan))
    return fields


def placement_record(place: Placement) -> Record:
    """Where each kind of group lies: a dimension's name, how many ranks it has there, and how far apart they are."""
    groups = {
        "tp": place.tensor,
        "cp": place.context,
        "dp": place.data,
        "pp": place.pipeline,
        "ep": place.expert,
        "expert_tensor": place.expert_tensor,
        "expert_data": place.expert_data,
    }
    return {axis: _spans(group) for axis, group in groups.items()}


def _spans(group: Group) -> list[Record]:
    return [{"dimension": s.dimension.name, "num_ranks": s.num_ranks, "stride": s.stride} for s in group]


def workload_record(workload: Workload) -> Record:
    return {
        "model": workload.model.name,
        "global_batch": workload.global_batch,
        "seq": workload.seq,
        "sample": workload.model.sample,
        "attention": workload.attention,
        "kernels": workload.kernels,
        **({"forward_only": True} if workload.is_forward_only else {}),
        "precision": asdict(workload.precision),
        "routing": asdict(workload.routing),
        **({"lora": asdict(workload.lora)} if workload.lora.is_used else {}),
    }
