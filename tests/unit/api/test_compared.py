"""Several jobs in one answer: rows, differences, and rows that have no step."""

import csv
from typing import Any

import pytest

import dovetail as dv
from dovetail.report.compared import FIGURES

JOB: dict[str, Any] = {"model": "gpt2-345m", "cluster": "h100x8", "global_batch": 64}


def test_a_row_is_what_simulate_says_of_the_job():
    found = dv.compare(**JOB, plan=["ddp", "tp=2"], tokens="10B", price="2 $/h")
    alone = dv.simulate(**JOB, plan="tp=2", tokens="10B", price="2 $/h")
    row = found[1]
    assert (row["step_s"], row["mfu_frac"], row["energy_j"]) == (alone.step_s, alone.mfu_frac, alone.energy_j)
    assert (row["step_usd"], row["run_s"], row["run_usd"]) == (
        alone.step_usd,
        alone.run.expected_s,
        alone.run.expected_usd,
    )
    assert row["spare_bytes"] == alone.memory.limit_bytes - alone.memory.need_bytes
    assert row["interval_lower_s"] == alone.interval.lower_s
    assert row["tokens_per_s_per_device"] == alone.tokens_per_s / 8


def test_plans_of_one_job_have_the_chance_to_beat_the_first():
    found = dv.compare(**JOB, plan=["tp=2,pp=2", "tp=4,pp=2", "dp=8"])
    first, *others = found.rows
    assert first["faster_than_first_probability"] is None
    for row in others:
        assert (row["faster_than_first_probability"] > 0.5) == (row["step_s"] < first["step_s"])
    assert found[1] == found.rows[1]


def test_jobs_of_other_work_have_no_chance_to_beat_the_first():
    found = dv.compare(**JOB | {"model": ["gpt2-345m", "bert-large"]}, plan="dp=8")
    assert [row["faster_than_first_probability"] for row in found] == [None, None]


def test_what_differs_comes_first_and_nothing_else():
    found = dv.compare(**JOB, plan=["dp=8", "tp=2,pp=2"])
    assert list(found[0])[:3] == ["tp", "pp", "dp"]
    assert [row["dp"] for row in found] == [8, 2]
    assert "seq" not in found[0]
    assert found.tables[1].rows[0][0] == "tp"


def test_what_does_not_fit_or_cannot_be_read_is_a_row_that_says_so():
    found = dv.compare(model="llama3-70b", cluster="h100x8", plan=["tp=8", "tp=3", "tp=8,zero=3,recompute=full"])
    fits, unread = found[0], found[1]
    assert not fits["fits"]
    assert fits["why"].startswith("does not fit: a device of stage 0 needs")
    assert fits["step_s"] is None
    assert unread["why"].startswith("tensor_parallel=3 must divide num_heads=64")
    assert unread["need_bytes"] is None
    text = str(found)
    assert "refused" in text
    assert "does not fit" in text
    assert not found.fits


def test_names_by_place_are_sorted_into_clusters_plans_and_models():
    found = dv.compare("h100x8", "h200x8", "ddp", "tp=2", model="gpt2-345m", global_batch=64)
    assert [(row["chip"], row["tp"]) for row in found] == [
        ("h100-sxm", 1),
        ("h100-sxm", 2),
        ("h200-sxm", 1),
        ("h200-sxm", 2),
    ]
    assert len(found) == 4


def test_specs_are_rows_and_options_go_for_all(tmp_path):
    spec = {"workload": {"model": "gpt2-345m", "global_batch": 64}, "cluster": "h100x8", "plan": "ddp"}
    found = dv.compare(spec, {**spec, "plan": "tp=2"}, zero=1)
    assert [row["tp"] for row in found] == [1, 2]
    assert all("ZeRO-1" in row["plan_in_brief"] for row in found)
    found.to_csv(tmp_path / "rows.csv")
    with (tmp_path / "rows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["step_s"]) for row in rows] == [row["step_s"] for row in found]
    assert set(FIGURES) <= set(rows[0])


def test_a_price_for_every_cluster():
    found = dv.compare("h100x8", "h200x8", model="gpt2-345m", plan="ddp", price=["2 $/h", 4.0])
    h100, h200 = found
    assert h200["step_usd"] / h200["step_s"] == pytest.approx(2 * h100["step_usd"] / h100["step_s"])
    with pytest.raises(dv.InvalidInput, match="there are 3 prices and 2 clusters"):
        dv.compare("h100x8", "h200x8", model="gpt2-345m", plan="ddp", price=[1, 2, 3])


@pytest.mark.parametrize(
    ("designs", "given", "message"),
    [
        ((), {}, "to compare takes two jobs or more; name spec files"),
        (("ddp",), JOB, "to compare takes two jobs or more; add a spec file"),
        (("h100-sxm", "ddp"), JOB, "'h100-sxm' is a chip; name a cluster of it"),
        (("gpt2-345n", "ddp"), JOB, "no spec, model, cluster or plan is named 'gpt2-345n'; did you mean gpt2-345m"),
        (("tp=3", "tp=5"), JOB, "tensor_parallel=3 must divide"),
        (("ddp", "tp=2"), {**JOB, "model": ""}, "model is missing"),
    ],
)
def test_what_leaves_nothing_to_compare_is_one_line(designs, given, message):
    with pytest.raises(dv.InvalidInput) as caught:
        dv.compare(*designs, **given)
    assert caught.value.message.startswith(message)


def test_a_sweep_is_every_combination_and_a_bad_row_costs_no_other():
    found = dv.sweep(**JOB, plan="ddp", over={"plan.tp": [1, 2, 3], "chip.hbm.bandwidth": ["2 TB/s", "4 TB/s"]})
    assert [(row["plan.tp"], row["chip.hbm.bandwidth"]) for row in found][:3] == [
        (1, "2 TB/s"),
        (1, "4 TB/s"),
        (2, "2 TB/s"),
    ]
    assert [row["fits"] for row in found] == [True] * 4 + [False] * 2
    slow, fast = found[0], found[1]
    assert slow["step_s"] > fast["step_s"]
    assert found[4]["why"].startswith("tensor_parallel=3 must divide num_heads=16")
    typed = dv.sweep(**JOB, plan="ddp", over=["plan.tp=1..3", "chip.hbm.bandwidth=2TB/s,4TB/s"])
    assert [row["step_s"] for row in typed] == [row["step_s"] for row in found]


def test_a_sweep_over_devices_models_and_whole_plans():
    found = dv.sweep(**JOB, plan="ddp", over="cluster.devices=8..32*2")
    assert [row["cluster.devices"] for row in found] == [8, 16, 32]
    assert found[0]["step_s"] > found[2]["step_s"]
    by_plan = dv.sweep(**JOB, over="plan=ddp;tp=2,sp")
    assert [row["plan"] for row in by_plan] == ["ddp", "tp=2,sp"]


def test_pages_of_comparisons_have_bars_over_each_other_and_curves_of_sweeps():
    compared = dv.compare(**JOB, plan=["ddp", "tp=2"])
    assert [chart.name for chart in compared.charts] == ["plans-scatter", "time-by-job", "memory-by-job"]
    assert compared.charts[2].figure["layout"]["barmode"] == "overlay"
    parts = compared.charts[1].figure["data"]
    assert sum(bar["x"][0] for bar in parts) == pytest.approx(compared[0]["step_s"])
    swept = dv.sweep(**JOB, plan="ddp", over={"seq": [512, 1024], "plan.zero": [0, 1]})
    curves = swept.charts[0].figure["data"]
    assert swept.charts[0].name == "step-over-axis"
    assert len(curves) == 2
