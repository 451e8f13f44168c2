"""Layers and recompute by stage where layers are of several kinds in a given order, as dense layers before experts.

The same question as `balance` answers for alike layers. Where a stage begins now matters, so that stages are told by
their end and their length, and two small programs over the cut points give the least pace and then the least sum. Of a
stage its first units are recomputed, as few as memory allows (Megatron-LM's block recompute).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.search.planners.balance import Balanced, Bools, Floats, Ints

TABLE_ELEMENTS = 65_536  # of one stage's table of times: larger batches are cut, so that memory stays small

PER_STAGE = ("in_flight", "memory_bytes", "fixed_s", "fixed_bytes", "recompute_bytes")
PER_KIND = ("unit_bytes", "full_s", "full_bytes")
PER_POLICY = ("unit_s", "kept_bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceLoads:
    """As `StageLoads`, with kinds of units as the last axis of what differs among them, and `kinds`, their order."""

    kinds: Ints  # (units,): the kind of each, first to last
    is_stage: Bools  # (plans, stages)
    in_flight: Floats
    memory_bytes: Floats
    fixed_s: Floats
    fixed_bytes: Floats
    recompute_bytes: Floats
    unit_bytes: Floats  # (plans, stages, kinds)
    full_s: Floats
    full_bytes: Floats
    unit_s: Floats  # (plans, stages, policies, kinds)
    kept_bytes: Floats
    min_units: int = 1

    def __post_init__(self) -> None:
        num_plans, num_stages = self.is_stage.shape
        num_kinds = self.unit_s.shape[-1]
        for labels, depth in ((PER_STAGE, 2), (PER_KIND, 3), (PER_POLICY, 4)):
            for label in labels:
                got = getattr(self, label)
                fits = got.ndim == depth and got.shape[0] in (1, num_plans) and got.shape[1] in (1, num_stages)
                if not fits or (depth > 2 and got.shape[-1] != num_kinds):
                    raise InvalidInput(f"{label} must broadcast to plans and stages, {depth} axes; got {got.shape}")
                if np.isnan(got).any() or (got < 0).any():
                    raise InvalidInput(f"{label} must be at least 0 everywhere")
        if self.unit_s.shape[2] != self.kept_bytes.shape[2]:
            got = f"{self.unit_s.shape[2]} and {self.kept_bytes.shape[2]}"
            raise InvalidInput(f"unit_s and kept_bytes must have as many policies; got {got}")
        if (self.full_s[:, :, None] < self.unit_s).any() or (self.full_bytes[:, :, None] > self.kept_bytes).any():
            raise InvalidInput("a unit recomputed in full must be no faster and keep no more than under a policy")
        if self.kinds.ndim != 1 or np.any((self.kinds < 0) | (self.kinds >= num_kinds)):
            raise InvalidInput(f"kinds must name one of {num_kinds} kinds for each unit")
        if self.min_units < 0:
            raise InvalidInput(f"min_units must be at least 0; got {self.min_units}")


@dataclass(frozen=True, slots=True)
class _Stages:
    """One stage of all plans by length and end; what the best policy takes, which it is, and how many it recomputes."""

    took_s: Floats  # (plans, lengths, ends)
    policy: Ints
    num_recomputed: Ints


def balanced_sequence(loads: SequenceLoads) -> Balanced:
    """The least pace, and among cuts with that pace the least sum, both exact."""
    num_plans = len(loads.is_stage)
    each = max(1, TABLE_ELEMENTS // ((len(loads.kinds) + 1) * (_first_guess(loads) + 1)))
    rows = [np.arange(first, min(first + each, num_plans)) for first in range(0, max(num_plans, 1), each)]
    parts = [_balanced(loads, chosen) for chosen in rows]
    return Balanced(*(np.concatenate([getattr(part, name) for part in parts]) for name in Balanced.__slots__))


def _first_guess(loads: SequenceLoads) -> int:
    """Stages so long are looked at first: a quarter more than the even share."""
    num_stages = loads.is_stage.sum(axis=1)
    share = -(-len(loads.kinds) // max(1, int(num_stages.min()) if len(num_stages) else 1))
    return share + max(2, share // 4) + loads.min_units


def _balanced(loads: SequenceLoads, rows: Ints) -> Balanced:
    most = len(loads.kinds)
    num_stages = loads.is_stage.shape[1]
    width = min(_first_guess(loads), most)
    while True:
        unlike = _unlike(loads.kinds, width)
        stages = [_stages(loads, rows, stage, unlike) for stage in range(num_stages)]
        pace_s = _pace_s(stages, most)
        # A stage as long as all that was looked at and no slower than the pace might be longer, and the pace be less.
        longest_s = np.minimum.reduce([stage.took_s[:, width, width:].min(axis=1) for stage in stages])
        if width == most or np.all(longest_s > pace_s):
            break
        width = min(2 * width, most)
    return _cut(stages, pace_s, most)


@dataclass(frozen=True, slots=True)
class _Unlike:
    """Stages that differ in the kinds they hold, and which of them a stage of some length and end is."""

    start: Ints
    end: Ints
    index: Ints  # (lengths, ends)


def _unlike(kinds: Ints, width: int) -> _Unlike:
    order = kinds.astype(np.int16).tobytes()
    places: dict[bytes, int] = {}
    start, end = [], []
    index = np.zeros((width + 1, len(kinds) + 1), dtype=np.int64)
    for length in range(width + 1):
        for last in range(length, len(kinds) + 1):
            held = order[2 * (last - length) : 2 * last]
            if held not in places:
                places[held] = len(places)
                start.append(last - length)
                end.append(last)
            index[length, last] = places[held]
    return _Unlike(np.array(start), np.array(end), index)


def _stages(loads: SequenceLoads, rows: Ints, stage: int, unlike: _Unlike) -> _Stages:
    start, end = unlike.start, unlike.end
    found = [_under_policy(loads, rows, stage, policy, start, end) for policy in range(loads.unit_s.shape[2])]
    times_s = np.stack([one[0] for one in found])
    policy = np.argmin(times_s, axis=0)
    took_s = np.take_along_axis(times_s, policy[None], axis=0)[0]
    again = np.take_along_axis(np.stack([one[1] for one in found]), policy[None], axis=0)[0]
    length = end - start
    took_s = np.where(length >= loads.min_units, took_s, np.inf)
    took_s = np.where(loads.is_stage[rows, stage][:, None], took_s, np.where(length == 0, 0.0, np.inf))
    return _Stages(took_s[:, unlike.index], policy[:, unlike.index], again[:, unlike.index])


def _under_policy(
    loads: SequenceLoads, rows: Ints, stage: int, policy: int, start: Ints, end: Ints
) -> tuple[Floats, Ints]:
    """Times of stages [start, end), and how many of their first units are recomputed."""

    def at(label: str) -> Floats:
        return _row(getattr(loads, label), rows, stage)[:, None]

    def sums(values: Floats) -> Floats:
        """Running sums over the units, from values by kind."""
        each = values[:, loads.kinds]
        return np.concatenate((np.zeros((len(each), 1)), np.cumsum(each, axis=1)), axis=1)

    unit_s, kept_bytes = (_row(getattr(loads, label), rows, stage)[:, policy] for label in PER_POLICY)
    own_bytes, full_s, full_bytes = (_row(getattr(loads, label), rows, stage) for label in PER_KIND)
    work_s = sums(unit_s)
    held_bytes = sums(own_bytes + _row(loads.in_flight, rows, stage)[:, None] * kept_bytes)
    saved_bytes = sums(_row(loads.in_flight, rows, stage)[:, None] * (kept_bytes - full_bytes))
    can_save = np.asarray(np.isfinite(full_s).all(axis=1))[:, None]
    more_s = sums(np.where(np.isfinite(full_s), full_s - unit_s, 0.0))
    over_bytes = at("fixed_bytes") + held_bytes[:, end] - held_bytes[:, start] - at("memory_bytes")
    needed_bytes = saved_bytes[:, start] + over_bytes + at("recompute_bytes")
    until = np.where(over_bytes > 0, _first_reaching(saved_bytes, needed_bytes, start, end), start)
    fits = (over_bytes <= 0) | (can_save & (until <= end))
    until = np.where(fits, until, start)
    row = np.arange(len(rows))[:, None]
    took_s = at("fixed_s") + work_s[:, end] - work_s[:, start] + more_s[row, until] - more_s[:, start]
    return np.where(fits, took_s, np.inf), until - start


def _row(value: Floats, rows: Ints, stage: int) -> Floats:
    own = value[rows] if len(value) > 1 else np.broadcast_to(value, (len(rows), *value.shape[1:]))
    return own[:, stage if value.shape[1] > 1 else 0]


def _first_reaching(sums: Floats, wanted: Floats, start: Ints, end: Ints) -> Ints:
    """The first place after `start` where running sums reach what is wanted; beyond `end` where they do not."""
    row = np.arange(len(sums))[:, None]
    low = np.broadcast_to(start + 1, wanted.shape).copy()
    high = np.broadcast_to(end + 1, wanted.shape).copy()
    last = sums.shape[1] - 1
    while np.any(low < high):
        middle = (low + high) // 2
        is_enough = sums[row, np.minimum(middle, last)] >= wanted
        is_open = low < high
        high = np.where(is_open & is_enough, middle, high)
        low = np.where(is_open & ~is_enough, middle + 1, low)
    return low


def _pace_s(stages: list[_Stages], num_units: int) -> Floats:
    """The least slowest stage of each plan, by the ends of its stages."""
    best_s = np.full((len(stages[0].took_s), num_units + 1), np.inf)
    best_s[:, 0] = 0.0
    for stage in stages:
        before_s, best_s = best_s, np.full_like(best_s, np.inf)
        for length in range(stage.took_s.shape[1]):
            own_s = np.maximum(before_s[:, : num_units + 1 - length], stage.took_s[:, length, length:])
            np.minimum(best_s[:, length:], own_s, out=best_s[:, length:])
    return np.asarray(best_s[:, num_units])


def _cut(stages: list[_Stages], pace_s: Floats, num_units: int) -> Balanced:
    """The cut with the least sum at that pace."""
    num_plans, num_stages = len(pace_s), len(stages)
    best_s = np.full((num_plans, num_units + 1), np.inf)
    best_s[:, 0] = 0.0
    lengths = np.zeros((num_stages, num_plans, num_units + 1), dtype=np.int64)
    for index, stage in enumerate(stages):
        allowed_s = np.where(stage.took_s <= pace_s[:, None, None], stage.took_s, np.inf)
        before_s, best_s = best_s, np.full_like(best_s, np.inf)
        for length in range(allowed_s.shape[1]):
            sum_s = before_s[:, : num_units + 1 - length] + allowed_s[:, length, length:]
            is_less = sum_s < best_s[:, length:]
            best_s[:, length:][is_less] = sum_s[is_less]
            lengths[index, :, length:][is_less] = length
    row, end = np.arange(num_plans), np.full(num_plans, num_units)
    shape = (num_plans, num_stages)
    units, policy, again = (np.zeros(shape, dtype=np.int64) for _ in range(3))
    stage_s = np.zeros(shape)
    for index in range(num_stages - 1, -1, -1):
        length = lengths[index, row, end]
        units[:, index] = length
        policy[:, index] = stages[index].policy[row, length, end]
        again[:, index] = stages[index].num_recomputed[row, length, end]
        stage_s[:, index] = stages[index].took_s[row, length, end]
        end = end - length
    return Balanced(np.isfinite(pace_s), pace_s, stage_s.sum(axis=1), units, policy, again, stage_s)
