"""Where a network is cut into blocks is bookkeeping: what it keeps for its backward pass is the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.parallel.block_memory import kept_bytes
from dovetail.workload.boundaries import kept_once
from dovetail.workload.builder import BlockBuilder
from dovetail.workload.graph import Axis, Block
from dovetail.workload.layers import whole
from dovetail.workload.vision import merged_blocks

ROWS = (64, Axis.DATA)
KINDS = ("linear", "relu", "gelu", "tanh", "dropout", "layernorm", "add")
Chain = list[tuple[str, int]]  # operators one after another, and how many columns each hands on


@st.composite
def chains(draw) -> Chain:
    width, found = 8, []
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=12)):
        width = draw(st.sampled_from((8, 16))) if kind == "linear" else width
        found.append((kind, width))
    return found


def laid(chain: Chain, in_width: int, name: str, is_input_data: bool = False) -> Block:
    build = BlockBuilder(name, "bf16", ROWS, whole(in_width), is_input_data=is_input_data)
    x = 0
    for kind, width in chain:
        if kind == "linear":
            x = build.linear(x, ROWS, whole(in_width), whole(width), name=kind)
        else:
            x = build.vector(kind, (x,), ROWS, whole(width))
        in_width = width
    return build.block()


def cut(chain: Chain, places: set[int], in_width: int = 8) -> list[Block]:
    edges = [0, *sorted(place for place in places if 0 < place < len(chain)), len(chain)]
    blocks = []
    for start, end in pairwise(edges):
        blocks.append(laid(chain[start:end], in_width, f"block_{start}"))
        in_width = chain[end - 1][1]
    return blocks


def kept(blocks: tuple[Block, ...], policy: str = "none") -> float:
    return sum(block.repeat * kept_bytes(block, policy) for block in blocks)


@given(chains(), st.sets(st.integers(1, 11)))
def test_a_network_keeps_the_same_wherever_it_is_cut(chain, places):
    assert kept(kept_once(cut(chain, places))) == pytest.approx(kept(kept_once(cut(chain, set()))))


@given(chains(), st.integers(1, 5), chains())
def test_a_block_that_repeats_keeps_what_as_many_blocks_keep(chain, repeat, behind):
    chain = [*chain, ("linear", 8)]  # hands on what it takes, so that it can follow itself
    head = laid(behind, 8, "head")
    apart = [laid(chain, 8, "layer") for _ in range(repeat)]
    assert kept(kept_once([replace(apart[0], repeat=repeat), head])) == pytest.approx(kept(kept_once([*apart, head])))
    assert kept(merged_blocks(kept_once([*apart, head]))) == pytest.approx(kept(kept_once([*apart, head])))


@given(chains(), st.sets(st.integers(1, 11)))
def test_recomputed_blocks_keep_their_inputs_marked_or_not(chain, places):
    blocks = tuple(cut(chain, places))
    assert kept(kept_once(blocks), "full") == kept(blocks, "full")
    assert sum(block.repeat for block in kept_once(blocks)) == len(blocks)
