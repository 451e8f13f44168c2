"""Limits of a joint search beside what a system takes of them, and those that nobody said or a system breaks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from dovetail.report.figures import Figure, FigureRow, FigureTable, Phrase, TextOnly, phrase
from dovetail.report.labels import number, percent
from dovetail.report.sensitivities import LIMIT_LABELS
from dovetail.search.codesign.answers import SystemAnswer
from dovetail.search.codesign.question import Budget

_RETICLE = (
    "a chip has at most {} mm2, the field of a lithography scanner, as no area was given; set --area, or budget.area"
    " in a spec, to change it"
)
# Where no limit is given, both are the base chip's.
_AS_BASE = {
    "area_mm2": "a chip has at most {} mm2, what the base chip has, as no limit was given; set --area, or budget in"
    " a spec, to change it",
    "power_w": "and draws at most {} W, what the base chip draws with everything busy; set --power, or budget in a"
    " spec, to change it",
}


def taken_of(answer: SystemAnswer) -> dict[str, float]:
    """What a system takes of everything that a budget may limit."""
    return {
        "area_mm2": answer.area_mm2,
        "power_w": answer.power_w,
        "total_area_mm2": answer.num_devices * answer.area_mm2,
        "total_power_w": answer.num_devices * (answer.power_w + answer.network_w),
        "total_usd": answer.num_devices * (answer.price_usd + answer.network_usd),
    }


def set_limits(budget: Budget) -> dict[str, float]:
    """Those that are set, by name."""
    return {name: limit for name, limit in asdict(budget).items() if math.isfinite(limit)}


def beyond(budget: Budget, answer: SystemAnswer) -> tuple[str, ...]:
    """The limits that a system breaks."""
    taken = taken_of(answer)
    return tuple(name for name, limit in set_limits(budget).items() if taken[name] > limit)


def limits_table(budget: Budget, answer: SystemAnswer, assumed: Sequence[str]) -> FigureTable:
    """Every limit that is set, beside what the best system takes of it."""
    taken, limits = taken_of(answer), set_limits(budget)
    return FigureTable(
        title="Limits" if limits else "",
        columns=("", "taken", "limit", "share"),
        align="lrrr",
        rows=tuple(
            FigureRow(
                (
                    LIMIT_LABELS[name],
                    TextOnly("taken of a limit", number(taken[name])),
                    Figure(f"budget.{name}", limit, number(limit)),
                    TextOnly("share of a limit", percent(taken[name] / limit)),
                )
            )
            for name, limit in limits.items()
        ),
        notes=assumed_notes(limits, assumed),
    )


def assumed_notes(limits: Mapping[str, float], assumed: Sequence[str]) -> tuple[Phrase, ...]:
    """What is said of limits that nobody set."""
    return tuple(
        phrase(
            _AS_BASE[name] if len(assumed) > 1 else _RETICLE,
            Figure(f"budget.{name}", limits[name], number(limits[name])),
        )
        for name in assumed
    )


def base_over_limits_notes(base_name: str, budget: Budget, base: SystemAnswer) -> tuple[str, ...]:
    """That the base chip itself breaks limits, where it does: no other answer to the same question."""
    limits, taken = set_limits(budget), taken_of(base)
    said = {name: LIMIT_LABELS[name].rpartition(", ") for name in beyond(budget, base)}
    broken = [f"{what} {number(taken[n])} of {number(limits[n])} {unit}" for n, (what, _, unit) in said.items()]
    if not broken:
        return ()
    return (f"{base_name} itself is beyond the limits, and compared with all the same: {'; '.join(broken)}",)
