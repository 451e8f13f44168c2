"""The best plans, ranked: a plan a row, its choices in columns, and what it loses by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from dovetail.accuracy.chance import Predicted, chance_shorter_frac, selection_of
from dovetail.accuracy.evidence import Selection
from dovetail.accuracy.residuals import Residual
from dovetail.parallel.plan import Plan
from dovetail.report.figures import Figure, FigureList, Part, Phrase, TextOnly, phrase, table_of
from dovetail.report.labels import exchange_in_brief, gain, number
from dovetail.report.launchers.nearest import cost_record
from dovetail.report.launchers.runnable import Runnable
from dovetail.report.outcome import plan_record
from dovetail.report.plain import Record
from dovetail.report.table import GAP, WIDTH, Table
from dovetail.search.planners.ranking import Choice, Question, Ranked
from dovetail.step.work import COMM_AXES
from dovetail.units import GIBI, format_bytes, format_rounded_s, format_s

NOTHING_FRAC = 0.0005  # a loss that shows as zero is none
PART_WORDS = {axis: f"{axis} comm." for axis in COMM_AXES} | {"host": "host waits", "offload": "host copies"}
POLICY_WORDS = {"selective": "sel.", "norm-activation": "norm", "selective-op": "op"}
WHOLE_WORDS = {
    "time": "longer a step is than the best one's",
    "energy": "more energy a step takes than the best one's",
    "memory": "more memory the fullest device needs than the best one's",
}


def format_behind(question: Question) -> str:
    """What a plan is behind by, after "how much"."""
    if question.quantile.is_median:
        return WHOLE_WORDS[question.objective.aspect]
    return f"longer the {question.quantile.words} of a step's time is than the best one's"


def best_faster_probability(found: Choice, one: Ranked, residuals: Sequence[Residual]) -> float | None:
    """How likely a step of the best plan is truly shorter than one of `one`; None without `residuals` and of itself."""
    if not residuals or not one.breakdown:
        return None
    predicted = _predicted(found)
    return chance_shorter_frac(predicted, _of_ranked(predicted, one), residuals)


def selection_of_best(found: Choice, residuals: Sequence[Residual]) -> Selection:
    """What having been chosen among the plans that the search compared does to the best one's time."""
    best = _predicted(found)
    others = [replace(best, plan=one.plan, step_s=one.step_s) for one in found.compared[1:]]
    return selection_of(best, others, residuals)


def _predicted(found: Choice) -> Predicted:
    best = found.best
    return Predicted(workload=best.workload, cluster=best.cluster, plan=best.plan, step_s=float(best.step.step_s))


def _of_ranked(best: Predicted, one: Ranked) -> Predicted:
    return replace(best, plan=one.candidate.plan, step_s=one.candidate.step_s)


def ranking_list(
    found: Choice, by_place: Sequence[tuple[Runnable, ...]], residuals: Sequence[Residual] = ()
) -> FigureList:
    """One plan a row, its choices in columns; a choice that is plain in every row has none.

    The columns fit the page: where there are many choices, with less said of recompute, then without amounts, then
    without the objective's figure. `by_place` is who can run each plan.
    """
    plans = [one.candidate.plan for one in found.ranking]
    choices = {name: said for name, said in _CHOICES.items() if any(said(plan) for plan in plans)}
    brief = {name: _recompute_in_short if name == "rec." else said for name, said in choices.items()}
    whole = format_behind(found.question)
    has_figure = found.question.objective_name != "time"
    ranking = FigureList(
        key="ranking",
        title="The best plans of different degrees" + (", and your own" if found.given else ""),
        items=tuple(zip(range(1, len(plans) + 1), found.ranking, by_place, strict=True)),
        notes=(phrase("behind: how much {}; loses most by: the largest part of that", whole), *_legend(choices)),
    )
    for said, shows_figure, shows_amount in (
        (choices, has_figure, True),
        (brief, has_figure, True),
        (brief, has_figure, False),
        (brief, False, False),
    ):
        figures = _figures(found, said, residuals, shows_figure=shows_figure, shows_amount=shows_amount)
        ranking = replace(ranking, figures=figures)
        if _width(table_of(ranking)) <= WIDTH:
            break
    return ranking


Choices = dict[str, Callable[[Plan], str]]
Item = tuple[int, Ranked, tuple[Runnable, ...]]  # a place of the ranking, the plan, and who can run it


def _width(table: Table) -> int:
    return GAP - 1 + sum(max(map(len, cells)) + 1 for cells in zip(table.columns, *table.rows, strict=True))


