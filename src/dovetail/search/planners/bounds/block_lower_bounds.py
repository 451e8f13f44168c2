"""The least that a block can take on any stage: seconds by sender and recompute policy, which add up to lower bounds.

A stage's time is not the sum of its blocks': compute of one hides communication of another, the host queues ahead, and
the power limit sets one clock for all of a direction. But it is never below a sum of what this module gives, forward
and backward (docs/model/planning.md):

- Without the host, time is a convex and homogeneous function of amounts that add up, so it lies above each of its
  tangents. The one taken is that of the most frequent layer. Where axes cost compute differently, each counts as the
  one that costs least.
- Whatever clock c a stage's passes of a direction settle at: if c <= c0, they take at least their time at c0; if
  c >= c0, they spend at least their energy at c0, and the power limit says in how long. c0 is the clock of the most
  frequent layer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dovetail.cost.cost import Cost
from dovetail.cost.power import at_clock, sustained_clock_frac
from dovetail.parallel.plan import RECOMPUTE_POLICIES
from dovetail.step.work import COMM_AXES, Running, StageWork, Work, both, slowest_frac, stage_work
from dovetail.step.work_table import WorkTable
from dovetail.units import Amount
from dovetail.workload.graph import BoolArray, FloatArray, Graph

_CP = COMM_AXES.index("cp")
_NONE = RECOMPUTE_POLICIES.index("none")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BlockLowerBounds:
    """`time_s` of both passes of one repeat of each block, senders by policies; a stage takes no less than their sum.

    Less `call_s`, by sender: what entering the stage may take of the time that the power limit gives it.
    """

    time_s: tuple[FloatArray, ...]
    call_s: FloatArray

    def least_s(self, block: int, policies: tuple[int, ...]) -> FloatArray:
        """One repeat of a block under the fastest of the policies, by sender."""
        return np.asarray(self.time_s[block][:, list(policies)].min(axis=1))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Tangent:
    """Which side of each minimum the most frequent layer is on, senders by 1."""

    is_host: BoolArray  # it waits for the host
    is_core: BoolArray  # context exchange outlasts attention
    is_compute: BoolArray  # what could hide outlasts all compute
    compute_slowdown_fracs: tuple[
        float, float
    ]  # least and most that communication beside compute costs of it, of the axes used


def block_lower_bounds(graph: Graph, table: WorkTable) -> BlockLowerBounds:
    chip = table.chip_of_variants
    slowest = slowest_frac(table.num_devices, chip.calibration.clock_spread_frac)
    layers = [index for index, block in enumerate(graph.blocks) if block.is_layer]
    usual = max(layers, key=lambda index: graph.blocks[index].repeat)
    works = [stage_work(work, chip.endpoint_kind) for work in table.works]
    compute_slowdown_fracs = _held_fracs(works)
    ways = [_keeping_all(way) for way in (works[usual].forward, works[usual].backward)]
    clock_fracs = np.asarray(sustained_clock_frac(both(*(way.draw(chip) for way in ways)), chip))
    time_s, call_s = [np.zeros(()) for _ in works], np.zeros(())
    calls_s = (chip.calibration.host_call_s, chip.calibration.host_backward_s)
    for place, (name, called_s) in enumerate(zip(("forward", "backward"), calls_s, strict=True)):
        tangent = _tangent(ways[place], 1 / (clock_fracs[place] * slowest), compute_slowdown_fracs)
        # at full clock, or waiting for the host, the first argument is enough: no clock makes such a pass faster
        clock_frac = np.where(tangent.is_host, 1.0, clock_fracs[place])
        is_free = clock_frac == 1.0
        of_blocks = [getattr(work, name) for work in works]
        slow_s = [_way_s(work, tangent, 1 / (clock_frac * slowest)) for work in of_blocks]
        quick_s = [_way_s(work, tangent, np.full_like(clock_frac, 1 / slowest)) for work in of_blocks]
        paid_s = [_paid_s(work, tangent, clock_frac, slowest, chip) for work in of_blocks]
        is_paid = ~is_free & (paid_s[usual] > quick_s[usual])[:, [_NONE]]
        time_s = [
            total + np.where(is_free, slow, np.minimum(slow, np.where(is_paid, paid, quick)))
            for total, slow, quick, paid in zip(time_s, slow_s, quick_s, paid_s, strict=True)
        ]
        call_s = call_s + np.where(is_paid, called_s, 0.0)[:, 0]
    return BlockLowerBounds(time_s=tuple(time_s), call_s=call_s)


def _keeping_all(work: Work) -> Work:
    """Of senders by policies, that without recompute: senders by 1."""

    def of(amount: Amount) -> Amount:
        return amount[:, [_NONE]] if isinstance(amount, np.ndarray) else amount

    def cost(whole: Cost) -> Cost:
        return Cost(**{field.name: of(getattr(whole, field.name)) for field in fields(Cost)})

    return Work(
        cost=cost(work.cost),
        core=cost(work.core),
        blocking_s=tuple(of(wait_s) for wait_s in work.blocking_s),
        overlappable_s=tuple(of(overlappable_s) for overlappable_s in work.overlappable_s),
        sent_bytes=of(work.sent_bytes),
        compute_slowdown_frac=work.compute_slowdown_frac,
    )


def _held_fracs(works: list[StageWork]) -> tuple[float, float]:
    """The least and the most of axes on which anything is beside compute; of all where nothing is."""
    ways = [way for work in works for way in (work.forward, work.backward)]
    fracs = ways[0].compute_slowdown_frac
    used = [frac for axis, frac in enumerate(fracs) if any(np.any(way.overlappable_s[axis]) for way in ways)] or fracs
    return min(used), max(used)


def _slowed_s(cost: Cost, slower: Amount) -> Amount:
    """Seconds of `cost` at a clock `slower` times as slow as the full one."""
    return cost.compute_s + cost.clocked_s * (slower - 1)


def _tangent(work: Work, slower: FloatArray, compute_slowdown_fracs: tuple[float, float]) -> _Tangent:
    compute_s, core_s = (_slowed_s(cost, slower) for cost in (work.cost, work.core))
    return _Tangent(
        is_host=np.asarray(work.cost.host_s > compute_s + sum(work.blocking_s)),
        is_core=np.asarray(core_s < work.overlappable_s[_CP]),
        is_compute=np.asarray(_most_hidden_s(work, slower) >= compute_s),
        compute_slowdown_fracs=compute_slowdown_fracs,
    )


def _most_hidden_s(work: Work, slower: Amount) -> Amount:
    """Communication that compute covers, the host left aside."""
    behind_s = np.minimum(work.overlappable_s[_CP], _slowed_s(work.core, slower))
    rest_s = sum(work.overlappable_s) - work.overlappable_s[_CP]
    return np.minimum(behind_s + rest_s, _slowed_s(work.cost, slower))


def _covered_s(work: Work, tangent: _Tangent, slower: Amount) -> Amount:
    """The tangent of `_most_hidden_s`: no less than it."""
    behind_s = np.where(tangent.is_core, _slowed_s(work.core, slower), work.overlappable_s[_CP])
    rest_s = sum(work.overlappable_s) - work.overlappable_s[_CP]
    return np.where(tangent.is_compute, _slowed_s(work.cost, slower), behind_s + rest_s)


def _way_s(work: Work, tangent: _Tangent, slower: Amount) -> Amount:
    """The tangent of a pass's seconds: no more than they are."""
    overlappable_s = sum(work.overlappable_s)
    passing_s = _slowed_s(work.cost, slower) + sum(work.blocking_s)
    running_s = passing_s + overlappable_s - (1 - tangent.compute_slowdown_fracs[0]) * _covered_s(work, tangent, slower)
    return np.where(tangent.is_host, work.cost.host_s, running_s)


