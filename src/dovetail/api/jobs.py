"""From a request to its job: workload, cluster and plan, the same of a command's words and of a program's values."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace

from dovetail.cost.engines import with_endpoint
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.entry import is_file_name
from dovetail.files.heterogeneous_cluster import any_cluster_of
from dovetail.files.inline_plan import OPTIONS, check_agree, decided_by
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
from dovetail.files.kinds import CATALOGUES, SEARCH, kind_of_file
from dovetail.files.profiled_cluster import ProfileLike, profiled_cluster
from dovetail.files.python_values import (
    ClusterLike,
    ModelLike,
    PlanLike,
    as_cluster,
    as_entry,
    as_model,
    as_plan,
)
from dovetail.files.spec_changes import Change, changed_cluster, changed_workload, plan_decisions
from dovetail.files.text import one_line
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster
from dovetail.parallel.plan import Plan
from dovetail.workload.lora import Lora
from dovetail.workload.model import Model
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

PARTS = ("model", "cluster", "plan")
AUTO = "auto"  # in place of a plan: the planner's best


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """What a request says of its job: a spec, other words or values for some of it, or these alone.

    Fields are empty or 0 where nothing was said. `request.part(JobRequest)` takes them from a call's request.
    """

    spec: Spec = ""
    model: ModelLike = ""
    cluster: ClusterLike = ""
    plan: PlanLike = ""
    devices: int = 0
    global_batch: int = 0
    seq: int = 0
    compute: str = ""
    lora_rank: int = 0
    lora_targets: tuple[str, ...] = ()
    profile: ProfileLike = ""
    headroom: float | None = None
    jitter: float | None = None
    endpoint: str = ""
    tp: str = ""
    pp: str = ""
    dp: str = ""
    cp: str = ""
    ep: str = ""
    etp: str = ""
    sp: bool | None = None
    vpp: str = ""
    zero: str = ""
    microbatch: str = ""
    recompute: str = ""
    schedule: str = ""
    changes: tuple[Change, ...] = ()  # keys of a sweep, by their paths

    @property
    def undecided(self) -> JobRequest:
        """The same without what options decide of the plan."""
        return replace(self, **{option: None if option == "sp" else "" for option in OPTIONS})  # type: ignore[arg-type]

    @property
    def overrides(self) -> bool:
        """Whether anything is said in place of the spec."""
        kept = ("spec", "profile", "headroom", "jitter", "endpoint", "changes", *OPTIONS)
        others = (one.name for one in fields(self) if one.name not in kept)
        return bool(decisions_of(self) or self.changes) or any(
            getattr(self, name) not in ("", 0, ()) for name in others
        )


def decisions_of(request: JobRequest) -> dict[str, str | bool]:
    """What options decide of the plan, by option."""
    given = {
        "tp": request.tp,
        "pp": request.pp,
        "dp": request.dp,
        "cp": request.cp,
        "ep": request.ep,
        "etp": request.etp,
        "vpp": request.vpp,
        "zero": request.zero,
        "microbatch": request.microbatch,
        "recompute": request.recompute,
        "schedule": request.schedule,
    }
    found: dict[str, str | bool] = {option: words for option, words in given.items() if words}
    return found if request.sp is None else {**found, "sp": request.sp}


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


def job_of(request: JobRequest) -> Job:
    """The job of a spec, or of a spec with other words for some of it, or of words alone; with what was measured."""
    job = _job_of(request)
    return replace(job, cluster=_on_terms(request, job.cluster))


def _job_of(request: JobRequest) -> Job:
    with placed_in(request.spec):
        _check_is_spec(request, PARTS)
    if request.spec and not request.overrides:
        with placed_in(request.spec):
            return load_spec(request.spec)
    over = {**decided_by(decisions_of(request)), **plan_decisions(request.changes)}
    check_agree(request.plan, over)
    workload, cluster = _parts(request, PARTS[:2] if over else PARTS)
    if request.plan != "":
        plan = as_plan(request.plan, workload, cluster, over)
    elif request.spec and (not over or has_plan(request.spec)):
        plan = load_plan(request.spec, workload, cluster, over)
    else:
        plan = as_plan({}, workload, cluster, over)
    return Job(workload=workload, cluster=cluster, plan=plan, name=_name(request))


def open_job_of(request: JobRequest) -> tuple[OpenJob, tuple[str, ...]]:
    """As `job_of`, where the plan is to be found, and why a spec's own plan is left out where options rule it out.

    What options decide of the plan is the search's to keep to.
    """
    job, notes = _open_job_of(request.undecided)
    return replace(job, cluster=_on_terms(request, job.cluster)), notes


def _open_job_of(request: JobRequest) -> tuple[OpenJob, tuple[str, ...]]:
    with placed_in(request.spec):
        _check_is_spec(request, PARTS[:2])
        if request.spec and not request.overrides:
            return load_open_spec(request.spec), ()
    workload, cluster = _parts(request, PARTS[:2])
    with placed_in(request.spec):
        constraints = load_constraints(request.spec) if request.spec else ()
        own_plan, notes = _own_plan(request, workload, cluster)
    job = OpenJob(workload=workload, cluster=cluster, given=own_plan, constraints=constraints, name=_name(request))
    return job, notes


def _on_terms(request: JobRequest, cluster: AnyCluster) -> AnyCluster:
    """`cluster` with measured times, its endpoint, jitter and memory that plans are to leave free, where given."""
    found = _profiled(request, _with_endpoint(request, cluster))
    if request.jitter is not None:
        jitter_s = request.jitter
        if isinstance(found, HeterogeneousCluster):
            pools = (replace(pool, topology=pool.topology.with_jitter(jitter_s)) for pool in found.pools)
            found = replace(found, pools=tuple(pools))
        else:
            found = replace(found, topology=found.topology.with_jitter(jitter_s))
    if request.headroom is None:
        return found
    try:
        if isinstance(found, HeterogeneousCluster):
            return replace(found, pools=tuple(pool.with_headroom(request.headroom) for pool in found.pools))
        return found.with_headroom(request.headroom)
    except InvalidInput as error:
        raise InvalidInput(error.message, "--headroom") from None


def _with_endpoint(request: JobRequest, cluster: AnyCluster) -> AnyCluster:
    """`cluster` whose chips have the endpoint that is named, with what it draws; raises where its switches cannot."""
    if not request.endpoint:
        return cluster
    try:
        if isinstance(cluster, HeterogeneousCluster):
            pools = (replace(pool, chip=with_endpoint(pool.chip, request.endpoint)) for pool in cluster.pools)
            return replace(cluster, pools=tuple(pools))
        return replace(cluster, chip=with_endpoint(cluster.chip, request.endpoint))
    except DovetailError as error:
        raise type(error)(error.message, "--endpoint") from None


def _profiled(request: JobRequest, cluster: AnyCluster) -> AnyCluster:
    """`cluster` with the times of the profile that is named: by an argument, or else by the spec."""
    if request.profile != "":
        try:
            return profiled_cluster(cluster, as_entry(request.profile, "profile"))
        except DovetailError as error:
            raise type(error)(error.message, error.where or "--profile") from None
    if request.spec == "":
        return cluster
    with placed_in(request.spec):
        whole = whole_spec(request.spec)
        return profiled_cluster(cluster, whole.child("profile")) if whole.has("profile") else cluster


def _own_plan(request: JobRequest, workload: Workload, cluster: AnyCluster) -> tuple[tuple[Plan, ...], tuple[str, ...]]:
    """A spec's plan for what the options made of the rest; one that no longer suits that is left out, with a note."""
    if not request.spec or not has_plan(request.spec):
        return (), ()
    try:
        return (load_plan(request.spec, workload, cluster),), ()
    except InvalidInput as error:
        return (), (f"the spec's own plan is left out, as it does not match the options: {error.message}",)