def _figures(
    found: Choice, choices: Choices, residuals: Sequence[Residual], *, shows_figure: bool, shows_amount: bool
) -> Callable[[Item], Iterator[Figure | TextOnly | Phrase]]:
    """What is said of a plan of the ranking."""
    question = found.question
    is_memory = question.objective.aspect == "memory"

    def figures(item: Item) -> Iterator[Figure | TextOnly | Phrase]:
        place, one, answers = item
        candidate, figure = one.candidate, one.candidate.figure
        label = question.objective_name if shows_figure else None
        yield Figure("position", place, "own" if one.is_given else str(place), "")
        yield Figure("step_s", candidate.step_s, format_s(candidate.step_s), "step")
        if not question.quantile.is_median:
            of_time = question.quantile.words.removesuffix(" quantile")
            yield Figure("quantile_s", candidate.score, format_rounded_s(candidate.score, 3), of_time)
        yield Figure("figure", figure, format_bytes(figure) if is_memory else number(figure), label)
        yield Figure(
            "over_best_frac", one.over_best_frac, gain(one.over_best_frac) if one.breakdown else "best", "behind"
        )
        yield Figure("need_bytes", candidate.need_bytes, f"{candidate.need_bytes / GIBI:.1f}", "GiB")
        plan = plan_record(candidate.plan)
        for name, say in choices.items():
            yield phrase("{}", Figure("plan", plan, say(candidate.plan) or "-"), label=name, align="r")
        yield phrase("{}", most_lost(one, has_amount=shows_amount), label="loses most by")
        yield Figure("best_faster_probability", best_faster_probability(found, one, residuals))
        yield Figure("energy_j", candidate.energy_j)
        yield Figure(
            "breakdown",
            [{"component": loss.component, "over_best_frac": loss.over_best_frac} for loss in one.breakdown],
        )
        yield Figure("is_given", one.is_given)
        yield Figure("frameworks", [_runnable_record(each) for each in answers])

    return figures


def _runnable_record(one: Runnable) -> Record:
    return {
        "framework": one.framework,
        "refusal": one.refusal,
        "differs": list(one.differs),
        "costs": [cost_record(cost) for cost in one.costs],
        "not_expressed": list(one.not_expressed),
    }


def most_lost(one: Ranked, *, has_amount: bool = True) -> Part:
    """The part in which a plan is most behind the best, and by how much of the best's whole."""
    if not one.breakdown or one.breakdown[0].over_best_frac < NOTHING_FRAC:
        return ""
    worst = one.breakdown[0]
    part = Figure("breakdown[0].component", worst.component, PART_WORDS.get(worst.component, worst.component))
    amount = Figure("breakdown[0].over_best_frac", worst.over_best_frac, gain(worst.over_best_frac))
    return phrase("{} {}", part, amount) if has_amount else part


def _more_than_one(count: int) -> str:
    return str(count) if count > 1 else ""


def _recompute(plan: Plan) -> str:
    policies = tuple(dict.fromkeys(policy for policy in plan.recompute if policy != "none"))
    return "+".join(POLICY_WORDS.get(policy, policy) for policy in policies)


def _recompute_in_short(plan: Plan) -> str:
    said = _recompute(plan)
    return "mixed" if "+" in said else said


# How the choices of a plan are said in a column; empty for the plain one.
_CHOICES: Choices = {
    "tp": lambda plan: _more_than_one(plan.tensor_parallel),
    "sp": lambda plan: "y" if plan.sequence_parallel and plan.tensor_parallel > 1 else "",
    "cp": lambda plan: _more_than_one(plan.context_parallel),
    "cx": exchange_in_brief,
    "pp": lambda plan: _more_than_one(plan.pipeline_parallel),
    "v": lambda plan: _more_than_one(plan.interleave),
    "by": lambda plan: plan.schedule if plan.schedule != "1f1b" and plan.pipeline_parallel > 1 else "",
    "dp": lambda plan: _more_than_one(plan.data_parallel),
    "ep": lambda plan: _more_than_one(plan.expert_parallel),
    "Z": lambda plan: str(plan.zero_stage or ""),
    "mb": lambda plan: str(plan.microbatch),
    "rec.": _recompute,
    "host": lambda plan: "opt" * plan.offload_optimizer + f"{plan.offload_activations_frac:.2g}".removeprefix("0"),
}
_LEGEND = {
    "sp": "sp: sequence parallel",
    "cx": "cx: context_comm_type, if not gather",
    "v": "v: interleave",
    "by": "by: schedule",
    "Z": "Z: ZeRO stage",
    "mb": "mb: microbatch",
    "rec.": "rec.: recompute (selective, norm-activation, selective-op, full; mixed by stage)",
    "host": "host: what is offloaded, the optimizer (opt) and a share of activations",
}


def _legend(choices: Choices) -> tuple[str, ...]:
    return ("; ".join(words for name, words in _LEGEND.items() if name in choices),)
