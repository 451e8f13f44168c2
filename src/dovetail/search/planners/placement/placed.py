"""The best placement of a chain, exactly: paces by the least batch time they allow, until none can beat the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dovetail.errors import InvalidInput
from dovetail.search.planners.placement.chain import Chain, Floats, Ints
from dovetail.search.planners.placement.devices import Fewest
from dovetail.search.planners.placement.paces import Copies, least_stages, paces
from dovetail.search.planners.placement.problem import (
    PlacedStage,
    Placement,
    PlacementProblem,
    Unplaced,
    Variant,
    synced_s,
)
from dovetail.search.planners.placement.reach import Reach, is_greedy_exact

LANES = 16  # paces tried side by side at first, and four times as many each time after: most searches end at once


@dataclass(frozen=True, slots=True)
class _Best:
    """The fastest pipeline so far: at which pace, and by which stages."""

    batch_s: float
    chain: Chain
    pace_s: float
    num_stages: int
    first_end: int
    data_parallel: int


@dataclass(frozen=True, slots=True)
class _Found:
    """Pipelines side by side, ready to be timed."""

    pace_s: Floats
    num_stages: Ints
    num_devices: Ints
    first_end: Ints


NOTHING = _Found(np.zeros(0), *([np.zeros(0, dtype=np.int64)] * 3))


@dataclass(frozen=True, slots=True)
class _Ordered:
    """A variant's paces, the most promising first."""

    chain: Chain
    copies: Copies
    pace_s: Floats
    least_s: Floats


def best_placement(problem: PlacementProblem) -> Placement | Unplaced:
    """The placement with the least batch time over all variants, cuts, recompute choices and degrees.

    Exact but for rounding: what is not tried is shown by its least batch time to be no better.
    """
    best: _Best | None = None
    ordered = [_ordered(Chain(problem, variant)) for variant in problem.variants]
    for one in sorted((one for one in ordered if len(one.pace_s)), key=lambda one: float(one.least_s[0])):
        best = _best_of(one, best)
    if best is None:
        return Unplaced(f"no cut fits {problem.num_devices} devices of {problem.memory_bytes:g} bytes")
    return _placement(best)


def _ordered(chain: Chain) -> _Ordered:
    copies, pace_s = Copies(chain), paces(chain)
    num_stages = least_stages(chain, pace_s)
    each = chain.variant.tensor_parallel if is_greedy_exact(chain) else 1
    least_s = copies.least_batch_s(pace_s, num_stages, num_stages * each)
    least_s[num_stages > chain.max_stages] = np.inf
    order = np.argsort(least_s, kind="stable")
    order = order[np.isfinite(least_s[order])]
    return _Ordered(chain, copies, pace_s[order], least_s[order])


def _best_of(one: _Ordered, best: _Best | None) -> _Best | None:
    is_greedy = is_greedy_exact(one.chain)
    reach, fewest = (Reach(one.chain), None) if is_greedy else (None, Fewest(one.chain))
    first, lanes = 0, LANES if is_greedy else 1
    while first < len(one.pace_s) and (best is None or one.least_s[first] < best.batch_s):
        pace_s = one.pace_s[first : first + lanes]
        first, lanes = first + lanes, lanes * 4 if is_greedy else 1
        if reach is not None:
            found = _reached(one.chain, reach, pace_s)
        else:
            assert fewest is not None
            found = _counted(one, fewest, float(pace_s[0]), best)
        best = _faster(one, found, best)
    return best


def _reached(chain: Chain, reach: Reach, pace_s: Floats) -> _Found:
    if reach.max_stages < 1:
        return NOTHING
    got = reach.pipelines(pace_s)
    return _Found(pace_s[got.lane], got.num_stages, got.num_stages * chain.variant.tensor_parallel, got.first_end)


def _counted(one: _Ordered, fewest: Fewest, pace_s: float, best: _Best | None) -> _Found:
    at = np.array([pace_s])
    parts: list[_Found] = []
    for num_stages, needed in fewest.by_first_end(pace_s, one.chain.max_stages):
        count = np.array([num_stages])
        if best is not None and one.copies.least_batch_s(at, count, count)[0] >= best.batch_s:
            break
        end = np.flatnonzero(needed <= one.chain.problem.num_devices)
        parts.append(_Found(np.full(len(end), pace_s), np.full(len(end), num_stages), needed[end], end))
    if not parts:
        return NOTHING
    return _Found(
        np.concatenate([part.pace_s for part in parts]),
        np.concatenate([part.num_stages for part in parts]),
        np.concatenate([part.num_devices for part in parts]),
        np.concatenate([part.first_end for part in parts]),
    )


