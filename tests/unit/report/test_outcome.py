from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.evaluate import Infeasible, Outcome, evaluate
from dovetail.parallel.plan import Overlap, Plan
from dovetail.report.assumptions import UNUSED_FIGURES, assumptions
from dovetail.report.figures import FigureTable, table_of
from dovetail.report.labels import counted, gain, number, one_of, plan_in_brief, seconds
from dovetail.report.levers import excess_rows, levers_list, shorter_seq
from dovetail.report.limits import limited_by
from dovetail.report.memory import memory_tables
from dovetail.report.table import WIDTH, text_of
from dovetail.units import GIBI
from dovetail.workload.optimizer import Precision
from dovetail.workload.workload import Workload
from tests.messages import holds
from tests.unit.report.conftest import evaluated, tables


def excess(result):
    rows = table_of(FigureTable(title="excess", rows=excess_rows(result))).rows
    return {row[0]: row[1] for row in rows}


def titles(result):
    return [table.title for table in tables(result)]


def test_an_outcome_is_told_in_five_tables(outcome):
    assert titles(outcome) == [
        "llama3-8b on 16 x h100-sxm",
        "Where the time goes, on a device of stage 3",
        "Memory per device, GiB",
        "What limits it",
        "What this assumes",
    ]


def test_an_infeasible_plan_is_told_with_its_levers(infeasible):
    assert titles(infeasible) == [
        "Does not fit: llama3-70b on 64 x h100-sxm",
        "Memory per device, GiB",
        "What would make it fit",
        "What this assumes",
    ]


def test_everything_fits_in_eighty_columns(outcome, infeasible):
    for result in (outcome, infeasible):
        assert max(len(line) for line in text_of(tables(result, "a job with a name")).splitlines()) <= WIDTH


def test_what_limits_it_names_the_resource_that_helps_most(outcome):
    first = outcome.elasticities[0]
    assert limited_by(outcome).startswith(f"{first.resource}: 10 % more of it gives {gain(first.gain_frac)} throughput")


def test_a_large_bubble_is_said(outcome):
    step = replace(outcome.step, bubble_s=outcome.step.step_s / 4)
    assert limited_by(replace(outcome, step=step)).endswith("25.0 % of the step is pipeline bubble")


def test_where_nothing_helps_that_is_said(outcome):
    still = tuple(replace(e, gain_frac=0.0) for e in outcome.elasticities)
    step = replace(outcome.step, bubble_s=0.0)
    assert limited_by(replace(outcome, elasticities=still, step=step)).startswith("no single resource")


def test_waiting_that_is_the_largest_part_of_the_step_is_said_first(outcome):
    step = replace(outcome.step, bubble_s=0.83 * outcome.step.step_s, compute_s=0.1 * outcome.step.step_s)
    first = outcome.elasticities[0]
    then = f"; then {first.resource} ({gain(first.gain_frac)})"
    told = limited_by(replace(outcome, step=step))
    assert told == f"pipeline bubble, 83 % of the step: more microbatches or fewer stages{then}"
    comm = (replace(step.comm[0], exposed_s=0.6 * step.step_s), *step.comm[1:])
    told = limited_by(replace(outcome, step=replace(step, bubble_s=0.0, comm=comm)))
    assert told.startswith("tensor-parallel communication, 60 % of the step: fewer ranks")
    assert told.endswith(then)


def test_levers_that_do_not_fit_come_after_those_that_do(infeasible):
    fitting = replace(infeasible.levers[0], fits=True)
    over = replace(infeasible.levers[0], fits=False)
    assert [row[0] for row in table_of(levers_list(replace(infeasible, levers=(over, fitting)))).rows] == [
        "fits",
        "over",
    ]
    told = table_of(levers_list(replace(infeasible, levers=(over,))))
    assert told.title == "Changes tried"
    assert "nothing tried fits" in told.notes[0]


def test_the_nearest_combination_is_shown_and_named_where_nothing_fits(infeasible):
    pair = replace(infeasible.levers[0], fits=False, change="zero_stage: 3 and recompute: full")
    singles = [replace(pair, change=f"microbatch: {size}") for size in range(10)]
    found = replace(infeasible, levers=(pair, *singles))
    table = table_of(levers_list(found))
    assert table.rows[0][-1] == "zero_stage: 3 and recompute: full"
    assert table.notes[2] == "the first 8 of 11 changes that need less; JSON has all"
    nearest = excess(found)["would fit"]
    assert nearest.startswith("nothing tried does; nearest is zero_stage: 3 and recompute: full (")
    assert excess(replace(found, levers=()))["would fit"] == "nothing tried needs less"


