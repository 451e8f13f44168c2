"""What another tool saw a model do, in neutral words: tensors, and the steps between them.

A front end (PyTorch, ONNX) maps each operator of its own to one word of `words.py`; what the steps amount to is found
later, and is the same for all of them. Only the forward pass is recorded: its gradients follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dovetail.errors import InvalidInput

Attribute = int | float | bool | str | tuple[int, ...]


class Source(Enum):
    """Where a tensor comes from."""

    STEP = "step"  # some step made it
    PARAMETER = "parameter"  # trained
    FROZEN = "frozen"  # a parameter that is not
    INPUT = "input"  # given with every batch
    CONSTANT = "constant"  # a buffer, or a number written down: neither trained nor given


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One tensor: its shape as it was recorded, and its dtype in the words of `words.DTYPES`."""

    shape: tuple[int, ...]
    dtype: str
    source: Source = Source.STEP
    name: str = ""  # of a parameter, input or buffer

    @property
    def num_elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operator: `word` says what it does, `op` what the other tool calls it, `where` in which module it ran.

    `inputs` and `outputs` are tensors by number. Operands that are plain numbers are not among them.
    """

    word: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    op: str
    where: str = ""
    attributes: tuple[tuple[str, Attribute], ...] = ()

    def attribute(self, name: str, default: Attribute) -> Attribute:
        return dict(self.attributes).get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A forward pass over one batch, in the order in which it ran."""

    name: str
    tensors: tuple[Tensor, ...]
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise InvalidInput(f"{self.name} ran no operator, so there is nothing to predict")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One model recorded at a few sizes of its inputs, which shows what grows with the batch and what with positions.

    `base` is at the requested sizes; `other_batch` differs in the number of samples only, `other_seq` in the
    positions of a sample only (the same as `base` where samples have no positions that could differ).
    """

    base: Recording
    other_batch: Recording
    other_seq: Recording
    batch: int
    second_batch: int
    seq: int  # 1 where samples have no positions
    second_seq: int
    tool: str  # and its version: "torch 2.13.0"
