"""Designs by stage, and what the planner has to say of the plan they are for."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.hardware.template import Design
from dovetail.report.figures import (
    Figure,
    FigureList,
    Figures,
    FigureTable,
    Phrase,
    Sentences,
    entries_record,
    labelled,
    phrase,
)
from dovetail.report.labels import counted, gain, number, percent, plan_in_brief
from dovetail.report.outcome import plan_record
from dovetail.report.plain import Record
from dovetail.search.mining.planning import PlannedTask, Replanned
from dovetail.search.mining.stages import POOLED, ByStage, Kind
from dovetail.units import format_s


def stages_figures(found: ByStage, unit: str) -> Figures:
    """A row for each kind of stage: its design, what it takes, and a microbatch on it and on the one design for all."""
    chosen = found.chosen
    return (
        FigureList(
            key="kinds",
            title=phrase(
                "Designs by stage ({}): {} {}, {} over the best single design",
                labelled("method", found.way),
                Figure("figure", chosen.figure, number(chosen.figure)),
                unit,
                Figure("gain_frac", found.gain_frac, gain(found.gain_frac)),
            ),
            items=found.kinds,
            figures=_kind,
            notes=(Sentences("notes", stage_notes(found), mark=""),),
        ),
        FigureTable(
            rows=(
                Figure("step_s", chosen.step_s),
                Figure("energy_j", chosen.energy_j),
                Figure("mean_area_mm2", chosen.mean_area_mm2),
                Figure("mean_power_w", chosen.mean_power_w),
                Figure("num_designs", found.num_designs),
                Figure("num_lists", found.num_lists),
            )
        ),
    )


def _kind(kind: Kind) -> Iterator[Figure | Phrase]:
    chosen = kind.chosen
    yield Figure("stages", list(kind.stages), stages_label(kind.stages), "stages")
    yield cores_phrase(chosen.design, "cores")
    yield Figure("area_mm2", chosen.area_mm2, f"{chosen.area_mm2:.1f}", "mm2")
    yield Figure("power_w", chosen.power_w, f"{chosen.power_w:.1f}", "W")
    yield Figure("pass_s", chosen.pass_s, format_s(chosen.pass_s), "a microbatch")
    yield Figure("single_pass_s", kind.common_pass_s, format_s(kind.common_pass_s), "on the single")
    yield Figure("price_usd", chosen.price_usd)
    yield Figure("num_kept", kind.num_kept)
    yield Figure("num_proven", kind.num_proven)


def cores_phrase(design: Design, label: str | None = None) -> Phrase:
    """The cores of a design, under the keys that every record has for them: "4 x (128x128) + 4 x 128"."""
    counts = {
        "num_tensor_cores": design.num_tensor,
        "num_rows": design.num_rows,
        "num_cols": design.num_cols,
        "num_vector_cores": design.num_vector,
        "num_lanes": design.num_lanes,
    }
    return phrase("{} x ({}x{}) + {} x {}", *(Figure(key, n, str(n)) for key, n in counts.items()), label=label)


def cores_record(design: Design) -> Record:
    return entries_record((cores_phrase(design),))


def stages_label(stages: tuple[int, ...]) -> str:
    """Stages counted from 0; those in a row by the first and the last."""
    runs: list[list[int]] = []
    for stage in stages:
        if runs and stage == runs[-1][-1] + 1:
            runs[-1].append(stage)
        else:
            runs.append([stage])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def stage_notes(found: ByStage) -> tuple[str, ...]:
    """How the limits are kept, which stage sets the pace, and what was chosen from."""
    chosen, limits = found.chosen, found.limits
    means = f"{chosen.mean_area_mm2:.1f} mm2 and {chosen.mean_power_w:.1f} W"
    within = f"within {limits.area_mm2:g} mm2 and {limits.power_w:g} W"
    kept = f"on the mean {means}, {within}" if found.way == POOLED else f"every die {within}; on the mean {means}"
    alike = "" if len(set(chosen.designs)) > 1 else "; none is better than one design for all stages"
    return (
        f"{kept}; the pace is that of stage {stages_label(found.slowest.stages)}",
        f"chosen from {_lists_label(found)}{alike}",
    )


def _lists_label(found: ByStage) -> str:
    """How many designs, and the lists that they are from: as many as there are lists, times their length, or fewer."""
    num_kinds, longest = len(found.kinds), max(kind.num_kept for kind in found.kinds)
    num_kept, num_proven = (sum(getattr(kind, name) for kind in found.kinds) for name in ("num_kept", "num_proven"))
    proven = "proven to be these" if num_proven == num_kept else f"{num_proven} of {num_kept} of them proven"
    num_other = found.num_lists - num_kinds - 1
    other = f", and {num_other} of kinds within other limits than a die's" if num_other else ""
    lists = f"{counted(num_kinds, 'list')} of a kind of stage, {proven}, one of all stages{other}"
    message = f"{counted(found.num_designs, 'different design')} in {found.num_lists} lists of the best {longest}"
    return f"{message}: {lists}"


def planned_notes(planned: tuple[PlannedTask, ...]) -> tuple[str, ...]:
    """What the planner chose, of which plans, and what it would choose of others."""
    found = []
    for one in planned:
        chips = counted(one.task.plan.num_devices, "chip")
        message = f"{one.task.name}: the plan is the planner's for {chips} of the base, {_gap(one)}"
        found.append(message)
        found += [_unconstrained(one.task.name, free) for free in one.unconstrained]
    return tuple(found)


def _gap(one: PlannedTask) -> str:
    of_which = " and ".join(("without interleaving", *one.kept))
    if one.gap_frac:
        return f"by the step model no other is faster by more than {percent(one.gap_frac, 2)}, of plans {of_which}"
    return f"proven fastest by the step model, of plans {of_which}"


def _unconstrained(name: str, free: Replanned) -> str:
    if free.is_same:
        return f"{name}: no plan of a single stage is faster by the step model"
    brief = f"{plan_in_brief(free.plan)}, {gain(free.gain_frac)} by the step model on the base"
    return f"{name}: a plan need not have several stages, and the fastest is then {brief}; --stages one mines for it"


def replanned_notes(names: tuple[str, ...], replanned: tuple[Replanned, ...]) -> tuple[str, ...]:
    """Whether the plan suits the chip that was mined for it, by the step model."""
    found = []
    for name, one in zip(names, replanned, strict=False):
        if one.is_same:
            found.append(
                f"{name}: on the best chip the planner finds no faster plan than the one that it was mined for"
            )
        else:
            message = f"{name}: on the best chip the planner would choose {plan_in_brief(one.plan)}"
            found.append(f"{message}, {gain(one.gain_frac)} by the step model; mine again for that plan")
    return tuple(found)


def planned_task_record(one: PlannedTask) -> Record:
    return {
        "model": one.task.name,
        "plan": plan_record(one.task.plan),
        "step_s": one.step_s,
        "gap_frac": one.gap_frac,
        "common_settings": ["without interleaving", *one.kept],
        "unconstrained": [replanned_record(one.task.name, free) for free in one.unconstrained],
    }


def replanned_record(name: str, one: Replanned) -> Record:
    return {
        "model": name,
        "is_same": one.is_same,
        "plan": plan_record(one.plan),
        "step_s": one.step_s,
        "current_step_s": one.current_step_s,
        "gain_frac": one.gain_frac,
        "gap_frac": one.gap_frac,
    }
