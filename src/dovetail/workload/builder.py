"""Builds the forward rows of one block: each call adds an operator and returns its row number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dovetail.workload.graph import Axis, Block, M, N
from dovetail.workload.kernel_sets import KernelSet
from dovetail.workload.operators import OPERATORS, SIDE_BYTES_PER_ELEMENT, Unit, code_of
from dovetail.workload.rows import ONE, Extent, Row, mark_needs, rows_to_ops

WRITTEN_OUT = KernelSet(summary="each operator as it is written", source="eager PyTorch")


@dataclass(slots=True)
class BlockBuilder:
    """Row 0 is the block's input tensor. Extents are given as (size, axes that may divide it)."""

    name: str
    dtype: str
    input_rows: Extent
    input_cols: Extent
    rows: list[Row] = field(default_factory=list)
    is_input_data: bool = False  # the input is data, which needs no gradient
    is_core: bool = False  # rows added now belong to the attention core
    kernels: KernelSet = WRITTEN_OUT
    stops_early: bool = False

    def __post_init__(self) -> None:
        self._add("input", "input", (), (ONE, self.input_rows, self.input_cols, ONE, ONE))

    def vector(
        self,
        kind: str,
        inputs: Sequence[int],
        rows: Extent,
        cols: Extent,
        *,
        name: str = "",
        weight: Extent = (0, Axis.NONE),
        output_frac: float = 1.0,
        is_tied: bool = False,
        table_rows: Extent = ONE,
        pool: int = 1,
        groups: Extent = ONE,
    ) -> int:
        """An element-wise, norm, gather or loss operator over rows by columns, of each of `groups`.

        `output_frac` above 1: its output tensor also holds columns that it leaves as they are. Below 1: it reduces,
        and rows by columns are its input. `table_rows` is how many rows the table has that it looks up in, `pool` how
        many of them it sums into one.
        """
        operator = OPERATORS[code_of(kind)]
        assert operator.unit == Unit.VECTOR, f"{kind} is not a vector operator"
        kept = operator.kept_bytes_per_element
        return self._add(
            name or kind,
            kind,
            inputs,
            (groups, rows, cols, table_rows, (pool, Axis.NONE)),
            weight=weight,
            kept_bytes_per_element=kept,
            distinct_frac=(1.0, 1.0, output_frac),
            is_tied=is_tied,
        )

    def linear(
        self,
        x: int,
        rows: Extent,
        contraction: Extent,
        cols: Extent,
        *,
        name: str,
        bias: bool = False,
        is_tied: bool = False,
    ) -> int:
        """rows x contraction times a weight of contraction x cols."""
        weight = (contraction[0] * cols[0], contraction[1] | cols[1])
        extents = (ONE, rows, cols, contraction, ONE)
        return self._add(
            name,
            "linear",
            (x,),
            extents,
            weight=weight,
            bias=(cols[0], cols[1]) if bias else (0, Axis.NONE),
            is_tied=is_tied,
        )

    def expert_linear(
        self, x: int, experts: Extent, rows: Extent, contraction: Extent, cols: Extent, *, name: str, bias: bool = False
    ) -> int:
        """One linear layer per expert, each over its own rows."""
        weight = (experts[0] * contraction[0] * cols[0], experts[1] | contraction[1] | cols[1])
        return self._add(
            name,
            "expert_linear",
            (x,),
            (experts, rows, cols, contraction, ONE),
            weight=weight,
            bias=(experts[0] * cols[0], experts[1] | cols[1]) if bias else (0, Axis.NONE),
        )

    def recurrent_linear(
        self, x: int, steps: int, rows: Extent, contraction: Extent, cols: Extent, *, name: str, bias: bool = False
    ) -> int:
        """`steps` products one after another, each adding rows x contraction times one weight to its rows of `x`."""
        weight = (contraction[0] * cols[0], contraction[1] | cols[1])
        return self._add(
            name,
            "recurrent_linear",
            (x,),
            ((steps, Axis.NONE), rows, cols, contraction, ONE),
            distinct_frac=(1.0, 1.0 / steps, 1.0),
            weight=weight,
            bias=cols if bias else (0, Axis.NONE),
        )

    def matmul(
        self,
        inputs: Sequence[int],
        batch: Extent,
        m: Extent,
        n: Extent,
        k: Extent,
        *,
        name: str,
        b_distinct_frac: float = 1.0,
    ) -> int:
        """A batch of products of two activations; `b_distinct_frac` below 1 when B is shared within the batch."""
        return self._add(name, "matmul", inputs, (batch, m, n, k, ONE), distinct_frac=(1.0, b_distinct_frac, 1.0))

    def attention(
        self,
        inputs: Sequence[int],
        heads: Extent,
        queries: Extent,
        keys: Extent,
        key_width: int,
        value_width: int,
        *,
        kv_frac: float,
        work_frac: float,
        kind: str = "attention",
    ) -> int:
        """Fused attention; keeps one fp32 statistic a row and head beside its output.

        `work_frac`: share of (query, key) pairs that it looks at: a half where it is causal, less under a window.
        """
        extents = (heads, queries, keys, (key_width, Axis.NONE), (value_width, Axis.NONE))
        return self._add(
            "attention",
            kind,
            inputs,
            extents,
            distinct_frac=(1.0, kv_frac, 1.0),
            work_frac=work_frac,
            kept_bytes_per_element=4.0 / value_width,
        )

    def convolution(
        self,
        x: int,
        *,
        name: str,
        groups: int,
        pixels: Extent,
        in_width: int,
        out_width: int,
        input_frac: float,
        window: int = 1,
        stride: int = 1,
        bias: bool = False,
    ) -> int:
        """A convolution as its product: output pixels by output channels over window x input channels, per group.

        `input_frac`: distinct input elements over those touched; `window`: positions of a window.
        """
        group, out, inner, positions = ((size, Axis.NONE) for size in (groups, out_width, in_width, window))
        return self._add(
            name,
            "convolution",
            (x,),
            (group, pixels, out, inner, positions),
            distinct_frac=(input_frac, 1.0, 1.0),
            weight=(groups * out_width * in_width, Axis.NONE),
            bias=(groups * out_width if bias else 0, Axis.NONE),
            stride=stride,
        )

    def collective(
        self,
        kind: str,
        x: int,
        rows: Extent,
        cols: Extent,
        *,
        name: str = "",
        num_copies: int = 1,
        beside_cols: Extent = ONE,
    ) -> int:
        """A collective over one parallelism axis of a tensor of rows by cols; nothing where the axis has degree 1.

        `num_copies`: how many of the rows are copies of one token, for different experts. `beside_cols`: in context
        parallelism, columns that an all-to-all of heads moves as well: queries there, and outputs back.
        """
        assert OPERATORS[code_of(kind)].unit == Unit.NETWORK, f"{kind} is not a network operator"
        return self._add(name or kind, kind, (x,), (ONE, rows, cols, (num_copies, Axis.NONE), beside_cols))

    def block(
        self, *, repeat: int = 1, is_layer: bool = True, boundary_activation_elements: int | None = None
    ) -> Block:
        """The finished block; it hands on what its input holds unless `boundary_activation_elements` is given."""
        mark_needs(self.rows, is_input_data=self.is_input_data)
        for row in self.rows:
            row.is_fused = self.kernels.fuses(row.kind, is_layer=is_layer)
            row.is_compiled = self.kernels.compiles(row.kind, is_layer=is_layer)
        carried = (
            self.input_rows[0] * self.input_cols[0]
            if boundary_activation_elements is None
            else boundary_activation_elements
        )
        return Block(
            name=self.name,
            ops=rows_to_ops(self.rows),
            repeat=repeat,
            is_layer=is_layer,
            is_input_data=self.is_input_data,
            boundary_activation_elements=carried,
            boundary_activation_split=int(self.input_rows[1] | self.input_cols[1]),
            stops_early=self.stops_early,
        )

    def _add(
        self,
        name: str,
        kind: str,
        inputs: Sequence[int],
        extents: tuple[Extent, ...],
        *,
        weight: Extent = (0, Axis.NONE),
        **columns: object,
    ) -> int:
        assert all(0 <= i < len(self.rows) for i in inputs), f"{name} reads a row that does not exist: {inputs}"
        # only rows that were looked up have a gradient in a bag of embeddings; all else is dense
        looked_up = (extents[M][0] * extents[N][0], extents[M][1] | extents[N][1])
        is_sparse = kind == "embedding_bag" and looked_up[0] < weight[0]
        self.rows.append(
            Row(
                name=name,
                kind=kind,
                inputs=tuple(inputs),
                extents=extents,
                dtype=self.dtype,
                weight=weight,
                gradient=looked_up if is_sparse else weight,
                is_core=self.is_core,
                side_bytes_per_element=float(SIDE_BYTES_PER_ELEMENT[0, code_of(kind)]),
                **columns,  # type: ignore[arg-type]
            )
        )
        return len(self.rows) - 1
