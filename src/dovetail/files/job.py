"""The job: what to train, on what, and how, read from one spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from pydantic import create_model

from dovetail.errors import InvalidInput, NotModelled
from dovetail.files.entry import SECTIONS, Document, Entry, check_spec_keys, followed, opened, placed, spoken
from dovetail.files.heterogeneous_cluster import any_cluster_of
from dovetail.files.inline_plan import Over
from dovetail.files.model import model_of
from dovetail.files.plan import NOTHING, plan_of
from dovetail.files.plan_space import space_of
from dovetail.files.schema import Shape, Text, Whole, built, checked, shape_of
from dovetail.files.text import one_line
from dovetail.files.tree import node_of
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, chips_of, pools_of
from dovetail.parallel.placement import nested
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import on_pools
from dovetail.search.planners.constraints import Constraint
from dovetail.workload.graph import Graph
from dovetail.workload.lora import Lora
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import Routing
from dovetail.workload.workload import Workload

Spec = str | PathLike[str] | Mapping[str, Any]  # a file, or what one would say


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything one prediction needs."""

    workload: Workload
    cluster: AnyCluster
    plan: Plan
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenJob:
    """A job whose plan is to be found: what it must keep to, and the user's own plan where there is one."""

    workload: Workload
    cluster: AnyCluster
    given: tuple[Plan, ...]
    constraints: tuple[Constraint, ...]
    name: str


def load_spec(spec: Spec) -> Job:
    """The job in the file at `spec`, with a plan that can cut its model for its cluster."""
    found = _job_of(_checked_spec(spec, SECTIONS), spec)
    return Job(workload=found.workload, cluster=found.cluster, plan=found.given[0], name=found.name)


def load_open_spec(spec: Spec) -> OpenJob:
    """As `load_spec`, of a spec that need not have a plan."""
    return _job_of(_checked_spec(spec, SECTIONS[:2]), spec)


def load_constraints(spec: Spec) -> tuple[Constraint, ...]:
    """What the spec says that a plan must keep to."""
    whole = whole_spec(spec)
    return space_of(whole.child("space")) if whole.has("space") else ()


def has_plan(spec: Spec) -> bool:
    return whole_spec(spec).has("plan")


def whole_spec(spec: Spec) -> Entry:
    """All that a spec says, be it a file or a mapping of a program."""
    if isinstance(spec, Mapping):
        return Entry(document=Document(), node=node_of(spec))
    return opened(Path(spec))


def section_of(spec: Spec, noun: str) -> Entry:
    """Where a spec says its `noun`: its own name, if it is a file, to be followed."""
    if not isinstance(spec, Mapping):
        return spoken(fspath(spec))
    whole = whole_spec(spec)
    check_spec_keys(whole)
    return whole.child(noun)


def _checked_spec(given: Spec, sections: tuple[str, ...]) -> Entry:
    spec = whole_spec(given)
    check_spec_keys(spec)
    for section in sections:
        if not spec.has(section):
            raise spec.child(section).refused(f"{section} is missing; a spec has {', '.join(sections)}")
    return spec


def _job_of(spec: Entry, given: Spec) -> OpenJob:
    shape = checked(spec, _SpecShape)
    workload, graph = workload_of(spec.child("workload"))
    cluster = any_cluster_of(spec.child("cluster"))
    with placed(spec.child("workload")):
        check_dtypes(workload, cluster)
    return OpenJob(
        workload=workload,
        cluster=cluster,
        given=(plan_on(spec.child("plan"), graph, cluster),) if spec.has("plan") else (),
        constraints=space_of(spec.child("space")) if spec.has("space") else (),
        name=shape.name or spec_name(given),
    )


def spec_name(spec: Spec) -> str:
    """What a job is called whose spec does not say: as its file is, and nothing without one."""
    return "" if isinstance(spec, Mapping) else one_line(Path(spec).stem)


def load_workload(reference: Spec) -> Workload:
    """The workload that `reference` names: a catalogue model at its defaults, or a file with a workload in it."""
    return workload_of(section_of(reference, "workload"))[0]


