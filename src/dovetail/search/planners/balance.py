"""Layers and recompute by stage, for many plans at once: the slowest stage as fast as can be, then all stages together.

All layers of a plan are alike, stages are not: the first has the embedding, the last the head, each holds as many
microbatches as its place in the pipeline asks for, and chips may differ. On a stage every layer keeps what one policy
keeps, but for some that are recomputed in full: as few as memory allows.

The time of a stage grows with its layers. So at a given pace each stage holds a most, and the least pace at which these
add up to the model is, among all times "stage s with n layers", the one with as many below it as the model has layers:
an order statistic, exact and without a search (docs/model/planning.md). What the stages hold beyond the model is then
taken away where it saves most, by a program over that surplus alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dovetail.errors import InvalidInput

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

TABLE_ELEMENTS = 65_536  # of one table of times: larger batches are cut, so that tables stay in a core's cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What is to be cut: units of each plan, the stages that it has, and the fewest that one of them may hold."""

    num_units: Ints  # (plans,)
    is_stage: Bools  # (plans, stages)
    min_units: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLoads:
    """Plans by rows, stages by columns, policies by depth; whatever is alike along an axis may have length 1 there.

    A unit is a layer, or v layers where a stage has v chunks: it holds, and recomputes, as many layers in each. Times
    and bytes are those of one unit and one microbatch: `unit_s` and `kept_bytes` under each policy, `full_s` and
    `full_bytes` when recomputed in full (infinite time: not offered). `recompute_bytes` is what a stage that recomputes
    needs beside. `is_stage` is false for columns a shorter pipeline does not have.
    """

    num_units: Ints  # (plans,)
    is_stage: Bools  # (plans, stages)
    in_flight: Floats
    memory_bytes: Floats
    fixed_s: Floats  # embedding, head, transfers
    fixed_bytes: Floats
    unit_bytes: Floats  # weights, gradients and optimizer
    full_s: Floats
    full_bytes: Floats
    recompute_bytes: Floats
    unit_s: Floats  # (plans, stages, policies)
    kept_bytes: Floats
    min_units: int = 1

    def __post_init__(self) -> None:
        num_plans, num_stages = self.is_stage.shape
        if self.num_units.shape != (num_plans,):
            raise InvalidInput(f"num_units must have a row a plan, {num_plans}; got {self.num_units.shape}")
        for label in PER_STAGE + PER_POLICY:
            depth = 3 if label in PER_POLICY else 2
            got = getattr(self, label)
            if got.ndim != depth or got.shape[0] not in (1, num_plans) or got.shape[1] not in (1, num_stages):
                raise InvalidInput(
                    f"{label} must broadcast to {self.is_stage.shape} with {depth} axes; got {got.shape}"
                )
            if np.isnan(got).any() or (got < 0).any():
                raise InvalidInput(f"{label} must be at least 0 everywhere")
        if self.unit_s.shape[2] != self.kept_bytes.shape[2]:
            got = f"{self.unit_s.shape[2]} and {self.kept_bytes.shape[2]}"
            raise InvalidInput(f"unit_s and kept_bytes must have as many policies; got {got}")
        if (self.full_s[..., None] < self.unit_s).any():
            raise InvalidInput("a unit recomputed in full must not be faster than under a policy")
        if self.min_units < 0:
            raise InvalidInput(f"min_units must be at least 0; got {self.min_units}")

    @property
    def cut(self) -> Cut:
        return Cut(num_units=self.num_units, is_stage=self.is_stage, min_units=self.min_units)

    def rows(self, chosen: slice | Ints) -> StageLoads:
        """The same for some of the plans."""

        def of(value: Floats) -> Floats:
            return value[chosen] if len(value) == len(self.is_stage) else value

        arrays: dict[str, Any] = {label: of(getattr(self, label)) for label in PER_STAGE + PER_POLICY}
        return replace(self, num_units=self.num_units[chosen], is_stage=self.is_stage[chosen], **arrays)


