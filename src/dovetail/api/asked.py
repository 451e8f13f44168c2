"""What a prediction is asked by, and the job it comes to: the same of a command's words and of a program's values."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.entry import is_file_name
from dovetail.files.given import (
    ClusterGiven,
    ModelGiven,
    PlanGiven,
    cluster_given,
    entry_given,
    model_given,
    plan_given,
)
from dovetail.files.job import (
    Job,
    OpenJob,
    Spec,
    check_dtypes,
    forward_graph,
    has_plan,
    load_constraints,
    load_open_spec,
    load_plan,
    load_spec,
    load_workload,
    section_of,
    spec_name,
    whole_spec,
)
from dovetail.files.kinds import CATALOGUES, kind_of_file
from dovetail.files.mixed_cluster import any_cluster_of
from dovetail.files.profiled_cluster import ProfileGiven, profiled_cluster
from dovetail.files.text import one_line
from dovetail.hardware.mixed import AnyCluster, MixedCluster
from dovetail.plan.plan import Plan
from dovetail.workload.model import Model
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

PARTS = ("model", "cluster", "plan")
Given = TypeVar("Given")  # a count: a number of Python's, or its text


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A spec, other words or values for some of it, or these alone; empty or 0 where nothing was said."""

    spec: Spec = ""
    model: ModelGiven = ""
    cluster: ClusterGiven = ""
    plan: PlanGiven = ""
    devices: int = 0
    global_batch: int = 0
    seq: int = 0
    compute: str = ""
    profile: ProfileGiven = ""

    @property
    def overrides(self) -> bool:
        parts, counts = (self.model, self.cluster, self.plan, self.compute), (self.devices, self.global_batch, self.seq)
        return any(part != "" for part in parts) or any(counts)

    @property
    def said(self) -> dict[str, Any]:
        """What was said, by argument."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in every.items() if value not in ("", 0)}

    @property
    def is_in_words(self) -> bool:
        """Whether a command could ask the same: names and files alone."""
        return all(
            isinstance(part, str | Path) for part in (self.spec, self.model, self.cluster, self.plan, self.profile)
        )


def asked_of(
    spec: Spec,
    *,
    model: ModelGiven,
    cluster: ClusterGiven,
    devices: Given | None,
    global_batch: Given | None,
    seq: Given | None,
    compute: str | None,
    read: Callable[[str, Given | None], int],
    plan: PlanGiven = "",
    profile: ProfileGiven = "",
) -> Asked:
    """What several calls and commands share; `read` is `counted` for the numbers of a call, `count` for words typed."""
    return Asked(
        spec=spec,
        model=model,
        cluster=cluster,
        plan=plan,
        devices=read("--devices", devices),
        global_batch=read("--global-batch", global_batch),
        seq=read("--seq", seq),
        compute=compute or "",
        profile=profile,
    )


@contextmanager
def placed_in(spec: Spec) -> Iterator[None]:
    """Names the spec in errors that do not, be it because they come from further up or cut a long path short."""
    try:
        yield
    except DovetailError as error:
        named = "" if isinstance(spec, Mapping) else os.fspath(spec)
        if one_line(named) in str(error):
            raise
        where = ": ".join(part for part in (named, error.where) if part)
        raise type(error)(error.message, where) from None


def job_of(asked: Asked) -> Job:
    """The job of a spec, or of a spec with other words for some of it, or of words alone; with what was measured."""
    job = _job_of(asked)
    return replace(job, cluster=_profiled(asked, job.cluster))


def _job_of(asked: Asked) -> Job:
    with placed_in(asked.spec):
        _check_is_spec(asked, PARTS)
    if asked.spec and not asked.overrides:
        with placed_in(asked.spec):
            return load_spec(asked.spec)
    workload, cluster = _parts(asked, PARTS)
    if asked.plan == "":
        plan = load_plan(asked.spec, workload, cluster)
    else:
        plan = plan_given(asked.plan, workload, cluster)
    return Job(workload=workload, cluster=cluster, plan=plan, name=_name(asked))


def open_job_of(asked: Asked) -> tuple[OpenJob, tuple[str, ...]]:
    """As `job_of`, where the plan is to be found, and why a spec's own plan is left out where options rule it out."""
    job, notes = _open_job_of(asked)
    return replace(job, cluster=_profiled(asked, job.cluster)), notes


def _open_job_of(asked: Asked) -> tuple[OpenJob, tuple[str, ...]]:
    with placed_in(asked.spec):
        _check_is_spec(asked, PARTS[:2])
        if asked.spec and not asked.overrides:
            return load_open_spec(asked.spec), ()
    workload, cluster = _parts(asked, PARTS[:2])
    with placed_in(asked.spec):
        constraints = load_constraints(asked.spec) if asked.spec else ()
        own, notes = _own_plan(asked, workload, cluster)
    job = OpenJob(workload=workload, cluster=cluster, own=own, constraints=constraints, name=_name(asked))
    return job, notes


