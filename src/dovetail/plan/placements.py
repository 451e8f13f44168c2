"""Where many plans lie on a network: their distinct placements, and which of them each plan has."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.hardware.topology import Group, Topology
from dovetail.plan.placement import Placement, placement
from dovetail.plan.plans import Plans, distinct
from dovetail.workload.graph import IntArray

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

    def at(self, rows: IntArray) -> Placements:
        """Those of some plans, in the order given."""
        return Placements(groups=self.groups, group_of={name: column[rows] for name, column in self.group_of.items()})


def placements_of(plans: Plans, topology: Topology) -> Placements:
    first, of_plan = distinct(*(getattr(plans, name) for name in _PLACED_BY))
    known: dict[Group, int] = {}
    ids = np.full((len(first), len(GROUPS)), NOWHERE, dtype=np.int64)
    for index, row in enumerate(first):
        try:
            place = placement(plans.plan(int(row)), topology)
        except InvalidInput:
            continue
        ids[index] = [known.setdefault(getattr(place, name), len(known)) for name in GROUPS]
    columns = ids[of_plan]
    return Placements(groups=tuple(known), group_of={name: columns[:, i] for i, name in enumerate(GROUPS)})


def nesting(plans: Plans, topology: Topology) -> Plans:
    """Those whose axes nest in the network."""
    is_placed = placements_of(plans, topology).group_of["tensor"] != NOWHERE
    return plans if is_placed.all() else plans.at(np.flatnonzero(is_placed))


def nowhere(plans: Plans) -> Placements:
    """Every device by itself: no group has a second rank."""
    alone = np.zeros(len(plans), dtype=np.int64)
    return Placements(groups=((),), group_of=dict.fromkeys(GROUPS, alone))
