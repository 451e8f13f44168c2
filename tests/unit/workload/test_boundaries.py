from __future__ import annotations

import numpy as np

from dovetail.parallel.block_memory import kept_bytes
from dovetail.parallel.frameworks import frameworks
from dovetail.workload.boundaries import kept_once
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Block, Need
from dovetail.workload.layers import whole
from dovetail.workload.optimizer import Precision
from tests.device_memory import block_memory

ROWS = (4, Axis.DATA)
TENSOR_BYTES = 4 * 8 * 2.0  # rows by columns in bf16


def layer(*kinds: str, repeat: int = 1) -> Block:
    build = BlockBuilder("layer", "bf16", ROWS, whole(8))
    x = 0
    for kind in kinds:
        is_product = kind == "linear"
        x = (
            build.linear(x, ROWS, whole(8), whole(8), name=kind)
            if is_product
            else build.vector(kind, (x,), ROWS, whole(8))
        )
    return build.block(repeat=repeat)


def kept(blocks: tuple[Block, ...]) -> float:
    return sum(block.repeat * kept_bytes(block, "none") for block in blocks)


def test_an_output_that_its_maker_and_its_reader_keep_is_counted_once():
    blocks = kept_once([layer("linear", "relu"), layer("linear", "relu"), layer("linear")])
    assert kept(blocks) == 3 * TENSOR_BYTES
    assert [bool(block.ops.need[-1] & Need.BY_NEXT) for block in blocks] == [True, True, False]


def test_an_output_that_only_one_of_them_keeps_stays_as_it_was():
    blocks = [layer("linear", "relu"), layer("dropout", "linear"), layer("linear", "add"), layer("gelu", "linear")]
    assert kept_once(blocks) == tuple(blocks)


def test_the_last_repeat_stands_apart_where_what_follows_keeps_another_thing():
    blocks = kept_once([layer("linear", "relu", repeat=3), layer("dropout", "linear")])
    assert [(block.name, block.repeat) for block in blocks] == [("layer", 2), ("layer_last", 1), ("layer", 1)]
    assert kept(blocks[:2]) == 4 * TENSOR_BYTES  # three inputs, and the very last output


def test_a_recomputed_block_forms_again_what_the_next_one_keeps():
    marked, plain = kept_once([layer("linear", "relu"), layer("linear")])[0], layer("linear", "relu")
    one = {axis: np.array([1]) for axis in Axis}
    found = [block_memory(block, "full", Precision(), frameworks["plain"], one) for block in (marked, plain)]
    assert found[0].passing_bytes == found[1].passing_bytes
    assert found[0].kept_bytes == found[1].kept_bytes == TENSOR_BYTES
