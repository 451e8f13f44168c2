"""Small modules for tests of the PyTorch recorder, and short words for what was recorded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from dovetail.importers.torch_model import TorchCapture, captured_module
from dovetail.workload.recorded.flow import Flow, Node
from dovetail.workload.recorded.record import Recorded, Recording, Source, Step

WIDTH = 16


class Toy(nn.Module):
    """A linear layer, and after it whatever a test says: `after(module, x)`."""

    def __init__(self, after: Any) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.after = after

    def forward(self, x: Tensor) -> Any:
        return self.after(self, self.first(x))


def batch(*sides: int, num: int = 4) -> Tensor:
    return torch.zeros(num, *(sides or (WIDTH,)))


def capture(after: Any, *inputs: Tensor, **options: Any) -> TorchCapture:
    return captured_module(Toy(after), inputs or (batch(),), **options)


def words(after: Any, *inputs: Tensor) -> list[str]:
    """What follows the first layer."""
    return [step.word for step in capture(after, *inputs).recorded.base.steps][1:]


def steps(recording: Recording, word: str) -> list[Step]:
    return [step for step in recording.steps if step.word == word]


def shapes(recording: Recording, numbers: tuple[int, ...]) -> list[tuple[int, ...]]:
    return [recording.tensors[number].shape for number in numbers]


def parameters(recording: Recording) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tensor.shape for tensor in recording.tensors if tensor.source is Source.PARAMETER}


def tokens(num=4, length=256):
    return torch.zeros(num, length, dtype=torch.long)


def of_positions(counter: FlopCounterMode) -> int:
    """Products of positions and frequencies, as some releases have them: constants, which no step computes again."""
    counts = counter.get_flop_counts()
    return sum(sum(flop.values()) for name, flop in counts.items() if name.rpartition(".")[2].startswith("rotary"))


def products_of_constants(recorded: Recorded) -> tuple[list[Node], int]:
    """Products that no parameter has a part in, such as those of positions and frequencies, and their FLOP."""
    flow = Flow(recorded)
    found = [node for node in flow.nodes if node.word == "matmul" and flow.aside(node)]
    inner = [flow.tensors[node.inputs[0]].shape[-1] for node in found]
    return found, sum(2 * flow.num_recorded(node.output) * size for node, size in zip(found, inner, strict=True))
