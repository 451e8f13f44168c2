"""The plans that were found: the answer in a sentence, the best plan, and why the others lose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields

from dovetail import __version__
from dovetail.accuracy.evidence import GIVEN, WELL_KNOWN_FRAC, Interval, format_bounds, interval_of
from dovetail.accuracy.recipes import NOTHING_NEAR, Near
from dovetail.accuracy.residuals import Residual
from dovetail.evaluate import Infeasible, Outcome
from dovetail.hardware.heterogeneous import chip_names
from dovetail.parallel.plan import AXES, Plan
from dovetail.parallel.pools import framework_of
from dovetail.report.assumptions import default_sentences
from dovetail.report.figures import (
    Figure,
    Figures,
    FigureTable,
    Part,
    Phrase,
    Sentences,
    hidden,
    labelled,
    phrase,
    record_of,
    under,
)
from dovetail.report.goodput import NO_BUDGET, Budget
from dovetail.report.labels import counted, in_a_row, likely, number, percent, plan_in_brief
from dovetail.report.launchers.framework_bests import FrameworkBest, framework_list
from dovetail.report.launchers.runnable import Runnable, runnable_notes
from dovetail.report.levers import commands_table, excess_rows, levers_list
from dovetail.report.memory import memory_tables
from dovetail.report.outcome import outcome_figures, plain, plan_record, workload_record
from dovetail.report.plain import Record
from dovetail.report.pools import pool_sentences, proof_counts, proof_on_pools
from dovetail.report.ranked import best_faster_probability, ranking_list, selection_of_best
from dovetail.report.recipes import recipe_table
from dovetail.search.planners.candidates import Candidate
from dovetail.search.planners.membership import holds
from dovetail.search.planners.plan_space import MAX_INTERLEAVE, MAX_MICROBATCH
from dovetail.search.planners.ranking import SAME_FRAC, Choice, NothingFits, Question, Ranked
from dovetail.units import format_bytes, format_rounded_s, format_s

WHOLE_FRAC = 0.02  # from which on a difference is told in whole percents
BROKEN = "nothing is proven: your own plan is in the space and ahead by more than the gap that was found"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReportContext:
    """What only the edge knows: what the job is called, what to say beside, and which commands go on from here.

    `residuals` are what the interval of the best plan's time rests on. `framework` is the one that the search was kept
    to, with its release; else `bests` holds what each framework runs as printed. `near` is the nearest published run.
    """

    name: str = ""
    residuals: tuple[Residual, ...] = ()
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    budget: Budget = NO_BUDGET
    framework: str = ""
    bests: tuple[FrameworkBest, ...] = ()
    near: Near = NOTHING_NEAR


def planned_figures(
    found: Choice | NothingFits, by_place: tuple[tuple[Runnable, ...], ...], context: PlanReportContext
) -> Figures:
    """Everything known of what was found, the answer first; `by_place` is who can run each plan of the ranking."""
    if isinstance(found, NothingFits):
        return _nothing_figures(found, context)
    selection = selection_of_best(found, context.residuals) if context.residuals else GIVEN
    head, *rest = outcome_figures(found.best, context.name, context.residuals, context.budget, selection)
    looked_at = (*chance_notes(found, context.residuals), *notes(found, by_place), *context.notes)
    return (
        FigureTable(
            title=labelled("answer", sentence(found, context.residuals)),
            rows=(
                Figure("name", context.name),
                Figure("feasible", True),
                Figure("unit", found.question.objective.unit),
                Figure("gap_frac", found.gap_frac),
                Figure("num_evaluated", found.tally.num_evaluated),
                *_proof_record(found),
                *_selection_record(found, context.residuals),
            ),
            notes=proof(found),
        ),
        *under("best", (head,)),
        ranking_list(found, by_place, context.residuals),
        framework_list(context.bests, _best_candidate(found)),
        recipe_table(context.near),
        FigureTable(title="What was looked at, and who can run it", notes=(Sentences("notes", looked_at),)),
        commands_table(context.commands),
        *under("best", hidden(tuple(rest))),
        _question(found, context),
        FigureTable(rows=(Figure("commands", list(context.commands)),)),
    )


def _best_candidate(found: Choice) -> Candidate:
    """The best plan of the space with its figures."""
    return next(one.candidate for one in found.ranking if not one.breakdown)


def _proof_record(found: Choice) -> Iterator[Figure]:
    for name, value in asdict(found.proof).items():
        yield Figure(f"proof.{name}", value or None if name == "bound_s" else value)
    yield Figure("proof.holds", not found.is_proof_broken)


def _question(found: Choice | NothingFits, context: PlanReportContext) -> FigureTable:
    """What was asked, of which plans, and how many there were."""
    question, space = found.question, found.question.space
    axes = {field.name: plain(getattr(space, field.name)) for field in fields(space) if field.name != "overlap"}
    return FigureTable(
        rows=(
            Figure("objective", question.objective_name),
            Figure("rank_by_frac", question.quantile.frac),
            Figure("fastest_predicted", [_fastest_record(one) for one in _fastest(found)]),
            Figure("framework", context.framework or None),
            Figure("num_plans", found.tally.num_plans),
            Figure("num_fitting", found.tally.num_fitting),
            Figure("given_plan", lambda: [record_of(outcome_figures(result, context.name)) for result in found.given]),
            Figure(
                "constraints",
                [
                    {"key": one.key, "values": plain(one.values), "forbids": one.forbids, "where": one.where}
                    for one in question.constraints
                ],
            ),
            Figure("space", axes | {"overlap": [asdict(overlap) for overlap in space.overlap]}),
            Figure("max_microbatch", MAX_MICROBATCH),
            Figure("max_interleave", MAX_INTERLEAVE),
            Figure("workload", workload_record(question.workload)),
            Figure("cluster", {"name": question.cluster.name, "num_devices": question.cluster.num_devices}),
            Figure("chip", chip_names(question.cluster)),
            Figure("version", __version__),
        )
    )


def _fastest(found: Choice | NothingFits) -> tuple[Candidate, ...]:
    return found.fastest if isinstance(found, Choice) else ()


def _fastest_record(one: Candidate) -> Record:
    return {"step_s": one.step_s, "quantile_s": one.score, "plan": plan_record(one.plan)}


def sentence(found: Choice, residuals: Sequence[Residual] = ()) -> str:
    """The answer: the plan, what it comes to in the model, and what it gains over the user's own.

    With `residuals` times have the digits that are known, beside the interval and the chance to beat the own plan.
    """
    question = found.question
    by = "" if question.quantile.is_median else f" by the {question.quantile.words} of its time"
    best = f"Best plan in the model{by}: {plan_in_brief(found.best.plan)}; {_step_label(found, residuals)}"
    if question.objective_name != "time":
        figure = next(one.candidate.figure for one in found.ranking if not one.breakdown)
        best += f", {_figure(figure, question)}"
    own = [one for one in found.ranking if one.is_given]
    if found.given and not own:
        return f"{best}; your own plan does not fit"
    return best + "".join(_beside_own(one, found, residuals) for one in own)


def selected_interval(found: Choice, residuals: Sequence[Residual]) -> Interval:
    """Where the best plan's time lies, its upper end longer for having been chosen."""
    best, selection = found.best, selection_of_best(found, residuals)
    return interval_of(best.workload, best.cluster, best.plan, float(best.step.step_s), residuals, selection)