def _parts(request: JobRequest, options: tuple[str, ...]) -> tuple[Workload, AnyCluster]:
    _check_whole(request, options)
    workload, cluster = _workload(request), _cluster(request)
    check_dtypes(workload, cluster)
    return workload, cluster


def _name(request: JobRequest) -> str:
    name = spec_name(request.spec) if request.spec else ""
    return f"{name}, changed" if name else ""


def _check_is_spec(request: JobRequest, options: tuple[str, ...]) -> None:
    """A model or another part given where the spec belongs is pointed to its option."""
    if not request.spec or isinstance(request.spec, Mapping):
        return
    name = os.fspath(request.spec)
    if is_file_name(name) or os.path.isfile(name):
        kind = kind_of_file(name) if os.path.isfile(name) else "spec"
    else:
        kind = next((kind for kind, registry in CATALOGUES.items() if name in registry), "spec")
    if kind == SEARCH:
        raise InvalidInput(f"{name!r} describes a search of chips; run dovetail codesign, pareto or mine on it")
    if kind == "chip":
        raise InvalidInput(f"{name!r} is a chip, not a spec; name it in a cluster: {{chip: {name}, topology: [...]}}")
    if kind in options:
        rest = " and ".join(f"--{other}" for other in options if other != kind)
        raise InvalidInput(f"{name!r} is a {kind}, not a spec; pass --{kind} {name}, with {rest}")


