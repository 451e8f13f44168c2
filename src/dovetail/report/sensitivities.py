"""What binds the best system of a joint search, what more would buy, and each model's own best: tables and data."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.hardware.chip import Chip
from dovetail.report.labels import gain, number, percent
from dovetail.report.plain import Record
from dovetail.report.table import Table
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


def sensitivity_tables(found: Sensitivity) -> tuple[Table, ...]:
    resources = Table(
        title="Resources of a device: what a little more of one would gain",
        columns=("", "has", "more", "gain", "a unit more"),
        rows=tuple(_resource_row(one) for one in found.resources),
        align="lrrrr",
        notes=("rates with the same plan, as if free; capacity with the best plan of equal stages, at its price",),
    )
    return (_limits_table(found), resources) if found.limits else (resources,)


def _limits_table(found: Sensitivity) -> Table:
    unsettled = tuple(
        f"{LIMIT_LABELS[one.name]}: so many systems may be better that not all were scored"
        for one in found.limits
        if not one.is_complete
    )
    reading = "gain: of others by plans of equal stages; a unit: gain for each mm2, W or $ more"
    return Table(
        title=f"Limits: the first better system as one is raised by up to {percent(RAISED_FRAC, 0)}",
        columns=("", "share", "binds", "first better at", "gain", "a unit", "without it"),
        rows=tuple(_limit_row(one, found.together) for one in found.limits),
        align="lrlrrrr",
        notes=(*_together(found), *unsettled, reading),
    )


def _together(found: Sensitivity) -> tuple[str, ...]:
    """What several limits keep away that none does alone, and what all of them do."""
    free, some = found.without_limits, found.together
    if free is None:
        return ("without any of these limits no system is better",)
    told = [f"without all of these limits: {gain(free.gain_frac)}{_broken(free)}"]
    if some is not None:
        names = " and ".join(_NAMES[name] for name in some.names)
        told.insert(
            0, f"none binds alone; {names} bind together: {gain(some.gain_frac)} without them{_unsettled(some)}"
        )
    return tuple(told)


def _broken(free: RelaxedBudget) -> str:
    return f", by a system beyond {', '.join(_NAMES[name] for name in free.broken)}{_unsettled(free)}"


def _unsettled(one: RelaxedBudget) -> str:
    return "" if one.is_complete else " at least, as not all that may be better were scored"


def _limit_row(one: BudgetSensitivity, together: RelaxedBudget | None) -> tuple[str, ...]:
    share, raised = percent(one.taken / one.limit), one.raised
    with_others = together is not None and one.name in together.names
    binds = "yes" if one.is_binding else "with others" if with_others else "no"
    first = ("none", "-", "-")
    if raised is not None:
        first = (number(raised.taken), gain(raised.gain_frac), _small(one.gain_frac_per_unit))
    return (LIMIT_LABELS[one.name], share, binds, *first, "-" if one.free is None else gain(one.free.gain_frac))


def _resource_row(one: ResourceSensitivity) -> tuple[str, ...]:
    unit, size = _SAID[one.unit]
    has, more = f"{number(one.amount / size)} {unit}", f"+{number(one.more / size)}"
    return (one.name, has, more, gain(one.gain_frac), _small(one.gain_frac_per_unit * size))


def _small(gain_frac: float) -> str:
    return f"{100 * gain_frac:+.{_DIGITS}g} %"


def sensitivity_record(found: Sensitivity, base: Chip) -> Record:
    return {
        "limits": [
            {
                "name": one.name,
                "used": one.taken,
                "limit": one.limit,
                "share_frac": one.taken / one.limit,
                "is_binding": one.is_binding,
                "is_complete": one.is_complete,
                "raised": _better_record(one.raised, base),
                "without": _better_record(one.free, base),
                "gain_frac_per_unit": one.gain_frac_per_unit,
            }
            for one in found.limits
        ],
        "without_limits": _relaxed_record(found.without_limits, base),
        "jointly_binding": _relaxed_record(found.together, base),
        "resources": [
            {
                "name": one.name,
                "amount": one.amount,
                "unit": one.unit,
                "more": one.more,
                "gain_frac": one.gain_frac,
                "gain_frac_per_unit": one.gain_frac_per_unit,
            }
            for one in found.resources
        ],
    }


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


def own_best_table(
    names: Sequence[str], common: SystemAnswer, bests: Sequence[SystemAnswer], briefs: Sequence[str]
) -> Table:
    rows = tuple(
        (name, percent(over_best_frac(common, index, own)), brief)
        for index, (name, own, brief) in enumerate(zip(names, bests, briefs, strict=True))
    )
    return Table(
        title="Each model against the best system for it alone",
        columns=("model", "behind", "its own best"),
        rows=rows,
        align="lrl",
    )
