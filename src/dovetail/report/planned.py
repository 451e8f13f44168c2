"""The plans that were found, as tables: the answer in a sentence, the best plan, and why the others lose."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from dovetail.accuracy.residuals import Residual
from dovetail.evaluate import Infeasible, Outcome
from dovetail.parallel.plan import AXES, Plan
from dovetail.report.labels import counted, in_a_row, number, percent, plan_in_brief
from dovetail.report.launchers.runnable import Runnable, runnable_notes
from dovetail.report.levers import excess_rows, levers_table
from dovetail.report.memory import memory_table
from dovetail.report.outcome import headline_table
from dovetail.report.pools import pool_sentences, proof_on_pools
from dovetail.report.ranked import ranking_table
from dovetail.report.table import GAP, WIDTH, Table
from dovetail.search.planners.membership import holds
from dovetail.search.planners.plan_space import MAX_INTERLEAVE, MAX_MICROBATCH
from dovetail.search.planners.ranking import SAME_FRAC, Choice, NothingFits, Question, Ranked
from dovetail.units import format_bytes, format_s

BROKEN = "nothing is proven: your own plan is in the space and ahead by more than the gap that was found"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReportContext:
    """What only the edge knows: what the job is called, what to say beside, and which commands go on from here.

    `residuals` are what the interval of the best plan's time rests on.
    """

    name: str = ""
    residuals: tuple[Residual, ...] = ()
    notes: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


def planned_tables(
    found: Choice | NothingFits, by_place: tuple[tuple[Runnable, ...], ...], told: PlanReportContext
) -> tuple[Table, ...]:
    """Everything a person wants to know, the answer first; `by_place` is who can run each plan of the ranking."""
    if isinstance(found, NothingFits):
        return _nothing_tables(found, told)
    return (
        Table(title=sentence(found), notes=proof(found)),
        headline_table(found.best, told.name, told.residuals),
        ranking_table(found),
        _notes_table((*notes(found, by_place), *told.notes)),
        Table(title="Go on with", notes=tuple(line for command in told.commands for line in _pasted(command))),
    )


def _pasted(command: str) -> list[str]:
    """A command in lines that a shell reads as one."""
    *lines, last = textwrap.wrap(command, WIDTH - 2 * GAP, subsequent_indent="", break_on_hyphens=False)
    return [*(f"{line} \\" for line in lines), last]


def sentence(found: Choice) -> str:
    """The answer: the plan, what it comes to, and what it gains over the user's own."""
    question = found.question
    best = f"Best plan: {plan_in_brief(found.best.plan)}; {format_s(found.best.step.step_s)} per step"
    if question.objective_name != "time":
        figure = next(one.candidate.figure for one in found.ranking if not one.breakdown)
        best += f", {_figure(figure, question)}"
    own = [one for one in found.ranking if one.is_given]
    if found.given and not own:
        return f"{best}; your own plan does not fit"
    return best + "".join(_beside_own(one, found) for one in own)


def _beside_own(own: Ranked, found: Choice) -> str:
    if not own.breakdown:
        return "; it is your own plan"
    if own.over_best_frac >= -SAME_FRAC:
        return f"; your own plan is {percent(max(0.0, own.over_best_frac))} behind it"
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


def proof(found: Choice) -> tuple[str, ...]:
    """How many plans there were, and how good the best is known to be."""
    tally, made, objective = found.tally, found.proof, found.question.objective_name
    if found.best.plan.stage_pools:
        told = proof_on_pools(found)
        return (told[0], BROKEN) if found.is_proof_broken else told
    counts = f"{counted(tally.num_plans, 'plan')} with stages alike"
    if tally.num_evaluated < tally.num_plans:
        counts += f"; {tally.num_evaluated:,} that a bound does not rule out evaluated, {tally.num_fitting:,} fit"
    else:
        counts += f", all evaluated, {tally.num_fitting:,} fit"
    if made.num_bases:
        counts += (
            f"; of {made.num_bases:,} with layers and recompute by stage left open {made.num_pruned:,} cannot be"
            f" better by a bound, {made.num_closed:,} were cut anew and have none better,"
            f" {made.num_open:,} are still open"
        )
    if found.is_proof_broken:
        return (counts, BROKEN)
    if found.gap_frac <= 0 and made.is_even_only:
        return (counts, f"proven best by {objective} of all plans with stages alike (gap 0); others were not searched")
    if found.gap_frac <= 0:
        return (counts, f"proven best of the space by {objective} (gap 0)")
    return (counts, f"no plan of the space is ahead by more than {percent(found.gap_frac, 2)} (gap, by {objective})")


def notes(found: Choice, by_place: tuple[tuple[Runnable, ...], ...]) -> tuple[str, ...]:
    """Sentences: what was looked at, where axes lie, and who can run the best plan."""
    order = found.best.plan.axis_order
    placed = () if order == AXES else (f"the best plan's axes, innermost first: {', '.join(order)} (axis_order)",)
    return (
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
        yield f"by {found.question.objective_name} only plans whose stages are alike were looked at"


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


def _notes_table(sentences: tuple[str, ...]) -> Table:
    return Table(title="What was looked at, and who can run it", notes=tuple(f"- {line}" for line in sentences))


def _nothing_tables(found: NothingFits, told: PlanReportContext) -> tuple[Table, ...]:
    """Need against limit of the plan that needs least, and what it holds."""
    least = found.least
    rows = (("plan", plan_in_brief(least.plan)), *excess_rows(least))
    sentences = (*nothing_notes(found), *told.notes)
    looser = (levers_table(least),) if any(lever.fits for lever in least.levers) else ()
    return (
        Table(title=nothing_sentence(found), rows=rows),
        memory_table(least.memory, least.workload, least.plan),
        *looser,
        Table(title="What was looked at", notes=tuple(f"- {line}" for line in sentences)),
    )


def nothing_sentence(found: NothingFits) -> str:
    use = found.least.memory
    need = f"the one that needs least needs {format_bytes(use.need_bytes)} of {format_bytes(use.limit_bytes)} usable"
    return f"None of {counted(found.tally.num_plans, 'plan')} fits: {need}"


def nothing_notes(found: NothingFits) -> Iterator[str]:
    """Sentences: what was looked at, the user's own plan, and the way out."""
    yield from space_notes(found.question)
    for result in found.given:
        fits = "does not fit either" if isinstance(result, Infeasible) else "fits, by choices outside of the space"
        if isinstance(result, Outcome) and holds(found.question.space, result.plan, is_even_only=True):
            fits = "fits and is in the space: the search missed it; please file a bug"
        yield f"your own plan, {plan_in_brief(result.plan)}, {fits}"
    loosen = "leave more to choose from, " if found.question.constraints else ""
    yield f"to make one fit: {loosen}take more devices, a shorter --seq, or a chip with more memory"
