"""The best plans beside each other: what a step takes by each, and what each loses most by."""

from __future__ import annotations

from dovetail.report.charts.bars import ranked
from dovetail.report.charts.chart import Chart
from dovetail.report.charts.palette import BLUE, ORANGE, PALE
from dovetail.report.labels import gain, plan_in_brief
from dovetail.report.ranked import PART_WORDS
from dovetail.report.table import Table
from dovetail.search.planners.ranking import Choice, Ranked
from dovetail.units import format_bytes, format_rounded_s, format_s

MOST_CHARACTERS = 34  # of a plan beside its bar


def plans_compared(found: Choice) -> Chart:
    """A bar for every plan of the ranking, best first; the user's own stands out."""
    ranking = found.ranking
    figure = ranked(
        [f"{place}. {_brief(one)}" for place, one in enumerate(ranking, start=1)],
        [one.candidate.step_s for one in ranking],
        [_behind(one) for one in ranking],
        [_colour(one) for one in ranking],
        "one step",
        hover="%{customdata}<br>%{x:.4~s}s per step, %{text}",
        details=[plan_in_brief(one.candidate.plan) for one in ranking],
        tickformat="~s",
        ticksuffix="s",
    )
    best = f"The best plan takes {format_rounded_s(found.best.step.step_s, 3)} per step"
    behind = [one.over_best_frac for one in ranking if one.breakdown]
    next_one = f"the next of other degrees is {gain(min(behind))} behind" if behind else "no other fits"
    return Chart(
        name="plans",
        title="The best plans, none with the same degrees",
        alt=f"{best}; {next_one}.",
        figure=figure,
        table=_table(ranking),
    )


def _table(ranking: tuple[Ranked, ...]) -> Table:
    return Table(
        title="The best plans",
        columns=("plan", "one step", "fullest device", "behind", "loses most by"),
        rows=tuple(
            (
                plan_in_brief(one.candidate.plan) + (" (your own)" if one.is_given else ""),
                format_s(one.candidate.step_s),
                format_bytes(one.candidate.need_bytes),
                gain(one.over_best_frac),
                _loss(one),
            )
            for one in ranking
        ),
        align="lrrrl",
    )


def _brief(one: Ranked) -> str:
    plan = one.candidate.plan
    words = [f"{name} {plan.degree(name)}" for name in ("tp", "cp", "pp", "dp") if plan.degree(name) > 1]
    words += [f"ep {plan.expert_parallel}"] if plan.expert_parallel > 1 else []
    told = ", ".join(words) or "one device"
    told = told if len(told) <= MOST_CHARACTERS else f"{told[: MOST_CHARACTERS - 3]}..."
    return f"{told} (yours)" if one.is_given else told


def _behind(one: Ranked) -> str:
    return "best" if not one.breakdown else gain(one.over_best_frac)


def _colour(one: Ranked) -> str:
    return ORANGE if one.is_given else PALE if one.breakdown else BLUE


def _loss(one: Ranked) -> str:
    if not one.breakdown:
        return ""
    most = one.breakdown[0]
    return f"{PART_WORDS.get(most.component, most.component)} ({gain(most.over_best_frac)})"