def _faster(one: _Ordered, found: _Found, best: _Best | None) -> _Best | None:
    """The better of what was found and the best so far."""
    if not len(found.pace_s):
        return best
    first_bytes = one.chain.weight_bytes[found.first_end]
    batch_s = one.copies.batch_s(found.pace_s, found.num_stages, found.num_devices, first_bytes)
    row, column = np.unravel_index(int(np.argmin(batch_s)), batch_s.shape)
    if not np.isfinite(batch_s[row, column]) or (best is not None and batch_s[row, column] >= best.batch_s):
        return best
    return _Best(
        batch_s=float(batch_s[row, column]),
        chain=one.chain,
        pace_s=float(found.pace_s[row]),
        num_stages=int(found.num_stages[row]),
        first_end=int(found.first_end[row]),
        data_parallel=int(one.copies.degrees[column]),
    )


def _placement(best: _Best) -> Placement:
    chain = best.chain
    if is_greedy_exact(chain):
        ends = _greedy_ends(Reach(chain), best)
    else:
        ends = Fewest(chain).ends(best.pace_s, best.num_stages, best.first_end)
    return placement_of(chain.problem, chain.variant, best.data_parallel, ends)


def _greedy_ends(reach: Reach, best: _Best) -> list[int]:
    """Where stages end, first to last: one pace walked again, with its jumps written out."""
    trace: list[tuple[Ints, Ints]] = []
    pace_s = np.array([best.pace_s])
    reach.pipelines(pace_s, trace)
    ends = [reach.chain.num_layers]
    for end, position in trace:
        if not len(end) or len(ends) >= best.num_stages or position[0] == len(ends):
            continue
        num_new = int(position[0]) - len(ends)
        if num_new == 1:
            ends.append(int(end[0]))
            continue
        run = int(np.searchsorted(reach.chain.run_ends, ends[-1], side="left"))
        layers = reach.stage_layers(run, pace_s, int(position[0]))[0, len(ends) - 1 : -1]
        ends += (ends[-1] - np.cumsum(layers)).tolist()
    return ends[: best.num_stages][::-1]


def placement_of(problem: PlacementProblem, variant: Variant, data_parallel: int, ends: Sequence[int]) -> Placement:
    """A given cut, timed: `ends` are where its stages end, first to last. Recompute only where memory asks for it."""
    chain = Chain(problem, variant)
    end = np.array(ends)
    start = np.append(0, end[:-1])
    if len(ends) == 0 or end[-1] != chain.num_layers or np.any(start >= end):
        raise InvalidInput(f"stages must end in order and at layer {chain.num_layers}; got {', '.join(map(str, ends))}")
    position, free_s = np.arange(len(ends), 0, -1), np.full(len(ends), np.inf)
    plain = chain.runs_plain(start, end, position, free_s)
    fits = plain | chain.runs_again(start, end, position, free_s)
    num_devices = chain.stage_devices(start, end)
    if not fits.all():
        raise InvalidInput(f"stage {int(np.argmin(fits))} of the cut does not fit {problem.memory_bytes:g} bytes")
    if int(num_devices.sum()) * data_parallel > problem.num_devices:
        need = int(num_devices.sum()) * data_parallel
        raise InvalidInput(f"the cut needs {need} devices and there are {problem.num_devices}")
    load_s = np.where(plain, chain.plain_s(start, end), chain.again_s(start, end))
    pace_s = float(load_s.max())
    num_each = -(-variant.num_microbatches // data_parallel)
    sync_s = synced_s(data_parallel, float(chain.weight_bytes[end[0]]), problem.link_bytes_per_s)
    rows = zip(start.tolist(), end.tolist(), num_devices.tolist(), plain.tolist(), load_s.tolist(), strict=True)
    stages = tuple(
        PlacedStage(first_layer=i, num_layers=j - i, num_devices=num, recomputes=not is_plain, load_s=load)
        for i, j, num, is_plain, load in rows
    )
    batch_s = pace_s * (num_each + len(ends) - 1) + sync_s
    return Placement(variant=variant, data_parallel=data_parallel, stages=stages, pace_s=pace_s, batch_s=batch_s)
