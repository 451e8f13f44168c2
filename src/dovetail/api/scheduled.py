"""The operators of one block of a model on the cores of a chip: from what was asked to their schedule."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any, SupportsIndex

from dovetail.api.answer import Answer, call_of
from dovetail.api.arguments import counted, in_python
from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.given import ChipGiven, ModelGiven, chip_given, model_given
from dovetail.files.text import quoted
from dovetail.plan.plan import RECOMPUTE_POLICIES
from dovetail.report.core_schedule import fits, schedule_processes, schedule_record, schedule_tables
from dovetail.report.page import Page
from dovetail.report.pages.core_schedule import schedule_page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.schedule.cores.exact import Limit, exact_schedule
from dovetail.schedule.cores.fast import list_schedule
from dovetail.schedule.cores.problem import CoreSchedule
from dovetail.schedule.cores.work import core_problem, work_of
from dovetail.units import format_s, quantity
from dovetail.workload.graph import Block, Graph
from dovetail.workload.training import with_recompute
from dovetail.workload.workload import Workload

LEAST_TIME_S = 1e-3  # style: a bound; a search has not begun in less


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleAsked:
    """What a schedule is asked by; nothing, or 0, where it was left out."""

    model: ModelGiven
    chip: ChipGiven = ""
    block: str = ""
    batch: int = 1
    seq: int = 0
    recompute: str = "none"
    is_exact: bool = False
    time: str = ""
    num_workers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False, eq=False)
class BlockSchedule(Answer):
    """When every operator of a block runs, and on how many cores: `outcome` is the scheduler's own value."""

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
        return schedule_tables(self.outcome, **self._names, limit_s=self.limit_s)

    @property
    def _record(self) -> Record:
        return schedule_record(self.outcome, **self._names, limit_s=self.limit_s)

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


@in_python
def schedule(
    model: ModelGiven,
    *,
    chip: ChipGiven = "",
    block: str = "",
    batch: SupportsIndex = 1,
    seq: SupportsIndex | None = None,
    recompute: str = "none",
    exact: bool = False,
    time: str = "",
    workers: SupportsIndex | None = None,
) -> BlockSchedule:
    """Schedule the operators of a block on the cores of a chip.

    Forward, backward and update of one block, the layer that repeats most if none is named. `exact` is the best
    schedule, or the best found within `time`, such as "60 s", by `workers` threads; it needs dovetail-codesign[mine].
    """
    said = dict(locals())  # of arguments alone, as nothing stands before
    for name, value in (("time", time), ("workers", workers)):
        if value and not exact:
            raise InvalidInput(f"{name} is of exact; say exact too, or leave {name} out")
    asked = ScheduleAsked(
        model=model,
        chip=chip,
        block=block,
        batch=counted("batch", batch),
        seq=counted("seq", seq),
        recompute=recompute,
        is_exact=exact,
        time=time,
        num_workers=counted("workers", workers),
    )
    return scheduled(asked, call_of("schedule", **said))


def scheduled(asked: ScheduleAsked, call: str = "dovetail.schedule()") -> BlockSchedule:
    limit = limit_of(asked)
    chip, model = chip_given(asked.chip), model_given(asked.model, asked.seq)
    workload = Workload(model=model, global_batch=asked.batch, seq=asked.seq or model.seq)
    block = _block_named(workload.training_graph(), asked.block)
    if asked.recompute not in RECOMPUTE_POLICIES:
        hint = did_you_mean(asked.recompute, RECOMPUTE_POLICIES)
        raise InvalidInput(f"no recompute policy is named {asked.recompute!r}{hint}", "--recompute")
    work = work_of(with_recompute(block.ops, asked.recompute), workload.precision, is_layer=block.is_layer)
    problem = core_problem(work, chip)
    found = exact_schedule(problem, limit) if asked.is_exact else list_schedule(problem)
    names = {"model": model.name, "block": block.name, "chip": chip.name}
    return BlockSchedule(outcome=found, **names, limit_s=limit.wall_s if asked.is_exact else 0.0, call=call)


def limit_of(asked: ScheduleAsked) -> Limit:
    """When --exact is to stop; raises where that cannot be, before anything is scheduled."""
    said: dict[str, Any] = {}
    if asked.time:
        try:
            said["wall_s"] = quantity(asked.time, "s")
        except InvalidInput as error:
            raise InvalidInput(error.message, "--time") from None
        if not said["wall_s"] >= LEAST_TIME_S:
            raise InvalidInput(f"--time must be at least {format_s(LEAST_TIME_S, 0)}; got {quoted(asked.time)}")
    if asked.num_workers:
        said["num_workers"] = asked.num_workers
    return Limit(**said)


def _block_named(graph: Graph, name: str) -> Block:
    """The block of this name; without one, the layer that repeats most."""
    if not name:
        return max(graph.blocks, key=lambda block: block.is_layer * block.repeat)
    known = {block.name: block for block in graph.blocks}
    if name not in known:
        raise InvalidInput(f"{graph.model} has no block {name!r}{did_you_mean(name, known)}", "--block")
    return known[name]
