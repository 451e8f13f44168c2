"""Errors of pairs of plans that ran one job, and the spread fitted to them: `python -m benchmarks.pair_errors`.

Pairs are of one publisher, model, batch and cluster and differ in their plan. They are of vTrain, on one node and on
many, and of BLOOM's tuning, which alone have many plans of one job. Student's t with three degrees of freedom is fitted
by maximum likelihood; n pairs of a publisher count as the square root of n, as rows do in intervals.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cache
from itertools import combinations

import numpy as np

from benchmarks.bar import reference_data
from benchmarks.published_gemm import ABSENT
from dovetail.accuracy.chance import PairSpread, student_t3_cdf, student_t3_log_density
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.timing import Timed, timed_rows
from dovetail.files.measurements import load_measurements, shipped_folder
from dovetail.workload.graph import FloatArray

PUBLISHERS = ("vTrain, one node", "vTrain, many nodes", "BLOOM's tuning")
TABLE = "published/published_training.csv"
MORE = "third_party/published_training_vtrain_single.csv"
NUM_BINS = 10
START, LEAST_STEP, LOWEST = -3.0, 1e-3, -8.0  # of the search, in logarithms of a spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs, a place each: log(other / one) predicted and measured, and doublings of tensor parallelism between."""

    predicted: FloatArray
    measured: FloatArray
    doublings: FloatArray

    def __len__(self) -> int:
        return len(self.predicted)

    def chances(self, spread: PairSpread) -> FloatArray:
        """That `one` is shorter."""
        return student_t3_cdf(self.predicted / spread.scale(self.doublings, self.predicted))


@cache
def published_runs() -> tuple[Timed, ...]:
    """Every complete run of the tables that this machine has."""
    files = [shipped_folder(TABLE), *([more] if (more := reference_data(MORE)) else [])]
    found: list[Timed] = []
    for file in files:
        table = load_measurements(file)
        found += timed_rows(Row(cells=dict(zip(table.columns, row, strict=True))) for row in table.rows)[0]
    return tuple(one for one in found if one.is_complete)


def jobs_of(runs: Sequence[Timed]) -> list[list[Timed]]:
    """Runs by publisher and job, where there are two plans or more."""
    by_job: dict[tuple[str, str], list[Timed]] = defaultdict(list)
    for one in runs:
        by_job[one.run.publisher, one.run.group].append(one)
    return [group for group in by_job.values() if len({one.run.plan for one in group}) > 1]


def published_pairs(runs: Sequence[Timed]) -> dict[str, Pairs]:
    """Pairs of runs of one job by two plans, by publisher."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PUBLISHERS}
    for group in jobs_of(runs):
        name = group[0].run.publisher
        for one, other in combinations(group, 2):
            if name in found and one.run.plan != other.run.plan:
                predicted = math.log(other.step_s / one.step_s)
                measured = math.log(other.run.measured_s / one.run.measured_s)
                ratio = one.run.plan.tensor_parallel / other.run.plan.tensor_parallel
                found[name].append((predicted, measured, abs(math.log2(ratio))))
    columns = {name: np.array(rows).T for name, rows in found.items() if rows}
    return {name: Pairs(predicted=one[0], measured=one[1], doublings=one[2]) for name, one in columns.items()}


def fitted(pairs: Mapping[str, Pairs]) -> PairSpread:
    """The spread under which the differences are likeliest, by coordinate search over the logarithms of its terms."""

    def loss(logs: FloatArray) -> float:
        spread = PairSpread(**dict(zip(("same", "doubling", "gap"), np.exp(logs).tolist(), strict=True)))
        return sum(_loss(one, spread) for one in pairs.values())

    logs, steps = np.full(3, START), np.full(3, 1.0)
    best = loss(logs)
    while steps.max() > LEAST_STEP:
        for place in range(3):
            for sign in (1.0, -1.0):
                moved = logs.copy()
                moved[place] = max(LOWEST, moved[place] + sign * steps[place])
                if (found := loss(moved)) < best:
                    logs, best = moved, found
                    break
            else:
                steps[place] /= 2
    same, doubling, gap = np.exp(logs).tolist()
    return PairSpread(same=same, doubling=doubling, gap=gap)


def _loss(pairs: Pairs, spread: PairSpread) -> float:
    scale = spread.scale(pairs.doublings, pairs.predicted)
    likelihoods = student_t3_log_density((pairs.measured - pairs.predicted) / scale) - np.log(scale)
    return -float(likelihoods.mean()) * math.sqrt(len(pairs))


def worst_bin_frac(chances: FloatArray, measured: FloatArray) -> float:
    """How far the share of pairs whose first was shorter is from the mean chance, in the worst tenth from 0 to 1.

    Every pair counts in both orders, so that no order of the table decides.
    """
    both = np.concatenate([chances, 1.0 - chances])
    shorter = np.concatenate([measured > 0, measured < 0])
    bins = np.minimum((both * NUM_BINS).astype(int), NUM_BINS - 1)
    return max(abs(float(both[bins == one].mean() - shorter[bins == one].mean())) for one in np.unique(bins))


def pooled(pairs: Mapping[str, Pairs]) -> Pairs:
    predicted, measured, doublings = (
        np.concatenate([getattr(one, name) for one in pairs.values()])
        for name in ("predicted", "measured", "doublings")
    )
    return Pairs(predicted=predicted, measured=measured, doublings=doublings)


def held_out_chances(pairs: Mapping[str, Pairs]) -> dict[str, FloatArray]:
    """Each publisher's by the spread that is fitted on the others."""
    return {
        name: one.chances(fitted({other: rows for other, rows in pairs.items() if other != name}))
        for name, one in pairs.items()
    }


def main() -> None:
    pairs = published_pairs(published_runs())
    if set(pairs) != set(PUBLISHERS):
        sys.exit(ABSENT)
    spread = fitted(pairs)
    print("same, doubling, gap:", ", ".join(f"{one:.3f}" for one in astuple(spread)))
    every = pooled(pairs)
    print(f"{len(every):,} pairs: worst tenth {worst_bin_frac(every.chances(spread), every.measured):.3f} off")
    held_out = held_out_chances(pairs)
    for name, one in pairs.items():
        off, out = (worst_bin_frac(chances, one.measured) for chances in (one.chances(spread), held_out[name]))
        print(f"{name}: {len(one):,} pairs, {off:.3f} off; {out:.3f} by a spread fitted on the others")
    together = np.concatenate([held_out[name] for name in pairs])
    print(f"all, each by the others: worst tenth {worst_bin_frac(together, every.measured):.3f} off")


if __name__ == "__main__":
    main()
