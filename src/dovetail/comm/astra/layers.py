"""ASTRA-sim 1.0 text workloads: layers with compute times and a collective in each of three passes.

The first line names how the model is cut, the second counts the layers, and each further line is a layer:
name, reserved, then forward, input gradient and weight gradient as (compute, collective, bytes), then the update.
Compute is in cycles of 1 GHz, so in ticks. Source: ASTRA-sim 1.0's workload layer and its example inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dovetail.comm.astra.steps import CollectiveNode, ComputeNode, Node
from dovetail.comm.astra.system import AstraDim
from dovetail.errors import InvalidInput, NotModelled, did_you_mean

NUM_COLUMNS = 12
MAX_LAYERS = 100_000
MAX_VALUE = 2**62  # far inside 64 bits
COLLECTIVE_OF = {
    "NONE": "", "ALLREDUCE": "all_reduce", "ALLGATHER": "all_gather", "ALLTOALL": "all_to_all",
    "REDUCESCATTER": "reduce_scatter",
}  # fmt: skip
POLICIES = ("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA", "HYBRID_TRANSFORMER")
GROUP_KEY = "model_parallel_NPU_group:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One pass of one layer: a kernel, then a collective; no collective where its name is empty."""

    run_ticks: int
    collective: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One line of a text workload."""

    name: str
    forward: Pass
    input_gradient: Pass
    weight_gradient: Pass
    update_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerWorkload:
    """A text workload. `model_ranks` is the size of a model-parallel group, 0 where the file does not say."""

    policy: str
    layers: tuple[Layer, ...]
    model_ranks: int = 0

    def nodes(self, dims: Sequence[AstraDim]) -> tuple[Node, ...]:
        """One training step: forward, then backward with input gradients waited for and weight gradients not.

        A layer's update waits for its weight gradients, as the next step's forward pass would.
        """
        model_dims, data_dims = self._involved(dims)
        step = _Step()
        for layer in self.layers:
            step.blocking(layer.forward, model_dims)
        for layer in reversed(self.layers):
            step.hanging(layer.weight_gradient, data_dims, layer.update_ticks)
            if layer is not self.layers[0]:
                step.blocking(layer.input_gradient, model_dims)
        return tuple(step.made)

    def _involved(self, dims: Sequence[AstraDim]) -> tuple[tuple[bool, ...], tuple[bool, ...]]:
        """Which dimensions carry activations, and which gradients."""
        if self.policy in ("DATA", "MODEL"):
            return (True,) * len(dims), (True,) * len(dims)
        num_inner = self._num_inner(dims) if self.policy == "HYBRID_TRANSFORMER" else 1
        inner = tuple(number < num_inner for number in range(len(dims)))
        outer = tuple(not is_inner for is_inner in inner)
        return (outer, inner) if self.policy == "HYBRID_MODEL_DATA" else (inner, outer)

    def _num_inner(self, dims: Sequence[AstraDim]) -> int:
        product = 1
        for number, dim in enumerate(dims):
            if product == self.model_ranks:
                return number
            product *= dim.num_ranks
        if product == self.model_ranks:
            return len(dims)
        sizes = "x".join(str(dim.num_ranks) for dim in dims)
        raise InvalidInput(f"model_parallel_NPU_group {self.model_ranks} is no product of first dimensions of {sizes}")


class _Step:
    """Nodes in the order of their ids."""

    def __init__(self) -> None:
        self.made: list[Node] = []
        self.last: tuple[int, ...] = ()

    def _add(self, part: Pass, involved: tuple[bool, ...]) -> tuple[int, ...]:
        at = self.last
        if part.run_ticks:
            self.made.append(ComputeNode(run_ticks=part.run_ticks, after=at))
            at = self.last = (len(self.made) - 1,)
        if part.collective and part.size_bytes and any(involved):
            collective = CollectiveNode(
                collective=part.collective, size_bytes=part.size_bytes, involved=involved, after=at
            )
            self.made.append(collective)
            at = (len(self.made) - 1,)
        return at

    def blocking(self, part: Pass, involved: tuple[bool, ...]) -> None:
        self.last = self._add(part, involved)

    def hanging(self, part: Pass, involved: tuple[bool, ...], update_ticks: int) -> None:
        end = self._add(part, involved)
        if update_ticks:
            self.made.append(ComputeNode(run_ticks=update_ticks, after=end))


def layer_workload(lines: Sequence[str]) -> LayerWorkload:
    """The workload written in `lines`; errors carry the number of their line."""
    rows = [(number, line.split()) for number, line in enumerate(lines, start=1) if line.strip()]
    if len(rows) < 3:
        raise InvalidInput("a text workload has a policy, a number of layers and at least one layer")
    policy, model_ranks = _policy(rows[0][1])
    count = _whole(rows[1][1][0], rows[1][0], "the number of layers")
    if count != len(rows) - 2 or count > MAX_LAYERS:
        raise InvalidInput(f"line {rows[1][0]} promises {count} layers, at most {MAX_LAYERS:,}; {len(rows) - 2} follow")
    layers = tuple(_layer(words, number) for number, words in rows[2:])
    return LayerWorkload(policy=policy, layers=layers, model_ranks=model_ranks)


def _policy(words: list[str]) -> tuple[str, int]:
    policy = words[0]
    if policy not in POLICIES:
        raise NotModelled(f"no parallelism of text workloads is named {policy[:40]!r}{did_you_mean(policy, POLICIES)}")
    model_ranks = 0
    if GROUP_KEY in words[:-1]:
        model_ranks = _whole(words[words.index(GROUP_KEY) + 1], 1, GROUP_KEY.rstrip(":"))
    if policy == "HYBRID_TRANSFORMER" and not model_ranks:
        raise InvalidInput(f"HYBRID_TRANSFORMER needs {GROUP_KEY} and a number on line 1")
    return policy, model_ranks


def _layer(words: list[str], number: int) -> Layer:
    if len(words) < NUM_COLUMNS:
        raise InvalidInput(f"line {number}: a layer has {NUM_COLUMNS} columns; got {len(words)}")
    passes = [_pass(words[first : first + 3], number) for first in (2, 5, 8)]
    return Layer(
        name=words[0],
        forward=passes[0],
        input_gradient=passes[1],
        weight_gradient=passes[2],
        update_ticks=_whole(words[11], number, "the update"),
    )


def _pass(words: list[str], number: int) -> Pass:
    if words[1] not in COLLECTIVE_OF:
        known = did_you_mean(words[1], COLLECTIVE_OF)
        raise NotModelled(f"line {number}: no collective is named {words[1][:40]!r}{known}")
    return Pass(
        run_ticks=_whole(words[0], number, "compute"),
        collective=COLLECTIVE_OF[words[1]],
        size_bytes=_whole(words[2], number, "the size"),
    )


def _whole(word: str, number: int, what: str) -> int:
    if not (word.isascii() and word.isdigit() and len(word) < 20 and int(word) <= MAX_VALUE):
        raise InvalidInput(f"line {number}: {what} must be a whole number; got {word[:40]!r}")
    return int(word)
