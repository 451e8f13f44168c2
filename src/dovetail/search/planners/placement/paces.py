"""The paces a pipeline can have, the least batch time each allows, and the batch time of what was found.

The slowest stage sets the pace, so that a pace is the load of some stage; alike layers make alike stages, and there are
few. A pace whose least batch time is no better than a placement at hand need not be tried.
"""

from __future__ import annotations

import numpy as np

from dovetail.search.planners.placement.chain import ROUNDING_TOLERANCE, Chain, Floats, Ints
from dovetail.search.planners.placement.problem import synced_s


def paces(chain: Chain) -> Floats:
    """Every load a stage of the chain can have, ascending, each once but for rounding."""
    start, end = _unlike_stages(chain)
    is_last = end == chain.num_layers
    plain = np.ones_like(is_last) if chain.problem.recompute != "always" else is_last
    found = [chain.plain_s(start[plain], end[plain])]
    if chain.problem.recompute != "never":
        found.append(chain.again_s(start[~is_last], end[~is_last]))
    load_s = np.sort(np.concatenate(found))
    return np.asarray(load_s[np.append(True, np.diff(load_s) > ROUNDING_TOLERANCE * load_s[1:])])


def _unlike_stages(chain: Chain) -> tuple[Ints, Ints]:
    """Stages by where they begin and end, leaving out those that differ by a shift inside a run of alike layers."""
    ends = [int(end) for end in chain.run_ends]
    begins = [0, *ends[:-1]]
    starts, stops = [], []
    for index, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        inside = np.arange(begin + 1, end + 1)
        for first in {begin, min(begin + 1, end - 1)}:  # the first of all has no edge in front of it
            longer = inside[inside > first]
            starts.append(np.full(len(longer), first))
            stops.append(longer)
        starts.append(inside - 1)
        stops.append(np.full(len(inside), end))
        for later, last in zip(begins[index + 1 :], ends[index + 1 :], strict=True):
            neighbour = np.arange(later + 1, last + 1)
            starts.append(np.repeat(inside - 1, len(neighbour)))
            stops.append(np.tile(neighbour, len(inside)))
    return np.concatenate(starts), np.concatenate(stops)


