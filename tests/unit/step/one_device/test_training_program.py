"""A device's list of work: what rows take of a chip, when gradients go out, and who waits for what."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dovetail.comm.torus import Work
from dovetail.cost.costs import op_costs
from dovetail.hardware.catalog import chips
from dovetail.step.one_device.shared_program import data_parallel, fully_sharded, tensor_parallel
from dovetail.step.one_device.training_program import (
    Item,
    Program,
    Row,
    _backward,
    _gradient_bytes,
    _with_all_to_all,
    chip_share,
    rows_of,
)
from dovetail.workload.graph import Graph, Phase
from dovetail.workload.models import models
from dovetail.workload.workload import Workload

CHIP = chips["h100-sxm"]()


@cache
def workload(num_layers: int = 3) -> Workload:
    model = models["gpt2-345m"]()
    short = replace(model, architecture=replace(model.architecture, num_layers=num_layers))  # type: ignore[type-var]
    return Workload(model=short, global_batch=1, seq=1024, kernels="fused")


@cache
def graph() -> Graph:
    return workload().training_graph()


def test_a_share_of_a_chip_has_so_many_cores_and_so_much_bandwidth():
    half = chip_share(CHIP, 1e12, 66)
    assert half.hbm.bandwidth_bytes_per_s == 1e12
    assert half.tensor.num_units == half.vector.num_units == 66
    assert half.vector.peak_flop_per_s == pytest.approx(CHIP.vector.peak_flop_per_s / 2)
    for (dtype, rate), (whole_dtype, whole) in zip(half.tensor.rates, CHIP.tensor.rates, strict=True):
        assert dtype == whole_dtype
        assert rate == pytest.approx(whole / 2)


def test_rows_take_of_hbm_and_of_cores_what_their_time_says_and_updates_are_no_rows():
    full_bytes_per_s = CHIP.hbm.bandwidth_bytes_per_s * CHIP.calibration.hbm_frac
    for block in graph().blocks:
        costs = op_costs(block.ops, CHIP)
        running = np.flatnonzero(np.isin(block.ops.phase, (Phase.FORWARD, Phase.INPUT_GRAD, Phase.WEIGHT_GRAD)))
        rows = rows_of(block.ops, CHIP)
        assert [row.name for row in rows] == [block.ops.names[i] for i in running]
        assert [row.phase for row in rows] == block.ops.phase[running].tolist()
        for row, i in zip(rows, running, strict=True):
            assert row.compute_s == costs.compute_s[i]
            hbm_s = min(costs.hbm_bytes[i] / full_bytes_per_s, row.compute_s)
            assert row.hbm_frac * row.compute_s == pytest.approx(hbm_s)
            assert row.core_frac * row.compute_s == pytest.approx(min(costs.clocked_s[i], row.compute_s))
        assert any(row.hbm_frac < 1 for row in rows)


def row(name: str, phase: Phase = Phase.INPUT_GRAD) -> Row:
    return Row(name=name, phase=int(phase), compute_s=1.0, hbm_frac=0.5, core_frac=0.25, slowdowns=((2, 1.5),))


def test_a_gradient_goes_out_after_the_last_row_that_works_on_it():
    rows = [row("b:dx"), row("b:dw"), row("add:dx"), row("a:dw"), row("a:dx")]
    items = _backward("layer.0", rows, {"a", "b"})
    assert [item.name for item in items] == [f"layer.0/{one.name}" for one in rows]
    assert [item.issues for item in items] == ["", "layer.0/b", "", "", "layer.0/a"]
    assert {(item.hbm_frac, item.core_frac, item.slowdowns) for item in items} == {(0.5, 0.25, ((2, 1.5),))}


def test_gradients_are_two_bytes_for_every_weight_and_bias_that_is_not_tied():
    total = 0.0
    for block in graph().blocks:
        everything, products = (_gradient_bytes(block.ops, counts) for counts in (True, False))
        assert set(products) < set(everything)
        assert all(products[name] <= everything[name] for name in products)
        total += block.repeat * sum(everything.values())
    assert total == 2 * graph().num_parameters


def test_looked_up_rows_are_exchanged_between_lookup_and_join_each_way():
    names = ("bottom", "tables", "join", "top")
    forward = tuple(Item(name=f"x.0/{name}", compute_s=1.0, waits="own") for name in names)
    backward = tuple(
        Item(name=f"x.0/{name}", compute_s=1.0, issues="own") for name in ("top:dx", "join:dx", "tables:dw")
    )
    made = _with_all_to_all(Program(forward=forward, backward=backward, gradient_bytes=(), all_to_all_bytes=8.0))
    assert [(item.waits, item.issues) for item in made.forward] == [
        ("own", ""), ("own", "all-to-all"), ("all-to-all", ""), ("own", ""),
    ]  # fmt: skip
    assert [(item.waits, item.issues) for item in made.backward] == [
        ("", "own"), ("", "all-to-all:dx"), ("all-to-all:dx", "own"),
    ]  # fmt: skip
    shared = data_parallel(replace(made, gradient_bytes=(("own", 4.0),)))
    assert shared.payloads == {
        "own": (Work.ALL_REDUCE, 4.0), "all-to-all": (Work.ALL_TO_ALL, 8.0), "all-to-all:dx": (Work.ALL_TO_ALL, 8.0),
    }  # fmt: skip
    assert [step.waits for step in shared.steps[:3]] == [("own",), ("own",), ("all-to-all",)]
    assert made.scaled(3.0).compute_s == 3 * made.compute_s == 21.0


def test_zero_3_gathers_a_block_ahead_and_the_turning_block_once():
    """Five blocks there and back: the sixth visit finds its block gathered, and gathers go out two visits ahead."""
    made = fully_sharded(workload(), CHIP)
    blocks = graph().blocks_in_order
    assert len(list(blocks)) == 5
    gathered = [name for name, (work, _) in made.payloads.items() if work is Work.ALL_GATHER]
    assert gathered == [f"gather.{visit}" for visit in range(10) if visit != 5]
    scattered = [name for name, (work, _) in made.payloads.items() if work is Work.REDUCE_SCATTER]
    assert scattered == [f"scatter.{index}" for index in (4, 3, 2, 1, 0)]
    for visit, index in enumerate((0, 1, 2, 3, 4, 4, 3, 2, 1, 0)):
        if visit != 5:
            assert made.payloads[f"gather.{visit}"][1] == made.payloads[f"scatter.{index}"][1]
    told = [(step.waits, step.issues) for step in made.steps if step.waits or step.issues]
    waits = [waits for waits, _ in told if waits]
    assert waits[:-1] == [(name,) for name in gathered]
    assert waits[-1] == tuple(scattered)
    issues = [issues for _, issues in told if issues]
    forward = [("gather.2",), ("gather.3",), ("gather.4",), ("gather.6",)]
    there = [
        ("scatter.4", "gather.7"),
        ("scatter.3", "gather.8"),
        ("scatter.2", "gather.9"),
        ("scatter.1",),
        ("scatter.0",),
    ]
    assert issues == [*forward, *there, ("gather.0", "gather.1")]


def test_tensor_parallel_halves_exchange_in_turns():
    made = tensor_parallel(workload(), CHIP, 4)
    names = list(made.payloads)
    num_segments = 1 + max(int(name.split(".")[1]) for name in names)
    for index in range(num_segments):
        halves = [[name for name in names if name.startswith(f"exchange.{index}.{half}.")] for half in (0, 1)]
        assert len(halves[0]) == len(halves[1]) >= 1
        assert [made.payloads[name] for name in halves[0]] == [made.payloads[name] for name in halves[1]]
    at = {name: place for place, step in enumerate(made.steps) for name in step.issues}
    due = {name: place for place, step in enumerate(made.steps) for name in step.waits}
    for name in names:  # while one half exchanges, the other computes: its segment lies between
        assert due[name] > at[name] + 1 or due[name] == len(made.steps) - 1
    alone = [one for block in graph().blocks_in_order for one in rows_of(block.ops, CHIP)]
    assert sum(step.compute_s for step in made.steps) < 2 * sum(one.compute_s for one in alone)