def load_plan(reference: Spec, workload: Workload, cluster: AnyCluster, over: Over = NOTHING) -> Plan:
    """The plan that `reference` names with the decisions of `over` in its place, for `workload` on `cluster`."""
    return plan_on(section_of(reference, "plan"), forward_graph(workload), cluster, over)


def plan_on(entry: Entry, graph: Graph, cluster: AnyCluster, over: Over = NOTHING) -> Plan:
    plan = plan_of(entry, graph, *(pool.num_devices for pool in pools_of(cluster)), over=over)
    with placed(entry):
        return on_pools(nested(plan, cluster.topology) if isinstance(cluster, Cluster) else plan, cluster)


@contextmanager
def countable() -> Iterator[None]:
    """Sizes each within bounds may still multiply to more than 64 bits hold: that is input, not a mistake of ours."""
    try:
        yield
    except OverflowError:
        raise InvalidInput("the sizes of this workload multiply to more than can be counted; make it smaller") from None


def forward_graph(workload: Workload) -> Graph:
    with countable():
        return workload.forward_graph()


def check_dtypes(workload: Workload, cluster: AnyCluster) -> None:
    """As `check_dtype`, of every chip of `cluster`."""
    for chip in chips_of(cluster):
        check_dtype(workload, chip)


def check_dtype(workload: Workload, chip: Chip) -> None:
    """Raises unless `chip` can multiply in the dtype the workload computes in."""
    dtype, known = workload.precision.compute, [name for name, _ in chip.tensor.rates]
    if dtype not in known:
        other = next((name for name in ("bf16", "fp16") if name in known), known[0])
        message = f"{chip.name} has no peak rate for {dtype}, only for {', '.join(known)}"
        way_out = f"set precision: {{compute: {other}}} in the workload, or --compute {other}"
        raise InvalidInput(f"{message}; {way_out}", "precision.compute")


class _SpecShape(Shape):
    workload: object
    cluster: object
    plan: object = None
    space: object = None
    profile: object = None
    name: Text = ""


@cache
def _workload_shape() -> type[Shape]:
    precision = shape_of(Precision)
    return create_model(
        "WorkloadShape",
        __base__=Shape,
        model=(object, ...),
        global_batch=(Whole, 0),
        seq=(Whole, 0),
        attention=(Text, ""),
        kernels=(Text, ""),
        precision=(precision, None),
        routing=(shape_of(Routing), None),
        lora=(shape_of(Lora), None),
    )


def workload_of(entry: Entry) -> tuple[Workload, Graph]:
    """The workload `entry` names or describes, and its forward graph, which shows that it can be built."""
    entry = followed(entry, "workload", models)
    if isinstance(entry.value, str):
        model_entry, given = entry, {}
    else:
        _check_adapters(entry)
        shape = checked(entry, _workload_shape())
        model_entry, given = entry.child("model"), _given(shape, entry)
    model = model_of(model_entry, given.get("seq", 0))
    values: dict[str, Any] = {"global_batch": model.batch, "seq": model.seq} | given
    with placed(entry):  # a length that the model has not learnt is the workload's to change
        workload = Workload(model=model, **values)
        return workload, forward_graph(workload)


def _check_adapters(entry: Entry) -> None:
    """Words of other tools for frozen weights in 4 or 8 bits, which are not modelled."""
    lora = entry.child("lora") if isinstance(entry.value, dict) and entry.has("lora") else None
    if lora is None or not isinstance(lora.value, dict):
        return
    for key in ("quantization", "quantize", "bits", "load_in_4bit", "load_in_8bit", "base"):
        if lora.has(key):
            message = "frozen weights in 4 or 8 bits (QLoRA) are not modelled"
            raise NotModelled(f"{message}; leave {key} out, and they are kept in precision.weights", "lora")


def _given(shape: Any, entry: Entry) -> dict[str, Any]:
    given = {name: getattr(shape, name) for name in shape.model_fields_set if name != "model"}
    for name, value in (("precision", Precision), ("routing", Routing), ("lora", Lora)):
        if name in given:
            given[name] = built(value, getattr(shape, name), entry.child(name))
    return given
