"""Low-rank adapters (LoRA, Hu et al. 2021, arXiv:2106.09685): frozen weights, and two small trained ones beside some.

A frozen product has the gradient of its input and none of its weight, and keeps no input for one. An adapter of rank r
beside a product of k inputs and n outputs is a product from k to r, one from r to n, a scale and an add. Gradients go
back to the first layer's input, as where layers are recomputed (`enable_input_require_grads` in peft).

Tensor parallelism cuts an adapter so that only tensors of r columns are exchanged: beside columns that are split, the
product down is whole on every rank and the one up is split; beside rows that are split, the product down is split and
summed over ranks, and every rank forms its columns of the product up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from dovetail.errors import InvalidInput, NotModelled, did_you_mean
from dovetail.workload.graph import Axis, Block, Graph, Need
from dovetail.workload.kernel_sets import KernelSet
from dovetail.workload.layers import whole
from dovetail.workload.model import Architecture
from dovetail.workload.operators import SIDE_BYTES_PER_ELEMENT, code_of
from dovetail.workload.rows import ONE, Extent, Row, mark_needs, rows_to_ops
from dovetail.workload.training import ops_to_rows
from dovetail.workload.transformer import Transformer

ALL_LINEAR = "all-linear"  # peft's word for every product of a layer
ATTENTION_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")
FFN_TARGETS = ("gate_proj", "up_proj", "down_proj")
TARGETS = (*ATTENTION_TARGETS, *FFN_TARGETS)  # as peft calls the modules of Llama
_OTHER_NAMES = {  # in other frameworks, and what is closest here
    "linear_qkv": "q_proj",
    "linear_proj": "o_proj",
    "linear_fc1": "up_proj",
    "linear_fc2": "down_proj",
    "all": ALL_LINEAR,
}
NOTHING: Extent = (0, Axis.NONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lora:
    """Adapters of `rank` beside the products called `targets`, as peft calls Llama's; of rank 0 there are none."""

    rank: int = 0
    targets: tuple[str, ...] = (ALL_LINEAR,)

    def __post_init__(self) -> None:
        if self.rank < 0:
            raise InvalidInput(f"rank must be 1 or more, or 0 for none; got {self.rank}", "rank")
        if not self.targets:
            raise InvalidInput(f"targets must name a module; known: {', '.join((*TARGETS, ALL_LINEAR))}", "targets")
        for name in self.targets:
            if name not in (*TARGETS, ALL_LINEAR):
                hint = did_you_mean(_OTHER_NAMES.get(name, f"{name}_proj"), (*TARGETS, ALL_LINEAR))
                raise InvalidInput(f"no module that adapters go beside is named {name!r}{hint}", "targets")

    @property
    def is_used(self) -> bool:
        return self.rank > 0


FULL_TRAINING = Lora()


def adapted(graph: Graph, architecture: Architecture, lora: Lora, kernels: KernelSet) -> Graph:
    """`graph` with its weights frozen and adapters beside some of them; raises where that is not modelled."""
    if not isinstance(architecture, Transformer):
        raise NotModelled(f"adapters are modelled for transformers, and {graph.model} is none", "lora")
    columns = _columns(architecture)
    wanted = _wanted(lora, architecture, projections(architecture))
    blocks = (
        _adapted_block(block, {row: _chosen(of_row, wanted) for row, of_row in columns.items()}, lora.rank, kernels)
        for block in graph.blocks
    )
    return graph.with_blocks(tuple(blocks))


def targets_of(lora: Lora, architecture: Architecture) -> tuple[str, ...]:
    """The modules that get adapters, in the order of a layer; raises where one of them is not modelled."""
    assert isinstance(architecture, Transformer), architecture
    return tuple(name for name in TARGETS if name in _wanted(lora, architecture, projections(architecture)))


def projections(architecture: Architecture) -> set[str]:
    """The modules that a layer has, of those that adapters may go beside."""
    assert isinstance(architecture, Transformer), architecture
    return {name for targets in _columns(architecture).values() for name in targets}


def _wanted(lora: Lora, shape: Transformer, known: set[str]) -> set[str]:
    """The targets of `lora` that a layer of `shape` has."""
    if shape.num_encoder_layers:
        raise NotModelled(f"adapters are not modelled for encoder-decoders such as {shape.name}", "lora")
    if shape.latent is not None:
        raise NotModelled(f"adapters beside latent attention, as {shape.name} has it, are not modelled", "lora")
    named = set(TARGETS if ALL_LINEAR in lora.targets else lora.targets)
    if shape.experts is not None:
        if named & set(FFN_TARGETS):
            attention = ",".join(ATTENTION_TARGETS)
            message = f"adapters beside experts, as {shape.name} has them, are not modelled"
            raise NotModelled(f"{message}; pass --lora-targets {attention}, or these as targets", "lora.targets")
        return named
    lacking = sorted(named - known)
    if lacking and ALL_LINEAR not in lora.targets:
        message = f"{shape.name} has no {lacking[0]}, for its feed-forward is not gated"
        raise InvalidInput(f"{message}; leave it out of targets", "lora.targets")
    return named & known


