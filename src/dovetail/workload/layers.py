"""The parts transformers are made of, written once: attention and feed-forward.

Axis conventions. Inside a tensor-parallel region rows are `TOKENS`; between regions they are `SHARED_TOKENS`,
divided further under sequence parallelism. A `gather` opens a region and a `reduce` closes it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dovetail.errors import InvalidInput, did_you_mean, require_positive
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis
from dovetail.workload.kernel_sets import KernelSet, kernel_sets
from dovetail.workload.rows import Extent

TOKENS = Axis.DATA | Axis.CONTEXT
SHARED_TOKENS = TOKENS | Axis.SEQUENCE
FLASH_KINDS = {"flash": "attention", "flash-2": "attention_2", "flash-1": "attention_1"}
ATTENTION_KERNELS = (*FLASH_KINDS, "unfused")
NUM_LOSS_STATISTICS = 6  # maximum, sum and target logit of each row, in fp32: as many bf16 columns twice over


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """How much of the model one graph covers: `batch` samples of `seq` positions, in `dtype`."""

    batch: int
    seq: int
    dtype: str
    attention: str = "flash"  # flash: one kernel, scores stay on chip; unfused: scores are written out
    has_wide_residual: bool = False  # what layers hand on is fp32, and cast for every branch (autocast, fp32 weights)
    has_fused_loss: bool = False  # one kernel over the logits, whatever the other kernels are
    kernels: str = "fused"  # a name of `kernel_sets`

    def __post_init__(self) -> None:
        for label, known in (("attention", ATTENTION_KERNELS), ("kernels", kernel_sets.names())):
            if getattr(self, label) not in known:
                hint = did_you_mean(getattr(self, label), known)
                raise InvalidInput(
                    f"{label} must be one of {', '.join(known)}; got {getattr(self, label)!r}{hint}", label
                )
        require_positive(self, "batch", "seq")

    @property
    def kernel_set(self) -> KernelSet:
        return kernel_sets[self.kernels]

    @property
    def loss_kind(self) -> str:
        """The loss operator: out of place, with its gradient in place, or in one kernel over the logits."""
        return "fused_cross_entropy" if self.has_fused_loss else self.kernel_set.loss

    @property
    def tokens(self) -> Extent:
        return self.batch * self.seq, TOKENS

    @property
    def shared_tokens(self) -> Extent:
        return self.batch * self.seq, SHARED_TOKENS

    def builder(self, name: str, width: int, *, is_input_data: bool = False) -> BlockBuilder:
        return BlockBuilder(
            name,
            self.dtype,
            self.shared_tokens,
            (width, Axis.NONE),
            is_input_data=is_input_data,
            kernels=self.kernel_set,
            stops_early=self.kernel_set.stops_early,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """Attention heads and their widths; fewer key-value heads than heads is grouped-query attention."""

    num_heads: int
    num_kv_heads: int
    key_width: int
    value_width: int
    is_split: bool = True  # over the tensor axis; not where something beside attention joins heads

    @property
    def axis(self) -> Axis:
        return Axis.TENSOR if self.is_split else Axis.NONE

    @property
    def kv_axis(self) -> Axis:
        return Axis.KV if self.is_split else Axis.NONE

    @property
    def query_cols(self) -> Extent:
        return self.num_heads * self.key_width, self.axis

    @property
    def key_cols(self) -> Extent:
        return self.num_kv_heads * self.key_width, self.kv_axis

    @property
    def value_cols(self) -> Extent:
        return self.num_kv_heads * self.value_width, self.kv_axis

    @property
    def output_cols(self) -> Extent:
        return self.num_heads * self.value_width, self.axis

    @property
    def kv_frac(self) -> float:
        return self.num_kv_heads / self.num_heads


def whole(num_elements: int) -> Extent:
    return num_elements, Axis.NONE


def causal_pairs_frac(seq: int, window: int = 0) -> float:
    """Share of all (query, key) pairs that causal attention looks at: the last `window` keys, or 0 for all of them.

    The diagonal counts half, so that no window gives one half.
    """
    seen = min(window, seq) / seq if window else 1.0
    return seen * (1 - seen / 2)


def pairs_frac(seq: int, window: int = 0) -> float:
    """The same of attention that looks `window` keys to either side, 0 for all; fewer beside an end."""
    seen = min(window, seq) / seq if window else 1.0
    return seen * (2 - seen)


def close_region(build: BlockBuilder, sample: Sample, x: int, width: int, residual: int, has_dropout: bool) -> int:
    """Sums partial results over the tensor axis, then dropout and the residual add."""
    x = build.collective("reduce", x, sample.tokens, whole(width))
    if has_dropout:
        x = build.vector("dropout", (x,), sample.shared_tokens, whole(width))
    if sample.has_wide_residual:
        x = build.vector("cast", (x,), sample.shared_tokens, whole(width), name="widen")
    return build.vector("add", (residual, x), sample.shared_tokens, whole(width))


def project_qkv(
    build: BlockBuilder,
    sample: Sample,
    x: int,
    hidden: int,
    heads: Heads,
    *,
    has_bias: bool,
    has_rope: bool,
    norm: str = "",
    rotary_frac: float = 1.0,
) -> tuple[int, ...]:
    """Queries, keys and values: one product when heads are equal in number, else queries and key-values apart.

    `norm` names the norm put on each head's queries and keys, if any; `rotary_frac` is the part of a key that turns
    with its position.
    """
    rows, width = sample.tokens, whole(hidden)
    if heads.num_kv_heads == heads.num_heads:
        cols = (heads.query_cols[0] + heads.key_cols[0] + heads.value_cols[0], Axis.TENSOR)
        projected: tuple[int, ...] = (build.linear(x, rows, width, cols, name="qkv", bias=has_bias),)
    else:
        q = build.linear(x, rows, width, heads.query_cols, name="q", bias=has_bias)
        kv_cols = (heads.key_cols[0] + heads.value_cols[0], Axis.KV)
        projected = (q, build.linear(x, rows, width, kv_cols, name="kv", bias=has_bias))
    q, kv = projected[0], projected[-1]
    steps = [(norm, heads.key_width)] if norm else []
    if has_rope:
        steps.append(("rope", int(heads.key_width * rotary_frac)))
    for kind, touched in steps:
        q_cols, k_cols = (heads.num_heads * touched, Axis.TENSOR), (heads.num_kv_heads * touched, Axis.KV)
        q_frac, v_frac = heads.key_width / touched, heads.value_width / touched  # what rides along untouched
        if kind == "rope":
            q = rotary(build, sample, (q,), rows, q_cols, name="rope_q", output_frac=q_frac)
            kv = rotary(build, sample, (kv,), rows, k_cols, name="rope_k", output_frac=q_frac + v_frac)
            continue
        weight = whole(heads.key_width)
        q = build.vector(kind, (q,), rows, q_cols, name=f"{kind}_q", weight=weight, output_frac=q_frac)
        kv = build.vector(kind, (kv,), rows, k_cols, name=f"{kind}_k", weight=weight, output_frac=q_frac + v_frac)
    return (q, kv) if q != kv else (q,)


def rotary(
    build: BlockBuilder,
    sample: Sample,
    inputs: tuple[int, ...],
    rows: Extent,
    cols: Extent,
    *,
    name: str,
    output_frac: float = 1.0,
) -> int:
    """Columns turned by their position, in one kernel, or written out where the kernel set has none for it.

    Written out, half of the columns are negated and joined to the other half, both are multiplied by sines and cosines,
    which are small, and added; autograd keeps none of it.
    """
    if "rope" not in sample.kernel_set.unfused:
        return build.vector("rope", inputs, rows, cols, name=name, output_frac=output_frac)
    turned = build.vector("concat", inputs, rows, cols, name=f"{name}_turn")
    parts = [
        build.vector("scale", (inputs[0],), rows, cols, name=f"{name}_cos"),
        build.vector("scale", (turned,), rows, cols, name=f"{name}_sin"),
    ]
    return build.vector("add", parts, rows, cols, name=f"{name}_add", output_frac=output_frac)


def attend(
    build: BlockBuilder,
    sample: Sample,
    qkv: tuple[int, ...],
    heads: Heads,
    *,
    keys: int,
    is_causal: bool,
    has_dropout: bool,
    window: int = 0,
    score_kinds: tuple[str, ...] = (),
    has_sinks: bool = False,
) -> int:
    """Attention over `keys` positions, which under context parallelism devices exchange as the plan says: they gather
    keys and values, pass them round a ring, or deal heads out for positions.

    `window`: keys that a query sees, before it or to either side, 0 for all; `score_kinds` are element-wise operators
    on the scores, which a fused kernel does on chip, as it does the softmax; `has_sinks`: heads have a learnt logit
    each.
    """
    kv_cols = (heads.key_cols[0] + heads.value_cols[0], heads.kv_axis)
    dealt = (heads.query_cols[0] + heads.output_cols[0], heads.axis)
    kv = build.collective("context_gather", qkv[-1], (sample.batch * keys, TOKENS), kv_cols, beside_cols=dealt)
    inputs = (*qkv[:-1], kv) if len(qkv) > 1 else (kv,)
    batch_heads: Extent = (sample.batch * heads.num_heads, Axis.DATA | heads.axis | Axis.HEADS)
    queries: Extent = (sample.seq, Axis.QUERIES)
    sinks: Extent = (heads.num_heads, heads.axis) if has_sinks else (0, Axis.NONE)
    frac = causal_pairs_frac(keys, window) if is_causal else pairs_frac(keys, window)
    build.is_core = True
    if sample.attention in FLASH_KINDS:
        shape = (batch_heads, queries, (keys, Axis.HOPS), heads.key_width, heads.value_width)
        x = build.attention(inputs, *shape, kv_frac=heads.kv_frac, work_frac=frac, kind=FLASH_KINDS[sample.attention])
        build.rows[x].bias = sinks
    else:
        scored = min(keys, math.ceil(2 * frac * keys))
        x = _attend_unfused(
            build, inputs, batch_heads, queries, whole(scored), keys / scored, heads, has_dropout, score_kinds, sinks
        )
    build.is_core = False
    return x


def _attend_unfused(
    build: BlockBuilder,
    inputs: tuple[int, ...],
    batch_heads: Extent,
    queries: Extent,
    keys: Extent,
    keys_frac: float,
    heads: Heads,
    has_dropout: bool,
    score_kinds: tuple[str, ...],
    sinks: Extent,
) -> int:
    """Scores, softmax and weighted values as operators of their own; masked scores are computed all the same.

    Under a window w attention runs in blocks, each of w queries against its own w keys and the w before them
    (Longformer's sliding chunks, arXiv:2004.05150): `keys` is how many a query is scored against on average, and all
    keys, of which there are `keys_frac` times as many, are read.
    """
    score_rows = (batch_heads[0] * queries[0], batch_heads[1] | queries[1])
    kv_frac = heads.kv_frac * keys_frac
    x = build.matmul(inputs, batch_heads, queries, keys, whole(heads.key_width), name="scores", b_distinct_frac=kv_frac)
    for index, kind in enumerate(score_kinds):
        x = build.vector(kind, (x,), score_rows, keys, name=f"score_{index}_{kind}")
    x = build.vector("softmax", (x,), score_rows, keys, weight=sinks)
    if has_dropout:
        x = build.vector("dropout", (x,), score_rows, keys, name="attention_dropout")
    return build.matmul(
        (x, inputs[-1]),
        batch_heads,
        queries,
        whole(heads.value_width),
        keys,
        name="weighted_values",
        b_distinct_frac=kv_frac,
    )


def activate(
    build: BlockBuilder, sample: Sample, x: int, rows: Extent, cols: Extent, activation: str, name: str
) -> int:
    """An activation; eager kernels run a gated one as two, and keep the result of the first."""
    if not sample.kernel_set.fuses(activation) and activation in ("silu_mul", "gelu_mul"):
        gate = build.vector(activation.removesuffix("_mul"), (x,), rows, cols, name=f"{name}_gate")
        return build.vector("mul", (gate, x), rows, cols, name=f"{name}_mul")
    return build.vector(activation, (x,), rows, cols, name=f"{name}_{activation}")


def feed_forward(
    build: BlockBuilder,
    sample: Sample,
    x: int,
    hidden: int,
    width: int,
    activation: str,
    *,
    has_bias: bool,
    has_dropout: bool = False,
    name: str = "ffn",
) -> int:
    """Up, activation, down; a gated activation ('..._mul') has two columns up for each one down."""
    num_up = 2 if activation.endswith("_mul") else 1
    x = build.linear(x, sample.tokens, whole(hidden), (num_up * width, Axis.TENSOR), name=f"{name}_up", bias=has_bias)
    x = activate(build, sample, x, sample.tokens, (width, Axis.TENSOR), activation, name)
    if has_dropout:
        x = build.vector("dropout", (x,), sample.tokens, (width, Axis.TENSOR), name=f"{name}_dropout")
    return build.linear(x, sample.tokens, (width, Axis.TENSOR), whole(hidden), name=f"{name}_down", bias=has_bias)


def masked_token_transform(build: BlockBuilder, sample: Sample, x: int, hidden: int) -> int:
    """BERT's pooler, next-sentence classifier, and the transform before the masked-token projection."""
    rows, pooled, width = sample.shared_tokens, (sample.batch, Axis.DATA), whole(hidden)
    pool = build.linear(x, pooled, width, width, name="pooler", bias=True)
    pool = build.vector("tanh", (pool,), pooled, width)
    build.linear(pool, pooled, width, whole(2), name="next_sentence", bias=True)
    x = build.linear(x, rows, width, width, name="transform", bias=True)
    x = build.vector("gelu", (x,), rows, width)
    return build.vector("layernorm", (x,), rows, width, name="transform_norm", weight=whole(2 * hidden))
