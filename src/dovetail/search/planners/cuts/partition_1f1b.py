"""Layers by stage of 1F1B pipelines: the cut with the shortest longest path, by dynamic programming over stages.

With f_k, b_k and t_k of stage k, forward, backward and both, P_k of all before it, c of a transfer beside compute, and
p stages from 0 on, a pipeline of m microbatches takes at least (`one_f_one_b.pipeline_s`)

    (m - 1 - p + k) t_k - P_k - 2 k c + max over i >= k of [P_{i+1} + 2 i c + (p - 1 - i) max over l <= i of f_l]
                                      + max over j >= k of the same with b

for every k and m > p: k waits for its first backward pass, works without a gap, and is waited for after its last
forward pass. Without transfers the greatest of them is the pipeline. The program goes over stages from the first one
on and keeps, of each partial cut, what the stages after it depend on: P, the greatest f and b, and the greatest sums of
the first term alone, with the second, with the third, and with both, P added to each but the last, so that one more
stage only adds to them. Dominance pruning: a partial cut that another beats in all of these sums is dropped, and so is
one that cannot end below the target even if the remaining stages take the least they can.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from dovetail.search.planners.cuts.plan_stages import PlanStages
from dovetail.workload.graph import FloatArray

MAX_PARTIAL_CUTS = 400_000  # that a program looks at or compares; one that needs more says nothing
SAME_FRAC = 1e-13  # style: a tolerance; sums in another order are one

# The sum with both waits, with the first, with the last, with none of them; P, and the greatest f and b.
_Sums = tuple[float, float, float, float, float, float, float]
_PartialCut = tuple[_Sums, int, "_PartialCut | None"]  # layers of its last stage, and what was before
_START: _PartialCut = ((-np.inf, -np.inf, -np.inf, -np.inf, 0.0, 0.0, 0.0), 0, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """Stages after it, microbatches that a path stays on it for, and transfers to it and back, and to the last one."""

    num_ahead: int
    num_stays: int
    handed_s: float
    handed_last_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition1f1b:
    """The least that a cut's pipeline takes at least, and the cut; no more than 0 and nothing where it is not known."""

    lower_bound_s: float
    layers: tuple[int, ...]


UNKNOWN = Partition1f1b(lower_bound_s=0.0, layers=())


def partition_1f1b(
    forward_s: FloatArray, backward_s: FloatArray, num_layers: int, stages: PlanStages, below_s: float = np.inf
) -> Partition1f1b:
    """Of stages by number of layers, infinite where a stage may not hold as many.

    Cuts at `below_s` or above are not told apart: where there are no others, that is the least known.
    """
    each_s = stages.paid_s / 2
    after_s = _least_after_s(forward_s + backward_s + stages.paid_s, num_layers)
    partial_cuts: dict[int, list[_PartialCut]] = {0: [_START]}
    num_looked_at = 0
    for stage in range(len(forward_s)):
        stage_terms, found = _stage_of(stages, stage), dict[int, list[_PartialCut]]()
        for held in np.flatnonzero(np.isfinite(forward_s[stage])).tolist():
            f_s, b_s = float(forward_s[stage, held]) + each_s, float(backward_s[stage, held]) + each_s
            for so_far, cuts in partial_cuts.items():
                left = num_layers - so_far - held
                rest_s = float(after_s[stage + 1, left]) if left >= 0 else np.inf
                if rest_s == np.inf:
                    continue
                num_looked_at += len(cuts)
                longer: list[_PartialCut] = [(_longer(cut[0], f_s, b_s, stage_terms), held, cut) for cut in cuts]
                kept = [cut for cut in longer if _least_end_s(cut[0], rest_s, stage_terms) < below_s]
                found.setdefault(so_far + held, []).extend(kept)
        partial_cuts = {}
        for so_far, cuts in found.items():
            partial_cuts[so_far], num_compared = _undominated(cuts)
            num_looked_at += num_compared
        if num_looked_at > MAX_PARTIAL_CUTS:
            return UNKNOWN
    best = min(partial_cuts.get(num_layers, []), key=itemgetter(0), default=None)
    if best is None:
        return Partition1f1b(lower_bound_s=below_s if np.isfinite(after_s[0, -1]) else np.inf, layers=())
    return Partition1f1b(lower_bound_s=best[0][0], layers=_layers(best))


def _stage_of(stages: PlanStages, stage: int) -> _Stage:
    num_stages = stages.plan.pipeline_parallel
    return _Stage(
        num_ahead=num_stages - 1 - stage,
        num_stays=stages.num_microbatches - 1 - num_stages + stage,
        handed_s=2 * stages.lag_s * stage,
        handed_last_s=2 * stages.lag_s * (num_stages - 1),
    )


def _longer(sums: _Sums, f_s: float, b_s: float, stage_terms: _Stage) -> _Sums:
    """With one more stage behind."""
    both_s, first_s, last_s, alone_s, before_s, most_f_s, most_b_s = sums
    t_s, most_f_s, most_b_s = f_s + b_s, max(most_f_s, f_s), max(most_b_s, b_s)
    before_s += t_s
    alone_s = t_s + max(alone_s, stage_terms.num_stays * t_s - stage_terms.handed_s)
    forward_s, backward_s = (
        stage_terms.handed_s + stage_terms.num_ahead * most_f_s,
        stage_terms.handed_s + stage_terms.num_ahead * most_b_s,
    )
    first_s = max(first_s + t_s, alone_s + before_s + forward_s)
    last_s = max(last_s + t_s, alone_s + before_s + backward_s)
    both_s = max(both_s, first_s + backward_s, last_s + forward_s)
    return both_s, first_s, last_s, alone_s, before_s, most_f_s, most_b_s


def _least_end_s(sums: _Sums, rest_s: float, stage_terms: _Stage) -> float:
    """What a cut that begins so takes at least, if stages after it take `rest_s` together: it waits for the last."""
    both_s, first_s, last_s, alone_s, before_s, _, _ = sums
    end_s = rest_s + stage_terms.handed_last_s
    return max(both_s, first_s + end_s, last_s + end_s, alone_s + before_s + 2 * end_s)


def _undominated(cuts: list[_PartialCut]) -> tuple[list[_PartialCut], int]:
    """Dominance pruning: the cuts that no other one beats in all sums, and how many pairs were compared."""
    kept: list[_PartialCut] = []
    num_compared = 0
    for cut in sorted(cuts, key=itemgetter(0)):
        upto = [value + SAME_FRAC * abs(value) for value in cut[0]]
        for other in kept:
            num_compared += 1
            if all(sum_of_other <= most for sum_of_other, most in zip(other[0], upto, strict=True)):
                break
        else:
            kept.append(cut)
        if num_compared > MAX_PARTIAL_CUTS:
            break
    return kept, num_compared


def _least_after_s(time_s: FloatArray, num_layers: int) -> FloatArray:
    """From each stage on, and after all, by layers held: the least that stages take together."""
    least_s = np.full((len(time_s) + 1, num_layers + 1), np.inf)
    least_s[-1, 0] = 0.0
    for stage in reversed(range(len(time_s))):
        for held in np.flatnonzero(np.isfinite(time_s[stage, : num_layers + 1])).tolist():
            with_s = least_s[stage + 1, : num_layers + 1 - held] + time_s[stage, held]
            np.minimum(least_s[stage, held:], with_s, out=least_s[stage, held:])
    return least_s


def _layers(way: _PartialCut) -> tuple[int, ...]:
    layers = []
    while way[2] is not None:
        layers.append(way[1])
        way = way[2]
    return tuple(reversed(layers))
