"""Charts of one step: what is drawn is what the outcome has."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from dovetail.evaluate import Outcome, evaluate
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.report.charts.elasticities import elasticities
from dovetail.report.charts.memory_time import memory_over_time, memory_track
from dovetail.report.charts.network_use import network_use
from dovetail.report.charts.pipeline import MOST_PASSES, PASS_PX, pipeline_timeline
from dovetail.report.charts.roofline import family_of, operators_roofline, roofs_of
from dovetail.report.charts.stage_memory import memory_by_stage
from dovetail.report.charts.stage_time import time_by_stage
from dovetail.report.charts.topology import step_topology
from dovetail.report.labels import percent
from dovetail.step.step_events import step_events
from dovetail.units import GIBI
from dovetail.workload.models import models
from dovetail.workload.operators import OPERATORS, Unit
from dovetail.workload.workload import Workload
from tests.chart_checks import check_chart, trace_named


def bars(traces, label):
    """By name, what a bar of this label is made of."""
    return {
        trace["name"]: value for trace in traces for y, value in zip(trace["y"], trace["x"], strict=True) if y == label
    }


def test_the_parts_of_every_stage_add_up_to_the_step(outcome):
    traces = check_chart(time_by_stage(outcome))
    labels = traces[0]["y"]
    assert labels == ["stage 0", "stages 1-2", "stage 3"]
    for label in labels:
        assert sum(bars(traces, label).values()) == pytest.approx(outcome.step.step_s)


def test_the_slowest_stage_has_what_the_step_says_of_it(outcome):
    step, found = outcome.step, bars(time_by_stage(outcome).figure["data"], f"stage {outcome.step.slowest_stage}")
    assert found["compute"] + found["recompute"] == pytest.approx(step.compute_s)
    assert found["recompute"] == pytest.approx(step.recompute_s)
    assert found["tensor parallel"] == pytest.approx(step.comm[0].exposed_s)
    assert found["bubble and waiting"] == pytest.approx(step.bubble_s, rel=0.05)


def test_the_caption_counts_recompute_as_the_table_of_the_step_does(outcome):
    step = outcome.step
    assert step.recompute_s > 0
    share = percent(step.compute_s / step.step_s)
    assert f"compute takes {share} ({percent(step.recompute_s / step.step_s)} of the step is recompute)" in (
        time_by_stage(outcome).alt
    )


def test_memory_is_stacked_to_what_a_device_needs_and_the_limit_is_drawn(outcome):
    chart = memory_by_stage(outcome)
    traces = check_chart(chart)
    totals = [sum(parts) for parts in zip(*(trace["x"] for trace in traces), strict=True)]
    assert max(totals) == pytest.approx(outcome.memory.need_bytes / GIBI)
    [line] = chart.figure["layout"]["shapes"]
    assert line["x0"] == line["x1"] == pytest.approx(outcome.memory.limit_bytes / GIBI)
    assert "to spare" in chart.alt


def test_what_does_not_fit_reaches_beyond_the_limit(infeasible):
    chart = memory_by_stage(infeasible)
    check_chart(chart)
    assert "too much" in chart.alt
    low, high = chart.figure["layout"]["xaxis"]["range"]
    assert low == 0
    assert high > chart.figure["layout"]["shapes"][0]["x0"] * 1.04


def test_stages_with_other_memory_have_limits_of_their_own(outcome):
    limits = (80 * GIBI, 80 * GIBI, 80 * GIBI, 40 * GIBI)
    mixed = replace(outcome, memory=replace(outcome.memory, limits_bytes=limits))
    shapes = memory_by_stage(mixed).figure["layout"]["shapes"]
    assert [shape["x0"] for shape in shapes] == pytest.approx([80.0, 80.0, 80.0, 40.0])
    assert [shape["showlegend"] for shape in shapes] == [True, False, False, False]


def test_every_resource_has_a_bar_the_most_wanted_on_top(outcome):
    [trace] = check_chart(elasticities(outcome))
    assert trace["x"] == [one.gain_frac for one in outcome.elasticities]
    assert trace["y"][0] == outcome.elasticities[0].resource


def test_operators_lie_under_the_roofs_of_their_chip(outcome):
    chart = operators_roofline(outcome)
    traces = check_chart(chart)
    roofs = roofs_of(outcome.cluster.chip, "bf16")
    dots = [trace for trace in traces if trace["mode"] == "markers"]
    assert {trace["name"] for trace in dots} == {
        "matrix products", "attention", "norms, softmax and loss", "element by element", "update",
    }  # fmt: skip
    for trace in dots:
        for flop_per_byte, flop_per_s in zip(trace["x"], trace["y"], strict=True):
            peak = max(rate for _, rate in roofs.peaks)
            assert flop_per_s <= 1.0001 * min(peak, flop_per_byte * roofs.hbm_bytes_per_s)


def test_every_operator_has_a_family():
    working = [operator for operator in OPERATORS if operator.unit in (Unit.TENSOR, Unit.VECTOR)]
    families = {operator.name: family_of(operator.name) for operator in working}
    assert families["linear"] == families["convolution"] == "matrix products"
    assert families["attention"] == "attention"
    assert families["fused_cross_entropy"] == families["rmsnorm"] == "norms, softmax and loss"
    assert family_of("add", "update") == "update"


def test_every_pass_of_every_stage_is_in_the_timeline(outcome):
    [chart] = pipeline_timeline(outcome)
    check_chart(chart)
    num_each = outcome.num_microbatches * outcome.plan.pipeline_parallel
    for name in ("forward", "backward"):
        trace = trace_named(chart, name)
        assert len(trace["x"]) == num_each
        ends = [base + lasts for base, lasts in zip(trace["base"], trace["x"], strict=True)]
        assert max(ends) <= outcome.step.step_s


def test_passes_of_one_stage_do_not_lie_on_each_other(outcome):
    [chart] = pipeline_timeline(outcome)
    spans = [
        (y, base, base + lasts)
        for trace in chart.figure["data"]
        if trace["width"] == PASS_PX
        for y, base, lasts in zip(trace["y"], trace["base"], trace["x"], strict=True)
    ]
    for stage in {y for y, *_ in spans}:
        own = sorted((begin, end) for y, begin, end in spans if y == stage)
        assert all(before[1] <= after[0] + 1e-9 for before, after in itertools.pairwise(own))
        assert own[0][0] == 0.0
        assert own[-1][1] == pytest.approx(outcome.step.step_s, rel=0.01)  # updates of stages differ
        assert sum(end - begin for begin, end in own) == pytest.approx(outcome.step.step_s, rel=0.01)  # no gap is left


def test_passes_have_the_numbers_of_their_microbatches_and_communication_its_lanes(outcome):
    [chart] = pipeline_timeline(outcome)
    numbers = set(map(str, range(outcome.num_microbatches)))
    assert set(trace_named(chart, "forward")["text"]) == numbers
    lanes = {trace["name"] for trace in chart.figure["data"] if trace["width"] < PASS_PX}
    assert lanes == {"tensor parallel", "data parallel", "pipeline transfers"}
    assert "bubble" in {trace["name"] for trace in chart.figure["data"]}


def test_collectives_drawn_as_one_are_busy_as_long_as_the_collectives_themselves(outcome):
    events = step_events(outcome.workload.training_graph(), outcome.plan, outcome.cluster, outcome.workload.precision)
    fine, coarse = (
        sum(
            (one.end_s - one.begin_s) * float(dict(one.notes)["busy_frac"])
            for one in events.communication(1, gap_s)
            if one.category == "tp"
        )
        for gap_s in (0.0, 0.01)
    )
    assert fine == pytest.approx(coarse)
    assert fine > 0


PLANS: dict[str, dict[str, Any]] = {
    "1f1b": {"pipeline_parallel": 4, "tensor_parallel": 2, "sequence_parallel": True, "data_parallel": 2},
    "interleaved": {"pipeline_parallel": 4, "interleave": 2, "data_parallel": 4, "zero_stage": 1},
    "zero bubble": {"pipeline_parallel": 4, "schedule": "zb-h1", "data_parallel": 4, "zero_stage": 1},
    "one stage": {"data_parallel": 16, "zero_stage": 3, "recompute": ("full",)},
}


@pytest.mark.parametrize("name", PLANS)
def test_the_peak_of_memory_over_a_step_is_the_memory_that_the_answer_states(name):
    entry = models["llama3-8b"]()
    found = evaluate(
        Workload(model=entry, global_batch=64, seq=2048), clusters["dgx-h100"].build(16), Plan(**PLANS[name])
    )
    assert isinstance(found, Outcome)
    events = step_events(found.workload.training_graph(), found.plan, found.cluster, found.workload.precision)
    for stage in found.memory.stages:
        track = memory_track(found, events, stage.stage)
        assert track.peak_bytes == pytest.approx(stage.reserved_bytes + found.memory.runtime_bytes, rel=1e-9)
    [chart] = memory_over_time(found)
    traces = check_chart(chart)
    tops = [max(trace["y"]) for trace in traces]
    assert max(tops) * GIBI == pytest.approx(found.memory.need_bytes, rel=1e-6)
    assert traces[0]["x"][-1] == pytest.approx(events.end_s)


def long_step() -> Outcome:
    entry = models["llama3-8b"]()
    workload = Workload(model=entry, global_batch=2048, seq=2048)
    plan = Plan(pipeline_parallel=8, interleave=4, data_parallel=1, tensor_parallel=8, sequence_parallel=True)
    found = evaluate(workload, clusters["dgx-h100"].build(64), plan)
    assert isinstance(found, Outcome)
    return found


def test_of_a_long_step_the_beginning_and_the_end_are_drawn():
    found = long_step()
    begin, end = pipeline_timeline(found)
    assert (begin.name, end.name) == ("pipeline-begin", "pipeline-end")
    for chart in (begin, end):
        check_chart(chart)
        drawn = [len(trace["x"]) for trace in chart.figure["data"] if "microbatch" in trace["hovertemplate"]]
        assert sum(drawn) <= MOST_PASSES
    assert begin.figure["layout"]["xaxis"]["range"][0] == 0
    assert end.figure["layout"]["xaxis"]["range"][1] > end.figure["layout"]["xaxis"]["range"][0] > 0
    assert len(end.table.rows) == 8


def test_a_step_of_a_million_passes_has_no_chart_of_them():
    found = long_step()
    assert pipeline_timeline(replace(found, workload=replace(found.workload, global_batch=2**30))) == ()


def test_one_stage_is_drawn_pass_by_pass_and_one_device_has_no_network():
    entry = models["gpt2-345m"]()
    workload = Workload(model=entry, global_batch=8, seq=entry.seq)
    found = evaluate(workload, clusters["dgx-h100"].build(1), Plan())
    assert isinstance(found, Outcome)
    [chart] = pipeline_timeline(found)
    assert len(trace_named(chart, "forward")["x"]) == found.num_microbatches
    assert network_use(found) == ()
    assert step_topology(found) == ()


def test_the_network_is_in_use_as_long_as_the_step_says(outcome):
    [chart] = network_use(outcome)
    check_chart(chart)
    step = outcome.step
    waited, hidden = trace_named(chart, "waited for"), trace_named(chart, "hidden behind compute")
    assert sum(waited["x"]) == pytest.approx(sum(comm.exposed_s for comm in step.comm) / step.step_s)
    assert sum(hidden["x"]) == pytest.approx(sum(comm.hidden_s for comm in step.comm) / step.step_s)
    assert waited["y"][0] == "tensor parallel<br>nvlink"
