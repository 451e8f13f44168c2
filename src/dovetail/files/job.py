"""The job: what to train, on what, and how, read from one spec."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import create_model

from dovetail.errors import InvalidInput
from dovetail.files.cluster import cluster_of
from dovetail.files.entry import SECTIONS, Entry, check_spec_keys, followed, opened, placed, spoken
from dovetail.files.model import model_of
from dovetail.files.plan import plan_of
from dovetail.files.schema import Shape, Text, Whole, built, checked, shape_of
from dovetail.hardware.cluster import Cluster
from dovetail.plan.plan import Plan
from dovetail.workload.graph import Graph
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Everything one prediction needs."""

    workload: Workload
    cluster: Cluster
    plan: Plan
    name: str


def load_spec(path: str | PathLike[str]) -> Job:
    """The job in the file at `path`, with a plan that can cut its model for its cluster."""
    file = Path(path)
    spec = opened(file)
    check_spec_keys(spec)
    for section in SECTIONS:
        if not spec.has(section):
            raise spec.child(section).refused(f"{section} is missing; a spec has {', '.join(SECTIONS)}")
    shape = checked(spec, _SpecShape)
    workload, graph = _workload_of(spec.child("workload"))
    cluster = cluster_of(spec.child("cluster"))
    plan = plan_of(spec.child("plan"), graph, cluster.num_devices)
    return Job(workload=workload, cluster=cluster, plan=plan, name=shape.name or file.stem)


def load_workload(reference: str) -> Workload:
    """The workload that `reference` names: a catalogue model at its defaults, or a file with a workload in it."""
    return _workload_of(spoken(reference))[0]


def load_plan(reference: str, workload: Workload, cluster: Cluster) -> Plan:
    """The plan that `reference` names, completed and checked for `workload` on `cluster`."""
    return plan_of(spoken(reference), workload.model.forward(workload.sample), cluster.num_devices)


class _SpecShape(Shape):
    workload: object
    cluster: object
    plan: object
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
    )


def _workload_of(entry: Entry) -> tuple[Workload, Graph]:
    """The workload `entry` names or describes, and its forward graph, which shows that it can be built."""
    entry = followed(entry, "workload", models)
    if isinstance(entry.value, str):
        model_entry, given = entry, {}
    else:
        shape = checked(entry, _workload_shape())
        model_entry, given = entry.child("model"), _given(shape, entry)
    model = model_of(model_entry, given.get("seq", 0))
    values: dict[str, Any] = {"global_batch": model.batch, "seq": model.seq} | given
    with placed(entry):
        workload = Workload(model=model, **values)
        sample = workload.sample
    with placed(model_entry):
        try:
            return workload, model.forward(sample)
        except OverflowError:
            raise InvalidInput("the sizes of this workload multiply to more than can be counted") from None


def _given(shape: Any, entry: Entry) -> dict[str, Any]:
    given = {name: getattr(shape, name) for name in shape.model_fields_set if name != "model"}
    if "precision" in given:
        given["precision"] = built(Precision, shape.precision, entry.child("precision"))
    return given