def _selection_record(found: Choice, residuals: Sequence[Residual]) -> Iterator[Figure]:
    if residuals:
        interval = selected_interval(found, residuals)
        yield Figure("selection.num_near", interval.selection.num_near)
        yield Figure("selection.shift_frac", interval.selection.shift_frac)
        yield Figure("selection.lower_s", interval.lower_s)
        yield Figure("selection.upper_s", interval.upper_s)


def _step_label(found: Choice, residuals: Sequence[Residual]) -> str:
    """Seconds of a step, and between which they lie, to the digits that are known."""
    step_s = float(found.best.step.step_s)
    if not residuals:
        return f"{format_s(step_s)} per step"
    interval = selected_interval(found, residuals)
    is_known_well = interval.upper_s <= (1 + WELL_KNOWN_FRAC) * step_s
    about, between = format_rounded_s(step_s, 3 if is_known_well else 2), interval.bounds
    return f"about {about} per step ({between} in nine of ten runs)"


def _beside_own(own: Ranked, found: Choice, residuals: Sequence[Residual]) -> str:
    if not own.breakdown:
        return "; it is your own plan"
    if own.over_best_frac >= -SAME_FRAC:
        over_frac = max(0.0, own.over_best_frac)
        probability = best_faster_probability(found, own, residuals)
        if probability is None:
            return f"; your own plan is {percent(over_frac)} behind it"
        behind = percent(over_frac, 0 if over_frac >= WHOLE_FRAC else 1)
        return f"; your own plan is {behind} behind it, and truly slower with {likely(probability)}"
    ahead = f"; your own plan is {percent(-own.over_best_frac)} ahead of it"
    if own not in found.missed:
        return f"{ahead}, by choices outside of the space"
    if found.is_proof_broken:
        return f"{ahead} and in the space: the search missed it, so its proof does not hold; please file a bug"
    return f"{ahead} and in the space: the search missed it, within its gap"