def _profiled(asked: Asked, cluster: AnyCluster) -> AnyCluster:
    """`cluster` with the times of the profile that is named: by an argument, or else by the spec."""
    if asked.profile != "":
        try:
            return profiled_cluster(cluster, entry_given(asked.profile, "profile"))
        except DovetailError as error:
            raise type(error)(error.message, error.where or "--profile") from None
    if asked.spec == "":
        return cluster
    with placed_in(asked.spec):
        whole = whole_spec(asked.spec)
        return profiled_cluster(cluster, whole.child("profile")) if whole.has("profile") else cluster


def _own_plan(asked: Asked, workload: Workload, cluster: AnyCluster) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """A spec's plan for what the options made of the rest; one that no longer suits that is left out, with a note."""
    if not asked.spec or not has_plan(asked.spec):
        return (), ()
    try:
        return (load_plan(asked.spec, workload, cluster),), ()
    except InvalidInput as error:
        return (), (f"the spec's own plan is left out, for it is not for what the options ask: {error.message}",)


def _parts(asked: Asked, options: tuple[str, ...]) -> tuple[Workload, AnyCluster]:
    _check_whole(asked, options)
    workload, cluster = _workload(asked), _cluster(asked)
    check_dtypes(workload, cluster)
    return workload, cluster


def _name(asked: Asked) -> str:
    name = spec_name(asked.spec) if asked.spec else ""
    return f"{name}, changed" if name else ""


def _check_is_spec(asked: Asked, options: tuple[str, ...]) -> None:
    """A model or another part given where the spec belongs is pointed to its option."""
    if not asked.spec or isinstance(asked.spec, Mapping):
        return
    name = os.fspath(asked.spec)
    if is_file_name(name) or os.path.isfile(name):
        kind = kind_of_file(name) if os.path.isfile(name) else "spec"
    else:
        kind = next((kind for kind, registry in CATALOGUES.items() if name in registry), "spec")
    if kind == "chip":
        raise InvalidInput(f"{name!r} is a chip, not a spec; name it in a cluster: {{chip: {name}, topology: [...]}}")
    if kind in options:
        rest = " and ".join(f"--{other}" for other in options if other != kind)
        raise InvalidInput(f"{name!r} is a {kind}, not a spec; say --{kind} {name}, with {rest}")


def _check_whole(asked: Asked, options: tuple[str, ...]) -> None:
    for option in options:
        if not asked.spec and getattr(asked, option) == "":
            raise InvalidInput(
                f"--{option} is missing; name one that `dovetail {option}s` lists or a file, or give a spec file"
            )


def _workload(asked: Asked) -> Workload:
    workload = _overridden(asked, _own_workload(asked))
    try:
        forward_graph(workload)  # shows that it can be built
    except DovetailError as error:
        where = "--seq" if error.where == "seq" and asked.seq else error.where
        raise type(error)(error.message, where) from None
    return workload


def _own_workload(asked: Asked) -> Workload:
    """A model put in place of a spec's own brings its own length, unless the spec says one."""
    model = None if asked.model == "" else model_given(asked.model, asked.seq)
    if not asked.spec and model:
        return _by_default(model)
    workload = load_workload(asked.spec)
    if not model:
        return workload
    seq = model.seq if workload.seq == workload.model.seq else workload.seq
    return replace(workload, model=model, seq=seq)


def _by_default(model: Model) -> Workload:
    return Workload(model=model, global_batch=model.batch, seq=model.seq)


def _overridden(asked: Asked, workload: Workload) -> Workload:
    global_batch, seq = asked.global_batch or workload.global_batch, asked.seq or workload.seq
    changed = replace(workload, global_batch=global_batch, seq=seq)
    if not asked.compute:
        return changed
    try:
        return replace(changed, precision=_computing_in(asked.compute, changed.precision))
    except DovetailError as error:
        raise type(error)(error.message, "--compute") from None


def _computing_in(dtype: str, precision: Precision) -> Precision:
    """`precision` with another compute dtype; what follows from that dtype, and was not set apart from it, follows."""
    said = {field.name: getattr(precision, field.name) for field in fields(precision)}
    if precision.weights == precision.storage:
        del said["weights"]
    if precision.has_master_weights == (precision.weights != "fp32"):
        del said["has_master_weights"]
    return Precision(**said | {"compute": dtype})


def _cluster(asked: Asked) -> AnyCluster:
    cluster = _cluster_of(asked)
    if not asked.devices or asked.devices == cluster.num_devices:
        return cluster
    if isinstance(cluster, MixedCluster):
        raise InvalidInput("--devices resizes catalogue clusters, and this one has parts; change their devices instead")
    try:
        return _cluster_of(asked, asked.devices)
    except DovetailError as error:
        raise type(error)(error.message, "--devices") from None


def _cluster_of(asked: Asked, num_devices: int = 0) -> AnyCluster:
    if asked.cluster == "":
        return any_cluster_of(section_of(asked.spec, "cluster"), num_devices)
    return cluster_given(asked.cluster, num_devices)
