from __future__ import annotations

from dataclasses import replace

import pytest

from dovetail.evaluate import Infeasible
from dovetail.plan.plan import Overlap, Plan
from dovetail.report.assumptions import assumptions
from dovetail.report.limits import limited_by
from dovetail.report.memory import memory_table
from dovetail.report.outcome import levers_table, tables
from dovetail.report.table import WIDTH, text_of
from dovetail.report.words import counted, gain, number, one_of, plan_in_brief, seconds
from tests.unit.report.conftest import evaluated


def titles(result):
    return [table.title for table in tables(result)]


def test_an_outcome_is_told_in_five_tables(outcome):
    assert titles(outcome) == [
        "llama3-8b on 16 x h100-sxm",
        "Where the time goes, on a device of stage 3",
        "Memory of a device, GiB",
        "What limits it",
        "What this assumes",
    ]


def test_an_infeasible_plan_is_told_with_its_levers(infeasible):
    assert titles(infeasible) == [
        "Does not fit: llama3-70b on 64 x h100-sxm",
        "Memory of a device, GiB",
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


def test_levers_that_do_not_fit_are_shown_only_where_none_does(infeasible):
    fitting = replace(infeasible.levers[0], fits=True)
    over = replace(infeasible.levers[0], fits=False)
    assert len(levers_table(replace(infeasible, levers=(fitting, over))).rows) == 1
    told = levers_table(replace(infeasible, levers=(over,)))
    assert told.title == "What would help"
    assert "no single change fits" in told.notes[0]


def test_equal_neighbours_share_a_row():
    result = evaluated(Plan(pipeline_parallel=8, data_parallel=1), model="gpt2-345m", global_batch=1)
    table = memory_table(result.memory, result.workload, result.plan)
    assert [row[0] for row in table.rows] == ["0", "1-6", "7"]


def test_of_many_different_stages_the_telling_ones_are_shown():
    result = evaluated(Plan(pipeline_parallel=16, data_parallel=1), model="llama3-8b", global_batch=64)
    table = memory_table(result.memory, result.workload, result.plan)
    assert [row[0] for row in table.rows] == ["0", "14", "15"]
    assert table.notes[0] == "13 more stages lie between; --json has all"


def test_recompute_gets_a_column_only_where_stages_differ():
    plan = Plan(pipeline_parallel=2, data_parallel=4, recompute=("full", "none"))
    result = evaluated(plan)
    columns = memory_table(result.memory, result.workload, plan).columns
    assert columns[:3] == ("stage", "layers", "recompute")


def test_overlap_is_stated_for_the_axes_in_use(outcome):
    [said] = [sentence for sentence in assumptions(outcome) if "compute waits for" in sentence]
    assert said == (
        "may run beside compute: gradient reductions and parameter gathers, transfers between stages;"
        " compute waits for: tensor-parallel collectives"
    )
    waiting = replace(outcome.plan, overlap=Overlap(data=False, pipeline=False))
    assert not [s for s in assumptions(replace(outcome, plan=waiting)) if "may run beside" in s]


def test_even_and_uneven_layers_are_told_apart(outcome):
    assert "32 layers spread evenly over 4 stages, 8 a stage" in assumptions(outcome)
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
    assert "an image" in told
    assert "tokens" not in told


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (Plan(), "microbatch 1"),
        (Plan(data_parallel=8, zero_stage=3), "dp 8, ZeRO-3, microbatch 1"),
        (
            Plan(pipeline_parallel=2, interleave=2, recompute=("full", "none")),
            "pp 2, interleave 2, full and none recompute, microbatch 1",
        ),
    ],
)
def test_a_plan_in_brief_leaves_out_the_plain_decisions(plan, words):
    assert plan_in_brief(plan) == words


def test_numbers_are_said_as_people_say_them():
    assert number(524154.8) == "524,155"
    assert number(6.1234) == "6.12"
    assert seconds(0.0123, 2.0) == "0.012 s"
    assert seconds(0.0123, 0.5) == "12.300 ms"
    assert gain(-0.0) == "+0.0 %"
    assert counted(1, "microbatch") == "1 microbatch"
    assert counted(2000, "microbatch") == "2,000 microbatches"
    assert one_of("images") == "an image"
