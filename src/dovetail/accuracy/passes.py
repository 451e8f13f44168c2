"""How tables name the three products of a training step, and the phases they are."""

from __future__ import annotations

import numpy as np

from dovetail.accuracy.measurements import Measurements
from dovetail.errors import did_you_mean
from dovetail.workload.graph import IntArray, Phase

PASS_WORDS = {Phase.FORWARD: "forward", Phase.INPUT_GRAD: "input-grad", Phase.WEIGHT_GRAD: "weight-grad"}
_PASSES = {
    "fwd": Phase.FORWARD, "forward": Phase.FORWARD,
    "dgrad": Phase.INPUT_GRAD, "bwd": Phase.INPUT_GRAD, "backward": Phase.INPUT_GRAD, "input-grad": Phase.INPUT_GRAD,
    "wgrad": Phase.WEIGHT_GRAD, "weight-grad": Phase.WEIGHT_GRAD,
}  # fmt: skip
# Which operands are stored transposed says which product of a linear layer it is: y = x W^T, dx = dy W, dW = dy^T x.
_LAYOUTS = {"nt": Phase.FORWARD, "nn": Phase.INPUT_GRAD, "tn": Phase.WEIGHT_GRAD, "tt": Phase.WEIGHT_GRAD}


def phases_of(measurements: Measurements) -> IntArray:
    """The phase of every row by its pass, or by its layout; forward where neither is given."""
    for column, known in (("pass", _PASSES), ("layout", _LAYOUTS)):
        if not measurements.has(column):
            continue
        words = [word.strip().lower() for word in measurements.words(column)]
        if other := {row: word for row, word in enumerate(words) if word not in known}:
            messages = {row: f"no {column} is named {word!r}{did_you_mean(word, known)}" for row, word in other.items()}
            raise measurements.unreadable(messages)
        return np.array([known[word] for word in words], dtype=np.int64)
    return np.zeros(len(measurements), dtype=np.int64)


def pass_labels(phases: IntArray) -> tuple[str, ...]:
    return tuple(PASS_WORDS[Phase(int(phase))] for phase in phases)
