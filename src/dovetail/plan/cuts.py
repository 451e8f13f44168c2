"""The distinct shares that many plans give a device of a model's blocks, each as columns of operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain

import numpy as np

from dovetail.plan.plan import CONTEXT_EXCHANGES
from dovetail.plan.plans import Plans, distinct
from dovetail.workload.graph import Axis, B, FloatArray, Graph, IntArray, Ops, Phase
from dovetail.workload.operators import Unit, dtype_bytes

_CUT_BY = (
    "tensor_parallel",
    "sequence_parallel",
    "context_parallel",
    "context_exchange",
    "expert_parallel",
    "expert_tensor_parallel",
    "microbatch",
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cuts:
    """Distinct cuts, and which of them each plan makes.

    `degrees` says by how much each axis divides what it may divide. Optimizer state, which depends on the
    data-parallel degree too, is left whole here: its axes divide by 1.
    """

    of_plan: IntArray
    first_plan: IntArray  # of each cut: a plan that makes it
    degrees: dict[Axis, IntArray]
    loads: FloatArray  # of each cut: rows routed to the most loaded device, against the mean

    def __len__(self) -> int:
        return len(self.first_plan)


def cuts_of(plans: Plans, graph: Graph) -> Cuts:
    """The cuts that `plans` make of `graph`: what devices compute and send in one microbatch differs only by them."""
    first, of_plan = distinct(*(getattr(plans, name) for name in _CUT_BY))
    whole = np.ones(len(first), dtype=np.int64)
    cut = plans.at(first)
    degrees = degrees_of(cut, graph) | {Axis.STATE: whole, Axis.EXPERT_STATE: whole}
    return Cuts(of_plan=of_plan, first_plan=first, degrees=degrees, loads=loads_of(cut, graph))


def degrees_of(plans: Plans, graph: Graph) -> dict[Axis, IntArray]:
    """How far each axis divides what it may divide in each of `plans`, microbatches included in DATA."""
    tp, cp = plans.tensor_parallel, plans.context_parallel
    is_ring, is_dealt = (plans.context_exchange == CONTEXT_EXCHANGES.index(name) for name in ("ring", "all-to-all"))
    num_parts = graph.batch // plans.microbatch  # replicas times microbatches
    experts = plans.expert_parallel * plans.expert_tensor_parallel
    shards_state = plans.zero_stage >= 1
    return {
        Axis.DATA: num_parts,
        Axis.CONTEXT: cp,
        Axis.TENSOR: tp,
        Axis.SEQUENCE: np.where(plans.sequence_parallel, tp, 1),
        Axis.KV: np.minimum(tp, graph.num_kv_heads),
        Axis.EXPERT: plans.expert_parallel,
        Axis.EXPERT_TENSOR: plans.expert_tensor_parallel,
        Axis.EXPERT_DATA: tp * cp * num_parts // experts,
        Axis.STATE: np.where(shards_state, plans.data_parallel * cp, 1),
        Axis.EXPERT_STATE: np.where(shards_state, plans.expert_data_parallel, 1),
        Axis.QUERIES: np.where(is_dealt, 1, cp),
        Axis.HEADS: np.where(is_dealt, cp, 1),
        Axis.HOPS: np.where(is_ring, cp, 1),
    }


def loads_of(plans: Plans, graph: Graph) -> FloatArray:
    """Rows routed to the most loaded device of each of `plans`, against the mean."""
    return np.asarray(graph.routing.most(plans.expert_parallel), dtype=np.float64)


def divisors(split: IntArray, degrees: dict[Axis, IntArray]) -> IntArray:
    """By how much the axes in each of `split` divide: cuts by the shape of `split`."""
    occurs = np.zeros(2 * int(max(Axis)), dtype=bool)
    occurs[split] = True
    codes, place = np.flatnonzero(occurs), np.cumsum(occurs) - 1
    factors = np.ones((len(degrees[Axis.DATA]), len(codes)), dtype=np.int64)
    for axis, degree in degrees.items():
        here = (codes & int(axis)) != 0
        factors[:, here] *= degree[:, None]
    return factors[:, place[split]]


def local_elements(elements: IntArray, split: IntArray, degrees: dict[Axis, IntArray]) -> IntArray:
    """A device's share of each extent under each cut, rounded up: what does not divide is padded (vocabularies)."""
    return -(-elements // divisors(split, degrees))


def carried_bytes(graph: Graph, degrees: dict[Axis, IntArray]) -> FloatArray:
    """One microbatch's activations between two stages, a device's share, under each cut."""
    layers = [block for block in graph.blocks if block.is_layer]
    carried, split = (np.array([int(getattr(b, n)) for b in layers]) for n in ("carried_elements", "carried_split"))
    elements = local_elements(carried, split, degrees).max(axis=1)
    return np.asarray(elements * dtype_bytes(graph.dtype), dtype=np.float64)


def local_ops(ops: Ops, degrees: dict[Axis, IntArray], loads: FloatArray) -> Ops:
    """`ops` as each cut leaves them to the most loaded device, one cut after the other, without edges."""
    num_cuts, num_rows = len(degrees[Axis.DATA]), len(ops)
    whole, split = (
        np.concatenate([getattr(ops, name).reshape(num_rows, -1) for name in names], axis=1)
        for names in (_CUT_COLUMNS, _CUT_COLUMNS.values())
    )
    local = local_elements(whole, split, degrees)
    if np.any(loads != 1.0):
        is_routed = (split & int(Axis.ROUTED)) != 0
        share = loads[:, None] / divisors(split[is_routed], degrees)
        local[:, is_routed] = np.ceil(whole[is_routed] * share * (1.0 - _TOLERANCE))
    local = local.reshape(num_cuts * num_rows, -1)
    extents, *others = np.split(local, range(ops.extents.shape[1], local.shape[1]), axis=1)
    repeated = ops.taken(np.tile(np.arange(num_rows), num_cuts))
    is_turned = (ops.phase == Phase.UPDATE) & (ops.unit == Unit.TENSOR)
    if np.any(is_turned):
        repeated = _taking_turns(repeated, ops, np.flatnonzero(is_turned), extents, degrees)
    weights, gradients, biases = (column[:, 0] for column in others)
    return replace(
        repeated, extents=extents, weight_elements=weights, gradient_elements=gradients, bias_elements=biases
    )


def _taking_turns(repeated: Ops, ops: Ops, rows: IntArray, extents: IntArray, degrees: dict[Axis, IntArray]) -> Ops:
    """With products of the update as often as they run: ranks that share the state of matrices take turns with these.

    A rank has its turn with one layer's matrix in as many layers as there are ranks, not with a part of every one.
    """
    num_cuts = len(degrees[Axis.DATA])
    shared = ops.extents[rows, B] / divisors(ops.splits[rows, B], degrees)
    turns = np.ones((num_cuts, len(ops)))
    turns[:, rows] = shared / extents.reshape(num_cuts, len(ops), -1)[:, rows, B]
    return replace(repeated, work_frac=repeated.work_frac * turns.ravel())


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


_TOLERANCE = 1e-12  # what a product of floats may be too large by, so that a whole number of rows stays one
_CUT_COLUMNS = {
    "extents": "splits",
    "weight_elements": "weight_split",
    "gradient_elements": "gradient_split",
    "bias_elements": "bias_split",
}
