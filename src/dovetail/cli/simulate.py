"""`dovetail simulate`: from what was asked to a job, from a job to an answer on the screen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from dovetail.cli.screen import show_json, show_tables
from dovetail.errors import DovetailError, InvalidInput
from dovetail.evaluate import Infeasible, evaluate
from dovetail.files import Job, load_cluster, load_model, load_plan, load_spec, load_workload
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.clusters import clusters
from dovetail.report.outcome import tables
from dovetail.report.record import record
from dovetail.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command's arguments; empty or 0 where nothing was said."""

    spec: str = ""
    model: str = ""
    cluster: str = ""
    devices: int = 0
    plan: str = ""
    global_batch: int = 0
    seq: int = 0

    @property
    def overrides(self) -> bool:
        return any((self.model, self.cluster, self.devices, self.plan, self.global_batch, self.seq))


def answer(asked: Asked, *, as_json: bool) -> bool:
    """Shows the answer, and says whether the plan fits."""
    job = job_of(asked)
    with _placed_in(asked.spec):
        result = evaluate(job.workload, job.cluster, job.plan)
    if as_json:
        show_json(record(result, job.name))
    else:
        show_tables(tables(result, job.name))
    return not isinstance(result, Infeasible)


@contextmanager
def _placed_in(spec: str) -> Iterator[None]:
    """Names the spec in errors that do not, be it because they come from further up or cut a long path short."""
    try:
        yield
    except DovetailError as error:
        if spec in str(error):
            raise
        where = ": ".join(part for part in (spec, error.where) if part)
        raise type(error)(error.message, where) from None


def job_of(asked: Asked) -> Job:
    """The job of a spec, or of a spec with other words for some of it, or of words alone."""
    if asked.spec and not asked.overrides:
        with _placed_in(asked.spec):
            return load_spec(asked.spec)
    _check_whole(asked)
    workload, cluster = _workload(asked), _cluster(asked)
    plan = load_plan(asked.plan or asked.spec, workload, cluster)
    name = f"{Path(asked.spec).stem}, changed" if asked.spec else ""
    return Job(workload=workload, cluster=cluster, plan=plan, name=name)


def _check_whole(asked: Asked) -> None:
    for option, listing in (("model", "models"), ("cluster", "clusters"), ("plan", "plans")):
        if not asked.spec and not getattr(asked, option):
            raise InvalidInput(
                f"--{option} is missing; name one that `dovetail {listing}` lists or a file, or give a spec file"
            )


def _workload(asked: Asked) -> Workload:
    """A model put in place of a spec's own brings its own length, unless the spec or the command says one."""
    if not asked.spec:
        model = load_model(asked.model)
        return Workload(model=model, global_batch=asked.global_batch or model.batch, seq=asked.seq or model.seq)
    workload = load_workload(asked.spec)
    seq = workload.seq
    if asked.model:
        model = load_model(asked.model)
        seq = model.seq if seq == workload.model.seq else seq
        workload = replace(workload, model=model)
    return replace(workload, global_batch=asked.global_batch or workload.global_batch, seq=asked.seq or seq)


def _cluster(asked: Asked) -> Cluster:
    cluster = load_cluster(asked.cluster or asked.spec)
    if not asked.devices or asked.devices == cluster.num_devices:
        return cluster
    if cluster.name not in clusters or clusters[cluster.name].build(cluster.num_devices) != cluster:
        raise InvalidInput(
            f"--devices resizes catalogue clusters, and {cluster.name} is written out; change its topology instead"
        )
    try:
        return clusters[cluster.name].build(asked.devices)
    except DovetailError as error:
        raise type(error)(error.message, "--devices") from None
