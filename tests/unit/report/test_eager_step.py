"""A step as its code runs, in words."""

from __future__ import annotations

from dataclasses import replace

from dovetail.hardware.catalog import chips
from dovetail.report.eager_step import eager_cards, eager_record, eager_tables
from dovetail.report.table import lines
from dovetail.step.eager import eager_step
from dovetail.step.eager_advice import Advice
from dovetail.workload.dispatched import DispatchedStep
from tests.unit.cost.eager.dispatched import call, dense

CHIP = chips["h200-sxm"]()


def product(*, has_tf32: bool) -> DispatchedStep:
    x = dense(4096, 4096, dtype="fp32")
    ops = (call("mm.default", (x, x), x), call("relu.default", (x,), x))
    return DispatchedStep(
        ops=ops, module_calls=(0, 0), live_bytes=(0, 0), state_bytes=0, num_parameters=1, has_tf32=has_tf32
    )


def test_products_of_fp32_are_named_by_tf32_where_they_run_in_it():
    for has_tf32, names in ((False, {"mm fp32", "relu fp32"}), (True, {"mm tf32", "relu fp32"})):
        found = eager_record(eager_step(product(has_tf32=has_tf32), CHIP), batch=1, seq=1, memory_bytes=1e9)
        assert {one["name"] for one in found["operators"]} == names


def test_a_file_and_its_line_stay_whole_on_a_line_of_their_own():
    advice = Advice(
        change="use torch.nn.functional.rms_norm instead of a norm in separate operators",
        gain_s=1e-3,
        gain_frac=0.1,
        module="model.layers.*.self_attn.q_norm",
        line="/site-packages/transformers/models/qwen3/modeling_qwen3_with_a_long_name.py:168",
    )
    found = eager_record(eager_step(product(has_tf32=True), CHIP), batch=1, seq=1, memory_bytes=1e9, advice=(advice,))
    table = eager_tables(found)[-1]
    [place] = [line.text for line in lines(table) if ".py" in line.text]
    assert place.strip().startswith("modeling_qwen3_with_a_long_name.py:168")


def test_key_figures_have_the_step_time_and_the_peak_memory():
    step = eager_step(product(has_tf32=False), CHIP)
    record = eager_record(replace(step, peak_bytes=2e9), batch=1, seq=1, memory_bytes=1e9)
    time, memory = eager_cards(record)
    assert (time.label, memory.label) == ("Step time", "Peak memory")
    assert "out of memory" in memory.note
