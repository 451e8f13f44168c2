"""Plans: by name, written out, or a named plan with some decisions changed."""

from __future__ import annotations

import dataclasses
from functools import cache
from types import SimpleNamespace
from typing import Any

from pydantic import create_model

from dovetail.errors import InvalidInput
from dovetail.files.entry import Entry, described, followed, placed
from dovetail.files.filling import check_fills, filling
from dovetail.files.schema import Shape, Text, checked, shape_of, values_of, written_keys
from dovetail.parallel.check import check_plan
from dovetail.parallel.plan import Overlap, Plan
from dovetail.parallel.recipes import plans
from dovetail.step.pipelines import check_schedule
from dovetail.workload.graph import Graph

SHORT_NAMES = {
    "tp": "tensor_parallel",
    "sp": "sequence_parallel",
    "cp": "context_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "ep": "expert_parallel",
    "etp": "expert_tensor_parallel",
}
OLD_NAMES = {  # as 0.1 wrote them: still read
    "context_exchange": "context_comm_type",
    "sends_once": "deduplicated_dispatch",
    "stage_parts": "stage_pools",
}

Draft = dict[str, Any]  # the decisions taken so far, by field of Plan; what is left out is decided by `plan_of`


def plan_of(entry: Entry, graph: Graph, *num_by_pool: int) -> Plan:
    """The plan `entry` names or describes, completed and checked for `graph` on so many devices, of each pool.

    Data parallelism left out fills the cluster. Expert tensor parallelism left out follows tensor parallelism where
    there are experts to cut, as Megatron-LM has it, and is 1 elsewhere. ZB-V comes past each stage twice, unasked.
    """
    num_devices = sum(num_by_pool)
    draft, entry, keys = _draft(entry)
    if "expert_tensor_parallel" not in draft and graph.has_experts:
        draft["expert_tensor_parallel"] = draft.get("tensor_parallel", 1)
    if draft.get("schedule") == "zb-v":
        draft.setdefault("interleave", 2)
    with placed(entry, keys):
        plan = Plan(**draft)
        if "data_parallel" not in draft:
            plan = filling(plan, graph, num_by_pool)
        elif isinstance(entry.value, str) and plan.num_devices != num_devices:
            raise _made_for_others(entry.value, plan, num_devices)
        return suited(plan, graph, *num_by_pool)


def suited(plan: Plan, graph: Graph, *num_by_pool: int) -> Plan:
    """`plan`, complete as it is, once it is checked for `graph` on so many devices, of each pool."""
    check_fills(plan, num_by_pool)
    check_plan(plan, graph, sum(num_by_pool))
    check_schedule(plan, plan.num_microbatches(graph.batch))
    return plan


def own_devices(entry: Entry) -> int:
    """How many devices the plan that `entry` names or describes takes, with one copy unless it says more."""
    draft, entry, keys = _draft(entry)
    with placed(entry, keys):
        return Plan(**draft).num_devices


def _made_for_others(name: str, plan: Plan, num_devices: int) -> InvalidInput:
    """A named plan for one number of devices, on a cluster of another."""
    rest = plan.num_devices // plan.data_parallel
    way_out = f"give the cluster {plan.num_devices} devices"
    if num_devices % rest == 0:
        way_out += f", or say plan: {{base: {name}, data_parallel: {num_devices // rest}}}"
    return InvalidInput(f"{name} is a plan for {plan.num_devices:,} devices, and there are {num_devices:,}; {way_out}")


def _draft(entry: Entry) -> tuple[Draft, Entry, dict[str, str]]:
    """The decisions that `entry` takes, where they were written, and the keys they were written under."""
    entry = followed(entry, "plan", plans)
    if isinstance(entry.value, str):
        with placed(entry):
            recipe = plans[entry.value]
        return _decided(recipe.plan, is_filling=recipe.fills_data_parallel), entry, {}
    base = _draft(entry.child("base"))[0] if entry.has("base") else {}
    written, keys = _long_names(entry)
    shape = checked(entry, _plan_shape(), written=written, keys=keys)
    return base | values_of(Plan, shape, entry, SimpleNamespace(**{"overlap": Overlap()} | base)), entry, keys


def _decided(plan: Plan, *, is_filling: bool) -> Draft:
    untouched = Plan()
    draft = {f.name: getattr(plan, f.name) for f in dataclasses.fields(plan)}
    draft = {name: value for name, value in draft.items() if value != getattr(untouched, name)}
    if not is_filling:
        return draft | {"data_parallel": plan.data_parallel}
    return {name: value for name, value in draft.items() if name != "data_parallel"}


@cache
def _plan_shape() -> type[Shape]:
    return create_model("PlanShape", __base__=shape_of(Plan), base=(Text, ""))


def _long_names(entry: Entry) -> tuple[dict[str, Any], dict[str, str]]:
    """What was written, under the names of Plan's fields, and the key each was written under."""
    written: dict[str, Any] = entry.node.plain()
    keys = dict(written_keys(Plan))
    for short, long in (SHORT_NAMES | OLD_NAMES).items():
        if short in written:
            if long in written:
                kept = f"to keep {long}: {described(written[long])}"
                raise entry.child(short).refused(f"{short} and {long} are one thing said twice; remove {short} {kept}")
            written[long] = written.pop(short)
            keys[long] = short
    if isinstance(written.get("recompute"), dict):  # tensors with their places, as a mapping or as one text
        written["recompute"] = ",".join(f"{tensor}={place}" for tensor, place in written["recompute"].items())
    return written, keys
