"""What was asked on the command line, and the job it comes to."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path

from dovetail.cli.kinds import CATALOGUES, kind_of_file
from dovetail.errors import DovetailError, InvalidInput
from dovetail.files import Job, load_model, load_plan, load_spec, load_workload
from dovetail.files.entry import described, is_file_name
from dovetail.files.job import OpenJob, check_dtypes, forward_graph, has_plan, load_constraints, load_open_spec
from dovetail.files.mixed_cluster import load_any_cluster
from dovetail.files.schema import MAX_WHOLE
from dovetail.files.text import one_line
from dovetail.hardware.mixed import AnyCluster, MixedCluster
from dovetail.plan.plan import Plan
from dovetail.units import count_of
from dovetail.workload.model import Model
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

_WHOLE = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")
PARTS = ("model", "cluster", "plan")
_MAX_DIGITS = 4000  # Python refuses to read longer ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command's arguments; empty or 0 where nothing was said."""

    spec: str = ""
    model: str = ""
    cluster: str = ""
    plan: str = ""
    devices: int = 0
    global_batch: int = 0
    seq: int = 0
    compute: str = ""

    @property
    def overrides(self) -> bool:
        words, counts = (self.model, self.cluster, self.plan, self.compute), (self.devices, self.global_batch, self.seq)
        return any(words) or any(counts)


def count(option: str, text: str | None) -> int:
    """The count that `option` was given, 0 where it was not; the bounds are those of counts in a spec."""
    if text is None:
        return 0
    if not _WHOLE.fullmatch(text.strip()):
        raise InvalidInput(f"{option} must be a whole number; got {described(text)}")
    if len(text) > _MAX_DIGITS:
        raise InvalidInput(f"{option} must be at most {MAX_WHOLE:,}; got a number of {len(text):,} digits")
    value = int(text)
    if not 1 <= value <= MAX_WHOLE:
        bound = "at least 1" if value < 1 else f"at most {MAX_WHOLE:,}"
        raise InvalidInput(f"{option} must be {bound}; got {described(value)}")
    return value


def num_tokens(option: str, text: str) -> float:
    """The many tokens that `option` was given, as in 15T; 0 where it was not."""
    if not text:
        return 0.0
    try:
        return count_of(text)
    except InvalidInput as error:
        raise InvalidInput(error.message, option) from None


def asked_of(
    *,
    spec: str,
    model: str,
    cluster: str,
    devices: str | None,
    global_batch: str | None,
    seq: str | None,
    compute: str | None,
    plan: str = "",
) -> Asked:
    """The arguments that commands share, as Typer has them."""
    return Asked(
        spec=spec,
        model=model,
        cluster=cluster,
        plan=plan,
        devices=count("--devices", devices),
        global_batch=count("--global-batch", global_batch),
        seq=count("--seq", seq),
        compute=compute or "",
    )


@contextmanager
def placed_in(spec: str) -> Iterator[None]:
    """Names the spec in errors that do not, be it because they come from further up or cut a long path short."""
    try:
        yield
    except DovetailError as error:
        if one_line(spec) in str(error):
            raise
        where = ": ".join(part for part in (spec, error.where) if part)
        raise type(error)(error.message, where) from None


def job_of(asked: Asked) -> Job:
    """The job of a spec, or of a spec with other words for some of it, or of words alone."""
    with placed_in(asked.spec):
        _check_is_spec(asked, PARTS)
    if asked.spec and not asked.overrides:
        with placed_in(asked.spec):
            return load_spec(asked.spec)
    workload, cluster = _parts(asked, PARTS)
    plan = load_plan(asked.plan or asked.spec, workload, cluster)
    return Job(workload=workload, cluster=cluster, plan=plan, name=_name(asked))


def open_job_of(asked: Asked) -> tuple[OpenJob, tuple[str, ...]]:
    """As `job_of`, where the plan is to be found, and why a spec's own plan is left out where options rule it out."""
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
    return f"{one_line(Path(asked.spec).stem)}, changed" if asked.spec else ""


def _check_is_spec(asked: Asked, options: tuple[str, ...]) -> None:
    """A model or another part given where the spec belongs is pointed to its option."""
    name = asked.spec
    if not name:
        return
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
        if not asked.spec and not getattr(asked, option):
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
    model = load_model(asked.model, asked.seq) if asked.model else None
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
    reference = asked.cluster or asked.spec
    cluster = load_any_cluster(reference)
    if not asked.devices or asked.devices == cluster.num_devices:
        return cluster
    if isinstance(cluster, MixedCluster):
        raise InvalidInput("--devices resizes catalogue clusters, and this one has parts; change their devices instead")
    try:
        return load_any_cluster(reference, asked.devices)
    except DovetailError as error:
        raise type(error)(error.message, "--devices") from None