def test_a_lever_of_two_changes_is_never_called_a_single_one(infeasible):
    pair = replace(infeasible.levers[0], fits=True, change="zero_stage: 3 and recompute: full")
    single = replace(pair, change="zero_stage: 3")
    both = replace(infeasible, levers=(pair, single))
    assert [row[-1] for row in table_of(levers_list(both)).rows] == [pair.change, "zero_stage: 3"]
    assert excess(both)["would fit"].startswith("zero_stage: 3 and recompute: full (")
    alone = replace(infeasible, levers=(pair,))
    assert table_of(levers_list(alone)).notes[0] == "no single change fits; those that do are two at a time"


def test_no_change_is_cut_short_however_long(infeasible):
    change = "pipeline_parallel: 1024, data_parallel: 1024 and recompute: full"
    table = table_of(levers_list(replace(infeasible, levers=(replace(infeasible.levers[0], change=change),))))
    words = text_of((table,)).split()
    assert all(word.strip(",") in " ".join(words) for word in change.replace(" and ", " ").split())
    assert "..." not in text_of((table,))


def test_a_shorter_sequence_is_named_where_activations_dominate(infeasible):
    long = evaluated(Plan(tensor_parallel=8), model="llama3-8b", global_batch=1, seq=524_288)
    assert isinstance(long, Infeasible)
    shorter = shorter_seq(long)
    assert excess(long)["or"] == f"a shorter seq needs less: --seq {shorter}"
    assert not isinstance(
        evaluated(Plan(tensor_parallel=8), model="llama3-8b", global_batch=1, seq=shorter), Infeasible
    )
    assert shorter_seq(infeasible) == 0  # what is too large there is the model
    assert "or" not in excess(infeasible)


def test_equal_neighbours_share_a_row():
    result = evaluated(Plan(pipeline_parallel=8, data_parallel=1), model="gpt2-345m", global_batch=1)
    table = table_of(memory_tables(result.memory, result.workload, result.plan)[0])
    assert [row[0] for row in table.rows] == ["0", "1-6", "7"]


def test_of_many_different_stages_none_is_hidden():
    result = evaluated(Plan(pipeline_parallel=16, data_parallel=1), model="llama3-8b", global_batch=64)
    table = table_of(memory_tables(result.memory, result.workload, result.plan)[0])
    assert [row[0] for row in table.rows] == ["0", "1-13", "14", "15"]
    totals = [stage.total_bytes / GIBI for stage in result.memory.stages[1:14]]
    assert table.rows[1][-1] == f"{min(totals):.1f}-{max(totals):.1f}"
    assert "--json has each" in table.notes[0]


@pytest.mark.parametrize(("num_bytes", "symbol"), [(3e6, "MiB"), (3e9, "GiB"), (3e14, "TiB"), (3e20, "PiB")])
def test_memory_is_said_in_a_unit_that_suits_the_fullest_stage(outcome, num_bytes, symbol):
    empty = dict.fromkeys(("gradients_bytes", "optimizer_bytes", "activations_bytes", "buffers_bytes"), 0.0)
    stages = tuple(replace(stage, weights_bytes=num_bytes, **empty) for stage in outcome.memory.stages)
    use = replace(outcome.memory, stages=stages)
    table = table_of(memory_tables(use, outcome.workload, outcome.plan)[0])
    assert table.title == f"Memory per device, {symbol}"
    assert max(len(cell) for row in table.rows for cell in row) < 10


def test_recompute_gets_a_column_only_where_stages_differ():
    plan = Plan(pipeline_parallel=2, data_parallel=4, recompute=("full", "none"))
    result = evaluated(plan)
    columns = table_of(memory_tables(result.memory, result.workload, plan)[0]).columns
    assert columns[:3] == ("stage", "layers", "recompute")


def test_overlap_is_stated_for_the_axes_in_use(outcome):
    [said] = [sentence for sentence in assumptions(outcome) if "tensor-parallel collectives" in sentence]
    assert holds(said, "gradient reductions and parameter gathers", "between stages", "tensor-parallel collectives")
    waiting = replace(outcome.plan, overlap=Overlap(data=False, pipeline=False))
    [waits] = [s for s in assumptions(replace(outcome, plan=waiting)) if "tensor-parallel collectives" in s]
    assert len(waits.split(":")) < len(said.split(":"))  # nothing overlaps, so one list is left


