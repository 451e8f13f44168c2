"""PHAZE's models as plain data for JSON, and as tables: experts, our plans, the best chips, and NEST's placements."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.hardware.template import design_of
from dovetail.papers.phaze import Compared, Found, Joint, OtherSearches
from dovetail.papers.phaze_claims import Phaze, claims
from dovetail.report.codesigned import READING
from dovetail.report.papers.claims import claim_record, claims_table, mapper_records
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


def phaze_record(found: Phaze) -> Record:
    return {
        "paper": "PHAZE",
        "holds": all(row.check.holds for row in found.nest),
        "mappers": mapper_records(),
        "claims": [claim_record(claim) for claim in claims(found)],
        "models": [compared_record(one) for one in found.ours],
        "by_paper_mapper": [compared_record(one) for one in found.by_paper_mapper],
        "nest": nest_record(found.nest),
        "nest_by_paper_mapper": nest_record(found.nest_by_paper_mapper),
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
        "real": _real_record(one.real) if one.real else None,
    }


def _real_record(real: Compared) -> Record:
    """Around a real TPU v4."""
    return {
        "expert": found_record(real.expert),
        "ours": found_record(real.ours),
        "joint": _joint_record(real, real.joint) if real.joint else None,
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
        "num_chips": joint.num_chips,
        "num_evaluated": joint.num_evaluated,
        "num_pruned": joint.num_pruned,
        "num_infeasible": joint.num_infeasible,
        **(_beside_record(joint, joint.beside) if joint.beside else {}),
    }


def _beside_record(joint: Joint, beside: OtherSearches) -> Record:
    return {
        "searched_sequences_per_s": beside.searched_sequences_per_s,
        "gain_over_plan_then_chip": beside.over_plan_then_chip,
        "gain_over_chip_then_plan": beside.over_chip_then_plan,
        "stopped_chips": beside.stopped_chips,
        "stopped_frac": beside.stopped_sequences_per_s / joint.found.sequences_per_s,
    }


def phaze_tables(record: Record) -> tuple[Table, ...]:
    """`record` as `phaze_record` gives it."""
    terms = dict.fromkeys(one["terms"] for one in record["models"])
    by_terms = {name: [one for one in record["models"] if one["terms"] == name] for name in terms}
    title = "PHAZE's claims beside ours, 1,024 devices and 4,096 sequences per step; times as good"
    first = [claims_table(title, "paper", record["claims"])]
    if record["by_paper_mapper"]:
        first.append(_by_mapper(record))
    placed = [_placements(name, rows) for name, rows in by_terms.items()]
    joined = [_joined(name, rows) for name, rows in by_terms.items() if any(one["joint"] for one in rows)]
    notes = Table(title="What the terms are", notes=tuple(f"- {note}" for note in record["notes"]))
    return (*first, *placed, *(table for pair in joined for table in pair), notes, *nest_tables(record["nest"]))


def _by_mapper(record: Record) -> Table:
    """What a model gains on published terms, by the paper's mapper and by ours."""
    ours = {one["model"]: one for one in record["models"] if one["terms"] == record["by_paper_mapper"][0]["terms"]}
    rows = []
    for theirs in record["by_paper_mapper"]:
        pair = (theirs, ours[theirs["model"]])
        gains = [one["placement_gain"] for one in pair]
        gains += [(one["joint"] or {}).get(key) for key in ("gain_over_expert", "gain_over_ours") for one in pair]
        real = [(one["real"] or {}).get("joint") or {} for one in pair]
        gains += [one.get("gain_over_ours") for one in real]
        rows.append((theirs["reported_as"], *("-" if gain is None else f"{gain:.2f}" for gain in gains)))
    return Table(
        title="By model on published terms, the paper's mapper before ours: our plan over the experts', the best chip"
        " and plan over the experts' and over our plan, and around a real TPU v4 in its mm2 and W over our plan",
        columns=("model", "plan, its", "ours", "/expert", "ours", "/plan", "ours", "real", "ours"),
        rows=tuple(rows),
        align="l" + "r" * 8,
    )


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
