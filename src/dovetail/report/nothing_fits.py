"""A joint search without an answer: what the least system takes, and what to allow."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np

from dovetail.report.record import Record
from dovetail.report.table import Table
from dovetail.report.words import number
from dovetail.search.codesign.joint import places_at
from dovetail.search.codesign.question import JointQuestion, systems_at
from dovetail.search.codesign.systems import built_systems, taken

NUM_MOST = 200_000  # systems looked at for the least that they take


def nothing_record(name: str, question: JointQuestion) -> Record:
    """Why no system is left: the limits, or memory."""
    num = question.space.num_points
    flat = np.unique(np.linspace(0, num - 1, min(num, NUM_MOST)).astype(np.int64))
    systems = systems_at(question.space, places_at(question, flat))
    systems = taken(systems, np.flatnonzero(question.rule(systems)))
    built = built_systems(question.base, systems)
    is_inside = question.budget.excess_frac(built, systems["num_devices"]) == 0
    budget = {key: limit for key, limit in asdict(question.budget).items() if limit < float("inf")}
    return {
        "name": name,
        "feasible": False,
        "budget": budget,
        "reason": "memory" if bool(is_inside.any()) else "limits",
        "least_area_mm2": float(built.area_mm2.min()),
        "least_power_w": float(built.power_w.min()),
        "most_hbm_bytes": float(built.hbm_bytes.max()),
    }


def nothing_tables(record: Record) -> tuple[Table, ...]:
    if record["reason"] == "limits":
        least = f"{number(record['least_area_mm2'])} mm2 and {number(record['least_power_w'])} W"
        notes = (f"systems take {least} at the least, each by another one", "raise the limits, or allow smaller chips")
        return (Table(title="No system of the space keeps the limits", notes=notes),)
    notes = ("no plan of the space fits any of its memories", "allow more HBM, more devices, or other plans")
    return (Table(title="No system of the space has a plan that fits", notes=notes),)
