"""What changes of distributed code would gain, priced from its recording."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.step.distributed import distributed_step
from dovetail.step.distributed_advice import (
    AHEAD,
    distributed_advice,
    with_buckets,
    with_kept_parameters,
    with_narrow_gradients,
)
from dovetail.step.eager import HostPace
from dovetail.workload.dispatched import DispatchedOp, TensorMeta
from tests.unit.step.test_distributed import CLUSTER, MIB, QUICK, call, job, product, recorded

ALL = tuple(range(64))
GROUPS = frozenset({ALL})
WIDE = TensorMeta(shape=(MIB,), strides=(1,), dtype="fp32")


def on(kind: str, phase: str, num_bytes: int, waits: tuple[int, ...] = ()) -> DispatchedOp:
    return replace(call(kind, ALL, num_bytes, waits), phase=phase, inputs=(WIDE,), outputs=(WIDE,))


SHARDED = (
    on("all-gather", "forward", 512 * MIB),
    product(waits=(0,)),
    on("all-gather", "backward", 512 * MIB, (1,)),
    product(waits=(2,), phase="backward"),
    on("reduce-scatter", "backward", 1024 * MIB, (3,)),
    product(waits=(4,), phase="optimizer"),
)
REDUCED = (
    product(phase="backward"),
    on("all-reduce", "backward", 25 * MIB, (0,)),
    product(phase="backward"),
    on("all-reduce", "backward", 25 * MIB, (2,)),
    product(waits=(1, 3), phase="optimizer"),
)


def test_each_change_gains_what_the_step_without_those_operators_gains() -> None:
    now = distributed_step(job(SHARDED), CLUSTER, QUICK)
    found = {one.change.partition(" (")[0]: one for one in distributed_advice(now, CLUSTER, QUICK)}
    gathers = [one for one in now.ranks[0].collectives if one.kind == "all-gather"]
    assert set(found) == {"keep parameters from the forward to the backward pass", "reduce gradients in bf16"}
    kept = found["keep parameters from the forward to the backward pass"]
    assert kept.gain_s == pytest.approx(gathers[0].time_s / 2, rel=0.01)
    assert kept.gain_frac == pytest.approx(kept.gain_s / now.step_s)


def test_parameters_that_do_not_fit_beside_the_rest_are_not_kept() -> None:
    [one] = job(SHARDED).ranks
    small = distributed_step(job(SHARDED), CLUSTER, QUICK)
    left = int(small.memory_bytes - small.fullest.needed_bytes) - 256 * MIB
    full = replace(one, step=replace(one.step, state_bytes=left))
    now = distributed_step(replace(job(SHARDED), ranks=(full,)), CLUSTER, QUICK)
    assert now.fits
    assert not any("reshard" in one.change for one in distributed_advice(now, CLUSTER, QUICK))


def test_a_slow_host_is_advised_to_launch_ahead() -> None:
    slow = HostPace(slowdown=1000.0)
    now = distributed_step(job((product(512), product(512))), CLUSTER, slow)
    [only] = distributed_advice(now, CLUSTER, slow)
    assert only.change == AHEAD
    assert only.gain_frac > 0.9


def test_kept_parameters_leave_views_in_place_of_gathers() -> None:
    kept = with_kept_parameters(recorded(*SHARDED), GROUPS)
    assert [op.collective is None for op in kept.ops] == [False, True, True, True, False, True]
    assert len(kept.ops) == len(SHARDED)


def test_only_wide_sums_of_gradients_are_narrowed() -> None:
    ops = with_narrow_gradients(recorded(*SHARDED), GROUPS).ops
    sizes = [op.collective.num_bytes // MIB for op in ops if op.collective is not None]
    assert sizes == [512, 512, 512]
    narrow = replace(WIDE, dtype="bf16")
    again = replace(SHARDED[4], inputs=(narrow,), outputs=(narrow,))
    assert with_narrow_gradients(recorded(again), GROUPS).ops == (again,)


def test_larger_buckets_join_sums_up_to_their_size() -> None:
    joined = with_buckets(recorded(*REDUCED), GROUPS, 100 * MIB).ops
    assert joined[1].collective is None
    assert joined[3].collective is not None
    assert joined[3].collective.num_bytes == 50 * MIB
    assert with_buckets(recorded(*REDUCED), GROUPS, 40 * MIB).ops == REDUCED
