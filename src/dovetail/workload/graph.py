"""The training graph: columns of operators, in blocks stored once with a repeat count.

Every row is one operator over loop extents (b, m, n, k, v): a batch of products C[m,n] = A[m,k] B[k,n] for the
tensor units; rows m by columns n for the vector units and the network; batch-and-head b, queries m, keys n, key
width k and value width v for attention. Beside each extent stands the set of axes that may divide it, so that
sharding is arithmetic on these columns and nothing else. What moves and what is computed follows from them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from enum import IntEnum, IntFlag
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dovetail.columns import is_among
from dovetail.workload.operators import (
    ATTENTION_CODES,
    DTYPE_BYTES,
    FLOP_PER_ELEMENT,
    NUM_READS,
    NUM_WRITES,
    UNIT,
    Unit,
    code_of,
)
from dovetail.workload.routing import EVENLY, ExpertChoice, Routing

RunLengths = tuple[tuple[int, int], ...]  # what, and how often in a row
FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class Phase(IntEnum):
    """Which part of a training step an operator belongs to."""

    FORWARD = 0
    INPUT_GRAD = 1
    WEIGHT_GRAD = 2
    RECOMPUTE = 3
    UPDATE = 4


class Axis(IntFlag):
    """What may divide an extent. A plan gives each its degree."""

    NONE = 0
    DATA = 1  # data-parallel replicas and microbatches
    CONTEXT = 2  # the sequence, in attention too
    TENSOR = 4  # heads, feed-forward columns, vocabulary
    SEQUENCE = 8  # the sequence between tensor-parallel regions; as TENSOR under sequence parallelism, else 1
    KV = 16  # key-value heads: as TENSOR, but no further than there are such heads
    EXPERT = 32  # experts, or embedding tables
    EXPERT_TENSOR = 64  # feed-forward columns of an expert
    EXPERT_DATA = 128  # rows routed to experts: what is left of all devices after EXPERT and EXPERT_TENSOR
    STATE = 256  # optimizer state of ordinary parameters: data-parallel ranks, when sharded
    EXPERT_STATE = 512  # optimizer state of experts
    QUERIES = 1024  # query positions in attention: as CONTEXT, but 1 where heads are dealt out in their place
    HEADS = 2048  # attention heads beyond TENSOR: as CONTEXT where they are dealt out, else 1
    HOPS = 4096  # keys in attention: as CONTEXT where they come part after part, and as often it runs; else 1
    ROUTED = 8192  # divides nothing: rows that routing sends to a device, of which the most loaded has more than others


class Need(IntFlag):
    """Who needs a forward tensor in the backward pass."""

    NONE = 0
    OUTSIDE = 1  # operators outside the attention core
    CORE = 2  # operators of the attention core, which selective recompute runs again
    BY_NEXT = 4  # with one of these: the next block too, which keeps it as its input


B, M, N, K, V = range(5)
NUM_EXTENTS = 5


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ops:
    """Columns of operators, one row each; edges in CSR: row i feeds `edge_to[edge_start[i]:edge_start[i+1]]`."""

    names: tuple[str, ...]
    kind: IntArray
    phase: IntArray
    dtype: IntArray  # in which tensors are stored
    math: IntArray  # in which the tensor units multiply
    extents: IntArray  # rows by (b, m, n, k, v)
    splits: IntArray  # axes dividing each extent
    stride: IntArray  # of a convolution, whose `v` counts the positions of its window; 1 elsewhere
    distinct_frac: FloatArray  # rows by operand (A, B, C): distinct elements over elements touched
    work_frac: FloatArray  # share of the loop that is done, 0.5 for causal attention; of an update how often it runs
    weight_elements: IntArray  # parameters of the row, forward rows only
    weight_split: IntArray
    gradient_elements: IntArray  # of the weight's: fewer than its parameters where only looked-up rows have one
    gradient_split: IntArray
    bias_elements: IntArray  # further parameters, split another way
    bias_split: IntArray
    is_tied: BoolArray  # its weights belong to an earlier block
    is_core: BoolArray  # attention core: what selective recompute runs again
    is_fused: BoolArray  # runs as one kernel with the least passes over memory, where its operator can
    is_compiled: BoolArray  # queued ahead: the host hands out its kernels and does nothing else
    need: IntArray  # who needs this row's output in the backward pass
    kept_bytes_per_element: FloatArray  # masks and statistics kept beside the output
    side_bytes_per_element: FloatArray  # moved beside the tensors: masks, indices, optimizer state
    edge_start: IntArray
    edge_to: IntArray

    def __len__(self) -> int:
        return len(self.names)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ops):
            return NotImplemented
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash((self.names, self.extents.tobytes(), self.phase.tobytes()))

    def where(self, mask: BoolArray) -> Ops:
        """The rows where `mask` holds, with the edges among them."""
        if bool(mask.all()):
            return self
        rows = np.flatnonzero(mask)
        new_index = np.full(len(self) + 1, -1, dtype=np.int64)
        new_index[rows] = np.arange(len(rows))
        sources = np.repeat(np.arange(len(self)), np.diff(self.edge_start))
        kept = mask[sources] & mask[self.edge_to]
        edge_start, edge_to = csr(len(rows), new_index[sources[kept]], new_index[self.edge_to[kept]])
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        names = tuple(self.names[row] for row in rows)
        return Ops(names=names, edge_start=edge_start, edge_to=edge_to, **columns)

    def taken(self, rows: IntArray) -> Ops:
        """`rows` in the order given, without edges."""
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        no_edges = np.zeros(len(rows) + 1, dtype=np.int64)
        names = tuple(map(self.names.__getitem__, rows.tolist()))
        return Ops(names=names, edge_start=no_edges, edge_to=no_edges[:0], **columns)

    # What follows from the columns.

    @property
    def unit(self) -> IntArray:
        return UNIT[self.kind].astype(np.int64)

    @property
    def is_backward(self) -> BoolArray:
        return np.asarray((self.phase == Phase.INPUT_GRAD) | (self.phase == Phase.WEIGHT_GRAD))

    @property
    def frozen_elements(self) -> IntArray:
        """Parameters of each row that are not trained; of a bag of embeddings only looked-up rows have a gradient."""
        is_looked_up = (self.kind == code_of("embedding_bag")) & (self.gradient_elements > 0)
        return np.where(is_looked_up, 0, self.weight_elements - self.gradient_elements)

    @property
    def output_elements(self) -> FloatArray:
        """Elements of each row's output tensor."""
        b, m, n, _, v = self.extents.T.astype(np.float64)
        columns = np.where(is_among(self.kind, ATTENTION_CODES), v, n)
        elements: FloatArray = b * m * columns * self.distinct_frac[:, 2]
        return elements

    @property
    def flop(self) -> FloatArray:
        """FLOP executed by each row on the unit it belongs to."""
        return _flop(self, of_model=False)

    @property
    def model_flop(self) -> FloatArray:
        """FLOP of matrix products by the field's convention: whole attention matrix, nothing counted twice.

        Those of an optimizer's update are not the model's.
        """
        return np.where(self.phase == Phase.RECOMPUTE, 0.0, self.counted_flop)

    @property
    def causal_flop(self) -> FloatArray:
        """As `model_flop`, of the pairs that a mask or a window leaves attention alone."""
        masked = np.where(is_among(self.kind, ATTENTION_CODES), self.work_frac / np.minimum(1.0, 2 * self.work_frac), 1)
        return self.model_flop * masked

    @property
    def counted_flop(self) -> FloatArray:
        """As `model_flop`, recompute included."""
        return np.where(self.phase == Phase.UPDATE, 0.0, _flop(self, of_model=True))

    @property
    def update_runs(self) -> FloatArray:
        """How often a product of an update runs in a step, on average over many layers; 1 for every other row."""
        return np.where((self.phase == Phase.UPDATE) & (self.unit == Unit.TENSOR), self.work_frac, 1.0)

    @property
    def read_bytes(self) -> FloatArray:
        """Bytes each row must read at least once from outside the cores."""
        return _traffic(self)[0]

    @property
    def write_bytes(self) -> FloatArray:
        return _traffic(self)[1]


