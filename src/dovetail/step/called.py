"""Collectives that a device of a stage calls in a step, and how the library of its network runs each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dovetail.comm.library.on_group import is_timed_by_library, library_choice
from dovetail.hardware.topology import Group, num_ranks
from dovetail.parallel.layout import StageGroup
from dovetail.step.assembly import Assembly
from dovetail.step.communication import CALLED, CollectiveCalls, collective_overheads, joined_collectives, timed
from dovetail.step.plan_table import PlanContext, num_pieces
from dovetail.step.stage_columns import held_elements, sync_moves
from dovetail.step.work import COMM_AXES
from dovetail.step.work_table import placed_plans

Note = tuple[str, int | float | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalledCollective:
    """One collective over one group of ranks: `time_s` is that of a call, `num_calls` how often a step has it.

    A step has no number of sends between stages: that depends on the schedule. `algorithm` and `protocol` are what the
    library selects, empty where links alone decide; `num_channels` is 0 where it is not known.
    """

    axis: str
    collective: str
    payload_bytes: float
    num_ranks: int
    time_s: float
    num_calls: int = 0
    algorithm: str = ""
    protocol: str = ""
    num_channels: int = 0

    @property
    def notes(self) -> tuple[Note, ...]:
        """As notes of a slice of a timeline."""
        size = round(self.payload_bytes)
        found: tuple[Note, ...] = (("collective", self.collective), ("bytes", size), ("num_ranks", self.num_ranks))
        found += (("algorithm", self.algorithm), ("protocol", self.protocol)) if self.algorithm else ()
        return (*found, ("num_channels", self.num_channels)) if self.num_channels else found


def called(axis: str, collective: str, payload_bytes: float, group: Group, time_s: float) -> CalledCollective:
    """One call of `collective`, with what the library of `group` selects for it."""
    found = CalledCollective(
        axis=axis, collective=collective, payload_bytes=payload_bytes, num_ranks=num_ranks(group), time_s=time_s
    )
    if not is_timed_by_library(collective, group):
        return found
    choice = library_choice(collective, payload_bytes, group)
    return replace(found, algorithm=choice.algorithm, protocol=choice.protocol, num_channels=choice.num_channels)


def block_call(calls: CollectiveCalls, index: int, groups: tuple[Group, ...]) -> CalledCollective:
    """One of the collectives of a block, of the first variant."""
    num_calls = int(calls.num_calls[0, index])
    one = called(
        COMM_AXES[calls.axis[index]],
        CALLED[calls.collective[0, index]],
        float(calls.payload_bytes[0, index]),
        groups[calls.group[0, index]],
        float(calls.time_s[0, index]) / max(1, num_calls),
    )
    return replace(one, num_calls=num_calls)


def step_collectives(assembly: Assembly, stage: int) -> tuple[CalledCollective, ...]:
    """All that a device of `stage` calls in a step of the first plan; equal calls are one entry."""
    run = assembly.group.runs[assembly.group.stage_run[stage]]
    context = assembly.context.pools[run.pool]
    found: dict[CalledCollective, int] = {}
    in_microbatches = ((one, one.num_calls * assembly.num_passes[0]) for one in _in_microbatch(context, run))
    once = (*sync_calls(assembly, stage), *tied_calls(assembly, stage))
    for one, count in (*in_microbatches, *((one, 1) for one in once)):
        key = replace(one, num_calls=0)
        found[key] = found.get(key, 0) + round(count)
    sends = send_calls(assembly, stage)
    return (*(replace(one, num_calls=count) for one, count in found.items()), *sends)


def _in_microbatch(context: PlanContext, run: StageGroup) -> Iterator[CalledCollective]:
    placed = placed_plans(context.sharded, context.places, context.precision)
    overheads = collective_overheads(context.cluster.chip.calibration)
    for span in run.spans:
        calls = joined_collectives(placed.sends(span.block, overheads))
        is_called = calls.runs[:, span.policy] & (calls.time_s[0] > 0)
        for index in np.flatnonzero(is_called).tolist():
            one = block_call(calls, index, placed.variants.groups)
            yield replace(one, num_calls=span.count * one.num_calls)


def sync_calls(assembly: Assembly, stage: int) -> tuple[CalledCollective, ...]:
    """The gradient sync of `stage`: gradients reduced and weights gathered once a step."""
    index = assembly.group.stage_run[stage]
    run = assembly.group.runs[index]
    context = assembly.context.pools[run.pool]
    rows = assembly.group.rows[:1]
    places, link_frac = context.places.at(rows), context.cluster.chip.calibration.link_frac
    held = held_elements((run,), context.graph, context.table, rows)
    found = []
    for move in sync_moves(held, context.plans.zero_stage[rows], places, context.precision):
        group, payload_bytes = places.groups[places.group_of[move.group][0]], move.payload_bytes[:, :1]
        if move.does[0] and payload_bytes[0, 0] > 0 and num_ranks(group) > 1:
            time_s, _ = timed(move.collective, payload_bytes, group, link_frac)
            found.append(called("dp", move.collective, float(payload_bytes[0, 0]), group, float(time_s[0, 0])))
    return tuple(found)


def tied_calls(assembly: Assembly, stage: int) -> tuple[CalledCollective, ...]:
    """Gradients that two stages sum once a step: of tied weights, or of the copies of a chunk."""
    group, context = assembly.group, assembly.context
    is_tied = stage in (0, group.num_stages - 1) or group.num_copies > 1
    if not is_tied or not assembly.tied_s[0]:
        return ()
    pools = [group.runs[index].pool for index in (0, -1)]
    places = context.pools[pools[0]].places.at(group.rows[:1])
    ranks = context.between if pools[0] != pools[1] else places.groups[places.group_of["pipeline"][0]]
    return (called("pp", "point-to-point", float(assembly.tied_bytes[0]), ranks, float(assembly.tied_s[0])),)


def send_calls(assembly: Assembly, stage: int) -> tuple[CalledCollective, ...]:
    """What is handed to a neighbouring stage of the same pool: a send, and where it is in pieces their gather."""
    context = assembly.context.pools[assembly.group.runs[assembly.group.stage_run[stage]].pool]
    rows = assembly.group.rows[:1]
    places, link_frac = context.places.at(rows), context.cluster.chip.calibration.link_frac
    boundary_bytes = context.sharded.boundary_activation_bytes[context.table.cuts.of_plan[rows]]
    pieces = num_pieces(context.plans.at(rows))
    moves = (("point-to-point", "pipeline", boundary_bytes / pieces), ("all-gather", "tensor", boundary_bytes))
    found = []
    for collective, name, payload_bytes in moves[: 1 if pieces[0] == 1 else 2]:
        group = places.groups[places.group_of[name][0]]
        if num_ranks(places.groups[places.group_of["pipeline"][0]]) > 1 and payload_bytes[0] > 0:
            time_s, _ = timed(collective, payload_bytes, group, link_frac)
            found.append(called("pp", collective, float(payload_bytes[0]), group, float(time_s[0])))
    return tuple(found)
