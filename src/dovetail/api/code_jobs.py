"""The step that distributed code takes on a cluster, beside the same model as plans."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike

from dovetail.api.timelines import write_timeline
from dovetail.errors import DovetailError
from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, equal_devices
from dovetail.report.distributed_step import (
    PlansBeside,
    distributed_page,
    distributed_processes,
    distributed_record,
    distributed_sentence,
    distributed_tables,
)
from dovetail.report.page import Page
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.search.objectives import objectives
from dovetail.search.planners.constraints import space_under
from dovetail.search.planners.planner import search_plans
from dovetail.step.code_flop import code_mfu_frac
from dovetail.step.distributed import DistributedOutcome, distributed_step
from dovetail.step.distributed_advice import distributed_advice
from dovetail.step.eager import HostPace
from dovetail.step.eager_advice import Advice
from dovetail.step.recognised import Recognised, recognised_plan
from dovetail.step.time_parts import TimePart, time_parts
from dovetail.units import format_count
from dovetail.workload.dispatched import DistributedStep
from dovetail.workload.model import Model
from dovetail.workload.models import models as models_of_catalogue
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

NAME_IT = "--unsharded names the model that the script trains, or its captured file"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeJob:
    """A step of a job of many ranks as written: `outcome` has its timeline, `beside` the same model as plans.

    `mfu_frac` is its model FLOP utilisation, attention counted causally where its kernel is causal.
    """

    name: str
    outcome: DistributedOutcome
    recognised: Recognised
    beside: PlansBeside
    advice: tuple[Advice, ...] = ()
    mfu_frac: float = 0.0

    @property
    def record(self) -> Record:
        return distributed_record(
            self.outcome, self.recognised, beside=self.beside, advice=self.advice, mfu_frac=self.mfu_frac
        )

    @property
    def sentence(self) -> str:
        return distributed_sentence(self.record)

    @property
    def tables(self) -> tuple[Table, ...]:
        return distributed_tables(self.record)

    @property
    def page(self) -> Page:
        return distributed_page(self.record, f"{self.name} on {self.outcome.step.world_size:,} ranks")

    def to_perfetto(self, path: str | PathLike[str]) -> None:
        """Writes the timeline for ui.perfetto.dev: a process for each recorded rank, a track for each stream."""
        write_timeline(path, distributed_processes(self.outcome))


def code_job(
    step: DistributedStep,
    cluster: AnyCluster,
    host: HostPace | None = None,
    *,
    models: tuple[Model, ...] = (),
    name: str = "",
) -> CodeJob:
    """`step` on `cluster`, what plan it is, and what changes and other plans would gain.

    `models` holds the model that the code trains, whole, where that is known; plans are of it. Otherwise they are of
    the model of the catalogue that has exactly as many parameters, with a note.
    """
    equal = equal_devices(cluster, "a step of distributed code")
    if not models:
        models = as_many_parameters(num_parameters(step))
        notes = tuple(_taken_as(one, num_parameters(step)) for one in models)
        step = replace(step, notes=(*step.notes, *notes))
    outcome = distributed_step(step, equal, host)
    recognised = recognised_plan(step)
    return CodeJob(
        name=name or "the code",
        outcome=outcome,
        recognised=recognised,
        beside=plans_beside(outcome, recognised, equal, models),
        advice=distributed_advice(outcome, equal, host),
        mfu_frac=code_mfu_frac(outcome, equal.chip, recognised.compute_dtype),
    )


def num_parameters(step: DistributedStep) -> int:
    """Of the whole model: of a DTensor all are counted, and ranks that were recorded apart hold different ones."""
    return sum(one.step.num_parameters for one in step.ranks)


def as_many_parameters(number: int) -> tuple[Model, ...]:
    """The catalogue's model of exactly so many parameters, the first by name; none where there is none."""
    found = (models_of_catalogue[name]() for name in models_of_catalogue.names())
    return next(((one,) for one in found if one.is_exact and one.published_parameters == number), ())


def _taken_as(model: Model, number: int) -> str:
    return f"plans are of {model.name}, which has as many parameters ({number:,}); --unsharded names another model"