def test_even_and_uneven_layers_are_told_apart(outcome):
    assert "32 layers spread evenly over 4 stages, 8 per stage" in assumptions(outcome)
    uneven = replace(outcome, plan=replace(outcome.plan, layers_per_stage=(7, 9, 9, 7)))
    assert "32 layers over 4 stages: 2 with 7, 2 with 9; as the plan says" in assumptions(uneven)


def test_a_vocabulary_that_does_not_divide_is_said_to_be_padded(outcome):
    result = evaluated(Plan(tensor_parallel=8), model="gpt2-345m", global_batch=1)
    assert "lm_head's 50,257 columns are padded to 50,264 for tensor_parallel=8" in assumptions(result)
    assert not [s for s in assumptions(outcome) if "padded" in s]


def test_balanced_experts_are_said_where_there_are_experts(outcome):
    result = evaluated(Plan(pipeline_parallel=4, data_parallel=8, expert_parallel=8), model="mixtral-8x7b")
    assert [s for s in assumptions(result) if s.startswith("experts are balanced")]
    assert not [s for s in assumptions(outcome) if "experts" in s]


def test_images_are_counted_as_images():
    result = evaluated(Plan(data_parallel=8, microbatch=8), model="resnet-50")
    assert not isinstance(result, Infeasible)
    told = text_of(tables(result))
    assert "images/s" in told
    assert "per image" in told
    assert "tokens" not in told


def said(result, words):
    return [sentence for sentence in assumptions(result) if words in sentence]


def test_a_chip_that_was_not_fitted_is_not_said_to_be_fitted_on_that(outcome):
    def with_words(words):
        chip = outcome.cluster.chip
        changed = replace(chip, calibration=replace(chip.calibration, fitted_on=words))
        return said(replace(outcome, cluster=replace(outcome.cluster, chip=changed)), "of its tensor peak at best")

    assert with_words("one H200")[0].endswith("; fitted on one H200")
    assert with_words("not fitted: taken from another")[0].endswith("; not fitted: taken from another")
    assert with_words("given in my.yaml")[0].endswith("; given in my.yaml")


def test_attention_is_spoken_of_only_where_there_is_some(outcome):
    images = evaluated(Plan(data_parallel=8, microbatch=8), model="resnet-50")
    assert [s for s in said(images, "attention") if "fitted on" not in s] == []
    assert "fused kernels" in assumptions(images)
    assert "flash attention and fused kernels" in assumptions(outcome)


def test_what_mfu_and_hfu_count_is_said_where_they_count_differently(outcome):
    assert len(said(outcome, "MFU counts the pairs that attention's mask leaves, HFU what is executed")) == 1
    assert said(evaluated(Plan(data_parallel=8), model="bert-large"), "MFU") == []


def test_key_value_heads_held_more_than_once_are_said(outcome):
    wide = evaluated(Plan(tensor_parallel=16, sequence_parallel=True), global_batch=1)
    sentence = "8 key-value heads are repeated over tensor_parallel=16 ranks: 2 ranks hold each"
    assert sentence in assumptions(wide)
    assert said(outcome, "key-value heads") == []


def test_the_length_of_a_sample_is_said_where_it_is_the_models_own(outcome):
    assert said(outcome, "8,192 tokens per sample (--seq)")
    assert not said(replace(outcome, workload=replace(outcome.workload, seq=4096)), "tokens per sample (--seq)")


def test_what_is_as_by_default_is_assumed(outcome):
    plain = replace(outcome, workload=Workload(model=outcome.workload.model, global_batch=1024, seq=8192))
    assert said(plain, "as by default: global batch 1,024 (--global-batch); 8,192 tokens per sample (--seq); products")
    other = replace(plain.workload, global_batch=512, precision=Precision(compute="fp8", optimizer="sgd"))
    assert not said(replace(plain, workload=other), "global batch")
    assert not said(replace(plain, workload=other), "products in")


def test_what_a_model_notes_is_among_the_assumptions(outcome):
    model = replace(outcome.workload.model, notes=("further heads are left out",))
    assert said(replace(outcome, workload=replace(outcome.workload, model=model)), "further heads are left out")


def test_figures_that_change_nothing_are_said_to(outcome):
    def told(*given):
        chip = replace(outcome.cluster.chip, sources=tuple((path, "given in my.yaml") for path in given))
        return said(replace(outcome, cluster=replace(outcome.cluster, chip=chip)), "changes nothing")

    [one] = told("tensor.num_rows", "interconnect_bytes_per_s")
    assert holds(one, "h100-sxm", "tensor.rows, interconnect")
    assert told("die.node_m", "year")
    assert told("year", "hbm.capacity_bytes") == []
    assert told("clock_hz") == told("tdp_w") == told("sram.bandwidth_bytes_per_s") == []
    assert told() == []