def _figure(figure: float, question: Question) -> str:
    unit = question.objective.unit
    if question.objective.aspect == "memory":
        return unit.replace("bytes", format_bytes(figure), 1)
    return f"{number(figure)} {unit}"


def proof(found: Choice) -> tuple[Phrase, ...]:
    """How many plans there were, and how good the best is known to be."""
    tally, made = found.tally, found.proof
    objective: Part = labelled("objective", found.question.objective_name)
    if not found.question.quantile.is_median:
        objective = phrase("the {} of {}", found.question.quantile.words, objective)
    if found.best.plan.stage_pools:
        lines = proof_on_pools(found)
        return (lines[0], phrase(BROKEN)) if found.is_proof_broken else lines
    plans = Figure("num_plans", tally.num_plans, counted(tally.num_plans, "plan"))
    fitting = Figure("num_fitting", tally.num_fitting, f"{tally.num_fitting:,}")
    evaluated = Figure("num_evaluated", tally.num_evaluated, f"{tally.num_evaluated:,}")
    counts = phrase("{} with uniform stages, all evaluated, {} fit", plans, fitting)
    if tally.num_evaluated < tally.num_plans:
        message = "{} with uniform stages; {} that a bound does not rule out evaluated, {} fit"
        counts = phrase(message, plans, evaluated, fitting)
    if made.num_bases:
        counts = phrase(
            "{}; of {} with layers and recompute by stage left open {} cannot be better by a bound, {} were cut again"
            " and have none better, {} are still open",
            counts,
            *proof_counts(found),
        )
    if found.is_proof_broken:
        return counts, phrase(BROKEN)
    gap = Figure("gap_frac", found.gap_frac, "0" if found.gap_frac <= 0 else percent(found.gap_frac, 2))
    if found.gap_frac <= 0 and made.is_even_only:
        message = "optimal in the model by {}, of all plans with uniform stages (gap {}); others were not searched"
        return counts, phrase(message, objective, gap)
    if found.gap_frac <= 0:
        return counts, phrase("optimal in the model by {}, of all plans of the space (gap {})", objective, gap)
    return counts, phrase("no plan of the space is ahead by more than {} (gap, by {})", gap, objective)


def chance_notes(found: Choice, residuals: Sequence[Residual]) -> Iterator[str]:
    """How likely the best plan truly beats the one behind it: what is optimal in the model need not be in the world."""
    yield from _quantile_notes(found)
    behind = next((one for one in found.ranking if one.breakdown and not one.is_given), None)
    if behind is not None and (probability := best_faster_probability(found, behind, residuals)) is not None:
        next_plan = f"the next plan ({plan_in_brief(behind.candidate.plan)})"
        yield f"truly faster than {next_plan} with {likely(probability)}, by errors on published pairs"


def selection_sentences(found: Choice, residuals: Sequence[Residual]) -> Iterator[str]:
    """Why the interval is widened, and what it would be without; nothing where no other plan is close."""
    if not residuals or found.question.workload.is_forward_only:
        return
    interval = selected_interval(found, residuals)
    if (num_near := interval.selection.num_near) > 1:
        longer = percent(interval.selection.shift_frac, 0)
        given = format_bounds(interval.lower_s, interval.given_upper_s)
        yield (
            f"The best of {num_near} plans within our error of each other is likely one that is predicted too short, so"
            f" the upper end of its interval is {longer} longer: {given} is the interval of the same plan, had it been"
            " given."
        )


def _quantile_notes(found: Choice) -> Iterator[str]:
    """What ranking by a quantile is, and which plan is predicted fastest where that is another one."""
    quantile = found.question.quantile
    if quantile.is_median:
        return
    by = f"ranked by the {quantile.words} of each plan's time"
    yield f"{by}: predicted, times how far published runs of its kind are off"
    for fastest in found.fastest:
        if fastest.plan != found.best.plan:
            times = f"{format_s(fastest.step_s)}, {quantile.words} {format_rounded_s(fastest.score, 3)}"
            yield f"the fastest as predicted is {plan_in_brief(fastest.plan)} ({times})"


