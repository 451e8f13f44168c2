"""The space section of a spec, and the words of --fix and --forbid."""

from __future__ import annotations

import pytest

from dovetail.errors import InvalidInput
from dovetail.files.job import load_open_spec, load_spec
from dovetail.files.plan_space import fixed_by, forbidden_by
from dovetail.search.planners.constraints import Constraint
from tests.unit.files.conftest import CLUSTER, PLAN, WORKLOAD

ORDER = ("tp", "cp", "dp", "pp")


def values(constraints: tuple[Constraint, ...]) -> dict[str, tuple[object, ...]]:
    return {one.key: one.values for one in constraints}


def test_a_space_fixes_choices_to_one_value_or_several(write):
    space = "space: {tp: [2, 4], recompute: none, sequence_parallel: true, overlap: {tensor: [true, false]}}\n"
    job = load_open_spec(write(WORKLOAD + CLUSTER + space))
    assert job.given == ()
    assert values(job.constraints) == {
        "tensor_parallel": (2, 4),
        "recompute": ("none",),
        "sequence_parallel": (True,),
        "overlap.tensor": (True, False),
    }
    assert job.constraints[0].where == "spec.yaml:3: space.tp"


@pytest.mark.parametrize(
    ("written", "orders"),
    [
        ("tp-cp-dp-pp", (ORDER,)),
        ("[tp, cp, dp, pp]", (ORDER,)),
        ("[tp-cp-dp-pp, pp-dp-cp-tp]", (ORDER, ORDER[::-1])),
        ("[[tp, cp, dp, pp], [pp, dp, cp, tp]]", (ORDER, ORDER[::-1])),
    ],
)
def test_an_axis_order_is_words_with_hyphens_or_a_list(write, written, orders):
    job = load_open_spec(write(f"{WORKLOAD}{CLUSTER}space: {{axis_order: {written}}}\n"))
    assert values(job.constraints) == {"axis_order": orders}


def test_a_plan_beside_a_space_is_the_users_own(write):
    job = load_open_spec(write(WORKLOAD + CLUSTER + PLAN + "space: {zero_stage: 1}\n"))
    assert [plan.tensor_parallel for plan in job.given] == [8]


def test_simulate_takes_a_spec_with_a_space(write):
    assert load_spec(write(WORKLOAD + CLUSTER + PLAN + "space: {zero_stage: 1}\n")).plan.tensor_parallel == 8


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("{recomput: none}", "no key of space is named 'recomput'; did you mean recompute?"),
        ("{recompute: nne}", "got 'nne'; did you mean none?"),
        ("{schedule: 1f2b}", "did you mean 1f1b?"),
        ("{tp: '8'}", "tensor_parallel must be a whole number; got '8'"),
        ("{tp: true}", "tensor_parallel must be a whole number; got true"),
        ("{tp: 0}", "tensor_parallel must be at least 1; got 0"),
        ("{tp: 99999999999}", "tensor_parallel must be at most 1,000,000,000"),
        ("{tp: []}", "tensor_parallel must not be empty"),
        ("{tp: [[2]]}", "tensor_parallel must be a whole number; got a list of 1"),
        ("{tp: 2, tensor_parallel: 4}", "tensor_parallel is given twice"),
        ("{zero_stage: 4}", "zero_stage must be 0, 1, 2 or 3; got 4"),
        ("{sequence_parallel: 1}", "sequence_parallel must be true or false; got 1"),
        ("{overlap: true}", "no key of space is named 'overlap'"),
        ("{overlap: {tensr: true}}", "did you mean overlap.tensor"),
        ("{overlap: {tensor: maybe}}", "overlap.tensor must be true or false; got 'maybe'"),
        ("{axis_order: [tp, cp]}", "axis_order must hold each of tp, cp, dp, pp once"),
        ("{axis_order: 3}", "axis_order must hold each of tp, cp, dp, pp once"),
        ("{stages: odd}", "stages must be even"),
        ("{forbid: [context]}", "space lists the values to choose from, as in zero_stage: [0, 1]; pass --forbid"),
        ("{fix: {tp: 8}}", "write the choice without fix"),
        ("[tp]", "space must be a mapping"),
        ("{recompute: {a: b}}", "got a mapping"),
    ],
)
def test_a_bad_space_is_refused_in_one_line_with_its_place(refusal, space, message):
    line = refusal(space=space)
    assert message in line
    assert "spec.yaml:4: space" in line


