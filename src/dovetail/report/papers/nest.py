"""NEST's placements beside ours as plain data for JSON, and as tables."""

from __future__ import annotations

from collections.abc import Sequence

from dovetail.papers.nest import NestRow
from dovetail.papers.phaze import Found
from dovetail.report.plain import Record
from dovetail.report.table import Table

MANUAL = (
    "manual: NEST's own baseline in our model, with the cut its code gives it. That takes the embedding for a layer, so"
    " that the last stage has one layer more than the others (cut: over an equal share). NEST's gain over manual is"
    " that ratio at every scale, and for BERT-large that and the slots that no pipeline has to fill. In our model the"
    " head is in the last stage too, so that manual loses more by it. even: equal stages, as an expert would cut them;"
    " tuned: with the least recompute that fits, too. What is left over those is what a planner is worth here.",
    "NEST's manual column is the filling of the pipeline alone (filling): m/d + s - 1 slots at the smallest scale over"
    " those on 1,024 devices. Ours also has gradients exchanged and weights updated.",
    "PHAZE: our planner with data, pipeline and tensor parallelism alone, in degrees that divide; PHAZE's own plans of"
    " 6 x 164 or 41 x 23 devices are not among them. All but free keep NEST's microbatch of 1.",
)


def nest_record(rows: Sequence[NestRow]) -> list[Record]:
    return [_row_record(row) for row in rows]


def _row_record(row: NestRow) -> Record:
    case = row.case
    names = ("manual", "even", "tuned", "in_phaze_space", "ours", "free")
    return {
        "model": case.model,
        "reported_as": case.name,
        "holds": row.check.holds,
        "gain": row.gain,
        "reported_gain": row.published_gain,
        "last_stage_ratio": case.last_stage_ratio,
        "filled_ratio": case.filled_ratio,
        "reported": {"manual": case.manual, "mcmc": case.mcmc, "phaze": case.phaze, "nest": case.nest},
        "placements": [_found_record(row, name, getattr(row, name)) for name in names],
    }


def _found_record(row: NestRow, name: str, found: Found) -> Record:
    plan = found.plan
    return {
        "placement": name,
        "pipeline_parallel": plan.pipeline_parallel,
        "data_parallel": plan.data_parallel,
        "tensor_parallel": plan.tensor_parallel,
        "expert_parallel": plan.expert_parallel,
        "sequences_per_s": found.sequences_per_s,
        "over_smallest": row.over_smallest(found),
        "gap_frac": found.gap_frac,
    }


def nest_tables(rows: Sequence[Record]) -> tuple[Table, ...]:
    """`rows` as `nest_record` gives them; none where none were asked for."""
    return (_scaled(rows), _gains(rows)) if rows else ()


def _scaled(rows: Sequence[Record]) -> Table:
    cells = []
    for row in rows:
        by_name = {one["placement"]: one for one in row["placements"]}
        ours = [f"{by_name[name]['over_smallest']:.2f}" for name in ("manual", "in_phaze_space", "ours")]
        theirs = [f"{row['reported'][name]:.2f}" for name in ("manual", "phaze", "nest")]
        best = by_name["ours"]
        plan = "/".join(str(best[key]) for key in ("pipeline_parallel", "data_parallel", "tensor_parallel"))
        pairs = [cell for pair in zip(ours, theirs, strict=True) for cell in pair]
        cells.append((row["reported_as"], *pairs, f"{row['filled_ratio']:.2f}", plan))
    return Table(
        title="NEST's system, 1,024 devices: throughput over manual's at the smallest scale, and NEST's own figures",
        columns=("model", "manual", "theirs", "PHAZE", "theirs", "ours", "NEST", "filling", "our plan"),
        rows=tuple(cells),
        align="lrrrrrrrl",
    )


def _gains(rows: Sequence[Record]) -> Table:
    cells = []
    for row in rows:
        by_name = {one["placement"]: one for one in row["placements"]}
        ours = by_name["ours"]["sequences_per_s"]
        over = [f"{ours / by_name[name]['sequences_per_s']:.2f}" for name in ("even", "tuned")]
        free = f"{by_name['free']['sequences_per_s'] / by_name['manual']['sequences_per_s']:.2f}"
        gap = f"{100 * by_name['ours']['gap_frac']:.1f} %"
        verdict = "ok" if row["holds"] else "MISSED"
        gains = [f"{row[key]:.2f}" for key in ("gain", "reported_gain", "last_stage_ratio")]
        cells.append((row["reported_as"], *gains, *over, free, gap, verdict))
    return Table(
        title="What our placement gains on NEST's system, over manual and over better baselines",
        columns=("model", "/manual", "NEST's", "cut", "/even", "/tuned", "free/manual", "gap", ""),
        rows=tuple(cells),
        align="lrrrrrrr",
        notes=tuple(f"- {note}" for note in (*MANUAL, *_less(rows))),
    )


def _less(rows: Sequence[Record]) -> tuple[str, ...]:
    """Where even stages leave a planner less to gain than NEST reports over its manual."""
    named = []
    for row in rows:
        by_name = {one["placement"]: one for one in row["placements"]}
        over_even = by_name["ours"]["sequences_per_s"] / by_name["even"]["sequences_per_s"]
        if over_even < row["reported_gain"]:
            most = over_even / (1 - by_name["ours"]["gap_frac"])
            named.append(f"{row['reported_as']} (at most {most:.2f})")
    if not named:
        return ()
    return (f"Over even stages no plan gains in our model what NEST reports over its manual: {', '.join(named)}.",)
