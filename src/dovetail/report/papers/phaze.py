"""PHAZE's models as plain data for JSON, and as tables: experts, our plans, the best chips, and NEST's placements."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.hardware.template import design_of
from dovetail.papers.nest import NestRow
from dovetail.papers.phaze import Compared, Found, Joint
from dovetail.report.codesigned import READING
from dovetail.report.papers.nest import nest_record, nest_tables
from dovetail.report.plain import Record
from dovetail.report.table import Table
from dovetail.units import GIBI, MEBI

PUBLISHED = (
    "published: a flat link of 4 GiB/s without latency for everything, nothing overlapped, SGD in 16 bits (4 bytes a"
    " parameter), no power limit, attention written out, recompute of all or nothing; data, pipeline and tensor"
    " parallelism, 1F1B, microbatch of 1 to 8. Other than in the released code, seconds are added to seconds, weight"
    " gradients are computed, every stage's gradients are exchanged and updated, vector work moves its bytes, and"
    " embedding, head and loss count.",
    "calibrated: mixed-precision Adam, flash attention, gradients exchanged beside the backward pass, the power limit"
    " of the chip, and every plan that we know.",
)
EXPERTS = (
    "experts: their degrees with the best microbatch and recompute, layers spread evenly, on PHAZE's TPU v4 with"
    " the least HBM of 32, 64 and 80 GiB that they fit. OPT's 12 x 85 leave 4 devices idle.",
    "gap: how far the best plan of its space may be ahead of ours",
)
COUNTS = ("scored", "looked at", "found")
SEPARATE = (
    "/plan and /chip: over searching one by one, the best chip for the plan that PHAZE's TPU v4 has, and then the"
    " best plan for that chip"
)
STOPPED = "looked at: chips that PHAZE's stop rule sees before it ends, and the best of them over the best of all"


def phaze_record(compared: Sequence[Compared], nest: Sequence[NestRow]) -> Record:
    return {
        "paper": "PHAZE",
        "holds": all(row.check.holds for row in nest),
        "models": [compared_record(one) for one in compared],
        "nest": nest_record(nest),
        "notes": [*PUBLISHED, *EXPERTS],
    }


def compared_record(one: Compared) -> Record:
    return {
        "model": one.case.model,
        "reported_as": one.case.name,
        "terms": one.terms.name,
        "expert": found_record(one.expert),
        "ours": found_record(one.ours),
        "placement_gain": one.placement_gain,
        "joint": _joint_record(one, one.joint) if one.joint else None,
    }


def found_record(found: Found | None) -> Record | None:
    """A plan in a few numbers; none where nothing fits."""
    if found is None:
        return None
    plan = found.plan
    return {
        "pipeline_parallel": plan.pipeline_parallel,
        "data_parallel": plan.data_parallel,
        "tensor_parallel": plan.tensor_parallel,
        "expert_parallel": plan.expert_parallel,
        "zero_stage": plan.zero_stage,
        "interleave": plan.interleave,
        "microbatch": plan.microbatch,
        "recompute": sorted(set(plan.recompute)),
        "hbm_bytes": found.hbm_bytes,
        "step_s": found.step_s,
        "bound_s": found.bound_s,
        "gap_frac": found.gap_frac,
        "sequences_per_s": found.sequences_per_s,
    }


def _joint_record(one: Compared, joint: Joint) -> Record:
    return {
        "chip": joint.chip.name,
        "cores": str(design_of(joint.chip)),
        "sram_bytes": joint.chip.sram.capacity_bytes,
        "found": found_record(joint.found),
        "gain_over_expert": one.whole_gain,
        "gain_over_ours": one.joint_gain,
        "searched_sequences_per_s": joint.searched_sequences_per_s,
        "gain_over_plan_then_chip": joint.over_plan_then_chip,
        "gain_over_chip_then_plan": joint.over_chip_then_plan,
        "num_chips": joint.num_chips,
        "num_evaluated": joint.num_evaluated,
        "num_pruned": joint.num_pruned,
        "num_infeasible": joint.num_infeasible,
        "stopped_chips": joint.stopped_chips,
        "stopped_frac": joint.stopped_sequences_per_s / joint.found.sequences_per_s,
    }


def phaze_tables(record: Record) -> tuple[Table, ...]:
    """`record` as `phaze_record` gives it."""
    terms = dict.fromkeys(one["terms"] for one in record["models"])
    by_terms = {name: [one for one in record["models"] if one["terms"] == name] for name in terms}
    placed = [_placements(name, rows) for name, rows in by_terms.items()]
    joined = [_joined(name, rows) for name, rows in by_terms.items() if any(one["joint"] for one in rows)]
    notes = Table(title="What the terms are", notes=tuple(f"- {note}" for note in record["notes"]))
    return (*placed, *(table for pair in joined for table in pair), notes, *nest_tables(record["nest"]))


def _placements(terms: str, models: Sequence[Record]) -> Table:
    rows = []
    for one in models:
        expert, ours, gain = one["expert"], one["ours"], one["placement_gain"]
        cells = [*_placed_cells(expert), *_placed_cells(ours)]
        gap = f"{100 * ours['gap_frac']:.1f} %" if ours else "-"
        rows.append((one["reported_as"], *cells, gap, f"{gain:.2f}" if gain else "-"))
    return Table(
        title=f"PHAZE's models on its TPU v4, {terms} terms: sequences per second",
        columns=("model", "experts", "GiB", "seq/s", "ours", "GiB", "seq/s", "gap", "gain"),
        rows=tuple(rows),
        align="llrrlrrrr",
        notes=("plans as pp/dp/tp; gain: ours over the experts'",),
    )


def _placed_cells(found: Record | None) -> tuple[str, str, str]:
    if not found:
        return "none fits", "-", "-"
    return degrees(found), f"{found['hbm_bytes'] / GIBI:.0f}", rate(found["sequences_per_s"])


def degrees(found: Record) -> str:
    return "/".join(str(found[key]) for key in ("pipeline_parallel", "data_parallel", "tensor_parallel"))


def rate(sequences_per_s: float) -> str:
    return f"{sequences_per_s:,.0f}" if sequences_per_s >= 1000 else f"{sequences_per_s:.4g}"


def _joined(terms: str, models: Sequence[Record]) -> tuple[Table, Table]:
    """What the best chips and plans are, and what they gain: two tables, each for a narrow screen."""
    found = [(one["reported_as"], one["joint"]) for one in models if one["joint"]]
    return _chosen(terms, found), _gained(terms, found)


def _chosen(terms: str, found: Sequence[tuple[str, Record]]) -> Table:
    rows = tuple(
        (
            name,
            degrees(joint["found"]),
            rate(joint["found"]["sequences_per_s"]),
            f"{100 * joint['found']['gap_frac']:.1f} %",
            f"{joint['cores']}, {joint['sram_bytes'] / MEBI:g} MiB, {joint['found']['hbm_bytes'] / GIBI:.0f} GiB",
        )
        for name, joint in found
    )
    return Table(
        title=f"The best chip and plan together, {terms} terms",
        columns=("model", "plan", "seq/s", "gap", "cores, shared SRAM and HBM"),
        rows=rows,
        align="llrrl",
        notes=("plans as pp/dp/tp", f"cores as {READING}"),
    )


def _gained(terms: str, found: Sequence[tuple[str, Record]]) -> Table:
    rows = []
    for name, joint in found:
        gains = [joint[f"gain_over_{other}"] for other in ("expert", "ours", "plan_then_chip", "chip_then_plan")]
        counts = (f"{joint['num_evaluated']:,}", f"{joint['stopped_chips']:,}", f"{joint['stopped_frac']:.2f}")
        rows.append((name, *(f"{gain:.3g}" if gain else "-" for gain in gains), *counts))
    return Table(
        title=f"What both together gain, {terms} terms",
        columns=("model", "/expert", "/ours", "/plan", "/chip", *COUNTS),
        rows=tuple(rows),
        align="lrrrrrrr",
        notes=("/expert and /ours: over PHAZE's TPU v4 with the experts' plan and with ours", SEPARATE, STOPPED),
    )
