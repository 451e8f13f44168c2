from __future__ import annotations

import pytest

from dovetail.accuracy.sets.ceilings import ceiling_ops


@pytest.mark.parametrize(("kind", "size"), [("copy", "64MiB"), ("add", "1024MiB"), ("gemm_bf16", "8192")])
def test_a_row_is_a_buffer_or_a_square_product(kind, size):
    assert ceiling_ops(kind, size) is not None


@pytest.mark.parametrize(
    ("kind", "size"), [("copy", f"{10**30}MiB"), ("gemm_bf16", str(10**30)), ("gemm_bf16", "²"), ("gemm_bf16", "")]
)
def test_a_size_that_no_card_holds_is_no_such_row(kind, size):
    assert ceiling_ops(kind, size) is None
