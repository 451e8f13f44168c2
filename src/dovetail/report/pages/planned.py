"""The plans that were found as a page: the best and its proof, what it loses to none, and where its time goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dovetail.report.asked import cluster_pair, constraint_pairs, format_plan, model_pair
from dovetail.report.charts.convergence import convergence
from dovetail.report.charts.plan_scatter import plans_scatter
from dovetail.report.charts.plans import plans_compared
from dovetail.report.charts.published import MeasuredRun
from dovetail.report.charts.stage_memory import memory_by_stage
from dovetail.report.charts.trail import Mark, Trail
from dovetail.report.figures import part_text, tables_of
from dovetail.report.labels import percent, plan_in_brief
from dovetail.report.launchers.runnable import Runnable
from dovetail.report.page import Card, Page, Section
from dovetail.report.pages.simulated import (
    asked_pairs,
    assumed_sections,
    outcome_cards,
    outcome_sections,
    sure_sections,
)
from dovetail.report.planned import (
    PlanReportContext,
    nothing_sentence,
    planned_figures,
    proof,
    selection_sentences,
    sentence,
)
from dovetail.report.ranked import selection_of_best
from dovetail.search.planners.ranking import Choice, NothingFits
from dovetail.units import format_s


def planned_page(
    found: Choice | NothingFits,
    by_place: tuple[tuple[Runnable, ...], ...],
    told: PlanReportContext,
    history: Sequence[Mark] = (),
    runs: Sequence[MeasuredRun] = (),
) -> Page:
    """The first three are those of `report.planned.planned_figures`; `history` is how the search came to it, in
    seconds of a step by plans that were looked at; `runs` are published ones, to lie among.
    """
    if isinstance(found, NothingFits):
        return _nothing_page(found, by_place, told)
    _, headline, ranking, *bests, looked_at, go_on = tables_of(planned_figures(found, by_place, told))
    trail = trail_of(found, history)
    first, *others = outcome_sections(found.best)
    return Page(
        title=told.name or headline.title,
        sentence=f"{_full_sentence(found, sentence(found, told.residuals))}.",
        cards=(*outcome_cards(found.best), _proof_card(found)),
        asked=(
            *asked_pairs(found.best, has_plan=False),
            ("Objective", found.question.objective_name),
            *constraint_pairs(found.question.constraints),
        ),
        sections=(
            replace(first, title="The best plan, drawn", sentences=(f"The plan: {format_plan(found.best.plan)}.",)),
            *others,
            *_sure(found, told, runs),
            Section(
                title="What else was considered",
                charts=(*plans_scatter(found, told.residuals), plans_compared(found)),
                tables=(ranking,),
            ),
            *(Section(title=table.title, tables=(table,)) for table in bests),
            Section(title=go_on.title, code="\n".join(told.commands)),
            Section(
                title="Proof",
                sentences=(*map(part_text, proof(found)), *selection_sentences(found, told.residuals)),
                charts=(convergence(trail),) if len(trail.marks) > 1 else (),
                is_folded=True,
            ),
            Section(title="Every figure", tables=(replace(headline, title="The best plan"),), is_folded=True),
            *assumed_sections(found.best),
            Section(title=looked_at.title, tables=(looked_at,), is_folded=True),
        ),
    )


def _sure(found: Choice, told: PlanReportContext, runs: Sequence[MeasuredRun]) -> tuple[Section, ...]:
    """With the interval of a plan that was chosen, which is what the answer says."""
    if not told.residuals or found.question.workload.is_forward_only:
        return ()
    return sure_sections(found.best, told.residuals, runs, selection_of_best(found, told.residuals))


def _full_sentence(found: Choice, brief: str) -> str:
    """The answer with the best plan in words, as it is met here first."""
    plan = found.best.plan
    return brief.replace(plan_in_brief(plan), format_plan(plan), 1)


def trail_of(found: Choice, history: Sequence[Mark]) -> Trail:
    """How the search came to its answer, which is the last mark; nothing where time was not the objective."""
    marks: tuple[Mark, ...] = ()
    if found.question.objective.aspect == "time" and history:
        num_done, best_s = max(mark.num_done for mark in history), found.best.step.step_s
        marks = (*history, Mark(num_done=num_done, best=best_s, bound=best_s * (1 - found.gap_frac)))
    return Trail(
        counted="plans",
        done="evaluated or ruled out by a bound",
        unit="s per step",
        is_more_better=False,
        marks=marks,
        words=lambda step_s: f"{format_s(step_s)} per step",
    )


def _proof_card(found: Choice) -> Card:
    gap = "optimal in the model" if found.gap_frac <= 0 else f"gap {percent(found.gap_frac, 2)}"
    return Card(label="Searched", value=f"{found.tally.num_plans:,} plans", note=gap)


def _nothing_page(found: NothingFits, by_place: tuple[tuple[Runnable, ...], ...], told: PlanReportContext) -> Page:
    first, _, *more = tables_of(planned_figures(found, by_place, told))
    return Page(
        title=told.name or "No plan fits",
        sentence=f"{nothing_sentence(found)}.",
        asked=(
            model_pair(found.question.workload),
            cluster_pair(found.question.cluster),
            *constraint_pairs(found.question.constraints),
        ),
        sections=(
            Section(title="The plan that needs least", charts=(memory_by_stage(found.least),), tables=(first,)),
            *(Section(title=table.title, tables=(table,)) for table in more),
        ),
    )
