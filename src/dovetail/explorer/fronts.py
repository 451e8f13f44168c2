"""A Pareto front as the explorer has it: points with their figures, and the state that opens each on the first page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.explorer.designs import design_word
from dovetail.explorer.state import State
from dovetail.files.plan_text import plan_text
from dovetail.parallel.plan import Plan
from dovetail.report.codesigned import system_in_brief
from dovetail.report.fronts import FrontReport, notes, proof, sentence
from dovetail.report.labels import number, plan_in_brief
from dovetail.report.table import Table
from dovetail.search.codesign.pareto import FrontSystem
from dovetail.search.codesign.question import Case
from dovetail.search.codesign.system_labels import as_labels
from dovetail.workload.models import models

KNOB_WORDS = {
    "num_tensor": "tensor cores",
    "num_rows": "rows of a tensor core",
    "num_cols": "columns of a tensor core",
    "num_vector": "vector cores",
    "num_lanes": "lanes of a vector core",
    "dataflow": "dataflow",
    "register_bytes_per_lane": "registers of a lane, bytes",
    "core_buffer_kib": "buffer of a core, KiB",
    "vmem_mib": "vector memory of a vector core, MiB",
    "vmem_bytes_per_clock": "vector memory, bytes per clock",
    "endpoint": "collective endpoint",
    "sram_mib": "shared SRAM, MiB",
    "sram_bytes_per_clock": "shared SRAM, bytes per clock",
    "hbm_stacks": "HBM stacks",
    "stack_gib": "GiB of a stack",
    "clock_mhz": "clock, MHz",
    "link_gb_per_s": "links, GB/s",
    "num_devices": "devices",
}


SQUARES = {"mm2": "mm²"}  # as a page can write it
PER_DEVICE = ("area", "power", "cost")


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPoint:
    """A system that no other beats: what it comes to on each axis, what it is, and a state for each of its models."""

    figures: tuple[float, ...]  # style: one an axis, in the axis's unit
    brief: str
    system: Table
    states: tuple[State, ...]
    knobs: tuple[float, ...] = ()  # style: in the order of the front's knobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A front to look at; `axes` are names with their units."""

    title: str
    said: tuple[str, ...]
    axes: tuple[str, ...]
    is_more_better: tuple[bool, ...]
    points: tuple[FrontPoint, ...]
    knobs: tuple[str, ...] = ()  # what differs between systems, as labels


def front_of_report(report: FrontReport) -> Front:
    axes = report.found.axes
    systems = [report.system(one) for one in report.found.systems]
    knobs = [name for name in KNOB_WORDS if len({system.get(name) for system in systems}) > 1]
    taken = ("area", "power", "cost", "energy")
    shared = {int(system["num_devices"]) for system in systems}
    return Front(
        title=sentence(report),
        said=(proof(report), *notes(report)),
        axes=tuple(_axis_label(report, axis, shared) for axis in axes),
        is_more_better=tuple(axis not in taken for axis in axes),
        points=tuple(_point(report, one, knobs, shared) for one in report.found.systems),
        knobs=tuple(KNOB_WORDS[name] for name in knobs),
    )


def _is_per_device(axis: str, num_devices: set[int]) -> bool:
    """Whether an axis is told of one device: area, power and cost, where all systems have as many."""
    return len(num_devices) == 1 and axis in PER_DEVICE


def _on(report: FrontReport, axis: str, one: FrontSystem, num_devices: set[int]) -> float:
    return report.on(axis, one) / (min(num_devices) if _is_per_device(axis, num_devices) else 1)


def _point(report: FrontReport, one: FrontSystem, knobs: Sequence[str], shared: set[int]) -> FrontPoint:
    system, cases = report.system(one), report.question.cases
    plans = [report.plan_of(index, one.score.point, own.plan) for index, own in enumerate(one.score.cases)]
    word = design_word(report.question.base.name, report.network, system)
    return FrontPoint(
        figures=tuple(_on(report, axis, one, shared) for axis in report.found.axes),
        brief=system_in_brief(system),
        system=_system_table(report, one, system, plans, shared),
        states=tuple(design_state(case, word, plan) for case, plan in zip(cases, plans, strict=True)),
        knobs=tuple(float(system[name]) for name in knobs),
    )


def _axis_label(report: FrontReport, axis: str, shared: set[int]) -> str:
    """An axis with its unit, and of how many devices it is."""
    of = "" if axis not in PER_DEVICE else " per device" if _is_per_device(axis, shared) else " of all devices"
    return f"{axis}{of}, {SQUARES.get(report.unit(axis), report.unit(axis))}"


def _system_table(
    report: FrontReport, one: FrontSystem, system: dict[str, float], plans: list[Plan], shared: set[int]
) -> Table:
    told_system = as_labels(report.question.base, system)
    knobs = [(KNOB_WORDS.get(name, name), _shown(value)) for name, value in told_system.items()]
    figures = [
        (_axis_label(report, axis, shared), number(_on(report, axis, one, shared))) for axis in report.found.axes
    ]
    told = [
        (f"plan for {case.name}", f"{plan_in_brief(plan)}; {own.step_s:.4g} s per step")
        for case, own, plan in zip(report.question.cases, one.score.cases, plans, strict=True)
    ]
    return Table(title="The system", rows=(*figures, *knobs, *told))


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,.6g}"


def design_state(case: Case, word: str, plan: Plan) -> State:
    """A model on a system by its plan, as the first page opens it; a model that is in no catalogue cannot be named."""
    workload = case.workload
    return State(
        model=case.name if case.name in models else "",
        design=word,
        batch=workload.global_batch,
        seq=workload.seq,
        compute=workload.precision.compute,
        plan=plan_text(plan),
    )
