"""How far a pipeline reaches at a given pace: stages from the last to the first, each as long as it can be.

Taking the longest stage each time is exact when a stage that ends earlier is never slower (`is_greedy_exact`): whatever
another choice leaves to the stages in front, this one leaves less. Many paces run side by side, and inside a run of
alike layers all stages are placed at once, so that the work grows with runs and not with layers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.search.planners.placement.chain import ROUNDING_TOLERANCE, Bools, Chain, Floats, Ints
from dovetail.search.planners.placement.paces import least_stash_share

JUMPED_LAYERS = 8  # runs shorter than this are walked stage by stage, which is as quick
JUMPED_STAGES = 64  # looked at first in a jump; four times as many where they do not fill the run


@dataclass(frozen=True, slots=True)
class Reached:
    """Pipelines found: which of the paces, how many stages, and where the first stage ends."""

    lane: Ints
    num_stages: Ints
    first_end: Ints


def is_greedy_exact(chain: Chain) -> bool:
    """Whether stages all take as many devices, and one that ends a layer earlier never waits longer for its edge."""
    is_uniform = chain.variant.tensor_parallel == 1 or chain.num_sharded[-1] == chain.num_layers
    earlier_s, later_s = chain.edge_s[1:-2], chain.edge_s[2:-1]
    return bool(is_uniform and np.all(earlier_s <= later_s + np.diff(chain.work_s)[1:-1]))


class Reach:
    """A chain prepared for reaching: monotone envelopes of what a start costs, and the runs worth jumping over."""

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.max_stages = min(chain.max_stages, chain.problem.num_devices // chain.variant.tensor_parallel)
        edge_s, both_s = chain.edge_s, chain.work_s + chain.forward_s
        # What lies in front of a start, at best: a relaxation that never falls as the start moves back.
        self._work_s = np.maximum.accumulate(chain.work_s - edge_s)
        self._both_s = np.maximum.accumulate(both_s - edge_s)
        edges = np.append(np.inf, chain.edge_bytes[1:])
        self._edge_bytes = np.minimum.accumulate(edges)
        self._again_s = both_s if chain.problem.recompute == "always" else chain.work_s
        self._stash_share = least_stash_share(chain)
        self._run_begins = np.append(0, chain.run_ends[:-1])

    def pipelines(self, pace_s: Floats, trace: list[tuple[Ints, Ints]] | None = None) -> Reached:
        """Every pipeline worth having at each pace: its first stage as short as so many stages make it."""
        lane = np.arange(len(pace_s))
        end = np.full(len(pace_s), self.chain.num_layers)
        position = np.ones(len(pace_s), dtype=np.int64)
        found = []
        while len(lane):
            end, position = self._jumped(end, position, pace_s[lane])
            if trace is not None:
                trace.append((end, position))
            whole = self.chain.runs(np.zeros_like(end), end, position, pace_s[lane])
            found.append((lane[whole], position[whole], end[whole]))
            goes_on = (end > 1) & (position < self.max_stages)
            lane, end, position = lane[goes_on], end[goes_on], position[goes_on]
            start = self.first_starts(end, position, pace_s[lane])
            goes_on = start < end
            lane, end, position = lane[goes_on], start[goes_on], position[goes_on] + 1
            if trace is not None:
                trace.append((end, position))
        return Reached(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def first_starts(self, end: Ints, position: Ints, pace_s: Floats) -> Ints:
        """Where the longest stage that ends at `end` begins, not counting one from layer 0; `end` where none runs."""
        low, high = np.ones_like(end), end.copy()
        while np.any(low < high):
            middle = (low + high) // 2
            runs = self._may_run(middle, end, position, pace_s)
            high = np.where(runs, middle, high)
            low = np.where(runs, low, middle + 1)
        wrong = np.flatnonzero(high < end)
        while len(wrong):
            runs = self.chain.runs(high[wrong], end[wrong], position[wrong], pace_s[wrong])
            wrong = wrong[~runs]
            high[wrong] += 1
            wrong = wrong[high[wrong] < end[wrong]]
        return high

    def _may_run(self, start: Ints, end: Ints, position: Ints, pace_s: Floats) -> Bools:
        chain, limit_s = self.chain, pace_s * (1 + ROUNDING_TOLERANCE)
        held_bytes = chain.held_bytes[end] - chain.held_bytes[start]
        memory_bytes = chain.problem.memory_bytes
        behind_s = chain.work_s[end] + chain.edge_s[end] - self._work_s[start] <= limit_s
        kept_bytes = chain.activation_bytes[end] - chain.activation_bytes[start]
        plain = behind_s & (held_bytes + (position - 1) * kept_bytes <= memory_bytes)
        if chain.problem.recompute == "never":
            return np.asarray(plain)
        both_s = chain.work_s[end] + chain.forward_s[end] - self._both_s[start]
        again = behind_s & (both_s <= limit_s) & (position > 1)
        again &= held_bytes + (position - 1) * self._edge_bytes[start] <= memory_bytes
        if chain.problem.recompute == "always":
            return np.asarray(again | (plain & (position == 1)))
        return np.asarray(again | plain)

    def _jumped(self, end: Ints, position: Ints, pace_s: Floats) -> tuple[Ints, Ints]:
        """Past all stages that lie well inside a run, with the same edge at either side."""
        end, position = end.copy(), position.copy()
        run = np.searchsorted(self.chain.run_ends, end, side="left")
        for index in sorted(set(run.tolist())):
            begin, stop = self._run_begins[index], self.chain.run_ends[index]
            if stop - begin < JUMPED_LAYERS:
                continue
            is_inside = self.chain.edge_s[end] == self.chain.edge_s[max(begin, 1)]
            lanes = np.flatnonzero((run == index) & (position > 1) & is_inside)
            room = end[lanes] - self._closest(begin, stop, position[lanes], pace_s[lanes])
            lanes, room = lanes[room > 0], room[room > 0]
            if not len(lanes):
                continue
            num_layers, num_jumped = self._jump(index, position[lanes], room, pace_s[lanes])
            end[lanes] -= num_layers
            position[lanes] += num_jumped
        return end, position

    def _jump(self, run: int, position: Ints, room: Ints, pace_s: Floats) -> tuple[Ints, Ints]:
        """How many layers and stages fit into `room` layers of a run, from a position on."""
        row, before = np.arange(len(room)), position - 1
        num_columns = min(int(position.max()) + JUMPED_STAGES, self.max_stages)
        while True:
            reached = np.cumsum(self.stage_layers(run, pace_s, num_columns), axis=1)
            base = reached[row, before - 1]
            if num_columns == self.max_stages or np.all(reached[:, -1] > base + room):
                break
            num_columns = min(4 * num_columns, self.max_stages)
        num_jumped = (reached <= (base + room)[:, None]).sum(axis=1) - before
        return reached[row, before - 1 + num_jumped] - base, num_jumped

    def _closest(self, begin: int, stop: int, position: Ints, pace_s: Floats) -> Ints:
        """The least end a jump may come to.

        Nearer to the begin of the run or of the chain a stage could reach beyond it, where edges differ; there it is
        one step at a time. It cannot where neither time nor memory hold what lies between, edges left out.
        """
        limit_s = pace_s * (1 + ROUNDING_TOLERANCE)
        room_bytes = (
            self.chain.problem.memory_bytes * (1 + ROUNDING_TOLERANCE) / (1 + (position - 1) * self._stash_share)
        )
        least = np.ones_like(position)
        for first, last in ((0, self.chain.num_layers), (begin, stop)):
            inside = slice(first, last + 1)
            by_time = np.searchsorted(self._again_s[inside] - self._again_s[first], limit_s, side="right")
            held_bytes = self.chain.held_bytes[inside] - self.chain.held_bytes[first]
            by_memory = np.searchsorted(held_bytes, room_bytes, side="right")
            least = np.maximum(least, first + np.minimum(by_time, by_memory))
        return least

    def stage_layers(self, run: int, pace_s: Floats, num_positions: int) -> Ints:
        """The most layers of a stage inside a run, by pace and position from 1 on; too many where none runs."""
        chain, problem, of = self.chain, self.chain.problem, self.chain.variant.runs[run]
        num = np.arange(1, of.num_layers + 1)
        before = np.arange(num_positions)
        edge_s, limit_s = of.incoming_bytes / problem.link_bytes_per_s, pace_s * (1 + ROUNDING_TOLERANCE)
        held_bytes = problem.weight_copies * of.weight_bytes + of.activation_bytes
        layers = np.zeros((len(pace_s), num_positions), dtype=np.int64)
        if problem.recompute != "always":
            by_time = np.searchsorted(2 * edge_s + num * (of.forward_s + of.backward_s), limit_s, side="right")
            each_bytes = np.asarray(held_bytes + before * of.activation_bytes, dtype=np.float64)
            layers = np.minimum(by_time[:, None], _fitting(problem.memory_bytes, each_bytes, of.num_layers))
        if problem.recompute != "never":
            again_s = edge_s + num * (of.forward_s + of.backward_s) + np.maximum(num * of.forward_s, edge_s)
            by_time = np.searchsorted(again_s, limit_s, side="right")
            left_bytes = np.asarray(problem.memory_bytes - before * of.incoming_bytes, dtype=np.float64)
            by_memory = _fitting(left_bytes, np.full(num_positions, held_bytes), of.num_layers)
            layers = np.maximum(layers, np.minimum(by_time[:, None], by_memory))
        return np.where(layers > 0, layers, chain.num_layers + 1)


def _fitting(room_bytes: float | Floats, each_bytes: Floats, most: int) -> Ints:
    """How many of `each_bytes` fit, at most `most`: exact where a quotient is rounded."""
    room = np.broadcast_to(np.maximum(room_bytes, 0.0), each_bytes.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        num = np.minimum(np.nan_to_num(room / each_bytes, nan=most, posinf=most), most).astype(np.int64)
    num = np.where((num < most) & ((num + 1) * each_bytes <= room), num + 1, num)
    num = np.where(num * each_bytes > room, num - 1, num)
    return np.where(np.asarray(room_bytes) < 0, 0, num)
