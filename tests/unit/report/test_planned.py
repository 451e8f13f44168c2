"""What is said of the plans that were found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from dovetail.files.residuals import load_residuals
from dovetail.hardware.clusters import clusters
from dovetail.parallel.plan import Plan
from dovetail.report.figures import part_text, record_of, table_of, tables_of
from dovetail.report.labels import likely
from dovetail.report.launchers.framework_bests import FrameworkBest, framework_list
from dovetail.report.launchers.nearest import Cost
from dovetail.report.launchers.runnable import Runnable, runnable, runnable_notes, runners
from dovetail.report.planned import PlanReportContext, notes, planned_figures, proof, sentence
from dovetail.report.ranked import best_faster_probability, ranking_list
from dovetail.report.table import WIDTH, text_of
from dovetail.search.objectives import objectives
from dovetail.search.planners.constraints import Constraint, space_under
from dovetail.search.planners.planner import search_plans
from dovetail.search.planners.ranking import Choice, NothingFits, Question, choice, cluster_usd
from dovetail.units import GIBI, format_rounded_s, format_s
from dovetail.workload.models import models
from dovetail.workload.workload import Workload
from tests.messages import holds

OWN = Plan(tensor_parallel=4, sequence_parallel=True, data_parallel=2, recompute=("full",))
TOLD = PlanReportContext(name="a job", commands=("dovetail simulate " + "--very-long-option " * 6,))


@cache
def found(
    objective: str = "time",
    given: tuple[Plan, ...] = (),
    model: str = "llama3-8b",
    tensor: tuple[int, ...] = (1, 2, 4, 8),
) -> Choice | NothingFits:
    workload = Workload(model=models[model](), global_batch=16, seq=2048)
    cluster, wanted = clusters["dgx-h100"].build(8), objectives[objective]
    kept = {"zero_stage": (1, 2), "tensor_parallel": tensor, "context_parallel": (1,), "interleave": (1,)}
    wishes = tuple(Constraint(key=key, values=values, where=f"--fix {key}") for key, values in kept.items())
    question = Question(
        workload=workload,
        cluster=cluster,
        objective_name=objective,
        objective=wanted,
        constraints=wishes,
        space=space_under(wishes, workload.training_graph(), cluster.num_devices),
        given=given,
    )
    usd = cluster_usd(cluster, wanted)
    searched = search_plans(
        workload,
        cluster,
        question.space,
        wanted,
        num_best=4,
        cluster_usd=usd,
        progress=lambda *_: None,
        is_even_only=True,
    )
    return choice(question, searched)


def chosen(objective: str = "time", given: tuple[Plan, ...] = ()) -> Choice:
    result = found(objective, given)
    assert isinstance(result, Choice)
    return result


def answers(result: Choice) -> tuple[tuple[Runnable, ...], ...]:
    question = result.question
    return tuple(runnable(question.workload, question.cluster, one.candidate.plan) for one in result.ranking)


def proof_lines(result):
    return tuple(map(part_text, proof(result)))


def ranking_table(result):
    return table_of(ranking_list(result, answers(result)))


@pytest.mark.parametrize("objective", ["time", "tokens/s/$", "tokens/J", "headroom"])
def test_every_line_fits_the_page_and_the_best_comes_first(objective):
    result = chosen(objective, (OWN,))
    text = text_of(tables_of(planned_figures(result, answers(result), TOLD)))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    places = [row[0] for row in ranking_table(result).rows]
    assert places == ["1", "2", "3", "4", "own"]
    scores = [one.candidate.score for one in result.ranking]
    assert scores == sorted(scores)
    assert "best" in ranking_table(result).rows[0]


def test_the_users_own_plan_is_ranked_and_what_it_loses_by_is_said():
    result = chosen(given=(OWN,))
    own = result.ranking[-1]
    assert own.is_given
    assert own.over_best_frac == pytest.approx(own.candidate.step_s / result.best.step.step_s - 1)
    assert f"your own plan is {own.over_best_frac:.1%}".replace("%", " %") in sentence(result)
    assert sum(loss.over_best_frac for loss in own.breakdown) == pytest.approx(own.over_best_frac, rel=1e-6)
    assert own.breakdown[0].component == "tp"


def test_with_evidence_times_are_rounded_and_the_own_plan_has_its_chance():
    result = chosen(given=(OWN,))
    own, step_s = result.ranking[-1], result.best.step.step_s
    probability = best_faster_probability(result, own, load_residuals())
    assert probability is not None
    assert 0.5 < probability < 1
    told = sentence(result, load_residuals())
    assert told.startswith("Best plan in the model: ")
    assert f"about {format_rounded_s(step_s, 2)} per step (" in told
    assert f"behind it, and truly slower with {likely(probability)}" in told
    assert format_s(step_s) not in told


def test_a_framework_that_runs_no_plan_is_a_row_among_those_that_do():
    best = next(one.candidate for one in chosen().ranking if not one.breakdown)
    runs = FrameworkBest(framework="megatron-lm", version="0.1", candidates=(best,), fit_probability=0.97)
    none = FrameworkBest(framework="deepspeed", version="0.2", refusal="deepspeed has no tp")
    table = table_of(framework_list((none, runs), best))
    assert [row[0] for row in table.rows] == ["megatron-lm", "deepspeed"]
    assert table.rows[1][2:] == ("-", "-", "-", "-")


def test_every_plan_but_the_best_has_the_chance_that_the_best_is_faster():
    result, told = chosen(given=(OWN,)), replace(TOLD, residuals=load_residuals())
    record = record_of(planned_figures(result, answers(result), told))
    first, *others = [one["best_faster_probability"] for one in record["ranking"]]
    assert first is None
    assert all(0.5 <= one < 1 for one in others)
    assert any("truly faster than the next plan" in one for one in record["notes"])
    selection, interval = record["selection"], record["best"]["interval"]
    assert 1 < selection["num_near"] <= len(others)
    assert selection["lower_s"] == interval["lower_s"]
    assert selection["upper_s"] == interval["upper_s"]
    assert interval["upper_s"] == pytest.approx(interval["given_upper_s"] * (1 + selection["shift_frac"]))
    assert selection["shift_frac"] > 0
    assert f"widened for the choice among {selection['num_near']} close plans" in interval["sentence"]
    bare = record_of(planned_figures(result, answers(result), TOLD))
    assert [one["best_faster_probability"] for one in bare["ranking"]] == [None] * 5


def test_the_best_plan_as_the_users_own_is_said_to_be_it():
    result = chosen(given=(chosen().best.plan,))
    assert sentence(result).endswith("it is your own plan")
    assert [one.is_given for one in result.ranking] == [True, False, False, False]


def test_an_own_plan_ahead_of_the_space_is_not_hidden():
    result = found(given=(chosen().best.plan,), tensor=(4, 8))
    assert isinstance(result, Choice)
    assert result.ranking[0].is_given
    assert "ahead of it, by choices outside of the space" in sentence(result)


def test_an_own_plan_in_the_space_and_ahead_of_its_best_breaks_the_proof():
    result = chosen(given=(chosen().best.plan,))
    best, second, *rest = result.ranking
    behind = replace(best, is_given=True, over_best_frac=-0.1, breakdown=second.breakdown)
    missed = replace(result, ranking=(behind, replace(second, over_best_frac=0.0, breakdown=()), *rest), gap_frac=0.0)
    assert missed.is_proof_broken
    assert "in the space: the search missed it, so its proof does not hold; please file a bug" in sentence(missed)
    assert not any("optimal in the model" in line for line in proof_lines(missed))
    assert record_of(planned_figures(missed, answers(missed), TOLD))["proof"]["holds"] is False
    within = replace(missed, gap_frac=0.2)
    assert not within.is_proof_broken
    assert sentence(within).endswith("in the space: the search missed it, within its gap")
    other = replace(result.question, space=replace(result.question.space, zero_stage=(3,)))
    assert sentence(replace(missed, question=other)).endswith("ahead of it, by choices outside of the space")


def test_an_own_plan_that_does_not_fit_is_said_not_to():
    assert sentence(chosen(given=(Plan(data_parallel=8),))).endswith("your own plan does not fit")


def test_a_gap_of_nothing_is_a_proof_and_another_is_a_bound():
    result = chosen()
    counts, proven = proof_lines(replace(result, gap_frac=0.0, proof=replace(result.proof, is_even_only=False)))
    tally = result.tally
    assert holds(counts, f"{tally.num_plans:,} plans", f"{tally.num_evaluated:,}", f"{tally.num_fitting:,} fit")
    whole = replace(tally, num_evaluated=tally.num_plans)
    assert f"all evaluated, {tally.num_fitting:,} fit" in proof_lines(replace(result, tally=whole))[0]
    assert proven == "optimal in the model by time, of all plans of the space (gap 0)"
    _, even = proof_lines(replace(result, gap_frac=0.0, proof=replace(result.proof, is_even_only=True)))
    assert holds(even, "optimal in the model by time", "uniform stages", "(gap 0)")
    assert even != proven
    made = replace(result.proof, num_bases=9, num_pruned=4, num_closed=3, num_open=2)
    counts, bound = proof_lines(replace(result, gap_frac=0.0125, proof=made))
    assert holds(counts, "4 ", "3 ", "2 ")
    assert "no plan of the space is ahead by more than 1.25 %" in bound


def test_figures_of_the_ranking_stay_whole_however_many_policies_a_plan_mixes():
    result = chosen("tokens/J", (OWN,))
    many = Plan(
        tensor_parallel=4, sequence_parallel=True, context_parallel=2, pipeline_parallel=16, interleave=4,
        schedule="zb-v", data_parallel=256, expert_parallel=64, zero_stage=3, microbatch=16,
        recompute=("selective", "norm-activation", "selective-op", "full") * 4,
    )  # fmt: skip
    [last] = [one for one in result.ranking if one.is_given]
    wide = replace(last, candidate=replace(last.candidate, plan=many, step_s=14.123))
    table = ranking_table(replace(result, ranking=(*result.ranking[:-1], wide)))
    laid = text_of((table,))
    assert "..." not in laid
    assert "14.123 s" in laid
    assert "mixed" in laid
    assert max(map(len, laid.splitlines())) <= WIDTH


def test_a_table_of_every_choice_still_fits_the_page():
    result = chosen("tokens/J", (OWN,))
    many = Plan(
        tensor_parallel=4, sequence_parallel=True, context_parallel=16, pipeline_parallel=16, interleave=2,
        schedule="zb-v", data_parallel=1024, expert_parallel=64, zero_stage=3, microbatch=16, recompute=("selective",),
    )  # fmt: skip
    [last] = [one for one in result.ranking if one.is_given]
    wide = replace(last, candidate=replace(last.candidate, plan=many, step_s=123.4))
    table = ranking_table(replace(result, ranking=(*result.ranking[:-1], wide)))
    text = text_of((table,))
    assert max(len(line) for line in text.splitlines()) <= WIDTH
    assert "..." not in text
    assert "1024" in text


def test_stages_that_differ_are_written_out():
    result, uneven = chosen(), Plan(pipeline_parallel=2, data_parallel=4, layers_per_stage=(17, 15))
    best = replace(result.best, plan=replace(uneven, recompute=("full", "none"), recompute_layers=(3, 0)))
    said = notes(replace(result, best=best), answers(result))
    assert "recompute of the best plan by stage: full, none" in said
    title = sentence(replace(result, best=best))
    assert holds(title, "full recompute", "3,0", "17,15 layers")


def test_commands_over_several_lines_are_read_as_one():
    result = chosen()
    *first, last = tables_of(planned_figures(result, answers(result), TOLD))[-1].notes
    assert all(line.endswith(" \\") for line in first)
    assert " ".join(line.removesuffix(" \\") for line in (*first, last)) == TOLD.commands[0].strip()


def test_nothing_that_fits_is_told_with_the_least_need_and_its_plan():
    result = found(model="llama3-70b")
    assert isinstance(result, NothingFits)
    use = result.least.memory
    assert use.need_bytes == pytest.approx(result.tally.least_bytes)
    title = tables_of(planned_figures(result, (), TOLD))[0].title
    assert title.startswith(f"None of {result.tally.num_plans:,} plans fits: the one that needs least needs")
    said = record_of(planned_figures(result, (), TOLD))
    assert (said["feasible"], said["num_fitting"]) == (False, 0)
    assert said["excess_bytes"] == pytest.approx(use.need_bytes - use.limit_bytes)


def test_the_record_has_the_ranking_with_reasons_and_frameworks():
    result = chosen("tokens/s/$", (OWN,))
    said = record_of(planned_figures(result, answers(result), TOLD))
    assert said["ranking"][0]["step_s"] == pytest.approx(said["best"]["step_s"], rel=1e-12)
    assert [one["position"] for one in said["ranking"]] == [1, 2, 3, 4, 5]
    named = {one["framework"] for one in said["ranking"][0]["frameworks"]}
    assert named == {"deepspeed", "fsdp2", "megatron-bridge", "megatron-lm", "torchtitan"}
    assert said["constraints"][0] == {
        "key": "zero_stage", "values": [1, 2], "forbids": False, "where": "--fix zero_stage",
    }  # fmt: skip
    usd = cluster_usd(result.question.cluster, result.question.objective)
    assert said["ranking"][0]["figure"] == pytest.approx(16 * 2048 / said["best"]["step_s"] / usd)


def test_the_record_has_a_bound_only_where_time_was_bounded():
    by_time, by_energy = (
        record_of(planned_figures(one, answers(one), TOLD))["proof"] for one in (chosen(), chosen("tokens/J"))
    )
    assert by_time["bound_s"] == pytest.approx(chosen().best.step.step_s)
    assert by_energy["bound_s"] is None


def test_a_plan_that_nobody_can_run_is_named_with_the_first_that_somebody_can():
    refused = (Runnable(framework="a", refusal="no pipeline"), Runnable(framework="b", refusal="no ZeRO-3"))
    runs = (Runnable(framework="a"), Runnable(framework="b", refusal="no ZeRO-3"))
    assert list(runnable_notes(refused, (refused, refused, runs))) == [
        "a cannot run the best plan: no pipeline",
        "b cannot run the best plan: no ZeRO-3",
        "the first of the plans above that a runs as it is: number 3",
    ]
    assert "none of them can run any" in list(runnable_notes(refused, (refused,)))[-1]
    assert next(runnable_notes(runs, (runs,))) == "a can run the best plan"


def test_a_plan_that_a_framework_changes_is_another_plan_with_a_cost():
    cost = Cost(requested_step_s=10.0, step_s=11.0, need_bytes=70.0 * GIBI, limit_bytes=80.0 * GIBI)
    changed = Runnable(
        framework="a", differs=("interleave 2, written as 1",), costs=(cost,), not_expressed=("a window",)
    )
    unknown = Runnable(framework="b", differs=("offload_optimizer",))
    [first, second, *_] = runnable_notes((changed, unknown), ((changed, unknown),))
    assert holds(first, "a ", "11.000 s", "(+10.0 %)", "interleave 2, written as 1", "a window")
    by_energy = next(runnable_notes((changed,), ((changed,),), "tokens/J"))
    assert holds(by_energy, "11.000 s", "(+10.0 %)", "tokens/J")
    assert second.startswith("b runs another plan for the best one: it differs by off")


def test_the_framework_that_loses_least_goes_first_and_what_does_not_fit_goes_nowhere():
    def at(name: str, step_s: float, need_bytes: float = 1.0) -> Runnable:
        cost = Cost(requested_step_s=10.0, step_s=step_s, need_bytes=need_bytes, limit_bytes=2.0)
        return Runnable(framework=name, differs=("recompute",), costs=(cost,))

    exact, unknown = Runnable(framework="exact"), Runnable(framework="unknown", differs=("schedule",))
    refused = Runnable(framework="refused", refusal="no pipeline")
    asked = (unknown, at("slow", 12.0), at("too-big", 10.1, 3.0), refused, at("near", 10.5), exact)
    assert runners(asked) == ("exact", "near", "slow", "unknown")