def step_of(workload, cluster, plan):
    result = evaluate(workload, cluster, plan)
    assert isinstance(result, Outcome)
    return result.step


def energy_row(result):
    return next(row[1] for row in tables(result)[0].rows if row[0] == "energy")


def changed(value, path, factor):
    """`value` with the figure at a dotted path multiplied."""
    name, _, rest = path.partition(".")
    part = getattr(value, name)
    return replace(value, **{name: changed(part, rest, factor) if rest else type(part)(part * factor)})


@pytest.mark.parametrize("path", sorted(UNUSED_FIGURES))
def test_figures_that_are_said_to_change_nothing_do_not(outcome, path):
    cluster = replace(outcome.cluster, chip=changed(outcome.cluster.chip, path, 2))
    assert step_of(outcome.workload, cluster, outcome.plan) == outcome.step


@pytest.mark.parametrize(
    "path",
    [
        "tdp_w",
        "vector.peak_flop_per_s",
        "sram.capacity_bytes",
        "sram.bandwidth_bytes_per_s",
        "hbm.bandwidth_bytes_per_s",
        "calibration.wait_s",
        "calibration.fill_s",
        "energy.tensor_j_per_flop",
        "energy.sram_j_per_byte",
    ],
)
def test_figures_that_are_not_said_to_change_nothing_do(outcome, path):
    cluster = replace(outcome.cluster, chip=changed(outcome.cluster.chip, path, 0.5))
    assert step_of(outcome.workload, cluster, outcome.plan) != outcome.step


@pytest.mark.parametrize("path", ["clock_hz", "core_buffer_bytes", "vector.num_lanes", "calibration.host_op_s"])
def test_figures_that_only_eager_kernels_read_change_their_step(outcome, path):
    workload = replace(outcome.workload, seq=1024, kernels="eager")
    chips_of = (outcome.cluster.chip, changed(outcome.cluster.chip, path, 0.5))
    steps = [step_of(workload, replace(outcome.cluster, chip=chip), outcome.plan) for chip in chips_of]
    assert steps[0] != steps[1]


def test_the_clock_that_power_leaves_is_told_where_it_is_not_the_full_one(outcome):
    told = energy_row(outcome)
    assert f", clock at {outcome.step.clock_frac:.0%}" in told.replace(" %", "%")
    full = replace(outcome, step=replace(outcome.step, clock_frac=1.0))
    assert "clock" not in energy_row(full)


def test_waiting_for_the_host_has_a_row_where_there_is_any(outcome):
    assert "waiting for the host" not in text_of(tables(outcome))
    waiting = replace(outcome, step=replace(outcome.step, host_s=0.1 * outcome.step.step_s))
    assert "waiting for the host" in text_of(tables(waiting))


def test_a_title_shows_control_characters_by_their_code(outcome):
    assert "\x1b" not in text_of(tables(outcome, "a\x1b[31mb"))


def test_what_rounds_to_nothing_is_not_said_to_bound_compute(outcome):
    step = replace(outcome.step, limits_s=(outcome.step.compute_s, 0.0, 0.0, 0.0, 0.0, 1e-9))
    told = text_of(tables(replace(outcome, step=step)))
    assert "what bounds compute: the tensor units 100.0 %\n" in told


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(), "microbatch 1"),
        (Plan(data_parallel=8, zero_stage=3), "dp 8, ZeRO-3, microbatch 1"),
        (
            Plan(pipeline_parallel=2, interleave=2, recompute=("full", "none")),
            "pp 2, interleave 2, full recompute on some stages, microbatch 1",
        ),
    ],
)
def test_a_plan_in_brief_leaves_out_the_plain_decisions(plan, words):
    assert plan_in_brief(plan) == words


def test_numbers_are_said_as_people_say_them():
    assert number(524154.8) == "524,155"
    assert number(6.1234) == "6.12"
    assert number(2.5e17) == "2.5e+17"
    assert seconds(12345.6, 1e12) == "1.235e+04 s"
    assert seconds(0.0123, 2.0) == "0.012 s"
    assert seconds(0.0123, 0.5) == "12.300 ms"
    assert gain(-0.0) == "+0.0 %"
    assert counted(1, "microbatch") == "1 microbatch"
    assert counted(2000, "microbatch") == "2,000 microbatches"
    assert one_of("images") == "an image"
