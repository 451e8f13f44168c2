from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.accuracy.measurements import Measurements
from dovetail.accuracy.prepared import TableContext
from dovetail.accuracy.runs.jobs import plan_of, run_of
from dovetail.accuracy.runs.machines import cluster_of, machine_of
from dovetail.accuracy.runs.row import Row
from dovetail.accuracy.runs.shapes import model_of
from dovetail.accuracy.runs.stacks import GRAPHED_SINCE, stack_of
from dovetail.accuracy.runs.timing import timed, timed_rows
from dovetail.accuracy.sets.published import prepare
from dovetail.errors import InvalidInput, NotModelled
from dovetail.units import BITS_PER_BYTE, GIGA
from dovetail.workload.experts import Experts

GPT = {
    "row_id": "r1",
    "source": "A lab, arXiv:1",
    "quality": "table",
    "model": "GPT 1B",
    "layers": "8",
    "hidden": "2048",
    "heads": "16",
    "seq": "1024",
    "global_batch": "64",
    "micro_batch": "2",
    "n_gpus": "16",
    "gpu": "A100-80GB SXM",
    "tp": "2",
    "pp": "2",
    "recompute": "full",
    "precision": "fp16",
    "iter_time_s": "1.5",
    "framework": "Megatron-LM",
}


def row(**changes: str) -> Row:
    return Row(cells=GPT | changes)


def table(*rows: dict[str, str]) -> Measurements:
    columns = tuple(GPT)
    cells = tuple(tuple((GPT | changes)[column] for column in columns) for changes in rows)
    return Measurements(name="t", shown="t.csv", columns=columns, rows=cells, lines=tuple(range(2, len(rows) + 2)))


@pytest.mark.parametrize("cell", ["two", "1.5", "-1", "0", "nan", "inf", "1e300", "2;3"])
def test_a_cell_that_is_no_count_is_a_reason_and_no_crash(cell):
    with pytest.raises(NotModelled, match=r"layers is .*, not a (count|number)"):
        row(layers=cell).count("layers")
    with pytest.raises(NotModelled):
        run_of(row(layers=cell))


def test_a_blank_cell_is_its_default():
    assert row(cp="").count("CP", 1) == 1
    assert row(cp="").number("cp") == 0.0
    assert row(layers="8.0").count("layers") == 8


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        ({}, 1.5),
        ({"iter_time_s": "", "iter_time_s_derived": "2"}, 2.0),
        ({"iter_time_s": "", "tokens_per_s_per_gpu": "1024"}, 64 * 1024 / (1024 * 16)),
        ({"iter_time_s": "", "tokens_per_s": "1024"}, 64.0),
    ],
)
def test_a_step_is_measured_as_timed_as_derived_or_by_its_tokens(cells, seconds):
    assert row(**cells).measured_s == seconds


def test_a_row_without_a_time_says_so():
    with pytest.raises(NotModelled, match="no time, rate of tokens or counted FLOP/s is given"):
        run_of(row(iter_time_s=""))


def test_what_a_row_lacks_is_named():
    with pytest.raises(NotModelled, match="incomplete: hidden, TP not given"):
        run_of(row(hidden="", tp=""))


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("vTrain (MICRO24) data/ground_truth_multi.csv", "vTrain, many nodes"),
        ("pytorch/torchtitan benchmarks/x.md", "TorchTitan (FSDP)"),
        ("Some et al. 2030 (VENUE), arXiv:1", "Some et al. 2030"),
        ("x" * 90, "x" * 30),
    ],
)
def test_publishers_are_called_by_a_few_words(source, name):
    assert row(source=source).publisher == name


@pytest.mark.parametrize(
    ("words", "container"),
    [("Table 2, 26.02 container", (26, 2)), ("25.11.01 container notes", (25, 11)), ("", (0, 0)), ("26.x", (0, 0))],
)
def test_containers_are_read_where_they_are_told(words, container):
    assert row(source_location=words).container == container


@pytest.mark.parametrize(
    ("gpu", "chip", "num_domain", "port_gb_per_s"),
    [
        ("A100-80GB SXM", "a100-80gb-sxm", 8, 25),
        ("A100-40GB SXM, 4x100G", "a100-40gb-sxm", 8, 6.25),
        ("DGX-H100", "h100-sxm", 8, 50),
        ("H100-96GB HBM2e SXM 500W", "h100-96gb-500w", 8, 50),
        ("DGX-GB300", "gb300", 72, 100),
        ("DGX-B200", "b200", 8, 50),
    ],
)
def test_machines_are_known_by_the_words_of_their_column(gpu, chip, num_domain, port_gb_per_s):
    found = machine_of(row(gpu=gpu))
    assert (found.chip.name, found.num_domain) == (chip, num_domain)
    assert found.port_bytes_per_s == pytest.approx(port_gb_per_s * GIGA)
    assert BITS_PER_BYTE * found.port_bytes_per_s >= 50 * GIGA


