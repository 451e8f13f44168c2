from __future__ import annotations

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

from dovetail.cost import costs as module
from dovetail.cost.columns import chip_columns, grouped, varied
from dovetail.cost.costs import cost_table, op_costs
from dovetail.cost.op_cost import OpCosts, Setting
from dovetail.hardware.catalog import chips
from dovetail.units import MICRO
from dovetail.workload.graph import BoolArray, Ops, Phase
from dovetail.workload.layers import Sample
from dovetail.workload.models import models
from dovetail.workload.operators import dtype_code
from dovetail.workload.optimizer import Precision
from dovetail.workload.training import training_graph
from tests.unit.cost.paper import close, limit, op, ops_of, paper, time_s

CATALOGUE = [entry() for _, entry in chips.items()]
CAPABLE = [chip for chip in CATALOGUE if "bf16" in dict(chip.tensor.rates)]
OTHERS = [chip for chip in CATALOGUE if chip not in CAPABLE]
NAMES = ("llama3-8b", "resnet-50", "gnmt", "dlrm", "mixtral-8x7b", "bert-base", "mobilenet-v3-large")
FIELDS = tuple(field.name for field in fields(OpCosts))
SAME = 1e-12  # style: a tolerance
H200 = chips["h200-sxm"]()


@cache
def blocks_of(name: str) -> tuple[Ops, ...]:
    """Two blocks of a model in training, of every kind of operator in every phase the largest and the smallest."""
    model = models[name]()
    graph = training_graph(model.forward(Sample(batch=8, seq=min(model.seq, 1024), dtype="bf16")), Precision())
    blocks = sorted((block.ops for block in graph.blocks), key=len, reverse=True)
    return tuple(ops.where(outermost(ops)) for ops in blocks[:2])


def outermost(ops: Ops) -> BoolArray:
    order = np.lexsort((ops.flop + ops.read_bytes, ops.phase, ops.kind))
    key = (ops.kind * 100 + ops.phase)[order]
    ends = np.diff(key, prepend=-1, append=-1) != 0
    mask = np.zeros(len(ops), dtype=np.bool_)
    mask[order[ends[:-1] | ends[1:]]] = True
    return mask


def in_dtype(ops: Ops, dtype: str) -> Ops:
    is_bf16 = ops.math == dtype_code("bf16")
    return replace(ops, math=np.where(is_bf16, dtype_code(dtype), ops.math))


@pytest.mark.parametrize(("name", "setting"), [(name, list(Setting)[index % 3]) for index, name in enumerate(NAMES)])
def test_a_table_of_chips_costs_what_each_chip_costs(name, setting):
    num_compared = 0
    for ops in blocks_of(name):
        assert {Phase.FORWARD, Phase.WEIGHT_GRAD, Phase.UPDATE} <= set(ops.phase.tolist())
        for dtype, able in (("bf16", CAPABLE), ("fp16", OTHERS)):
            typed = in_dtype(ops, dtype)
            for places, columns in grouped(able):
                table = cost_table(typed, columns, setting)
                for column, place in enumerate(places):
                    one = op_costs(typed, able[place], setting)
                    for field in FIELDS:
                        many, alone = getattr(table, field)[:, column], getattr(one, field)
                        assert np.allclose(many, alone, rtol=SAME, atol=0.0), (field, able[place].name)
                    num_compared += 1
    assert num_compared == len(CATALOGUE) * len(blocks_of(name))


@pytest.mark.parametrize("name", ["llama3-8b", "resnet-50"])
def test_chunks_of_chips_change_nothing(name, monkeypatch):
    [ops, *_] = blocks_of(name)
    units = np.arange(1.0, 24.0)
    bandwidth = np.linspace(0.5, 2, 23) * H200.hbm.bandwidth_bytes_per_s
    table = varied(H200, 23, num_units=units, hbm_bytes_per_s=bandwidth)
    whole = cost_table(ops, table)
    monkeypatch.setattr(module, "CHIP_BATCH", 5)
    chunked = cost_table(ops, table)
    for field in FIELDS:
        assert np.array_equal(getattr(whole, field), getattr(chunked, field)), field