_COLUMNS = tuple(field.name for field in fields(Ops) if field.name not in ("names", "edge_start", "edge_to"))


def csr(num_rows: int, sources: IntArray, targets: IntArray) -> tuple[IntArray, IntArray]:
    """Edges as (start of each row's list, list of targets), in row order."""
    order = np.lexsort((targets, sources))
    counts = np.bincount(sources, minlength=num_rows) if len(sources) else np.zeros(num_rows, dtype=np.int64)
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), targets[order].astype(np.int64)


def _flop(ops: Ops, *, of_model: bool) -> FloatArray:
    b, m, n, k, v = ops.extents.T.astype(np.float64)
    backward = ops.is_backward
    products = 2.0 * b * m * n * k * ops.work_frac
    # attention forward: scores and weighted values; backward: two products each, and the fused kernel also forms
    # the scores again, which is work but not the model's
    again = 0.0 if of_model else 1.0
    widths = np.where(backward, (2 + again) * k + 2 * v, k + v)
    # by convention the model's attention is the whole matrix, mask or not; a window leaves only its part of it
    attention = 2.0 * b * m * n * widths * (np.minimum(1.0, 2.0 * ops.work_frac) if of_model else ops.work_frac)
    flop = np.where(is_among(ops.kind, ATTENTION_CODES), attention, products)
    if of_model:
        return np.where(ops.unit == Unit.TENSOR, flop, 0.0)
    vector = b * m * n * FLOP_PER_ELEMENT[backward.astype(np.int64), ops.kind]
    flop = np.where(ops.unit == Unit.VECTOR, vector, flop)
    return np.where((ops.unit == Unit.NONE) | (ops.unit == Unit.NETWORK), 0.0, flop)