def test_a_chip_that_no_catalogue_has_is_a_reason():
    with pytest.raises(NotModelled, match="no chip is known by 'TPU v3'"):
        machine_of(row(gpu="TPU v3"))


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        ({"n_gpus": "8"}, [8]),
        ({"n_gpus": "64"}, [8, 8]),
        ({"n_gpus": "12"}, [6, 2]),
        ({"n_gpus": "24", "tp": "6"}, [6, 4]),
    ],
)
def test_devices_come_in_whole_domains_that_hold_model_parallel_groups_whole(changes, sizes):
    dimensions = cluster_of(row(**changes)).topology.dimensions
    assert [dimension.num_devices for dimension in dimensions] == sizes


def test_a_gpt_pads_its_vocabulary_to_its_tensor_ranks():
    assert model_of(row()).vocab == 50_432  # 50,257 words to a multiple of 2 x 128
    assert model_of(row(vocab="1000", tp="1")).vocab == 1024


def test_mixtures_are_known_by_their_name_and_cut_to_the_rows_depth():
    shape = model_of(row(model="DeepSeekV3", layers="4", hidden="7168", heads="128", vocab="129280"))
    experts = Experts(num_experts=256, num_experts_per_token=8, width=2048, shared_width=2048)
    assert shape.experts == replace(experts, num_groups=8, num_groups_per_token=4)
    assert (shape.num_layers, shape.num_dense_layers, shape.hidden) == (4, 3, 7168)
    assert shape.latent is not None
    one = model_of(row(model="Qwen3_30B", layers="1"))
    assert one.num_dense_layers == 0


def test_hybrids_are_a_reason():
    with pytest.raises(NotModelled, match="hybrid"):
        model_of(row(model="Nemotron_3_Nano"))


@pytest.mark.parametrize(
    ("cells", "attention", "kernels", "compute"),
    [
        ({"framework": "Megatron-LM"}, "unfused", "fused", "fp16"),
        ({"framework": "Composer FSDP + FlashAttention", "precision": "amp_bf16"}, "flash-1", "classic", "bf16"),
        (
            {"framework": "torchtitan", "precision": "bf16", "notes": "local batch 2; compile"},
            "flash-2",
            "compiled",
            "bf16",
        ),
        ({"framework": "NeMo/Megatron-Core", "precision": "fp8"}, "flash", "fused", "fp8"),
        ({"framework": "Megatron-Bridge", "precision": "NVFP4"}, "flash", "fused", "fp4"),
        ({"framework": "something new", "precision": "bf16"}, "flash", "fused", "bf16"),
    ],
)
def test_software_is_taken_from_the_framework(cells, attention, kernels, compute):
    stack = stack_of(row(**cells))
    assert (stack.attention, stack.kernels, stack.precision.compute) == (attention, kernels, compute)


def test_hosts_wait_for_the_routing_of_mixtures_until_graphs_need_no_host():
    cells = {"framework": "Megatron-Bridge", "model": "DeepSeekV3", "ep": "8", "precision": "bf16"}
    before, since = (
        stack_of(row(**cells, source_location=f"{year}.{month:02} container"))
        for year, month in ((26, 4), GRAPHED_SINCE)
    )
    assert not before.overlap.routing
    assert since.overlap.routing
    assert since.overlap.expert
    assert before.dispatcher == "hybridep"
    assert since.dispatcher == "hybridep"
    dropping = stack_of(row(**cells | {"model": "DeepSeekV3 (tokendrop)"}))
    assert dropping.overlap.routing
    assert dropping.dispatcher == "all-to-all"


@pytest.mark.parametrize(
    ("model", "gpu", "container", "is_once"),
    [
        ("Qwen3_235B", "DGX-B200", "26.02", False),
        ("Qwen3_235B", "DGX-GB200", "26.02", True),
        ("Qwen3_30B", "DGX-H100", "26.02", True),
        ("GPT OSS 120B", "DGX-GB300", "26.04", False),
        ("GPT OSS 120B", "DGX-GB300", "26.06", True),
        ("GPT OSS 120B", "DGX-B300", "26.04", True),
    ],
)
def test_dispatchers_of_mixtures_are_those_of_their_recipes(model, gpu, container, is_once):
    cells = {"framework": "Megatron-Bridge", "model": model, "gpu": gpu, "ep": "8", "precision": "bf16"}
    assert stack_of(row(**cells, source_location=f"{container} container")).dispatcher == (
        "hybridep" if is_once else "all-to-all"
    )


def test_exchange_runs_beside_compute_where_a_recipe_says_so():
    cells = {"framework": "Megatron-Bridge", "model": "Qwen3_235B", "ep": "8", "source_location": "26.02 container"}
    beside, waiting = (stack_of(row(**cells, gpu=gpu)).overlap for gpu in ("DGX-H100", "DGX-B200"))
    assert (beside.expert, waiting.expert) == (True, False)
    assert not beside.routing