def test_a_table_is_rows_by_chips():
    [ops, *_] = blocks_of("llama3-8b")
    table = cost_table(ops, varied(H200, 3))
    for field in FIELDS:
        assert getattr(table, field).shape == (len(ops), 3)
        assert getattr(op_costs(ops, H200), field).shape == (len(ops),)


def test_a_varied_column_is_the_chip_with_that_figure():
    [ops, *_] = blocks_of("bert-base")
    faster = replace(H200, hbm=replace(H200.hbm, bandwidth_bytes_per_s=2 * H200.hbm.bandwidth_bytes_per_s))
    table = cost_table(ops, varied(H200, 2, hbm_bytes_per_s=np.array([1.0, 2.0]) * H200.hbm.bandwidth_bytes_per_s))
    assert np.allclose(table.compute_s[:, 0], op_costs(ops, H200).compute_s, rtol=SAME)
    assert np.allclose(table.compute_s[:, 1], op_costs(ops, faster).compute_s, rtol=SAME)


def test_a_graph_without_rows_costs_nothing():
    ops = ops_of()
    assert op_costs(ops, H200).compute_s.shape == (0,)
    assert cost_table(ops, chip_columns((H200,))).compute_s.shape == (0, 1)


def test_the_total_of_some_rows_is_their_sum():
    found = op_costs(ops_of(op("add", m=64, n=64), op("linear", m=64, n=64, k=64), op("relu", m=9)), H200)
    total = found.total(np.array([True, False, True]))
    for field in fields(total):
        column = getattr(found, field.name)
        assert getattr(total, field.name) == close(float(column[0] + column[2]))
    assert found.total(np.zeros(3, dtype=np.bool_)).compute_s == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_alone_is_never_quicker_than_its_kernels_nor_they_than_in_a_stream(name):
    for ops in blocks_of(name):
        stream, kernel, alone = (op_costs(ops, H200, setting).compute_s for setting in Setting)
        assert np.all(alone >= kernel)
        assert np.all(kernel >= stream * (1 - SAME))  # the power limit is told of a kernel again and again
        assert np.all(stream >= 0)


def test_alone_an_idle_queue_and_cold_caches_are_paid_once():
    chip = paper(launch_s=MICRO, alone_s=5 * MICRO)
    row = op("silu_mul", m=8, n=8)
    assert time_s(row, chip) == time_s(row, chip, Setting.KERNEL)
    assert time_s(row, chip) == pytest.approx(2 * MICRO)
    assert time_s(row, chip, Setting.ALONE) == pytest.approx(7 * MICRO)


@pytest.mark.parametrize(
    ("row", "chip", "named"),
    [
        (op("linear", m=32, n=8, k=16), paper(), "tensor"),
        (op("linear", m=8, n=8, k=16), paper(), "tensor"),  # three of four units idle, and the one is as fast as it is
        (op("linear", m=8, n=8, k=16), paper(tile_step_s=1.0), "latency"),
        (op("linear", m=8, n=8, k=16), paper(sram_bytes_per_s=1000.0), "sram"),
        (op("gelu", m=8, n=8), paper(vector_flop_per_s=1.0), "vector"),
        (op("gelu", m=8, n=8), paper(hbm_bytes_per_s=1.0), "hbm"),
        (op("layernorm", m=8, n=8), paper(wait_s=1.0), "latency"),
        (op("layernorm", m=8, n=8), paper(launch_s=1.0), "launch"),
        (op("attention", b=2, m=128, n=128, k=64, v=64), paper(), "tensor"),
    ],
)
def test_an_operator_is_limited_by_what_gains_it_most(row, chip, named):
    assert limit(row, chip) == named


def test_the_wait_for_a_launch_grows_when_an_operator_is_alone():
    chip = paper(hbm_bytes_per_s=8 * 8 * 4 / MICRO, launch_s=MICRO / 2, alone_s=MICRO)
    row = op("relu", m=8, n=8)
    assert limit(row, chip) == "hbm"
    assert limit(row, chip, Setting.ALONE) == "launch"
