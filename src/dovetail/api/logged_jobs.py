"""The job that a training log is of: what the log says of it, completed or overridden by what the user says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from dovetail.accuracy.logged_run import LoggedRun, log_of_profile, logged_run
from dovetail.accuracy.training_log import TrainingLog
from dovetail.api.jobs import JobRequest, job_of
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.cluster_names import sized_name
from dovetail.files.entry import is_file_name, spoken
from dovetail.files.job import Job, countable
from dovetail.files.python_values import as_model
from dovetail.files.residuals import load_residuals
from dovetail.files.training_logs.loading import load_training_log
from dovetail.hardware.catalog import chip_of_device
from dovetail.hardware.clusters import clusters
from dovetail.hardware.measured import Profile
from dovetail.parallel.recipes import plans
from dovetail.workload.models import models
from dovetail.workload.transformer import Transformer

_DEGREES = (
    "tensor_parallel", "context_parallel", "pipeline_parallel", "expert_parallel", "interleave", "zero_stage",
    "microbatch",
)  # fmt: skip


def compared_log(file: str, request: JobRequest) -> LoggedRun:
    """The log in `file` beside the prediction of its job; raises where the log and `request` do not say the job."""
    log = load_training_log(Path(file))
    return _compared(log, request)


def compared_profile(profile: Profile, request: JobRequest) -> LoggedRun:
    """The whole steps of a trace beside the prediction of the job that `request` says."""
    return _compared(log_of_profile(profile), request, profile)


def names_job(request: JobRequest) -> bool:
    """Whether `request` says anything of a job."""
    return request.spec != "" or request.overrides


def _compared(log: TrainingLog, request: JobRequest, profile: Profile | None = None) -> LoggedRun:
    job, notes = job_of_log(log, request)
    with _named(log), countable():
        traced = profile.steps if profile is not None else ()
        return logged_run(log, job.workload, job.cluster, job.plan, load_residuals(), notes, traced)


@contextmanager
def _named(log: TrainingLog) -> Iterator[None]:
    """Names the log in errors that name nothing."""
    try:
        yield
    except DovetailError as error:
        if error.where:
            raise
        raise type(error)(error.message, log.source) from None


def job_of_log(log: TrainingLog, request: JobRequest) -> tuple[Job, tuple[str, ...]]:
    """The job, and notes on what was assumed of it and on what the log states otherwise.

    With a spec the job is the spec's, with the options in place of what they say. Without one it is the log's, with the
    options in place of or beside it; what neither says is refused, naming the option that would say it.
    """
    if request.spec != "":
        job = job_of(request)
        return job, tuple(_differences(log, job))
    logged_workload, logged_plan = (dict(log.job.get(name, {})) for name in ("workload", "plan"))
    notes: list[str] = []
    model = logged_workload.pop("model", "") if request.model == "" else request.model
    if model == "":
        raise InvalidInput(
            "the log does not state which model was trained; pass --model NAME, or --spec FILE", log.source
        )
    global_batch = request.global_batch or logged_workload.pop("global_batch", 0)
    if not global_batch:
        raise InvalidInput("the log does not state its global batch; pass --global-batch N, or --spec FILE", log.source)
    seq = request.seq or logged_workload.pop("seq", 0)
    if not seq and as_model(model).sample == "tokens":
        raise InvalidInput("the log does not state its sequence length; pass --seq N, or --spec FILE", log.source)
    if not request.compute and "precision" not in logged_workload:
        notes.append("the log does not state what it computes in: bf16 is assumed; set --compute to override")
    cluster, devices, words = _cluster(log, request)
    notes += words
    plan = _plan(log, request, logged_plan, devices)
    workload = {key: value for key, value in logged_workload.items() if key not in ("global_batch", "seq")}
    sizes: dict[str, Any] = {"global_batch": global_batch} | ({"seq": seq} if seq else {})
    completed = replace(request, cluster=cluster, devices=devices, model="", plan="", global_batch=0, seq=0)
    with _named(log):
        if isinstance(model, str | PathLike | Mapping):
            named = _catalogued(model) if isinstance(model, Mapping) else str(model)
            spec = {"name": log.source, "workload": {**workload, "model": named, **sizes}, "plan": plan}
            job = replace(job_of(replace(completed, spec=spec)), name=log.source)
        else:
            job = job_of(replace(completed, model=model, plan=plan, **sizes))
    return job, (*notes, *_differences(log, job))


def _catalogued(model: Mapping[str, Any]) -> str | Mapping[str, Any]:
    """The catalogue's name of a decoder that is written out, where it has one of this very shape."""
    shape = as_model(model).architecture
    if not isinstance(shape, Transformer):
        return model
    built = ((name, build().architecture) for name, build in models.items())
    same = (name for name, known in built if known == replace(shape, name=known.name))
    return next(same, model)