def test_bloom_launches_block_and_others_do_not():
    bloom = stack_of(row(framework="Megatron-DeepSpeed", source="BigScience tr11"))
    other = stack_of(row(framework="Megatron-DeepSpeed"))
    assert not bloom.overlap.host
    assert other.overlap.host


@pytest.mark.parametrize(
    ("cells", "told"),
    [({"zero_stage": "x"}, "zero_stage is 'x', not 0 to 3"), ({"zero_stage": "-1"}, "zero_stage is '-1', not 0 to 3")],
)
def test_a_zero_stage_that_is_none_is_a_reason(cells, told):
    with pytest.raises(NotModelled) as found:
        run_of(row(**cells))
    assert told in str(found.value)


def test_plans_say_what_rows_say_and_conventions_the_rest():
    plan = plan_of(row(zero_stage="1 (optimizer)"), stack_of(row()))
    assert (plan.tensor_parallel, plan.pipeline_parallel, plan.data_parallel) == (2, 2, 4)
    assert (plan.zero_stage, plan.recompute, plan.microbatch) == (1, ("full",), 2)
    assert not plan.sequence_parallel
    titan = row(framework="torchtitan", recompute="selective (op)", precision="bf16")
    assert plan_of(titan, stack_of(titan)).recompute == ("selective-op",)
    assert plan_of(titan, stack_of(titan)).sequence_parallel


@pytest.mark.parametrize(
    ("cells", "interleave"),
    [
        ({"virtual_stages": "4"}, 4),
        ({"virtual_stages": "16"}, 4),  # no more chunks than layers of a stage
        ({"virtual_stages": "4", "global_batch": "24"}, 1),  # three microbatches do not come in rounds of two
        ({"pp_schedule": "interleaved 1F1B"}, 2),
        ({"pp": "1", "virtual_stages": "4"}, 1),
    ],
)
def test_chunks_are_as_many_as_layers_and_microbatches_allow(cells, interleave):
    assert plan_of(row(**cells), stack_of(row())).interleave == interleave


def test_a_run_is_timed_and_fits():
    found = timed(run_of(row()))
    assert 0.05 < found.step_s < 5
    assert found.fits
    assert found.is_complete


def test_runs_that_are_timed_together_are_timed_as_alone():
    rows = [row(row_id=str(index), tp=tp, pp=pp) for index, (tp, pp) in enumerate((("1", "2"), ("2", "2"), ("4", "1")))]
    found, skipped = timed_rows(rows)
    assert not skipped
    assert [one.run.name for one in found] == ["0", "1", "2"]
    assert [one.step_s for one in found] == pytest.approx(
        [timed(run_of(one)).step_s for one in rows], rel=1e-12
    )  # style: same


def test_a_microbatch_that_is_not_stated_is_the_fastest_of_a_few_that_fits():
    [found], skipped = timed_rows([row(micro_batch="")])
    assert not skipped
    assert not found.is_complete
    sizes = ("1", "2", "4", "8")
    tried = [timed(run_of(row(micro_batch=size))) for size in sizes]
    assert found.step_s == min(one.step_s for one in tried if one.fits)


def test_rows_that_cannot_be_said_are_counted_with_the_reason():
    rows = [row(), row(quality="figure_approx"), row(tp="3"), row(recompute="some"), row(n_gpus="17"), row(heads="")]
    found, skipped = timed_rows(rows)
    assert len(found) == 1
    assert sum(skipped.values()) == 5
    assert skipped["rows read off a figure"] == 1
    assert any("tensor_parallel=3" in reason for reason in skipped)
    assert skipped["rows not expressed: incomplete: heads not given"] == 1


def test_a_plan_that_cannot_cut_the_model_is_refused_alone():
    with pytest.raises(InvalidInput, match=r"num_heads|tensor_parallel"):
        timed(run_of(row(tp="3", n_gpus="24", pp="1")))


def test_a_table_of_runs_sets_those_apart_that_do_not_state_their_microbatch():
    whole, apart = prepare(table({}, {"row_id": "r2", "micro_batch": ""}), TableContext())
    assert (whole.whats, apart.whats) == (("r1",), ("r2",))
    assert whole.kinds == ("A lab",)
    assert whole.promise
    assert not apart.promise
    assert [decision.fits for decision in whole.decisions] == [True]
    silent = prepare(table({"recompute": ""}), TableContext())[0]
    assert silent.decisions == ()  # what is kept is not known, so neither is what fits


def test_runs_of_one_group_differ_by_their_plan():
    first, second, third = (run_of(one).group for one in (row(), row(tp="4"), row(global_batch="128")))
    assert first == second != third
    assert replace(run_of(row()), name="x").setting == run_of(row()).setting
