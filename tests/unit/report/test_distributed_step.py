"""A step of distributed code as data, tables, a page and tracks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dovetail.api.code_jobs import CodeJob, as_many_parameters, code_job, precision_of
from dovetail.report.distributed_step import distributed_processes, distributed_sentence
from dovetail.report.labels import percent
from dovetail.report.table import WIDTH, Table, text_of
from dovetail.step.distributed import distributed_step
from dovetail.step.recognised import recognised_plan
from dovetail.workload.dispatched import DispatchedOp, DistributedStep, RankStep, TensorMeta
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.unit.step.test_distributed import CLUSTER, MIB, QUICK, call, job, product, recorded

RANKS = tuple(range(64))
TOKENS = TensorMeta(shape=(1, 1024), strides=(1024, 1), dtype="int64")
WEIGHT = TensorMeta(shape=(32_000, 512), strides=(512, 1), dtype="bf16")
ROWS = TensorMeta(shape=(1, 1024, 512), strides=(1024 * 512, 512, 1), dtype="bf16")
EMBEDDED = DispatchedOp(name="aten.embedding.default", inputs=(WEIGHT, TOKENS), outputs=(ROWS,))


def on(kind: str, phase: str, waits: tuple[int, ...] = ()) -> DispatchedOp:
    return replace(call(kind, RANKS, 256 * MIB, waits, group="fsdp"), phase=phase)


OPS = (
    on("all-gather", "forward"), EMBEDDED, product(waits=(0,)), on("all-gather", "backward", (2,)),
    product(waits=(3,), phase="backward"), on("reduce-scatter", "backward", (4,)),
    product(waits=(5,), phase="optimizer"),
)  # fmt: skip
STEP = DistributedStep(
    world_size=64, ranks=(RankStep(rank=0, step=recorded(*OPS), num_ranks=64),), mesh=(("fsdp", 64),)
)
MODEL = models["gpt2-345m"]()
NUM_PARAMETERS = Workload(model=MODEL, global_batch=1, seq=1024).training_graph().num_parameters


def sized(step: DistributedStep, num_parameters: int = NUM_PARAMETERS) -> DistributedStep:
    """With so many parameters on each recorded rank."""
    ranks = tuple(replace(one, step=replace(one.step, num_parameters=num_parameters)) for one in step.ranks)
    return replace(step, ranks=ranks)


def head(table: Table) -> dict[str, str]:
    return {row[0]: row[1] for row in table.rows}


@pytest.fixture(scope="module")
def whole() -> CodeJob:
    return code_job(sized(STEP), CLUSTER, QUICK, models=(MODEL,), name="train.py")


def test_the_answer_names_the_code_the_same_plan_and_the_best_one(whole: CodeJob) -> None:
    first, same, best = whole.sentence.split("; ")
    assert first.startswith("your code ")
    assert same.startswith("the same plan with fused kernels ")
    assert best.startswith("best plan dp ")
    record = whole.record
    assert record["best_plan"]["step_s"] <= record["fused_plan"]["step_s"] * (1 + 1e-9)
    assert record["recognised"]["plan"]["zero_stage"] == 3
    assert record["recognised"]["global_batch"] == 64


def test_tables_keep_to_the_width_of_a_terminal_and_data_to_json(whole: CodeJob) -> None:
    assert max(map(len, text_of(whole.tables).splitlines())) <= WIDTH
    assert json.loads(json.dumps(whole.record)) == whole.record
    titles = [table.title for table in whole.tables]
    assert titles[0] == "64 ranks on dgx-h100 (h100-sxm)"
    assert "Collectives of rank 0" in titles


def test_parts_of_a_rank_add_up_to_the_step(whole: CodeJob) -> None:
    [rank] = whole.record["ranks"]
    parts_s = sum(rank[key] for key in ("compute_s", "exposed_s", "host_s", "idle_s"))
    assert parts_s == pytest.approx(whole.record["step_s"])
    assert sum(one["exposed_s"] for one in rank["collectives"]) == pytest.approx(rank["exposed_s"])


def test_parts_of_the_code_and_of_the_same_plan_add_up_to_their_steps(whole: CodeJob) -> None:
    parts = whole.record["parts"]
    assert sum(one["code_s"] for one in parts) == pytest.approx(whole.record["step_s"])
    assert sum(one["plan_s"] for one in parts) == pytest.approx(whole.record["same_plan"]["step_s"])
    assert "Your code and the same plan" in text_of(whole.tables)


def test_the_page_has_the_sentence_and_the_key_figures(whole: CodeJob) -> None:
    page = whole.page
    assert page.sentence == f"{whole.sentence}."
    assert [card.label for card in page.cards] == ["step", "exposed communication", "memory"]


def test_the_page_draws_where_the_time_of_each_rank_goes(whole: CodeJob) -> None:
    [chart] = whole.page.charts
    assert chart.name == "time-by-rank"
    drawn_s = sum(sum(bar["x"]) for bar in chart.figure["data"])
    assert drawn_s == pytest.approx(whole.record["step_s"])


def test_without_a_model_there_is_no_plan_beside() -> None:
    alone = code_job(STEP, CLUSTER, QUICK)
    assert alone.record["why_no_plan"].startswith("no model of the catalogue has")
    assert "--unsharded" in alone.record["why_no_plan"]
    assert alone.record["best_plan"] == {}
    assert distributed_sentence(alone.record).count(";") == 0


def test_a_model_of_the_catalogue_is_taken_by_its_number_of_parameters() -> None:
    model = models["gpt2-345m"]()
    rank = replace(STEP.ranks[0], step=replace(STEP.ranks[0].step, num_parameters=int(model.published_parameters)))
    found = code_job(replace(STEP, ranks=(rank,)), CLUSTER, QUICK)
    assert found.record["best_plan"]
    assert "plans are of gpt2-345m, which has as many parameters" in " ".join(text_of(found.tables).split())
    assert as_many_parameters(int(model.published_parameters) + 1) == ()


def test_code_that_is_no_plan_says_why() -> None:
    strange = replace(call("all-reduce", tuple(range(8)), MIB, group="dp_replicate"), phase="backward")
    odd = replace(STEP, ranks=(replace(STEP.ranks[0], step=recorded(*OPS, strange)),))
    found = code_job(odd, CLUSTER, QUICK)
    assert "HSDP" in found.record["recognised"]["reasons"][0]
    assert not found.record["same_plan"]
    text = text_of(found.tables)
    assert "none: parameters are sharded" in text


def test_numbers_are_kept_as_the_optimizer_updates_them() -> None:
    found = recognised_plan(STEP)
    assert precision_of(found).weight_bytes == 2
    wide = precision_of(replace(found, state_dtype="fp32"))
    assert (wide.weights, wide.moments, wide.has_master_weights) == ("fp32", "fp32", False)


def test_a_model_of_another_size_is_not_set_beside_the_code() -> None:
    other = code_job(sized(STEP, 2_800_000_000), CLUSTER, QUICK, models=(MODEL,))
    assert other.record["why_no_plan"] == (
        "gpt2-345m has 354.8 M parameters and the code trains 2.8 B; --unsharded names the model that the code trains"
    )
    assert other.record["best_plan"] == other.record["same_plan"] == {}
    assert other.record["step_s"] > 0


def test_a_padded_vocabulary_does_not_make_another_model() -> None:
    padded = code_job(sized(STEP, NUM_PARAMETERS + 1024 * 47), CLUSTER, QUICK, models=(MODEL,))
    assert padded.record["same_plan"]


def test_streams_are_tracks_and_a_recorded_rank_is_a_process() -> None:
    [process] = distributed_processes(distributed_step(STEP, CLUSTER, QUICK))
    assert process.name == "rank 0, the same on 64"
    assert [track.name for track in process.tracks] == ["compute", "nccl"]
    names = [one.name for one in process.tracks[1].slices]
    assert names == ["all-gather", "all-gather", "reduce-scatter"]
    assert all(one.end_s > one.begin_s for track in process.tracks for one in track.slices)


def test_the_head_has_batch_throughput_parameters_and_utilisation(whole: CodeJob) -> None:
    rows, step_s = head(whole.tables[0]), whole.record["step_s"]
    assert rows["global batch"] == "64 samples of 1,024 tokens"
    assert whole.record["tokens_per_s_per_device"] == pytest.approx(1024 / step_s)
    assert rows["throughput"] == f"{64 * 1024 / step_s:,.0f} tokens/s, {1024 / step_s:,.0f} tokens/s per device"
    assert rows["parameters"] == "354.8 M"
    flop = 2 * 2 * 8192**3  # a product of the forward and one of the backward pass; the update's is none of the model's
    assert whole.record["mfu_frac"] == pytest.approx(flop / (step_s * CLUSTER.chip.peak_flop_per_s("bf16")))
    assert rows["MFU"] == percent(whole.record["mfu_frac"])
    assert rows["90 % interval"].startswith("none: no step of recorded code was measured on several GPUs")


def test_code_whose_batch_is_not_known_has_no_throughput_and_says_nothing_of_it() -> None:
    found = code_job(job((product(), replace(call("all-reduce", RANKS, MIB), phase="backward"))), CLUSTER, QUICK)
    rows = head(found.tables[0])
    assert found.record["tokens_per_s_per_device"] == 0.0
    assert not {"global batch", "throughput"} & set(rows)
    assert rows["MFU"]


def test_other_plans_are_called_so_beside_the_plan_that_the_code_follows() -> None:
    rows = head(code_job(STEP, CLUSTER, QUICK).tables[0])
    assert rows["plan"].startswith("dp 64, ZeRO-3")
    assert "no plan" not in rows
    assert rows["other plans"]


def test_the_plan_names_sequence_parallelism() -> None:
    far, near = tuple(range(0, 64, 8)), tuple(range(8))
    ops = (
        replace(call("all-gather", near, MIB, group="tp"), phase="forward"), EMBEDDED, product(),
        replace(call("reduce-scatter", near, MIB, group="tp"), phase="forward"), product(phase="backward"),
        replace(call("all-reduce", far, MIB, group="dp"), phase="backward"),
    )  # fmt: skip
    rows = head(code_job(job(ops), CLUSTER, QUICK).tables[0])
    assert rows["plan"].startswith("dp 8, tp 8, sequence parallel;")


def test_collectives_that_read_the_same_are_one_row() -> None:
    sizes = (256 * MIB, 256 * MIB + 8192, 64 * MIB)
    ops = tuple(replace(call("all-reduce", RANKS, size, group="dp"), phase="backward") for size in sizes)
    found = code_job(job(ops), CLUSTER, QUICK)
    assert len(found.record["ranks"][0]["collectives"]) == 3
    [table] = [one for one in found.tables if one.title.startswith("Collectives")]
    assert [(row[3], row[4]) for row in table.rows] == [("256.0 MiB", "2"), ("64.0 MiB", "1")]
    assert table.columns[3] == "bytes/call"


def two_stages() -> CodeJob:
    """Two ranks: the first computes three times as much, the second waits for it."""
    busy = (product(), product(), product(), replace(call("all-reduce", RANKS, MIB, group="dp"), phase="backward"))
    return code_job(job(busy, (product(), busy[-1])), CLUSTER, QUICK)


def test_collectives_and_kernels_are_those_of_the_rank_that_sets_the_pace() -> None:
    titles = [table.title for table in two_stages().tables]
    assert "Collectives of rank 0, which waits least for others" in titles
    assert "Kernels of rank 0, which waits least for others" in titles


def test_the_memory_in_the_head_names_its_rank_and_the_one_with_the_highest_peak() -> None:
    stages = two_stages()
    first, second = stages.outcome.ranks
    ranks = (
        replace(first, peak_bytes=30 * 1024 * MIB, reserved_bytes=31 * 1024 * MIB, outside_bytes=0),
        replace(second, peak_bytes=20 * 1024 * MIB, reserved_bytes=40 * 1024 * MIB, outside_bytes=0),
    )
    rows = head(replace(stages, outcome=replace(stages.outcome, ranks=ranks)).tables[0])
    assert rows["memory"].startswith("40.0 GiB of 79.2 GiB on rank 32 ")
    assert rows["peak memory"] == "30.0 GiB allocated on rank 0, 20.0 GiB on rank 32"


def test_a_rank_that_is_out_of_memory_says_so() -> None:
    [one] = job((product(),)).ranks
    full = replace(one, step=replace(one.step, state_bytes=90 * 1024 * MIB))
    found = code_job(DistributedStep(world_size=64, ranks=(full,)), CLUSTER, QUICK)
    assert ": out of memory" in head(found.tables[0])["memory"]
    assert found.page.cards[-1].value == "out of memory"


def test_a_step_in_which_nothing_runs_is_an_answer_too() -> None:
    found = code_job(DistributedStep(world_size=64, ranks=(RankStep(rank=0, step=recorded()),)), CLUSTER)
    assert found.record["step_s"] == 0.0
    assert text_of(found.tables)
