"""Runs of a user's own: what a row comes to, and which row and column is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dovetail.accuracy.cluster_fit import ClusterFit
from dovetail.errors import DovetailError
from dovetail.files.cluster import load_cluster
from dovetail.files.cluster_text import calibrated_cluster_text
from dovetail.files.own_runs import load_own_runs
from dovetail.hardware.clusters import clusters
from dovetail.hardware.scales import Scales, scaled
from dovetail.parallel.plan import Overlap

HEAD = "name,model,cluster,devices,tp,pp,zero_stage,microbatch,global_batch,seq,step_s,tokens_per_s,notes"
GOOD = "first,llama3-8b,dgx-h100,16,2,,1,1,64,4096,3.5,,warm"


@pytest.fixture
def table(tmp_path):
    def write(*rows: str, head: str = HEAD) -> Path:
        file: Path = tmp_path / "runs.csv"
        file.write_text("\n".join((head, *rows)) + "\n", encoding="utf-8")
        return file

    return write


def test_a_row_is_a_job_with_its_seconds(table):
    found = load_own_runs(table(GOOD, "second,llama3-8b,dgx-h100,32,1,2,,1,64,4096,,100000,"))
    first, second = found.runs
    assert (found.base, found.largest.num_devices) == ("dgx-h100", 32)
    assert (first.name, first.measured_s, first.cluster) == ("first", 3.5, clusters["dgx-h100"].build(16))
    assert (first.plan.tensor_parallel, first.plan.data_parallel, first.plan.zero_stage) == (2, 8, 1)
    assert (second.plan.pipeline_parallel, second.plan.data_parallel) == (2, 16)
    assert second.measured_s == pytest.approx(64 * 4096 / 100_000)
    assert first.graph.batch == 64


def test_a_plan_and_a_compute_dtype_may_be_named(table):
    row = "llama3-8b,dgx-h100,16,zero3,fp8,64,4096,true,3.5"
    [run] = load_own_runs(
        table(row, head="model,cluster,devices,plan,compute,global_batch,seq,sequence_parallel,step_s")
    ).runs
    assert (run.plan.zero_stage, run.precision.compute) == (3, "fp8")


def test_what_overlaps_and_how_wide_gradients_are_may_be_told_a_column_each(table):
    head = "model,cluster,devices,tp,gradients,overlap.tensor,overlap.data,global_batch,seq,step_s"
    first, second = load_own_runs(
        table(
            "llama3-8b,dgx-h100,16,2,bf16,true,false,64,4096,3.5", "llama3-8b,dgx-h100,16,2,,,,64,4096,3.5", head=head
        )
    ).runs
    assert (first.precision.gradients, second.precision.gradients) == ("bf16", "fp32")
    assert first.plan.overlap == Overlap(tensor=True, data=False)
    assert second.plan.overlap == Overlap()


def test_clusters_and_models_may_be_files_beside_the_table(table, tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "chip: h100-sxm\ntopology:\n- {name: nvlink, kind: switch, devices: 8, bandwidth: 450 GB/s, latency: 2 us}\n",
        encoding="utf-8",
    )
    (tmp_path / "model.yaml").write_text("base: llama3-8b\nnum_layers: 4\n", encoding="utf-8")
    [run] = load_own_runs(table("model.yaml,./mine.yaml,8,4096,1.5", head="model,cluster,global_batch,seq,step_s")).runs
    assert (run.cluster.num_devices, run.graph.num_layers) == (8, 4)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (GOOD.replace("3.5", ""), "give step_s, tokens_per_s or log in each row; got none of them (FILE:3: step_s)"),
        (GOOD.replace("3.5,", "3.5,9"), "got step_s and tokens_per_s (FILE:3: step_s)"),
        (GOOD.replace("3.5", "fast"), "step_s must be a number; got 'fast' (FILE:3)"),
        (GOOD.replace("3.5", "-1"), "step_s must be above 0; got '-1' (FILE:3)"),
        (GOOD.replace("3.5", "nan"), "step_s must be a finite number; got 'nan' (FILE:3)"),
        (GOOD.replace("llama3-8b", "llama3-9b"), "no model is named 'llama3-9b'"),
        (GOOD.replace("llama3-8b", ""), "model must be a catalogue model or a file; got nothing (FILE:3: model)"),
        (GOOD.replace("16,2,", "16,3,"), "FILE:3: tp)"),
        (GOOD.replace("16,2,", "16,two,"), "FILE:3: tp)"),
        (GOOD.replace("16,2,", "x,2,"), "FILE:3: devices)"),
        (GOOD.replace("4096,", "0,"), "FILE:3: seq)"),
        (GOOD.replace(",64,", ",63,"), "FILE:3: microbatch)"),
    ],
)
def test_a_bad_row_is_refused_with_its_line_and_column(table, row, words):
    """Where it is the only one; beside others it is left out with the same words."""
    file = table(row)
    with pytest.raises(DovetailError) as told:
        load_own_runs(file)
    assert words.replace("FILE:3", "FILE:2") in str(told.value).replace(str(file), "FILE")
    [skipped] = load_own_runs(table(GOOD, row)).skipped
    message = skipped.replace(str(file), "FILE")
    assert words in message
    assert "FILE:3" in message
    assert "\n" not in message


def test_runs_on_two_clusters_are_refused(table):
    with pytest.raises(DovetailError, match="cluster must be the same in every row; got 'dgx-h100' and 'dgx-h200'"):
        load_own_runs(table(GOOD, GOOD.replace("dgx-h100", "dgx-h200")))


@pytest.mark.parametrize(
    ("head", "words"),
    [
        (
            HEAD.replace("tp,", "tensor_paralel,"),
            "no column of runs is named 'tensor_paralel'; did you mean tensor_parallel or",
        ),
        (HEAD.replace("cluster,", "notes2,"), "no column of runs is named 'notes2'"),
        (
            HEAD.replace("name,model", "name,notes").replace(",notes", ",compute", 1).replace(",notes", ""),
            "column model is missing",
        ),
        ("model,cluster,devices", "columns step_s, tokens_per_s, log are all missing"),
    ],
)
def test_columns_that_cannot_be_are_refused(table, head, words):
    with pytest.raises(DovetailError, match=words.replace("?", r"\?")):
        load_own_runs(table(",".join("1" for _ in head.split(",")), head=head))


def test_what_is_written_is_read_back(table, tmp_path):
    found = load_own_runs(table(GOOD))
    fit = ClusterFit(scales=Scales(compute_scale=0.9, link_scale=0.8), num_scales=2, runs=(), spread_frac=0.03)
    out = tmp_path / "out.yaml"
    out.write_text(calibrated_cluster_text(fit, found, "mine", "it's runs.csv", out), encoding="utf-8")
    cluster = load_cluster(str(out))
    plain = scaled(clusters["dgx-h100"].build(16), fit.scales)
    assert cluster.name == "mine"
    assert cluster.topology == plain.topology
    assert cluster.chip.calibration.tensor_frac == plain.chip.calibration.tensor_frac
    assert cluster.chip.calibration.link_frac == plain.chip.calibration.link_frac
    assert cluster.chip.name == "h100-sxm"
    assert cluster.chip.calibration.fitted_on.endswith("it's runs.csv: compute x 0.9, links x 0.8")
    assert (cluster.own_runs.spread_frac, cluster.own_runs.fitted_on) == (0.03, "it's runs.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("base: dgx-h100\ncalibration: {compute: 9}\n", "compute must be from 0.25 to 4; got 9"),
        ("base: dgx-h100\ncalibration: {compute: .nan}\n", "calibration"),
        ("base: dgx-h100\ncalibration: {runs: 5}\n", "a cluster is fitted by 1 or 2 scales; got 0"),
        ("base: dgx-h100\ncalibration: {runs: 5, scales: 1, spread: 3}\n", "spread must be from 0 to 2; got 3"),
        ("base: dgx-h100\n", "calibration"),
        ("base: dgx-h101\ncalibration: {compute: 0.9}\n", "no cluster is named 'dgx-h101'"),
        ("base: out.yaml\ncalibration: {compute: 0.9}\n", "circle"),
        ("base: dgx-h100\ndevices: 0\ncalibration: {compute: 0.9}\n", "a cluster has 1 to"),
    ],
)
def test_a_calibrated_cluster_that_cannot_be_is_refused(tmp_path, text, words):
    file = tmp_path / "out.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DovetailError) as told:
        load_cluster(str(file))
    assert words in str(told.value)
    assert "out.yaml" in str(told.value)


def test_a_run_that_cannot_be_predicted_is_left_out_with_its_reason(table):
    head, good = "model,cluster,devices,dp,global_batch,seq,compute,step_s", "llama3-8b,dgx-h100,8,8,8,4096,bf16,1.5"
    odd = {
        "llama3-8b,dgx-h100,8,8,8,4096,bf16,OOM": "step_s must be a number; got 'OOM'",
        "llama3-8b,dgx-h100,8,8,8,4096,bf16,0": "step_s must be above 0; got '0'",
        "llama3-8b,dgx-h100,8,8,8,4096,fp4,1.5": "fp4",
        "llama3-8b,dgx-h100,8,3,8,4096,bf16,1.5": "data_parallel",
    }
    found = load_own_runs(table(good, *odd, good, head=head))
    assert len(found.runs) == 2
    assert len(found.skipped) == len(odd)
    for told, (line, reason) in zip(found.skipped, enumerate(odd.values(), start=3), strict=True):
        assert told.startswith("row not predicted: ")
        assert reason in told
        assert f":{line}" in told
