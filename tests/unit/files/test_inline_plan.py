"""Plans in one line, by the words of several frameworks, and options in place of a plan's decisions."""

import pytest

from dovetail.api.jobs import JobRequest, job_of
from dovetail.errors import InvalidInput
from dovetail.files.inline_plan import (
    FRAMEWORK_NAMES,
    OPTIONS,
    decided_by,
    inline_plan,
    is_inline,
    overridden,
    plan_key,
)
from dovetail.parallel.plan import Plan


def job(plan="", **decisions):
    return job_of(JobRequest(model="llama3-8b", cluster="h100x64", plan=plan, **decisions)).plan


@pytest.mark.parametrize(
    ("text", "decisions"),
    [
        ("tp=8,pp=4,zero=1", {"tensor_parallel": 8, "pipeline_parallel": 4, "zero_stage": 1}),
        ("TP8 pp4 sp", {"tensor_parallel": 8, "pipeline_parallel": 4, "sequence_parallel": True}),
        ("tensor-model-parallel-size=2, mbs = 4", {"tensor_parallel": 2, "microbatch": 4}),
        ("recompute=none,full,pp=2", {"recompute": ["none", "full"], "pipeline_parallel": 2}),
        ("cp=2,cp_comm_type=p2p", {"context_parallel": 2, "context_comm_type": "ring"}),
        ("overlap.tensor=on,overlap.data=false", {"overlap": {"tensor": True, "data": False}}),
        ("zero3,microbatch=2", {"base": "zero3", "microbatch": 2}),
        ("axis_order=tp-cp-pp-dp", {"axis_order": ["tp", "cp", "pp", "dp"]}),
    ],
)
def test_a_line_is_read_as_the_mapping_of_a_file(text, decisions):
    assert is_inline(text)
    assert inline_plan(text) == decisions


@pytest.mark.parametrize("name", ["zero3", "plan.yaml", "some/plan", "megatron-175b"])
def test_names_and_files_are_no_lines(name):
    assert not is_inline(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tp=8,tensor_parallel=4", "tensor_parallel is given twice, as tp and tensor_parallel; keep one"),
        ("tp=8,gbs=512", "'gbs' is no decision of a plan; use --global-batch"),
        ("=8", "a decision is KEY=VALUE, as in tp=8; got '=8'"),
        ("tp=", "tensor_parallel needs its value, as in tensor_parallel=8"),
        ("tp=8,sp=perhaps", "sequence_parallel must be true or false; got 'perhaps'"),
        ("tp=8,recomput=full", "no decision of a plan is named 'recomput'; did you mean recompute"),
        ("tq=8", "no decision of a plan is named 'tq'"),
    ],
)
def test_what_a_line_cannot_say_is_refused_with_the_way_out(text, message):
    with pytest.raises(InvalidInput) as caught:
        inline_plan(text)
    assert caught.value.message.startswith(message)


def test_every_alias_and_every_option_is_a_field_of_a_plan():
    assert all(hasattr(Plan(), plan_key(name)) for name in (*FRAMEWORK_NAMES, *OPTIONS))
    assert all(plan_key(option) == field for option, field in OPTIONS.items())
    assert set(OPTIONS) <= set(JobRequest.__dataclass_fields__)


def test_a_line_a_mapping_and_options_decide_the_same():
    line = job("tp=4,pp=2,zero=1,sp,microbatch=2")
    mapping = job({"tp": 4, "pp": 2, "zero_stage": 1, "sp": True, "microbatch": 2})
    options = job(tp="4", pp="2", zero="1", sp=True, microbatch="2")
    value = job(Plan(data_parallel=64), tp="4", pp="2", zero="1", sp=True, microbatch="2")
    assert line == mapping == options == value
    assert line.data_parallel == 8


def test_an_option_goes_before_the_plan_and_data_parallelism_fills_the_cluster_again():
    own = job("tp=8,pp=2,dp=4,sp")
    changed = job(own, tp="2")
    assert (changed.tensor_parallel, changed.pipeline_parallel, changed.data_parallel) == (2, 2, 16)
    assert job(own, tp="1").sequence_parallel is False  # nothing is left to cut
    assert job(own, zero="1").data_parallel == 4


def test_layers_by_stage_go_with_the_pipeline_that_they_were_for():
    draft = {"pipeline_parallel": 2, "layers_per_stage": (20, 12), "recompute": ("full", "full"), "interleave": 2}
    assert overridden(draft, {"pipeline_parallel": 4}) == {
        "pipeline_parallel": 4,
        "recompute": ("full",),
        "interleave": 2,
    }
    assert overridden(draft, {"pipeline_parallel": 2}) == draft
    assert "interleave" not in overridden(draft, {"pipeline_parallel": 1})


@pytest.mark.parametrize(
    ("plan", "decisions", "told"),
    [
        ("tp=8", {"tp": "4"}, "--plan has tensor_parallel=8, and an option 4; keep one"),
        ("", {"tp": "3"}, "tensor_parallel=3 must divide num_heads=32; try 2 or 4 (--tp)"),
        ("", {"tp": "4,8"}, "one plan has one tensor_parallel; got '4,8'; dovetail plan and sweep"),
        ("", {"tp": "many"}, "tensor_parallel must be a whole number; got 'many' (--tp)"),
        ("", {"zero": "4"}, "zero_stage must be 0, 1, 2 or 3; got 4 (--zero)"),
        ("", {"schedule": "1f1"}, "no pipeline schedule is named '1f1'; did you mean 1f1b"),
        ("", {"dp": "3"}, "tensor x context x pipeline x data = 1 x 1 x 1 x 3 = 3 must equal"),
    ],
)
def test_contradictions_and_impossible_degrees_are_one_line(plan, decisions, told):
    with pytest.raises(InvalidInput) as caught:
        job(plan, **decisions)
    assert str(caught.value).startswith(told)


def test_options_are_read_as_their_decisions_are_typed():
    assert decided_by({"tp": "8", "sp": False, "recompute": "none,full"}) == {
        "tensor_parallel": 8,
        "sequence_parallel": False,
        "recompute": ["none", "full"],
    }