def _columns(shape: Transformer) -> dict[str, dict[str, Extent]]:
    """Of each product of a layer the modules that it holds side by side, with their columns."""
    heads, hidden, width = shape.heads, whole(shape.hidden), (shape.ffn_width, Axis.TENSOR)
    q, k, v = heads.query_cols, heads.key_cols, heads.value_cols
    is_gated = shape.activation.endswith("_mul")
    return {
        "qkv": {"q_proj": q, "k_proj": k, "v_proj": v},
        "q": {"q_proj": q},
        "kv": {"k_proj": k, "v_proj": v},
        "attention_out": {"o_proj": hidden},
        "ffn_up": {"gate_proj": width, "up_proj": width} if is_gated else {"up_proj": width},
        "ffn_down": {"down_proj": hidden},
    }


def _chosen(of_row: Mapping[str, Extent], wanted: set[str]) -> dict[str, Extent]:
    return {name: cols for name, cols in of_row.items() if name in wanted}


def _adapted_block(block: Block, adapters: Mapping[str, Mapping[str, Extent]], rank: int, kernels: KernelSet) -> Block:
    rows: list[Row] = []
    place: list[int] = []  # of each row as it was, where its output is now
    for row in ops_to_rows(block.ops):
        inputs = tuple(place[source] for source in row.inputs)
        rows.append(_frozen(replace(row, inputs=inputs, need=Need.NONE)))
        base = output = len(rows) - 1
        targets = adapters.get(row.name, {}) if block.is_layer and row.kind == "linear" else {}
        for name, cols in targets.items():
            rows.extend(list(_adapter(rows[base], name, cols, rank, len(rows), output)))
            output = len(rows) - 1
        place.append(output)
    for row in rows:
        row.is_fused = kernels.fuses(row.kind, is_layer=block.is_layer)
        row.is_compiled = kernels.compiles(row.kind, is_layer=block.is_layer)
    mark_needs(rows, is_input_data=block.is_input_data)
    return replace(block, ops=rows_to_ops(rows))


def _frozen(row: Row) -> Row:
    """With its parameters frozen. A bias counts with its weight, and is split as that is: it is small beside it."""
    elements = row.weight[0] + row.bias[0]
    return replace(row, weight=(elements, row.weight[1]), gradient=NOTHING, bias=NOTHING)


def _adapter(base: Row, name: str, cols: Extent, rank: int, start: int, output: int) -> Iterator[Row]:
    """The rows of one adapter, the first of which gets the number `start`; `output` is what it is added to."""
    _, tokens, base_cols, contraction, _ = base.extents
    middle = whole(rank)
    has_split_rows = bool(contraction[1] & Axis.TENSOR)
    is_split = has_split_rows or bool(cols[1])
    up_cols = (cols[0], Axis.TENSOR) if has_split_rows else cols

    def row(kind: str, suffix: str, inputs: tuple[int, ...], extents: tuple[Extent, ...], **more: object) -> Row:
        side_bytes = float(SIDE_BYTES_PER_ELEMENT[0, code_of(kind)])
        return Row(
            name=f"{name}_{suffix}",
            kind=kind,
            inputs=inputs,
            extents=extents,
            dtype=base.dtype,
            side_bytes_per_element=side_bytes,
            **more,  # type: ignore[arg-type]
        )

    def product(suffix: str, source: int, k: Extent, n: Extent) -> Row:
        weight = (k[0] * n[0], k[1] | n[1])
        return row("linear", suffix, (source,), (ONE, tokens, n, k, ONE), weight=weight, gradient=weight)

    yield product("lora_a", base.inputs[0], contraction, middle)
    last = start
    exchanges = ("reduce", "gather") if has_split_rows else ("gather",) if is_split else ()
    for kind in exchanges:
        yield row(kind, f"lora_{kind}", (last,), (ONE, tokens, middle, ONE, ONE))
        last += 1
    yield product("lora_b", last, middle, up_cols)
    yield row("scale", "lora_scale", (last + 1,), (ONE, tokens, up_cols, ONE, ONE))
    touched = (1.0, 1.0, base_cols[0] / cols[0])  # what rides along untouched, of modules side by side
    yield row("add", "lora_add", (output, last + 2), (ONE, tokens, up_cols, ONE, ONE), distinct_frac=touched)
