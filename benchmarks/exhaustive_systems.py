"""Every system of random spaces scored, beside what a search with bounds answers.

`python -m benchmarks.exhaustive_systems [systems] [seed]`. Spaces turn any knobs, on bases of every kind; together they
have at least as many systems as are asked for. Of every system its bound is compared with what it came to, and of every
space the best of all with the best that the search found.
"""

from __future__ import annotations

import sys
import time
from random import Random

import numpy as np

from dovetail.search.codesign.joint import bounded, joint_search, local_backend
from dovetail.search.codesign.networks import networks
from dovetail.search.codesign.scoring import Scorer
from tests.codesign_questions import BASES, known_to, question, some_values

NUM_SYSTEMS, SEED = 500, 1
CASES = ("dense", "tied", "experts")
NUM_TURNED, MOST_VALUES = 7, 2  # knobs of a space, and values of each
SAME_FRAC = 1e-9  # style: a tolerance; sums in another order differ by less


def main(num_systems: int = NUM_SYSTEMS, seed: int = SEED) -> bool:
    rng, num_scored, wrong, near = Random(seed), 0, 0, []
    began_s = time.process_time()
    while num_scored < num_systems:
        base, case, network = rng.choice(BASES), rng.choice(CASES), rng.choice(sorted(networks.names()))
        values = known_to(base, {**some_values(rng, NUM_TURNED, MOST_VALUES), "stack_gib": (4, 16)})
        scorer = Scorer(question((case,), values, base=base, network=network))
        backend = local_backend(scorer)
        every = joint_search(scorer, backend, is_exhaustive=True)
        pruned = joint_search(scorer, backend)
        if every is None or pruned is None:
            wrong += every is not pruned
            continue
        lows, _ = bounded(scorer)
        shape = [len(knob.values) for knob in scorer.question.space.knobs]
        losses = np.array([one.loss for one in every.scored])
        own = lows[[int(np.ravel_multi_index(one.point, shape)) for one in every.scored]]
        fits = np.isfinite(losses)
        near += (own[fits] / losses[fits]).tolist()
        num_above = int((own[fits] > losses[fits] * (1 + SAME_FRAC)).sum())
        is_same = abs(pruned.best.loss / every.best.loss - 1) <= SAME_FRAC
        wrong += num_above + (not is_same)
        num_scored += len(losses)
        said = "the same best" if is_same else "ANOTHER best"
        print(
            f"{base}, {case}, {network}: {len(losses)} of {every.census.num_systems} systems scored, {said}, "
            f"{num_above} bounds above what they bound"
        )
    tight = f"a bound is {np.mean(near):.0%} of what it bounds on average, {np.median(near):.0%} in the median"
    print(f"{num_scored} systems, {wrong} wrong; {tight}; {time.process_time() - began_s:.0f} CPU-s")
    return not wrong


if __name__ == "__main__":
    sys.exit(0 if main(*map(int, sys.argv[1:])) else 1)
