"""Plans: by name, written out, or a named plan with some decisions changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any

from pydantic import create_model

from dovetail.errors import DovetailError, InvalidInput
from dovetail.files.entry import Document, Entry, described, followed, placed
from dovetail.files.filling import check_fills, filling
from dovetail.files.inline_plan import OPTIONS, SHORT_NAMES, Over, inline_plan, is_inline, overridden
from dovetail.files.schema import Shape, Text, checked, shape_of, values_of, written_keys
from dovetail.files.text import is_file
from dovetail.files.tree import node_of
from dovetail.parallel.check import check_plan
from dovetail.parallel.dispatchers import ALL_TO_ALL, DEEPEP
from dovetail.parallel.plan import Overlap, Plan
from dovetail.parallel.recipes import plans
from dovetail.step.pipelines import check_schedule
from dovetail.workload.graph import Graph

OLD_NAMES = {  # as 0.1 wrote them: still read
    "context_exchange": "context_comm_type",
    "stage_parts": "stage_pools",
}

OLD_SWITCHES = {  # switches of 0.1 that have become names: what they were, what it is now, and what on and off are
    old: ("dispatcher", {True: DEEPEP, False: ALL_TO_ALL}) for old in ("sends_once", "deduplicated_dispatch")
}
FULLY_SHARDED = ("fsdp", "fsdp1", "fsdp2")  # PyTorch's words for ZeRO-3
NOTHING: Over = MappingProxyType({})
Draft = dict[str, Any]  # the decisions taken so far, by field of Plan; what is left out is decided by `plan_of`


def plan_of(entry: Entry, graph: Graph, *num_by_pool: int, over: Over = NOTHING) -> Plan:
    """The plan `entry` names or describes, completed and checked for `graph` on so many devices, of each pool.

    `over` are decisions in place of its own, as options such as --tp give them. Data parallelism left out fills the
    cluster. Expert tensor parallelism left out follows tensor parallelism where there are experts to cut, as
    Megatron-LM has it, and is 1 elsewhere. ZB-V passes each stage twice by itself.
    """
    draft, entry, keys = _draft(entry)
    if over:
        with _at_option(over):
            draft = overridden(draft, _decisions(over, draft))
    with _at_option(over):
        return _completed(draft, entry, keys, graph, num_by_pool)


def changed_plan(plan: Plan, graph: Graph, num_by_pool: tuple[int, ...], over: Over) -> Plan:
    """A plan of a program with the decisions of `over` in place of its own, completed and checked as a written one."""
    if not over:
        return suited(plan, graph, *num_by_pool)
    draft = _decided(plan, is_filling=False)
    with _at_option(over):
        draft = overridden(draft, _decisions(over, draft))
        return _completed(draft, Entry(document=Document(), node=node_of({})), {}, graph, num_by_pool)


def _completed(draft: Draft, entry: Entry, keys: Mapping[str, str], graph: Graph, num_by_pool: tuple[int, ...]) -> Plan:
    num_devices = sum(num_by_pool)
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


def _decisions(over: Over, draft: Draft) -> Draft:
    """What options decide, checked as a file's keys are."""
    entry = Entry(document=Document(), node=node_of(over))
    shape = checked(entry, _plan_shape())
    return values_of(Plan, shape, entry, SimpleNamespace(**{"overlap": Overlap()} | draft))


@contextmanager
def _at_option(over: Over) -> Iterator[None]:
    """Errors of a decision that an option takes name the option."""
    try:
        yield
    except DovetailError as error:
        field = error.where.rpartition(" ")[2].rpartition(".")[2].partition("[")[0]
        if SHORT_NAMES.get(field, field) not in over:
            raise
        raise type(error)(error.message, option_of(SHORT_NAMES.get(field, field))) from None


def option_of(field: str) -> str:
    """The option that decides a field of Plan."""
    return next((f"--{option}" for option, decided in OPTIONS.items() if decided == field), "--plan")


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
        way_out += f", or set plan: {{base: {name}, data_parallel: {num_devices // rest}}}"
    return InvalidInput(f"{name} is a plan for {plan.num_devices:,} devices, and there are {num_devices:,}; {way_out}")


def _draft(entry: Entry) -> tuple[Draft, Entry, dict[str, str]]:
    """The decisions that `entry` takes, where they were written, and the keys they were written under."""
    entry = followed(_written_out(entry), "plan", plans)
    if isinstance(entry.value, str):
        with placed(entry):
            recipe = plans[entry.value]
        return _decided(recipe.plan, is_filling=recipe.fills_data_parallel), entry, {}
    base = _draft(entry.child("base"))[0] if entry.has("base") else {}
    written, keys = _long_names(entry)
    shape = checked(entry, _plan_shape(), written=written, keys=keys)
    return base | values_of(Plan, shape, entry, SimpleNamespace(**{"overlap": Overlap()} | base)), entry, keys


def _written_out(entry: Entry) -> Entry:
    """A plan in one line as the mapping that it stands for; anything else as it is."""
    text = entry.value
    if isinstance(text, str) and text.casefold() in FULLY_SHARDED and text not in plans:
        raise entry.refused(f"no plan is named {text!r}; fully sharded data parallelism is zero3, or tp=8,zero=3")
    if not isinstance(text, str) or not is_inline(text):
        return entry
    if not entry.document.is_closed and is_file(entry.document.folder / text):
        return entry
    with placed(entry):
        return dataclasses.replace(entry, node=node_of(inline_plan(text)))


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
                raise entry.child(short).refused(f"{short} and {long} set the same thing twice; remove {short} {kept}")
            written[long] = written.pop(short)
            keys[long] = short
    for old, (new, names) in OLD_SWITCHES.items():
        if old in written:
            if new in written:
                raise entry.child(old).refused(f"{old} and {new} set the same thing twice; remove {old}")
            if not isinstance(written[old], bool):
                raise entry.child(old).refused(f"{old} must be true or false; set {new}: {DEEPEP} instead")
            written[new], keys[new] = names[written.pop(old)], old
    if isinstance(written.get("recompute"), dict):  # tensors with their places, as a mapping or as one text
        written["recompute"] = ",".join(f"{tensor}={place}" for tensor, place in written["recompute"].items())
    return written, keys
