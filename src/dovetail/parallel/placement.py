"""Which ranks of the network each parallelism axis gets: axes fill dimensions in `axis_order`, innermost first.

`placement` is of one plan, `placements_of` of many as columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np

from dovetail.columns import check_rows, distinct
from dovetail.errors import InvalidInput
from dovetail.hardware.topology import Group, Span, Topology
from dovetail.parallel.plan import AXES, Plan, Plans
from dovetail.workload.graph import IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The ranks of every kind of group a plan communicates in."""

    tensor: Group
    context: Group
    data: Group  # ranks that hold the same ordinary parameters: context and data together
    pipeline: Group
    expert: Group
    expert_tensor: Group
    expert_data: Group  # ranks that hold the same experts


def placement(plan: Plan, topology: Topology) -> Placement:
    """Maps the axes of `plan` onto the dimensions of `topology`; every axis must nest in those it uses."""
    spans = _axis_spans(plan, topology)
    inner = [span for axis in plan.axis_order if axis in ("tp", "cp", "dp") for span in spans[axis]]
    # expert groups take the same devices in another grouping: expert-tensor, then expert, then the rest
    expert_tensor, rest = _take(inner, plan.expert_tensor_parallel, "expert_tensor_parallel")
    expert, rest = _take(rest, plan.expert_parallel, "expert_parallel")
    return Placement(
        tensor=spans["tp"],
        context=spans["cp"],
        data=tuple(span for axis in plan.axis_order if axis in ("cp", "dp") for span in spans[axis]),
        pipeline=spans["pp"],
        expert=expert,
        expert_tensor=expert_tensor,
        expert_data=tuple(rest),
    )


def nested(plan: Plan, topology: Topology) -> Plan:
    """`plan`, by the first order of axes that nests where its own is the usual one and does not.

    Racks of 64 leave 39 copies to the network between them: pipeline stages then lie inside a rack, as runs on 2,496
    GB200 had them (MLPerf Training v5.0). Where no order nests, the plan is as it was, to be refused by its own.
    """
    if plan.axis_order != AXES or _nests(plan, topology):
        return plan
    orders = sorted(permutations(AXES), key=lambda order: [AXES.index(axis) for axis in order])
    tried = (replace(plan, axis_order=order) for order in orders)
    return next((changed for changed in tried if _nests(changed, topology)), plan)


def _nests(plan: Plan, topology: Topology) -> bool:
    try:
        placement(plan, topology)
    except InvalidInput:
        return False
    return True