class Copies:
    """Degrees of data parallelism worth trying: for each number of microbatches a pipeline, the smallest."""

    def __init__(self, chain: Chain) -> None:
        problem, num_microbatches = chain.problem, chain.variant.num_microbatches
        degrees = np.arange(1, min(problem.num_devices, num_microbatches) + 1)
        each = -(-num_microbatches // degrees)
        is_first = np.append(True, each[1:] != each[:-1])
        self.degrees: Ints = degrees[is_first]
        self.num_each: Ints = each[is_first]
        self._num_devices = problem.num_devices
        self._s_per_byte = np.array([synced_s(int(d), 1.0, problem.link_bytes_per_s) for d in self.degrees])

    def batch_s(self, pace_s: Floats, num_stages: Ints, num_devices: Ints, first_bytes: Floats) -> Floats:
        """The batch time of pipelines by degree; infinite where there are too few devices for all copies."""
        took_s = pace_s[:, None] * (self.num_each + num_stages[:, None] - 1) + first_bytes[:, None] * self._s_per_byte
        return np.where(num_devices[:, None] * self.degrees <= self._num_devices, took_s, np.inf)

    def least_batch_s(self, pace_s: Floats, num_stages: Ints, num_devices: Ints) -> Floats:
        """No pipeline at this pace with at least so many stages and devices is faster; gradients are free here."""
        room = np.searchsorted(self.degrees, self._num_devices // np.maximum(num_devices, 1), side="right") - 1
        took_s = pace_s * (self.num_each[np.maximum(room, 0)] + num_stages - 1)
        return np.where(room >= 0, took_s, np.inf)


def least_stages(chain: Chain, pace_s: Floats) -> Ints:
    """Fewer stages than this cannot hold the chain: the work of all fits their time, the bytes of all their memory.

    Beyond what the problem allows where nothing can.
    """
    recompute, none = chain.problem.recompute, chain.max_stages + 1
    forward_s, work_s = np.diff(chain.forward_s), np.diff(chain.work_s)
    edges_s = chain.edge_s[1:-1]
    edge_s = float(edges_s.min()) * (2 if recompute == "never" else 1) if len(edges_s) else 0.0
    total_s = np.full(len(pace_s), chain.work_s[-1])
    if recompute == "always":  # the last stage alone runs forward once, and its work is no more than the pace
        share = np.divide(forward_s, work_s, out=np.ones_like(work_s), where=work_s > 0).max()
        total_s = total_s + np.maximum(chain.forward_s[-1] - share * pace_s, 0.0)
    room_s = pace_s - edge_s
    with np.errstate(divide="ignore", invalid="ignore"):
        by_time = np.ceil((total_s - edge_s) / room_s * (1 - ROUNDING_TOLERANCE) - ROUNDING_TOLERANCE)
    by_time = np.where(room_s > 0, by_time, none)
    by_time = np.where(total_s <= pace_s * (1 + ROUNDING_TOLERANCE), 1, np.clip(by_time, 1, none))
    by_run = np.where(chain.work_s[-1] <= pace_s * (1 + ROUNDING_TOLERANCE), 1, _num_by_run(chain, pace_s))
    return np.maximum(np.maximum(by_time.astype(np.int64), by_run), _num_by_memory(chain))


def _num_by_run(chain: Chain, pace_s: Floats) -> Ints:
    """Two or more stages that hold the longest run alone, each the most that time and memory let it at its position.

    At position q a stage holds min(a, A[q]) without recompute, where A falls with q, or c with it; the better of the
    two is a at first, then A[q], then c. Edges are counted as the chain's least, once, and not for the first stage.
    """
    problem, run = chain.problem, max(chain.variant.runs, key=lambda run: run.num_layers)
    edge_s = float(chain.edge_s[1:-1].min()) if chain.num_layers > 1 else 0.0
    again_s = 2 * run.forward_s + run.backward_s
    held_bytes = problem.weight_copies * run.weight_bytes + run.activation_bytes
    each_bytes = held_bytes + np.arange(chain.max_stages, dtype=np.float64) * run.activation_bytes
    by_memory = _most(np.full(chain.max_stages, float(problem.memory_bytes)), each_bytes, run.num_layers)
    if problem.recompute == "always":
        by_memory[1:] = 0
    plain = _most(pace_s - edge_s, run.forward_s + run.backward_s, run.num_layers)
    again, first = np.zeros_like(plain), np.zeros_like(plain)
    if problem.recompute != "never":
        again = np.minimum(_most(pace_s - edge_s, again_s, run.num_layers), by_memory[0])
        first = np.minimum(_most(pace_s, again_s, run.num_layers), by_memory[0]) - again
    return _num_adding_up(run.num_layers - first, plain, by_memory, again, chain.max_stages + 1)


def _most(room: Floats, each: float | Floats, most: int) -> Ints:
    """How many fit, rounded up where it is close, and at most so many."""
    with np.errstate(divide="ignore", invalid="ignore"):
        num = np.nan_to_num(room / each * (1 + ROUNDING_TOLERANCE) + ROUNDING_TOLERANCE, nan=most, posinf=most)
    return np.clip(num, 0, most).astype(np.int64)


def _num_adding_up(wanted: Ints, at_first: Ints, falling: Ints, at_last: Ints, none: int) -> Ints:
    """The fewest places q whose max(min(at_first, falling[q]), at_last) add up to what is wanted; `none` where none."""
    sums = np.append(0, np.cumsum(falling))
    num_first = np.searchsorted(-falling, -at_first, side="right")
    num_falling = np.maximum(np.searchsorted(-falling, -at_last, side="right"), num_first)
    first = at_first * num_first
    until = first + sums[num_falling] - sums[num_first]
    by_first = -(-wanted // np.maximum(at_first, 1))
    by_falling = np.searchsorted(sums, sums[num_first] + wanted - first, side="left")
    by_last = num_falling - (-(wanted - until) // np.maximum(at_last, 1))
    beyond = np.where(at_last > 0, by_last, none)
    return np.minimum(np.where(wanted <= first, by_first, np.where(wanted <= until, by_falling, beyond)), none)


def _num_by_memory(chain: Chain) -> int:
    """Stages until their memory, less what each holds for microbatches under way, holds everything once."""
    problem = chain.problem
    before = np.arange(chain.max_stages)
    each_bytes = np.full(chain.max_stages, float(problem.memory_bytes))
    if problem.recompute == "never":
        each_bytes = each_bytes / (1 + before * least_stash_share(chain))
    elif problem.recompute == "always" and chain.num_layers > 1:
        each_bytes = np.maximum(each_bytes - before * float(chain.edge_bytes[1:-1].min()), 0.0)
    # The first stage of all has no edge in front of it, wherever it stands.
    all_bytes = np.cumsum(each_bytes) - each_bytes + (each_bytes if problem.recompute == "never" else each_bytes[0])
    reached = all_bytes >= chain.held_bytes[-1] * (1 - ROUNDING_TOLERANCE)
    return int(np.argmax(reached)) + 1 if reached.any() else chain.max_stages + 1


def least_stash_share(chain: Chain) -> float:
    """What every layer keeps for one more microbatch under way, at least, as a share of what it holds with one."""
    if chain.problem.recompute != "never":
        return 0.0
    held_bytes, kept_bytes = np.diff(chain.held_bytes), np.diff(chain.activation_bytes)
    return float(np.divide(kept_bytes, held_bytes, out=np.zeros_like(held_bytes), where=held_bytes > 0).min())
