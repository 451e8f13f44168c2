"""The best plans in a table: a plan a row, its choices in columns, and what it loses by."""

from __future__ import annotations

from collections.abc import Callable

from dovetail.parallel.plan import Plan
from dovetail.report.labels import exchange_in_brief, gain, number
from dovetail.report.table import GAP, WIDTH, Table
from dovetail.search.planners.ranking import Choice, Question, Ranked
from dovetail.step.work import COMM_AXES
from dovetail.units import GIBI, format_bytes, format_s

NOTHING_FRAC = 0.0005  # a loss that shows as zero is none
PART_WORDS = {axis: f"{axis} comm." for axis in COMM_AXES} | {"host": "host waits", "offload": "host copies"}
POLICY_WORDS = {"selective": "sel.", "norm-activation": "norm", "selective-op": "op"}
WHOLE_WORDS = {
    "time": "longer a step is than the best one's",
    "energy": "more energy a step takes than the best one's",
    "memory": "more memory the fullest device needs than the best one's",
}


def ranking_table(found: Choice) -> Table:
    """One plan a row, its choices in columns; a choice that is plain in every row has none."""
    question = found.question
    plans = [one.candidate.plan for one in found.ranking]
    choices = {name: said for name, said in _CHOICES.items() if any(said(plan) for plan in plans)}
    whole = WHOLE_WORDS[question.objective.aspect]
    columns, *rows = _fitting_rows(found, choices)
    return Table(
        title="The best plans of different degrees" + (", and your own" if found.given else ""),
        columns=columns,
        rows=tuple(rows),
        align="r" * (len(columns) - 1) + "l",
        notes=(f"behind: how much {whole}; loses most by: the largest part of that", *_legend(choices)),
    )


Choices = dict[str, Callable[[Plan], str]]


def _fitting_rows(found: Choice, choices: Choices) -> list[tuple[str, ...]]:
    """Headings and rows that fit the page: where there are many choices, with less said of recompute, then without
    amounts, then without the objective's figure.
    """
    has_figure = found.question.objective_name != "time"
    brief = {name: _recompute_in_short if name == "rec." else said for name, said in choices.items()}
    whole: list[tuple[str, ...]] = []
    for said, shows_figure, shows_amount in (
        (choices, has_figure, True),
        (brief, has_figure, True),
        (brief, has_figure, False),
        (brief, False, False),
    ):
        whole = _all_rows(found, said, shows_figure=shows_figure, shows_amount=shows_amount)
        if _width(whole) <= WIDTH:
            break
    return whole


def _width(rows: list[tuple[str, ...]]) -> int:
    return GAP - 1 + sum(max(map(len, cells)) + 1 for cells in zip(*rows, strict=True))


def _all_rows(found: Choice, choices: Choices, *, shows_figure: bool, shows_amount: bool) -> list[tuple[str, ...]]:
    figure = (found.question.objective_name,) if shows_figure else ()
    rows: list[tuple[str, ...]] = [("", "step", *figure, "behind", "GiB", *choices, "loses most by")]
    for place, one in enumerate(found.ranking, start=1):
        cells = ["own" if one.is_given else str(place), format_s(one.candidate.step_s)]
        cells += [_short_figure(one, found.question)] if shows_figure else []
        cells += [_behind(one), f"{one.candidate.need_bytes / GIBI:.1f}"]
        cells += [say(one.candidate.plan) or "-" for say in choices.values()]
        rows.append((*cells, most_lost(one, has_amount=shows_amount)))
    return rows


def _short_figure(one: Ranked, question: Question) -> str:
    is_memory = question.objective.aspect == "memory"
    return format_bytes(one.candidate.figure) if is_memory else number(one.candidate.figure)


def _behind(one: Ranked) -> str:
    return gain(one.over_best_frac) if one.breakdown else "best"


def most_lost(one: Ranked, *, has_amount: bool = True) -> str:
    """The part in which a plan is most behind the best, and by how much of the best's whole."""
    if not one.breakdown or one.breakdown[0].over_best_frac < NOTHING_FRAC:
        return ""
    worst = one.breakdown[0]
    words = PART_WORDS.get(worst.component, worst.component)
    return f"{words} {gain(worst.over_best_frac)}" if has_amount else words


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
