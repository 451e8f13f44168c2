"""A joint search without an answer: what the least system takes, and what to allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from dovetail.report.budgets import assumed_notes
from dovetail.report.figures import part_text
from dovetail.report.labels import number
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.search.codesign.joint import places_at
from dovetail.search.codesign.question import JointQuestion, systems_at
from dovetail.search.codesign.scoring import Scorer
from dovetail.search.codesign.systems import built_systems, taken
from dovetail.workload.graph import IntArray

NUM_MOST = 200_000  # systems looked at for the least that they take
NETWORK = ("link_gb_per_s", "network", "num_devices")  # knobs that plans are cut by; the endpoint cuts nothing
NUM_SHOWN = 4  # numbers of devices that are named


def nothing_record(name: str, question: JointQuestion, assumed: Sequence[str] = ()) -> Record:
    """Why no system is left: the limits, that no plan cuts a model for so many devices, or memory."""
    num = question.space.num_points
    flat = np.unique(np.linspace(0, num - 1, min(num, NUM_MOST)).astype(np.int64))
    systems = systems_at(question.space, places_at(question, flat))
    every = np.flatnonzero(question.is_part(systems))
    systems = taken(systems, every)
    built = built_systems(question.base, systems)
    inside = flat[every[question.budget.excess_frac(built, systems["num_devices"]) == 0]]
    uncut = _unshardable(question, inside)
    budget = {key: limit for key, limit in asdict(question.budget).items() if limit < float("inf")}
    return {
        "name": name,
        "feasible": False,
        "budget": budget,
        "assumed_limits": list(assumed),
        "reason": "limits" if not len(inside) else "cuts" if uncut else "memory",
        "unshardable": uncut,
        "least_area_mm2": float(built.area_mm2.min()),
        "least_power_w": float(built.power_w.min()),
        "most_hbm_bytes": float(built.hbm_bytes.max()),
    }


def _unshardable(question: JointQuestion, flat: IntArray) -> list[Record]:
    """Of systems, by number: a model that no plan cuts, and for how many devices, by network; none where some do."""
    scorer, found = Scorer(question), []
    places = np.stack(list(places_at(question, flat).values()), axis=1)
    columns = [place for place, knob in enumerate(question.space.knobs) if knob.name in NETWORK]
    _, first = np.unique(places[:, columns], axis=0, return_index=True)
    for point in places[first].tolist():
        uncut = scorer.unshardable_at(tuple(point))
        if not uncut:
            return []
        found.append({"model": uncut[0].model, "num_devices": uncut[0].num_devices})
    return [one for place, one in enumerate(found) if one not in found[:place]]


def nothing_tables(record: Record) -> tuple[Table, ...]:
    if record["reason"] == "limits":
        least = f"{number(record['least_area_mm2'])} mm2 and {number(record['least_power_w'])} W"
        told = map(part_text, assumed_notes(record["budget"], record["assumed_limits"]))
        way_out = "raise the limits, or allow smaller chips"
        notes = (f"systems take {least} at the least, each by another one", *told, way_out)
        return (Table(title="No system of the space keeps the limits", notes=notes),)
    if record["reason"] == "cuts":
        few = record["unshardable"][:NUM_SHOWN]
        cuts = (
            f"no plan of the space cuts {one['model']} for {one['num_devices']} devices of this network" for one in few
        )
        ways = (*cuts, "allow more degrees, or another number of devices")
        return (Table(title="No system of the space has a plan", notes=ways),)
    more = ("no plan of the space fits any of its memories", "allow more HBM, more devices, or other plans")
    return (Table(title="No system of the space has a plan that fits", notes=more),)
