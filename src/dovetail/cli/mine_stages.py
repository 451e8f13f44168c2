"""What `dovetail mine` asks the planner: a plan to mine for, and whether it still suits the chip that was found."""

from __future__ import annotations

from dataclasses import replace

from dovetail.cli.progress import search_progress
from dovetail.evaluate import Infeasible
from dovetail.files.job import countable
from dovetail.files.mining import MiningSpec
from dovetail.hardware.template import Design
from dovetail.search.designs import mined_chips, silicon_of
from dovetail.search.mining.planning import PlannedTask, Replanned, planned_task, replanned, with_freer
from dovetail.search.objectives import objectives


def with_plans(spec: MiningSpec) -> tuple[MiningSpec, tuple[PlannedTask, ...]] | Infeasible:
    """`spec` with plans of the planner's, where it was to be asked; or what does not fit, however it is cut."""
    asked = spec.stages
    if not asked.num_devices:
        return spec, ()
    found = []
    for task in spec.tasks:
        with countable(), search_progress(objectives["time"], 1.0) as progress:
            one = planned_task(task.workload, spec.base, asked.num_devices, asked.constraints, progress)
            if isinstance(one, Infeasible):
                return one
            found.append(with_freer(one, spec.base, asked.said, asked.constraints, progress))
    return replace(spec, tasks=tuple(one.task for one in found)), tuple(found)


def replans(spec: MiningSpec, design: Design) -> tuple[Replanned, ...]:
    """For every job, what the planner would choose on `design`."""
    [chip] = mined_chips(spec.base, [design], silicon_of(spec.base, [design]))
    found = []
    for task in spec.tasks:
        with search_progress(objectives["time"], 1.0) as progress:
            found.append(replanned(task, chip, spec.stages.constraints, progress))
    return tuple(found)