def _kernels(step: DistributedStep) -> str:
    is_compiled = any(op.is_compiled for one in step.ranks for op in one.step.ops)
    return "compiled" if is_compiled else "eager"


def plans_beside(
    code: DistributedOutcome, recognised: Recognised, cluster: Cluster, models: tuple[Model, ...]
) -> PlansBeside:
    """The recognised plan with kernels as the code launches them and with fused ones, and the planner's best.

    Where the code is no plan, the best alone; a plan that cannot be evaluated costs nothing else.
    """
    if not models:
        why_not = f"no model of the catalogue has as many parameters ({num_parameters(code.step):,})"
        return PlansBeside(
            why_not=f"{why_not}; --unsharded names the model that the script trains, or its captured file"
        )
    if not recognised.global_batch:
        return PlansBeside(why_not="; ".join(recognised.reasons))
    [model] = models
    workload = Workload(
        model=model,
        global_batch=recognised.global_batch,
        seq=recognised.seq or model.seq,
        precision=precision_of(recognised),
    )
    other = _why_another_model(workload, recognised)
    if other:
        return PlansBeside(why_not=other)
    why: list[str] = []
    eager = replace(workload, kernels=_kernels(code.step))
    as_written, fused = (_evaluated(one, cluster, recognised, why) for one in (eager, workload))
    return PlansBeside(
        as_written=as_written,
        fused=fused,
        best=_best(workload, cluster, why),
        parts=_parts(code, as_written),
        why_not="; ".join(dict.fromkeys(why)),
    )


SAME_MODEL_FRAC = 0.05  # style: a tolerance; padded vocabularies and tied embeddings kept on two stages


def _why_another_model(workload: Workload, recognised: Recognised) -> str:
    """Why the code does not train the workload's model, by the number of parameters; nothing where it may.

    What code shards by hand over tensor- and expert-parallel ranks counts as one rank holds it.
    """
    held, degrees = recognised.num_parameters, dict(recognised.degrees)
    least = held * (1 - SAME_MODEL_FRAC)
    most = held * degrees["tp"] * degrees["ep"] * (1 + SAME_MODEL_FRAC)
    graph = workload.training_graph()
    if any(least <= number <= most for number in (graph.num_parameters, graph.num_trained)):
        return ""
    return (
        f"{workload.model.name} has {format_count(graph.num_parameters)} parameters and the code trains"
        f" {format_count(held)}; --unsharded names the model that the code trains"
    )


def _parts(code: DistributedOutcome, planned: tuple[Outcome | Infeasible, ...]) -> tuple[TimePart, ...]:
    for one in planned:
        if isinstance(one, Outcome) and isinstance(one.cluster, Cluster):
            graph, precision = one.workload.training_graph(), one.workload.precision
            return time_parts(code.slowest, graph, one.plan, one.cluster, one.step, precision)
    return ()


def precision_of(recognised: Recognised) -> Precision:
    """As FSDP2 and DDP keep numbers: parameters and moments as the optimizer updates them, gathered in bf16."""
    state = recognised.state_dtype
    return Precision(
        compute=recognised.compute_dtype,
        weights=state,
        gradients=recognised.gradient_dtype,
        moments=state,
        has_master_weights=False,
        has_persistent_gradients=False,
    )


def _evaluated(
    workload: Workload, cluster: Cluster, recognised: Recognised, why: list[str]
) -> tuple[Outcome | Infeasible, ...]:
    for plan in recognised.plans:
        try:
            return (evaluate(workload, cluster, plan, has_changes=False),)
        except DovetailError as error:
            why.append(str(error))
    return ()


def _best(workload: Workload, cluster: Cluster, why: list[str]) -> tuple[Outcome | Infeasible, ...]:
    try:
        space = space_under((), workload.training_graph(), cluster.num_devices)
        found = search_plans(
            workload, cluster, space, objectives["time"], num_best=1, cluster_usd=0.0, progress=lambda *_: None
        )
        if found.best:
            return (evaluate(workload, cluster, found.best[0].plan, has_changes=False),)
        why.append(f"no plan fits on {cluster.name}")
    except DovetailError as error:
        why.append(str(error))
    return ()