def _traffic(ops: Ops) -> tuple[FloatArray, FloatArray]:
    b, m, n, k, v = ops.extents.T.astype(np.float64)
    size_bytes = DTYPE_BYTES[ops.dtype]
    backward = ops.is_backward.astype(np.int64)
    a_frac, b_frac, c_frac = ops.distinct_frac.T
    # of weights side by side, those of which a second forward pass forms the product again
    columns = n * ops.work_frac
    reads = (b * m * k * a_frac + b * k * columns * b_frac) * size_bytes
    writes = b * m * columns * c_frac * size_bytes
    # fused attention keeps scores on chip: forward moves Q, K, V and O; backward reads those and dO, writes dQ, dK, dV
    queries, outputs, pairs = b * m * k * a_frac, b * m * v * c_frac, b * n * (k + v) * b_frac
    is_attention = is_among(ops.kind, ATTENTION_CODES)
    reads = np.where(is_attention, (queries + pairs + 2 * backward * outputs) * size_bytes, reads)
    writes = np.where(is_attention, np.where(backward == 1, queries + pairs, outputs) * size_bytes, writes)
    writes = writes + b * m * n * c_frac * ops.side_bytes_per_element  # gradients added to ones that stand
    runs = ops.update_runs
    reads, writes = reads * runs, writes * runs
    is_vector = ops.unit == Unit.VECTOR
    elements = b * m * n
    side_bytes = elements * ops.side_bytes_per_element
    reads = np.where(is_vector, elements * NUM_READS[backward, ops.kind] * size_bytes + side_bytes / 2, reads)
    writes = np.where(is_vector, elements * NUM_WRITES[backward, ops.kind] * size_bytes + side_bytes / 2, writes)
    idle = (ops.unit == Unit.NONE) | (ops.unit == Unit.NETWORK)
    return np.where(idle, 0.0, reads), np.where(idle, 0.0, writes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A stretch of the model that occurs `repeat` times: in a row, unless the graph's layer pattern differs.

    `is_layer` marks what a pipeline may cut at and what layer counts count; the others (embedding, head) stay
    with the first or last stage. `boundary_activation_elements` is what each repeat hands on to the next.
    """

    name: str
    ops: Ops
    repeat: int
    is_layer: bool
    is_input_data: bool
    boundary_activation_elements: int
    boundary_activation_split: int
    stops_early: bool = False  # a second forward pass ends at the last tensor that a gradient needs

    @property
    def num_parameters(self) -> int:
        """Parameters of one repeat; tied weights belong to the block that owns them."""
        owned = ~self.ops.is_tied
        return int(self.ops.weight_elements[owned].sum() + self.ops.bias_elements[owned].sum())

    @property
    def num_trained(self) -> int:
        """Those of `num_parameters` that are not frozen."""
        owned = ~self.ops.is_tied
        return self.num_parameters - int(self.ops.frozen_elements[owned].sum())


Kind = TypeVar("Kind", bound=Hashable)


def run_lengths(kinds: Iterable[Kind]) -> tuple[tuple[Kind, int], ...]:
    """Neighbours that are equal together: pairs of a kind and how many follow each other."""
    return tuple((kind, sum(1 for _ in some)) for kind, some in groupby(kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`axis` may only take degrees that divide `count`, called `label` in messages."""

    axis: Axis
    label: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A model over one batch: blocks in order, and what its shape allows plans to divide.

    Every kind of layer is one block, however its layers are interleaved with those of other kinds. `layer_pattern` is
    the order of layers as run lengths: pairs of a kind, which is a place among the blocks that are layers, and how many
    layers of that kind follow each other. Without a pattern layers lie in the order of their blocks.
    """

    model: str
    batch: int  # samples in all, before any division
    tokens_per_sample: int
    dtype: str
    blocks: tuple[Block, ...]
    rules: tuple[Rule, ...]
    num_kv_heads: int
    routing: Routing = EVENLY
    choice: ExpertChoice | None = None  # of experts by tokens, where it is known
    layer_pattern: RunLengths = ()

    def __post_init__(self) -> None:
        if self.layer_pattern:
            repeats = [block.repeat for block in self.blocks if block.is_layer]
            totals = [sum(n for kind, n in self.layer_pattern if kind == k) for k in range(len(repeats))]
            assert totals == repeats, f"{self.model}: the pattern has {totals} layers by kind, the blocks {repeats}"

    @property
    def num_parameters(self) -> int:
        return sum(block.repeat * block.num_parameters for block in self.blocks)

    @property
    def num_trained(self) -> int:
        """Those of `num_parameters` that are not frozen."""
        return sum(block.repeat * block.num_trained for block in self.blocks)

    @property
    def num_layers(self) -> int:
        return sum(block.repeat for block in self.blocks if block.is_layer)

    @property
    def layer_runs(self) -> RunLengths:
        """The order of layers, neighbours of one kind together: pairs of a kind and how many follow each other."""
        repeats = (block.repeat for block in self.blocks if block.is_layer)
        return self.layer_pattern or tuple(enumerate(repeats))

    @property
    def is_interleaved(self) -> bool:
        """Whether layers of some kind come again after layers of another."""
        return len(self.layer_runs) > sum(block.is_layer for block in self.blocks)

    def layers_before(self, positions: IntArray) -> IntArray:
        """Layers of each kind before each of `positions` in the order of the model: kinds by positions."""
        before = np.zeros((sum(block.is_layer for block in self.blocks), len(positions)), dtype=np.int64)
        start = 0
        for kind, count in self.layer_runs:
            before[kind] += np.clip(positions - start, 0, count)
            start += count
        return before

    @property
    def blocks_in_order(self) -> Iterator[Block]:
        """Every repeat of every block, in the order in which the model runs them."""
        layers = [block for block in self.blocks if block.is_layer]
        for block in self.blocks:
            if not (self.layer_pattern and block.is_layer):
                yield from (block for _ in range(block.repeat))
            elif block is layers[0]:
                yield from (layers[kind] for kind, count in self.layer_pattern for _ in range(count))

    @property
    def is_forward_only(self) -> bool:
        """Whether it has forward operators alone, as an evaluation step has."""
        return all(bool((block.ops.phase == Phase.FORWARD).all()) for block in self.blocks)

    @property
    def num_tokens(self) -> int:
        return self.batch * self.tokens_per_sample

    @property
    def model_flop(self) -> float:
        return float(sum(block.repeat * block.ops.model_flop.sum() for block in self.blocks))

    @property
    def has_experts(self) -> bool:
        return any(rule.axis == Axis.EXPERT_TENSOR for rule in self.rules)

    def with_blocks(self, blocks: tuple[Block, ...]) -> Graph:
        return replace(self, blocks=blocks)
