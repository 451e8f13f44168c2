"""What binds the best system of a joint search, what more would buy, and each model's own best: tables and data."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.report.record import Record
from dovetail.report.table import Table
from dovetail.report.words import gain, number, percent
from dovetail.search.codesign.answers import SystemAnswer
from dovetail.search.codesign.sensitivity import RAISED_FRAC, Better, LimitSense, ResourceSense, Sensitivity
from dovetail.units import GIBI, GIGA, TERA

LIMIT_WORDS = {
    "area_mm2": "area of a chip, mm2",
    "power_w": "power of a chip, W",
    "total_area_mm2": "area of all, mm2",
    "total_power_w": "power of all, W",
    "total_usd": "cost of all, $",
}
# A resource's unit as people say it, and how many of the base unit it is.
_SAID = {"flop_per_s": ("TFLOP/s", TERA), "bytes_per_s": ("GB/s", GIGA), "bytes": ("GiB", float(GIBI))}
_DIGITS = 3  # of a gain for one unit more, which is small


def sensitivity_tables(found: Sensitivity) -> tuple[Table, ...]:
    tables = []
    if found.limits:
        notes = tuple(
            f"{LIMIT_WORDS[one.name]}: so many systems may be better that not all were scored"
            for one in found.limits
            if not one.is_settled
        )
        tables.append(
            Table(
                title=f"Limits: the first better system as one is raised by up to {percent(RAISED_FRAC, 0)}",
                columns=("", "share", "binds", "first better at", "gain", "a unit", "without it"),
                rows=tuple(_limit_row(one) for one in found.limits),
                align="lrlrrrr",
                notes=(*notes, "gain: of others by plans of equal stages; a unit: gain for each mm2, W or $ more"),
            )
        )
    tables.append(
        Table(
            title="Resources of a device: what a little more of one would gain",
            columns=("", "has", "more", "gain", "a unit more"),
            rows=tuple(_resource_row(one) for one in found.resources),
            align="lrrrr",
            notes=("rates with the same plan, as if free; capacity with the best plan of equal stages, at its price",),
        )
    )
    return tuple(tables)


def _limit_row(one: LimitSense) -> tuple[str, ...]:
    share, raised = percent(one.taken / one.limit), one.raised
    binds = "yes" if one.is_binding else "no"
    first = ("none", "-", "-")
    if raised is not None:
        first = (number(raised.taken), gain(raised.gain_frac), _small(one.gain_frac_per_unit))
    return (LIMIT_WORDS[one.name], share, binds, *first, "-" if one.free is None else gain(one.free.gain_frac))


def _resource_row(one: ResourceSense) -> tuple[str, ...]:
    unit, size = _SAID[one.unit]
    has, more = f"{number(one.amount / size)} {unit}", f"+{number(one.more / size)}"
    return (one.name, has, more, gain(one.gain_frac), _small(one.gain_frac_per_unit * size))


def _small(gain_frac: float) -> str:
    return f"{100 * gain_frac:+.{_DIGITS}g} %"


def sensitivity_record(found: Sensitivity) -> Record:
    return {
        "limits": [
            {
                "name": one.name,
                "taken": one.taken,
                "limit": one.limit,
                "share_frac": one.taken / one.limit,
                "is_binding": one.is_binding,
                "is_settled": one.is_settled,
                "raised": _better_record(one.raised),
                "without": _better_record(one.free),
                "gain_frac_per_unit": one.gain_frac_per_unit,
            }
            for one in found.limits
        ],
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


def _better_record(better: Better | None) -> Record | None:
    if better is None:
        return None
    return {"system": better.system, "taken": better.taken, "gain_frac": better.gain_frac}


def behind_frac(common: SystemAnswer, index: int, own: SystemAnswer) -> float:
    """How far a model is behind its own best on a system that is common to several."""
    return 1.0 - own.cases[0].loss / common.cases[index].loss


def own_best_table(
    names: Sequence[str], common: SystemAnswer, bests: Sequence[SystemAnswer], briefs: Sequence[str]
) -> Table:
    rows = tuple(
        (name, percent(behind_frac(common, index, own)), brief)
        for index, (name, own, brief) in enumerate(zip(names, bests, briefs, strict=True))
    )
    return Table(
        title="Each model against the best system for it alone",
        columns=("model", "behind", "its own best"),
        rows=rows,
        align="lrl",
    )
