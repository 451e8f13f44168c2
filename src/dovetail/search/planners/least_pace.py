"""Layers by stage of many plans at once: the slowest stage as fast as can be, then all stages together.

The time of a stage grows with its layers. So at a given pace each stage holds a most, and the least pace at which these
add up to the model is, among all times "stage s with n layers", the one with as many below it as the model has layers:
an order statistic, exact and without a search (docs/model/planning.md). What the stages hold beyond the model is then
taken away where it saves most, by a program over that surplus alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.workload.graph import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What is to be cut: units of each plan, the stages that it has, and the fewest that one of them may hold.

    A unit is a layer, or v layers where a stage has v chunks.
    """

    num_units: IntArray  # (plans,)
    is_stage: BoolArray  # (plans, stages)
    min_units: int = 1


def least_pace_s(cut: Cut, table_s: FloatArray) -> FloatArray:
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


def least_sum(cut: Cut, table_s: FloatArray, num_most: IntArray, fits: BoolArray) -> IntArray:
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
