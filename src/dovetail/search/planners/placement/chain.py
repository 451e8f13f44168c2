"""One variant as arrays: what a stage of layers [start, end) takes in time and memory, for whole arrays of stages.

`position` counts stages from the end: the last is 1 and holds one microbatch, the one before it holds two.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dovetail.search.planners.placement.problem import PlacementProblem, Variant

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

# A sum of the same times in another order differs by rounding; a stage may exceed the pace by this much.
ROUNDING_TOLERANCE = 1e-12


def _sums(values: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(values)))


@dataclass(frozen=True, slots=True)
class Chain:
    """Running sums over the layers of a variant, so that any stage is a difference of two."""

    problem: PlacementProblem
    variant: Variant
    run_ends: Ints = field(init=False)
    work_s: Floats = field(init=False)  # forward and backward
    forward_s: Floats = field(init=False)
    held_bytes: Floats = field(init=False)  # weights with their copies, and one microbatch
    activation_bytes: Floats = field(init=False)
    weight_bytes: Floats = field(init=False)
    num_sharded: Ints = field(init=False)
    edge_bytes: Floats = field(init=False)  # into each layer; none into the first or out of the last
    edge_s: Floats = field(init=False)

    def __post_init__(self) -> None:
        runs = self.variant.runs
        counts = np.array([run.num_layers for run in runs])

        def of(label: str) -> Floats:
            return np.repeat(np.array([float(getattr(run, label)) for run in runs]), counts)

        weights, activations = of("weight_bytes"), of("activation_bytes")
        edges = np.append(of("incoming_bytes"), 0.0)
        edges[0] = 0.0
        found = {
            "run_ends": np.cumsum(counts),
            "work_s": _sums(of("forward_s") + of("backward_s")),
            "forward_s": _sums(of("forward_s")),
            "held_bytes": _sums(self.problem.weight_copies * weights + activations),
            "activation_bytes": _sums(activations),
            "weight_bytes": _sums(weights),
            "num_sharded": _sums(of("is_sharded")).astype(np.int64),
            "edge_bytes": edges,
            "edge_s": edges / self.problem.link_bytes_per_s,
        }
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def num_layers(self) -> int:
        return len(self.work_s) - 1

    @property
    def max_stages(self) -> int:
        return min(self.problem.num_devices, self.num_layers)

    def plain_s(self, start: Ints, end: Ints) -> Floats:
        """Forward and backward, each behind the transfer it waits for."""
        work_s = self.work_s[end] - self.work_s[start]
        return np.asarray(self.edge_s[start] + work_s + self.edge_s[end])

    def again_s(self, start: Ints, end: Ints) -> Floats:
        """The same with a second forward pass, which hides the gradient's transfer."""
        forward_s = self.forward_s[end] - self.forward_s[start]
        work_s = self.work_s[end] - self.work_s[start]
        return np.asarray(self.edge_s[start] + work_s + np.maximum(forward_s, self.edge_s[end]))

    def plain_bytes(self, start: Ints, end: Ints, position: Ints) -> Floats:
        stash_bytes = self.activation_bytes[end] - self.activation_bytes[start]
        return np.asarray(self.held_bytes[end] - self.held_bytes[start] + (position - 1) * stash_bytes)

    def again_bytes(self, start: Ints, end: Ints, position: Ints) -> Floats:
        return np.asarray(self.held_bytes[end] - self.held_bytes[start] + (position - 1) * self.edge_bytes[start])

    def runs_plain(self, start: Ints, end: Ints, position: Ints, pace_s: Floats) -> Bools:
        """Whether a stage fits without recompute, in time and memory."""
        fits = self.plain_bytes(start, end, position) <= self.problem.memory_bytes
        is_allowed = (position == 1) | (self.problem.recompute != "always")
        return np.asarray(is_allowed & fits & (self.plain_s(start, end) <= pace_s * (1 + ROUNDING_TOLERANCE)))

    def runs_again(self, start: Ints, end: Ints, position: Ints, pace_s: Floats) -> Bools:
        """Whether it does with recompute; the last stage has no use for it."""
        if self.problem.recompute == "never":
            return np.zeros(np.broadcast(start, end, position).shape, dtype=bool)
        fits = self.again_bytes(start, end, position) <= self.problem.memory_bytes
        return np.asarray((position > 1) & fits & (self.again_s(start, end) <= pace_s * (1 + ROUNDING_TOLERANCE)))

    def runs(self, start: Ints, end: Ints, position: Ints, pace_s: Floats) -> Bools:
        return self.runs_plain(start, end, position, pace_s) | self.runs_again(start, end, position, pace_s)

    def stage_devices(self, start: Ints, end: Ints) -> Ints:
        """A stage with a sharded layer takes all devices of the tensor-parallel group, another takes one."""
        has_sharded = self.num_sharded[end] > self.num_sharded[start]
        return np.where(has_sharded, self.variant.tensor_parallel, 1)