def notes(found: Choice, by_place: tuple[tuple[Runnable, ...], ...]) -> tuple[str, ...]:
    """Sentences: what was looked at, where axes lie, and who can run the best plan."""
    order = found.best.plan.axis_order
    placed = () if order == AXES else (f"the best plan's axes, innermost first: {', '.join(order)} (axis_order)",)
    return (
        *default_sentences(found.question.workload),
        *space_notes(found.question),
        *_even_notes(found),
        *placed,
        *pool_sentences(found.best),
        *_stage_notes(found.best.plan),
        *runnable_notes(of_best(found, by_place), by_place, found.question.objective_name),
    )


def of_best(found: Choice, by_place: tuple[tuple[Runnable, ...], ...]) -> tuple[Runnable, ...]:
    """Who can run the best plan, of who can run each plan of the ranking."""
    [best] = [answers for one, answers in zip(found.ranking, by_place, strict=True) if not one.breakdown]
    return best


def _even_notes(found: Choice) -> Iterator[str]:
    if found.proof.is_even_only and found.question.objective.aspect != "time":
        yield f"by {found.question.objective_name} only plans whose stages are uniform were looked at"


def _stage_notes(plan: Plan) -> Iterator[str]:
    """What the brief words of a plan leave out of its stages."""
    if len(set(plan.recompute)) > 1:
        yield f"recompute of the best plan by stage: {in_a_row(plan.recompute)}"


def space_notes(question: Question) -> Iterator[str]:
    """Sentences: what the user fixed, and what limits the rest of the space."""
    if question.constraints:
        yield f"kept to: {'; '.join(one.words for one in question.constraints)}"
    space = question.space
    limits = [] if space.microbatch else [f"microbatches of up to {MAX_MICROBATCH} samples"]
    limits += [] if space.interleave else [f"interleave of up to {MAX_INTERLEAVE}"]
    limits += [f"{'schedules' if len(space.schedule) > 1 else 'schedule'} {', '.join(space.schedule)}"]
    yield f"looked at: {', '.join(limits)}; --fix KEY=VALUE,VALUE looks at others"


def _nothing_figures(found: NothingFits, context: PlanReportContext) -> Figures:
    """Need against limit of the plan that needs least, and what it holds."""
    least, use = found.least, found.least.memory
    sentences = (*nothing_notes(found), *context.notes)
    has_levers = any(lever.fits for lever in least.levers)
    return (
        FigureTable(
            title=labelled("answer", nothing_sentence(found)),
            rows=(
                Figure("name", context.name),
                Figure("feasible", False),
                Figure("least.plan", plan_record(least.plan), plan_in_brief(least.plan), "plan"),
                *excess_rows(least, "least."),
                Figure("need_bytes", use.need_bytes),
                Figure("limit_bytes", use.limit_bytes),
                Figure("excess_bytes", use.need_bytes - use.limit_bytes),
            ),
        ),
        *under("least", memory_tables(use, least.workload, least.plan)),
        *under("least", (levers_list(least),) if has_levers else ()),
        FigureTable(title="What was looked at", notes=(Sentences("notes", sentences),)),
        *under("least", hidden(outcome_figures(least, context.name))),
        _question(found, context),
    )


def nothing_sentence(found: NothingFits) -> str:
    use = found.least.memory
    need = f"the one that needs least needs {format_bytes(use.need_bytes)} of {format_bytes(use.limit_bytes)} usable"
    return f"None of {counted(found.tally.num_plans, 'plan')} fits: {need}"


def nothing_notes(found: NothingFits) -> Iterator[str]:
    """Sentences: what was looked at, the user's own plan, and the way out."""
    yield from default_sentences(found.question.workload)
    yield from space_notes(found.question)
    for result in found.given:
        fits = "does not fit either" if isinstance(result, Infeasible) else "fits, by choices outside of the space"
        framework = framework_of(found.question.cluster)
        is_fitting = isinstance(result, Outcome)
        if is_fitting and holds(found.question.space, result.plan, is_even_only=True, framework=framework):
            fits = "fits and is in the space: the search missed it; please file a bug"
        yield f"your own plan, {plan_in_brief(result.plan)}, {fits}"
    loosen = "leave more to choose from, " if found.question.constraints else ""
    yield f"to make one fit: {loosen}take more devices, a shorter --seq, or a chip with more memory"
