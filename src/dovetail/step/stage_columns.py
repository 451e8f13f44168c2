"""Stages of many plans in columns: one microbatch's passes, the gradient sync and the update, by run of stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dovetail.columns import distinct
from dovetail.comm.library.on_group import Selection
from dovetail.hardware.topology import num_ranks
from dovetail.parallel.layout import StageGroup
from dovetail.parallel.placement import Placements
from dovetail.parallel.sharding import BlockElements, Owned, is_owner_here, tied_parameters
from dovetail.parallel.sharding import held_elements as stage_elements
from dovetail.step.communication import by_group, timed
from dovetail.step.work import StageWork, Work
from dovetail.step.work_table import WorkTable
from dovetail.units import Amount
from dovetail.workload.graph import BoolArray, FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParameterElements:
    """Elements that one device of a stage holds of one kind of parameter: plans by runs."""

    parameters: FloatArray
    gradients: FloatArray
    sparse: FloatArray  # gradients of tables of which only looked-up rows have one


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientSync:
    """The gradient sync of a stage, once per step: seconds and bytes, plans by runs."""

    reduce_s: FloatArray  # reduce-scatter or all-reduce of gradients
    gather_s: FloatArray  # all-gather of weights
    sent_bytes: FloatArray


def held_elements(
    runs: tuple[StageGroup, ...], graph: Graph, table: WorkTable, rows: IntArray
) -> tuple[ParameterElements, ParameterElements]:
    """Trained parameters, ordinary and of experts; tied ones count only where their owner is on another stage."""
    cut = table.cuts.of_plan[rows]
    stages = [[(span.count, table.elements[span.block]) for span in run.spans] for run in runs]
    owners = [is_owner_here([graph.blocks[span.block].is_layer for span in run.spans]) for run in runs]

    def total(
        of_block: Callable[[BlockElements], Owned],
        *,
        counts_tied: bool,
        tied: Callable[[BlockElements], Amount] = tied_parameters,
    ) -> list[FloatArray]:
        held = [
            stage_elements(pieces, of_block, has_owner=counts_tied and owner, tied=tied)
            for pieces, owner in zip(stages, owners, strict=True)
        ]
        return [np.stack(by_run, axis=1)[cut] for by_run in zip(*held, strict=True)]

    parameters = total(lambda block: block.trained, counts_tied=True, tied=lambda block: block.tied - block.tied_frozen)
    gradients = total(lambda block: block.gradients, counts_tied=True)
    sparse = total(lambda block: block.sparse, counts_tied=False)
    plain, experts = (
        ParameterElements(parameters=p, gradients=g, sparse=s)
        for p, g, s in zip(parameters, gradients, sparse, strict=True)
    )
    return plain, experts


def gradient_sync(
    held: tuple[ParameterElements, ParameterElements],
    zero_stage: IntArray,
    places: Placements,
    precision: Precision,
    link_frac: float,
    selection: Selection = "tuner",
) -> GradientSync:
    """Reduce gradients over the data-parallel ranks, once per step; ZeRO-1 and 2 then all-gather the weights.

    ZeRO-2 and 3 reduce-scatter gradients with every microbatch instead (`communication.parameter_collectives`).
    """
    reduce_s, gather_s, total_bytes = (np.zeros(held[0].parameters.shape) for _ in range(3))
    for move in sync_moves(held, zero_stage, places, precision):
        total_s = reduce_s if move.is_reduction else gather_s
        callers = np.flatnonzero(move.does)
        for group, chosen in by_group(places.groups, places.group_of[move.group][callers]):
            rows = callers[chosen]
            time_s, sent = timed(move.collective, move.payload_bytes[rows], group, link_frac, selection=selection)
            total_s[rows] += time_s
            total_bytes[rows] += sent
    return GradientSync(reduce_s=reduce_s, gather_s=gather_s, sent_bytes=total_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SyncMove:
    """One collective of the gradient sync, over the group of ranks called so: payloads of plans by runs.

    `does` says which plans call it; it reduces gradients, or gathers weights.
    """

    collective: str
    group: str
    payload_bytes: FloatArray
    does: BoolArray
    is_reduction: bool


def sync_moves(
    held: tuple[ParameterElements, ParameterElements], zero_stage: IntArray, places: Placements, precision: Precision
) -> Iterator[SyncMove]:
    """The collectives of the gradient sync, of ordinary parameters and of experts."""
    for owned, name in zip(held, ("data", "expert_data"), strict=True):
        if not owned.parameters.any():
            continue
        dense = (owned.gradients - owned.sparse) * precision.reduce_bytes
        weights = owned.parameters * precision.gather_bytes
        gathers = (zero_stage == 1) | (zero_stage == 2)
        yield SyncMove(
            collective="all-reduce", group=name, payload_bytes=dense, does=zero_stage == 0, is_reduction=True
        )
        yield SyncMove(
            collective="reduce-scatter", group=name, payload_bytes=dense, does=zero_stage == 1, is_reduction=True
        )
        yield SyncMove(collective="all-gather", group=name, payload_bytes=weights, does=gathers, is_reduction=False)
        if owned.sparse.any():
            # ranks look up different rows of a table: their gradients are gathered, not summed in place
            ranks = np.array([num_ranks(group) for group in places.groups])[places.group_of[name]]
            looked_up = owned.sparse * precision.reduce_bytes * ranks[:, None]
            yield SyncMove(
                collective="all-gather", group=name, payload_bytes=looked_up, does=zero_stage <= 1, is_reduction=True
            )


def update_collectives(
    runs: tuple[StageGroup, ...],
    graph: Graph,
    table: WorkTable,
    rows: IntArray,
    places: Placements,
    precision: Precision,
    link_frac: float,
) -> tuple[FloatArray, FloatArray]:
    """Seconds and bytes of the optimizer's own collectives, such as Muon's gathers: plans by runs.

    They come after gradients are reduced and before weights are written, so nothing hides them.
    """
    total_s, total_bytes = np.zeros((len(rows), len(runs))), np.zeros((len(rows), len(runs)))
    if not precision.entry.collectives:
        return total_s, total_bytes
    cut, is_sharded = table.cuts.of_plan[rows], table.plans.zero_stage[rows] >= 1
    elements_of = table.sharded.updated_elements(precision.entry)
    stages = [[(span.count, elements_of[span.block]) for span in run.spans] for run in runs]
    owners = [is_owner_here([graph.blocks[span.block].is_layer for span in run.spans]) for run in runs]
    ranks = np.array([num_ranks(group) for group in places.groups])

    def held(of_block: Callable[[BlockElements], Owned], tied: Callable[[BlockElements], Amount]) -> list[FloatArray]:
        by_run = [
            stage_elements(pieces, of_block, has_owner=owner, tied=tied)
            for pieces, owner in zip(stages, owners, strict=True)
        ]
        every_cut = [[np.broadcast_to(amount, (len(table.cuts),)) for amount in owned] for owned in by_run]
        return [np.stack(by_owner, axis=1)[cut] for by_owner in zip(*every_cut, strict=True)]

    matrices = held(lambda block: block.matrices, lambda block: block.tied_matrices)
    factors = held(lambda block: block.factors, lambda block: block.tied_factors)
    gathered = held(lambda block: block.gathered, lambda _: 0.0)
    for owner, (data, tensor) in enumerate((("data", "tensor"), ("expert_data", "expert_tensor"))):
        num_sharing = np.where(is_sharded, ranks[places.group_of[data]], 1)[:, None]
        for each in precision.entry.collectives:
            is_data = each.over == "data"
            elements = factors[owner] if each.carries == "factors" else matrices[owner]
            if not is_data:  # of what is split, a rank's turn
                elements = (elements if each.carries == "factors" else gathered[owner]) / num_sharing
            payload_bytes = np.where(is_sharded[:, None] | (not is_data), elements * each.element_bytes, 0.0)
            for group, chosen in by_group(places.groups, places.group_of[data if is_data else tensor]):
                time_s, sent = timed(each.collective, payload_bytes[chosen], group, link_frac)
                total_s[chosen] += time_s
                total_bytes[chosen] += sent
    return total_s, total_bytes


def hidden_s(
    reduce_s: FloatArray,
    gather_s: FloatArray,
    room_s: tuple[FloatArray, FloatArray],
    most_s: FloatArray,
    num_hiding_passes: FloatArray,
    compute_slowdown_frac: Amount,
) -> FloatArray:
    """Gradient sync overlap: reductions hide behind the backward pass, gathers behind the next forward pass.

    `room_s` is what of one microbatch they can hide behind, forward and backward, and `most_s` what both can;
    `num_hiding_passes` is how many microbatches serve. Of what hides, `compute_slowdown_frac` is lost, as collectives
    take a share of the chip.
    """
    behind_s = np.minimum(gather_s, num_hiding_passes * room_s[0]) + np.minimum(reduce_s, num_hiding_passes * room_s[1])
    return np.asarray((1 - compute_slowdown_frac) * np.minimum(behind_s, num_hiding_passes * most_s))


def free_s(work: Work) -> Amount:
    """Compute, or waiting for the host, behind which nothing is hidden yet."""
    return np.maximum(0.0, work.cost.compute_s + work.host_wait_s - sum(comm.hidden_s for comm in work.comm))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageColumns:
    """Distinct microbatches, updates and gradient syncs, and which of them each plan has; amounts are rows by runs.

    `work_of`, `update_of` and `grad_sync_of` give each plan its row. `works` is one microbatch in full detail.
    """

    work_of: IntArray
    update_of: IntArray
    grad_sync_of: IntArray
    works: StageWork
    forward_s: FloatArray
    backward_s: FloatArray
    deferrable_wgrad_s: FloatArray
    free_forward_s: FloatArray  # compute that the gradient sync can hide behind: nothing else does
    free_backward_s: FloatArray
    hiding_backward_s: FloatArray  # what copies to the host can hide behind
    energy_j: FloatArray
    sent_bytes: FloatArray
    update_s: FloatArray
    update_j: FloatArray
    grad_sync: GradientSync

    def of(self, rows: slice) -> StageColumns:
        """Those of some of the plans."""
        return replace(
            self,
            work_of=self.work_of[rows],
            update_of=self.update_of[rows],
            grad_sync_of=self.grad_sync_of[rows],
        )


def stage_columns(
    table: WorkTable,
    runs: tuple[StageGroup, ...],
    rows: IntArray,
    graph: Graph,
    places: Placements,
    precision: Precision,
    *,
    fills_waits: bool,
) -> StageColumns:
    """Stage columns of the plans in `rows`.

    Where recompute may fill bubbles (`fills_waits`), nothing hides behind it: what would was hidden by the bubble.
    """
    first, work_of = distinct(table.comm_variant_of[rows], table.plans.recompute[rows])
    works = table.stages(runs, rows[first])
    if graph.is_forward_only:  # nor does the host enter a backward pass
        works = replace(works, backward=replace(works.backward, cost=0.0 * works.backward.cost))
    room = _room(works, fills_waits=fills_waits)
    grad_sync_of, grad_sync = _grad_sync(table, runs, rows, graph, places, precision)
    return StageColumns(
        work_of=work_of,
        grad_sync_of=grad_sync_of,
        works=works,
        forward_s=works.forward.time_s,
        backward_s=works.backward.time_s,
        deferrable_wgrad_s=works.deferrable_wgrad_s,
        free_forward_s=room[0],
        free_backward_s=room[1],
        hiding_backward_s=room[2],
        energy_j=works.forward.cost.energy_j + works.backward.cost.energy_j,
        sent_bytes=works.forward.sent_bytes + works.backward.sent_bytes,
        grad_sync=grad_sync,
        **_updated(table, runs, rows, graph, places, precision),
    )


def _updated(
    table: WorkTable,
    runs: tuple[StageGroup, ...],
    rows: IntArray,
    graph: Graph,
    places: Placements,
    precision: Precision,
) -> dict[str, Any]:
    """The distinct optimizer updates, their collectives included, and which of them each plan has."""
    if not precision.entry.collectives:
        first, update_of = distinct(table.update_variant_of[rows])
        update = table.update(runs, rows[first])
        return {"update_of": update_of, "update_s": update.compute_s, "update_j": update.energy_j}
    first, update_of = distinct(table.update_variant_of[rows], table.grad_sync_variant_of[rows])
    distinct_rows = rows[first]
    update, link_frac = table.update(runs, distinct_rows), table.chip.calibration.link_frac
    waits_s, _ = update_collectives(runs, graph, table, distinct_rows, places.at(distinct_rows), precision, link_frac)
    return {"update_of": update_of, "update_s": update.compute_s + waits_s, "update_j": update.energy_j}


def _grad_sync(
    table: WorkTable,
    runs: tuple[StageGroup, ...],
    rows: IntArray,
    graph: Graph,
    places: Placements,
    precision: Precision,
) -> tuple[IntArray, GradientSync]:
    """The distinct gradient syncs and which of them each plan has; bytes include those that the update sends."""
    first, grad_sync_of = distinct(table.grad_sync_variant_of[rows])
    distinct_rows = rows[first]
    if graph.is_forward_only:
        nothing = np.zeros((len(first), len(runs)))
        return grad_sync_of, GradientSync(reduce_s=nothing, gather_s=nothing, sent_bytes=nothing)
    held, zero_stage = held_elements(runs, graph, table, distinct_rows), table.plans.zero_stage[distinct_rows]
    link_frac = table.chip.calibration.link_frac
    sync = gradient_sync(held, zero_stage, places.at(distinct_rows), precision, link_frac)
    _, sent_bytes = update_collectives(
        runs, graph, table, distinct_rows, places.at(distinct_rows), precision, link_frac
    )
    return grad_sync_of, replace(sync, sent_bytes=sync.sent_bytes + sent_bytes)


def _room(works: StageWork, *, fills_waits: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Seconds that the gradient sync can hide behind, forward and backward, and that copies to the host can."""
    again_s = works.backward.recompute_s if fills_waits else 0.0
    free_backward_s, backward_s = (
        np.maximum(0.0, time_s - again_s) for time_s in (free_s(works.backward), works.backward.time_s)
    )
    return free_s(works.forward), free_backward_s, backward_s
