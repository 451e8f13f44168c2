"""Single keys of a spec by their paths, such as plan.tp or chip.hbm.bandwidth, changed of a job that is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from dovetail.cost.engines import with_endpoint
from dovetail.errors import DovetailError, InvalidInput, did_you_mean
from dovetail.files.chip import changed_chip, chip_of, parts_of
from dovetail.files.entry import Document, Entry
from dovetail.files.inline_plan import plan_key
from dovetail.files.schema import built, checked, shape_of, written_keys
from dovetail.files.text import quoted
from dovetail.files.tree import node_of
from dovetail.hardware.chip import Chip
from dovetail.hardware.cluster import Cluster
from dovetail.hardware.heterogeneous import AnyCluster
from dovetail.hardware.link import Link
from dovetail.parallel.plan import Plan
from dovetail.units import quantity
from dovetail.workload.lora import Lora
from dovetail.workload.optimizer import Precision
from dovetail.workload.routing import Routing
from dovetail.workload.workload import Workload

# What has an option of its own, by the paths that a spec has it under.
OPTION_PATHS = {
    "model": "model",
    "workload.model": "model",
    "global_batch": "global_batch",
    "workload.global_batch": "global_batch",
    "seq": "seq",
    "workload.seq": "seq",
    "compute": "compute",
    "lora_rank": "lora_rank",
    "lora_targets": "lora_targets",
    "workload.precision.compute": "compute",
    "cluster": "cluster",
    "cluster.name": "cluster",
    "devices": "devices",
    "cluster.devices": "devices",
    "plan": "plan",
    "headroom": "headroom",
    "cluster.headroom": "headroom",
    "jitter": "jitter",
    "cluster.jitter": "jitter",
}
WORKLOAD_KEYS = ("attention", "kernels")
PARTS = {"precision": Precision, "routing": Routing, "lora": Lora}  # of a workload
LINK_KEYS = {"bandwidth": "bytes_per_s", "latency": "s", "oversubscription": ""}
PLAN, CHIP, WORKLOAD, CLUSTER = "plan", "chip", "workload", "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One key of a spec and its value as it is written; `section` says of what it is, `path` the rest of the key."""

    section: str
    path: str
    value: Any
    key: str  # as given


def change_of(key: str, value: Any) -> Change:
    """The change that `key` names: of an option, of a plan, a chip, a cluster or a workload."""
    word = key.strip()
    if word in OPTION_PATHS:
        return Change(section="option", path=OPTION_PATHS[word], value=value, key=key)
    head, _, rest = word.partition(".")
    if head == PLAN and rest:
        return Change(section=PLAN, path=_plan_field(rest, key), value=value, key=key)
    if head == CLUSTER and (rest == CHIP or rest.startswith("chip.")):
        head, _, rest = rest.partition(".")
    if head == CHIP:
        if rest and rest not in chip_paths():
            raise _unknown(key)
        return Change(section=CHIP, path=rest, value=value, key=key)
    if head == CLUSTER and rest:
        return Change(section=CLUSTER, path=rest.removeprefix("topology."), value=value, key=key)
    if head == WORKLOAD and rest in workload_paths():
        return Change(section=WORKLOAD, path=rest, value=value, key=key)
    if not rest:
        try:
            return Change(section=PLAN, path=plan_key(word), value=value, key=key)
        except InvalidInput:
            pass  # refused below, with every path there is
    raise _unknown(key)


def _plan_field(name: str, key: str) -> str:
    try:
        return plan_key(name)
    except InvalidInput as error:
        raise InvalidInput(error.message, key) from None


def _unknown(key: str) -> InvalidInput:
    return InvalidInput(f"no key of a spec is named {quoted(key)}{did_you_mean(key[:100], known_paths())}")


def known_paths() -> tuple[str, ...]:
    """Every path that can be changed, but for the links of a cluster, whose names are its own."""
    plan = (f"plan.{field.name}" for field in fields(Plan) if field.name != "overlap")
    return (
        *OPTION_PATHS,
        *plan,
        *(f"chip.{path}" for path in chip_paths()),
        *(f"workload.{path}" for path in workload_paths()),
        "cluster.endpoint",
    )


def chip_paths() -> tuple[str, ...]:
    return tuple(_paths(Chip))


def workload_paths() -> tuple[str, ...]:
    parts = PARTS.items()
    return (*WORKLOAD_KEYS, *(f"{name}.{key}" for name, part in parts for key in written_keys(part).values()))