PER_STAGE = (
    "in_flight",
    "memory_bytes",
    "fixed_s",
    "fixed_bytes",
    "unit_bytes",
    "full_s",
    "full_bytes",
    "recompute_bytes",
)
PER_POLICY = ("unit_s", "kept_bytes")


@dataclass(frozen=True, slots=True)
class Balanced:
    """The answer by plan and stage. Where a plan does not fit, `fits` is false and the rest of its row is void."""

    fits: Bools  # (plans,)
    pace_s: Floats  # of the slowest stage, for one microbatch
    sum_s: Floats  # of all stages, for one microbatch
    num_units: Ints  # (plans, stages)
    policy: Ints
    num_recomputed: Ints
    stage_s: Floats


def balanced(loads: StageLoads) -> Balanced:
    """The least pace, and among cuts with that pace the least sum, both exact."""
    num_plans, num_stages = loads.is_stage.shape
    each = max(1, TABLE_ELEMENTS // max(1, num_stages * (_first_guess(loads) + 1)))
    if num_plans <= each:
        return _balanced(loads)
    parts = [_balanced(loads.rows(slice(first, first + each))) for first in range(0, num_plans, each)]
    return Balanced(*(np.concatenate([getattr(part, name) for part in parts]) for name in Balanced.__slots__))


def _first_guess(loads: StageLoads) -> int:
    """So many units a stage are looked at first: a quarter more than the even share."""
    num_stages = np.maximum(loads.is_stage.sum(axis=1), 1)
    share = int(np.max(-(-loads.num_units // num_stages), initial=1))
    return share + max(2, share // 4) + loads.min_units


def _balanced(loads: StageLoads) -> Balanced:
    most = int(np.max(loads.num_units, initial=1))
    width = min(_first_guess(loads), most)
    while True:
        table_s = _table_s(loads, width)
        pace_s = least_pace_s(loads.cut, table_s)
        num_most = (table_s[:, :, 1:] <= pace_s[:, None, None]).sum(axis=2)
        # A stage that holds all that was looked at might hold more, and the pace be less.
        if width == most or not np.any((num_most == width) & np.isfinite(pace_s)[:, None]):
            break
        width = min(2 * width, most)
    fits = np.isfinite(pace_s)
    num_units = least_sum(loads.cut, table_s, np.where(fits[:, None], num_most, 0), fits)
    stage_s, policy, num_recomputed = _chosen(loads, num_units)
    stage_s = np.where(loads.is_stage, stage_s, 0.0)
    return Balanced(fits, pace_s, stage_s.sum(axis=1), num_units, policy, num_recomputed, stage_s)


def stage_s(loads: StageLoads, num_units: Ints, policy: int) -> tuple[Floats, Ints]:
    """Times of stages with so many units under a policy, and how many of them are recomputed; infinite where too much.

    `num_units` is (plans, stages, any).
    """
    at = (slice(None), slice(None), None)
    unit_s, kept_bytes = loads.unit_s[:, :, policy][at], loads.kept_bytes[:, :, policy][at]
    held_bytes = loads.unit_bytes[at] + loads.in_flight[at] * kept_bytes
    over_bytes = loads.fixed_bytes[at] + num_units * held_bytes - loads.memory_bytes[at]
    saved_bytes = loads.in_flight[at] * (kept_bytes - loads.full_bytes[at])
    can_save = (saved_bytes > 0) & np.isfinite(loads.full_s[at])
    needed = (over_bytes + loads.recompute_bytes[at]) / np.where(can_save, saved_bytes, 1.0)
    num_recomputed = np.where(over_bytes > 0, np.maximum(np.ceil(needed), 1.0), 0.0)
    fits = (over_bytes <= 0) | (can_save & (num_recomputed <= num_units))
    num_recomputed = np.where(fits, num_recomputed, 0.0)
    more_s = np.where(can_save, loads.full_s[at], 0.0) - np.where(can_save, unit_s, 0.0)
    took_s = loads.fixed_s[at] + num_units * unit_s + num_recomputed * more_s
    return np.where(fits, took_s, np.inf), num_recomputed.astype(np.int64)


def _table_s(loads: StageLoads, width: int) -> Floats:
    """Times of stages with 0 to `width` units under the best policy for each, growing along the last axis."""
    units = np.arange(width + 1)[None, None, :]
    times_s = [stage_s(loads, units, policy)[0] for policy in range(loads.unit_s.shape[2])]
    table_s = np.broadcast_to(np.minimum.reduce(times_s), (*loads.is_stage.shape, width + 1))
    return np.where(loads.is_stage[:, :, None], table_s, np.inf)


def least_pace_s(cut: Cut, table_s: Floats) -> Floats:
    """The least pace of each plan: the time below which there are as many units as it has, and no stage too few."""
    num_plans, num_stages, width = table_s.shape
    each_s = table_s[:, :, 1:].reshape(num_plans, num_stages * (width - 1))
    wanted = np.minimum(cut.num_units, each_s.shape[1]) - 1
    # One selection for plans with as many units: most batches are of one model.
    pace_s = np.full(num_plans, np.inf)
    for place in sorted(set(wanted.tolist())):
        rows = np.flatnonzero(wanted == place)
        if place >= 0:
            pace_s[rows] = np.partition(each_s[rows], place, axis=1)[:, place]
    pace_s[cut.num_units > each_s.shape[1]] = np.inf
    pace_s[cut.num_units == 0] = 0.0
    least = min(cut.min_units, width - 1)
    least_s = np.where(cut.is_stage, table_s[:, :, least], 0.0).max(axis=1)
    too_few = cut.num_units < cut.min_units * cut.is_stage.sum(axis=1)
    return np.where(too_few, np.inf, np.maximum(pace_s, least_s))


def least_sum(cut: Cut, table_s: Floats, num_most: Ints, fits: Bools) -> Ints:
    """Units by stage with the least sum of times: a program over the units taken away from what stages can hold."""
    surplus = np.where(fits, num_most.sum(axis=1) - cut.num_units, 0)
    num_states = int(surplus.max(initial=0)) + 1
    num_plans, num_stages = num_most.shape
    best_s = np.full((num_plans, num_states), np.inf)
    best_s[:, 0] = 0.0
    least = np.where(cut.is_stage, np.minimum(cut.min_units, num_most), 0)
    took = np.zeros((num_stages, num_plans, num_states), dtype=np.int16)
    row = np.arange(num_plans)
    for stage in range(num_stages):
        most = num_most[:, stage]
        before_s, best_s = best_s, np.full_like(best_s, np.inf)
        for less in range(min(num_states, int((most - least[:, stage]).max(initial=0)) + 1)):
            left = most - less
            own_s = np.where(cut.is_stage[:, stage], table_s[row, stage, np.maximum(left, 0)], 0.0)
            own_s = np.where(left >= least[:, stage], own_s, np.inf)
            with_s = before_s[:, : num_states - less] + own_s[:, None]
            is_less = with_s < best_s[:, less:]
            best_s[:, less:][is_less] = with_s[is_less]
            took[stage, :, less:][is_less] = less
    num_units = num_most.copy()
    for stage in range(num_stages - 1, -1, -1):
        less = took[stage, row, surplus].astype(np.int64)
        num_units[:, stage] -= less
        surplus = surplus - less
    return num_units


def _chosen(loads: StageLoads, num_units: Ints) -> tuple[Floats, Ints, Ints]:
    """Time, policy and recomputed units of each stage at last."""
    found = [stage_s(loads, num_units[:, :, None], policy) for policy in range(loads.unit_s.shape[2])]
    times_s = np.concatenate([one[0] for one in found], axis=2)
    policy = np.argmin(times_s, axis=2)[:, :, None]
    num_recomputed = np.concatenate([one[1] for one in found], axis=2)
    return (
        np.take_along_axis(times_s, policy, axis=2)[:, :, 0],
        policy[:, :, 0],
        np.take_along_axis(num_recomputed, policy, axis=2)[:, :, 0],
    )