def test_words_of_the_command_line_fix_a_choice():
    assert fixed_by("tp=2,4").values == (2, 4)
    assert fixed_by("overlap.tensor=true").values == (True,)
    assert fixed_by("axis_order=tp-cp-dp-pp,tp-cp-pp-dp").values == (ORDER, ("tp", "cp", "pp", "dp"))
    assert fixed_by("recompute=full, none").values == ("full", "none")


def test_words_of_the_command_line_forbid_features_and_values():
    found = forbidden_by("tensor,zero_stage=3,schedule=gpipe")
    assert [(one.key, one.values, one.forbids) for one in found] == [
        ("tensor_parallel", (1,), False),
        ("zero_stage", (3,), True),
        ("schedule", ("gpipe",), True),
    ]


def test_several_values_of_a_key_are_forbidden_together_and_features_stay_features():
    found = forbidden_by("tp=1,2, 4,context,zero_stage=2,3")
    assert [(one.key, one.values, one.forbids) for one in found] == [
        ("tensor_parallel", (1, 2, 4), True),
        ("context_parallel", (1,), False),
        ("zero_stage", (2, 3), True),
    ]


def test_a_number_of_many_digits_is_too_large_and_not_no_number():
    with pytest.raises(InvalidInput, match="tensor_parallel must be at most 1,000,000,000"):
        fixed_by(f"tp={'9' * 30}")


@pytest.mark.parametrize("words", ["", "tp", "tp=", "=8", "tpp=8", "tp=8x", "tp=-1", "schedule=fast", "overlap=true"])
def test_words_that_fix_nothing_are_refused_at_the_option(words):
    with pytest.raises(InvalidInput) as refusal:
        fixed_by(words)
    assert refusal.value.where == f"--fix {words}"


@pytest.mark.parametrize("words", ["", "tensors", "tensor,", "tp=", "zeros=1"])
def test_words_that_forbid_nothing_are_refused_at_the_option(words):
    with pytest.raises(InvalidInput) as refusal:
        forbidden_by(words)
    assert refusal.value.where == f"--forbid {words}"


def test_what_is_offloaded_is_a_choice_like_others(write):
    space = "space: {offload_optimizer: [true, false], offload_activations_frac: 0.25}\n"
    job = load_open_spec(write(WORKLOAD + CLUSTER + space))
    assert values(job.constraints) == {"offload_optimizer": (True, False), "offload_activations_frac": (0.25,)}
    assert fixed_by("offload_optimizer=true").values == (True,)
    assert fixed_by("offload_activations_frac=0,0.5,1").values == (0.0, 0.5, 1.0)


@pytest.mark.parametrize("words", ["offload_activations_frac=1.5", "offload_activations_frac=x", "offload_optimizer=2"])
def test_what_cannot_be_offloaded_is_refused(words):
    with pytest.raises(InvalidInput, match="must be"):
        fixed_by(words)


def test_a_space_lists_how_a_sequence_is_shared(write):
    job = load_open_spec(write(f"{WORKLOAD}{CLUSTER}space: {{context_comm_type: [ring, all-to-all]}}\n"))
    assert values(job.constraints) == {"context_comm_type": ("ring", "all-to-all")}
    assert fixed_by("context_comm_type=ring").values == ("ring",)
    with pytest.raises(InvalidInput, match="context_comm_type must be one of gather, ring, all-to-all; got 'rng'"):
        fixed_by("context_comm_type=rng")
