"""The set of kernels beside communication: names, both tables, and rows that are not understood."""

from __future__ import annotations

import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.sets import format_of, prepared
from dovetail.accuracy.sets.contention import kernel_ops
from dovetail.errors import InvalidInput


def table(columns: tuple[str, ...], *rows: tuple[str, ...]) -> Measurements:
    return Measurements(name="own", shown="own.csv", columns=columns, rows=rows, lines=tuple(range(2, 2 + len(rows))))


def test_kernels_are_read_from_their_names() -> None:
    product, bag = kernel_ops("gemm1024"), kernel_ops("embedding_bag")
    assert product is not None
    assert product.extents[0].tolist() == [1, 1024, 1024, 1024, 1]
    assert bag is not None
    assert bag.extents[0, 1:3].tolist() == [4096, 128]
    for name in (
        "add64x32",
        "copy64x32",
        "layernorm64x32",
        "attention1x2x64x32",
        "linear8x16x32",
        "attention_backward1x2x64x32",
        "conv8x16x14x32x3",
        "adamw4096",
        "embedding64x32",
        "cross_entropy64x32",
    ):
        assert kernel_ops(name) is not None, name
    assert kernel_ops("sort64") is None


def test_rows_of_unknown_kernels_are_skipped_with_a_word() -> None:
    rows = table(("compute", "comm_blocks", "slowdown"), ("gemm2048", "0", "1.0"), ("sort64", "4", "1.1"))
    [found] = prepared(rows, TableContext())
    assert found.skipped == (("rows of sort64, which is not understood", 1),)
    assert found.predicted(found.chip).tolist() == [1.0]


def test_kernels_from_a_graph_do_not_wait_for_the_host() -> None:
    columns = ("compute", "queue", "comm_blocks", "slowdown")
    rows = table(columns, ("gemm1024", "stream", "16", "1.0"), ("gemm1024", "graph", "16", "1.74"))
    [found] = prepared(rows, TableContext())
    stream, graph = found.predicted(found.chip).tolist()
    assert stream == 1.0
    assert graph == pytest.approx(1.74, rel=0.1)


def test_a_row_among_others_is_slowed_as_it_is_alone() -> None:
    columns = ("compute", "queue", "comm_blocks", "slowdown")
    kernels = ("gemm1024", "adamw4096", "attention1x2x64x32", "layernorm4096x4096", "gemm64x32x16", "embedding_bag")
    settings = (("graph", "32"), ("stream", "8"), ("graph", "8"))
    rows = [(kernel, *setting, "1.0") for setting in settings for kernel in kernels]
    [together] = prepared(table(columns, *rows), TableContext())
    alone = [prepared(table(columns, row), TableContext())[0] for row in rows]
    found = together.predicted(together.chip).tolist()
    assert found == [one.predicted(one.chip)[0] for one in alone]
    assert len(set(found)) > len(kernels)


def test_copies_are_told_by_their_columns() -> None:
    columns = ("compute", "direction", "copy_alone_gbps", "slowdown")
    rows = table(columns, ("gemm8192", "h2d", "55.0", "1.01"))
    assert format_of(rows) == "contention-copies"
    [found] = prepared(rows, TableContext())
    assert found.compared()[0].what.endswith("h2d")


def test_a_table_without_a_known_kernel_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no row of this table is a kernel"):
        prepared(table(("compute", "comm_blocks", "slowdown"), ("sort64", "4", "1.1")), TableContext())
