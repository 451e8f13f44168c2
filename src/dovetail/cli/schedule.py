"""`dovetail schedule`: the operators of one block of a model on the cores of a chip."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dovetail.cli.naming import chip_named
from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files import load_model
from dovetail.files.perfetto import check_trace_name, encoded_trace
from dovetail.files.written import check_writable, write_bytes
from dovetail.hardware.chip import Chip
from dovetail.plan.plan import RECOMPUTE_POLICIES
from dovetail.report.core_schedule import fits, schedule_processes, schedule_record, schedule_tables
from dovetail.schedule.cores.exact import Limit, exact_schedule
from dovetail.schedule.cores.fast import list_schedule
from dovetail.schedule.cores.problem import CoreSchedule
from dovetail.schedule.cores.work import core_problem, work_of
from dovetail.units import quantity
from dovetail.workload.graph import Block, Graph
from dovetail.workload.training import with_recompute
from dovetail.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAsked:
    """What was typed; nothing, or 0, where it was left out."""

    model: str
    chip: str
    block: str
    batch: int
    seq: int
    recompute: str
    is_exact: bool
    limit: str
    num_workers: int
    perfetto: str
    is_forced: bool


def answer(asked: ScheduleAsked, *, as_json: bool) -> bool:
    """Shows the schedule, and says whether HBM holds what it has at once."""
    limit = limit_of(asked)
    if asked.perfetto:
        check_trace_name(asked.perfetto)
        check_writable(Path(asked.perfetto), is_forced=asked.is_forced)
    chip, model = chip_named(asked.chip), load_model(asked.model, asked.seq)
    workload = Workload(model=model, global_batch=asked.batch, seq=asked.seq or model.seq)
    block = block_named(workload.training_graph(), asked.block)
    found = scheduled(asked, workload, block, chip, limit)
    if asked.perfetto:
        write_bytes(Path(asked.perfetto), encoded_trace(schedule_processes(found, chip.name)))
    names = {"model": model.name, "block": block.name, "chip": chip.name}
    limit_s = limit.wall_s if asked.is_exact else 0.0
    if as_json:
        show_json(schedule_record(found, **names, limit_s=limit_s))
    else:
        show_tables(schedule_tables(found, **names, limit_s=limit_s))
    return fits(found)


def limit_of(asked: ScheduleAsked) -> Limit:
    """When --exact is to stop; raises where that cannot be, before anything is scheduled."""
    said: dict[str, Any] = {}
    if asked.limit:
        try:
            said["wall_s"] = quantity(asked.limit, "s")
        except InvalidInput as error:
            raise InvalidInput(error.message, "--limit") from None
    if asked.num_workers:
        said["num_workers"] = asked.num_workers
    return Limit(**said)


def block_named(graph: Graph, name: str) -> Block:
    """The block of this name; without one, the layer that repeats most."""
    if not name:
        return max(graph.blocks, key=lambda block: block.is_layer * block.repeat)
    known = {block.name: block for block in graph.blocks}
    if name not in known:
        raise InvalidInput(f"{graph.model} has no block {name!r}{did_you_mean(name, known)}", "--block")
    return known[name]


def scheduled(asked: ScheduleAsked, workload: Workload, block: Block, chip: Chip, limit: Limit) -> CoreSchedule:
    if asked.recompute not in RECOMPUTE_POLICIES:
        hint = did_you_mean(asked.recompute, RECOMPUTE_POLICIES)
        raise InvalidInput(f"no recompute policy is named {asked.recompute!r}{hint}", "--recompute")
    problem = core_problem(work_of(with_recompute(block.ops, asked.recompute), workload.precision), chip)
    if not asked.is_exact:
        return list_schedule(problem)
    return exact_schedule(problem, limit)
