"""Layers by stage of 1F1B pipelines: the cut whose longest way, waiting on one stage, is the shortest.

With f_k, b_k and t_k of stage k, forward, backward and both, P_k of all before it, c of a transfer beside compute, and
p stages from 0 on, a step of m microbatches takes at least (`one_f_one_b.step_s`)

    (m - 1 - p + k) t_k - P_k - 2 k c + max over i >= k of [P_{i+1} + 2 i c + (p - 1 - i) f_i]
                                      + max over j >= k of the same with b_j

for every k and m > p: k waits for its first backward pass, works without a gap, and is waited for after its last
forward pass. A program over stages, from the last one on, keeps for so many layers held all that the stages before can
tell apart: S from k on, both maxima with -S_{i+1} in place of P_{i+1}, and the greatest of the sums above so far, of
which none is kept that another with the same S is no worse than in each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dovetail.search.plan_stages import PlanStages
from dovetail.workload.graph import FloatArray

MAX_WAYS = 400_000  # that a program looks at; one that needs more says nothing
SAME_DIGITS = 12  # style: of sums in another order, which are then one


@dataclass(frozen=True, slots=True)
class _Way:
    """From a stage on: what all take, the waits before and after, the longest so far, layers here, and what follows."""

    behind_s: float
    first_s: float
    last_s: float
    most_s: float
    num_layers: int
    after: _Way | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Stages after it, microbatches that a path stays on it for, and transfers to it and back."""

    num_ahead: int
    num_stays: int
    handed_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastWalk:
    """The least that a cut's pipeline takes at least, and the cut; no more than 0 and nothing where it is not known."""

    low_s: float
    layers: tuple[int, ...]


UNKNOWN = LeastWalk(low_s=0.0, layers=())


def least_walk(forward_s: FloatArray, backward_s: FloatArray, num_layers: int, stages: PlanStages) -> LeastWalk:
    """Of stages by number of layers, infinite where a stage may not hold as many."""
    num_stages, each_s, both_ways_s = len(forward_s), stages.paid_s / 2, 2 * stages.lag_s
    fewest, most = _reach(forward_s)
    ways: dict[int, list[_Way]] = {0: [_Way(0.0, -np.inf, -np.inf, -np.inf, 0, None)]}
    num_looked_at = 0
    for stage in reversed(range(num_stages)):
        ahead, weight = num_stages - 1 - stage, stages.num_microbatches - 1 - num_stages + stage
        here = _Stage(num_ahead=ahead, num_stays=weight, handed_s=stage * both_ways_s)
        found: dict[int, list[_Way]] = {}
        for held in np.flatnonzero(np.isfinite(forward_s[stage])).tolist():
            f_s, b_s = float(forward_s[stage, held]) + each_s, float(backward_s[stage, held]) + each_s
            for so_far, some in ways.items():
                if not fewest[stage] <= num_layers - so_far - held <= most[stage]:
                    continue
                num_looked_at += len(some)
                found.setdefault(so_far + held, []).extend(_longer(way, f_s, b_s, held, here) for way in some)
        if num_looked_at > MAX_WAYS:
            return UNKNOWN
        ways = {so_far: _undominated(some) for so_far, some in found.items()}
    best = min(ways.get(num_layers, []), key=lambda way: way.behind_s + way.most_s, default=None)
    if best is None:
        return LeastWalk(low_s=np.inf, layers=())
    low_s, layers, way = best.behind_s + best.most_s, [], best
    while way.after is not None:
        layers.append(way.num_layers)
        way = way.after
    return LeastWalk(low_s=low_s, layers=tuple(layers))


def _longer(way: _Way, f_s: float, b_s: float, held: int, here: _Stage) -> _Way:
    """With one more stage in front. P is T - S, so the sums above are T and what is kept here."""
    behind_s = way.behind_s + f_s + b_s
    first_s = max(way.first_s, here.num_ahead * f_s - way.behind_s + here.handed_s)
    last_s = max(way.last_s, here.num_ahead * b_s - way.behind_s + here.handed_s)
    most_s = max(way.most_s, here.num_stays * (f_s + b_s) + behind_s + first_s + last_s - here.handed_s)
    return _Way(behind_s, first_s, last_s, most_s, held, way)


def _undominated(ways: list[_Way]) -> list[_Way]:
    by_sum: dict[float, list[_Way]] = {}
    for way in sorted(ways, key=lambda way: (way.most_s, way.first_s, way.last_s)):
        alike = by_sum.setdefault(float(f"{way.behind_s:.{SAME_DIGITS}g}"), [])
        if not any(other.first_s <= way.first_s and other.last_s <= way.last_s for other in alike):
            alike.append(way)
    return [way for alike in by_sum.values() for way in alike]


def _reach(time_s: FloatArray) -> tuple[list[int], list[int]]:
    """The fewest and most layers that all stages before each can hold."""
    fewest, most = [0], [0]
    for stage_s in time_s:
        held = np.flatnonzero(np.isfinite(stage_s))
        is_none = not len(held)
        fewest.append(fewest[-1] + (10**9 if is_none else int(held[0])))  # style: more than any model has
        most.append(most[-1] - (10**9 if is_none else -int(held[-1])))  # style: as above
    return fewest, most
