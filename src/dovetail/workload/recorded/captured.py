"""A model as it was recorded and understood: parts in blocks, of sizes that follow the requested batch and length.

It lays out its graph through the same builders as the catalogue's models, so that all that holds of those (kernels,
attention, precision) holds of it too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput, NotModelled
from dovetail.workload.boundaries import kept_once
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Block, Graph, Rule
from dovetail.workload.layers import NUM_LOSS_STATISTICS, Heads, Sample, attend, rotary, whole
from dovetail.workload.recorded.sizes import ONE, Size
from dovetail.workload.rows import Extent

Side = tuple[Size, int]  # a size, and the axes that may divide it
NO_SIDE: Side = (ONE, 0)
GATED = ("silu_mul", "gelu_mul")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockOperator:
    """One operator of a block; `inputs` are parts of the block by number from 1, and 0 is what comes into it.

    `extents` are batch, rows, columns, contraction and a fifth by kind, as the graph has them.
    """

    kind: str
    name: str
    inputs: tuple[int, ...]
    extents: tuple[Side, ...]
    operator: str = ""
    weight: int = 0
    weight_axes: int = 0
    bias: int = 0
    frozen: int = 0  # of the weight, elements that are not trained
    frozen_bias: int = 0
    is_tied: bool = False
    output_frac: float = 1.0
    shared_frac: float = 1.0  # of a product's second operand, or a convolution's input: distinct elements over touched
    stride: int = 1
    num_heads: int = 0
    num_kv_heads: int = 0
    is_causal: bool = False
    window: int = 0  # keys that a query sees, to either side where attention is not causal; 0 for all
    has_dropout: bool = False
    score_kinds: tuple[str, ...] = ()
    num_copies: int = 1
    is_core: bool = False  # over pairs of positions: what selective recompute runs again
    is_whole: bool = False  # attention that the tensor axis does not divide


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Parts that run one after another, `repeat` times in a row; it becomes one block."""

    name: str
    parts: tuple[BlockOperator, ...]
    input_rows: Side
    input_cols: Side
    carried: Size
    repeat: int = 1
    is_layer: bool = True
    is_input_data: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """`axis` may only take degrees that divide `size`, called `label` in messages."""

    axis: int
    label: str
    size: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A model from another tool. Its sizes follow batch and length; where they do not, `is_any_length` says so."""

    name: str
    tool: str
    stretches: tuple[Stretch, ...]
    limits: tuple[Limit, ...]
    num_kv_heads: int
    batch: int
    seq: int  # 1 where samples have no positions
    is_any_length: bool
    num_steps: int  # operators that were recorded
    notes: tuple[str, ...] = ()

    def forward(self, sample: Sample) -> Graph:
        if sample.has_wide_residual:
            raise NotModelled(f"{self.name} was captured, and residuals wider than its other tensors are not modelled")
        if sample.seq != self.seq and not self.is_any_length:
            message = f"{self.name} was captured at seq={self.seq}, and its shapes are for that length alone"
            raise InvalidInput(f"{message}; leave seq out, or capture it again at seq={sample.seq}", "seq")
        return Graph(
            model=self.name,
            batch=sample.batch,
            tokens_per_sample=sample.seq,
            dtype=sample.dtype,
            blocks=kept_once(_block(stretch, sample) for stretch in self.stretches),
            rules=tuple(
                Rule(axis=Axis(limit.axis), label=limit.label, count=limit.size.at(sample.batch, sample.seq))
                for limit in self.limits
            ),
            num_kv_heads=self.num_kv_heads,
        )

    @property
    def num_parameters(self) -> int:
        return sum(
            stretch.repeat * (part.weight + part.bias)
            for stretch in self.stretches
            for part in stretch.parts
            if not part.is_tied
        )

    @property
    def num_trained(self) -> int:
        """Those of `num_parameters` that are not frozen."""
        return sum(
            stretch.repeat * (part.weight + part.bias - part.frozen - part.frozen_bias)
            for stretch in self.stretches
            for part in stretch.parts
            if not part.is_tied
        )


def _block(stretch: Stretch, sample: Sample) -> Block:
    build = BlockBuilder(
        stretch.name,
        sample.dtype,
        _extent(stretch.input_rows, sample),
        _extent(stretch.input_cols, sample),
        is_input_data=stretch.is_input_data,
        kernels=sample.kernel_set,
        stops_early=sample.kernel_set.stops_early,
    )
    rows = [0]
    for part in stretch.parts:
        build.is_core = part.is_core
        rows.append(_LAY[part.kind](build, sample, part, tuple(rows[i] for i in part.inputs)))
        row = build.rows[rows[-1]]
        row.is_tied = part.is_tied
        if part.bias:  # not always one a column: some of the products it stands for may have none
            row.bias = (part.bias, row.bias[1])
        if part.frozen or part.frozen_bias:
            row.gradient = (max(0, row.gradient[0] - part.frozen), row.gradient[1])
            row.weight = (row.weight[0] + part.frozen_bias, row.weight[1])
            row.bias = (row.bias[0] - part.frozen_bias, row.bias[1])
    carried = stretch.carried.at(sample.batch, sample.seq)
    return build.block(repeat=stretch.repeat, is_layer=stretch.is_layer, boundary_activation_elements=carried)


def _extent(side: Side, sample: Sample) -> Extent:
    size, axes = side
    return size.at(sample.batch, sample.seq), Axis(axes)


def _extents(part: BlockOperator, sample: Sample) -> tuple[Extent, ...]:
    return tuple(_extent(side, sample) for side in part.extents)


def _vector(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    _, rows, cols, table_rows, pool = _extents(part, sample)
    if part.operator == "rope":
        return rotary(build, sample, inputs, rows, cols, name=part.name, output_frac=part.output_frac)
    return build.vector(
        part.operator,
        inputs,
        rows,
        cols,
        name=part.name,
        weight=(part.weight, Axis(part.weight_axes)),
        output_frac=part.output_frac,
        is_tied=part.is_tied,
        table_rows=table_rows,
        pool=pool[0],
    )


def _activation(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    """A gated activation; eager kernels run it as two, and keep the result of the first."""
    _, rows, cols, _, _ = _extents(part, sample)
    if sample.kernel_set.fuses(part.operator) or part.operator not in GATED:
        return build.vector(part.operator, inputs, rows, cols, name=part.name)
    gate = build.vector(part.operator.removesuffix("_mul"), inputs[:1], rows, cols, name=f"{part.name}_gate")
    return build.vector("mul", (gate, inputs[-1]), rows, cols, name=f"{part.name}_mul")


def _linear(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    _, rows, cols, inner, _ = _extents(part, sample)
    row = build.linear(inputs[0], rows, inner, cols, name=part.name, bias=bool(part.bias), is_tied=part.is_tied)
    if not part.weight:  # another part of this block owns it
        build.rows[row].weight = build.rows[row].gradient = whole(0)
    return row


def _expert_linear(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    experts, rows, cols, inner, _ = _extents(part, sample)
    return build.expert_linear(inputs[0], experts, rows, inner, cols, name=part.name)


def _recurrent_linear(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    steps, rows, cols, inner, _ = _extents(part, sample)
    return build.recurrent_linear(inputs[0], steps[0], rows, inner, cols, name=part.name, bias=bool(part.bias))


def _matmul(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    batch, m, n, k, _ = _extents(part, sample)
    return build.matmul(inputs, batch, m, n, k, name=part.name, b_distinct_frac=part.shared_frac)


def _convolution(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    groups, pixels, out, inner, window = _extents(part, sample)
    row = build.convolution(
        inputs[0],
        name=part.name,
        groups=groups[0],
        pixels=pixels,
        in_width=inner[0],
        out_width=out[0],
        input_frac=part.shared_frac,
        window=window[0],
        stride=part.stride,
        bias=bool(part.bias),
    )
    input_frac, weight_frac, _ = build.rows[row].distinct_frac
    build.rows[row].distinct_frac = (input_frac, weight_frac, part.output_frac)
    return row


def _attention(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    batch_heads, queries, keys, key_width, value_width = _extents(part, sample)
    if batch_heads[0] % part.num_heads:
        raise NotModelled(f"{part.name} has {part.num_heads} heads in a batch of {batch_heads[0]}; give whole samples")
    heads = Heads(
        num_heads=part.num_heads,
        num_kv_heads=part.num_kv_heads,
        key_width=key_width[0],
        value_width=value_width[0],
        is_split=not part.is_whole,
    )
    inside = replace(sample, batch=batch_heads[0] // part.num_heads, seq=queries[0])
    row = attend(
        build,
        inside,
        inputs,
        heads,
        keys=keys[0],
        is_causal=part.is_causal,
        window=part.window,
        has_dropout=part.has_dropout,
        score_kinds=part.score_kinds,
    )
    if part.weight:  # a sink or a bias of scores
        build.rows[row].bias = whole(part.weight)
    return row


def _exchange(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    _, rows, cols, _, _ = _extents(part, sample)
    return build.collective(part.operator, inputs[0], rows, cols, name=part.name, num_copies=part.num_copies)


def _loss(build: BlockBuilder, sample: Sample, part: BlockOperator, inputs: tuple[int, ...]) -> int:
    """Softmax cross-entropy, by the kernels that the sample has; split logits are summed up over the tensor axis."""
    _, rows, cols, _, _ = _extents(part, sample)
    row = build.vector(sample.loss_kind, inputs, rows, cols, name=part.name)
    if cols[1] & Axis.TENSOR:
        build.collective("vocab_reduce", row, rows, whole(NUM_LOSS_STATISTICS), name=f"{part.name}_reduce")
    return row


_LAY = {
    "vector": _vector,
    "activation": _activation,
    "linear": _linear,
    "expert_linear": _expert_linear,
    "recurrent_linear": _recurrent_linear,
    "matmul": _matmul,
    "convolution": _convolution,
    "attention": _attention,
    "exchange": _exchange,
    "loss": _loss,
}
KINDS = tuple(_LAY)