def _cluster(log: TrainingLog, request: JobRequest) -> tuple[Any, int, tuple[str, ...]]:
    """The cluster, how many devices it is to have, 0 for as it is, and a note where its name was guessed."""
    logged = int(log.job.get("cluster", {}).get("devices", 0))
    devices = request.devices or logged
    if request.cluster != "":
        if not isinstance(request.cluster, str) or is_file_name(request.cluster):
            return request.cluster, devices, ()
        entry, written = sized_name(spoken(request.cluster))
        name, devices = str(entry.value), request.devices or written or devices
        if name in clusters and not devices:
            message = "the log does not state how many devices it ran on"
            raise InvalidInput(f"{message}; pass --devices N, or --cluster {name}xN", log.source)
        return name, devices, ()
    if not devices:
        raise InvalidInput(
            "the log does not state on what it ran; pass --cluster NAME and --devices N, or --spec FILE", log.source
        )
    chip = chip_of_device(log.device)
    near = [(name, entry.build(entry.default_devices)) for name, entry in clusters.items()] if chip else []
    for name, built in near:
        if built.chip.name != chip:
            continue
        if devices <= built.topology.dimensions[0].num_devices:
            return name, devices, (f"it ran on {log.device}, so {name} is taken; set --cluster to override",)
        message = f"the log names {log.device}, and not what joins {devices:,} of them"
        raise InvalidInput(f"{message}; pass --cluster {name}, if that is it, or --spec FILE", log.source)
    raise InvalidInput("the log does not name its cluster; pass --cluster NAME, or --spec FILE", log.source)


def _plan(log: TrainingLog, request: JobRequest, logged: dict[str, Any], devices: int) -> Any:
    """The plan that was named, with the log's microbatch where it is a recipe; or else the log's own."""
    if request.plan != "":
        if isinstance(request.plan, str) and request.plan in plans and "microbatch" in logged:
            return {"base": request.plan, "microbatch": logged["microbatch"]}
        return request.plan
    if set(logged) - {"microbatch"} or devices == 1:
        return logged
    ask = f"pass --plan NAME, such as ddp or zero3, or --spec FILE; `dovetail plans` lists {len(plans.names())}"
    raise InvalidInput(f"the log does not state how the work is divided over devices; {ask}", log.source)


def _differences(log: TrainingLog, job: Job) -> list[str]:
    """What the log states otherwise than the job that was named for it."""
    found = []
    logged = log.job.get("workload", {})
    pairs = [(key, logged.get(key, 0), getattr(job.workload, key)) for key in ("global_batch", "seq")]
    pairs.append(("devices", log.job.get("cluster", {}).get("devices", 0), job.cluster.num_devices))
    plan = log.job.get("plan", {})
    pairs += [(key, plan.get(key, 0), getattr(job.plan, key)) for key in _DEGREES]
    for key, logged, named in pairs:
        if logged and logged != named:
            found.append(f"the log has {key} {logged:,}, and the job that is predicted {named:,}")
    return found
