"""The distinct shares that many plans give a device of a model's blocks, each as columns of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain

import numpy as np

from dovetail.plan.plans import Plans, distinct
from dovetail.workload.graph import Axis, Graph, IntArray, Ops

_CUT_BY = (
    "tensor_parallel",
    "sequence_parallel",
    "context_parallel",
    "expert_parallel",
    "expert_tensor_parallel",
    "microbatch",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cuts:
    """Distinct cuts, and which of them each plan makes.

    `degrees` says by how much each axis divides what it may divide. Optimizer state, which depends on the
    data-parallel degree too, is not cut here: its axes divide by 1.
    """

    of_plan: IntArray
    first_plan: IntArray  # of each cut: a plan that makes it
    degrees: dict[Axis, IntArray]

    def __len__(self) -> int:
        return len(self.first_plan)


def cuts_of(plans: Plans, graph: Graph) -> Cuts:
    """The cuts that `plans` make of `graph`: what devices compute and send in one microbatch differs only by them."""
    first, of_plan = distinct(*(getattr(plans, name) for name in _CUT_BY))
    return Cuts(of_plan=of_plan, first_plan=first, degrees=degrees_of(plans.at(first), graph))


def degrees_of(plans: Plans, graph: Graph) -> dict[Axis, IntArray]:
    """How far each axis divides what it may divide in each of `plans`, microbatches included in DATA."""
    tp = plans.tensor_parallel
    num_parts = graph.batch // plans.microbatch  # replicas times microbatches
    experts = plans.expert_parallel * plans.expert_tensor_parallel
    ones = np.ones_like(tp)
    return {
        Axis.DATA: num_parts,
        Axis.CONTEXT: plans.context_parallel,
        Axis.TENSOR: tp,
        Axis.SEQUENCE: np.where(plans.sequence_parallel, tp, 1),
        Axis.KV: np.minimum(tp, graph.num_kv_heads),
        Axis.EXPERT: plans.expert_parallel,
        Axis.EXPERT_TENSOR: plans.expert_tensor_parallel,
        Axis.EXPERT_DATA: tp * plans.context_parallel * num_parts // experts,
        Axis.STATE: ones,
        Axis.EXPERT_STATE: ones,
    }


def divisors(split: IntArray, degrees: dict[Axis, IntArray]) -> IntArray:
    """By how much the axes in each of `split` divide: cuts by the shape of `split`."""
    occurs = np.zeros(2 * int(max(Axis)), dtype=bool)
    occurs[split] = True
    codes = np.flatnonzero(occurs)
    factors = np.ones((len(degrees[Axis.DATA]), len(occurs)), dtype=np.int64)
    for axis, degree in degrees.items():
        here = codes[(codes & int(axis)) != 0]
        factors[:, here] *= degree[:, None]
    return factors[:, split]


def local_elements(elements: IntArray, split: IntArray, degrees: dict[Axis, IntArray]) -> IntArray:
    """A device's share of each extent under each cut, rounded up: what does not divide is padded (vocabularies)."""
    return -(-elements // divisors(split, degrees))


def local_ops(ops: Ops, degrees: dict[Axis, IntArray]) -> Ops:
    """`ops` as each cut leaves them to a device, one cut after the other, without edges."""
    num_cuts, num_rows = len(degrees[Axis.DATA]), len(ops)
    whole, split = (
        np.concatenate([getattr(ops, name).reshape(num_rows, -1) for name in names], axis=1)
        for names in (_CUT_COLUMNS, _CUT_COLUMNS.values())
    )
    local = local_elements(whole, split, degrees).reshape(num_cuts * num_rows, -1)
    extents, *others = np.split(local, range(ops.extents.shape[1], local.shape[1]), axis=1)
    repeated = ops.taken(np.tile(np.arange(num_rows), num_cuts))
    weights, gradients, biases = (column[:, 0] for column in others)
    return replace(
        repeated, extents=extents, weight_elements=weights, gradient_elements=gradients, bias_elements=biases
    )


def joined_ops(parts: Sequence[Ops]) -> Ops:
    """The rows of all of `parts`, one after the other, without edges."""
    names = tuple(chain.from_iterable(part.names for part in parts))
    no_edges = np.zeros(len(names) + 1, dtype=np.int64)
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Ops)
        if field.name not in ("names", "edge_start", "edge_to")
    }
    return Ops(names=names, edge_start=no_edges, edge_to=no_edges[:0], **columns)


_CUT_COLUMNS = {
    "extents": "splits",
    "weight_elements": "weight_split",
    "gradient_elements": "gradient_split",
    "bias_elements": "bias_split",
}
