"""Parts of a job as programs give them: a name, a file, a mapping with the keys of a spec, or the value itself."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dovetail.errors import InvalidInput, did_you_mean
from dovetail.files.chip import chip_of
from dovetail.files.chip_names import full_name
from dovetail.files.entry import Document, Entry, is_file_name, spoken
from dovetail.files.heterogeneous_cluster import any_cluster_of
from dovetail.files.inline_plan import Over
from dovetail.files.job import Spec, forward_graph, plan_on, whole_spec
from dovetail.files.model import model_of
from dovetail.files.plan import NOTHING, changed_plan
from dovetail.files.tree import node_of
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster, HeterogeneousCluster, pools_of
from dovetail.parallel.plan import Plan
from dovetail.parallel.pools import on_pools
from dovetail.workload.model import Model
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+(?<!\.json)(?<!\.yaml)(?<!\.yml)")  # as Hugging Face names models


@runtime_checkable
class ModelHolder(Protocol):
    """What has a model to it, as an answer of `dovetail.capture`, and can be given in its place."""

    @property
    def model(self) -> Model: ...


Written = str | PathLike[str] | Mapping[str, Any]  # a name, a file, or what a file would say
ModelLike = Written | Model | ModelHolder
SpecLike = Spec | Model | ModelHolder  # a whole spec, or a model alone
ChipLike = Written | Chip
ClusterLike = Written | Cluster | HeterogeneousCluster
PlanLike = Written | Plan


def as_entry(given: object, noun: str) -> Entry:
    """`given` as an entry of no file; `noun` is where errors say that something of it is wrong."""
    if isinstance(given, Mapping):
        return Entry(document=Document(), node=node_of(given), path=noun)
    return spoken(reference_of(given, noun))


def reference_of(given: object, noun: str) -> str:
    """A name, or a file's; a path is a file's, however it looks."""
    if isinstance(given, str):
        return given
    if isinstance(given, PathLike):
        name = os.fsdecode(given)
        return name if is_file_name(name) else os.path.join(os.curdir, name)
    message = f"{noun} is a name, a file, a mapping or a value of its own; got {type(given).__name__}"
    raise InvalidInput(message, noun)


def as_spec(given: SpecLike, keys: tuple[str, ...]) -> Entry | None:
    """The whole of a spec, which says one of `keys`; nothing where a model is given, by name, file or value."""
    if isinstance(given, Model | ModelHolder):
        return None
    if isinstance(given, str) and not is_file_name(given) and (given in models or not Path(given).is_file()):
        return None
    spec = whole_spec(given)
    return spec if any(spec.has(key) for key in keys) else None


def as_model(given: ModelLike, seq: int = 0) -> Model:
    """The model; `seq` is how long a sample is if nothing says it, 0 for unknown."""
    if isinstance(given, Model):
        return given
    if isinstance(given, ModelHolder):
        return given.model
    if isinstance(given, str) and _HUB_NAME.fullmatch(given) and not os.path.exists(given):
        short = given.rpartition("/")[2].casefold()
        close = did_you_mean(short, models.names())
        hint = close if "did you mean" in close else ""
        way_out = "name one that `dovetail models` lists, or its config.json"
        raise InvalidInput(f"there is no file {given!r}, and nothing is downloaded; {way_out}{hint}", "--model")
    try:
        return model_of(as_entry(given, "model"), seq)
    except InvalidInput as error:
        if not error.message.startswith("no model is named"):
            raise
        apart = " " if error.message.endswith("?") else "; "
        raise InvalidInput(f"{error.message}{apart}others go by their config.json", error.where) from None


def as_chip(given: ChipLike) -> Chip:
    """The chip, also by the beginning of its name."""
    if isinstance(given, Chip):
        return given
    return chip_of(as_entry(full_name(given, "--chip") if isinstance(given, str) else given, "chip"))


def as_cluster(given: ClusterLike, num_devices: int = 0) -> AnyCluster:
    """The cluster; with `num_devices`, of that size, which only one by name can be given."""
    if not isinstance(given, Cluster | HeterogeneousCluster):
        return any_cluster_of(as_entry(given, "cluster"), num_devices)
    if num_devices not in (0, given.num_devices):
        message = f"{given.name} has {given.num_devices:,} devices and is given whole; build it with {num_devices:,}"
        raise InvalidInput(f"{message}, or name one of the catalogue")
    return given


def as_plan(given: PlanLike, workload: Workload, cluster: AnyCluster, over: Over = NOTHING) -> Plan:
    """The plan with the decisions of `over` in its place, completed, and checked for `workload` on `cluster`."""
    graph = forward_graph(workload)
    if isinstance(given, Plan):
        num_by_pool = tuple(part.num_devices for part in pools_of(cluster))
        return on_pools(changed_plan(given, graph, num_by_pool, over), cluster)
    return plan_on(as_entry(given, "plan"), graph, cluster, over)