def _axis_spans(plan: Plan, topology: Topology) -> dict[str, Group]:
    dimensions = list(topology.dimensions)
    free = [dimension.num_devices for dimension in dimensions]
    spans: dict[str, Group] = {}
    for axis in plan.axis_order:
        need, taken = plan.degree(axis), []
        for index, dimension in enumerate(dimensions):
            part = math.gcd(need, free[index])
            if need == 1 or free[index] == 1:
                continue
            if part == 1:
                break
            taken.append(Span(dimension=dimension, num_ranks=part, stride=dimension.num_devices // free[index]))
            free[index] //= part
            need //= part
            if need > 1 and free[index] > 1:
                break
        if need > 1:
            sizes = " x ".join(str(dimension.num_devices) for dimension in dimensions)
            raise InvalidInput(
                f"{axis}={plan.degree(axis)} does not nest in "
                f"network dimensions of {sizes} devices; use a degree that divides or fills them",
                "axis_order",
            )
        spans[axis] = tuple(taken)
    return spans


def _take(spans: Sequence[Span], degree: int, label: str) -> tuple[Group, list[Span]]:
    """The innermost `degree` ranks of `spans`, and what is left."""
    taken: list[Span] = []
    rest: list[Span] = []
    need = degree
    for span in spans:
        part = math.gcd(need, span.num_ranks)
        if part > 1 and not rest:
            taken.append(Span(dimension=span.dimension, num_ranks=part, stride=span.stride))
            need //= part
            left = span.num_ranks // part
            if left > 1:
                rest.append(Span(dimension=span.dimension, num_ranks=left, stride=span.stride * part))
        else:
            rest.append(span)
    if need > 1:
        raise InvalidInput(
            f"{label}={degree} does not nest in the network's dimensions; use a degree that divides them", label
        )
    return tuple(taken), rest


GROUPS = tuple(field.name for field in fields(Placement))
_PLACED_BY = (
    "tensor_parallel",
    "context_parallel",
    "data_parallel",
    "pipeline_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "axis_order",
)
NOWHERE = -1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placements:
    """`groups` are the distinct groups of ranks; `group_of` says which of them a plan has for each kind of group.

    A plan whose axes do not nest in the network has NOWHERE for all of them.
    """

    groups: tuple[Group, ...]
    group_of: dict[str, IntArray]

    def __post_init__(self) -> None:
        check_rows(self.group_of)

    def at(self, rows: IntArray) -> Placements:
        """Those of some plans, in the order given."""
        return Placements(groups=self.groups, group_of={name: column[rows] for name, column in self.group_of.items()})


def placements_of(plans: Plans, topology: Topology) -> Placements:
    """The placement of each of `plans` on `topology`; distinct degrees and axis orders are placed once."""
    first, of_plan = distinct(*(getattr(plans, name) for name in _PLACED_BY))
    places = _places(topology)
    columns = [getattr(plans, name)[first].tolist() for name in _PLACED_BY]
    ids = np.array(
        [places.ids(plans.axis_orders[order], *degrees) for *degrees, order in zip(*columns, strict=True)],
        dtype=np.int64,
    ).reshape(len(first), len(GROUPS))
    known, local = np.unique(ids, return_inverse=True)
    kept = known[known != NOWHERE]
    local = local.reshape(ids.shape) - (len(known) - len(kept))  # NOWHERE sorts before all groups
    by_plan = np.where(ids == NOWHERE, NOWHERE, local)[of_plan]
    groups = tuple(places.groups[index] for index in kept)
    return Placements(groups=groups, group_of={name: by_plan[:, i] for i, name in enumerate(GROUPS)})


class _Places:
    """Placements on one topology, each found once: searches ask for the same ones many times over."""

    def __init__(self, topology: Topology) -> None:
        self.groups: list[Group] = []
        self._topology = topology
        self._index: dict[Group, int] = {}
        self._ids: dict[tuple[Any, ...], tuple[int, ...]] = {}

    def ids(self, order: tuple[str, ...], *degrees: int) -> tuple[int, ...]:
        """The index among `groups` of each kind of group; NOWHERE where the axes do not nest."""
        key = (order, *degrees)
        if key not in self._ids:
            named: dict[str, Any] = dict(zip(_PLACED_BY, degrees, strict=False))
            plan = Plan(axis_order=order, **named)
            try:
                found = tuple(_group_ids(placement(plan, self._topology), self._index))
            except InvalidInput:
                found = (NOWHERE,) * len(GROUPS)
            self.groups += list(self._index)[len(self.groups) :]
            self._ids[key] = found
        return self._ids[key]


@lru_cache(maxsize=16)
def _places(topology: Topology) -> _Places:
    return _Places(topology)


def table_of_one(place: Placement) -> Placements:
    """The placement of a single plan as columns of one row."""
    groups: dict[Group, int] = {}
    ids = _group_ids(place, groups)
    group_of = {name: np.array([index], dtype=np.int64) for name, index in zip(GROUPS, ids, strict=True)}
    return Placements(groups=tuple(groups), group_of=group_of)


def _group_ids(place: Placement, groups: dict[Group, int]) -> list[int]:
    """The index of each group of `place` among `groups`, to which new ones are added."""
    return [groups.setdefault(getattr(place, name), len(groups)) for name in GROUPS]


def nesting(plans: Plans, topology: Topology) -> Plans:
    """Those whose axes nest in the network."""
    is_placed = placements_of(plans, topology).group_of["tensor"] != NOWHERE
    return plans if is_placed.all() else plans.at(np.flatnonzero(is_placed))


def nowhere(plans: Plans) -> Placements:
    """Every device by itself: no group has a second rank."""
    alone = np.zeros(len(plans), dtype=np.int64)
    return Placements(groups=((),), group_of=dict.fromkeys(GROUPS, alone))
