"""Plans on a cluster of several parts: the same plans on each, and what hands microbatches from one to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dovetail.hardware.mixed import AnyCluster, MixedCluster
from dovetail.plan.placements import Placements, placements_of
from dovetail.plan.plans import Plans, distinct
from dovetail.plan.sharding import shard_plans
from dovetail.schedule.same_plans import SamePlans
from dovetail.schedule.send_table import timed
from dovetail.schedule.shared_plans import Shared, placed, shared_on
from dovetail.schedule.transfers import exchanged_s, num_pieces
from dovetail.schedule.work_columns import NUM_ROWS, NUM_TIMED
from dovetail.workload.graph import FloatArray, Graph, IntArray
from dovetail.workload.optimizer import Precision


def shared_of(graph: Graph, plans: Plans, cluster: AnyCluster, precision: Precision) -> Shared:
    """What many plans share, of equal devices or of parts of them, which the plans must fill."""
    return shared_on_any(SamePlans(shard_plans(graph, plans), precision), cluster, is_broken_down=True)


def shared_on_any(same: SamePlans, cluster: AnyCluster, *, is_broken_down: bool) -> Shared:
    """As `shared_of`, of plans that may be on other clusters too."""
    if isinstance(cluster, MixedCluster):
        return _on_parts(same, cluster, NUM_ROWS if is_broken_down else NUM_TIMED)
    return shared_on(same, cluster, is_broken_down=is_broken_down)


def part_places(plans: Plans, cluster: MixedCluster) -> tuple[Placements, ...]:
    """Where the stages on each part lie; NOWHERE for plans whose axes do not nest there or do not fill it."""
    sizes = plans.num_devices // plans.pipeline_parallel
    found = []
    for part in cluster.parts:
        one = np.ones_like(plans.interleave)
        num_stages = np.where(part.num_devices % sizes, 1, part.num_devices // sizes)
        there = replace(
            plans, pipeline_parallel=num_stages, interleave=one, schedule=0 * one, schedules=("1f1b",)
        )  # placement goes by degrees alone
        found.append(placements_of(there, part.topology))
    return tuple(found)


def _on_parts(same: SamePlans, cluster: MixedCluster, num_rows: int) -> Shared:
    """All devices together set how far the slowest is behind the mean; collectives lie within one part."""
    plans, num_devices = same.sharded.plans, cluster.num_devices
    first, *others = (
        placed(same, part, places, num_rows=num_rows, num_devices=num_devices)
        for part, places in zip(cluster.parts, part_places(plans, cluster), strict=True)
    )
    every = replace(first, others=tuple(others), between=cluster.group_between)
    cut, groups = every.table.cuts.of_plan, [part.places.group_of for part in every.parts]
    columns = [group[name] for group in groups for name in ("pipeline", "tensor")]
    rows, transfer_of = distinct(cut, plans.tensor_parallel, plans.sequence_parallel, *columns)
    within_s = [part.transfer_s[part.transfer_of[rows]] for part in every.parts]
    return replace(every, transfer_of=transfer_of, transfer_s=np.stack([*within_s, _between_s(every, rows)], axis=1))


def _between_s(every: Shared, rows: IntArray) -> FloatArray:
    """One hand-over between parts, as `shared_plans` has it within one: the slower of the two ways.

    Every device sends its share over its own port; shares of what tensor ranks all hold are gathered over there.
    """
    plans = every.plans.at(rows)
    carried_bytes = every.sharded.carried_bytes[every.table.cuts.of_plan[rows]]
    pieces = num_pieces(plans)
    sent_s = timed("point-to-point", carried_bytes / pieces, every.between, every.least_link_frac)[0]
    gathered_bytes = np.where(pieces > 1, carried_bytes, 0.0)
    gathers_s = [
        exchanged_s(
            "all-gather", gathered_bytes, part.places.at(rows), "tensor", part.cluster.chip.calibration.link_frac
        )
        for part in every.parts
    ]
    return np.asarray(sent_s + np.max(gathers_s, axis=0))
