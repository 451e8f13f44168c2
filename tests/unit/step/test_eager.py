"""A step as eager PyTorch runs it: a kernel starts behind the one before it, and behind its launch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.errors import InvalidInput
from dovetail.hardware.catalog import chips
from dovetail.step.eager import HostPace, eager_step, outside_evidence, recomputed_from, step_memory
from dovetail.workload.dispatched import BACKWARD, DispatchedOp, DispatchedStep, TensorMeta

CHIP = chips["h200-sxm"]()
MIB = 2**20


def tensor(*shape: int, dtype: str = "bf16") -> TensorMeta:
    strides, size = [], 1
    for side in reversed(shape):
        strides.append(size)
        size *= side
    return TensorMeta(shape=shape, strides=tuple(reversed(strides)), dtype=dtype)


def add(num: int, phase: str = "forward") -> DispatchedOp:
    one = tensor(num)
    arguments = (("alpha", 1),)
    return DispatchedOp(name="aten.add.Tensor", inputs=(one, one), outputs=(one,), arguments=arguments, phase=phase)


def view(num: int) -> DispatchedOp:
    arguments = (("size", (num,)),)
    return DispatchedOp(name="aten.view.default", inputs=(tensor(num),), outputs=(tensor(num),), arguments=arguments)


READ = DispatchedOp(name="aten._local_scalar_dense.default", inputs=(tensor(1),), outputs=())


def step(*ops: DispatchedOp, calls: int = 0) -> DispatchedStep:
    return DispatchedStep(
        ops=ops,
        module_calls=(calls,) * len(ops),
        live_bytes=(MIB,) * len(ops),
        state_bytes=MIB,
        num_parameters=1,
    )


def test_small_kernels_take_the_pace_of_the_host_and_large_ones_that_of_the_device() -> None:
    small, large = (eager_step(step(*(add(num) for _ in range(50))), CHIP) for num in (1024, 64 * MIB))
    assert small.step_s == pytest.approx(50 * HostPace().forward_kernel_s, rel=0.1)
    assert small.host_bound_frac > 0.8
    assert large.step_s == pytest.approx(float(large.operator_s.sum()) + HostPace().forward_kernel_s)
    assert large.host_bound_frac < 0.01


def test_twice_as_slow_a_host_doubles_a_step_that_waits_for_it() -> None:
    ops = step(*(add(1024) for _ in range(50)))
    once, twice = (eager_step(ops, CHIP, HostPace(slowdown=times)).step_s for times in (1.0, 2.0))
    slow = replace(CHIP, calibration=replace(CHIP.calibration, host_slowdown=2.0))
    assert eager_step(ops, slow).step_s == twice
    assert eager_step(ops, slow, HostPace(slowdown=0.5)).step_s == once
    assert twice == pytest.approx(2 * once, rel=0.05)
    with pytest.raises(InvalidInput, match="positive number of times"):
        HostPace(slowdown=0.0)


def test_an_update_tensor_by_tensor_is_called_from_python_and_one_by_lists_is_launched_alone() -> None:
    host, plain = HostPace(), add(1024, "optimizer")
    lists = replace(plain, name="aten._foreach_add.List")
    assert host.operator_s(lists, 1) == host.more_kernels_s
    assert host.operator_s(plain, 1) == pytest.approx(host.forward_view_s + host.more_kernels_s)
    assert host.operator_s(plain, 0) == 0


def test_views_and_modules_cost_the_host_alone() -> None:
    plain, viewed = eager_step(step(add(1024)), CHIP), eager_step(step(view(1024), add(1024)), CHIP)
    assert viewed.step_s - plain.step_s == pytest.approx(HostPace().forward_view_s)
    called = eager_step(step(add(1024), calls=3), CHIP)
    assert called.step_s - plain.step_s == pytest.approx(3 * HostPace().module_s)


def test_a_number_that_is_read_makes_the_host_wait_for_the_device() -> None:
    big, after = add(256 * MIB), [add(1024) for _ in range(20)]
    without, read = eager_step(step(big, *after), CHIP), eager_step(step(big, READ, *after), CHIP)
    assert read.step_s > without.step_s + 15 * HostPace().forward_kernel_s


def test_phases_sum_to_the_step() -> None:
    found = eager_step(step(add(4 * MIB), add(8 * MIB, BACKWARD)), CHIP)
    assert sum(phase_s for _, phase_s in found.phase_s) == pytest.approx(found.step_s)
    assert dict(found.phase_s)["backward"] > dict(found.phase_s)["forward"] > dict(found.phase_s)["optimizer"] == 0


def test_memory_is_what_is_live_and_the_workspaces_of_two_threads() -> None:
    plain = step(add(1024))
    assert step_memory(plain).peak_bytes == MIB + 64 * MIB
    walked = replace(plain, state_allocations=(30 * MIB,), allocations=(40 * MIB, -1, 20 * MIB, -2))
    assert step_memory(walked).peak_bytes == 64 * MIB + 30 * MIB + 40 * MIB


def layers(*, is_again: bool) -> DispatchedStep:
    """Two layers of two small operators and a gradient each; the backward pass may call their modules again."""
    names = ("first", "second")
    forward = [replace(op, module=name) for name in names for op in (add(1024), view(1024), add(2048))]
    backward, calls = [], [1, 0, 0] * len(names)
    for name in reversed(names):
        if is_again:
            backward += [replace(op, module=name, phase=BACKWARD) for op in (add(1024), view(1024))]
            calls += [1, 0]
        backward.append(replace(add(512, BACKWARD), module=name))
        calls.append(0)
    return replace(step(*forward, *backward), module_calls=tuple(calls))


def test_operators_that_run_again_are_found_behind_a_call_of_their_module() -> None:
    assert recomputed_from(layers(is_again=False)) == {}
    assert recomputed_from(layers(is_again=True)) == {6: 3, 7: 4, 9: 0, 10: 1}


def test_recomputed_operators_pay_the_forward_pace_and_hooks_of_what_is_saved() -> None:
    host = HostPace()
    plain, again = (eager_step(layers(is_again=is_again), CHIP) for is_again in (False, True))
    each_s = host.forward_kernel_s + host.forward_view_s + host.module_s
    hooks_s = 3 * 2 * host.saved_tensor_s  # packed, packed again and unpacked; two tensors that an addition reads
    assert again.step_s - plain.step_s == pytest.approx(2 * (each_s + hooks_s), rel=0.02)
    twice = eager_step(layers(is_again=True), CHIP, HostPace(slowdown=2.0))
    assert twice.step_s == pytest.approx(2 * again.step_s, rel=0.05)


def test_steps_on_chips_that_no_kernel_was_measured_on_say_so():
    assert outside_evidence("h200-sxm") == ()
    assert "only steps in fp32 were compared" in outside_evidence("a100-40gb-sxm")[0]
    assert outside_evidence("mi300x")[0].startswith("outside the evidence: kernels were fitted on h200-sxm")
