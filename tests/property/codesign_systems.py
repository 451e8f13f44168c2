"""Systems that laws of chip and plan together are checked on, and how close is equal."""

from __future__ import annotations

from functools import cache
from random import Random

from hypothesis import strategies as st

from dovetail.search.codesign.scoring import Scorer
from dovetail.search.space import Point
from tests.codesign_questions import VALUES, question

ROUNDING = 1e-9
SEARCHED = ("dense", "tied", "experts")  # short to search; of images, plans are bounded and timed alone
SEEDS = st.integers(0, 2**20)


@cache
def wide(case: str, base: str, network: str, metric: str = "throughput") -> Scorer:
    """Of a space that random systems are drawn from."""
    values = {name: some[1:3] if name != "num_devices" else some for name, some in VALUES.items()}
    return Scorer(question((case,), values, base=base, network=network, metric=metric))


def sampled(scorer: Scorer, rng: Random, num: int) -> list[Point]:
    return [scorer.question.space.sample(rng) for _ in range(num)]
