"""A tape on which tests write down what a model would do, at any batch and length, without a tool that runs it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from dovetail.workload.recorded.captured import BlockOperator, Captured
from dovetail.workload.recorded.drafted import Draft, Drafting
from dovetail.workload.recorded.drafts import drafted
from dovetail.workload.recorded.flow import Flow
from dovetail.workload.recorded.record import Attribute, Recorded, Recording, Source, Step, Tensor
from dovetail.workload.recorded.sizes import Size
from dovetail.workload.recorded.understand import PATTERNS, understood

BATCH, SECOND_BATCH = 2, 4
SEQ, SECOND_SEQ = 16, 32
B, S = Size(1, num_batch=1), Size(1, num_seq=1)  # samples, and positions of one
WIDTH, HEADS, KEY = 32, 4, 8
VOCAB = 96

Side = int | Size | Callable[[int], int]
Shape = tuple[Side, ...]
LAYER = "layers.0"


@dataclass(slots=True)
class Tape:
    """Each call writes a step down, and gives the number of the tensor it makes."""

    name: str = "toy"
    tensors: list[tuple[Shape, str, Source, str]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def _tensor(self, shape: Sequence[Side], dtype: str, source: Source, name: str = "") -> int:
        self.tensors.append((tuple(shape), dtype, source, name))
        return len(self.tensors) - 1

    def data(self, *shape: Side, dtype: str = "bf16") -> int:
        return self._tensor(shape, dtype, Source.INPUT, "x")

    def tokens(self) -> int:
        return self.data(B, S, dtype="int")

    def weight(self, *shape: Side, name: str = "") -> int:
        return self._tensor(shape, "bf16", Source.PARAMETER, name or f"weight_{len(self.tensors)}")

    def frozen(self, *shape: Side) -> int:
        return self._tensor(shape, "bf16", Source.FROZEN, f"frozen_{len(self.tensors)}")

    def buffer(self, *shape: Side, dtype: str = "bf16") -> int:
        return self._tensor(shape, dtype, Source.CONSTANT, "buffer")

    def add(
        self,
        word: str,
        *inputs: int,
        shape: Sequence[Side] | None = None,
        dtype: str = "bf16",
        where: str = "",
        op: str = "",
        **attributes: Attribute,
    ) -> int:
        """One step; of the shape of its largest input unless another is given."""
        if shape is None:
            largest = max(inputs, key=lambda value: prod(sides_at(self.tensors[value][0], BATCH, SEQ)))
            shape = self.tensors[largest][0]
        made = self._tensor(shape, dtype, Source.STEP)
        step = Step(
            word=word, inputs=inputs, outputs=(made,), op=op or word, where=where, attributes=tuple(attributes.items())
        )
        self.steps.append(step)
        return made

    def shape(self, value: int) -> Shape:
        return self.tensors[value][0]

    def view(self, x: int, *shape: Side) -> int:
        return self.add("view", x, shape=shape)

    def linear(self, x: int, cols: int, *, bias: bool = False, where: str = "", weight: int = -1) -> int:
        inner = self.shape(x)[-1]
        weight = weight if weight >= 0 else self.weight(cols, inner)
        biases = (self.weight(cols),) if bias else ()
        return self.add("linear", x, weight, *biases, shape=(*self.shape(x)[:-1], cols), where=where, turned=True)

    def embedding(self, rows: int = VOCAB, cols: int = WIDTH, *, where: str = "embed") -> tuple[int, int]:
        """What tokens are looked up as, and the table."""
        table = self.weight(rows, cols, name="table")
        return self.add("embedding", table, self.tokens(), shape=(B, S, cols), where=where), table

    def norm(self, x: int, word: str = "rmsnorm", where: str = "") -> int:
        return self.add(word, x, self.weight(self.shape(x)[-1]), where=where)

    def conv(self, x: int, cols: int, window: int, *, side: int, groups: int = 1, where: str = "", **more: int) -> int:
        channels = self.shape(x)[1]
        assert isinstance(channels, int)
        weight = self.weight(cols, channels // groups, window, window)
        stride, padding = more.get("stride", 1), more.get("padding", 0)
        return self.add(
            "convolution",
            x,
            weight,
            *((self.weight(cols),) if more.get("bias") else ()),
            shape=(B, cols, side, side),
            where=where,
            stride=(stride, stride),
            padding=(padding, padding),
            groups=groups,
        )

    def heads(self, x: int, num_heads: int = HEADS, width: int = KEY) -> int:
        return self.view(x, B, num_heads, S, width)

    def attention(self, q: int, k: int, v: int, *, is_causal: bool = False) -> int:
        return self.add("attention", q, k, v, shape=self.shape(q), where=f"{LAYER}.attn", is_causal=is_causal)

    def self_attention(self, x: int, *, kv_heads: int = HEADS, where: str = LAYER, is_causal: bool = True) -> int:
        """Queries, keys and values of `x`, attention, and its output product; grouped heads are seen repeatedly."""
        at = f"{where}.attn"
        q = self.heads(self.linear(x, WIDTH, where=f"{at}.q"))
        k, v = (self.heads(self.linear(x, kv_heads * KEY, where=f"{at}.{name}"), kv_heads) for name in "kv")
        if kv_heads != HEADS:
            k, v = (self.add("view", value, shape=(B, HEADS, S, KEY)) for value in (k, v))
        out = self.view(
            self.add("attention", q, k, v, shape=(B, HEADS, S, KEY), where=at, is_causal=is_causal), B, S, WIDTH
        )
        return self.linear(out, WIDTH, where=f"{at}.o")

    def feed_forward(self, x: int, *, wide: int = 128, where: str = LAYER) -> int:
        up = self.add("gelu", self.linear(x, wide, where=f"{where}.mlp.up"), where=f"{where}.mlp.act")
        return self.linear(up, WIDTH, where=f"{where}.mlp.down")

    def layer(self, x: int, index: int, *, wide: int = 128) -> int:
        where = f"layers.{index}"
        x = self.add("add", x, self.self_attention(self.norm(x, where=f"{where}.norm1"), where=where), where=where)
        return self.add("add", x, self.feed_forward(self.norm(x, where=f"{where}.norm2"), wide=wide, where=where))

    def loss(self, logits: int) -> int:
        """Softmax cross-entropy over the last side: classes come second, so positions are put beside samples."""
        *rows, classes = self.shape(logits)
        if len(rows) > 1:
            logits = self.view(logits, B * S, classes)
        return self.add("cross_entropy", logits, self.buffer(B, dtype="int"), shape=(), where="loss")

    def decoder(self, num_layers: int = 3, *, is_tied: bool = False) -> Tape:
        """Embedding, layers, a norm, logits and a loss."""
        x, table = self.embedding()
        for index in range(num_layers):
            x = self.layer(x, index)
        logits = self.linear(self.norm(x, where="norm"), VOCAB, where="head", weight=table if is_tied else -1)
        self.loss(logits)
        return self

    def recording(self, batch: int, seq: int) -> Recording:
        tensors = tuple(
            Tensor(shape=sides_at(shape, batch, seq), dtype=dtype, source=source, name=name)
            for shape, dtype, source, name in self.tensors
        )
        return Recording(name=self.name, tensors=tensors, steps=tuple(self.steps))

    def recorded(self, batch: int = BATCH, seq: int = SEQ) -> Recorded:
        second_batch, second_seq = 2 * batch, 2 * seq
        return Recorded(
            base=self.recording(batch, seq),
            other_batch=self.recording(second_batch, seq),
            other_seq=self.recording(batch, second_seq),
            batch=batch,
            second_batch=second_batch,
            seq=seq,
            second_seq=second_seq,
            tool="tape 1",
        )

    @property
    def num_parameters(self) -> int:
        return sum(prod(sides_at(shape, 1, 1)) for shape, _, source, _ in self.tensors if source is Source.PARAMETER)

    def captured(self) -> Captured:
        return understood(self.recorded())


def product_flop(tape: Tape, batch: int, seq: int) -> int:
    """2mnk of every product on the tape, straight from the shapes of what it reads and makes."""
    total = 0
    for step in tape.steps:
        shapes = [sides_at(tape.shape(value), batch, seq) for value in (*step.inputs, *step.outputs)]
        made = prod(shapes[-1])
        if step.word in ("linear", "matmul", "grouped_linear"):
            total += 2 * made * shapes[0][-1]
        elif step.word == "convolution":
            is_turned = bool(step.attribute("turned", False))  # then a product for each pixel that comes in
            total += 2 * (prod(shapes[0]) if is_turned else made) * prod(shapes[1][1:])
        elif step.word == "attention":
            queries, keys, values = shapes[:3]
            total += 2 * prod(queries[:-1]) * keys[-2] * (queries[-1] + values[-1])
    return total


def sides_at(shape: Iterable[Side], batch: int, seq: int) -> tuple[int, ...]:
    return tuple(
        side.at(batch, seq) if isinstance(side, Size) else side if isinstance(side, int) else side(seq)
        for side in shape
    )


def taken(tape: Tape, *takes: Callable[[Flow], None]) -> Flow:
    """What a few patterns leave of a tape."""
    flow = Flow(tape.recorded())
    for take in takes:
        take(flow)
        flow.settle()
    return flow


def words(flow: Flow) -> list[str]:
    return [node.word for node in flow.nodes]


def drafting_of(tape: Tape) -> Drafting:
    """Operators of a tape, before anything is merged or divided."""
    return drafted(taken(tape, *PATTERNS))


def only(drafting: Drafting, kind: str) -> Draft:
    (found,) = (draft for draft in drafting.drafts if draft.kind == kind)
    return found


def at_base(draft: Draft) -> tuple[int, ...]:
    """Extents at the recorded sizes."""
    return tuple(size.at(BATCH, SEQ) for size in draft.sizes)


def pools_of(captured: Captured) -> list[BlockOperator]:
    return [part for stretch in captured.stretches for part in stretch.parts]


def part(captured: Captured, name: str) -> BlockOperator:
    (found,) = (part for part in pools_of(captured) if part.name == name)
    return found


def names(captured: Captured) -> list[str]:
    return [part.name for part in pools_of(captured)]
