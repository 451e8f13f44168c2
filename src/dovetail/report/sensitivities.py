"""What binds the best system of a joint search, and what more would buy."""

from __future__ import annotations

from collections.abc import Iterator

from dovetail.hardware.chip import Chip
from dovetail.report.figures import (
    Figure,
    FigureList,
    Figures,
    FigureTable,
    Part,
    Phrase,
    TextOnly,
    labelled,
    phrase,
)
from dovetail.report.labels import gain, number, percent
from dovetail.report.plain import Record
from dovetail.search.codesign.answers import SystemAnswer
from dovetail.search.codesign.budget_sensitivity import RAISED_FRAC, Better, BudgetSensitivity, RelaxedBudget
from dovetail.search.codesign.sensitivity import ResourceSensitivity, Sensitivity
from dovetail.search.codesign.system_labels import as_labels
from dovetail.units import GIBI, GIGA, TERA

LIMIT_LABELS = {
    "area_mm2": "area of a chip, mm2",
    "power_w": "power of a chip, W",
    "total_area_mm2": "area of all, mm2",
    "total_power_w": "power of all, W",
    "total_usd": "cost of all, $",
}
_NAMES = {name: words.rpartition(",")[0] for name, words in LIMIT_LABELS.items()}
# A resource's unit as people say it, and how many of the base unit it is.
_SAID = {"flop_per_s": ("TFLOP/s", TERA), "bytes_per_s": ("GB/s", GIGA), "bytes": ("GiB", float(GIBI))}
_DIGITS = 3  # of a gain for one unit more, which is small


def sensitivity_figures(found: Sensitivity, base: Chip) -> Figures:
    """What each limit keeps away, and what a little more of each resource would gain."""
    return (
        _limits_list(found, base),
        FigureList(
            key="sensitivity.resources",
            title="Resources of a device: what a little more of one would gain",
            items=found.resources,
            figures=_resource,
            notes=("rates with the same plan, as if free; capacity with the best plan of equal stages, at its price",),
        ),
        FigureTable(
            rows=(
                Figure("sensitivity.without_limits", _relaxed_record(found.without_limits, base)),
                Figure("sensitivity.jointly_binding", _relaxed_record(found.together, base)),
            )
        ),
    )


def _limits_list(found: Sensitivity, base: Chip) -> FigureList:
    raised = TextOnly("raised_frac", percent(RAISED_FRAC, 0))
    unsettled = tuple(
        f"{LIMIT_LABELS[one.name]}: so many systems may be better that not all were scored"
        for one in found.limits
        if not one.is_complete
    )
    reading = "other systems are compared by plans with equal stages; per unit: the gain for each mm2, W or $ more"
    return FigureList(
        key="sensitivity.limits",
        title=phrase("Limits: the first better system as one is raised by up to {}", raised) if found.limits else "",
        items=found.limits,
        figures=lambda one: _limit(one, found.together, base),
        notes=(*_together(found), *unsettled, reading),
    )


def _together(found: Sensitivity) -> Iterator[Part]:
    """What several limits keep away that none does alone, and what all of them do."""
    free, some = found.without_limits, found.together
    if free is None:
        yield "without any of these limits no system is better"
        return
    if some is not None:
        yield phrase(
            "none binds alone; {} bind together: {} without them{}",
            " and ".join(_NAMES[name] for name in some.names),
            Figure("sensitivity.jointly_binding.gain_frac", some.gain_frac, gain(some.gain_frac)),
            _unsettled(some),
        )
    yield phrase(
        "without all of these limits: {}, by a system beyond {}{}",
        Figure("sensitivity.without_limits.gain_frac", free.gain_frac, gain(free.gain_frac)),
        ", ".join(_NAMES[name] for name in free.broken),
        _unsettled(free),
    )


def _unsettled(one: RelaxedBudget) -> str:
    return "" if one.is_complete else " at least, as not all that may be better were scored"


def _limit(one: BudgetSensitivity, together: RelaxedBudget | None, base: Chip) -> Iterator[Figure | Phrase]:
    with_others = together is not None and one.name in together.names
    raised, free, share_frac = one.raised, one.free, one.taken / one.limit
    per_unit = _small(one.gain_frac_per_unit) if raised else "-"
    yield Figure("name", one.name, LIMIT_LABELS[one.name], "")
    yield Figure("share_frac", share_frac, percent(share_frac), "share")
    yield Figure(
        "is_binding", one.is_binding, "yes" if one.is_binding else "with others" if with_others else "no", "binds"
    )
    first = Figure("raised.taken", raised.taken, number(raised.taken)) if raised else "none"
    gained = Figure("raised.gain_frac", raised.gain_frac, gain(raised.gain_frac)) if raised else "-"
    without = Figure("without.gain_frac", free.gain_frac, gain(free.gain_frac)) if free else "-"
    yield phrase("{}", first, label="first better at", align="r")
    yield phrase("{}", gained, label="gain", align="r")
    yield Figure("gain_frac_per_unit", one.gain_frac_per_unit, per_unit, "per unit")
    yield phrase("{}", without, label="without it", align="r")
    yield Figure("used", one.taken)
    yield Figure("limit", one.limit)
    yield Figure("is_complete", one.is_complete)
    yield Figure("raised", _better_record(raised, base))
    yield Figure("without", _better_record(free, base))


def _resource(one: ResourceSensitivity) -> Iterator[Figure]:
    unit, size = _SAID[one.unit]
    yield labelled("name", one.name, "")
    yield Figure("amount", one.amount, f"{number(one.amount / size)} {unit}", "has")
    yield Figure("more", one.more, f"+{number(one.more / size)}", "more")
    yield Figure("gain_frac", one.gain_frac, gain(one.gain_frac), "gain")
    yield Figure("gain_frac_per_unit", one.gain_frac_per_unit, _small(one.gain_frac_per_unit * size), "a unit more")
    yield Figure("unit", one.unit)


def _small(gain_frac: float) -> str:
    return f"{100 * gain_frac:+.{_DIGITS}g} %"


def _relaxed_record(lifted: RelaxedBudget | None, base: Chip) -> Record | None:
    if lifted is None:
        return None
    return {
        "limits": list(lifted.names),
        "system": as_labels(base, lifted.system),
        "gain_frac": lifted.gain_frac,
        "exceeded": list(lifted.broken),
        "is_complete": lifted.is_complete,
    }


def _better_record(better: Better | None, base: Chip) -> Record | None:
    if better is None:
        return None
    return {"system": as_labels(base, better.system), "used": better.taken, "gain_frac": better.gain_frac}


def over_best_frac(common: SystemAnswer, index: int, own: SystemAnswer) -> float:
    """How far a model is behind its own best on a system that is common to several."""
    return 1.0 - own.cases[0].loss / common.cases[index].loss