def _paid_s(work: Work, tangent: _Tangent, clock_frac: FloatArray, slowest: float, chip: Running) -> FloatArray:
    """Seconds in which the power limit grants what `work` spends at `clock_frac`, and what the slowest device adds.

    The limit holds for all of the time, of which the tangent may leave a part out: at most what the blocks' own times
    are above it, host included, since those of a sum are never above the sum of theirs.
    """
    limit_w = chip.tdp_w - chip.energy.idle_w
    spent_j = at_clock(work.cost, clock_frac).energy_j + work.sent_bytes * chip.energy.link_j_per_byte
    ends = (1.0, 1 / clock_frac)  # a convex function of the slowdown is greatest at one of them
    above_s = [_covered_s(work, tangent, slower) - _most_hidden_s(work, slower) for slower in ends]
    waits_s = np.maximum(0.0, work.cost.host_s - work.cost.compute_s - sum(work.blocking_s))
    least, most = tangent.compute_slowdown_fracs
    dearer_s = (most - least) * _most_hidden_s(work, 1 / clock_frac)  # where axes cost more than the least does
    left_out_s = (1 - least) * np.maximum(*above_s) + waits_s + dearer_s
    more_s = _way_s(work, tangent, 1 / slowest) - _way_s(work, tangent, 1.0)
    return np.asarray(spent_j / limit_w - left_out_s + more_s)
