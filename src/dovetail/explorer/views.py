"""What pages show of a state, as values that a worker makes: figures, the plan as chips and stages, and charts."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from html import escape

from dovetail.accuracy.evidence import Selection
from dovetail.errors import DovetailError
from dovetail.evaluate import Infeasible, Outcome
from dovetail.explorer.answers import Prepared, edited_plan, prepared, result_of
from dovetail.explorer.figures import Measures, measures_of, short
from dovetail.explorer.plan_chips import Chip, plan_chips
from dovetail.explorer.state import DEVICES, State
from dovetail.files.plan_text import plan_text
from dovetail.files.residuals import load_residuals
from dovetail.hardware.heterogeneous import devices_label
from dovetail.parallel.layout import layers_per_chunk
from dovetail.parallel.plan import RECOMPUTE_POLICIES, Plan
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.elasticities import elasticities
from dovetail.report.charts.memory_time import memory_over_time
from dovetail.report.charts.pipeline import pipeline_timeline
from dovetail.report.charts.roofline import operators_roofline
from dovetail.report.charts.stage_memory import memory_by_stage
from dovetail.report.charts.stage_time import time_by_stage
from dovetail.report.labels import counted, policy_in_brief
from dovetail.report.page import Section
from dovetail.report.pages.simulated import outcome_page
from dovetail.step.pipelines import pipelines
from dovetail.units import format_bytes
from dovetail.workload.transformer import Transformer
from dovetail.workload.workload import Workload

MOST_READ = 32
MOST_TENSOR, MOST_MICRO = 64, 64
Choices = dict[str, tuple[list[str], str]]  # by option: what it may be, and what it is
MOST_REMEDIES = 3
MOST_WORDY = 6  # stages whose boxes stand in one row, with room for words
MOST_BOXES = 16  # stages that are drawn one by one


@dataclass(frozen=True, slots=True, kw_only=True)
class StageBox:
    """One pipeline stage: its layers, what it recomputes, and its memory over what is usable."""

    label: str
    layers: str
    recompute: str
    memory: str
    share_frac: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change of a plan that does not fit: what changes, what a device then needs, and the plan with it as text."""

    label: str
    need: str
    plan: str
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A state as it is shown at the top of a page."""

    title: str
    measures: Measures
    chips: tuple[Chip, ...]
    stages: tuple[StageBox, ...]
    copies: str
    choices: Choices
    fits: bool
    remedies: tuple[Remedy, ...] = ()


_read: OrderedDict[str, Prepared] = OrderedDict()  # of this worker: read once for however often figures change


def _prepared(state: State) -> Prepared:
    """Read once for however often figures are changed; the number of devices is part of what is read."""
    sized = _sized(state)
    key = sized.key
    if key not in _read:
        _keep_read(sized, prepared(sized))
    return _read[key]


def _sized(state: State) -> State:
    """Of what was changed, what the job and the plan depend on."""
    return replace(state, factors={name: times for name, times in state.factors.items() if name == DEVICES})


def _keep_read(state: State, own: Prepared) -> None:
    _read[state.key] = own
    while len(_read) > MOST_READ:
        _read.popitem(last=False)


def shown(state: State, has_limit: bool = False) -> Shown:
    """What the state comes to; what limits it where that is wanted too: some ten evaluations more."""
    own = _prepared(state)
    result = result_of(own, state, has_changes=has_limit)
    what = f"{result.workload.model.name} on {devices_label(result.cluster)}"
    return Shown(
        title=what,
        measures=measures_of(result, state.selection),
        chips=plan_chips(result.plan, result.workload),
        stages=stage_boxes(result),
        copies=_copies(result.plan),
        choices=plan_choices(result.plan, result.workload, result.cluster.num_devices),
        fits=isinstance(result, Outcome),
        remedies=_remedies(result) if isinstance(result, Infeasible) else (),
    )


def edited_shown(state: State, option: str, words: str) -> tuple[State, Shown]:
    """The state with one decision of its plan taken by hand, and what it comes to; raises where it is no plan."""
    own = _prepared(state)
    plan = edited_plan(own, option, words)
    changed = state.with_plan(plan_text(plan))
    _keep_read(_sized(changed), replace(own, plan=plan))
    return changed, shown(changed)


def _remedies(result: Infeasible) -> tuple[Remedy, ...]:
    """Changes of the plan in the words of its chips: those that make it fit, or else those that come nearest."""
    fitting = [one for one in result.levers if one.fits]
    now = {(chip.label, chip.value) for chip in plan_chips(result.plan, result.workload)}
    found = []
    for one in (fitting or result.levers)[:MOST_REMEDIES]:
        changed = [chip for chip in plan_chips(one.plan, result.workload) if (chip.label, chip.value) not in now]
        label = ", ".join(f"{chip.label} {chip.value}" for chip in changed) or one.change
        need = f"{short(format_bytes(one.need_bytes))}{'' if one.memory == 'device' else f' of the {one.memory}'}"
        found.append(Remedy(label=label, need=need, plan=plan_text(one.plan), fits=one.fits))
    return tuple(found)


def plan_choices(plan: Plan, workload: Workload, num_devices: int) -> Choices:
    """What each decision may be, and what it is: counts that divide the devices, the experts or a copy's batch."""
    architecture = workload.model.architecture
    experts = architecture.experts.num_experts if isinstance(architecture, Transformer) and architecture.experts else 1
    num_layers = sum(block.repeat for block in workload.training_graph().blocks if block.is_layer)
    per_copy = max(1, workload.global_batch // plan.data_parallel)
    divisors = _divisors(num_devices)
    counts = {
        "tp": ([n for n in divisors if n <= MOST_TENSOR], plan.tensor_parallel),
        "pp": ([n for n in divisors if n <= num_layers], plan.pipeline_parallel),
        "dp": (divisors, plan.data_parallel),
        "cp": ([n for n in divisors if n <= MOST_TENSOR], plan.context_parallel),
        "ep": ([n for n in _divisors(experts) if num_devices % n == 0], plan.expert_parallel),
        "vpp": (_divisors(max(1, num_layers // plan.pipeline_parallel)), plan.interleave),
        "zero": ([0, 1, 2, 3], plan.zero_stage),
        "microbatch": ([n for n in _divisors(per_copy) if n <= MOST_MICRO], plan.microbatch),
    }
    found = {name: ([str(n) for n in sorted({*every, own})], str(own)) for name, (every, own) in counts.items()}
    if plan.pipeline_parallel == 1:
        found["vpp"] = ["1"], "1"
    own_policy = plan.recompute[0] if len(set(plan.recompute)) == 1 and not plan.recompute_layers else "by stage"
    policies = [*RECOMPUTE_POLICIES, *(() if own_policy in RECOMPUTE_POLICIES else (own_policy,))]
    schedules = [name for name in pipelines.names() if name != "interleaved"] if plan.pipeline_parallel > 1 else []
    return found | {"recompute": (policies, own_policy), "schedule": (schedules or [plan.schedule], plan.schedule)}


def _divisors(number: int) -> list[int]:
    small = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})


def stage_boxes(result: Outcome | Infeasible) -> tuple[StageBox, ...]:
    """The pipeline's stages one by one."""
    plan, use = result.plan, result.memory
    graph = result.workload.training_graph()
    num_layers = sum(block.repeat for block in graph.blocks if block.is_layer)
    by_chunk = layers_per_chunk(num_layers, plan)
    counts = [0] * plan.pipeline_parallel
    for chunk, stages in enumerate(plan.chunk_stages):
        for stage in stages:
            counts[stage] += by_chunk[chunk]
    boxes = []
    for stage, own in enumerate(use.stages):
        policy = plan.recompute_of(stage)
        num_again = plan.num_recomputed_of(stage, counts[stage]) if policy != "none" else 0
        need_bytes = float(own.total_bytes + own.reserve_bytes) + use.runtime_bytes
        limit_bytes = use.limits_bytes[stage if len(use.limits_bytes) > 1 else 0]
        boxes.append(
            StageBox(
                label=f"Stage {stage}" if len(use.stages) > 1 else "One stage",
                layers=counted(counts[stage], "layer"),
                recompute=f"{policy_in_brief(policy)} recompute of {num_again}" if num_again else "",
                memory=short(format_bytes(need_bytes)),
                share_frac=need_bytes / limit_bytes,
            )
        )
    return tuple(boxes)


def _copies(plan: Plan) -> str:
    per_stage = plan.tensor_parallel * plan.context_parallel
    each = f"{counted(per_stage, 'device')} per stage"
    inside = [f"TP {plan.tensor_parallel}"] if plan.tensor_parallel > 1 else []
    inside += [f"CP {plan.context_parallel}"] if plan.context_parallel > 1 else []
    beside = f" ({' × '.join(inside)})" if inside else ""
    copies = f"{plan.data_parallel:,} copies" if plan.data_parallel > 1 else "one copy"
    return f"{copies} of this pipeline, {each}{beside}" if plan.pipeline_parallel > 1 else f"{copies}, {each}{beside}"


def sections(state: State, tab: str) -> tuple[Section, ...]:
    """What a tab of the plan page shows of the state."""
    result = result_of(_prepared(state), state)
    if isinstance(result, Infeasible):
        return outcome_page(result, residuals=load_residuals()).sections
    if tab == "report":
        return _report(result, state.selection)
    return {"timeline": _timeline, "time": _where}[tab](result)


def _timeline(outcome: Outcome) -> tuple[Section, ...]:
    charts = pipeline_timeline(outcome)
    none = "" if charts else "This step has too many passes to draw one by one."
    return (
        Section(title="The pipeline over one step", charts=charts, sentences=(none,) if none else ()),
        Section(title="Memory over one step", charts=memory_over_time(outcome)),
        Section(title="Memory by stage", charts=(memory_by_stage(outcome),)),
    )


def _where(outcome: Outcome) -> tuple[Section, ...]:
    return (
        Section(title="Where the time goes", charts=(time_by_stage(outcome),)),
        Section(title="What 10 % more of each resource gives", charts=(elasticities(outcome),)),
        Section(title="The operators", charts=(operators_roofline(outcome),)),
    )


def _report(outcome: Outcome, selection: Selection) -> tuple[Section, ...]:
    charted = ("Where the time goes", "What limits it, and what more would buy", "The pipeline", "The operators")
    page = outcome_page(outcome, residuals=load_residuals(), selection=selection)
    return tuple(one for one in page.sections if one.title not in charted)


def hardware_charts(state: State) -> tuple[Chart, ...]:
    """What more of each resource would give on the hardware as it was changed; nothing where the plan does not fit."""
    result = result_of(_prepared(state), state)
    return (elasticities(result), time_by_stage(result)) if isinstance(result, Outcome) else ()


def stages_html(stages: tuple[StageBox, ...], copies: str) -> str:
    """The pipeline as boxes in a row; of a deep one those at its ends."""
    told, few = [], len(stages) <= MOST_BOXES
    every = stages if few else (*stages[: MOST_BOXES // 2], *stages[-MOST_BOXES // 2 :])
    for place, one in enumerate(every):
        if not few and place == MOST_BOXES // 2:
            told.append(f'<li class="gap">{len(stages) - MOST_BOXES} more</li>')
        kind = "over" if one.share_frac > 1 else "fine"
        again_said = one.recompute if few and len(stages) <= MOST_WORDY else one.recompute.partition(" ")[2]
        again = f'<span title="{escape(one.recompute)}">{escape(again_said)}</span>' if one.recompute else ""
        told.append(
            f'<li class="{kind}"><i style="height:{min(1.0, one.share_frac):.0%}" aria-hidden="true"></i>'
            f"<b>{escape(one.label)}</b><span>{escape(one.layers)}</span>{again}"
            f"<span>{escape(one.memory)}</span></li>"
        )
    size = "many" if len(every) > MOST_WORDY else "few"
    return (
        f'<div class="pipeline"><ol class="stages {size}" aria-label="Pipeline stages">{"".join(told)}</ol>'
        f'<p class="note">{escape(copies)}; boxes are filled by the memory that is used.</p></div>'
    )


def reference_measures(state: State) -> Measures:
    """Figures of what is compared with; nothing where it cannot be evaluated."""
    try:
        return shown(state, has_limit=True).measures
    except DovetailError:
        return ()
