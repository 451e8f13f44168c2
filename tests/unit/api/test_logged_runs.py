"""Training logs and traces beside the prediction of their jobs, by `validate` and `calibrate --runs`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

import dovetail as dv
from dovetail.api.calibrated import calibrated_cluster
from dovetail.api.jobs import JobRequest
from dovetail.errors import InvalidInput
from dovetail.files.own_runs import load_own_runs
from dovetail.files.training_logs import log_formats
from dovetail.files.training_logs.loading import load_training_log
from tests.traces_of_profilers import kernel, trace

EXAMPLES = Path(__file__).parents[3] / "examples"
LOGS = EXAMPLES / "logs"
MEGATRON = LOGS / "megatron-llama3-70b-512xh100.log"
TITAN = LOGS / "torchtitan-llama3-8b-64xh100.log"
TRAINER = LOGS / "huggingface-llama3-8b-8xh100.log"
SPEC = EXAMPLES / "llama3-70b-512xh100.yaml"


def test_a_log_is_compared_with_the_job_of_a_spec():
    found = dv.validate(MEGATRON, spec=SPEC)
    [run] = found.logs
    assert run.predicted_s == dv.simulate(SPEC).step_s
    assert found.fits
    assert found.headline.startswith(f"{MEGATRON.name}: Megatron-LM, median of 32 steady lines 18.310 s")


def test_a_log_that_prints_its_arguments_needs_its_cluster_alone():
    [run] = dv.validate(MEGATRON, cluster="dgx-h100").logs
    assert (run.workload.model.name, run.cluster.num_devices, run.workload.global_batch) == ("llama3-70b", 512, 1024)
    assert (run.plan.tensor_parallel, run.plan.pipeline_parallel, run.plan.framework) == (8, 4, "megatron-lm")


def test_json_has_every_line_and_can_be_read_back(tmp_path):
    found = dv.validate(MEGATRON, spec=SPEC)
    [log] = found.record["logs"]
    assert (log["num_step_lines"], log["num_steady"], log["num_skipped_lines"], log["num_restarts"]) == (44, 32, 2, 1)
    assert len(log["steps"]) == 44
    assert sum(not one["reasons"] for one in log["steps"]) == 32
    file = tmp_path / "results.json"
    found.to_json(file)
    assert dv.validate(file).record["logs"] == json.loads(json.dumps(found.record["logs"]))


def test_the_page_has_the_run_and_no_line_of_text_is_beyond_80_columns():
    found = dv.validate(TITAN, cluster="dgx-h100")
    assert any(TITAN.name in section.title for section in found.page.sections)
    assert max(map(len, str(found).splitlines())) <= 80


def test_steady_steps_and_memory_are_sets_like_any_other():
    found = dv.validate(MEGATRON, spec=SPEC)
    time, memory = found.outcome.sets
    assert (len(time.rows), time.unit, memory.unit) == (32, "s", "GiB")
    assert {row.kind for row in memory.rows} == {"allocated", "reserved"}


@pytest.mark.parametrize(
    ("file", "given", "option"),
    [
        (TRAINER, {}, "pass model"),
        (TRAINER, {"model": "llama3-8b"}, "pass seq"),
        (TRAINER, {"model": "llama3-8b", "seq": 2048}, "pass cluster"),
        (TRAINER, {"model": "llama3-8b", "seq": 2048, "cluster": "dgx-h100"}, "pass plan"),
        (LOGS / "huggingface-llama3-8b" / "trainer_state.json", {"model": "llama3-8b"}, "pass global_batch"),
        (
            LOGS / "huggingface-llama3-8b" / "trainer_state.json",
            {"model": "llama3-8b", "seq": 2048, "global_batch": 128, "cluster": "dgx-h100", "plan": "zero3"},
            "pass devices",
        ),
        (TITAN, {}, "pass cluster dgx-h100"),
    ],
)
def test_what_a_log_does_not_say_is_refused_with_what_would_say_it(file, given, option):
    with pytest.raises(InvalidInput, match=option) as refused:
        dv.validate(file, **given)
    assert "\n" not in str(refused.value)


def test_a_text_without_a_step_is_refused_with_the_frameworks_that_are_read(tmp_path):
    file = tmp_path / "other.log"
    file.write_text("hello\nworld\n")
    with pytest.raises(InvalidInput, match="no line of it is a step of a training log"):
        dv.validate(file)


def test_a_named_plan_has_the_microbatch_of_the_log():
    [run] = dv.validate(TRAINER, model="llama3-8b", seq=2048, cluster="dgx-h100", plan="zero3").logs
    assert (run.plan.microbatch, run.plan.zero_stage, run.cluster.num_devices) == (2, 3, 8)
    assert any("bf16 is assumed" in note for note in run.notes)


def test_what_the_log_says_otherwise_than_the_job_is_a_note():
    [run] = dv.validate(MEGATRON, cluster="dgx-h100", devices=256).logs
    assert "the log has devices 512, and the job that is predicted 256" in run.notes


def test_options_of_a_job_are_refused_where_no_log_is_named():
    with pytest.raises(InvalidInput, match="training log"):
        dv.validate("dies", model="llama3-8b")


def test_a_job_that_would_not_fit_is_predicted_all_the_same():
    found = dv.validate(TRAINER, model="llama3-8b", seq=8192, cluster="dgx-h100", plan="ddp")
    assert "by our count needs" in str(found)


@pytest.fixture
def traced(tmp_path):
    mark = {"ph": "X", "cat": "user_annotation", "pid": 9, "tid": 1}
    marks = [mark | {"name": f"ProfilerStep#{n}", "ts": 1e6 * n, "dur": 1e6, "args": {}} for n in range(1, 4)]
    gemms = [kernel("gemm", 7e5, 1, 1e6 * n + 1e5) for n in range(1, 4)]
    sums = [kernel("ncclDevKernel_AllReduce", 2e5, 2, 1e6 * n + 7e5) for n in range(1, 4)]
    file = tmp_path / "trace.json"
    file.write_text(trace(*marks, *gemms, *sums, device="NVIDIA H100 80GB HBM3"))
    return file


def test_a_trace_shows_its_whole_steps_without_a_job(traced):
    found = dv.validate(traced)
    assert [one["step"] for one in found.record["traces"][0]["steps"]] == [1, 2, 3]
    assert "give the job" in str(found)


def test_a_trace_has_its_steps_and_where_their_time_went_beside_a_job(traced):
    spec = {"workload": {"model": "llama3-8b", "global_batch": 16, "seq": 2048}, "cluster": "h100x8", "plan": "zero3"}
    [run] = dv.validate(traced, spec=spec).logs
    assert run.measured.median_s == pytest.approx(1.0)
    assert {one.what: one.measured_s for one in run.parts} == {
        "compute kernels": pytest.approx(0.7),
        "collectives": pytest.approx(0.2),
        "collectives, exposed": pytest.approx(0.1),
        "idle": pytest.approx(0.2),
    }


def calibrated(*runs, out, **job):
    return calibrated_cluster(
        [str(one) for one in runs], str(out), is_forced=False, announce=lambda _: nullcontext(), job=JobRequest(**job)
    )


def test_a_cluster_is_fitted_to_logs(tmp_path):
    found = calibrated(MEGATRON, TITAN, out=tmp_path / "own.yaml", cluster="dgx-h100")
    assert [run.measured_s for run in found.fit.runs] == pytest.approx([18.31, 1.978], rel=1e-3)
    after = dv.validate(MEGATRON, cluster=str(tmp_path / "own.yaml")).logs[0].error_frac
    assert abs(after) < abs(dv.validate(MEGATRON, cluster="dgx-h100").logs[0].error_frac)


def test_a_log_that_cannot_be_read_costs_no_other_its_fit(tmp_path):
    broken = tmp_path / "broken.log"
    broken.write_text(" iteration        1/     100 | consumed samples:  8 | elapsed time per iter\n")
    found = calibrated(MEGATRON, broken, out=tmp_path / "own.yaml", cluster="dgx-h100")
    assert len(found.fit.runs) == 1
    assert "log not predicted" in found.skipped[0]


def test_a_row_of_a_table_of_runs_may_name_a_log(tmp_path):
    (tmp_path / "run.log").write_bytes(TITAN.read_bytes())
    (tmp_path / "runs.csv").write_text(
        "model,cluster,devices,zero_stage,microbatch,global_batch,seq,log\nllama3-8b,dgx-h100,64,3,2,128,8192,run.log\n"
    )
    [run] = load_own_runs(tmp_path / "runs.csv").runs
    assert run.measured_s == pytest.approx(1.978, rel=1e-3)


def test_every_format_reads_an_example_that_ships():
    read = {load_training_log(file).framework for file in LOGS.rglob("*.*") if file.suffix != ".md"}
    assert read == {found.name for _, found in log_formats.items()}