def _paths(value_type: type[Any], before: str = "") -> Iterator[str]:
    parts, rates = parts_of(value_type), ("rates",)
    for name, key in written_keys(value_type).items():
        if name in parts:
            yield from _paths(parts[name], f"{before}{key}.")
        elif name in rates:
            yield from (f"{before}{key}.{dtype}" for dtype in ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4"))
        else:
            yield f"{before}{key}"


def options_of(changes: tuple[Change, ...]) -> dict[str, Any]:
    """Those that are options of a request, by their names."""
    return {one.path: one.value for one in changes if one.section == "option"}


def plan_decisions(changes: tuple[Change, ...]) -> dict[str, Any]:
    """Those of the plan, by field."""
    found: dict[str, Any] = {}
    for one in changes:
        if one.section == PLAN:
            head, _, inner = one.path.partition(".")
            if inner:
                found.setdefault(head, {})[inner] = one.value
            else:
                found[head] = one.value
    return found


def changed_workload(workload: Workload, changes: tuple[Change, ...]) -> Workload:
    """`workload` with the keys of `changes` that are its own."""
    for one in changes:
        if one.section != WORKLOAD:
            continue
        head, _, rest = one.path.partition(".")
        with _at(one):
            if not rest:
                workload = replace(workload, **{head: one.value})
                continue
            entry = _entry({rest: one.value}, f"workload.{head}")
            part = PARTS[head]
            shape = checked(entry, shape_of(part, is_partial=True))
            workload = replace(workload, **{head: built(part, shape, entry, getattr(workload, head))})
    return workload


def changed_cluster(cluster: AnyCluster, changes: tuple[Change, ...]) -> AnyCluster:
    """`cluster` with the keys of `changes` that are its own or its chip's."""
    for one in changes:
        if one.section not in (CHIP, CLUSTER):
            continue
        with _at(one):
            if not isinstance(cluster, Cluster):
                raise InvalidInput("this cluster has several pools; change their files instead")
            if one.section == CLUSTER:
                cluster = _with_key(cluster, one)
            elif not one.path:
                cluster = replace(cluster, chip=chip_of(_entry(one.value, "chip")))
            else:
                cluster = replace(cluster, chip=changed_chip(cluster.chip, _entry(_nested(one), "chip")))
    return cluster


def _with_key(cluster: Cluster, change: Change) -> Cluster:
    """A link by the name of its dimension, or another endpoint."""
    name, _, key = change.path.rpartition(".")
    dimensions = cluster.topology.dimensions
    names = [dimension.name for dimension in dimensions]
    if change.path == "endpoint":
        return replace(cluster, chip=with_endpoint(cluster.chip, str(change.value)))
    if name not in names or key not in LINK_KEYS:
        known = [f"cluster.{each}.{figure}" for each in names for figure in LINK_KEYS]
        known += ["cluster.devices", "cluster.name", "cluster.endpoint"]
        raise InvalidInput(f"no key of {cluster.name} is named {quoted(change.key)}{did_you_mean(change.key, known)}")
    place = names.index(name)
    link = dimensions[place].link
    if key == "oversubscription":
        changed = replace(dimensions[place], oversubscription=float(change.value))
    else:
        amount = quantity(change.value, LINK_KEYS[key])
        is_latency = key == "latency"
        changed = replace(
            dimensions[place],
            link=Link(
                bandwidth_bytes_per_s=link.bandwidth_bytes_per_s if is_latency else amount,
                latency_s=amount if is_latency else link.latency_s,
            ),
        )
    others = (*dimensions[:place], changed, *dimensions[place + 1 :])
    return replace(cluster, topology=replace(cluster.topology, dimensions=others))


def _nested(change: Change) -> dict[str, Any]:
    """`hbm.bandwidth` as a mapping in a mapping."""
    found: Any = change.value
    for key in reversed(change.path.split(".")):
        found = {key: found}
    nested: dict[str, Any] = found
    return nested


def _entry(value: Any, path: str) -> Entry:
    return Entry(document=Document(), node=node_of(value), path=path)


class _at:  # noqa: N801  # read as a word: with _at(change)
    """Places errors at the key that was given."""

    def __init__(self, change: Change) -> None:
        self._key = change.key

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, DovetailError):
            raise type(error)(error.message, self._key) from None


def set_values(changes: Mapping[str, Any]) -> tuple[Change, ...]:
    """A change for every key."""
    return tuple(change_of(key, value) for key, value in changes.items())