def _check_whole(request: JobRequest, options: tuple[str, ...]) -> None:
    for option in options:
        if not request.spec and getattr(request, option) == "":
            more = "pass --plan auto for the best one, write one as tp=8,pp=4, " if option == "plan" else ""
            ways = f"{more}name one that `dovetail {option}s` lists or a file, or give a spec file"
            raise InvalidInput(f"--{option} is missing; {ways}")


def _workload(request: JobRequest) -> Workload:
    workload = changed_workload(_overridden(request, _own_workload(request)), request.changes)
    try:
        forward_graph(workload)  # shows that it can be built
    except DovetailError as error:
        where = "--seq" if error.where == "seq" and request.seq else error.where
        raise type(error)(error.message, where) from None
    return workload


def _own_workload(request: JobRequest) -> Workload:
    """A model put in place of a spec's own brings its own length, unless the spec says one."""
    model = None if request.model == "" else as_model(request.model, request.seq)
    if not request.spec and model:
        return _by_default(model)
    workload = load_workload(request.spec)
    if not model:
        return workload
    seq = model.seq if workload.seq == workload.model.seq else workload.seq
    return replace(workload, model=model, seq=seq)


def _by_default(model: Model) -> Workload:
    return Workload(model=model, global_batch=model.batch, seq=model.seq)


def _overridden(request: JobRequest, workload: Workload) -> Workload:
    global_batch, seq = request.global_batch or workload.global_batch, request.seq or workload.seq
    changed = _with_adapters(request, replace(workload, global_batch=global_batch, seq=seq))
    if not request.compute:
        return changed
    try:
        return replace(changed, precision=_computing_in(request.compute, changed.precision))
    except DovetailError as error:
        raise type(error)(error.message, "--compute") from None


def _with_adapters(request: JobRequest, workload: Workload) -> Workload:
    """`workload` with the adapters that options name."""
    if not request.lora_rank and not request.lora_targets:
        return workload
    rank = request.lora_rank or workload.lora.rank
    if not rank:
        raise InvalidInput("--lora-targets goes with --lora-rank, which is missing", "--lora-targets")
    try:
        return replace(workload, lora=Lora(rank=rank, targets=request.lora_targets or workload.lora.targets))
    except DovetailError as error:
        where = "--lora-rank" if error.where == "lora" else "--lora-targets"
        raise type(error)(error.message, where) from None


def _computing_in(dtype: str, precision: Precision) -> Precision:
    """`precision` with another compute dtype; what follows from that dtype, and was not set apart from it, follows."""
    values = {field.name: getattr(precision, field.name) for field in fields(precision)}
    if precision.weights == precision.storage:
        del values["weights"]
    if precision.has_master_weights == (precision.weights != "fp32"):
        del values["has_master_weights"]
    return Precision(**values | {"compute": dtype})


def _cluster(request: JobRequest) -> AnyCluster:
    return changed_cluster(_sized_cluster(request), request.changes)


def _sized_cluster(request: JobRequest) -> AnyCluster:
    cluster = _cluster_of(request)
    if not request.devices or request.devices == cluster.num_devices:
        return cluster
    if isinstance(cluster, HeterogeneousCluster):
        raise InvalidInput("--devices resizes catalogue clusters, and this one has pools; change their devices instead")
    try:
        return _cluster_of(request, request.devices)
    except DovetailError as error:
        raise type(error)(error.message, "--devices") from None


def _cluster_of(request: JobRequest, num_devices: int = 0) -> AnyCluster:
    if request.cluster == "":
        return any_cluster_of(section_of(request.spec, "cluster"), num_devices)
    return as_cluster(request.cluster, num_devices)
