"""The operators of one block of a model on the cores of a chip: from what was asked to their schedule."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from dovetail.api.answer import Answer
from dovetail.api.requests.components import ScheduleRequest
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.python_values import as_chip, as_model
from dovetail.files.text import quoted
from dovetail.opsched.exact import Limit, exact_schedule
from dovetail.opsched.fast import list_schedule
from dovetail.opsched.problem import CoreSchedule
from dovetail.opsched.work import core_problem, work_of
from dovetail.parallel.plan import RECOMPUTE_POLICIES, recompute_policies
from dovetail.report.core_schedule import fits, schedule_figures, schedule_processes
from dovetail.report.figures import Figures, record_of, tables_of
from dovetail.report.page import Page
from dovetail.report.pages.core_schedule import schedule_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import format_s, quantity
from dovetail.workload.checkpoint_policies import checkpoint_policies, is_by_tensor
from dovetail.workload.graph import Block, Graph
from dovetail.workload.training import with_recompute
from dovetail.workload.workload import Workload

LEAST_TIME_S = 1e-3  # style: a bound; a search has not begun in less


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BlockSchedule(Answer):
    """When every operator of a block runs, and on how many cores."""

    outcome: CoreSchedule
    model: str
    block: str
    chip: str
    limit_s: float
    call: str

    @property
    def fits(self) -> bool:
        """Whether HBM holds what the schedule has there at once."""
        return fits(self.outcome)

    @property
    def makespan_s(self) -> float:
        return self.outcome.makespan_s

    @property
    def bound_s(self) -> float:
        """What no schedule takes less than."""
        return self.outcome.bound_s

    @property
    def headline(self) -> str:
        return f"{self.block} of {self.model} on {self.chip}, {format_s(self.makespan_s)}"

    @property
    def tables(self) -> tuple[Table, ...]:
        return tables_of(self._figures)

    @property
    def _record(self) -> Record:
        return record_of(self._figures)

    @property
    def _figures(self) -> Figures:
        return schedule_figures(self.outcome, **self._names, limit_s=self.limit_s)

    @property
    def page(self) -> Page:
        return schedule_page(self.outcome, **self._names, limit_s=self.limit_s)

    def to_perfetto(self, path: str | PathLike[str]) -> None:
        """Writes the timeline for ui.perfetto.dev."""
        from dovetail.api.timelines import write_timeline

        write_timeline(path, schedule_processes(self.outcome, self.chip))

    @property
    def _names(self) -> dict[str, str]:
        return {"model": self.model, "block": self.block, "chip": self.chip}


def scheduled(request: ScheduleRequest) -> BlockSchedule:
    limit = limit_of(request)
    chip, model = as_chip(request.chip), as_model(request.model, request.seq)
    workload = Workload(model=model, global_batch=request.batch, seq=request.seq or model.seq)
    block = _block_named(workload.training_graph(), request.block)
    [policy] = recompute_policies((request.recompute,))
    if policy not in RECOMPUTE_POLICIES and not is_by_tensor(policy):
        hint = did_you_mean(policy, (*RECOMPUTE_POLICIES, *checkpoint_policies.names()))
        raise InvalidInput(f"no recompute policy is named {policy!r}{hint}", "--recompute")
    work = work_of(with_recompute(block.ops, policy), workload.precision, is_layer=block.is_layer)
    problem = core_problem(work, chip)
    found = exact_schedule(problem, limit) if request.exact else list_schedule(problem)
    names = {"model": model.name, "block": block.name, "chip": chip.name}
    return BlockSchedule(outcome=found, **names, limit_s=limit.wall_s if request.exact else 0.0, call=request.call)


def limit_of(request: ScheduleRequest) -> Limit:
    """When --exact is to stop; raises where that cannot be, before anything is scheduled."""
    for option, is_said in (("--time", bool(request.time)), ("--workers", bool(request.workers))):
        if is_said and not request.exact:
            raise InvalidInput(f"{option} needs --exact; pass --exact too, or leave {option} out")
    limits: dict[str, Any] = {}
    if request.time:
        try:
            limits["wall_s"] = quantity(request.time, "s")
        except InvalidInput as error:
            raise InvalidInput(error.message, "--time") from None
        if not limits["wall_s"] >= LEAST_TIME_S:
            raise InvalidInput(f"--time must be at least {format_s(LEAST_TIME_S, 0)}; got {quoted(request.time)}")
    if request.workers:
        limits["num_workers"] = request.workers
    return Limit(**limits)


def _block_named(graph: Graph, name: str) -> Block:
    """The block of this name; without one, the layer that repeats most."""
    if not name:
        return max(graph.blocks, key=lambda block: block.is_layer * block.repeat)
    known = {block.name: block for block in graph.blocks}
    if name not in known:
        raise InvalidInput(f"{graph.model} has no block {name!r}{did_you_mean(name, known)}", "--block")
    return known[name]
