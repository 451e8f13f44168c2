"""Training logs as frameworks print them: which lines are steps, what cannot be read, and the job that they say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dovetail.accuracy.training_log import Reason, TrainingLog
from dovetail.api.jobs import JobRequest
from dovetail.api.logged_jobs import job_of_log
from dovetail.errors import InvalidInput
from dovetail.files.training_logs.loading import load_training_log, names_training_log
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Overlap, Plan
from dovetail.report.launchers.fallbacks import as_run
from dovetail.report.launchers.frameworks import launchers
from dovetail.workload.models import models
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload

TIME = "elapsed time per iteration"


@pytest.fixture
def read(tmp_path):
    def read(text: str, name: str = "run.log") -> TrainingLog:
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        assert names_training_log(file)
        return load_training_log(file)

    return read


def iteration(step: int, ms: object = 1000.0, end: str = " | lm loss: 2.1E+00 | number of skipped iterations:   0 |"):
    begin = f" iteration {step:8d}/     100 | consumed samples: {8 * step:12d}"
    return f"{begin} | elapsed time per iteration (ms): {ms}{end}\n"


def times_s(log: TrainingLog) -> list[float]:
    return [one.pace.step_s for one in log.steps]


@pytest.mark.parametrize(
    ("line", "step_s"),
    [
        (f" iteration       10/  500000 | {TIME} (ms): 430.0 | learning rate 1.342E-04 | lm loss 7.4E+00 |", 0.43),
        (f" [2025-04-13 23:41:12] iteration       10/    1000 | consumed samples:          160 | {TIME} (ms): 1147.6 |"
         " throughput per GPU (TFLOP/s/GPU): 401.2 | learning rate: 0.0E+00 | global batch size:    16 |", 1.1476),
        (f" iteration       10/  317892 | consumed samples: 7680 | consumed tokens: 31457280 | {TIME} (s): 105.25 |"
         " learning rate: 2.407E-04 | samples per second: 19.4 | TFLOPs: 145.2 |", 105.25),
        (f"12:  iteration       10/infinity | consumed samples:  160 | {TIME} (ms): 50.0 |", 0.05),
    ],
    ids=["2019", "core", "deepspeed-seconds", "srun-label"],
)  # fmt: skip
def test_a_line_of_any_release_of_megatron_is_read(read, line, step_s):
    [one] = read(line + "\n").steps
    assert (one.step, one.pace.step_s) == (10, pytest.approx(step_s))


def test_the_first_steps_are_the_warm_up_and_a_line_is_of_the_steps_since_the_line_before(read):
    log = read("".join(iteration(step) for step in range(10, 60, 10)))
    assert [one.num_steps for one in log.steps] == [10] * 5
    assert [bool(one.set_apart) for one in log.steps] == [True, False, False, False, False]
    log = read("".join(iteration(step) for step in range(1, 9)))
    assert [one.set_apart for one in log.steps] == [(Reason.WARM_UP,)] * 5 + [()] * 3


def test_lines_that_cannot_be_read_are_counted_and_cost_no_other(read):
    text = (
        iteration(1)
        + iteration(2, "nan")
        + iteration(3, "0.0")
        + iteration(4)[:70]
        + "\n"
        + iteration(5)
        + iteration(6, "1e")
    )
    log = read(text)
    assert [one.step for one in log.steps] == [1, 5]
    assert [line for line, _ in log.bad_lines] == [2, 3, 4, 6]


def test_two_ranks_in_one_line_are_a_line_that_cannot_be_read(read):
    log = read(iteration(1) + iteration(2).rstrip("\n") + iteration(2) + iteration(3))
    assert [one.step for one in log.steps] == [1, 3]
    assert log.bad_lines == ((2, "two ranks wrote into one another"),)


def test_bytes_that_are_no_utf_8_cost_their_line_alone(tmp_path):
    file = tmp_path / "run.log"
    file.write_bytes(iteration(1).encode() + b"\xff\xfe\x00garbage\n" + iteration(2).encode())
    assert [one.step for one in load_training_log(file).steps] == [1, 2]


def test_a_restart_is_seen_where_steps_go_back_and_has_a_warm_up_of_its_own(read):
    log = read("".join(iteration(step) for step in [*range(1, 11), *range(8, 15)]))
    assert log.num_restarts == 1
    assert [one.attempt for one in log.steps] == [0] * 10 + [1] * 7
    assert [bool(one.set_apart) for one in log.steps] == [True] * 5 + [False] * 5 + [True] * 5 + [False] * 2


def test_a_checkpoint_sets_the_next_line_apart(read):
    saved = "saving checkpoint at iteration       7 to c\n  successfully saved checkpoint from iteration       7 to c\n"
    log = read("".join(iteration(step) for step in range(1, 8)) + saved + iteration(8) + iteration(9))
    assert log.num_checkpoints == 1
    assert [one.set_apart for one in log.steps[5:]] == [(), (), (Reason.CHECKPOINT,), ()]


def test_an_evaluation_and_skipped_updates_set_lines_apart(read):
    skipped = " | number of skipped iterations:   1 |"
    text = "".join(iteration(step) for step in range(1, 7)) + iteration(7, end=skipped)
    log = read(text + " validation loss at iteration 7 | lm loss value: 2.0 |\n" + iteration(8) + iteration(9))
    assert [one.set_apart for one in log.steps[6:]] == [(Reason.SKIPPED_UPDATE,), (Reason.EVALUATION,), ()]


@pytest.mark.parametrize("label", ["[default{}]:", "[rank{}]: ", "{}: ", "[1,{}]<stdout>:", ""])
def test_ranks_that_print_the_same_step_are_one_line_with_their_median(read, label):
    lines = [label.format(rank) + iteration(step, 1000.0 + 10 * rank) for step in range(1, 9) for rank in (0, 1, 2)]
    log = read("".join(lines))
    assert log.num_restarts == 0
    assert [(one.step, one.num_ranks) for one in log.steps] == [(step, 3) for step in range(1, 9)]
    assert times_s(log) == pytest.approx([1.01] * 8)


def test_ranks_that_run_ahead_of_one_another_are_no_restart(read):
    order = [(0, 1), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    log = read("".join(f"[rank{rank}]:" + iteration(step) for rank, step in order))
    assert (log.num_restarts, [one.step for one in log.steps]) == (0, [1, 2, 3])


def test_the_memory_of_megatrons_ranks_is_the_highest(read):
    begin = "[Rank {}] (after 2 iterations) memory (MB) | allocated: 10.0"
    memory = begin + " | max allocated: {} | reserved: 9 | max reserved: {}\n"
    log = read(iteration(1) + memory.format(0, 1024.0, 2048.0) + memory.format(8, 512.0, 3072.0))
    assert log.peaks_bytes == (1024 * 2**20, 3072 * 2**20)


TITAN = "[titan] 2026-01-09 19:02:58,105 - root - INFO - "


@pytest.mark.parametrize(
    ("line", "rate"),
    [
        ("\x1b[31mstep: 10  \x1b[32mloss:  9.4939  \x1b[38;2;180;60;0mgrad_norm: 18.25  "
         "\x1b[36mmemory: 72.82GiB(91.97%)  \x1b[34mtps: 55,314  \x1b[35mmfu: 41.66%\x1b[39m", 55314),
        ("step: 10  loss: 10.8953  memory:  9.53GiB(30.10%)  wps: 1,234  mfu: 12.22%", 1234),
        ("step: 10  loss:  4.1  memory: 40.00GiB(50.00%)  tps: 813", 813),
    ],
    ids=["colours", "wps", "no-mfu"],
)  # fmt: skip
def test_a_line_of_any_release_of_torchtitan_is_read(read, line, rate):
    [one] = read(TITAN + line + "\n").steps
    assert (one.step, one.pace.tokens_per_s_per_device) == (10, rate)
    assert one.reserved_bytes > 0


def test_a_validation_of_torchtitan_is_no_step(read):
    steps = "".join(f"{TITAN}step: {n}  loss: 4.1  memory: 40.00GiB(50.00%)  tps: 800\n" for n in range(1, 9))
    validated = f"{TITAN}validate step: 8  loss:  4.8  memory: 40.11GiB(50.7%)  tps: 21,844\n"
    log = read(steps + validated + f"{TITAN}step: 9  loss: 4.1  memory: 40.00GiB(50.00%)  tps: 800\n")
    assert (len(log.steps), log.num_evaluations) == (9, 1)
    assert log.steps[-1].set_apart == (Reason.EVALUATION,)


def test_a_printed_configuration_of_torchtitan_says_its_plan(read):
    config = {
        "model": {"name": "llama3", "flavor": "70B", "converters": []},
        "training": {"local_batch_size": 8, "global_batch_size": -1, "seq_len": 8192},
        "parallelism": {
            "data_parallel_replicate_degree": 1, "data_parallel_shard_degree": 4, "tensor_parallel_degree": 8,
            "pipeline_parallel_degree": 4, "context_parallel_degree": 1, "pipeline_parallel_microbatch_size": 1,
            "pipeline_parallel_schedule": "Interleaved1F1B", "fsdp_reshard_after_forward": "default",
            "enable_async_tensor_parallel": True,
        },
        "activation_checkpoint": {"mode": "full"},
        "compile": {"enable": True},
    }  # fmt: skip
    step = f"{TITAN}step: 10  loss: 4.1  memory: 40.00GiB(50.00%)  tps: 800\n"
    for printed in (repr(config), json.dumps(config, indent=2)):
        log = read(f"{TITAN}Running with args: {printed}\n{step}")
        job, _ = job_of_log(log, JobRequest(cluster="dgx-h100"))
        assert job.cluster.num_devices == 128
        assert (job.workload.model.name, job.workload.global_batch, job.workload.kernels) == (
            "llama3-70b",
            32,
            "compiled",
        )
        plan = job.plan
        assert (plan.tensor_parallel, plan.pipeline_parallel, plan.data_parallel, plan.interleave) == (8, 4, 4, 2)
        assert (plan.zero_stage, plan.recompute, plan.overlap.tensor, plan.sequence_parallel) == (
            2,
            ("full",),
            True,
            True,
        )


def test_hsdp_of_torchtitan_is_refused_until_a_plan_is_named(read):
    mesh = "Building device mesh with parallelism: pp=1, dp_replicate=2, dp_shard=8, cp=1, tp=1\n"
    batch = (
        "Trainer is initialized with local batch size 1, global batch size 16, sequence length 2048, total steps 5\n"
    )
    model = "Model llama3 8B size: 8,030,261,248 total parameters\n"
    log = read(
        TITAN + mesh + TITAN + batch + TITAN + model + f"{TITAN}step: 1  loss: 4.1  memory: 4.00GiB(5.00%)  tps: 8\n"
    )
    assert any("HSDP" in note for note in log.notes)
    with pytest.raises(InvalidInput, match="--plan"):
        job_of_log(log, JobRequest(cluster="dgx-h100"))
    assert job_of_log(log, JobRequest(cluster="dgx-h100", plan="zero3"))[0].plan.data_parallel == 16


def bar(done: int, clock: str, total: int = 100, rate: str = "3.00s/it", title: str = "") -> str:
    return f"{title}{done * 100 // total:3d}%|###       | {done}/{total} [{clock}<05:00,  {rate}]"


def test_a_progress_bar_is_timed_by_its_clock_over_windows_of_30_seconds(read):
    bars = [bar(done, f"{3 * done // 60:02d}:{3 * done % 60:02d}") for done in range(1, 61)]
    log = read("\r".join(bars) + "\n{'loss': 2.1, 'learning_rate': 2e-05, 'epoch': 0.1}\n")
    assert times_s(log) == pytest.approx([3.0] * 5)
    assert [one.num_steps for one in log.steps] == [10] * 5


def test_a_bar_of_an_evaluation_is_not_the_training_bar(read):
    bars = [bar(done, f"{3 * done // 60:02d}:{3 * done % 60:02d}") for done in range(1, 31)]
    other = [bar(done, f"00:{done:02d}", total=50, rate="1.00s/it") for done in range(1, 41)]
    log = read("\r".join(bars) + "\n" + "\r".join(other) + "\n")
    assert {one.step for one in log.steps} == {11, 21}


def test_a_bar_that_never_ran_for_30_seconds_is_read_by_the_rate_it_shows(read):
    log = read("\r".join(bar(done, f"00:{done:02d}", rate="1.02s/it") for done in range(1, 21)) + "\n")
    assert times_s(log)[-1] == pytest.approx(1.02)
    assert any("smoothed" in note for note in log.notes)


@pytest.mark.parametrize("quote", ["", "'"])
def test_the_runtime_of_the_hugging_face_trainer_is_the_whole_run_without_its_evaluations(read, quote):
    text = (
        "***** Running training *****\n  Total optimization steps = 100\n"
        f"{{'loss': {quote}2.1{quote}, 'epoch': {quote}0.1{quote}}}\n"
        f"{{'eval_loss': {quote}2.0{quote}, 'eval_runtime': {quote}50.0{quote}, 'epoch': {quote}0.5{quote}}}\n"
        f"{{'train_runtime': {quote}450.0{quote}, 'train_steps_per_second': {quote}0.222{quote}}}\n"
    )
    log = read(text)
    assert log.is_whole_run
    assert times_s(log) == pytest.approx([4.0])


def test_trainer_state_json_names_the_config_json_beside_it(read, tmp_path):
    history = [{"loss": 2.0, "step": 50}, {"eval_runtime": 10.0, "step": 50}, {"train_runtime": 210.0, "step": 100}]
    state = json.dumps({"log_history": history, "max_steps": 100, "train_batch_size": 4}, indent=2)
    (tmp_path / "config.json").write_text("{}")
    log = read(state, "trainer_state.json")
    assert times_s(log) == pytest.approx([2.0])
    assert log.job["workload"]["model"] == str(tmp_path / "config.json")
    assert log.job["plan"] == {"microbatch": 4}


@pytest.mark.parametrize(
    ("columns", "value"),
    [
        ("step_time", "2.0"), ("train_step_timing in s", "2.0"), ("train/iter_time_ms", "2000"),
        ("train|device|batches_per_sec", "0.5"),
    ],
)  # fmt: skip
def test_a_metrics_csv_is_timed_by_the_column_that_says_it(read, columns, value):
    rows = "".join(f"0,{step},1.0,{value}\n" for step in range(10))
    log = read(f"epoch,step,train_loss,{columns}\n{rows}", "metrics.csv")
    assert times_s(log) == pytest.approx([2.0] * 10)
    assert [one.step for one in log.steps] == list(range(1, 11))


def test_a_metrics_csv_without_a_time_is_refused_with_what_would_add_it(tmp_path):
    file = tmp_path / "metrics.csv"
    file.write_text("epoch,step,train_loss\n0,1,2.0\n")
    with pytest.raises(InvalidInput, match="ThroughputMonitor"):
        load_training_log(file)


def test_nemos_line_is_read_with_its_batch_and_memory(read):
    line = (
        "[default0]:Training epoch 0, iteration {0}/99 | lr: 9.8e-08 | global_batch_size: 128 | global_step: {0} |"
        " peak_memory_usage: 70833405952 | reduced_train_loss: 14.66 | train_step_timing in s: 5.276\n"
    )
    log = read("".join(line.format(step) for step in range(8)))
    assert [one.step for one in log.steps] == list(range(1, 9))
    assert (log.steps[0].global_batch, log.peaks_bytes[0]) == (128, 70833405952)


@pytest.mark.parametrize("start", ["epoch=0/micro_step=40/global_step=10", "0/10"])
def test_a_line_of_any_release_of_deepspeed_is_read(read, start):
    line = (
        f"[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] {start}, RunningAvgSamplesPerSec=25.02,"
        " CurrSamplesPerSec=25.6, MemAllocated=4.32GB, MaxMemAllocated=38.5GB\n"
    )
    [one] = read(line).steps
    assert (one.step, one.pace.samples_per_s, one.allocated_bytes) == (10, 25.6, 38.5 * 2**30)


def test_tables_specs_and_logs_of_collectives_are_no_training_logs(tmp_path):
    texts = {
        "gemm.csv": "m,n,k,time_us\n1,2,3,4.0\n",
        "spec.yaml": "workload: llama3-8b\n",
        "all_reduce_perf.txt": "# nThread 1 nGpus 8\n    1024  256  float  sum  -1  20.0 0.05 0.09 0\n",
        "results.json": '{"holds": true, "sets": []}',
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        assert not names_training_log(tmp_path / name), name
    assert not names_training_log(tmp_path / "absent.log")


MEGATRON_PLANS = {
    "tensor": Plan(tensor_parallel=2, sequence_parallel=True, data_parallel=4, zero_stage=1),
    "async tensor": Plan(tensor_parallel=2, sequence_parallel=True, data_parallel=4, overlap=Overlap(tensor=True)),
    "context": Plan(context_parallel=2, context_comm_type="ring", data_parallel=4, zero_stage=1),
    "ulysses": Plan(context_parallel=2, context_comm_type="all-to-all", data_parallel=4, zero_stage=1),
    "pipeline": Plan(pipeline_parallel=2, data_parallel=4, zero_stage=1, microbatch=2),
    "interleaved": Plan(pipeline_parallel=4, interleave=2, data_parallel=2, zero_stage=1),
    "uneven": Plan(pipeline_parallel=4, data_parallel=2, zero_stage=1, layers_per_stage=(7, 9, 9, 7)),
    "fsdp": Plan(data_parallel=8, zero_stage=3),
    "ddp": Plan(data_parallel=8),
    "full": Plan(data_parallel=8, zero_stage=1, recompute=("full",)),
    "some layers": Plan(data_parallel=8, zero_stage=1, recompute=("full",), recompute_layers=(16,)),
    "selective": Plan(data_parallel=8, zero_stage=1, recompute=("selective",)),
    "order": Plan(pipeline_parallel=2, data_parallel=4, zero_stage=1, axis_order=("tp", "cp", "pp", "dp")),
    "exposed": Plan(data_parallel=8, zero_stage=1, overlap=Overlap(data=False)),
}


def printed_arguments(command, world_size: int) -> str:
    """What print_args of Megatron-LM shows for these flags, with the defaults that it sets beside them."""
    known: dict[str, object] = {
        "add_bias_linear": True,
        "overlap_p2p_comm": True,
        "accumulate_allreduce_grads_in_fp32": False,
        "hidden_dropout": 0.1,
        "attention_dropout": 0.1,
    }
    for one in command:
        name, *values = one.words
        if not name.startswith("--"):
            continue
        name = name[2:].replace("-", "_")
        if name == "disable_bias_linear":
            known["add_bias_linear"] = False
        elif name == "no_overlap_p2p_communication":
            known["overlap_p2p_comm"] = False
        elif name == "cp_comm_type" or name == "recompute_modules":
            known[name] = list(values)
        else:
            known[name] = values[0] if values else True
    known |= {"world_size": world_size, "padded_vocab_size": known["vocab_size"]}
    lines = [f"  {name} {'.' * (48 - len(name))} {value}" for name, value in sorted(known.items())]
    head, end = (
        "------------------------ arguments ------------------------",
        "-------------------- end of arguments ---------------------",
    )
    return "\n".join([head, *lines, end]) + "\n"


@pytest.mark.parametrize("name", MEGATRON_PLANS)
def test_the_arguments_that_megatron_prints_are_the_plan_that_they_were_launched_from(read, name):
    plan, cluster = MEGATRON_PLANS[name], clusters["dgx-h100"].build(8)
    workload = Workload(model=models["llama3-8b"](), global_batch=64, seq=4096)
    launch = launchers["megatron-lm"](workload, cluster, plan)
    ran_workload, ran = as_run(workload, plan, launch.missing)
    log = read(printed_arguments(launch.command, 8) + iteration(1))
    job, _ = job_of_log(log, JobRequest(cluster="dgx-h100"))
    overlap = replace(job.plan.overlap, context=ran.overlap.context, pipeline=ran.overlap.pipeline)
    assert replace(job.plan, overlap=overlap) == replace(ran, framework="megatron-lm")
    assert job.workload.model.name == "llama3-8b"
    assert (job.workload.global_batch, job.workload.seq) == (64, 4096)
    assert job.workload.precision == ran_workload.precision


@pytest.mark.parametrize("model", ["gpt3-175b", "llama2-7b", "mixtral-8x7b", "megatron-22b", "qwen2.5-72b"])
def test_the_sizes_that_megatron_prints_are_the_catalogues_model(read, model):
    cluster = clusters["dgx-h100"].build(64)
    workload = Workload(model=models[model](), global_batch=64, seq=2048, precision=Precision(gradients="bf16"))
    plan = Plan(
        tensor_parallel=8,
        sequence_parallel=True,
        data_parallel=8,
        zero_stage=1,
        expert_tensor_parallel=8 if model == "mixtral-8x7b" else 1,
    )
    launch = launchers["megatron-lm"](workload, cluster, plan)
    log = read(printed_arguments(launch.command, 64) + iteration(1))
    job, _ = job_of_log(log, JobRequest(cluster="dgx-h100"))
    assert job.workload.model.name == model
    assert job.workload.precision.gradients == "bf16"


EXAMPLES = Path(__file__).parents[3] / "examples" / "logs"


@pytest.mark.parametrize("file", sorted(EXAMPLES.rglob("*.*")), ids=lambda file: file.name)
def test_an_example_that_is_cut_anywhere_is_read_or_refused_in_a_line(file, tmp_path):
    if file.suffix == ".md":
        return
    data = file.read_bytes()
    whole = load_training_log(file)
    for share in (0.03, 0.2, 0.5, 0.77, 0.99):
        cut = tmp_path / file.name
        cut.write_bytes(data[: int(share * len(data))])
        try:
            log = load_training_log(cut)
        except InvalidInput:
            continue
        assert len(log.steps) <= len(whole.steps)
