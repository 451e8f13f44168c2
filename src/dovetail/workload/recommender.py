"""Deep learning recommendation models: embedding tables beside a dense network, then a network over both.

Tables are split over the expert axis: a device looks up its tables for every rank of its group, and an all-to-all
takes each rank the rows of its own samples. The dense networks are data-parallel.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise

from dovetail.errors import InvalidInput
from dovetail.workload.boundaries import kept_once
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Block, Graph, Rule
from dovetail.workload.layers import Sample, whole
from dovetail.workload.rows import Extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommender:
    """DLRM with features joined by concatenation, and no biases in its dense networks.

    `bottom` and `top` are layer widths, input first. One lookup a table and sample, as with one-hot features.
    """

    name: str
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    num_tables: int
    num_table_rows: int
    feature_width: int

    def __post_init__(self) -> None:
        if self.bottom[-1] != self.feature_width:
            raise InvalidInput(
                f"bottom must end in feature_width={self.feature_width}, to stand beside the tables; "
                f"got {self.bottom[-1]}",
                "bottom",
            )
        joined = (self.num_tables + 1) * self.feature_width
        if self.top[0] != joined:
            raise InvalidInput(
                f"top must begin with the joined features, ({self.num_tables} tables + 1) x {self.feature_width} = "
                f"{joined}; got {self.top[0]}",
                "top",
            )

    def forward(self, sample: Sample) -> Graph:
        if sample.seq != 1:
            raise InvalidInput(f"{self.name} reads rows, so seq must be 1; got {sample.seq}; leave seq out", "seq")
        return Graph(
            model=self.name,
            batch=sample.batch,
            tokens_per_sample=1,
            dtype=sample.dtype,
            blocks=kept_once((self._features(sample), *self._top_layers(sample), self._head(sample))),
            rules=(
                Rule(axis=Axis.EXPERT, label="num_tables", count=self.num_tables),
                Rule(axis=Axis.TENSOR, label="parts of a dense layer", count=1),
                Rule(axis=Axis.CONTEXT, label="parts of a row", count=1),
            ),
            num_kv_heads=1,
        )

    def _features(self, sample: Sample) -> Block:
        """Tables and the bottom network, which need nothing of each other: the exchange may hide behind the latter.

        Data loaders hand every device the indices of its own tables, so indices are not exchanged.
        """
        rows = _rows(sample)
        build = BlockBuilder(
            "features",
            sample.dtype,
            rows,
            whole(self.bottom[0]),
            is_input_data=True,
            kernels=sample.kernel_set,
        )
        num_elements = self.num_tables * self.num_table_rows * self.feature_width
        lookups = (self.num_tables * sample.batch, Axis.EXPERT | Axis.EXPERT_DATA)
        table = (num_elements, Axis.EXPERT)
        looked_up = build.vector("embedding_bag", (0,), lookups, whole(self.feature_width), name="tables", weight=table)
        # looked-up rows go back to the rank of their sample: the second half of what experts do
        looked_up = build.collective("combine", looked_up, rows, whole(self.num_tables * self.feature_width))
        dense = 0
        for index, (in_width, out_width) in enumerate(pairwise(self.bottom)):
            dense = _layer(build, rows, dense, in_width, out_width, f"bottom_{index}")
        build.vector("concat", (dense, looked_up), rows, whole(self.top[0]), name="join")
        return build.block(is_layer=False, boundary_activation_elements=sample.batch * self.top[0])

    def _top_layers(self, sample: Sample) -> tuple[Block, ...]:
        """All layers of the top network but the last; neighbours of one shape are one block."""
        blocks: list[Block] = []
        for (in_width, out_width), equals in groupby(pairwise(self.top[:-1])):
            index = sum(block.repeat for block in blocks)
            build = BlockBuilder(
                f"top_{index}",
                sample.dtype,
                _rows(sample),
                whole(in_width),
                kernels=sample.kernel_set,
            )
            _layer(build, _rows(sample), 0, in_width, out_width, "top")
            blocks.append(build.block(repeat=len(list(equals)), boundary_activation_elements=sample.batch * out_width))
        return tuple(blocks)

    def _head(self, sample: Sample) -> Block:
        rows, (in_width, out_width) = _rows(sample), self.top[-2:]
        build = BlockBuilder("head", sample.dtype, rows, whole(in_width), kernels=sample.kernel_set)
        x = build.linear(0, rows, whole(in_width), whole(out_width), name="click")
        x = build.vector("sigmoid", (x,), rows, whole(out_width))
        build.vector("binary_cross_entropy", (x,), rows, whole(out_width), name="loss")
        return build.block(is_layer=False, boundary_activation_elements=sample.batch * out_width)


def _rows(sample: Sample) -> Extent:
    return sample.batch, Axis.DATA


def _layer(build: BlockBuilder, rows: Extent, x: int, in_width: int, out_width: int, name: str) -> int:
    x = build.linear(x, rows, whole(in_width), whole(out_width), name=name)
    return build.vector("relu", (x,), rows, whole(out_width), name=f"{name}_relu")
