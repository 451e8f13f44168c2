"""Whole steps of a trace: how long each took, and what ran on the device within it."""

from __future__ import annotations

import pytest

from dovetail.files.profiles.profile import load_profile, names_trace
from tests.traces_of_profilers import kernel, op, trace


def step(number: int, begin: float, took: float) -> dict[str, object]:
    event = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 9, "tid": 1}
    return event | {"ts": begin, "dur": took, "args": {"External id": 1000 + number}}


def load(tmp_path, *events):
    file = tmp_path / "trace.json"
    file.write_text(trace(*events))
    assert names_trace(file)
    return load_profile(file, needs_operators=False)


def test_a_step_lasts_until_the_next_begins_and_the_last_until_its_last_kernel_ends(tmp_path):
    events = (step(3, 0, 90), step(4, 100, 90), kernel("gemm", 50, 1, 10), kernel("gemm", 50, 1, 170))
    found = load(tmp_path, *events).steps
    assert [one.number for one in found] == [3, 4]
    assert [one.step_s for one in found] == pytest.approx([100e-6, 120e-6])


def test_collectives_beside_other_kernels_are_hidden_and_the_rest_exposed(tmp_path):
    events = (
        step(1, 0, 100),
        kernel("gemm", 40, 1, 10),
        kernel("ncclDevKernel_AllReduce", 50, 2, 30),
        kernel("gemm", 10, 1, 45),
    )
    [one] = load(tmp_path, *events).steps
    assert one.compute_s == pytest.approx(45e-6)  # 10 to 50 and 45 to 55
    assert one.collective_s == pytest.approx(50e-6)
    assert one.exposed_s == pytest.approx(25e-6)  # 55 to 80
    assert one.idle_s == pytest.approx(30e-6)


def test_kernels_that_straddle_two_steps_count_in_each_for_their_time(tmp_path):
    events = (step(1, 0, 100), step(2, 100, 100), kernel("gemm", 60, 1, 70))
    assert [one.compute_s for one in load(tmp_path, *events).steps] == pytest.approx([30e-6, 30e-6])


def test_a_trace_that_marks_no_step_has_none(tmp_path):
    events = (op("aten::mm", 0, 10, 1, [64, 32], [32, 16]), kernel("gemm", 5, 1, 2))
    assert load(tmp_path, *events).steps == ()
